//! Reminders that are due: told to whoever is connected, and to everybody else when they are (B115).
//!
//! A reminder is claimed for a short time, told, and settled. A process that dies in between leaves a claim that runs out,
//! and whoever looks then tells it: once otherwise, at least once over a crash. The same holds for a process that stood
//! still for longer than its claim; whoever is told twice knows it by the action. No two claims of one reminder overlap, as
//! long as the clocks of the processes differ by less than [`CLAIM_MS`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::ServiceError;
use super::messages::Messages;
use crate::clock::Clock;
use crate::domain::{Action, Code, Marked, Principal, Timestamp};
use crate::storage::{DuePosition, DueReminder, Store};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);
/// How many are looked at in one step.
const LOOKED_AT_MAX: u32 = 1_000;
/// How long a claim holds: how much later than it was due a reminder is told of which a process died.
const CLAIM_MS: i64 = 10_000;
/// So long after it was told a reminder is settled: until then its bytes may still be in this process.
const ON_ITS_WAY: Duration = Duration::from_millis(500);

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

    /// Tells of every reminder when it is due and its user `is_here`, until it is to stop. Then what was told is settled:
    /// wait for that, or others tell it again.
    pub async fn watch(
        &self,
        is_here: impl Fn(Principal) -> bool,
        tell: impl Fn(&Reminder),
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = std::pin::pin!(stop);
        let mut watch = Watch {
            told: VecDeque::new(),
            fresh: just_after(self.clock.now()),
            waiting: None,
        };
        loop {
            if let Err(error) = self.look(&mut watch, &is_here, &tell).await {
                tracing::warn!(%error, "reminders that are due have to wait");
            }
            tokio::select! {
                () = &mut stop => break,
                () = sleep(EVERY) => {}
            }
        }
        if let Some(last) = watch.told.back() {
            sleep(ON_ITS_WAY.saturating_sub(last.at.elapsed())).await;
        }
        if let Err(error) = self.settle(&mut watch).await {
            tracing::warn!(%error, left = watch.told.len(), "reminders that were told will be told again");
        }
    }

    /// One look: at what has become due since the last one, and at a part of what waits for its user to come.
    async fn look(
        &self,
        watch: &mut Watch,
        is_here: &impl Fn(Principal) -> bool,
        tell: &impl Fn(&Reminder),
    ) -> Result<(), ServiceError> {
        // First of all, so that nothing of our own is due anew.
        self.settle(watch).await?;
        let now = self.clock.now();
        let full = usize::try_from(LOOKED_AT_MAX).unwrap_or(usize::MAX);
        let fresh = self.store.due_reminders(now, Some(watch.fresh), LOOKED_AT_MAX).await?;
        let waiting = self.store.due_reminders(now, watch.waiting, LOOKED_AT_MAX).await?;
        watch.fresh = match fresh.last() {
            Some(last) if fresh.len() >= full => last.position(),
            _ => just_after(now),
        };
        // At the end the round begins anew.
        watch.waiting = waiting
            .last()
            .filter(|_| waiting.len() >= full)
            .map(DueReminder::position);
        for due in fresh.into_iter().chain(waiting) {
            if is_here(due.principal) {
                self.remind(watch, due, is_here, tell).await?;
                self.settle(watch).await?;
            }
        }
        Ok(())
    }

    /// Claims and tells. Where it does not come to telling, the claim runs out.
    async fn remind(
        &self,
        watch: &mut Watch,
        due: DueReminder,
        is_here: &impl Fn(Principal) -> bool,
        tell: &impl Fn(&Reminder),
    ) -> Result<(), ServiceError> {
        let until = Timestamp::from_millis(self.clock.now().millis().saturating_add(CLAIM_MS));
        if !self.store.claim_reminder(&due, until).await? {
            return Ok(());
        }
        let message = match self.messages.get(due.principal, due.action.message_id).await {
            Ok(message) => message,
            // Not theirs to see any more: then there is nothing to be reminded of.
            Err(error) if error.code == Code::NotFound => {
                self.store.settle_reminder(&due, until).await?;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // Meanwhile the user may have gone, or this process may have stood still and another have the reminder.
        if is_here(due.principal) && self.clock.now() < until {
            tell(&Reminder {
                principal: due.principal,
                message,
                action: due.action.clone(),
            });
            let at = Instant::now();
            watch.told.push_back(Told { due, until, at });
        }
        Ok(())
    }

    /// Settles what has left this process since it was told.
    async fn settle(&self, watch: &mut Watch) -> Result<(), ServiceError> {
        while let Some(told) = watch.told.front().filter(|told| told.at.elapsed() >= ON_ITS_WAY) {
            self.store.settle_reminder(&told.due, told.until).await?;
            watch.told.pop_front();
        }
        Ok(())
    }
}

/// How far the watch has come.
struct Watch {
    /// Told and not settled yet, in the order of telling; at most what two looks find.
    told: VecDeque<Told>,
    /// What is due after this was not looked at.
    fresh: DuePosition,
    /// Up to here those were looked at, in this round, whose users were not here.
    waiting: Option<DuePosition>,
}

/// A reminder of which we have told.
struct Told {
    due: DueReminder,
    /// The end of our claim.
    until: Timestamp,
    at: Instant,
}

/// Behind everything that is due at `time`.
fn just_after(time: Timestamp) -> DuePosition {
    DuePosition {
        due_at: Timestamp::from_millis(time.millis().saturating_add(1)),
        message_id: None,
        principal: Principal::SYSTEM,
    }
}

#[cfg(test)]
mod tests;
