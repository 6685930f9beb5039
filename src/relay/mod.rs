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
mod hooks;
mod interest;
mod placing;
mod present;
mod push;
mod retention;
#[cfg(test)]
mod tests;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

pub use feed::{FEED_BYTES_MAX, FEED_WAIT_MAX, Feed, FeedPage};
pub use hints::{Hinting, Hints};
pub use hooks::{WEBHOOKS_MAX, WebhookPatch, Webhooks};
pub use webhooks::{Answer, Call, Http, Lookup, Post, SystemLookup};

use crate::clock::Clock;
use crate::domain::EventNo;
use crate::ids::Ids;
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
    /// `outbox.max_attempts`
    pub attempts_max: u32,
    /// `webhooks.timeout_secs`
    pub call_timeout: Duration,
    /// `webhooks.secret_overlap_secs`
    pub secret_overlap: Duration,
    /// `webhooks.delivered_keep_secs`
    pub delivered_keep: Duration,
}

/// What the relay is made of.
pub struct Parts {
    /// Where the log is.
    pub store: Arc<dyn Store>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<Ids>,
    /// What this process's writers tell.
    pub hints: Arc<Hints>,
    /// Whoever makes the calls.
    pub post: Arc<dyn Post>,
    /// The name of this process among those that call.
    pub holder: String,
}

/// What the parts share.
struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    hints: Arc<Hints>,
    post: Arc<dyn Post>,
    holder: String,
    options: Options,
    /// Counts what the operator does with webhooks here.
    changed: watch::Sender<u64>,
    /// Who wants events.
    interest: Watch,
    /// The newest event that is known here.
    newest: watch::Sender<EventNo>,
    /// Whoever waits for an event is to be answered.
    closing: watch::Sender<bool>,
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
    ids: Arc<Ids>,
}

impl Relay {
    /// Puts it together; nothing goes on before [`Relay::run`].
    #[must_use]
    pub fn new(parts: Parts, options: Options) -> Self {
        let shared = Shared {
            store: parts.store,
            clock: parts.clock,
            hints: parts.hints,
            post: parts.post,
            holder: parts.holder,
            options,
            changed: watch::Sender::default(),
            interest: Watch::default(),
            newest: watch::Sender::new(EventNo::ZERO),
            closing: watch::Sender::new(false),
        };
        Self {
            shared: Arc::new(shared),
            ids: parts.ids,
        }
    }

    /// Answers everybody who waits for an event: a shutdown must not wait for them.
    pub fn answer_waiting(&self) {
        self.shared.closing.send_replace(true);
    }

    /// The webhooks, for the operator.
    #[must_use]
    pub fn webhooks(&self) -> Webhooks {
        Webhooks::new(Arc::clone(&self.shared), Arc::clone(&self.ids))
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
            webhooks::run(&self.shared, stop.clone()),
            push::run(&self.shared, stop.clone()),
            retention::run(&self.shared, stop),
        );
    }
}

/// Waits so long, or until it has to stop; `true` = go on.
async fn pause(stop: &mut watch::Receiver<bool>, wait: Duration) -> bool {
    // A sender that is gone stops us, too.
    tokio::time::timeout(wait, stop.wait_for(|stop| *stop)).await.is_err()
}
