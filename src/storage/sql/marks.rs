//! Reactions and pins: what a commit writes of them, and reads.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::QueryBuilder;

use super::commit::WriteError;
use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{
    Annotated, ChangeSeq, Emoji, Marked, Marks, Message, MessageId, Principal, Reactor, Tally, Timestamp,
};
use crate::storage::{MessageStore as _, PinPosition, PinQuery, StoreResult};

/// Messages asked for in one statement.
const MESSAGES_PER_STATEMENT: usize = 500;

sql_impl! {
/// A reaction that is there already is passed over: a row must never stand in the way of what was decided.
async fn store_reaction(
    connection: &mut DB::Connection,
    message: &Message,
    emoji: &Emoji,
    (principal, at): (Principal, Timestamp),
    added: bool,
) -> Result<(), WriteError> {
    if !added {
        let query = sqlx::query(sql!(
            "DELETE FROM im_reaction WHERE message_id = ? AND emoji = ? AND principal_type = ? AND principal_id = ?"
        ));
        let query = query.bind(message.message_id.get()).bind(emoji.as_str().as_bytes());
        query.bind(principal.kind.code()).bind(principal.id).execute(connection).await?;
        return Ok(());
    }
    let mut builder = QueryBuilder::<DB>::new(
        "INSERT INTO im_reaction (message_id, emoji, principal_type, principal_id, conversation_id, created_at) "
    );
    builder.push_values([message], |mut row, message| {
        row.push_bind(message.message_id.get())
            .push_bind(emoji.as_str().as_bytes())
            .push_bind(principal.kind.code())
            .push_bind(principal.id)
            .push_bind(message.conversation_id.get())
            .push_bind(at.millis());
    });
    builder.push(DB::upsert(
        " ON CONFLICT (message_id, emoji, principal_type, principal_id) DO NOTHING",
        " ON DUPLICATE KEY UPDATE created_at = im_reaction.created_at",
    ));
    builder.build().persistent(false).execute(connection).await?;
    Ok(())
}
}

sql_impl! {
/// A pin that is there already is passed over.
async fn store_pin(
    connection: &mut DB::Connection,
    message: &Message,
    (principal, at): (Principal, Timestamp),
    pinned: bool,
) -> Result<(), WriteError> {
    if !pinned {
        return remove_pin::<DB>(connection, message).await;
    }
    let mut builder = QueryBuilder::<DB>::new(
        "INSERT INTO im_pin (conversation_id, message_id, pinned_by_type, pinned_by_id, pinned_at) "
    );
    builder.push_values([message], |mut row, message| {
        row.push_bind(message.conversation_id.get())
            .push_bind(message.message_id.get())
            .push_bind(principal.kind.code())
            .push_bind(principal.id)
            .push_bind(at.millis());
    });
    builder.push(DB::upsert(
        " ON CONFLICT (conversation_id, message_id) DO NOTHING",
        " ON DUPLICATE KEY UPDATE pinned_at = im_pin.pinned_at",
    ));
    builder.build().persistent(false).execute(connection).await?;
    Ok(())
}
}

sql_impl! {
async fn remove_pin(connection: &mut DB::Connection, message: &Message) -> Result<(), WriteError> {
    let query = sqlx::query(sql!("DELETE FROM im_pin WHERE conversation_id = ? AND message_id = ?"));
    let query = query.bind(message.conversation_id.get()).bind(message.message_id.get());
    query.execute(connection).await?;
    Ok(())
}
}

sql_impl! {
/// What others have put on a message goes with its words.
async fn remove_marks(connection: &mut DB::Connection, message: &Message) -> Result<(), WriteError> {
    let query = sqlx::query(sql!("DELETE FROM im_reaction WHERE message_id = ?"));
    query.bind(message.message_id.get()).execute(&mut *connection).await?;
    remove_pin::<DB>(connection, message).await
}
}

sql_impl! {
/// The number of the latest change; an edit of the same batch may have written a later one.
async fn mark_changed(
    connection: &mut DB::Connection,
    message_id: MessageId,
    change_seq: ChangeSeq,
) -> Result<(), WriteError> {
    let query = sqlx::query(sql!("UPDATE im_message SET change_seq = ? WHERE message_id = ? AND change_seq < ?"));
    let query = query.bind(change_seq.get()).bind(message_id.get()).bind(change_seq.get());
    query.execute(connection).await?;
    Ok(())
}
}

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

    /// The pinned messages that the viewer may see.
    pub(super) async fn pinned(&self, query: PinQuery) -> StoreResult<Vec<(PinPosition, Marked)>> {
        let (at, id) = query.after.map_or((i64::MAX, i64::MAX), |after| (after.pinned_at.millis(), after.message_id.get()));
        let statement = sqlx::query(sql!(concat!(
            "SELECT p.pinned_at, ", message_columns!(),
            " FROM im_pin p JOIN im_message m ON m.message_id = p.message_id",
            " WHERE p.conversation_id = ? AND (p.pinned_at < ? OR (p.pinned_at = ? AND p.message_id < ?))",
            " AND m.seq >= ? AND m.status NOT IN (3, 4)",
            " AND NOT EXISTS (SELECT 1 FROM im_user_action a WHERE a.principal_type = ? AND a.principal_id = ?",
            " AND a.action_type = 1 AND a.message_id = m.message_id AND a.status = 1)",
            " ORDER BY p.pinned_at DESC, p.message_id DESC LIMIT ?"
        )));
        let statement = statement.bind(query.conversation_id.get()).bind(at).bind(at).bind(id).bind(query.first.get());
        let statement = statement.bind(query.viewer.kind.code()).bind(query.viewer.id).bind(i64::from(query.limit));
        let rows = bounded(statement.fetch_all(&self.pool)).await?;
        let (mut positions, mut messages) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for row in &rows {
            let mut columns = Columns::<DB>::new(row);
            let (pinned_at, message) = (columns.time()?, columns.message()?);
            positions.push(PinPosition { pinned_at, message_id: message.message_id });
            messages.push(message);
        }
        let marked = self.marked(query.viewer, messages).await?;
        Ok(positions.into_iter().zip(marked).collect())
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
