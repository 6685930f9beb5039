//! Who wants events, looked at again and again: another process may have been asked.

use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Shared, pause};
use crate::domain::{NoticeType, Timestamp, Webhook};
use crate::storage::StoreResult;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);

/// What is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// Since when events are placed; `None` = nobody wants any.
    pub(super) active_since: Option<Timestamp>,
    /// Members who were away are to be named.
    pub(super) push: bool,
}

/// The newest answer, and a way to ask at once.
#[derive(Default)]
pub(super) struct Watch {
    current: watch::Sender<Interest>,
    again: Notify,
}

impl Watch {
    /// Looks at once: something has changed here.
    pub(super) fn look(&self) {
        self.again.notify_one();
    }

    /// What is wanted now, and whenever that changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<Interest> {
        self.current.subscribe()
    }
}

/// Looks until it has to stop.
pub(super) async fn follow(shared: &Shared, mut stop: watch::Receiver<bool>) {
    loop {
        if let Err(error) = look(shared).await {
            tracing::warn!(%error, "it cannot be looked who wants events");
        }
        let again = tokio::time::timeout(EVERY, shared.interest.again.notified());
        tokio::select! {
            _ = again => {}
            go_on = pause(&mut stop, EVERY) => if !go_on { break },
        }
    }
}

async fn look(shared: &Shared) -> StoreResult<()> {
    let state = shared.store.log_state().await?;
    let hooks = shared.store.webhooks().await?;
    let now = shared.clock.now();
    if state.active_since.is_none() && !hooks.is_empty() {
        // It went to rest while the first of them was made.
        shared.store.wake_log(now).await?;
    }
    let feed_is_read = now.since(state.feed_asked_at) < shared.options.keep;
    let push = |hook: &Webhook| hook.notices.wants(NoticeType::PushRequired);
    let interest = Interest {
        active_since: state.active_since,
        push: feed_is_read || hooks.iter().any(push),
    };
    shared.know(state.newest);
    shared.interest.current.send_if_modified(|current| {
        let changed = *current != interest;
        *current = interest;
        changed
    });
    Ok(())
}
