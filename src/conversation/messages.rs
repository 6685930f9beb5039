//! What goes into a conversation's writer and what comes out of it.

use std::collections::HashMap;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::domain::{ConversationId, DomainError, Event, Head, Header, Outcome, Principal, Seq};

/// Why a command has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// The rules refuse it. Nothing was stored, no number was used.
    #[error(transparent)]
    Refused(#[from] DomainError),
    /// A bounded queue is full. Nothing was stored.
    #[error("too much is waiting here; try again in a moment")]
    Overloaded,
    /// The store did not take it, or it is not known whether it did: ask again with the same key.
    #[error("the outcome is unknown: ask again with the same client_message_id")]
    Unavailable,
}

/// The answer to one command.
pub type Answer = Result<Outcome, CommandError>;

/// A frame of a WebSocket session that waits for its answer. Plain numbers: the writer only hands them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionReply {
    /// The hub of the arbiter on which the session lives.
    pub hub: usize,
    /// The session, unique in this process.
    pub session: u64,
    /// The session's own ticket for the frame: a client may use an `id` twice.
    pub frame: u64,
}

/// Who gets the answer.
#[derive(Debug)]
pub enum ReplyTo {
    /// A caller that waits.
    Caller(oneshot::Sender<Answer>),
    /// A session: its answer travels with the pushes of the same commit, so that neither overtakes the other.
    Session(SessionReply),
}

/// One thing of a commit, in the order in which the conversation produced it.
#[derive(Clone, Debug)]
pub enum Step {
    /// For the members.
    Event(Event),
    /// For one session.
    Answer(SessionReply, Answer),
}

/// What was committed; given out in commit order.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Where.
    pub conversation_id: ConversationId,
    /// The header after the whole of it.
    pub header: Arc<Header>,
    /// The head after the whole of it.
    pub head: Head,
    /// Present members after the whole of it.
    pub member_count: usize,
    /// How far those who have come back had cleared it when they were members before.
    pub cleared: HashMap<Principal, Seq>,
    /// What happened.
    pub steps: Vec<Step>,
}

/// Where facts go. `app` passes delivery in: the writer does not know it.
pub trait Publisher: Send + Sync {
    /// Spreads a commit. Never waits; called in commit order for each conversation.
    fn committed(&self, committed: Committed);
    /// Answers a session outside a commit.
    fn answer(&self, to: SessionReply, answer: Answer);
}
