//! The stable error codes of the contract: what a caller can do about a refusal.

use super::error::DomainError;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $retryable:literal;)+) => {
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

            /// May the same request succeed later?
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $(Self::$variant => $retryable),+ }
            }
        }
    };
}

codes! {
    /// Malformed JSON, a wrong type, a value out of range.
    InvalidRequest = "invalid_request", false;
    /// No, an invalid or an expired token.
    Unauthenticated = "unauthenticated", false;
    /// Authenticated, not allowed.
    Forbidden = "forbidden", false;
    /// The conversation exists, the caller is not in it.
    NotAMember = "not_a_member", false;
    /// The sender recalls too late.
    RecallWindowExpired = "recall_window_expired", false;
    /// No such thing, or none that the caller may see.
    NotFound = "not_found", false;
    /// Same key, other payload.
    IdempotencyKeyReused = "idempotency_key_reused", false;
    /// Editing a recalled message.
    MessageRecalled = "message_recalled", false;
    /// Writing to a dissolved conversation.
    ConversationClosed = "conversation_closed", false;
    /// An external id that another principal holds.
    AlreadyExists = "already_exists", false;
    /// The opposite answer was given before.
    AlreadyDecided = "already_decided", false;
    /// The head is elsewhere.
    PreconditionFailed = "precondition_failed", false;
    /// The history is of another store.
    HistoryReset = "history_reset", false;
    /// Over a limit in bytes.
    PayloadTooLarge = "payload_too_large", false;
    /// Too many requests.
    RateLimited = "rate_limited", true;
    /// The id generator refuses.
    ClockMovedBackwards = "clock_moved_backwards", true;
    /// A bounded queue is full; nothing was stored.
    Overloaded = "overloaded", true;
    /// Unreachable, or the outcome is unknown: ask again with the same key.
    Unavailable = "unavailable", true;
    /// A bug.
    Internal = "internal", false;
}

impl DomainError {
    /// The code of this refusal.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidRequest,
            Self::ContentTooLarge { .. } => Code::PayloadTooLarge,
            Self::ConversationNotFound | Self::NotFound(_) => Code::NotFound,
            Self::NotAMember => Code::NotAMember,
            Self::Forbidden(_) => Code::Forbidden,
            Self::KeyReused { .. } => Code::IdempotencyKeyReused,
            Self::Recalled => Code::MessageRecalled,
            Self::RecallTooLate { .. } => Code::RecallWindowExpired,
            Self::Closed => Code::ConversationClosed,
            Self::PreconditionFailed { .. } => Code::PreconditionFailed,
            Self::AlreadyCreated { .. } | Self::AlreadyContacts => Code::AlreadyExists,
            Self::AlreadyDecided => Code::AlreadyDecided,
            Self::ClockMovedBackwards { .. } => Code::ClockMovedBackwards,
            Self::LeaseLost => Code::Unavailable,
        }
    }
}
