//! Webhooks and their deliveries. Every step is one statement. Lists are planned each time: see [`super::events`].

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{
    Delivery, DeliveryState, EventNo, NoticeSet, Timestamp, Webhook, WebhookId, WebhookName, WebhookSecret,
};
use crate::storage::{Holder, StoreError, StoreResult, WebhookStore};

/// Rows in one statement.
const ROWS_PER_STATEMENT: usize = 500;

macro_rules! webhook_columns {
    () => {
        "webhook_id, name, url, notices, secrets, event_no, version, created_at, updated_at"
    };
}

macro_rules! delivery_columns {
    () => {
        "event_no, conversation_id, state, attempts, next_attempt_at, last_error, created_at, finished_at"
    };
}

fn bad(what: &str) -> StoreError {
    StoreError::Inconsistent(format!("{what} of a webhook cannot be read"))
}

/// `[["whsec_…", since, until or null], …]`
fn secrets_json(secrets: &[WebhookSecret]) -> String {
    let plain = |secret: &WebhookSecret| {
        let until = secret.retires_at.map(Timestamp::millis);
        (secret.text.clone(), secret.created_at.millis(), until)
    };
    let plain: Vec<_> = secrets.iter().map(plain).collect();
    serde_json::to_string(&plain).unwrap_or_default()
}

/// The inverse of [`secrets_json`].
fn secrets(json: &str) -> Option<Vec<WebhookSecret>> {
    let plain: Vec<(String, i64, Option<i64>)> = serde_json::from_str(json).ok()?;
    let secret = |(text, since, until): (String, i64, Option<i64>)| WebhookSecret {
        text,
        created_at: Timestamp::from_millis(since),
        retires_at: until.map(Timestamp::from_millis),
    };
    Some(plain.into_iter().map(secret).collect())
}

sql_impl! {
impl Columns<'r> {
    fn webhook(&mut self) -> StoreResult<Webhook> {
        Ok(Webhook {
            webhook_id: WebhookId::new(self.big()?).ok_or_else(|| bad("the id"))?,
            name: WebhookName::parse(&self.key()?).map_err(|_| bad("the name"))?,
            url: self.text()?,
            notices: NoticeSet::from_bits(self.big()?),
            secrets: secrets(&self.text()?).ok_or_else(|| bad("a secret"))?,
            event_no: EventNo::new(self.big()?),
            version: self.big()?,
            created_at: self.time()?,
            updated_at: self.time()?,
        })
    }

    fn delivery(&mut self) -> StoreResult<Delivery> {
        Ok(Delivery {
            event_no: EventNo::new(self.big()?),
            conversation_id: self.conversation_id()?,
            state: DeliveryState::from_code(self.small()?).ok_or_else(|| bad("the state of a delivery"))?,
            attempts: u32::try_from(self.big()?).unwrap_or(u32::MAX),
            next_attempt_at: self.time()?,
            last_error: self.maybe_text()?,
            created_at: self.time()?,
            finished_at: self.maybe_big()?.map(Timestamp::from_millis),
        })
    }
}
}

