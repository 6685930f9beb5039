//! Reads for `onescribe check`.

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::ConversationId;
use crate::storage::{AuditStore, Ledger, StoreResult, Totals};

sql_impl! {
impl AuditStore for SqlStore {
    async fn conversation_ids(&self, after: Option<ConversationId>, limit: u32) -> StoreResult<Vec<ConversationId>> {
        let query = sqlx::query(sql!(
            "SELECT conversation_id FROM im_conversation WHERE conversation_id > ? ORDER BY conversation_id LIMIT ?"
        ));
        let query = query.bind(after.map_or(0, ConversationId::get)).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).conversation_id()).collect()
    }

    async fn totals(&self) -> StoreResult<Totals> {
        let query = sqlx::query(sql!(
            "SELECT (SELECT COUNT(*) FROM im_conversation), (SELECT COUNT(*) FROM im_principal)"
        ));
        let row = bounded(query.fetch_one(&self.pool)).await?;
        let mut columns = Columns::<DB>::new(&row);
        Ok(Totals {
            conversations: u64::try_from(columns.big()?).unwrap_or_default(),
            principals: u64::try_from(columns.big()?).unwrap_or_default(),
        })
    }

    async fn ledger(&self, id: ConversationId) -> StoreResult<Option<Ledger>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", conversation_columns!(), ", c.member_count,",
            " (SELECT COUNT(*) FROM im_member r WHERE r.conversation_id = c.conversation_id AND r.status = 1),",
            " (SELECT MAX(r.last_read_seq) FROM im_member r WHERE r.conversation_id = c.conversation_id AND r.status = 1)",
            " FROM im_conversation c WHERE c.conversation_id = ?"
        )));
        let Some(row) = bounded(query.bind(id.get()).fetch_optional(&self.pool)).await? else {
            return Ok(None);
        };
        let mut columns = Columns::<DB>::new(&row);
        Ok(Some(Ledger {
            header: columns.header()?,
            head: columns.head()?,
            member_count: u64::try_from(columns.big()?).unwrap_or_default(),
            member_rows: u64::try_from(columns.big()?).unwrap_or_default(),
            highest_read_seq: crate::domain::Seq::new(columns.maybe_big()?.unwrap_or_default()),
        }))
    }
}
}
