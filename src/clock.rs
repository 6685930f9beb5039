//! Where time comes from. Nothing else in the crate asks the operating system for it, so tests own it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;

use crate::domain::Timestamp;

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Now; may go back, as wall clocks do.
    fn now(&self) -> Timestamp;
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the operating system")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Stands at `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.millis()))
    }

    /// Moves by `millis`, back if negative.
    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}