sql_impl! {
impl SqlStore {
    /// What is there is to be tried anew.
    async fn put_deliveries(&self, id: WebhookId, deliveries: &[Delivery]) -> StoreResult<()> {
        for part in deliveries.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(concat!(
                "INSERT INTO im_delivery (webhook_id, ", delivery_columns!(), ") "
            ));
            builder.push_values(part, |mut row, delivery| {
                row.push_bind(id.get())
                    .push_bind(delivery.event_no.get())
                    .push_bind(delivery.conversation_id.get())
                    .push_bind(delivery.state.code())
                    .push_bind(i64::from(delivery.attempts))
                    .push_bind(delivery.next_attempt_at.millis())
                    .push_bind(delivery.last_error.as_deref())
                    .push_bind(delivery.created_at.millis())
                    .push_bind(delivery.finished_at.map(Timestamp::millis));
            });
            builder.push(DB::upsert(
                " ON CONFLICT (webhook_id, event_no) DO UPDATE SET state = excluded.state, attempts = 0,
                 next_attempt_at = excluded.next_attempt_at, last_error = NULL, finished_at = NULL",
                " ON DUPLICATE KEY UPDATE state = VALUES(state), attempts = 0,
                 next_attempt_at = VALUES(next_attempt_at), last_error = NULL, finished_at = NULL",
            ));
            let _turn = self.gate.pass().await;
            bounded(builder.build().persistent(false).execute(&self.pool)).await?;
        }
        Ok(())
    }

    /// The webhook with the lowest id above `after` that deliveries are of.
    async fn next_with_deliveries(&self, after: i64) -> StoreResult<Option<i64>> {
        let query = sqlx::query(sql!("SELECT MIN(webhook_id) FROM im_delivery WHERE webhook_id > ?"));
        let row = bounded(query.bind(after).fetch_one(&self.pool)).await?;
        Columns::<DB>::new(&row).maybe_big()
    }

    async fn forget_deliveries_of(&self, id: i64, before: Timestamp, limit: u32) -> StoreResult<u64> {
        let query = sqlx::query(sql!("SELECT 1 FROM im_webhook WHERE webhook_id = ?"));
        let is_gone = bounded(query.bind(id).fetch_optional(&self.pool)).await?.is_none();
        let rows = if is_gone {
            let query = sqlx::query(sql!(
                "SELECT event_no FROM im_delivery WHERE webhook_id = ? ORDER BY event_no LIMIT ?"
            ));
            let query = query.bind(id).bind(i64::from(limit)).persistent(false);
            bounded(query.fetch_all(&self.pool)).await?
        } else {
            // The oldest; those that were delivered late wait for the next time.
            let query = sqlx::query(sql!(
                "SELECT event_no FROM (SELECT event_no, finished_at FROM im_delivery WHERE webhook_id = ? AND state = 2
                 ORDER BY event_no LIMIT ?) AS oldest WHERE finished_at < ?"
            ));
            let query = query.bind(id).bind(i64::from(limit)).bind(before.millis()).persistent(false);
            bounded(query.fetch_all(&self.pool)).await?
        };
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            events.push(Columns::<DB>::new(row).big()?);
        }
        for part in events.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new("DELETE FROM im_delivery WHERE webhook_id = ");
            builder.push_bind(id);
            if !is_gone {
                builder.push(" AND state = 2");
            }
            builder.push(" AND event_no IN (");
            let mut list = builder.separated(", ");
            for event_no in part {
                list.push_bind(*event_no);
            }
            builder.push(")");
            let _turn = self.gate.pass().await;
            bounded(builder.build().persistent(false).execute(&self.pool)).await?;
        }
        Ok(u64::try_from(events.len()).unwrap_or(u64::MAX))
    }
}
}

