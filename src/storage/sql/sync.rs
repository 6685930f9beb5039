//! Reads for a device that was away: many conversations in one statement.

use sqlx::QueryBuilder;

use super::conversations::seen_from;
use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{ChangeSeq, ConversationId, Message, MessageId, Principal, Seq};
use crate::storage::{About, Logged, Outline, Seen, Standing, StoreResult, Stretch, SyncStore, Unread, Window};

/// Parts of a UNION or an OR in one statement: SQLite bounds both.
const PARTS_PER_STATEMENT: usize = 100;
/// Ids in one statement.
const IDS_PER_STATEMENT: usize = 500;

sql_impl! {
impl SyncStore for SqlStore {
    async fn standings(&self, viewer: Principal) -> StoreResult<Vec<Standing>> {
        let query = sqlx::query(sql!(
            "SELECT c.conversation_id, c.last_seq, c.last_change_seq, c.last_activity_at
             FROM im_member r JOIN im_conversation c ON c.conversation_id = r.conversation_id
             WHERE r.principal_type = ? AND r.principal_id = ? AND r.status = 1"
        ));
        let rows = bounded(query.bind(viewer.kind.code()).bind(viewer.id).fetch_all(&self.pool)).await?;
        let standing = |row| {
            let mut columns = Columns::<DB>::new(row);
            Ok(Standing {
                conversation_id: columns.conversation_id()?,
                last_seq: columns.seq()?,
                last_change_seq: ChangeSeq::new(columns.big()?),
                last_activity_at: columns.time()?,
            })
        };
        rows.iter().map(standing).collect()
    }

    async fn seen_of(&self, ids: &[ConversationId], viewer: Principal) -> StoreResult<Vec<Seen>> {
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(IDS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(concat!(
                "SELECT ", seen_columns!(), " FROM im_conversation c",
                " LEFT JOIN im_member r ON r.conversation_id = c.conversation_id AND r.status = 1 AND r.principal_type = "
            ));
            builder.push_bind(viewer.kind.code()).push(" AND r.principal_id = ").push_bind(viewer.id).push(
                " LEFT JOIN im_message m ON m.conversation_id = c.conversation_id AND m.seq = c.last_message_seq
                 WHERE c.conversation_id IN (",
            );
            let mut list = builder.separated(", ");
            for id in ids {
                list.push_bind(id.get());
            }
            builder.push(")");
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                found.push(seen_from::<DB>(row)?);
            }
        }
        self.mark(viewer, found).await
    }

    async fn outlines(&self, windows: &[Window], viewer: Principal) -> StoreResult<Vec<Outline>> {
        let mut found = Vec::new();
        for windows in windows.chunks(PARTS_PER_STATEMENT) {
            // Each part walks down the unique key (conversation_id, seq) and stops at its limit.
            let mut builder = QueryBuilder::<DB>::new("");
            for (at, window) in windows.iter().enumerate() {
                builder.push(if at == 0 { "SELECT * FROM (" } else { " UNION ALL SELECT * FROM (" });
                // An outer join: see `page_of!`.
                builder.push(
                    "SELECT m.conversation_id, m.seq, m.message_id, OCTET_LENGTH(m.content) + 0 * m.seq AS content_bytes
                     FROM im_message m LEFT JOIN im_user_action a ON a.principal_type = ",
                );
                builder.push_bind(viewer.kind.code()).push(" AND a.principal_id = ").push_bind(viewer.id).push(
                    " AND a.action_type = 1 AND a.message_id = m.message_id AND a.status = 1 WHERE m.conversation_id = ",
                );
                builder.push_bind(window.conversation_id.get()).push(" AND m.seq > ").push_bind(window.after.get());
                builder.push(" AND m.seq <= ").push_bind(window.up_to.get()).push(
                    " AND m.status <> 4 AND a.message_id IS NULL ORDER BY m.seq DESC LIMIT ",
                );
                builder.push_bind(i64::from(window.limit)).push(") AS w").push(at);
            }
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                let mut columns = Columns::<DB>::new(row);
                found.push(Outline {
                    conversation_id: columns.conversation_id()?,
                    seq: columns.seq()?,
                    message_id: columns.message_id()?,
                    content_bytes: columns.bytes()?,
                });
            }
        }
        // A UNION promises no order.
        found.sort_unstable_by_key(|outline| (outline.conversation_id, std::cmp::Reverse(outline.seq)));
        Ok(found)
    }

    async fn log(&self, stretches: &[Stretch], viewer: Principal) -> StoreResult<Vec<Logged>> {
        let mut found = Vec::new();
        for stretches in stretches.chunks(PARTS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(
                "SELECT g.conversation_id, g.change_seq, g.change_type, g.message_id, g.payload, g.actor_type, g.actor_id,
                 g.changed_at, m.seq, OCTET_LENGTH(m.content) + 0 * m.seq, a.status
                 FROM im_change g LEFT JOIN im_message m ON m.message_id = g.message_id
                 AND m.conversation_id = g.conversation_id
                 LEFT JOIN im_user_action a ON a.action_type = 1 AND a.message_id = m.message_id AND a.status = 1
                 AND a.principal_type = ",
            );
            builder.push_bind(viewer.kind.code()).push(" AND a.principal_id = ").push_bind(viewer.id).push(" WHERE ");
            let mut any = builder.separated(" OR ");
            for stretch in stretches {
                any.push("(g.conversation_id = ").push_bind_unseparated(stretch.conversation_id.get());
                any.push_unseparated(" AND g.change_seq > ").push_bind_unseparated(stretch.after.get());
                any.push_unseparated(" AND g.change_seq <= ").push_bind_unseparated(stretch.up_to.get());
                any.push_unseparated(")");
            }
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                let mut columns = Columns::<DB>::new(row);
                let change = columns.change()?;
                let seq = columns.maybe_big()?;
                let (content_bytes, deleted) = (columns.bytes()?, columns.maybe_small()?.is_some());
                let about = seq.map(|seq| About {
                    seq: Seq::new(seq),
                    content_bytes,
                    deleted_by_viewer: deleted,
                });
                found.push(Logged { change, about });
            }
        }
        found.sort_unstable_by_key(|logged| (logged.change.conversation_id, logged.change.change_seq));
        Ok(found)
    }

    async fn messages_of(&self, ids: &[MessageId]) -> StoreResult<Vec<Message>> {
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(IDS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(concat!(
                "SELECT ", message_columns!(), " FROM im_message m WHERE m.message_id IN ("
            ));
            let mut list = builder.separated(", ");
            for id in ids {
                list.push_bind(id.get());
            }
            builder.push(")");
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                found.push(Columns::<DB>::new(row).message()?);
            }
        }
        Ok(found)
    }

    async fn unread(&self, viewer: Principal) -> StoreResult<Vec<Unread>> {
        // Where no message of a user or agent is above the position, nothing has to be counted.
        let query = sqlx::query(sql!(concat!(
            "SELECT c.conversation_id, r.muted, ", unread_column!(), ", ", mention_column!(),
            " FROM im_member r JOIN im_conversation c ON c.conversation_id = r.conversation_id",
            " WHERE r.principal_type = ? AND r.principal_id = ? AND r.status = 1 AND c.kind <> 3",
            " AND c.last_count_no > r.last_read_count_no",
            " ORDER BY c.last_activity_at DESC, c.conversation_id DESC"
        )));
        let rows = bounded(query.bind(viewer.kind.code()).bind(viewer.id).fetch_all(&self.pool)).await?;
        let mut found = Vec::new();
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            let unread = Unread {
                conversation_id: columns.conversation_id()?,
                muted: columns.flag()?,
                unread_count: columns.count()?,
                mention_count: columns.count()?,
            };
            if unread.unread_count > 0 {
                found.push(unread);
            }
        }
        Ok(found)
    }
}
}
