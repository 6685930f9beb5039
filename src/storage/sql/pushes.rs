//! Who has missed a message, and what else the log of events asks for and removes.

use std::collections::{BTreeMap, HashMap};

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{ConversationId, EventNo, PlacedNotice, Principal, PrincipalType, Seq, Timestamp};
use crate::storage::{EventStore, Lag, LagPage, LogState, Missable, PushDue, StoreResult, Unplaced, WebhookStore};

/// Principals in one statement.
const PRINCIPALS_PER_STATEMENT: usize = 500;

sql_impl! {
impl Columns<'r> {
    /// `conversation_id, told_seq, last_seq, due_at`
    pub(super) fn push_due(&mut self) -> StoreResult<PushDue> {
        Ok(PushDue {
            conversation_id: self.conversation_id()?,
            told: self.seq()?,
            last: self.seq()?,
            due_at: self.time()?,
        })
    }
}
}

sql_impl! {
impl SqlStore {
    /// The last of the oldest `limit` events, and whether it was placed before `before`; those after it do not count.
    async fn oldest_before(&self, before: Timestamp, limit: u32) -> StoreResult<Option<(i64, u64)>> {
        let query = sqlx::query(sql!("SELECT event_no, placed_at FROM im_event ORDER BY event_no LIMIT ?"));
        let rows = bounded(query.bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        let (mut last, mut count) = (None, 0);
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            let (event_no, placed_at) = (columns.big()?, columns.time()?);
            if placed_at >= before {
                break;
            }
            (last, count) = (Some(event_no), count + 1);
        }
        Ok(last.map(|last| (last, count)))
    }

    /// Each look-up by its key, member by member: of NOT EXISTS, MariaDB makes a set of all rows first.
    ///
    /// Those of one type: with `type > ? OR type = ? AND id > ?` every page would read the members from the first one on.
    async fn absent_of(
        &self,
        conversation_id: ConversationId,
        message: Missable,
        after: Principal,
        limit: u32,
    ) -> StoreResult<Vec<Principal>> {
        let query = sqlx::query(sql!(
            "SELECT r.principal_type, r.principal_id FROM im_member r
             JOIN im_message m ON m.message_id = ?
             WHERE r.conversation_id = ? AND r.principal_type = ? AND r.principal_id > ?
             AND r.status = 1 AND r.muted = ? AND r.last_read_seq < ? AND r.cleared_seq < ?
             AND NOT (r.principal_type = m.sender_type AND r.principal_id = m.sender_id)
             AND COALESCE((SELECT MAX(d.seq) FROM im_device_cursor d WHERE d.principal_type = r.principal_type
             AND d.principal_id = r.principal_id AND d.conversation_id = r.conversation_id), 0) < ?
             AND COALESCE((SELECT a.status FROM im_user_action a WHERE a.principal_type = r.principal_type
             AND a.principal_id = r.principal_id AND a.action_type = 1 AND a.message_id = m.message_id), 0) <> 1
             AND COALESCE((SELECT p.status FROM im_principal p WHERE p.principal_type = r.principal_type
             AND p.principal_id = r.principal_id), 0) <> 2
             ORDER BY r.principal_id LIMIT ?"
        ));
        let seq = message.seq.get();
        let query = query.bind(message.message_id.get()).bind(conversation_id.get());
        let query = query.bind(after.kind.code()).bind(after.id).bind(false).bind(seq).bind(seq).bind(seq);
        let query = query.bind(i64::from(limit)).persistent(false);
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).principal()).collect()
    }

    async fn totals_of(
        &self,
        kind: PrincipalType,
        ids: &[i64],
        totals: &mut HashMap<Principal, u64>,
    ) -> StoreResult<()> {
        let mut builder = QueryBuilder::<DB>::new(concat!(
            "SELECT r.principal_type, r.principal_id, ", unread_column!(),
            " FROM im_member r JOIN im_conversation c ON c.conversation_id = r.conversation_id",
            " WHERE r.status = 1 AND c.kind <> 3 AND r.muted = ",
        ));
        builder.push_bind(false).push(" AND c.last_count_no > r.last_read_count_no AND r.principal_type = ");
        builder.push_bind(kind.code()).push(" AND r.principal_id IN (");
        let mut list = builder.separated(", ");
        for id in ids {
            list.push_bind(*id);
        }
        builder.push(")");
        let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            let principal = columns.principal()?;
            *totals.entry(principal).or_default() += columns.count()?;
        }
        Ok(())
    }
}
}

