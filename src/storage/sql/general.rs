//! What a batch writes besides counters, messages and read positions: conversations, members, changes, marks.

use std::collections::BTreeMap;

use sqlx::QueryBuilder;

use super::commit::WriteError;
use super::dialect::Dialect;
use super::marks::{mark_changed, remove_marks, store_pin, store_reaction};
use super::mentions::store_mentions;
use super::notifications::{forget_notification, insert_notifications, update_notification};
use super::references::{add_references, drop_references};
use crate::domain::{
    Change, ChangeSeq, Content, ConversationId, CountNo, CreationKey, Event, Header, Member, Message, MessageId,
    MessageStatus, Notification, Principal, PrincipalType, Role, Seq, Timestamp,
};
use crate::storage::{Commit, CommitError};

/// Rows in one statement: at most 20 values each, and SQLite takes 32,766.
const ROWS_PER_STATEMENT: usize = 1_000;

sql_impl! {
/// The facts in the order in which they became true. The counters have been moved, so everything here is ours.
async fn store_general(connection: &mut DB::Connection, group: &[&Commit]) -> Result<(), WriteError> {
    insert_created::<DB>(connection, group).await?;
    let mut told: BTreeMap<MessageId, &Notification> = BTreeMap::new();
    let mut changes: Vec<&Change> = Vec::new();
    // Many may react to one message in one batch: its row is written once.
    let mut marked: BTreeMap<MessageId, ChangeSeq> = BTreeMap::new();
    for commit in group {
        let id = commit.conversation_id;
        let mut newest = None;
        for event in &commit.events {
            match event {
                Event::MembersAdded { members } => {
                    let rows: Vec<_> = members.iter().map(|member| (*commit, member)).collect();
                    upsert_members::<DB>(connection, &rows).await?;
                }
                Event::MemberRemoved { principal, .. } => remove_member::<DB>(connection, commit, *principal).await?,
                Event::RoleChanged { principal, role } => set_role::<DB>(connection, id, *principal, *role).await?,
                Event::HeaderChanged { header } => newest = Some(header),
                Event::MessageChanged { message, .. } => change_message::<DB>(connection, message).await?,
                Event::Mentioned { seq, before, now } => {
                    store_mentions::<DB>(connection, id, *seq, (before, now)).await?;
                }
                Event::Referenced { message_id, seq, added, removed, at } => {
                    drop_references::<DB>(connection, *message_id, removed, *at).await?;
                    add_references::<DB>(connection, (id, *message_id, *seq), added).await?;
                }
                Event::Reacted { message, emoji, principal, at, added } => {
                    marked.insert(message.message_id, message.change_seq);
                    store_reaction::<DB>(connection, message, emoji, (*principal, *at), *added).await?;
                }
                Event::Pinned { message, principal, at, pinned } => {
                    marked.insert(message.message_id, message.change_seq);
                    store_pin::<DB>(connection, message, (*principal, *at), *pinned).await?;
                }
                Event::Changed { change, .. } => changes.push(change),
                Event::Notified { notification } => {
                    told.insert(notification.notification_id, notification);
                }
                Event::NotificationChanged { notification } => match told.get_mut(&notification.notification_id) {
                    // One that was told in this very commit is stored as it is at its end.
                    Some(own) => *own = notification,
                    None => update_notification::<DB>(connection, notification).await?,
                },
                Event::Created { .. }
                | Event::MessageSent { .. }
                | Event::ReadMoved { .. }
                | Event::SettingsChanged { .. }
                | Event::ActionChanged { .. }
                | Event::ContactMade { .. }
                | Event::ContactEnded { .. }
                | Event::BlockChanged { .. }
                | Event::BlocksHeeded { .. } => {}
            }
        }
        if let Some(header) = newest {
            update_header::<DB>(connection, header).await?;
        }
    }
    // Behind those that have made room for them.
    let told: Vec<&Notification> = told.into_values().collect();
    for part in told.chunks(ROWS_PER_STATEMENT) {
        insert_notifications::<DB>(connection, part).await?;
    }
    for (message_id, change_seq) in marked {
        mark_changed::<DB>(connection, message_id, change_seq).await?;
    }
    for part in changes.chunks(ROWS_PER_STATEMENT) {
        insert_changes::<DB>(connection, part).await?;
    }
    forget_deleted::<DB>(connection, group).await
}
}

sql_impl! {
async fn forget_deleted(connection: &mut DB::Connection, group: &[&Commit]) -> Result<(), WriteError> {
    // Behind the changes: what those of this very batch say of it goes, too.
    for event in group.iter().flat_map(|commit| &commit.events) {
        if let Event::MessageChanged { message, .. } = event
            && message.status == MessageStatus::Deleted
        {
            forget_notification::<DB>(connection, message).await?;
        }
    }
    Ok(())
}
}

