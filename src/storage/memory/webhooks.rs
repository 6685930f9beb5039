//! Webhooks and their deliveries.

use std::collections::BTreeMap;
use std::ops::Bound;

use async_trait::async_trait;

use super::MemoryStore;
use crate::domain::{Delivery, DeliveryState, EventNo, Timestamp, Webhook, WebhookId, WebhookName};
use crate::storage::{Holder, StoreResult, WebhookStore};

/// All of them.
#[derive(Default)]
pub(super) struct WebhookTables {
    pub(super) webhooks: BTreeMap<WebhookName, WebhookRow>,
    pub(super) deliveries: BTreeMap<(WebhookId, EventNo), Delivery>,
}

/// A webhook, and who calls it.
pub(super) struct WebhookRow {
    webhook: Webhook,
    holder: String,
    lease_until: Timestamp,
}

impl WebhookTables {
    fn row(&mut self, id: WebhookId) -> Option<&mut WebhookRow> {
        self.webhooks.values_mut().find(|row| row.webhook.webhook_id == id)
    }

    fn held(&mut self, holder: Holder<'_>) -> Option<&mut WebhookRow> {
        self.row(holder.webhook_id).filter(|row| row.holder == holder.holder)
    }

    /// Those of one webhook after a place.
    fn of(&self, id: WebhookId, after: EventNo) -> impl DoubleEndedIterator<Item = &Delivery> {
        let range = (
            Bound::Excluded((id, after)),
            Bound::Included((id, EventNo::new(i64::MAX))),
        );
        self.deliveries.range(range).map(|(_, delivery)| delivery)
    }
}

#[async_trait]
impl WebhookStore for MemoryStore {
    async fn webhooks(&self) -> StoreResult<Vec<Webhook>> {
        self.call(|tables| {
            tables
                .webhooks
                .webhooks
                .values()
                .map(|row| row.webhook.clone())
                .collect()
        })
        .await
    }

    async fn webhook(&self, name: &WebhookName) -> StoreResult<Option<Webhook>> {
        self.call(|tables| tables.webhooks.webhooks.get(name).map(|row| row.webhook.clone()))
            .await
    }

    async fn add_webhook(&self, webhook: &Webhook) -> StoreResult<bool> {
        self.call(|tables| {
            let webhooks = &mut tables.webhooks.webhooks;
            if webhooks.contains_key(&webhook.name) {
                return false;
            }
            let row = WebhookRow {
                webhook: webhook.clone(),
                holder: String::new(),
                lease_until: Timestamp::default(),
            };
            webhooks.insert(webhook.name.clone(), row);
            true
        })
        .await
    }

    async fn change_webhook(&self, webhook: &Webhook) -> StoreResult<bool> {
        self.call(|tables| {
            let row = tables.webhooks.row(webhook.webhook_id);
            let Some(row) = row.filter(|row| row.webhook.version == webhook.version) else {
                return false;
            };
            row.webhook = Webhook {
                event_no: row.webhook.event_no,
                version: row.webhook.version + 1,
                ..webhook.clone()
            };
            true
        })
        .await
    }

    async fn replay_webhook(&self, id: WebhookId, after: EventNo) -> StoreResult<()> {
        self.call(|tables| {
            if let Some(row) = tables.webhooks.row(id) {
                row.webhook.event_no = after;
                row.webhook.version += 1;
            }
        })
        .await
    }

    async fn remove_webhook(&self, id: WebhookId) -> StoreResult<bool> {
        self.call(|tables| {
            let before = tables.webhooks.webhooks.len();
            tables.webhooks.webhooks.retain(|_, row| row.webhook.webhook_id != id);
            tables.webhooks.webhooks.len() < before
        })
        .await
    }

    async fn lease_webhook(&self, holder: Holder<'_>, now: Timestamp, until: Timestamp) -> StoreResult<bool> {
        self.call(|tables| {
            let row = tables.webhooks.row(holder.webhook_id);
            let Some(row) = row.filter(|row| row.holder == holder.holder || row.lease_until <= now) else {
                return false;
            };
            holder.holder.clone_into(&mut row.holder);
            row.lease_until = until;
            true
        })
        .await
    }

    async fn release_webhook(&self, holder: Holder<'_>) -> StoreResult<()> {
        self.call(|tables| {
            if let Some(row) = tables.webhooks.held(holder) {
                row.lease_until = Timestamp::default();
            }
        })
        .await
    }

