//! What the rules refuse. Each variant has one stable code of the contract (`protocol::error` maps them).

use thiserror::Error;

use super::ids::{ConversationId, MessageId, Seq};

/// A field that breaks a rule, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {hint}")]
pub struct InvalidField {
    /// The field as the client names it.
    pub field: &'static str,
    /// What is expected.
    pub hint: &'static str,
}

impl InvalidField {
    /// Names the field and says what is expected.
    #[must_use]
    pub const fn new(field: &'static str, hint: &'static str) -> Self {
        Self { field, hint }
    }
}

/// Why a command was refused. Nothing was stored and no number was used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DomainError {
    /// A value that the contract does not allow.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    /// Content over the limit.
    #[error("content has {bytes} bytes in compact form, {max} are allowed")]
    ContentTooLarge {
        /// Size of the compact form.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// No such conversation.
    #[error("no such conversation")]
    ConversationNotFound,
    /// The conversation exists, the caller is not in it.
    #[error("you are not a member of this conversation")]
    NotAMember,
    /// Authenticated, but not allowed.
    #[error("{0}")]
    Forbidden(&'static str),
    /// No such message, or none that the caller may see.
    #[error("{0}")]
    NotFound(&'static str),
    /// The same key was used for another payload.
    #[error("this client_message_id was already used for another message")]
    KeyReused {
        /// The first message.
        original: MessageId,
    },
    /// The message was recalled, which is final.
    #[error("this message was recalled")]
    Recalled,
    /// The sender may not recall any more.
    #[error("a message can be recalled for {window_secs} seconds after it was sent")]
    RecallTooLate {
        /// `limits.recall_window_secs`
        window_secs: i64,
    },
    /// The conversation was dissolved.
    #[error("this conversation is closed")]
    Closed,
    /// `expected_last_seq` was given and the head is elsewhere.
    #[error("the conversation has moved on to seq {last_seq}")]
    PreconditionFailed {
        /// Where the head is.
        last_seq: Seq,
    },
    /// A conversation with the same creation key is there already.
    #[error("this conversation exists already")]
    AlreadyCreated {
        /// The first one.
        conversation_id: ConversationId,
    },
    /// The opposite answer was given before, or it is too late for one.
    #[error("this was answered before, or its time has passed")]
    AlreadyDecided,
    /// A friend request to somebody who is a contact.
    #[error("you are contacts already")]
    AlreadyContacts,
    /// The wall clock went back by more than the tolerance.
    #[error("the clock of the server moved backwards by {by_ms} ms; try again")]
    ClockMovedBackwards {
        /// How far.
        by_ms: i64,
    },
    /// This process has lost the lease of its worker id (it was stopped for too long, or cannot reach the store).
    #[error("this server cannot give out ids at the moment; try again")]
    LeaseLost,
}
