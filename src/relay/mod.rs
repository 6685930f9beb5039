//! FACTS THAT LEAVE THE HOUSE: events for other systems, by a feed that they read and by webhooks that are called.
//!
//! The log of each conversation is its outbox: nothing is written for other systems when something is committed. `placing`
//! follows the conversations that have moved ([`Hints`] of this process, and a walk over all of them that finds what a
//! crash or another process has left) and gives their events places in one log for the whole store. [`Feed`] reads that log.
//! As long as nobody wants events, none are placed: the first webhook or the first question to the feed begins.
//! Never here: a decision about a conversation, or anything that a sender waits for.
//! Invariants: INV-OUT-1 (an event has one place, in its conversation's order and in commit order), INV-COST-1 (a send
//! writes nothing for it), INV-VIS-1 (what is told is read when it is told: recalled words never leave).

mod feed;
mod hints;
mod interest;
mod placing;
mod present;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use feed::{FEED_BYTES_MAX, FEED_WAIT_MAX, Feed, FeedPage};
pub use hints::{Hinting, Hints};

use crate::clock::Clock;
use crate::domain::EventNo;
use crate::storage::Store;
use interest::Watch;
use placing::Placing;

/// How long a part waits after the store did not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `events.keep_secs`
    pub keep: Duration,
    /// `push.after_secs`
    pub push_after: Duration,
}

/// What the parts share.
struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    hints: Arc<Hints>,
    options: Options,
    /// Who wants events.
    interest: Watch,
    /// The newest event that is known here.
    newest: watch::Sender<EventNo>,
}

impl Shared {
    /// There is an event up to here.
    fn know(&self, newest: EventNo) {
        self.newest.send_if_modified(|known| {
            let is_newer = *known < newest;
            *known = newest.max(*known);
            is_newer
        });
    }
}

/// Events for other systems.
pub struct Relay {
    shared: Arc<Shared>,
}

impl Relay {
    /// `hints` are those of this process's writers.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, hints: Arc<Hints>, options: Options) -> Self {
        let shared = Shared {
            store,
            clock,
            hints,
            options,
            interest: Watch::default(),
            newest: watch::Sender::new(EventNo::ZERO),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The feed to read.
    #[must_use]
    pub fn feed(&self) -> Feed {
        Feed::new(Arc::clone(&self.shared))
    }

    /// Does everything that goes on in the background, until `stop` is true. Not to be dropped before: a transaction may
    /// be under way (B19).
    pub async fn run(&self, stop: watch::Receiver<bool>) {
        let placing = Placing::new(Arc::clone(&self.shared));
        tokio::join!(
            interest::follow(&self.shared, stop.clone()),
            placing.run(stop.clone()),
            retention::run(&self.shared, stop),
        );
    }
}

/// Waits so long, or until it has to stop; `true` = go on.
async fn pause(stop: &mut watch::Receiver<bool>, wait: Duration) -> bool {
    // A sender that is gone stops us, too.
    tokio::time::timeout(wait, stop.wait_for(|stop| *stop)).await.is_err()
}
