//! A row of numbers, each to come once and in order. What is missing is kept as ranges, so a good row takes no memory.

use std::collections::VecDeque;
use std::ops::Range;

/// Holes that one row remembers; more than that, and the oldest is counted but no longer recognised.
const HOLES_MAX: usize = 1_024;

/// Where a number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is the next one.
    Next,
    /// So many numbers before it have not come.
    Skips(u64),
    /// It fills a hole: numbers after it came before it.
    Late,
    /// It was there already.
    Again,
    /// It lies where holes are no longer told apart.
    Unknown,
}

/// What has come so far.
#[derive(Debug)]
pub(super) struct Row {
    next: u64,
    holes: VecDeque<Range<u64>>,
    /// Numbers of holes that are no longer kept, and where the last of those ended.
    forgotten: u64,
    told_apart_from: u64,
}

impl Row {
    /// `first` is the first number that has to come.
    pub(super) const fn new(first: u64) -> Self {
        Self {
            next: first,
            holes: VecDeque::new(),
            forgotten: 0,
            told_apart_from: 0,
        }
    }

    /// The number after the highest that has come.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// The lowest number that has not come.
    pub(super) fn first_missing(&self) -> u64 {
        self.holes.front().map_or(self.next, |hole| hole.start)
    }

    /// Takes a number.
    pub(super) fn take(&mut self, number: u64) -> Arrival {
        if number >= self.next {
            let skipped = self.next..number;
            self.next = number + 1;
            if skipped.is_empty() {
                return Arrival::Next;
            }
            let count = skipped.end - skipped.start;
            self.open(skipped);
            return Arrival::Skips(count);
        }
        if self.fill(number) {
            Arrival::Late
        } else if number < self.told_apart_from {
            Arrival::Unknown
        } else {
            Arrival::Again
        }
    }

    fn open(&mut self, hole: Range<u64>) {
        if self.holes.len() == HOLES_MAX
            && let Some(oldest) = self.holes.pop_front()
        {
            self.forgotten += oldest.end - oldest.start;
            self.told_apart_from = oldest.end;
        }
        self.holes.push_back(hole);
    }

    fn fill(&mut self, number: u64) -> bool {
        let Some(index) = self.holes.iter().position(|hole| hole.contains(&number)) else {
            return false;
        };
        let Some(hole) = self.holes.remove(index) else {
            return false;
        };
        let parts = [number + 1..hole.end, hole.start..number];
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            self.holes.insert(index, part);
        }
        true
    }

    /// These are lost and counted: they are not missing any more.
    pub(super) fn write_off(&mut self, lost: &[u64]) {
        for number in lost {
            self.fill(*number);
        }
        self.forgotten = 0;
    }

    /// What is missing when numbers up to `end` (not included) should have come: how many, and the ranges that are
    /// still known.
    pub(super) fn missing_below(&self, end: u64) -> (u64, Vec<Range<u64>>) {
        let tail = self.next..end;
        let holes: Vec<Range<u64>> = self
            .holes
            .iter()
            .cloned()
            .chain([tail])
            .filter(|hole| !hole.is_empty())
            .collect();
        let count: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
        (count + self.forgotten, holes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_row_keeps_nothing() {
        let mut row = Row::new(2);
        assert!((2..1_000).all(|n| row.take(n) == Arrival::Next));
        assert_eq!((row.holes.len(), row.missing_below(1_000)), (0, (0, vec![])));
    }

    #[test]
    fn holes_late_ones_and_doubles_are_told_apart() {
        use Arrival::{Again, Late, Next, Skips};
        let mut row = Row::new(1);
        let arrivals = [1, 5, 3, 3, 5, 2, 6].map(|n| row.take(n));
        assert_eq!(arrivals, [Next, Skips(3), Late, Again, Again, Late, Next]);
        assert_eq!((row.first_missing(), row.next()), (4, 7));
        assert_eq!(row.missing_below(9), (3, vec![4..5, 7..9]), "4 and the tail 7, 8");
    }

    #[test]
    fn memory_has_a_bound_and_the_count_stays_right() {
        let mut row = Row::new(0);
        for n in 0..5_000 {
            row.take(2 * n + 1);
        }
        assert_eq!(row.holes.len(), HOLES_MAX);
        assert_eq!(row.missing_below(10_000).0, 5_000);
        assert_eq!(
            row.take(0),
            Arrival::Unknown,
            "no double is claimed that cannot be proved"
        );
        assert_eq!(row.take(9_999), Arrival::Again);
    }
}
