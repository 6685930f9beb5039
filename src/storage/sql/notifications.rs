//! What users are told in their INBOX: the rows beside the messages. Written with a commit of the INBOX.

use sqlx::QueryBuilder;

use super::commit::WriteError;
use super::dialect::Dialect;
use super::rows::Columns;
use super::{SqlStore, bounded};
use crate::domain::{
    Content, ConversationId, Message, MessageId, MessageType, Notification, NotificationKey, NotificationKind,
    NotificationState, Principal, Timestamp,
};
use crate::storage::{CommitError, DueNotification, NotificationStore, StoreError, StoreResult};

/// Ids in one statement.
const IDS_PER_STATEMENT: usize = 500;

/// The columns of a notification `n` that [`notification_from`] reads.
macro_rules! notification_columns {
    () => {
        "n.notification_id, n.inbox_id, n.owner_type, n.owner_id, n.kind, n.from_type, n.from_id, n.body, \
         n.conversation_id, n.payload, n.state, n.pending_key, n.read_at, n.created_at, n.updated_at, n.due_at"
    };
}

sql_impl! {
fn notification_from(row: &DB::Row) -> StoreResult<Notification> {
    let bad = |what: &str| StoreError::Inconsistent(format!("the {what} of a notification cannot be read"));
    let mut columns = Columns::<DB>::new(row);
    Ok(Notification {
        notification_id: columns.message_id()?,
        inbox_id: columns.conversation_id()?,
        owner: columns.principal()?,
        kind: NotificationKind::from_code(columns.small()?).ok_or_else(|| bad("kind"))?,
        from: columns.principal()?,
        text: columns.maybe_text()?,
        conversation_id: columns.maybe_big()?.and_then(ConversationId::new),
        payload: columns.maybe_text()?.map(|payload| Content::trusted(&payload)),
        state: NotificationState::from_code(columns.small()?).ok_or_else(|| bad("state"))?,
        key: columns.maybe_key()?.map(NotificationKey::trusted),
        read_at: columns.maybe_big()?.map(Timestamp::from_millis),
        created_at: columns.time()?,
        updated_at: columns.time()?,
        due_at: columns.maybe_big()?.map(Timestamp::from_millis),
    })
}
}

sql_impl! {
async fn insert_notifications(connection: &mut DB::Connection, notes: &[&Notification]) -> Result<(), WriteError> {
    let mut builder = QueryBuilder::<DB>::new(
        "INSERT INTO im_notification (notification_id, inbox_id, owner_type, owner_id, kind, from_type, from_id, body,
         conversation_id, payload, state, pending_key, read_at, created_at, updated_at, due_at) ",
    );
    builder.push_values(notes, |mut row, note| {
        row.push_bind(note.notification_id.get())
            .push_bind(note.inbox_id.get())
            .push_bind(note.owner.kind.code())
            .push_bind(note.owner.id)
            .push_bind(note.kind.code())
            .push_bind(note.from.kind.code())
            .push_bind(note.from.id)
            .push_bind(note.text.as_deref())
            .push_bind(note.conversation_id.map(ConversationId::get));
        row.push_bind(note.payload.as_ref().map(Content::as_str))
            .push_bind(note.state.code())
            .push_bind(note.key.as_ref().map(|key| key.as_str().as_bytes()))
            .push_bind(note.read_at.map(Timestamp::millis))
            .push_bind(note.created_at.millis())
            .push_bind(note.updated_at.millis())
            .push_bind(note.due_at.map(Timestamp::millis));
    });
    // Another writer has told the same: what this one decided on is not so any more.
    let inserted = builder.build().persistent(notes.len() == 1).execute(connection).await;
    inserted.map(drop).map_err(|error| WriteError::clash(error, CommitError::Fenced))
}
}

sql_impl! {
async fn update_notification(
    connection: &mut DB::Connection,
    note: &Notification,
) -> Result<(), WriteError> {
    // What was carried out in the meantime is not due again: only a new state says anew when it is due. MySQL assigns
    // from left to right, so `state` comes after it.
    let query = sqlx::query(sql!(
        "UPDATE im_notification SET due_at = CASE WHEN state = ? THEN due_at ELSE ? END, state = ?, pending_key = ?,
         read_at = ?, updated_at = ? WHERE notification_id = ?"
    ));
    let query = query
        .bind(note.state.code())
        .bind(note.due_at.map(Timestamp::millis))
        .bind(note.state.code())
        .bind(note.key.as_ref().map(|key| key.as_str().as_bytes()))
        .bind(note.read_at.map(Timestamp::millis))
        .bind(note.updated_at.millis())
        .bind(note.notification_id.get());
    query.execute(connection).await?;
    Ok(())
}
}

sql_impl! {
/// A message that was deleted for everyone: what its notification said goes with it, wherever it stands.
async fn forget_notification(connection: &mut DB::Connection, message: &Message) -> Result<(), WriteError> {
    if message.message_type != MessageType::Notification {
        return Ok(());
    }
    let query = sqlx::query(sql!("DELETE FROM im_notification WHERE notification_id = ?"));
    query.bind(message.message_id.get()).execute(&mut *connection).await?;
    let query = sqlx::query(sql!(
        "UPDATE im_change SET payload = NULL WHERE conversation_id = ? AND message_id = ?
         AND change_type = 'NOTIFICATION_UPDATED'"
    ));
    query.bind(message.conversation_id.get()).bind(message.message_id.get()).execute(connection).await?;
    Ok(())
}
}

