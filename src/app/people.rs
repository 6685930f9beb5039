//! What people have to do with each other outside conversations, put together; and the watch over what is due of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::core::Core;
use crate::config::Config;
use crate::service::{Contacts, Inbox, NotificationParts, Notifications, Tending, Terms};

/// The services.
pub(super) struct People {
    pub(super) notifications: Arc<Notifications>,
    pub(super) contacts: Arc<Contacts>,
}

impl People {
    pub(super) fn new(config: &Config, core: &Core, inbox: &Arc<Inbox>) -> Self {
        let parts = NotificationParts {
            store: Arc::clone(&core.store),
            bus: Arc::clone(&core.bus),
            clock: Arc::clone(&core.clock),
            principals: Arc::clone(&core.principals),
            conversations: Arc::clone(&core.conversations),
            inbox: Arc::clone(inbox),
        };
        let terms = Terms {
            expire: Duration::from_hours(config.notifications.expire_days.saturating_mul(24)),
            ask_again: Duration::from_hours(config.notifications.ask_again_hours),
        };
        let notifications = Arc::new(Notifications::new(parts, terms));
        let contacts = Contacts::new(
            Arc::clone(&core.store),
            Arc::clone(&core.bus),
            Arc::clone(&core.principals),
            Arc::clone(inbox),
            Arc::clone(&notifications),
        );
        Self {
            notifications,
            contacts: Arc::new(contacts),
        }
    }

    /// Watches over what is due, until the sender is dropped.
    pub(super) fn tend(&self, core: &Core) -> (JoinHandle<()>, oneshot::Sender<()>) {
        let tending = Tending::new(
            Arc::clone(&core.store),
            Arc::clone(&core.clock),
            Arc::clone(&self.notifications),
        );
        let (watching, stop) = oneshot::channel::<()>();
        let watch = async move { tending.watch(async { drop(stop.await) }).await };
        (actix_rt::spawn(watch), watching)
    }
}