sql_impl! {
/// Conversations that are born, with their first members: as many as there are in two statements, since thousands of
/// INBOXes may be made for one announcement.
async fn insert_created(connection: &mut DB::Connection, group: &[&Commit]) -> Result<(), WriteError> {
    let born = group.iter().filter_map(|commit| match commit.events.first() {
        Some(Event::Created { members, creation_key, .. }) => Some((*commit, members, creation_key.as_ref())),
        _ => None,
    });
    let born: Vec<_> = born.collect();
    for part in born.chunks(ROWS_PER_STATEMENT) {
        insert_conversations::<DB>(connection, part).await?;
    }
    let members = born.iter().flat_map(|(commit, members, _)| members.iter().map(|member| (*commit, member)));
    upsert_members::<DB>(connection, &members.collect::<Vec<_>>()).await
}
}

sql_impl! {
async fn insert_conversations(
    connection: &mut DB::Connection,
    born: &[(&Commit, &Vec<Member>, Option<&CreationKey>)],
) -> Result<(), WriteError> {
    let mut builder = QueryBuilder::<DB>::new(
        "INSERT INTO im_conversation (conversation_id, kind, title, avatar_url, owner_type, owner_id,
         history_visibility, posting, adding, status, created_at, updated_at, creation_key, last_seq, last_change_seq,
         last_count_no, chain_hash, last_message_seq, last_activity_at, member_count) ",
    );
    builder.push_values(born, |mut row, (commit, _, creation_key)| {
        let (header, head) = (&commit.header, &commit.head);
        row.push_bind(header.conversation_id.get())
            .push_bind(header.kind.code())
            .push_bind(header.title.as_deref())
            .push_bind(header.avatar_url.as_deref())
            .push_bind(header.owner.map(|owner| owner.kind.code()))
            .push_bind(header.owner.map(|owner| owner.id))
            .push_bind(header.history_visibility.code())
            .push_bind(header.posting.code())
            .push_bind(header.adding.code())
            .push_bind(header.status.code())
            .push_bind(header.created_at.millis())
            .push_bind(header.updated_at.millis())
            .push_bind(creation_key.map(|key| key.as_str().as_bytes()));
        row.push_bind(head.last_seq.get())
            .push_bind(head.last_change_seq.get())
            .push_bind(head.last_count_no.get())
            .push_bind(head.chain_hash.as_bytes().as_slice())
            .push_bind(head.last_message_seq.get())
            .push_bind(head.last_activity_at.millis())
            .push_bind(i64::try_from(commit.member_count).unwrap_or(i64::MAX));
    });
    // Their two keys are the id and the creation key.
    let inserted = builder.build().persistent(born.len() == 1).execute(connection).await;
    inserted.map(drop).map_err(|error| WriteError::clash(error, CommitError::Exists))
}
}

sql_impl! {
async fn update_header(connection: &mut DB::Connection, header: &Header) -> Result<(), WriteError> {
    let query = sqlx::query(sql!(
        "UPDATE im_conversation SET title = ?, avatar_url = ?, owner_type = ?, owner_id = ?, history_visibility = ?,
         posting = ?, adding = ?, status = ?, updated_at = ? WHERE conversation_id = ?"
    ));
    let query = query
        .bind(header.title.as_deref())
        .bind(header.avatar_url.as_deref())
        .bind(header.owner.map(|owner| owner.kind.code()))
        .bind(header.owner.map(|owner| owner.id))
        .bind(header.history_visibility.code())
        .bind(header.posting.code())
        .bind(header.adding.code())
        .bind(header.status.code())
        .bind(header.updated_at.millis())
        .bind(header.conversation_id.get());
    query.execute(connection).await?;
    Ok(())
}
}

/// `count_no` of the message with this seq, which the same batch stores: who joins has nothing unread.
fn count_at(commit: &Commit, seq: Seq) -> CountNo {
    let here = commit.events.iter().find_map(|event| match event {
        Event::MessageSent { message, .. } if message.seq == seq => Some(message.count_no),
        _ => None,
    });
    match here {
        Some(count_no) => count_no,
        None if seq == Seq::ZERO => CountNo::ZERO,
        None => commit.head.last_count_no,
    }
}

