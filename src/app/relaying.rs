//! The thread on which events for other systems are placed and told: what receivers do slows down nobody else.

use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;
use anyhow::Context as _;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::core::Core;
use crate::config::Config;
use crate::relay::{Hints, Http, Options, Parts, Relay, SystemLookup};

/// How long nothing is done after a panic, so that one that comes again and again fills no log.
const AFTER_PANIC: Duration = Duration::from_secs(5);
/// How long it may take to finish what is under way.
const STOP: Duration = Duration::from_secs(5);

/// Whoever calls webhooks.
///
/// # Errors
/// When TLS cannot be set up.
pub(super) fn caller(config: &Config) -> anyhow::Result<Http> {
    let webhooks = &config.webhooks;
    let timeout = Duration::from_secs(webhooks.timeout_secs);
    let http = Http::new(timeout, webhooks.allow_private_addresses, Arc::new(SystemLookup));
    http.context("webhooks cannot be called: TLS cannot be set up")
}

/// Runs the relay until it has to stop. What a panic leaves behind is found again as after a crash.
async fn keep_running(relay: Arc<Relay>, stopping: watch::Receiver<bool>) {
    loop {
        let (relay, stopping) = (Arc::clone(&relay), stopping.clone());
        let running = actix_rt::spawn(async move { relay.run(stopping).await });
        match running.await {
            Ok(()) => return,
            Err(error) => tracing::error!(%error, "events for other systems broke off; they are begun anew"),
        }
        sleep(AFTER_PANIC).await;
    }
}

/// The running relay.
pub(super) struct Relaying {
    relay: Arc<Relay>,
    arbiter: Arbiter,
    stop: watch::Sender<bool>,
    done: oneshot::Receiver<()>,
}

impl Relaying {
    /// Starts it.
    pub(super) fn start(config: &Config, core: &Core, hints: Arc<Hints>, http: Http) -> Self {
        let (webhooks, secs) = (&config.webhooks, Duration::from_secs);
        let options = Options {
            keep: secs(config.events.keep_secs),
            push_after: secs(config.push.after_secs),
            attempts_max: config.outbox.max_attempts,
            call_timeout: secs(webhooks.timeout_secs),
            secret_overlap: secs(webhooks.secret_overlap_secs),
            delivered_keep: secs(webhooks.delivered_keep_secs),
        };
        let parts = Parts {
            store: Arc::clone(&core.store),
            clock: Arc::clone(&core.clock),
            ids: Arc::clone(&core.ids),
            hints,
            post: Arc::new(http),
            holder: Uuid::now_v7().to_string(),
        };
        let relay = Arc::new(Relay::new(parts, options));
        let (stop, stopping) = watch::channel(false);
        let (finished, done) = oneshot::channel();
        let arbiter = Arbiter::new();
        let running = Arc::clone(&relay);
        arbiter.spawn_fn(move || {
            actix_rt::spawn(async move {
                keep_running(running, stopping).await;
                finished.send(()).ok(); // whoever waited has gone on without us
            });
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
