//! When a hub writes again. A write costs about the same whatever is in it, so a hub that spends much of its time on
//! writes leaves the others of the machine a moment, and what comes meanwhile goes out with one write per connection. A
//! hub that has little to write never waits.

use std::time::Duration;

use tokio::time::Instant;

/// For each part of time that it has written it leaves so many to others.
const REST_PER_WORK: u32 = 4;
/// Timers are no finer: less is not waited for, but adds up.
const REST_MIN: Duration = Duration::from_millis(1);
/// Nobody is told later than by this because of it.
pub(in super::super) const REST_MAX: Duration = Duration::from_millis(5);

/// What a hub owes to others for the time that it has spent on writes.
#[derive(Default)]
pub(super) struct Rest {
    until: Option<Instant>,
}

impl Rest {
    /// It has written for so long, until `now`.
    pub(super) fn wrote(&mut self, wrote: Duration, now: Instant) {
        let from = self.until.map_or(now, |until| until.max(now));
        self.until = Some((from + wrote * REST_PER_WORK).min(now + REST_MAX));
    }

    /// So long it should not write; `None` = it may.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        (left >= REST_MIN).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: Duration = Duration::from_millis(1);

    #[test]
    fn a_hub_that_writes_little_never_waits() {
        let (mut rest, mut now) = (Rest::default(), Instant::now());
        for _ in 0..1_000 {
            assert_eq!(rest.left(now), None);
            rest.wrote(MILLIS, now);
            now += MILLIS * REST_PER_WORK;
        }
    }

    #[test]
    fn many_short_writes_add_up_and_nobody_waits_for_longer_than_the_longest_rest() {
        let (mut rest, now) = (Rest::default(), Instant::now());
        let short = REST_MIN / REST_PER_WORK / 2;
        rest.wrote(short, now);
        assert_eq!(rest.left(now), None);
        rest.wrote(short, now);
        assert_eq!(rest.left(now), Some(REST_MIN));
        for _ in 0..100 {
            rest.wrote(MILLIS, now);
        }
        assert_eq!(rest.left(now), Some(REST_MAX));
        assert_eq!(rest.left(now + REST_MAX), None);
    }
}