sql_impl! {
impl EventStore for SqlStore {
    async fn log_state(&self) -> StoreResult<LogState> {
        self.read_log_state().await
    }

    async fn wake_log(&self, now: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(sql!(
            "UPDATE im_event_log SET active_since = ? WHERE log_id = 1 AND active_since = 0"
        ));
        let _turn = self.gate.pass().await;
        bounded(query.bind(now.millis()).execute(&self.pool)).await.map(drop)
    }

    async fn feed_asked(&self, now: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(sql!("UPDATE im_event_log SET feed_asked_at = ? WHERE log_id = 1"));
        let _turn = self.gate.pass().await;
        bounded(query.bind(now.millis()).execute(&self.pool)).await.map(drop)
    }

    async fn rest_log(&self, unasked_since: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(sql!(
            "UPDATE im_event_log SET active_since = 0 WHERE log_id = 1 AND active_since <> 0 AND feed_asked_at < ?
             AND NOT EXISTS (SELECT 1 FROM im_webhook)"
        ));
        let _turn = self.gate.pass().await;
        bounded(query.bind(unasked_since.millis()).execute(&self.pool)).await.map(drop)
    }

    async fn lags_of(&self, ids: &[ConversationId], active_since: Timestamp) -> StoreResult<Vec<Lag>> {
        self.lags_of_ids(ids, active_since).await
    }

    async fn lags(
        &self,
        after: Option<ConversationId>,
        limit: u32,
        active_since: Timestamp,
    ) -> StoreResult<LagPage> {
        self.lags_after(after, limit, active_since).await
    }

    async fn unplaced(&self, lags: &[Lag], limit: u32) -> StoreResult<Vec<Unplaced>> {
        self.unplaced_of(lags, limit).await
    }

    async fn events_after(&self, after: EventNo, limit: u32) -> StoreResult<Vec<PlacedNotice>> {
        self.read_events(after, limit).await
    }

    async fn oldest_event(&self) -> StoreResult<Option<EventNo>> {
        let row = bounded(sqlx::query(sql!("SELECT MIN(event_no) FROM im_event")).fetch_one(&self.pool)).await?;
        Ok(Columns::<DB>::new(&row).maybe_big()?.map(EventNo::new))
    }

    async fn forget_events(&self, before: Timestamp, limit: u32) -> StoreResult<u64> {
        let Some((last, count)) = self.oldest_before(before, limit).await? else {
            return Ok(0);
        };
        // What hangs on them first: should the last statement fail, it is tried again. Webhook by webhook, or MariaDB would
        // read all deliveries.
        for webhook in self.webhooks().await? {
            let query = sqlx::query(sql!("DELETE FROM im_delivery WHERE webhook_id = ? AND event_no <= ?"));
            let _turn = self.gate.pass().await;
            bounded(query.bind(webhook.webhook_id.get()).bind(last).execute(&self.pool)).await?;
        }
        let query = sqlx::query(sql!("DELETE FROM im_event WHERE event_no <= ?"));
        let _turn = self.gate.pass().await;
        bounded(query.bind(last).execute(&self.pool)).await?;
        Ok(count)
    }

    async fn pushes_due(&self, now: Timestamp, limit: u32) -> StoreResult<Vec<PushDue>> {
        let query = sqlx::query(sql!(
            "SELECT conversation_id, told_seq, last_seq, due_at FROM im_push WHERE due_at <= ?
             ORDER BY due_at, conversation_id LIMIT ?"
        ));
        let query = query.bind(now.millis()).bind(i64::from(limit)).persistent(false);
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).push_due()).collect()
    }

    async fn missable(
        &self,
        conversation_id: ConversationId,
        (after, up_to): (Seq, Seq),
        sent_before: Timestamp,
    ) -> StoreResult<Option<Missable>> {
        let query = sqlx::query(sql!(
            "SELECT seq, message_id FROM im_message WHERE conversation_id = ? AND seq > ? AND seq <= ?
             AND status NOT IN (3, 4) AND (sender_type <> 3 OR message_type = 'NOTIFICATION') AND sent_at <= ?
             ORDER BY seq DESC LIMIT 1"
        ));
        let query = query.bind(conversation_id.get()).bind(after.get()).bind(up_to.get()).bind(sent_before.millis());
        let row = bounded(query.persistent(false).fetch_optional(&self.pool)).await?;
        row.map(|row| {
            let mut columns = Columns::<DB>::new(&row);
            Ok(Missable { seq: columns.seq()?, message_id: columns.message_id()? })
        })
        .transpose()
    }

    async fn absent(
        &self,
        conversation_id: ConversationId,
        message: Missable,
        after: Option<Principal>,
        limit: u32,
    ) -> StoreResult<Vec<Principal>> {
        let mut absent = Vec::new();
        for kind in [PrincipalType::User, PrincipalType::Agent] {
            let id = match after {
                Some(after) if after.kind > kind => continue,
                Some(after) if after.kind == kind => after.id,
                _ => 0,
            };
            let left = limit.saturating_sub(u32::try_from(absent.len()).unwrap_or(limit));
            if left > 0 {
                absent.extend(self.absent_of(conversation_id, message, Principal { kind, id }, left).await?);
            }
        }
        Ok(absent)
    }

    async fn unread_totals(&self, principals: &[Principal]) -> StoreResult<Vec<(Principal, u64)>> {
        let mut ids: BTreeMap<PrincipalType, Vec<i64>> = BTreeMap::new();
        for principal in principals {
            ids.entry(principal.kind).or_default().push(principal.id);
        }
        let mut totals = HashMap::new();
        for (kind, ids) in &ids {
            for part in ids.chunks(PRINCIPALS_PER_STATEMENT) {
                self.totals_of(*kind, part, &mut totals).await?;
            }
        }
        Ok(totals.into_iter().filter(|(_, total)| *total > 0).collect())
    }
}
}
