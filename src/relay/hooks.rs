//! What the operator does with webhooks.

use std::sync::Arc;

use super::webhooks::check_secret;
use super::{Shared, feed};
use crate::domain::{
    Code, Delivery, DeliveryState, DomainError, EventNo, InvalidField, NoticeSet, Webhook, WebhookId, WebhookName,
};
use crate::ids::Ids;
use crate::service::ServiceError;

/// The most webhooks of a store.
pub const WEBHOOKS_MAX: usize = 100;
/// How often a change is tried beside others of the same webhook.
const TRIES_MAX: u32 = 10;

/// What is to be set; `None` = stays. A new one needs address and secret.
#[derive(Clone, Debug, Default)]
pub struct WebhookPatch {
    /// Where.
    pub url: Option<String>,
    /// With which events are signed from now on.
    pub secret: Option<String>,
    /// What for.
    pub notices: Option<NoticeSet>,
}

/// Webhooks, as the operator sees them.
pub struct Webhooks {
    shared: Arc<Shared>,
    ids: Arc<Ids>,
}

impl Webhooks {
    pub(super) const fn new(shared: Arc<Shared>, ids: Arc<Ids>) -> Self {
        Self { shared, ids }
    }

    /// Makes or changes the webhook of this name; `true` = it is new. A new one is called with what happens from now on.
    ///
    /// # Errors
    /// `invalid_request` with the field's name: also when the address may not be called, or there are too many webhooks.
    pub async fn put(&self, name: &WebhookName, patch: &WebhookPatch) -> Result<(Webhook, bool), ServiceError> {
        if let Some(url) = &patch.url {
            self.shared.post.check(url).await?;
        }
        if let Some(secret) = &patch.secret {
            check_secret(secret)?;
        }
        for _ in 0..TRIES_MAX {
            let found = self.shared.store.webhook(name).await?;
            let is_new = found.is_none();
            let (webhook, kept) = if let Some(former) = found {
                let changed = self.changed(&former, patch);
                let kept = self.shared.store.change_webhook(&changed).await?;
                (changed, kept)
            } else {
                let webhook = self.make(name, patch).await?;
                let kept = self.shared.store.add_webhook(&webhook).await?;
                (webhook, kept)
            };
            if kept {
                self.shared.store.wake_log(self.shared.clock.now()).await?;
                self.noticed();
                return Ok((webhook, is_new));
            }
        }
        Err(ServiceError::new(
            Code::Overloaded,
            "others change this webhook at the same time; try again",
        ))
    }

    fn changed(&self, former: &Webhook, patch: &WebhookPatch) -> Webhook {
        let now = self.shared.clock.now();
        let mut webhook = former.clone();
        if let Some(url) = &patch.url {
            webhook.url.clone_from(url);
        }
        if let Some(secret) = &patch.secret {
            webhook.rotate(secret, now, now.plus(self.shared.options.secret_overlap));
        }
        webhook.notices = patch.notices.unwrap_or(webhook.notices);
        webhook.updated_at = now;
        webhook
    }

    async fn make(&self, name: &WebhookName, patch: &WebhookPatch) -> Result<Webhook, ServiceError> {
        let missing = |field| InvalidField::new(field, "is required: there is no webhook of this name yet");
        let url = patch.url.clone().ok_or_else(|| missing("url"))?;
        let secret = patch.secret.as_deref().ok_or_else(|| missing("secret"))?;
        if self.shared.store.webhooks().await?.len() >= WEBHOOKS_MAX {
            return Err(InvalidField::new("name", "would be one too many: there are at most 100 webhooks").into());
        }
        let now = self.shared.clock.now();
        let id = self.ids.next()?;
        let webhook_id = WebhookId::new(id).ok_or_else(|| ServiceError::internal(&"an id that is none"))?;
        let mut webhook = Webhook {
            webhook_id,
            name: name.clone(),
            url,
            notices: patch.notices.unwrap_or_default(),
            secrets: Vec::new(),
            event_no: self.shared.store.log_state().await?.newest,
            version: 1,
            created_at: now,
            updated_at: now,
        };
        webhook.rotate(secret, now, now);
        Ok(webhook)
    }

    /// Those who call learn of it at once, here.
    fn noticed(&self) {
        self.shared.interest.look();
        self.shared.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// All of them, by name.
    ///
    /// # Errors
    /// `unavailable`
    pub async fn list(&self) -> Result<Vec<Webhook>, ServiceError> {
        Ok(self.shared.store.webhooks().await?)
    }

    /// The one of this name.
    ///
    /// # Errors
    /// `not_found`
    pub async fn get(&self, name: &WebhookName) -> Result<Webhook, ServiceError> {
        let found = self.shared.store.webhook(name).await?;
        Ok(found.ok_or(DomainError::NotFound("no webhook of this name"))?)
    }

    /// It is called no more, and its deliveries go.
    ///
    /// # Errors
    /// `not_found`
    pub async fn remove(&self, name: &WebhookName) -> Result<(), ServiceError> {
        let webhook = self.get(name).await?;
        self.shared.store.remove_webhook(webhook.webhook_id).await?;
        self.noticed();
        Ok(())
    }

    /// Its deliveries, the newest first.
    ///
    /// # Errors
    /// `not_found`
    pub async fn deliveries(
        &self,
        name: &WebhookName,
        state: Option<DeliveryState>,
        before: Option<EventNo>,
        limit: u32,
    ) -> Result<Vec<Delivery>, ServiceError> {
        let webhook = self.get(name).await?;
        let store = &self.shared.store;
        Ok(store.deliveries(webhook.webhook_id, state, before, limit).await?)
    }

    /// Tries a delivery again, whatever became of it.
    ///
    /// # Errors
    /// `not_found`
    pub async fn redeliver(&self, name: &WebhookName, event_no: EventNo) -> Result<Delivery, ServiceError> {
        let webhook = self.get(name).await?;
        let (store, now) = (&self.shared.store, self.shared.clock.now());
        let found = store.redeliver(webhook.webhook_id, event_no, now).await?;
        let behind = event_no.next();
        let newest = store.deliveries(webhook.webhook_id, None, Some(behind), 1).await?;
        let delivery = newest
            .into_iter()
            .find(|delivery| found && delivery.event_no == event_no);
        self.noticed();
        Ok(delivery.ok_or(DomainError::NotFound("no such delivery (any more)"))?)
    }

    /// Delivers everything after an event again.
    ///
    /// # Errors
    /// `not_found`; `history_reset` when events after `after` were removed, or there is no such place.
    pub async fn replay(&self, name: &WebhookName, after: EventNo) -> Result<Webhook, ServiceError> {
        let webhook = self.get(name).await?;
        let state = self.shared.store.log_state().await?;
        feed::check_place(self.shared.store.as_ref(), after, state).await?;
        self.shared.store.replay_webhook(webhook.webhook_id, after).await?;
        self.noticed();
        self.get(name).await
    }
}
