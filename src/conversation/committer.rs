//! Group commit: batches of many conversations share one transaction.
//!
//! There are a few lanes, each with a transaction of its own. A lane takes what has come while its last transaction was under
//! way; there is no timer, the batch grows by itself when the database is the bottleneck. The second lane is used when much
//! waits for the first, or the first is held up: two small transactions cost the database twice what one of both costs.
//! A conversation has one batch under way, so any lane may have the next.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::domain::Event;
use crate::storage::{Commit, CommitError, CommitResult, Writer};

/// The most batches that may wait in a lane; beyond that `overloaded` is answered.
pub const LANE_WAITING_MAX: usize = 8_192;
/// The most batches that one transaction takes.
pub const TRANSACTION_COMMITS_MAX: usize = 1_024;
/// The most events that one transaction takes (a single larger batch goes alone).
pub const TRANSACTION_EVENTS_MAX: usize = 1_024;
/// The most bytes of content that one transaction takes; MySQL refuses packets of 16 MiB by default.
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// So many batches wait in a lane before the next one is used as well.
pub const NEXT_LANE_AT: usize = 128;
/// A lane whose transaction takes so long is passed over: something holds it up that need not hold up others.
pub const SLOW_AFTER: Duration = Duration::from_millis(20);

/// A batch on its way to the store.
struct Request {
    commit: Commit,
    done: oneshot::Sender<CommitResult>,
}

/// What a lane is given.
enum Order {
    Commit(Request),
    /// Nothing is to follow: see [`Committer::end`].
    End,
}

/// The end of a lane from which it is served: for [`run_lane`].
pub struct Lane {
    orders: mpsc::Receiver<Order>,
    begun: Begun,
}

/// When a lane began the transaction that is under way, for those who choose a lane.
#[derive(Clone)]
struct Begun {
    /// From here milliseconds are counted.
    epoch: Instant,
    /// One more than the milliseconds; 0 = none is under way.
    after: Arc<AtomicU64>,
}

impl Begun {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            after: Arc::default(),
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn begin(&self) {
        self.after.store(self.millis() + 1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.after.store(0, Ordering::Relaxed);
    }

    fn is_slow(&self) -> bool {
        let after = self.after.load(Ordering::Relaxed);
        after > 0 && u128::from((self.millis() + 1).saturating_sub(after)) >= SLOW_AFTER.as_millis()
    }
}

/// The end of a lane into which batches are put.
#[derive(Clone)]
struct Door {
    orders: mpsc::Sender<Order>,
    begun: Begun,
}

impl Door {
    fn waiting(&self) -> usize {
        self.orders.max_capacity() - self.orders.capacity()
    }
}

/// The way into the lanes. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    lanes: Vec<Door>,
}

impl Committer {
    /// A committer with `lanes` lanes: give every one to [`run_lane`].
    #[must_use]
    pub fn new(lanes: usize) -> (Self, Vec<Lane>) {
        let lane = |_| {
            let (sender, orders) = mpsc::channel(LANE_WAITING_MAX);
            let begun = Begun::new();
            let door = Door {
                orders: sender,
                begun: begun.clone(),
            };
            (door, Lane { orders, begun })
        };
        let (doors, lanes) = (0..lanes.max(1)).map(lane).unzip();
        (Self { lanes: doors }, lanes)
    }

    /// Hands a batch to its lane.
    ///
    /// # Errors
    /// `None` when the lane is full or has ended: nothing was stored.
    pub fn submit(&self, commit: Commit) -> Option<oneshot::Receiver<CommitResult>> {
        let lane = self.lane()?;
        let (done, receiver) = oneshot::channel();
        let order = Order::Commit(Request { commit, done });
        lane.orders.try_send(order).ok().map(|()| receiver)
    }

    /// The first lane that takes its batches at once or soon; if all have much to do, the one with the least.
    fn lane(&self) -> Option<&Door> {
        let has_room = |lane: &&Door| lane.waiting() < NEXT_LANE_AT && !lane.begun.is_slow();
        let least = || {
            self.lanes
                .iter()
                .min_by_key(|lane| (lane.begun.is_slow(), lane.waiting()))
        };
        self.lanes.iter().find(has_room).or_else(least)
    }

    /// Lets the lanes finish what they were given and end; from then on nothing is taken. For whoever stops the arbiters,
    /// which would cut off a commit under way.
    pub async fn end(&self) {
        for lane in &self.lanes {
            // One that has ended need not.
            lane.orders.send(Order::End).await.ok();
        }
    }
}

