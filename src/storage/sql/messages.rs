//! Messages and changes: reads.

use std::collections::HashMap;

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded, pages};
use crate::domain::{
    Change, ChangeSeq, ClientMessageId, ConversationId, KeyRecord, Marked, Marks, Message, MessageId, MessageStatus,
    Principal, Quotable, Seq, Touchable,
};
use crate::storage::{MessageStore, PageQuery, PinPosition, PinQuery, StoreResult};

/// Keys asked for in one statement: SQLite bounds the depth of an expression.
const KEYS_PER_STATEMENT: usize = 100;

sql_impl! {
impl MessageStore for SqlStore {
    async fn page(&self, query: PageQuery) -> StoreResult<Vec<Marked>> {
        let page = pages::visible(self, query).await?;
        self.marked(query.viewer, page).await
    }

    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>> {
        let query =
            sqlx::query(sql!(concat!("SELECT ", message_columns!(), " FROM im_message m WHERE m.message_id = ?")));
        let row = bounded(query.bind(id.get()).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).message()).transpose()
    }

    async fn marks(&self, viewer: Principal, messages: &[MessageId]) -> StoreResult<HashMap<MessageId, Marks>> {
        self.tallies(viewer, messages).await
    }

    async fn pins(&self, query: PinQuery) -> StoreResult<Vec<(PinPosition, Marked)>> {
        self.pinned(query).await
    }

    async fn hidden(&self, id: MessageId, viewer: Principal) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "SELECT 1 FROM im_user_action WHERE principal_type = ? AND principal_id = ? AND action_type = 1
             AND message_id = ? AND status = 1"
        ));
        let query = query.bind(viewer.kind.code()).bind(viewer.id).bind(id.get());
        Ok(bounded(query.fetch_optional(&self.pool)).await?.is_some())
    }

    async fn keys(
        &self,
        id: ConversationId,
        keys: &[(Principal, ClientMessageId)],
    ) -> StoreResult<Vec<((Principal, ClientMessageId), KeyRecord)>> {
        let mut found = Vec::new();
        for keys in keys.chunks(KEYS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(concat!(
                "SELECT ", message_columns!(), " FROM im_message m WHERE m.conversation_id = "
            ));
            builder.push_bind(id.get()).push(" AND (");
            let mut any = builder.separated(" OR ");
            for (sender, key) in keys {
                any.push("(m.sender_type = ")
                    .push_bind_unseparated(sender.kind.code())
                    .push_unseparated(" AND m.sender_id = ")
                    .push_bind_unseparated(sender.id)
                    .push_unseparated(" AND m.client_message_id = ")
                    .push_bind_unseparated(key.as_str().as_bytes())
                    .push_unseparated(")");
            }
            builder.push(")");
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                let message = Columns::<DB>::new(row).message()?;
                let record = message.record();
                if let Some(key) = message.client_message_id {
                    found.push(((message.sender, key), record));
                }
            }
        }
        Ok(found)
    }

    async fn quotable(
        &self,
        id: ConversationId,
        message: MessageId,
        viewer: Principal,
    ) -> StoreResult<Option<Quotable>> {
        let query = sqlx::query(sql!(
            "SELECT m.seq, m.status, a.status, r.cleared_seq FROM im_message m LEFT JOIN im_user_action a
             ON a.principal_type = ? AND a.principal_id = ? AND a.action_type = 1
             AND a.message_id = m.message_id AND a.status = 1
             LEFT JOIN im_member r ON r.conversation_id = m.conversation_id AND r.principal_type = ?
             AND r.principal_id = ? WHERE m.message_id = ? AND m.conversation_id = ?"
        ));
        let query = query.bind(viewer.kind.code()).bind(viewer.id).bind(viewer.kind.code()).bind(viewer.id);
        let query = query.bind(message.get()).bind(id.get());
        let Some(row) = bounded(query.fetch_optional(&self.pool)).await? else {
            return Ok(None);
        };
        let mut columns = Columns::<DB>::new(&row);
        let seq = columns.seq()?;
        let deleted = columns.small()? == MessageStatus::Deleted.code();
        let hidden = columns.maybe_small()?.is_some();
        let cleared = columns.maybe_big()?.is_some_and(|cleared| seq.get() <= cleared);
        Ok(Some(Quotable { seq, gone: deleted || hidden || cleared }))
    }

    async fn touchable(&self, id: ConversationId, message: MessageId) -> StoreResult<Option<Touchable>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", message_columns!(), ", (SELECT COUNT(*) FROM im_pin p WHERE p.conversation_id = m.conversation_id)
             FROM im_message m WHERE m.message_id = ? AND m.conversation_id = ?"
        )));
        let query = query.bind(message.get()).bind(id.get());
        let Some(row) = bounded(query.fetch_optional(&self.pool)).await? else {
            return Ok(None);
        };
        let mut columns = Columns::<DB>::new(&row);
        let (message, pins) = (columns.message()?, columns.big()?);
        let query = sqlx::query(sql!(
            "SELECT principal_type, principal_id FROM im_user_action
             WHERE message_id = ? AND action_type = 1 AND status = 1
             UNION SELECT principal_type, principal_id FROM im_member WHERE conversation_id = ? AND cleared_seq >= ?"
        ));
        let query = query.bind(message.message_id.get()).bind(id.get()).bind(message.seq.get());
        let hidden_for = bounded(query.fetch_all(&self.pool)).await?;
        let hidden_for = hidden_for.iter().map(|row| Columns::<DB>::new(row).principal());
        Ok(Some(Touchable {
            hidden_for: hidden_for.collect::<StoreResult<Vec<_>>>()?,
            standing_below: pages::standing_below(self, id, message.seq).await?,
            annotated: self.annotate(message).await?,
            pins: usize::try_from(pins).unwrap_or_default(),
        }))
    }

    async fn messages_after(&self, id: ConversationId, after: Seq, limit: u32) -> StoreResult<Vec<Message>> {
        pages::after(self, id, after, limit).await
    }

    async fn changes_after(&self, id: ConversationId, after: ChangeSeq, limit: u32) -> StoreResult<Vec<Change>> {
        let query = sqlx::query(sql!(
            "SELECT conversation_id, change_seq, change_type, message_id, payload, actor_type, actor_id, changed_at
             FROM im_change WHERE conversation_id = ? AND change_seq > ? ORDER BY change_seq LIMIT ?"
        ));
        let query = query.bind(id.get()).bind(after.get()).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).change()).collect()
    }
}
}
