//! Hands out ids: the snowflake, the worker lease and the clock put together.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::domain::snowflake::Snowflake;
use crate::domain::{ConversationId, DomainError, MessageId, Timestamp};

/// The id generator of this process. Cheap to share; a lock is held for some nanoseconds.
pub struct Ids {
    clock: Arc<dyn Clock>,
    flake: Mutex<Snowflake>,
    lease_until: AtomicI64,
}

impl Ids {
    /// Gives ids as long as the lease holds.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, flake: Snowflake, lease_until: Timestamp) -> Self {
        Self {
            clock,
            flake: Mutex::new(flake),
            lease_until: AtomicI64::new(lease_until.millis()),
        }
    }

    /// A message id.
    ///
    /// # Errors
    /// [`DomainError::ClockMovedBackwards`] and [`DomainError::LeaseLost`]; nothing was used up.
    pub fn message_id(&self) -> Result<MessageId, DomainError> {
        MessageId::new(self.next()?).ok_or(DomainError::LeaseLost)
    }

    /// A conversation id.
    ///
    /// # Errors
    /// As [`Ids::message_id`].
    pub fn conversation_id(&self) -> Result<ConversationId, DomainError> {
        ConversationId::new(self.next()?).ok_or(DomainError::LeaseLost)
    }

    /// A plain number, for principals.
    ///
    /// # Errors
    /// As [`Ids::message_id`].
    pub fn next(&self) -> Result<i64, DomainError> {
        let now = self.clock.now();
        // After a long stop (SIGSTOP, a frozen machine) another process may have our worker id.
        if now.millis() >= self.lease_until.load(Ordering::Acquire) {
            return Err(DomainError::LeaseLost);
        }
        self.flake.lock().unwrap_or_else(PoisonError::into_inner).next(now)
    }

    /// The lease was renewed, or (with a time that has passed) lost.
    pub fn extend_lease(&self, until: Timestamp) {
        self.lease_until.store(until.millis(), Ordering::Release);
    }

    /// What a restart must not go behind.
    pub fn last_issued(&self) -> Timestamp {
        self.flake.lock().unwrap_or_else(PoisonError::into_inner).last_issued()
    }
}
