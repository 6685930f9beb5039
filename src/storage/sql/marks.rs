//! Reactions and pins: reads.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{Annotated, ChangeSeq, Marks, Message, MessageId, Principal, Reactor, Tally};
use crate::storage::StoreResult;

/// Messages asked for in one statement.
const MESSAGES_PER_STATEMENT: usize = 500;

sql_impl! {
impl SqlStore {
    /// The message and everything on it. A message that was never changed has nothing on it.
    pub(super) async fn annotate(&self, message: Message) -> StoreResult<Annotated> {
        let message = Arc::new(message);
        if message.change_seq == ChangeSeq::ZERO {
            return Ok(Annotated::plain(message));
        }
        let query = sqlx::query(sql!(
            "SELECT p.message_id, r.emoji, r.created_at, r.principal_type, r.principal_id FROM im_message m
             LEFT JOIN im_pin p ON p.conversation_id = m.conversation_id AND p.message_id = m.message_id
             LEFT JOIN im_reaction r ON r.message_id = m.message_id WHERE m.message_id = ?"
        ));
        let rows = bounded(query.bind(message.message_id.get()).fetch_all(&self.pool)).await?;
        let (mut given, mut pinned) = (Vec::with_capacity(rows.len()), false);
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            pinned = columns.maybe_big()?.is_some();
            if let Some(emoji) = columns.maybe_emoji()? {
                let reactor = Reactor { at: columns.time()?, principal: columns.principal()? };
                given.push((emoji, reactor));
            }
        }
        Ok(Annotated::new(message, given, pinned))
    }

    /// What is on these messages, counted where the rows are.
    pub(super) async fn tallies(
        &self,
        viewer: Principal,
        messages: &[MessageId],
    ) -> StoreResult<HashMap<MessageId, Marks>> {
        let mut found: HashMap<MessageId, Marks> = HashMap::new();
        for messages in messages.chunks(MESSAGES_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(
                "SELECT m.message_id, p.message_id, r.emoji, COUNT(r.emoji), COUNT(CASE WHEN r.principal_type = "
            );
            builder
                .push_bind(viewer.kind.code())
                .push(" AND r.principal_id = ")
                .push_bind(viewer.id)
                .push(
                    " THEN 1 END) FROM im_message m
                     LEFT JOIN im_pin p ON p.conversation_id = m.conversation_id AND p.message_id = m.message_id
                     LEFT JOIN im_reaction r ON r.message_id = m.message_id WHERE m.message_id IN ("
                );
            let mut list = builder.separated(", ");
            for message in messages {
                list.push_bind(message.get());
            }
            builder.push(
                ") GROUP BY m.message_id, p.message_id, r.emoji ORDER BY m.message_id, MIN(r.created_at), r.emoji"
            );
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                let mut columns = Columns::<DB>::new(row);
                let message_id = columns.message_id()?;
                let (pinned, emoji) = (columns.maybe_big()?.is_some(), columns.maybe_emoji()?);
                if !pinned && emoji.is_none() {
                    continue;
                }
                let marks = found.entry(message_id).or_default();
                marks.pinned = pinned;
                if let Some(emoji) = emoji {
                    let count = u64::try_from(columns.big()?).unwrap_or_default();
                    let me = columns.big()? > 0;
                    marks.reactions.push(Tally { emoji, count, me });
                }
            }
        }
        Ok(found)
    }
}
}