sql_impl! {
impl WebhookStore for SqlStore {
    async fn webhooks(&self) -> StoreResult<Vec<Webhook>> {
        let query = sqlx::query(sql!(concat!("SELECT ", webhook_columns!(), " FROM im_webhook ORDER BY name")));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).webhook()).collect()
    }

    async fn webhook(&self, name: &WebhookName) -> StoreResult<Option<Webhook>> {
        let query = sqlx::query(sql!(concat!("SELECT ", webhook_columns!(), " FROM im_webhook WHERE name = ?")));
        let row = bounded(query.bind(name.as_str().as_bytes()).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).webhook()).transpose()
    }

    async fn add_webhook(&self, webhook: &Webhook) -> StoreResult<bool> {
        let query = sqlx::query(sql!(concat!(
            "INSERT INTO im_webhook (", webhook_columns!(), ", holder, lease_until)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"
        )));
        let query = query.bind(webhook.webhook_id.get()).bind(webhook.name.as_str().as_bytes());
        let secrets = secrets_json(&webhook.secrets);
        let query = query.bind(webhook.url.as_str()).bind(webhook.notices.get()).bind(secrets.as_str());
        let query = query.bind(webhook.event_no.get()).bind(webhook.version);
        let query = query.bind(webhook.created_at.millis()).bind(webhook.updated_at.millis()).bind(b"".as_slice());
        let _turn = self.gate.pass().await;
        let inserted = query.execute(&self.pool);
        bounded(async {
            match inserted.await {
                Err(sqlx::Error::Database(refusal)) if refusal.is_unique_violation() => Ok(false),
                other => other.map(|_| true),
            }
        })
        .await
    }

    async fn change_webhook(&self, webhook: &Webhook) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "UPDATE im_webhook SET url = ?, notices = ?, secrets = ?, updated_at = ?, version = version + 1
             WHERE webhook_id = ? AND version = ?"
        ));
        let secrets = secrets_json(&webhook.secrets);
        let query = query.bind(webhook.url.as_str()).bind(webhook.notices.get()).bind(secrets.as_str());
        let query = query.bind(webhook.updated_at.millis()).bind(webhook.webhook_id.get()).bind(webhook.version);
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    async fn replay_webhook(&self, id: WebhookId, after: EventNo) -> StoreResult<()> {
        let query = sqlx::query(sql!(
            "UPDATE im_webhook SET event_no = ?, version = version + 1 WHERE webhook_id = ?"
        ));
        let _turn = self.gate.pass().await;
        bounded(query.bind(after.get()).bind(id.get()).execute(&self.pool)).await.map(drop)
    }

    async fn remove_webhook(&self, id: WebhookId) -> StoreResult<bool> {
        let query = sqlx::query(sql!("DELETE FROM im_webhook WHERE webhook_id = ?"));
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.bind(id.get()).execute(&self.pool)).await?) == 1)
    }

    async fn lease_webhook(&self, holder: Holder<'_>, now: Timestamp, until: Timestamp) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "UPDATE im_webhook SET holder = ?, lease_until = ?
             WHERE webhook_id = ? AND (holder = ? OR lease_until <= ?)"
        ));
        let name = holder.holder.as_bytes();
        let query = query.bind(name).bind(until.millis()).bind(holder.webhook_id.get()).bind(name);
        let query = query.bind(now.millis());
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    async fn release_webhook(&self, holder: Holder<'_>) -> StoreResult<()> {
        let query = sqlx::query(sql!("UPDATE im_webhook SET lease_until = 0 WHERE webhook_id = ? AND holder = ?"));
        let query = query.bind(holder.webhook_id.get()).bind(holder.holder.as_bytes());
        let _turn = self.gate.pass().await;
        bounded(query.execute(&self.pool)).await.map(drop)
    }

    async fn hand_over(
        &self,
        holder: Holder<'_>,
        webhook: &Webhook,
        deliveries: &[Delivery],
        up_to: EventNo,
    ) -> StoreResult<bool> {
        // The deliveries first: should the second statement not come, they are made once more.
        self.put_deliveries(holder.webhook_id, deliveries).await?;
        let query = sqlx::query(sql!(
            "UPDATE im_webhook SET event_no = ? WHERE webhook_id = ? AND holder = ? AND version = ? AND event_no = ?"
        ));
        let query = query.bind(up_to.get()).bind(holder.webhook_id.get()).bind(holder.holder.as_bytes());
        let query = query.bind(webhook.version).bind(webhook.event_no.get());
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    async fn pending(
        &self,
        id: WebhookId,
        after: EventNo,
        up_to: EventNo,
        limit: u32,
    ) -> StoreResult<Vec<Delivery>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", delivery_columns!(), " FROM im_delivery WHERE webhook_id = ? AND state = 1 AND event_no > ?
             AND event_no <= ? ORDER BY event_no LIMIT ?"
        )));
        let query = query.bind(id.get()).bind(after.get()).bind(up_to.get()).bind(i64::from(limit));
        let rows = bounded(query.persistent(false).fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).delivery()).collect()
    }

    async fn delivered(&self, holder: Holder<'_>, events: &[EventNo], now: Timestamp) -> StoreResult<()> {
        for part in events.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new("UPDATE im_delivery SET state = 2, last_error = NULL, finished_at = ");
            builder.push_bind(now.millis()).push(" WHERE webhook_id = ").push_bind(holder.webhook_id.get());
            builder.push(" AND state = 1 AND event_no IN (");
            let mut list = builder.separated(", ");
            for event_no in part {
                list.push_bind(event_no.get());
            }
            builder.push(") AND EXISTS (SELECT 1 FROM im_webhook h WHERE h.webhook_id = ");
            builder.push_bind(holder.webhook_id.get()).push(" AND h.holder = ");
            builder.push_bind(holder.holder.as_bytes()).push(")");
            let _turn = self.gate.pass().await;
            bounded(builder.build().persistent(part.len() == 1).execute(&self.pool)).await?;
        }
        Ok(())
    }

    async fn failed(&self, holder: Holder<'_>, delivery: &Delivery) -> StoreResult<()> {
        let query = sqlx::query(sql!(
            "UPDATE im_delivery SET state = ?, attempts = ?, next_attempt_at = ?, last_error = ?, finished_at = ?
             WHERE webhook_id = ? AND event_no = ? AND state = 1
             AND EXISTS (SELECT 1 FROM im_webhook h WHERE h.webhook_id = ? AND h.holder = ?)"
        ));
        let query = query.bind(delivery.state.code()).bind(i64::from(delivery.attempts));
        let query = query.bind(delivery.next_attempt_at.millis()).bind(delivery.last_error.as_deref());
        let query = query.bind(delivery.finished_at.map(Timestamp::millis)).bind(holder.webhook_id.get());
        let query = query.bind(delivery.event_no.get()).bind(holder.webhook_id.get());
        let query = query.bind(holder.holder.as_bytes());
        let _turn = self.gate.pass().await;
        bounded(query.execute(&self.pool)).await.map(drop)
    }

    async fn deliveries(
        &self,
        id: WebhookId,
        state: Option<DeliveryState>,
        before: Option<EventNo>,
        limit: u32,
    ) -> StoreResult<Vec<Delivery>> {
        let before = before.map_or(i64::MAX, EventNo::get);
        let all = sql!(concat!(
            "SELECT ", delivery_columns!(), " FROM im_delivery WHERE webhook_id = ? AND event_no < ?
             ORDER BY event_no DESC LIMIT ?"
        ));
        let some = sql!(concat!(
            "SELECT ", delivery_columns!(), " FROM im_delivery WHERE webhook_id = ? AND state = ? AND event_no < ?
             ORDER BY event_no DESC LIMIT ?"
        ));
        let query = match state {
            None => sqlx::query(all).bind(id.get()),
            Some(state) => sqlx::query(some).bind(id.get()).bind(state.code()),
        };
        let query = query.bind(before).bind(i64::from(limit)).persistent(false);
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).delivery()).collect()
    }

    async fn redeliver(&self, id: WebhookId, event_no: EventNo, now: Timestamp) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "UPDATE im_delivery SET state = 1, attempts = 0, next_attempt_at = ?, last_error = NULL, finished_at = NULL
             WHERE webhook_id = ? AND event_no = ?"
        ));
        let query = query.bind(now.millis()).bind(id.get()).bind(event_no.get());
        let turn = self.gate.pass().await;
        let found = DB::affected(&bounded(query.execute(&self.pool)).await?) == 1;
        drop(turn);
        if found {
            // Whoever calls it looks anew.
            let query = sqlx::query(sql!("UPDATE im_webhook SET version = version + 1 WHERE webhook_id = ?"));
            let _turn = self.gate.pass().await;
            bounded(query.bind(id.get()).execute(&self.pool)).await?;
        }
        Ok(found)
    }

    async fn forget_deliveries(&self, before: Timestamp, limit: u32) -> StoreResult<u64> {
        let (mut id, mut most) = (0, 0);
        while let Some(next) = self.next_with_deliveries(id).await? {
            most = most.max(self.forget_deliveries_of(next, before, limit).await?);
            id = next;
        }
        Ok(most)
    }
}
}
