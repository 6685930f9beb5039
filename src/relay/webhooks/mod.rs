//! Calls webhooks: a [`courier::Courier`] for each one whose lease this process holds, so that no two processes call one.

mod address;
mod call;
mod courier;
mod lanes;
mod signature;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};

use super::{Shared, pause};
use crate::domain::{Timestamp, Webhook, WebhookId};
use crate::storage::{Holder, StoreResult};

pub use call::{Answer, Call, Http, Lookup, Post, SystemLookup};
pub(super) use signature::check_secret;

use courier::Courier;

/// How often it is looked which webhooks nobody calls.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A lease lasts so much longer than a call. It is renewed when half of that is over, so that calls can go on.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// How long a lease lasts: what was begun under it has ended before another process may begin.
pub(super) fn lease(shared: &Shared) -> Duration {
    shared.options.call_timeout + LEASE_MARGIN
}

/// A lease that lasts no longer than this is renewed.
fn renewed_at(shared: &Shared) -> Duration {
    shared.options.call_timeout + LEASE_MARGIN / 2
}

/// From when until when a lease that is taken now lasts.
fn lease_times(shared: &Shared) -> (Timestamp, Timestamp) {
    let now = shared.clock.now();
    (now, now.plus(lease(shared)))
}

/// Webhooks that are called here.
#[derive(Default)]
struct Here(Mutex<HashSet<WebhookId>>);

impl Here {
    /// `false` = it was there.
    fn enter(&self, id: WebhookId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id)
    }

    fn leave(&self, id: WebhookId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// Calls until it has to stop.
pub(super) async fn run(shared: &Shared, stop: watch::Receiver<bool>) {
    let here = Here::default();
    let (new, mut begun) = mpsc::channel::<Webhook>(1);
    let look = look(shared, &here, new, stop.clone());
    let call = async {
        let mut couriers = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(id) = couriers.next(), if !couriers.is_empty() => here.leave(id),
                hook = begun.recv() => match hook {
                    Some(hook) => couriers.push(Courier::new(shared, hook).run(stop.clone())),
                    None => break,
                },
            }
        }
        while couriers.next().await.is_some() {}
    };
    tokio::join!(look, call);
}

/// Takes the leases that nobody holds.
async fn look(shared: &Shared, here: &Here, new: mpsc::Sender<Webhook>, mut stop: watch::Receiver<bool>) {
    let mut changed = shared.changed.subscribe();
    loop {
        if let Err(error) = take_free(shared, here, &new).await {
            tracing::warn!(%error, "webhooks have to wait");
        }
        tokio::select! {
            go_on = pause(&mut stop, LOOK_EVERY) => if !go_on { break },
            _ = changed.changed() => {}
        }
    }
}

async fn take_free(shared: &Shared, here: &Here, new: &mpsc::Sender<Webhook>) -> StoreResult<()> {
    for hook in shared.store.webhooks().await? {
        let id = hook.webhook_id;
        if !here.enter(id) {
            continue;
        }
        let (now, until) = lease_times(shared);
        let holder = Holder {
            webhook_id: id,
            holder: &shared.holder,
        };
        let leased = shared.store.lease_webhook(holder, now, until).await;
        if !matches!(leased, Ok(true)) || new.send(hook).await.is_err() {
            here.leave(id);
        }
        leased?;
    }
    Ok(())
}
