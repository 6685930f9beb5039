//! Notifications with which something is to be done: those whose time has passed expire, and what was accepted and not
//! carried out, since a process died in between, is carried out.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::error::ServiceError;
use super::notifications::Notifications;
use crate::clock::Clock;
use crate::storage::{DueNotification, Store};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);
/// How many are looked at in one step.
const LOOKED_AT_MAX: u32 = 200;

/// The watch over what is due. Several processes may have one: every step can be done twice.
pub struct Tending {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    notifications: Arc<Notifications>,
}

impl Tending {
    /// Finds in `store` what is due by `clock`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, notifications: Arc<Notifications>) -> Self {
        Self {
            store,
            clock,
            notifications,
        }
    }

    /// Looks until it is to stop.
    pub async fn watch(&self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut after = None;
        loop {
            let looked = tokio::select! {
                () = &mut stop => return,
                looked = self.look(after) => looked,
            };
            after = looked.unwrap_or_else(|error| {
                tracing::warn!(%error, "notifications that are due have to wait");
                None
            });
            // What is left of a full step does not wait.
            let pause = if after.is_some() { Duration::ZERO } else { EVERY };
            tokio::select! {
                () = &mut stop => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// One step. Answers where the next one begins: one that cannot be dealt with keeps none of those behind it from it.
    /// `None` = at the beginning, later.
    async fn look(&self, after: Option<DueNotification>) -> Result<Option<DueNotification>, ServiceError> {
        let found = self
            .store
            .notifications_due(self.clock.now(), after, LOOKED_AT_MAX)
            .await?;
        for note in &found {
            if let Err(error) = self.notifications.tend(note).await {
                let id = note.notification_id;
                tracing::warn!(%error, notification_id = %id, "what was accepted is not carried out, or has to wait");
            }
        }
        let full = usize::try_from(LOOKED_AT_MAX).unwrap_or(usize::MAX);
        let last = found.last().filter(|_| found.len() >= full);
        Ok(last.and_then(DueNotification::of))
    }
}