/// Serves a lane until it is told to end, or nobody is left who could ask. Nothing may cancel a commit that has
/// begun (B19).
pub async fn run_lane(mut lane: Lane, new_writer: impl Fn() -> Box<dyn Writer>) {
    let mut writer = new_writer();
    let mut waiting = Vec::new();
    while lane.orders.recv_many(&mut waiting, TRANSACTION_COMMITS_MAX).await > 0 {
        if waiting.iter().any(|order| matches!(order, Order::End)) {
            lane.orders.close();
        }
        let requests = waiting.drain(..).filter_map(|order| match order {
            Order::Commit(request) => Some(request),
            Order::End => None,
        });
        let mut rest = requests.peekable();
        while rest.peek().is_some() {
            let (commits, done) = next_transaction(&mut rest);
            // A panic in a driver must not end the lane: the outcome is unknown, the connection is given up.
            lane.begun.begin();
            let results = AssertUnwindSafe(writer.commit(&commits)).catch_unwind().await;
            lane.begun.end();
            let results = results.unwrap_or_else(|_| {
                tracing::error!("the database writer panicked; its connection is replaced");
                writer = new_writer();
                vec![Err(CommitError::Unknown); commits.len()]
            });
            for (done, result) in done.into_iter().zip(results) {
                // A conversation that is gone does not wait for its answer.
                done.send(result).ok();
            }
        }
    }
}

fn next_transaction(
    rest: &mut std::iter::Peekable<impl Iterator<Item = Request>>,
) -> (Vec<Commit>, Vec<oneshot::Sender<CommitResult>>) {
    let (mut commits, mut done) = (Vec::new(), Vec::new());
    let (mut events, mut bytes) = (0, 0);
    let mut fits = |request: &Request| {
        events += request.commit.events.len();
        bytes += request.commit.events.iter().map(weight).sum::<usize>();
        events <= TRANSACTION_EVENTS_MAX && bytes <= TRANSACTION_BYTES_MAX
    };
    while let Some(request) = rest.next_if(|request| fits(request) || commits.is_empty()) {
        commits.push(request.commit);
        done.push(request.done);
    }
    (commits, done)
}

fn weight(event: &Event) -> usize {
    match event {
        Event::MessageSent { message, .. } | Event::MessageChanged { message, .. } => message.content.as_str().len(),
        Event::Changed { change, .. } => change.payload.as_ref().map_or(0, |payload| payload.as_str().len()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::domain::{
        Adding, ConversationId, Head, Header, HistoryVisibility, Kind, Posting, Principal, Status, Timestamp,
    };

    fn commit() -> Commit {
        let (conversation_id, now) = (ConversationId::new(7).unwrap(), Timestamp::default());
        let header = Header {
            conversation_id,
            kind: Kind::Group,
            title: None,
            avatar_url: None,
            owner: Some(Principal::user(1)),
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::All,
            status: Status::Active,
            created_at: now,
            updated_at: now,
        };
        Commit {
            conversation_id,
            expected: None,
            events: Vec::new(),
            header: Arc::new(header),
            head: Head::empty(conversation_id, now),
            member_count: 1,
        }
    }

    /// What waits in each lane after so many batches more.
    fn waiting_after(committer: &Committer, batches: usize) -> Vec<usize> {
        for _ in 0..batches {
            assert!(committer.submit(commit()).is_some());
        }
        committer.lanes.iter().map(Door::waiting).collect()
    }

    #[tokio::test]
    async fn few_batches_share_the_first_lane_and_many_are_spread() {
        let (committer, _lanes) = Committer::new(3);
        assert_eq!(waiting_after(&committer, NEXT_LANE_AT), [NEXT_LANE_AT, 0, 0]);
        assert_eq!(waiting_after(&committer, 1), [NEXT_LANE_AT, 1, 0]);
        let all = NEXT_LANE_AT * 3;
        assert_eq!(waiting_after(&committer, all - 1 - NEXT_LANE_AT), [NEXT_LANE_AT; 3]);
        assert_eq!(waiting_after(&committer, all), [NEXT_LANE_AT * 2; 3]);
    }

    #[tokio::test]
    async fn only_when_every_lane_is_full_is_a_batch_refused() {
        let (committer, _lanes) = Committer::new(2);
        assert_eq!(waiting_after(&committer, LANE_WAITING_MAX * 2), [LANE_WAITING_MAX; 2]);
        assert!(committer.submit(commit()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_is_held_up_is_passed_over_until_it_is_done() {
        let (committer, lanes) = Committer::new(2);
        let first = &lanes[0].begun;
        first.begin();
        advance(SLOW_AFTER / 2).await;
        assert_eq!(waiting_after(&committer, 1), [1, 0]);
        advance(SLOW_AFTER / 2).await;
        assert_eq!(waiting_after(&committer, 2), [1, 2]);
        // Also by those for whom the other has no room: it is at work, at least.
        assert_eq!(waiting_after(&committer, NEXT_LANE_AT), [1, NEXT_LANE_AT + 2]);
        first.end();
        assert_eq!(waiting_after(&committer, 1), [2, NEXT_LANE_AT + 2]);
    }
}
