//! The frames that wait for one connection. Mostly there is one, for a moment: that one lies in place.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::time::Instant;

/// A frame, and since when it waits.
type Waiting = (Bytes, Instant);

/// What waits, the oldest first.
#[derive(Default)]
pub(super) struct Queue {
    /// `None` = nothing waits.
    first: Option<Waiting>,
    more: VecDeque<Waiting>,
    bytes: usize,
}

impl Queue {
    pub(super) fn push(&mut self, frame: Bytes, now: Instant) {
        self.bytes += frame.len();
        if self.first.is_none() {
            self.first = Some((frame, now));
        } else {
            self.more.push_back((frame, now));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let (frame, _) = std::mem::replace(&mut self.first, self.more.pop_front())?;
        self.bytes = self.bytes.saturating_sub(frame.len());
        if self.more.is_empty() && self.more.capacity() > 0 {
            // The memory too: a burst must not stay with an idle connection (B87).
            self.more = VecDeque::new();
        }
        Some(frame)
    }

    /// The oldest frame.
    pub(super) fn front(&self) -> Option<&Bytes> {
        self.first.as_ref().map(|(frame, _)| frame)
    }

    /// Since when the oldest frame waits.
    pub(super) fn since(&self) -> Option<Instant> {
        self.first.as_ref().map(|(_, since)| *since)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.first.iter().chain(&self.more).map(|(frame, _)| frame)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    /// Bytes of all frames.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Places that are kept for frames besides the first.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.more.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_in_order_and_leave_no_memory_behind() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let frame = |n: u8| Bytes::copy_from_slice(&[n]);
        for round in 0..3 {
            for n in 0..10 {
                queue.push(frame(n), now);
            }
            assert_eq!(
                (queue.len(), queue.bytes(), queue.since()),
                (10, 10, Some(now)),
                "{round}"
            );
            // One comes in between.
            assert_eq!(queue.pop(), Some(frame(0)));
            queue.push(frame(10), now);
            assert!(queue.iter().eq((1..=10).map(frame).collect::<Vec<_>>().iter()));
            for n in 1..=10 {
                assert_eq!(queue.front(), Some(&frame(n)));
                assert_eq!(queue.pop(), Some(frame(n)));
            }
            assert_eq!(
                (queue.pop(), queue.is_empty(), queue.bytes(), queue.room()),
                (None, true, 0, 0)
            );
        }
    }
}
