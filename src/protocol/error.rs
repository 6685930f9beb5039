//! The table of error codes on the wire: HTTP status and title. A name here is a promise.

use serde::Serialize;

use crate::domain::DomainError;

pub use crate::domain::Code;

impl Code {
    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden | Self::NotAMember | Self::RecallWindowExpired => 403,
            Self::NotFound => 404,
            Self::IdempotencyKeyReused
            | Self::MessageRecalled
            | Self::ConversationClosed
            | Self::AlreadyExists
            | Self::AlreadyDecided
            | Self::PreconditionFailed
            | Self::HistoryReset => 409,
            Self::PayloadTooLarge => 413,
            Self::RateLimited => 429,
            Self::ClockMovedBackwards | Self::Overloaded | Self::Unavailable => 503,
            Self::Internal => 500,
        }
    }

    /// A short name for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::InvalidRequest => "Invalid request",
            Self::Unauthenticated => "Not authenticated",
            Self::Forbidden => "Forbidden",
            Self::NotAMember => "Not a member",
            Self::RecallWindowExpired => "Too late to recall",
            Self::NotFound => "Not found",
            Self::IdempotencyKeyReused => "Key used for another message",
            Self::MessageRecalled => "Message was recalled",
            Self::ConversationClosed => "Conversation is closed",
            Self::AlreadyExists => "Exists already",
            Self::AlreadyDecided => "Decided already",
            Self::PreconditionFailed => "Precondition failed",
            Self::HistoryReset => "History was reset",
            Self::PayloadTooLarge => "Too large",
            Self::RateLimited => "Too many requests",
            Self::ClockMovedBackwards => "Clock moved backwards",
            Self::Overloaded => "Overloaded",
            Self::Unavailable => "Unavailable",
            Self::Internal => "Internal error",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The code of a refusal of the domain.
#[must_use]
pub const fn code_of(error: &DomainError) -> Code {
    error.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_offered_exactly_where_the_status_says_come_again() {
        for code in Code::ALL {
            assert_eq!(
                code.retryable(),
                matches!(code.status(), 429 | 503),
                "{}",
                code.as_str()
            );
        }
    }
}
