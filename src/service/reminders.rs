//! Reminders that are due: claimed from the store, so that no two processes tell of one, and told once. What became due
//! while no process was running is told late.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::error::ServiceError;
use super::messages::Messages;
use crate::clock::Clock;
use crate::domain::{Action, Code, Marked, Principal};
use crate::storage::{DueReminder, Store};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);
/// How many are taken at once; while there are more, the next look follows without a pause.
const TAKEN_MAX: u32 = 100;

/// Somebody has to be reminded.
#[derive(Clone, Debug)]
pub struct Reminder {
    /// Who.
    pub principal: Principal,
    /// Of what, as it is now: of a recalled message without its words.
    pub message: Marked,
    /// As they set it.
    pub action: Action,
}

/// The watch over what is due.
pub struct Reminders {
    store: Arc<dyn Store>,
    messages: Arc<Messages>,
    clock: Arc<dyn Clock>,
}

impl Reminders {
    /// Claims from `store`, looks at messages as their users see them.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, messages: Arc<Messages>, clock: Arc<dyn Clock>) -> Self {
        Self { store, messages, clock }
    }

    /// Tells of every reminder when it is due. Runs until it is dropped.
    pub async fn watch(&self, tell: impl Fn(&Reminder)) {
        // Claimed and not told yet: the store did not answer in between.
        let mut claimed = VecDeque::new();
        loop {
            match self.look(&mut claimed, &tell).await {
                Ok(true) => {}
                Ok(false) => tokio::time::sleep(EVERY).await,
                Err(error) => {
                    tracing::warn!(%error, "reminders that are due have to wait");
                    tokio::time::sleep(EVERY).await;
                }
            }
        }
    }

    /// One look; `true` = there may be more.
    async fn look(&self, claimed: &mut VecDeque<DueReminder>, tell: &impl Fn(&Reminder)) -> Result<bool, ServiceError> {
        if claimed.is_empty() {
            claimed.extend(self.store.claim_reminders(self.clock.now(), TAKEN_MAX).await?);
        }
        let more = claimed.len() >= usize::try_from(TAKEN_MAX).unwrap_or(usize::MAX);
        while let Some(due) = claimed.front() {
            match self.messages.get(due.principal, due.action.message_id).await {
                Ok(message) => tell(&Reminder {
                    principal: due.principal,
                    message,
                    action: due.action.clone(),
                }),
                // Not theirs to see any more: then there is nothing to be reminded of.
                Err(error) if error.code == Code::NotFound => {}
                Err(error) => return Err(error),
            }
            claimed.pop_front();
        }
        Ok(more)
    }
}
