//! Reads for `onescribe check`.

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{ChangeSeq, ChangeType, ConversationId, EventNo, MessageId, MessageStatus, Seq};
use crate::storage::{
    AuditStore, AuditedCursor, AuditedEvent, Ledger, MarkKind, StoreError, StoreResult, Stray, StrayReactions, Totals,
};

sql_impl! {
impl Columns<'r> {
    fn audited_event(&mut self) -> StoreResult<AuditedEvent> {
        let placed = self.placed_notice()?;
        let place = (self.maybe_big()?.and_then(ConversationId::new), self.maybe_big()?.map(Seq::new));
        let (change_type, changed) = (self.maybe_text()?, self.maybe_message_id()?);
        let bad = || StoreError::Inconsistent("change_type cannot be read".into());
        let change_type = change_type.map(|text| ChangeType::parse(&text).ok_or_else(bad)).transpose()?;
        Ok(AuditedEvent {
            placed,
            message: place.0.zip(place.1),
            change: change_type.map(|change_type| (change_type, changed)),
            cursor: self.maybe_event_cursor()?,
        })
    }

    fn audited_cursor(&mut self) -> StoreResult<AuditedCursor> {
        let conversation_id = self.conversation_id()?;
        let cursor = self.maybe_event_cursor()?;
        let head = (self.maybe_big()?.map(Seq::new), self.maybe_big()?.map(ChangeSeq::new));
        Ok(AuditedCursor { conversation_id, cursor: cursor.unwrap_or_default(), head: head.0.zip(head.1) })
    }
}
}

