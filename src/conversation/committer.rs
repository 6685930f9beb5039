//! Group commit: batches of many conversations share one transaction.
//!
//! A few lanes, one conversation always in the same one. A lane takes what has come while its last commit was under
//! way; there is no timer, the batch grows by itself when the database is the bottleneck.

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
pub struct Request {
    commit: Commit,
    done: oneshot::Sender<CommitResult>,
}

/// The way into the lanes. Cheap to clone.
#[derive(Clone)]
pub struct Committer {
    lanes: Vec<mpsc::Sender<Request>>,
}

impl Committer {
    /// A committer with `lanes` lanes, and what each lane reads from: give every one to [`run_lane`].
    #[must_use]
    pub fn new(lanes: usize) -> (Self, Vec<mpsc::Receiver<Request>>) {
        let (senders, receivers) = (0..lanes.max(1)).map(|_| mpsc::channel(LANE_WAITING_MAX)).unzip();
        (Self { lanes: senders }, receivers)
    }

    /// Hands a batch to its lane.
    ///
    /// # Errors
    /// `None` when the lane is full or has ended: nothing was stored.
    pub fn submit(&self, commit: Commit) -> Option<oneshot::Receiver<CommitResult>> {
        let lane = self.lanes.get(lane_of(commit.conversation_id, self.lanes.len()))?;
        let (done, receiver) = oneshot::channel();
        lane.try_send(Request { commit, done }).ok().map(|()| receiver)
    }
}

/// Spreads conversations over lanes. Their low bits are mostly zero, hence the mixing (Fibonacci hashing).
fn lane_of(id: ConversationId, lanes: usize) -> usize {
    let mixed = id.get().unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from(mixed).map_or(0, |mixed| mixed % lanes.max(1))
}

/// Serves a lane until all senders are gone. Nothing cancels a commit that has begun (B19).
pub async fn run_lane(mut requests: mpsc::Receiver<Request>, new_writer: impl Fn() -> Box<dyn Writer>) {
    let mut writer = new_writer();
    let mut waiting = Vec::new();
    while requests.recv_many(&mut waiting, TRANSACTION_COMMITS_MAX).await > 0 {
        let mut rest = waiting.drain(..).peekable();
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
