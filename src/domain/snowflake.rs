//! 63-bit ids: 41 bits of milliseconds since [`EPOCH_MS`], 10 bits of worker, 12 bits of sequence.
//!
//! The layout is Twitter's snowflake (2010). Two rules are ours, since ids repeat elsewhere when a clock goes
//! back (B09): the generator's time never goes back (it stands still for up to [`CLOCK_BACK_MAX_MS`], beyond that
//! it refuses), and when the 4,096 ids of a millisecond are used up it borrows from the next instead of spinning.

use super::error::DomainError;
use super::ids::Timestamp;

/// 2025-01-01T00:00:00Z. The 41 bits last until 2094.
pub const EPOCH_MS: i64 = 1_735_689_600_000;
/// How far the wall clock may be behind the newest id before ids are refused.
pub const CLOCK_BACK_MAX_MS: i64 = 5;
/// Worker ids are below this.
pub const WORKERS_MAX: u16 = 1 << WORKER_BITS;

const WORKER_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;
const SEQUENCE_MASK: i64 = (1 << SEQUENCE_BITS) - 1;

/// The state of one worker's generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snowflake {
    worker: i64,
    /// Time of the newest id, in ms since 1970.
    last_ms: i64,
    sequence: i64,
}

impl Snowflake {
    /// A generator that gives no id of `not_before` or earlier. `None` when `worker` has more than 10 bits.
    #[must_use]
    pub fn new(worker: u16, not_before: Timestamp) -> Option<Self> {
        (worker < WORKERS_MAX).then(|| Self {
            worker: i64::from(worker),
            last_ms: not_before.millis().max(EPOCH_MS),
            sequence: SEQUENCE_MASK,
        })
    }

    /// The next id, greater than every one before it. The state changes only on success.
    ///
    /// # Errors
    /// [`DomainError::ClockMovedBackwards`] when `now` is more than [`CLOCK_BACK_MAX_MS`] behind the newest id.
    pub fn next(&mut self, now: Timestamp) -> Result<i64, DomainError> {
        let by_ms = self.last_ms.saturating_sub(now.millis());
        if by_ms > CLOCK_BACK_MAX_MS {
            return Err(DomainError::ClockMovedBackwards { by_ms });
        }
        let (last_ms, sequence) = if now.millis() > self.last_ms {
            (now.millis(), 0)
        } else if self.sequence < SEQUENCE_MASK {
            (self.last_ms, self.sequence + 1)
        } else {
            (self.last_ms + 1, 0)
        };
        self.last_ms = last_ms;
        self.sequence = sequence;
        Ok((last_ms - EPOCH_MS) << (WORKER_BITS + SEQUENCE_BITS) | self.worker << SEQUENCE_BITS | sequence)
    }

    /// The time of the newest id: what a restart must not go behind.
    #[must_use]
    pub const fn last_issued(&self) -> Timestamp {
        Timestamp::from_millis(self.last_ms)
    }
}

/// The time inside an id.
#[must_use]
pub const fn time_of(id: i64) -> Timestamp {
    Timestamp::from_millis((id >> (WORKER_BITS + SEQUENCE_BITS)) + EPOCH_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = EPOCH_MS + 1_000_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn ids_rise_also_when_a_millisecond_is_used_up() {
        let mut flake = Snowflake::new(3, at(0)).unwrap();
        let ids: Vec<i64> = (0..10_000).map(|_| flake.next(at(NOW)).unwrap()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(time_of(ids[0]), at(NOW));
        assert_eq!(time_of(ids[9_999]), at(NOW + 2), "borrowed from the next milliseconds");
    }

    #[test]
    fn b09_a_clock_that_goes_back_a_little_stands_still_and_a_lot_is_refused() {
        let mut flake = Snowflake::new(0, at(0)).unwrap();
        let first = flake.next(at(NOW)).unwrap();
        let second = flake.next(at(NOW - CLOCK_BACK_MAX_MS)).unwrap();
        assert!(second > first && time_of(second) == at(NOW));
        let before = flake;
        assert_eq!(
            flake.next(at(NOW - 6)),
            Err(DomainError::ClockMovedBackwards { by_ms: 6 })
        );
        assert_eq!(flake, before, "a refusal uses nothing up");
        assert!(flake.next(at(NOW + 1)).unwrap() > second);
    }

    #[test]
    fn a_restart_cannot_go_back_behind_the_last_id() {
        let mut flake = Snowflake::new(0, at(NOW)).unwrap();
        assert!(flake.next(at(NOW - 3_600_000)).is_err());
        assert!(time_of(flake.next(at(NOW)).unwrap()) > at(NOW));
    }

    #[test]
    fn workers_share_no_id() {
        let mut one = Snowflake::new(1, at(0)).unwrap();
        let mut two = Snowflake::new(2, at(0)).unwrap();
        assert_ne!(one.next(at(NOW)).unwrap(), two.next(at(NOW)).unwrap());
        assert!(Snowflake::new(WORKERS_MAX, at(0)).is_none());
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config {
            failure_persistence: None,
            ..proptest::test_runner::Config::with_cases(64)
        })]

        #[test]
        fn ids_rise_however_the_clock_jumps(jumps in proptest::collection::vec(-20_i64..20, 1..300)) {
            let mut flake = Snowflake::new(1, at(NOW)).unwrap();
            let (mut now, mut newest) = (NOW, 0);
            for jump in jumps {
                now += jump;
                let before = flake.last_issued().millis();
                match flake.next(at(now)) {
                    Ok(id) => {
                        assert!(id > newest);
                        newest = id;
                    }
                    Err(_) => assert!(before - now > CLOCK_BACK_MAX_MS),
                }
            }
        }
    }
}
