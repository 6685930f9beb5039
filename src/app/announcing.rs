//! Announcements: the use cases for the door, and whoever tells them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use super::core::Core;
use crate::service::{Announcements, Announcing, Notifications};

/// Whoever tells announcements.
pub(super) struct Teller {
    telling: JoinHandle<()>,
    /// Dropped, it ends the telling.
    watching: oneshot::Sender<()>,
}

/// Starts to tell what is to be told, and makes the use cases.
pub(super) fn announce(core: &Core, notifications: &Arc<Notifications>) -> (Arc<Announcements>, Teller) {
    let added = Arc::<Notify>::default();
    let announcements = Announcements::new(
        Arc::clone(&core.store),
        Arc::clone(&core.clock),
        Arc::clone(&core.ids),
        Arc::clone(&core.principals),
        Arc::clone(&added),
    );
    let announcing = Announcing::new(
        Arc::clone(&core.store),
        Arc::clone(&core.clock),
        Arc::clone(notifications),
        added,
        Uuid::now_v7().to_string(),
    );
    let (watching, stop) = oneshot::channel::<()>();
    let telling = actix_rt::spawn(async move { announcing.watch(async { drop(stop.await) }).await });
    (Arc::new(announcements), Teller { telling, watching })
}

impl Teller {
    /// Gives back what is not told yet, if that takes no longer than `patience`.
    pub(super) async fn stop(self, patience: Duration) {
        drop(self.watching);
        let telling = self.telling.abort_handle();
        if timeout(patience, self.telling).await.is_err() {
            telling.abort();
        }
    }
}