sql_impl! {
impl NotificationStore for SqlStore {
    async fn notification(&self, id: MessageId) -> StoreResult<Option<Notification>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", notification_columns!(), " FROM im_notification n WHERE n.notification_id = ?"
        )));
        let row = bounded(query.bind(id.get()).fetch_optional(&self.pool)).await?;
        row.map(|row| notification_from::<DB>(&row)).transpose()
    }

    async fn notification_by_key(&self, owner: Principal, key: &NotificationKey) -> StoreResult<Option<Notification>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", notification_columns!(), " FROM im_notification n
             WHERE n.owner_type = ? AND n.owner_id = ? AND n.pending_key = ?"
        )));
        let query = query.bind(owner.kind.code()).bind(owner.id).bind(key.as_str().as_bytes());
        let row = bounded(query.fetch_optional(&self.pool)).await?;
        row.map(|row| notification_from::<DB>(&row)).transpose()
    }

    async fn pending_from(&self, owner: Principal, from: Principal, limit: u32) -> StoreResult<Vec<Notification>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", notification_columns!(), " FROM im_notification n
             WHERE n.owner_type = ? AND n.owner_id = ? AND n.state = 1 AND n.from_type = ? AND n.from_id = ?
             ORDER BY n.kind, n.notification_id LIMIT ?"
        )));
        let query = query.bind(owner.kind.code()).bind(owner.id).bind(from.kind.code()).bind(from.id);
        let rows = bounded(query.bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        rows.iter().map(notification_from::<DB>).collect()
    }

    async fn notifications(
        &self,
        owner: Principal,
        state: Option<NotificationState>,
        before: Option<MessageId>,
        limit: u32,
    ) -> StoreResult<Vec<Notification>> {
        let mut builder = QueryBuilder::<DB>::new(concat!(
            "SELECT ", notification_columns!(), " FROM im_notification n
             JOIN im_message m ON m.message_id = n.notification_id
             JOIN im_member r ON r.conversation_id = n.inbox_id AND r.principal_type = n.owner_type
             AND r.principal_id = n.owner_id AND r.status = 1 AND r.cleared_seq < m.seq
             WHERE NOT EXISTS (SELECT 1 FROM im_user_action a WHERE a.principal_type = n.owner_type
             AND a.principal_id = n.owner_id AND a.action_type = 1 AND a.message_id = n.notification_id
             AND a.status = 1) AND n.owner_type = "
        ));
        builder.push_bind(owner.kind.code()).push(" AND n.owner_id = ").push_bind(owner.id);
        if let Some(state) = state {
            builder.push(" AND n.state = ").push_bind(state.code());
        }
        builder.push(" AND n.notification_id < ").push_bind(before.map_or(i64::MAX, MessageId::get));
        builder.push(" ORDER BY n.notification_id DESC LIMIT ").push_bind(i64::from(limit));
        let rows = bounded(builder.build().fetch_all(&self.pool)).await?;
        rows.iter().map(notification_from::<DB>).collect()
    }

    async fn notifications_due(
        &self,
        now: Timestamp,
        after: Option<DueNotification>,
        limit: u32,
    ) -> StoreResult<Vec<Notification>> {
        let (time, id) = after.map_or((i64::MIN, 0), |after| (after.due_at.millis(), after.notification_id.get()));
        let query = sqlx::query(sql!(concat!(
            "SELECT ", notification_columns!(), " FROM im_notification n WHERE n.due_at <= ? AND n.due_at >= ?
             AND (n.due_at > ? OR n.notification_id > ?) ORDER BY n.due_at, n.notification_id LIMIT ?"
        )));
        let query = query.bind(now.millis()).bind(time).bind(time).bind(id).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(notification_from::<DB>).collect()
    }

    async fn finish_notification(&self, id: MessageId) -> StoreResult<()> {
        let query = sqlx::query(sql!("UPDATE im_notification SET due_at = NULL WHERE notification_id = ? AND state = 2"));
        let _turn = self.gate.pass().await;
        bounded(query.bind(id.get()).execute(&self.pool)).await.map(drop)
    }

    async fn notifications_of(&self, ids: &[MessageId]) -> StoreResult<Vec<Notification>> {
        let mut found = Vec::new();
        for part in ids.chunks(IDS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(concat!(
                "SELECT ", notification_columns!(), " FROM im_notification n WHERE n.notification_id IN ("
            ));
            let mut list = builder.separated(", ");
            for id in part {
                list.push_bind(id.get());
            }
            builder.push(")");
            for row in &bounded(builder.build().persistent(false).fetch_all(&self.pool)).await? {
                found.push(notification_from::<DB>(row)?);
            }
        }
        Ok(found)
    }

    async fn notifications_after(&self, after: Option<MessageId>, limit: u32) -> StoreResult<Vec<Notification>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", notification_columns!(), " FROM im_notification n WHERE n.notification_id > ?
             ORDER BY n.notification_id LIMIT ?"
        )));
        let query = query.bind(after.map_or(0, MessageId::get)).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(notification_from::<DB>).collect()
    }
}
}
