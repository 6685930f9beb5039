//! Webhooks and their deliveries, at rest.
//!
//! One process at a time calls a webhook: the one that holds its lease. It makes deliveries out of events, and writes down
//! what became of them. Each step is one statement, and can be done again without harm: that is how a crash ends.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{Delivery, DeliveryState, EventNo, Timestamp, Webhook, WebhookId, WebhookName};

/// Who calls a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    /// Of which webhook.
    pub webhook_id: WebhookId,
    /// The name of the process.
    pub holder: &'a str,
}

/// Webhooks and deliveries.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// All of them, by name.
    async fn webhooks(&self) -> StoreResult<Vec<Webhook>>;
    /// The one of that name.
    async fn webhook(&self, name: &WebhookName) -> StoreResult<Option<Webhook>>;
    /// Keeps a new one; `false` = there is one of that name.
    async fn add_webhook(&self, webhook: &Webhook) -> StoreResult<bool>;
    /// Keeps url, events and secrets of a webhook that is still of `webhook.version`, which is one more afterwards; `false`
    /// = it is not.
    async fn change_webhook(&self, webhook: &Webhook) -> StoreResult<bool>;
    /// There are to be deliveries anew for everything after `after`.
    async fn replay_webhook(&self, id: WebhookId, after: EventNo) -> StoreResult<()>;
    /// Its deliveries go later: [`WebhookStore::forget_deliveries`].
    async fn remove_webhook(&self, id: WebhookId) -> StoreResult<bool>;
    /// Takes the lease, or goes on holding it; `false` = another one has it.
    async fn lease_webhook(&self, holder: Holder<'_>, now: Timestamp, until: Timestamp) -> StoreResult<bool>;
    /// Gives it back.
    async fn release_webhook(&self, holder: Holder<'_>) -> StoreResult<()>;
    /// Makes deliveries, those that are there anew, and moves the webhook from its `event_no` to `up_to`; `false` = it has
    /// another version or another holder by now, or was moved, and then it was not moved.
    async fn hand_over(
        &self,
        holder: Holder<'_>,
        webhook: &Webhook,
        deliveries: &[Delivery],
        up_to: EventNo,
    ) -> StoreResult<bool>;
    /// PENDING deliveries with `after < event_no <= up_to`, ascending, at most `limit`.
    async fn pending(&self, id: WebhookId, after: EventNo, up_to: EventNo, limit: u32) -> StoreResult<Vec<Delivery>>;
    /// These are DELIVERED, if `holder` still has the lease.
    async fn delivered(&self, holder: Holder<'_>, events: &[EventNo], now: Timestamp) -> StoreResult<()>;
    /// A try has failed, if `holder` still has the lease: keeps state, attempts, error and times.
    async fn failed(&self, holder: Holder<'_>, delivery: &Delivery) -> StoreResult<()>;
    /// Deliveries (in this state, if one is given) with `event_no < before`, the newest first, at most `limit`.
    async fn deliveries(
        &self,
        id: WebhookId,
        state: Option<DeliveryState>,
        before: Option<EventNo>,
        limit: u32,
    ) -> StoreResult<Vec<Delivery>>;
    /// Tries a delivery anew, as if it had never been tried; `false` = there is none.
    async fn redeliver(&self, id: WebhookId, event_no: EventNo, now: Timestamp) -> StoreResult<bool>;
    /// Removes deliveries that were DELIVERED before `before`, and those of webhooks that are gone: of each webhook at most
    /// `limit`. Answers the most that went of one.
    async fn forget_deliveries(&self, before: Timestamp, limit: u32) -> StoreResult<u64>;
}
