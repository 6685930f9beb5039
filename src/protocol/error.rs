//! The table of error codes: code, HTTP status, whether a retry may help. A name here is a promise.

use serde::Serialize;

use crate::domain::DomainError;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $status:literal, $retryable:literal, $title:literal;)+) => {
        /// A stable error code of the contract.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant),+ }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word of the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            /// May the same request succeed later?
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $(Self::$variant => $retryable),+ }
            }

            /// A short name for people.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }
    };
}

codes! {
    /// Malformed JSON, a wrong type, a value out of range.
    InvalidRequest = "invalid_request", 400, false, "Invalid request";
    /// No, an invalid or an expired token.
    Unauthenticated = "unauthenticated", 401, false, "Not authenticated";
    /// Authenticated, not allowed.
    Forbidden = "forbidden", 403, false, "Forbidden";
    /// The conversation exists, the caller is not in it.
    NotAMember = "not_a_member", 403, false, "Not a member";
    /// The sender recalls too late.
    RecallWindowExpired = "recall_window_expired", 403, false, "Too late to recall";
    /// No such thing, or none that the caller may see.
    NotFound = "not_found", 404, false, "Not found";
    /// Same key, other payload.
    IdempotencyKeyReused = "idempotency_key_reused", 409, false, "Key used for another message";
    /// Editing a recalled message.
    MessageRecalled = "message_recalled", 409, false, "Message was recalled";
    /// Writing to a dissolved conversation.
    ConversationClosed = "conversation_closed", 409, false, "Conversation is closed";
    /// An external id that another principal holds.
    AlreadyExists = "already_exists", 409, false, "Exists already";
    /// The opposite answer was given before.
    AlreadyDecided = "already_decided", 409, false, "Decided already";
    /// The head is elsewhere.
    PreconditionFailed = "precondition_failed", 409, false, "Precondition failed";
    /// The history is of another store.
    HistoryReset = "history_reset", 409, false, "History was reset";
    /// Over a limit in bytes.
    PayloadTooLarge = "payload_too_large", 413, false, "Too large";
    /// Too many requests.
    RateLimited = "rate_limited", 429, true, "Too many requests";
    /// The id generator refuses.
    ClockMovedBackwards = "clock_moved_backwards", 503, true, "Clock moved backwards";
    /// A bounded queue is full; nothing was stored.
    Overloaded = "overloaded", 503, true, "Overloaded";
    /// Unreachable, or the outcome is unknown: ask again with the same key.
    Unavailable = "unavailable", 503, true, "Unavailable";
    /// A bug.
    Internal = "internal", 500, false, "Internal error";
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The code of a refusal of the domain.
#[must_use]
pub const fn code_of(error: &DomainError) -> Code {
    match error {
        DomainError::Invalid(_) => Code::InvalidRequest,
        DomainError::ContentTooLarge { .. } => Code::PayloadTooLarge,
        DomainError::ConversationNotFound | DomainError::NotFound(_) => Code::NotFound,
        DomainError::NotAMember => Code::NotAMember,
        DomainError::Forbidden(_) => Code::Forbidden,
        DomainError::KeyReused { .. } => Code::IdempotencyKeyReused,
        DomainError::Closed => Code::ConversationClosed,
        DomainError::PreconditionFailed { .. } => Code::PreconditionFailed,
        DomainError::AlreadyCreated { .. } => Code::AlreadyExists,
        DomainError::ClockMovedBackwards { .. } => Code::ClockMovedBackwards,
        DomainError::LeaseLost => Code::Unavailable,
    }
}