    async fn hand_over(
        &self,
        holder: Holder<'_>,
        webhook: &Webhook,
        deliveries: &[Delivery],
        up_to: EventNo,
    ) -> StoreResult<bool> {
        self.call(|tables| {
            for delivery in deliveries {
                let key = (holder.webhook_id, delivery.event_no);
                let row = tables
                    .webhooks
                    .deliveries
                    .entry(key)
                    .or_insert_with(|| delivery.clone());
                let created_at = row.created_at;
                *row = Delivery {
                    created_at,
                    ..delivery.clone()
                };
            }
            let row = tables.webhooks.held(holder);
            let same = |row: &&mut WebhookRow| {
                (row.webhook.version, row.webhook.event_no) == (webhook.version, webhook.event_no)
            };
            let Some(row) = row.filter(same) else {
                return false;
            };
            row.webhook.event_no = up_to;
            true
        })
        .await
    }

    async fn pending(&self, id: WebhookId, after: EventNo, up_to: EventNo, limit: u32) -> StoreResult<Vec<Delivery>> {
        self.call(|tables| {
            let pending = tables
                .webhooks
                .of(id, after)
                .filter(|delivery| delivery.state == DeliveryState::Pending);
            let pending = pending.take_while(|delivery| delivery.event_no <= up_to);
            pending
                .take(usize::try_from(limit).unwrap_or(usize::MAX))
                .cloned()
                .collect()
        })
        .await
    }

    async fn delivered(&self, holder: Holder<'_>, events: &[EventNo], now: Timestamp) -> StoreResult<()> {
        self.call(|tables| {
            if tables.webhooks.held(holder).is_none() {
                return;
            }
            for event_no in events {
                let row = tables.webhooks.deliveries.get_mut(&(holder.webhook_id, *event_no));
                if let Some(row) = row.filter(|row| row.state == DeliveryState::Pending) {
                    row.state = DeliveryState::Delivered;
                    (row.last_error, row.finished_at) = (None, Some(now));
                }
            }
        })
        .await
    }

    async fn failed(&self, holder: Holder<'_>, delivery: &Delivery) -> StoreResult<()> {
        self.call(|tables| {
            if tables.webhooks.held(holder).is_none() {
                return;
            }
            let row = tables
                .webhooks
                .deliveries
                .get_mut(&(holder.webhook_id, delivery.event_no));
            if let Some(row) = row.filter(|row| row.state == DeliveryState::Pending) {
                *row = Delivery {
                    created_at: row.created_at,
                    ..delivery.clone()
                };
            }
        })
        .await
    }

    async fn deliveries(
        &self,
        id: WebhookId,
        state: Option<DeliveryState>,
        before: Option<EventNo>,
        limit: u32,
    ) -> StoreResult<Vec<Delivery>> {
        self.call(|tables| {
            let newest = tables.webhooks.of(id, EventNo::ZERO).rev();
            let newest = newest.filter(|delivery| before.is_none_or(|before| delivery.event_no < before));
            let newest = newest.filter(|delivery| state.is_none_or(|state| delivery.state == state));
            newest
                .take(usize::try_from(limit).unwrap_or(usize::MAX))
                .cloned()
                .collect()
        })
        .await
    }

    async fn redeliver(&self, id: WebhookId, event_no: EventNo, now: Timestamp) -> StoreResult<bool> {
        self.call(|tables| {
            let Some(delivery) = tables.webhooks.deliveries.get_mut(&(id, event_no)) else {
                return false;
            };
            *delivery = Delivery {
                created_at: delivery.created_at,
                ..Delivery::new(event_no, delivery.conversation_id, now)
            };
            if let Some(row) = tables.webhooks.row(id) {
                row.webhook.version += 1;
            }
            true
        })
        .await
    }

    async fn forget_deliveries(&self, before: Timestamp, limit: u32) -> StoreResult<u64> {
        self.call(|tables| {
            let mut forgotten: BTreeMap<WebhookId, u64> = BTreeMap::new();
            let known: Vec<WebhookId> = tables
                .webhooks
                .webhooks
                .values()
                .map(|row| row.webhook.webhook_id)
                .collect();
            tables.webhooks.deliveries.retain(|(id, _), delivery| {
                let is_old = delivery.state == DeliveryState::Delivered
                    && delivery.finished_at.is_some_and(|finished| finished < before);
                let goes = is_old || !known.contains(id);
                let count = forgotten.entry(*id).or_default();
                let goes = goes && *count < u64::from(limit);
                *count += u64::from(goes);
                !goes
            });
            forgotten.into_values().max().unwrap_or_default()
        })
        .await
    }
}
