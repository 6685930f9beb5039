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
        let mut flake = self.flake.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: a thread that was held up between its look at the clock and its turn would come with a
        // time that others have passed, as if the clock had gone back.
        let now = self.clock.now();
        // After a long stop (SIGSTOP, a frozen machine) another process may have our worker id.
        if now.millis() >= self.lease_until.load(Ordering::Acquire) {
            return Err(DomainError::LeaseLost);
        }
        flake.next(now)
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

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;
    use std::time::Duration;

    use super::*;

    const START_MS: i64 = 1_800_000_000_000;
    /// Long enough for the other thread to get its id, if nothing keeps it from that.
    const HELD_UP: Duration = Duration::from_millis(100);

    /// Holds up whoever asks first, until another thread, which sees a later time, has an id or had to wait for it.
    #[derive(Default)]
    struct HoldsUp {
        ids: OnceLock<Arc<Ids>>,
        asked: AtomicI64,
    }

    impl Clock for HoldsUp {
        fn now(&self) -> Timestamp {
            if self.asked.fetch_add(1, Ordering::SeqCst) > 0 {
                return Timestamp::from_millis(START_MS + 10_000);
            }
            let ids = Arc::clone(self.ids.get().expect("given"));
            let (done, overtaken): (_, Receiver<()>) = channel();
            thread::spawn(move || {
                ids.next().expect("its clock stands later");
                done.send(()).ok();
            });
            overtaken.recv_timeout(HELD_UP).ok();
            Timestamp::from_millis(START_MS)
        }
    }

    #[test]
    fn a_thread_that_is_held_up_after_its_look_at_the_clock_still_gets_an_id() {
        let clock = Arc::new(HoldsUp::default());
        let flake = Snowflake::new(1, Timestamp::from_millis(0)).expect("a worker");
        let ids = Arc::new(Ids::new(
            Arc::<HoldsUp>::clone(&clock),
            flake,
            Timestamp::from_millis(i64::MAX),
        ));
        clock.ids.set(Arc::clone(&ids)).ok();
        assert!(ids.next().is_ok(), "the clock never went back");
    }
}
