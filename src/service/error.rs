//! What a use case refuses, in words for the caller. What is meant for the operator goes to the log instead.

use std::fmt;

use crate::conversation::CommandError;
use crate::domain::{Code, DomainError, EventNo, InvalidField, Marked, Seq};
use crate::storage::StoreError;

/// How long a caller should wait before it asks a busy or unreachable server again.
const RETRY_AFTER_MS: u64 = 1_000;

/// A refusal: the code says what to do, the detail why. Never a word of SQL, never a secret.
#[derive(Clone, Debug)]
pub struct ServiceError {
    /// The stable code.
    pub code: Code,
    /// For people; names the field where one is wrong.
    pub detail: String,
    /// What some codes carry besides.
    pub extra: Extra,
}

/// The members that some errors of the contract have.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// With `idempotency_key_reused`: the first message of the key, as it is now.
    pub original: Option<Box<Marked>>,
    /// With `precondition_failed`: where the head is.
    pub last_seq: Option<Seq>,
    /// With `history_reset` of the event feed: the oldest and the newest event that are kept.
    pub events: Option<Box<(EventNo, EventNo)>>,
    /// With retryable codes: when to come again.
    pub retry_after_ms: Option<u64>,
}

impl ServiceError {
    /// A refusal with nothing besides; retryable ones say when to come again.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            extra: Extra {
                retry_after_ms: code.retryable().then_some(RETRY_AFTER_MS),
                ..Extra::default()
            },
        }
    }

    /// A bug or a damaged store. `inside` goes to the log, into the span of the request that the client is told of.
    #[must_use]
    pub fn internal(inside: &dyn fmt::Display) -> Self {
        tracing::error!(error = %inside, "internal error");
        Self::new(
            Code::Internal,
            "the server has made a mistake; tell its operator the trace_id",
        )
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.detail)
    }
}

impl std::error::Error for ServiceError {}

impl From<DomainError> for ServiceError {
    fn from(error: DomainError) -> Self {
        let mut refusal = Self::new(error.code(), error.to_string());
        if let DomainError::PreconditionFailed { last_seq } = error {
            refusal.extra.last_seq = Some(last_seq);
        }
        refusal
    }
}

impl From<InvalidField> for ServiceError {
    fn from(error: InvalidField) -> Self {
        DomainError::from(error).into()
    }
}

impl From<CommandError> for ServiceError {
    /// Without `original`: see [`super::Messages::refusal`].
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Refused(error) => error.into(),
            CommandError::Overloaded => Self::new(Code::Overloaded, error.to_string()),
            CommandError::Unavailable => Self::new(Code::Unavailable, error.to_string()),
        }
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Inconsistent(_) => Self::internal(&error),
            StoreError::Unavailable(_) | StoreError::NoFreeWorker => {
                tracing::warn!(%error, "the store did not answer");
                Self::new(
                    Code::Unavailable,
                    "the store cannot be reached at the moment; try again",
                )
            }
        }
    }
}
