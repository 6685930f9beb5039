//! What waits for all connections together. Each of them has its own bound; many clients that do not read must not take
//! that bound times their number.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::outbox::Outbox;
use super::wire::Close;

/// How often the sum is looked at: what is pushed in between comes on top.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A client that has left something unread for so long is behind; before that it may just be being written to.
const BEHIND_AFTER: Duration = Duration::from_secs(1);
/// What a place in a queue takes besides the frame.
const PLACE_BYTES: usize = 64;

/// When more than `bytes_max` waits, cuts the connections that are behind, the fullest first, until so much less waits
/// that there is room again. A frame that waits for many is there once. Answers how many were cut.
pub(super) fn relieve(outboxes: impl Iterator<Item = Arc<Outbox>>, bytes_max: usize, now: Instant) -> usize {
    let waiting = |outbox: Arc<Outbox>| {
        let bytes = outbox.bytes();
        (bytes > 0).then_some((bytes, outbox))
    };
    let mut waiting: Vec<(usize, Arc<Outbox>)> = outboxes.filter_map(waiting).collect();
    // As if nothing were shared: mostly that is little enough.
    if waiting.iter().map(|(bytes, _)| bytes).sum::<usize>() <= bytes_max / 4 {
        return 0;
    }
    let mut frames = Frames::default();
    for (_, outbox) in &waiting {
        frames.add(outbox);
    }
    if frames.taken <= bytes_max {
        return 0;
    }
    waiting.retain(|(_, outbox)| outbox.waits_for(now) >= BEHIND_AFTER);
    // Those who wait for the same frames side by side: only the last of them makes room.
    waiting.sort_by_cached_key(|(bytes, outbox)| (Reverse(*bytes), oldest(outbox)));
    let enough = bytes_max - bytes_max / 8;
    let mut cut = 0;
    for (_, outbox) in waiting {
        if frames.taken <= enough {
            break;
        }
        frames.remove(&outbox);
        outbox.close(Close::Slow);
        cut += 1;
    }
    cut
}

/// Where the frame is that has waited longest.
fn oldest(outbox: &Outbox) -> Option<usize> {
    let mut oldest = None;
    outbox.each_frame(|frame| {
        oldest.get_or_insert(frame.as_ptr().addr());
    });
    oldest
}

/// The frames that wait, each with its length and how often it waits: the memory that is really taken.
#[derive(Default)]
struct Frames {
    waiting: HashMap<usize, (usize, usize)>,
    taken: usize,
}

impl Frames {
    fn add(&mut self, outbox: &Outbox) {
        outbox.each_frame(|frame| {
            let (_, times) = self.waiting.entry(frame.as_ptr().addr()).or_insert_with(|| {
                self.taken += frame.len();
                (frame.len(), 0)
            });
            *times += 1;
            self.taken += PLACE_BYTES;
        });
    }

    fn remove(&mut self, outbox: &Outbox) {
        outbox.each_frame(|frame| {
            // What came since they were counted was not counted.
            let Some((length, times)) = self.waiting.get_mut(&frame.as_ptr().addr()) else {
                return;
            };
            *times = times.saturating_sub(1);
            let freed = PLACE_BYTES + if *times == 0 { std::mem::take(length) } else { 0 };
            self.taken = self.taken.saturating_sub(freed);
        });
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::delivery::outbox::Bounds;

    fn outbox(frames: &[Bytes]) -> Arc<Outbox> {
        let bounds = Bounds {
            bytes: 1 << 20,
            age: Duration::from_secs(30),
        };
        let outbox = Arc::new(Outbox::new(bounds, None));
        for frame in frames {
            outbox.push(frame.clone(), Instant::now());
        }
        outbox
    }

    fn frame(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes])
    }

    fn open(outboxes: &[Arc<Outbox>]) -> Vec<bool> {
        outboxes.iter().map(|outbox| outbox.is_open()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn b87_the_fullest_are_cut_first_and_no_more_than_it_takes() {
        let outboxes = [10_000, 50_000, 30_000, 40_000].map(|bytes| outbox(&[frame(bytes)]));
        tokio::time::advance(BEHIND_AFTER).await;
        let relieve = |bytes_max| relieve(outboxes.iter().cloned(), bytes_max, Instant::now());
        assert_eq!((relieve(140_000), open(&outboxes)), (0, vec![true; 4]));
        assert_eq!((relieve(100_000), open(&outboxes)), (1, vec![true, false, true, true]));
        assert_eq!(relieve(100_000), 0, "what was cut waits no longer");
        assert_eq!((relieve(1_000), open(&outboxes)), (3, vec![false; 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_that_waits_for_many_is_there_once() {
        let shared = frame(100_000);
        let outboxes = [(); 50].map(|()| outbox(std::slice::from_ref(&shared)));
        tokio::time::advance(BEHIND_AFTER).await;
        assert_eq!(relieve(outboxes.iter().cloned(), 200_000, Instant::now()), 0);
        assert_eq!(
            relieve(outboxes.iter().cloned(), 90_000, Instant::now()),
            50,
            "with less it stays"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_does_not_read_is_cut_before_every_group_is() {
        let groups = [(); 4].map(|()| frame(100_000));
        let outboxes: Vec<Arc<Outbox>> = (0..20).map(|at: usize| outbox(&groups[at % 4..=at % 4])).collect();
        tokio::time::advance(BEHIND_AFTER).await;
        assert_eq!(relieve(outboxes.iter().cloned(), 390_000, Instant::now()), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn places_of_small_frames_count_too() {
        let small = Bytes::from_static(b"x");
        let outboxes = [(); 2].map(|()| outbox(&vec![small.clone(); 5_000]));
        tokio::time::advance(BEHIND_AFTER).await;
        // 10,000 bytes if nothing but the frames counted.
        assert_eq!(relieve(outboxes.iter().cloned(), 19_000, Instant::now()), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_just_being_written_to_is_not_cut() {
        let busy = [outbox(&[frame(90_000)]), outbox(&[frame(20_000)])];
        assert_eq!(relieve(busy.iter().cloned(), 50_000, Instant::now()), 0);
        tokio::time::advance(BEHIND_AFTER / 2).await;
        let late = outbox(&[frame(100_000)]);
        tokio::time::advance(BEHIND_AFTER / 2).await;
        let all = busy.iter().cloned().chain([Arc::clone(&late)]);
        assert_eq!(relieve(all, 200_000, Instant::now()), 1);
        assert!(late.is_open() && !busy[0].is_open());
    }
}
