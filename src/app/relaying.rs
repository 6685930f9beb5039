//! The thread on which events for other systems are placed and told: what receivers do slows down nobody else.

use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::core::Core;
use crate::config::Config;
use crate::relay::{Hints, Options, Relay};

/// How long it may take to finish what is under way.
const STOP: Duration = Duration::from_secs(5);

/// The running relay.
pub(super) struct Relaying {
    relay: Arc<Relay>,
    arbiter: Arbiter,
    stop: watch::Sender<bool>,
    done: oneshot::Receiver<()>,
}

impl Relaying {
    /// Starts it.
    pub(super) fn start(config: &Config, core: &Core, hints: Arc<Hints>) -> Self {
        let options = Options {
            keep: Duration::from_secs(config.events.keep_secs),
            push_after: Duration::from_secs(config.push.after_secs),
        };
        let relay = Relay::new(Arc::clone(&core.store), Arc::clone(&core.clock), hints, options);
        let relay = Arc::new(relay);
        let (stop, stopping) = watch::channel(false);
        let (finished, done) = oneshot::channel();
        let arbiter = Arbiter::new();
        let running = Arc::clone(&relay);
        arbiter.spawn(async move {
            running.run(stopping).await;
            finished.send(()).ok(); // whoever waited has gone on without us
        });
        Self {
            relay,
            arbiter,
            stop,
            done,
        }
    }

    /// What the doors ask.
    pub(super) fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Finishes what is under way, then stops the core. The thread ends last: connections of the store that were made on
    /// it end with the store.
    pub(super) async fn stop(self, core: Core) {
        self.stop.send_replace(true);
        if timeout(STOP, self.done).await.is_err() {
            tracing::warn!("events for other systems were still under way; the next start goes on with them");
        }
        core.stop().await;
        self.arbiter.stop();
        // Joins a thread, so it must not hold up this one.
        spawn_blocking(move || self.arbiter.join().ok()).await.ok();
    }
}