sql_impl! {
/// Who comes back keeps `cleared_seq`; all else starts afresh.
async fn upsert_members(connection: &mut DB::Connection, rows: &[(&Commit, &Member)]) -> Result<(), WriteError> {
    for part in rows.chunks(ROWS_PER_STATEMENT) {
        let mut builder = QueryBuilder::<DB>::new(
            "INSERT INTO im_member (conversation_id, principal_type, principal_id, status, role, joined_seq,
             joined_at, cleared_seq, cleared_count_no, last_read_seq, last_read_count_no, marked_unread, muted, pinned) ",
        );
        builder.push_values(part, |mut row, (commit, member)| {
            row.push_bind(commit.conversation_id.get())
                .push_bind(member.principal.kind.code())
                .push_bind(member.principal.id)
                .push_bind(1_i16)
                .push_bind(member.role.code())
                .push_bind(member.joined_seq.get())
                .push_bind(member.joined_at.millis())
                .push_bind(0_i64)
                .push_bind(0_i64)
                .push_bind(member.joined_seq.get())
                .push_bind(count_at(commit, member.joined_seq).get())
                .push_bind(false)
                .push_bind(false)
                .push_bind(false);
        });
        builder.push(DB::upsert(
            " ON CONFLICT (conversation_id, principal_type, principal_id) DO UPDATE SET status = excluded.status,
             role = excluded.role, joined_seq = excluded.joined_seq, joined_at = excluded.joined_at, left_at = NULL,
             last_read_seq = excluded.last_read_seq, last_read_count_no = excluded.last_read_count_no,
             marked_unread = excluded.marked_unread, muted = excluded.muted, pinned = excluded.pinned",
            " ON DUPLICATE KEY UPDATE status = VALUES(status), role = VALUES(role), joined_seq = VALUES(joined_seq),
             joined_at = VALUES(joined_at), left_at = NULL, last_read_seq = VALUES(last_read_seq),
             last_read_count_no = VALUES(last_read_count_no), marked_unread = VALUES(marked_unread),
             muted = VALUES(muted), pinned = VALUES(pinned)",
        ));
        builder.build().persistent(false).execute(&mut *connection).await?;
    }
    Ok(())
}
}

sql_impl! {
async fn remove_member(
    connection: &mut DB::Connection,
    commit: &Commit,
    principal: Principal,
) -> Result<(), WriteError> {
    let query = sqlx::query(sql!(
        "UPDATE im_member SET status = 2, left_at = ? WHERE conversation_id = ? AND principal_type = ?
         AND principal_id = ?"
    ));
    let query = query.bind(commit.head.last_activity_at.millis()).bind(commit.conversation_id.get());
    query.bind(principal.kind.code()).bind(principal.id).execute(connection).await?;
    Ok(())
}
}

sql_impl! {
async fn set_role(
    connection: &mut DB::Connection,
    id: ConversationId,
    principal: Principal,
    role: Role,
) -> Result<(), WriteError> {
    let query = sqlx::query(sql!(
        "UPDATE im_member SET role = ? WHERE conversation_id = ? AND principal_type = ? AND principal_id = ?"
    ));
    let query = query.bind(role.code()).bind(id.get()).bind(principal.kind.code()).bind(principal.id);
    query.execute(connection).await?;
    Ok(())
}
}

sql_impl! {
/// Old words leave the table here and are nowhere else in it (B58).
async fn change_message(connection: &mut DB::Connection, message: &Message) -> Result<(), WriteError> {
    let query = sqlx::query(sql!(
        "UPDATE im_message SET content = ?, status = ?, edited_at = ?, change_seq = ? WHERE message_id = ?"
    ));
    let query = query
        .bind(message.content.as_str())
        .bind(message.status.code())
        .bind(message.edited_at.map(Timestamp::millis))
        .bind(message.change_seq.get())
        .bind(message.message_id.get());
    query.execute(&mut *connection).await?;
    if message.status.is_gone() {
        remove_marks::<DB>(connection, message).await?;
    }
    if !message.status.is_gone() || message.sender.kind == PrincipalType::System {
        return Ok(());
    }
    // A recalled message that is deleted as well is taken off once.
    let mut builder = QueryBuilder::<DB>::new("INSERT INTO im_gone (conversation_id, seq) ");
    builder.push_values([message], |mut row, message| {
        row.push_bind(message.conversation_id.get()).push_bind(message.seq.get());
    });
    builder.push(DB::upsert(" ON CONFLICT (conversation_id, seq) DO NOTHING", " ON DUPLICATE KEY UPDATE seq = VALUES(seq)"));
    builder.build().persistent(false).execute(connection).await?;
    Ok(())
}
}

sql_impl! {
async fn insert_changes(connection: &mut DB::Connection, changes: &[&Change]) -> Result<(), WriteError> {
    let mut builder = QueryBuilder::<DB>::new(
        "INSERT INTO im_change (conversation_id, change_seq, change_type, message_id, payload, actor_type, actor_id,
         changed_at) ",
    );
    builder.push_values(changes, |mut row, change| {
        row.push_bind(change.conversation_id.get())
            .push_bind(change.change_seq.get())
            .push_bind(change.change_type.as_str())
            .push_bind(change.message_id.map(MessageId::get))
            .push_bind(change.payload.as_ref().map(Content::as_str))
            .push_bind(change.actor.kind.code())
            .push_bind(change.actor.id)
            .push_bind(change.changed_at.millis());
    });
    let inserted = builder.build().persistent(false).execute(connection).await;
    inserted.map(drop).map_err(|error| WriteError::clash(error, CommitError::Fenced))
}
}