sql_impl! {
impl AuditStore for SqlStore {
    async fn strays(&self, id: ConversationId, limit: u32) -> StoreResult<Vec<Stray>> {
        let pins = sqlx::query(sql!(
            "SELECT p.message_id, m.seq FROM im_pin p LEFT JOIN im_message m ON m.message_id = p.message_id
             WHERE p.conversation_id = ? AND (m.message_id IS NULL OR m.conversation_id <> p.conversation_id
             OR m.status IN (3, 4) OR m.change_seq = 0) ORDER BY p.message_id LIMIT ?"
        ));
        let pins = pins.bind(id.get()).bind(i64::from(limit));
        let pins = bounded(pins.fetch_all(&self.pool)).await?;
        let mentions = sqlx::query(sql!(
            "SELECT g.seq, m.message_id FROM im_mention g
             LEFT JOIN im_message m ON m.conversation_id = g.conversation_id AND m.seq = g.seq
             WHERE g.conversation_id = ? AND (m.message_id IS NULL OR m.status IN (3, 4))
             GROUP BY g.seq, m.message_id ORDER BY g.seq LIMIT ?"
        ));
        let mentions = mentions.bind(id.get()).bind(i64::from(limit));
        let mentions = bounded(mentions.fetch_all(&self.pool)).await?;
        let mut strays = Vec::with_capacity(pins.len() + mentions.len());
        for row in &pins {
            let mut columns = Columns::<DB>::new(row);
            strays.push(Stray {
                kind: MarkKind::Pin,
                conversation_id: id,
                message_id: Some(columns.message_id()?),
                seq: columns.maybe_big()?.map(Seq::new),
            });
        }
        for row in &mentions {
            let mut columns = Columns::<DB>::new(row);
            strays.push(Stray {
                kind: MarkKind::Mention,
                conversation_id: id,
                seq: Some(columns.seq()?),
                message_id: columns.maybe_big()?.and_then(MessageId::new),
            });
        }
        Ok(strays)
    }

    async fn stray_reactions(&self, after: Option<MessageId>, limit: u32) -> StoreResult<StrayReactions> {
        let query = sqlx::query(sql!(
            "SELECT r.message_id, r.conversation_id, r.other_id, m.seq, m.conversation_id, m.status, m.change_seq
             FROM (SELECT message_id, MIN(conversation_id) AS conversation_id, MAX(conversation_id) AS other_id
             FROM im_reaction WHERE message_id > ? GROUP BY message_id ORDER BY message_id LIMIT ?) r
             LEFT JOIN im_message m ON m.message_id = r.message_id ORDER BY r.message_id"
        ));
        let query = query.bind(after.map_or(0, MessageId::get)).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let mut page = StrayReactions::default();
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            let (message_id, id) = (columns.message_id()?, columns.conversation_id()?);
            let one_place = columns.big()? == id.get();
            let seq = columns.maybe_big()?.map(Seq::new);
            let here = columns.maybe_big()? == Some(id.get());
            let stands = columns.maybe_small()?.and_then(MessageStatus::from_code).is_some_and(|now| !now.is_gone());
            let changed = columns.maybe_big()?.is_some_and(|change_seq| change_seq > 0);
            page.messages += 1;
            page.last = Some(message_id);
            if !(one_place && here && stands && changed) {
                let (kind, message_id) = (MarkKind::Reaction, Some(message_id));
                page.strays.push(Stray { kind, conversation_id: id, message_id, seq });
            }
        }
        Ok(page)
    }

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
            " (SELECT MAX(r.last_read_seq) FROM im_member r WHERE r.conversation_id = c.conversation_id AND r.status = 1),",
            " (SELECT MAX(r.cleared_seq) FROM im_member r WHERE r.conversation_id = c.conversation_id AND r.status = 1),",
            " (SELECT COUNT(*) FROM im_member r WHERE r.conversation_id = c.conversation_id AND r.status = 1",
            " AND (r.last_read_count_no <> COALESCE((SELECT m.count_no FROM im_message m",
            " WHERE m.conversation_id = r.conversation_id AND m.seq = r.last_read_seq), 0)",
            " OR r.cleared_count_no <> COALESCE((SELECT m.count_no FROM im_message m",
            " WHERE m.conversation_id = r.conversation_id AND m.seq = r.cleared_seq), 0)))",
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
            highest_read_seq: Seq::new(columns.maybe_big()?.unwrap_or_default()),
            highest_cleared_seq: Seq::new(columns.maybe_big()?.unwrap_or_default()),
            miscounted: u64::try_from(columns.big()?).unwrap_or_default(),
        }))
    }

    async fn audited_events(&self, after: EventNo, limit: u32) -> StoreResult<Vec<AuditedEvent>> {
        let query = sqlx::query(sql!(
            "SELECT e.event_no, e.notice_type, e.conversation_id, e.seq, e.change_seq, e.message_id, e.recipients,
             e.placed_at, m.conversation_id, m.seq, g.change_type, g.message_id, u.seq, u.change_seq, u.active_since
             FROM (SELECT * FROM im_event WHERE event_no > ? ORDER BY event_no LIMIT ?) e
             LEFT JOIN im_message m ON m.message_id = e.message_id
             LEFT JOIN im_change g ON g.conversation_id = e.conversation_id AND g.change_seq = e.change_seq
             LEFT JOIN im_event_cursor u ON u.conversation_id = e.conversation_id ORDER BY e.event_no"
        ));
        let query = query.bind(after.get()).bind(i64::from(limit)).persistent(false);
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).audited_event()).collect()
    }

    async fn audited_cursors(&self, after: Option<ConversationId>, limit: u32) -> StoreResult<Vec<AuditedCursor>> {
        let query = sqlx::query(sql!(
            "SELECT u.conversation_id, u.seq, u.change_seq, u.active_since, c.last_seq, c.last_change_seq
             FROM (SELECT * FROM im_event_cursor WHERE conversation_id > ? ORDER BY conversation_id LIMIT ?) u
             LEFT JOIN im_conversation c ON c.conversation_id = u.conversation_id ORDER BY u.conversation_id"
        ));
        let query = query.bind(after.map_or(0, ConversationId::get)).bind(i64::from(limit));
        let rows = bounded(query.persistent(false).fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).audited_cursor()).collect()
    }
}
}
