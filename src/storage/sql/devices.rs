//! Devices and their cursors.

use std::collections::BTreeMap;

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{ChangeSeq, ConversationId, DeviceId, Principal, Seq, Timestamp};
use crate::storage::{Device, DeviceCursor, DeviceStore, StoreError, StoreResult};

/// Cursors in one statement: SQLite bounds the parts of a UNION.
const CURSORS_PER_STATEMENT: usize = 200;

sql_impl! {
impl DeviceStore for SqlStore {
    async fn touch_device(
        &self,
        principal: Principal,
        device: &DeviceId,
        platform: Option<&str>,
        now: Timestamp,
    ) -> StoreResult<()> {
        let text = DB::upsert(
            sql!(
                "INSERT INTO im_device (principal_type, principal_id, device_id, platform, created_at, last_seen_at)
                 VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (principal_type, principal_id, device_id) DO UPDATE
                 SET platform = COALESCE(excluded.platform, im_device.platform), last_seen_at = excluded.last_seen_at"
            ),
            "INSERT INTO im_device (principal_type, principal_id, device_id, platform, created_at, last_seen_at)
             VALUES (?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE
             platform = COALESCE(VALUES(platform), platform), last_seen_at = VALUES(last_seen_at)",
        );
        let query = sqlx::query(text).bind(principal.kind.code()).bind(principal.id).bind(device.as_str().as_bytes());
        let query = query.bind(platform).bind(now.millis()).bind(now.millis());
        let _turn = self.gate.pass().await;
        bounded(query.execute(&self.pool)).await.map(drop)
    }

    async fn acknowledge(
        &self,
        principal: Principal,
        device: &DeviceId,
        acks: &[DeviceCursor],
        now: Timestamp,
    ) -> StoreResult<()> {
        // One row per conversation, in the order of the ids, so that two statements cannot wait for each other.
        let mut newest: BTreeMap<ConversationId, (Seq, ChangeSeq)> = BTreeMap::new();
        for ack in acks {
            let row = newest.entry(ack.conversation_id).or_default();
            *row = (row.0.max(ack.seq), row.1.max(ack.change_seq));
        }
        let rows: Vec<_> = newest.into_iter().collect();
        for part in rows.chunks(CURSORS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(
                "INSERT INTO im_device_cursor
                 (principal_type, principal_id, conversation_id, device_id, seq, change_seq, updated_at)
                 SELECT r.principal_type, r.principal_id, r.conversation_id, ",
            );
            builder.push_bind(device.as_str().as_bytes()).push(
                ", CASE WHEN a.seq > c.last_seq THEN c.last_seq ELSE a.seq END,
                 CASE WHEN a.change_seq > c.last_change_seq THEN c.last_change_seq ELSE a.change_seq END, ",
            );
            builder.push_bind(now.millis()).push(" FROM (");
            let mut union = builder.separated(" UNION ALL ");
            for (conversation, (seq, change_seq)) in part {
                union.push("SELECT ").push_bind_unseparated(conversation.get());
                union.push_unseparated(" AS conversation_id, ").push_bind_unseparated(seq.get());
                union.push_unseparated(" AS seq, ").push_bind_unseparated(change_seq.get());
                union.push_unseparated(" AS change_seq");
            }
            builder.push(
                ") a JOIN im_conversation c ON c.conversation_id = a.conversation_id
                 JOIN im_member r ON r.conversation_id = a.conversation_id AND r.status = 1 AND r.principal_type = ",
            );
            builder.push_bind(principal.kind.code()).push(" AND r.principal_id = ");
            // SQLite needs a WHERE before ON CONFLICT, to tell it from the ON of a join.
            builder.push_bind(principal.id).push(" WHERE 1 = 1 ").push(DB::upsert(
                "ON CONFLICT (principal_type, principal_id, conversation_id, device_id) DO UPDATE SET
                 seq = CASE WHEN excluded.seq > im_device_cursor.seq THEN excluded.seq ELSE im_device_cursor.seq END,
                 change_seq = CASE WHEN excluded.change_seq > im_device_cursor.change_seq
                 THEN excluded.change_seq ELSE im_device_cursor.change_seq END, updated_at = excluded.updated_at",
                "ON DUPLICATE KEY UPDATE seq = GREATEST(im_device_cursor.seq, VALUES(seq)),
                 change_seq = GREATEST(im_device_cursor.change_seq, VALUES(change_seq)),
                 updated_at = VALUES(updated_at)",
            ));
            let _turn = self.gate.pass().await;
            bounded(builder.build().persistent(part.len() == 1).execute(&self.pool)).await?;
        }
        Ok(())
    }

    async fn devices(&self, principal: Principal, after: Option<&DeviceId>, limit: u32) -> StoreResult<Vec<Device>> {
        let query = sqlx::query(sql!(
            "SELECT device_id, platform, last_seen_at FROM im_device WHERE principal_type = ? AND principal_id = ?
             AND device_id > ? ORDER BY device_id LIMIT ?"
        ));
        let query = query.bind(principal.kind.code()).bind(principal.id);
        // No name is empty, so each stands behind that.
        let query = query.bind(after.map_or("", DeviceId::as_str).as_bytes()).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let device = |row| {
            let mut columns = Columns::<DB>::new(row);
            let id = columns.key()?;
            let device_id = DeviceId::parse(&id);
            Ok(Device {
                device_id: device_id.map_err(|_| StoreError::Inconsistent(format!("{id:?} is no device_id")))?,
                platform: columns.maybe_text()?,
                last_seen_at: columns.time()?,
            })
        };
        rows.iter().map(device).collect()
    }

    async fn forget_device(&self, principal: Principal, device: &DeviceId) -> StoreResult<bool> {
        // The cursors first: should the second statement fail, the device is still listed and can be forgotten again.
        let texts = [
            sql!("DELETE FROM im_device_cursor WHERE principal_type = ? AND principal_id = ? AND device_id = ?"),
            sql!("DELETE FROM im_device WHERE principal_type = ? AND principal_id = ? AND device_id = ?"),
        ];
        let mut found = 0;
        for text in texts {
            let query = sqlx::query(text).bind(principal.kind.code()).bind(principal.id);
            let query = query.bind(device.as_str().as_bytes());
            let _turn = self.gate.pass().await;
            found += DB::affected(&bounded(query.execute(&self.pool)).await?);
        }
        Ok(found > 0)
    }

    async fn reset_cursors(
        &self,
        principal: Principal,
        device: &DeviceId,
        conversations: &[ConversationId],
        now: Timestamp,
    ) -> StoreResult<()> {
        for part in conversations.chunks(CURSORS_PER_STATEMENT) {
            let mut builder =
                QueryBuilder::<DB>::new("UPDATE im_device_cursor SET seq = 0, change_seq = 0, updated_at = ");
            builder.push_bind(now.millis()).push(" WHERE principal_type = ").push_bind(principal.kind.code());
            builder.push(" AND principal_id = ").push_bind(principal.id).push(" AND device_id = ");
            builder.push_bind(device.as_str().as_bytes()).push(" AND conversation_id IN (");
            let mut list = builder.separated(", ");
            for conversation in part {
                list.push_bind(conversation.get());
            }
            builder.push(")");
            let _turn = self.gate.pass().await;
            bounded(builder.build().persistent(false).execute(&self.pool)).await?;
        }
        Ok(())
    }

    async fn cursors(&self, principal: Principal, device: &DeviceId) -> StoreResult<Vec<DeviceCursor>> {
        let query = sqlx::query(sql!(
            "SELECT conversation_id, seq, change_seq FROM im_device_cursor
             WHERE principal_type = ? AND principal_id = ? AND device_id = ?"
        ));
        let query = query.bind(principal.kind.code()).bind(principal.id).bind(device.as_str().as_bytes());
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let cursor = |row| {
            let mut columns = Columns::<DB>::new(row);
            Ok(DeviceCursor {
                conversation_id: columns.conversation_id()?,
                seq: columns.seq()?,
                change_seq: ChangeSeq::new(columns.big()?),
            })
        };
        rows.iter().map(cursor).collect()
    }
}
}
