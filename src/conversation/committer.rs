//! Group commit: batches of many conversations share one transaction.
//!
//! A few lanes, one conversation always in the same one. A lane takes what has come while its last commit was under
//! way; there is no timer, the batch grows by itself when the database is the bottleneck.
//!
//! A lane runs on the arbiter whose conversations it serves: between threads, handing over a batch and its answer would
//! cost more than deciding it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};

use crate::domain::{ConversationId, Event};
use crate::storage::{Commit, CommitError, CommitResult, Writer};

/// The most batches that may wait in a lane; beyond that `overloaded` is answered.
pub const LANE_WAITING_MAX: usize = 8_192;
/// The most batches that one transaction takes.
pub const TRANSACTION_COMMITS_MAX: usize = 1_024;
/// The most events that one transaction takes (a single larger batch goes alone).
pub const TRANSACTION_EVENTS_MAX: usize = 1_024;
/// The most bytes of content that one transaction takes; MySQL refuses packets of 16 MiB by default.
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;

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
}

/// The way into the lanes. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    lanes: Vec<mpsc::Sender<Order>>,
}

impl Committer {
    /// A committer with `lanes` lanes: give every one to [`run_lane`], on the arbiter that [`home_of`] names.
    #[must_use]
    pub fn new(lanes: usize) -> (Self, Vec<Lane>) {
        let lane = |_| {
            let (sender, orders) = mpsc::channel(LANE_WAITING_MAX);
            (sender, Lane { orders })
        };
        let (senders, lanes) = (0..lanes.max(1)).map(lane).unzip();
        (Self { lanes: senders }, lanes)
    }

    /// The lanes for the conversations of one of several arbiters: those that run there; where none does, the next one
    /// below.
    #[must_use]
    pub fn part(&self, arbiter: usize, arbiters: usize) -> Self {
        let all = self.lanes.len();
        let here = |(lane, _): &(usize, _)| home_of(*lane, all, arbiters) == arbiter;
        let lanes: Vec<_> = self
            .lanes
            .iter()
            .enumerate()
            .filter(here)
            .map(|(_, lane)| lane)
            .collect();
        let lanes = if lanes.is_empty() {
            self.lanes.get(arbiter * all / arbiters.max(1)).into_iter().collect()
        } else {
            lanes
        };
        Self {
            lanes: lanes.into_iter().cloned().collect(),
        }
    }

    /// Hands a batch to its lane.
    ///
    /// # Errors
    /// `None` when the lane is full or has ended: nothing was stored.
    pub fn submit(&self, commit: Commit) -> Option<oneshot::Receiver<CommitResult>> {
        let lane = self.lanes.get(lane_of(commit.conversation_id, self.lanes.len()))?;
        let (done, receiver) = oneshot::channel();
        let order = Order::Commit(Request { commit, done });
        lane.try_send(order).ok().map(|()| receiver)
    }

    /// Lets the lanes finish what they were given and end; from then on nothing is taken. For whoever stops the arbiters,
    /// which would cut off a commit under way.
    pub async fn end(&self) {
        for lane in &self.lanes {
            // One that has ended need not.
            lane.send(Order::End).await.ok();
        }
    }
}

/// The arbiter (below `arbiters`) on which a lane runs, so that conversations and lanes are spread alike.
#[must_use]
pub fn home_of(lane: usize, lanes: usize, arbiters: usize) -> usize {
    lane * arbiters / lanes.max(1)
}

/// Spreads conversations over lanes. Their low bits are mostly zero, hence the mixing (Fibonacci hashing).
fn lane_of(id: ConversationId, lanes: usize) -> usize {
    let mixed = id.get().unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from(mixed).map_or(0, |mixed| mixed % lanes.max(1))
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
            let results = AssertUnwindSafe(writer.commit(&commits)).catch_unwind().await;
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
    use super::*;

    #[test]
    fn every_lane_serves_the_arbiter_on_which_it_runs_and_every_arbiter_has_one() {
        for (lanes, arbiters) in (1..=9).flat_map(|lanes| (1..=9).map(move |arbiters| (lanes, arbiters))) {
            let (committer, _receivers) = Committer::new(lanes);
            let number =
                |sender: &mpsc::Sender<Order>| committer.lanes.iter().position(|lane| lane.same_channel(sender));
            let mut served = Vec::new();
            for arbiter in 0..arbiters {
                let part = committer.part(arbiter, arbiters);
                assert!(!part.lanes.is_empty(), "{lanes} lanes, arbiter {arbiter} of {arbiters}");
                let here = part.lanes.iter().filter_map(number);
                served.extend(here.filter(|lane| home_of(*lane, lanes, arbiters) == arbiter));
            }
            assert_eq!(
                served,
                (0..lanes).collect::<Vec<_>>(),
                "{lanes} lanes, {arbiters} arbiters"
            );
        }
    }
}
