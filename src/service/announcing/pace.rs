//! How many receivers are told at a time, so that an announcement to 100,000 is soon told and nobody who chats waits for it.
//!
//! What a telling takes says how busy the store is: as long as it takes about what it takes at best, more are told at a
//! time, and they share commits; when it takes much longer, others wait, too, and fewer are told, with a rest after each page.

use std::time::Duration;

/// The most receivers that are told at a time: a send that meets them waits for a commit with so many INBOXes at the most.
pub(super) const AT_ONCE_MAX: usize = 8;
/// How many are told at a time at first, and at least.
const AT_ONCE_MIN: usize = 4;
/// So many more after a page that went well.
const STEP: usize = 4;
/// A telling that takes so many times the best is one that waits.
const SLOW_FACTOR: u32 = 2;
/// So much of the best is added to it after each page: a store that has become slower for good is known as such in time.
const FORGOTTEN_PART: u32 = 100;
/// After a page that went well nobody is told for this part of what it took …
const SHORT_REST_PART: u32 = 2;
/// … and after a slow one for as long as it took, but no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// What was learned from the pages so far.
#[derive(Debug)]
pub(super) struct Pace {
    at_once: usize,
    /// What the quickest pages needed for a receiver.
    best: Option<Duration>,
    /// The last page waited for others, or made them wait.
    is_slow: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            at_once: AT_ONCE_MIN,
            best: None,
            is_slow: false,
        }
    }
}

impl Pace {
    /// How many to tell at a time.
    pub(super) const fn at_once(&self) -> usize {
        self.at_once
    }

    /// What each telling of a page took.
    pub(super) fn learn(&mut self, mut took: Vec<Duration>) {
        took.sort_unstable();
        let Some(middle) = took.get(took.len() / 2).copied() else {
            return;
        };
        let best = self
            .best
            .map_or(middle, |best| middle.min(best + best / FORGOTTEN_PART));
        self.best = Some(best);
        self.is_slow = middle > best * SLOW_FACTOR;
        self.at_once = if self.is_slow {
            self.at_once / 2
        } else {
            self.at_once + STEP
        }
        .clamp(AT_ONCE_MIN, AT_ONCE_MAX);
    }

    /// How long nobody is told after a turn that took so long.
    pub(super) fn rest(&self, turn: Duration) -> Duration {
        let rest = if self.is_slow { turn } else { turn / SHORT_REST_PART };
        rest.min(LONGEST_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(2);
    const SLOW: Duration = Duration::from_millis(20);

    fn after(pages: &[Duration]) -> Pace {
        let mut pace = Pace::default();
        for took in pages {
            pace.learn(vec![*took; 9]);
        }
        pace
    }

    #[test]
    fn more_are_told_at_a_time_as_long_as_nobody_waits_and_fewer_when_somebody_does() {
        assert_eq!(after(&[]).at_once(), AT_ONCE_MIN);
        assert_eq!(after(&[QUICK]).at_once(), AT_ONCE_MIN + STEP);
        assert_eq!(after(&[QUICK; 100]).at_once(), AT_ONCE_MAX);
        assert_eq!(after(&[QUICK, QUICK, SLOW]).at_once(), AT_ONCE_MAX / 2);
        assert_eq!(after(&[QUICK, SLOW, SLOW, SLOW]).at_once(), AT_ONCE_MIN);
        // One that was slow among many says nothing.
        let mut pace = after(&[QUICK]);
        pace.learn(vec![QUICK, QUICK, SLOW]);
        assert!(!pace.is_slow);
    }

    #[test]
    fn a_slow_page_is_followed_by_a_rest_as_long_as_its_turn_and_no_longer_than_a_second() {
        let turn = Duration::from_millis(400);
        assert_eq!(after(&[QUICK]).rest(turn), turn / SHORT_REST_PART);
        let slow = after(&[QUICK, SLOW]);
        assert_eq!(slow.rest(turn), turn);
        assert_eq!(slow.rest(turn * 10), LONGEST_REST);
    }

    #[test]
    fn a_store_that_is_slower_for_good_is_not_slow_for_ever() {
        let mut pages = vec![QUICK];
        pages.extend([SLOW; 300]);
        let pace = after(&pages);
        assert!(!pace.is_slow && pace.at_once() == AT_ONCE_MAX);
    }
}
