//! What belongs to one user alone: positions, settings, actions. Written with a commit of the user's INBOX, whose
//! counters fence it; the rows are of other conversations, so every update has a guard of its own (INV-READ-1).

use std::collections::BTreeMap;

use sqlx::QueryBuilder;

use super::commit::WriteError;
use super::dialect::Dialect;
use super::rows::Columns;
use super::ties::{end_contact, heed_blocks, make_contact, set_block};
use super::{SqlStore, bounded};
use crate::domain::{
    Action, ActionType, Actionable, Content, ConversationId, CountNo, Event, Kind, Membership, MessageId,
    MessageStatus, Position, Principal, PrincipalType, Receipt, Seq, SettingsPatch, Timestamp, visibility,
};
use crate::storage::{ActionPosition, Commit, DuePosition, DueReminder, PersonalStore, StoreError, StoreResult};

/// The columns of an action `a` that [`action_from`] reads. `remind_at` is when a reminder is due next: at first the time
/// that its user set, while it is claimed the end of the claim, then nothing, so that what is done with does not stand
/// in the index of what is due. From the first claim on, `fired_at` keeps the time that the user set.
macro_rules! action_columns {
    () => {
        "a.action_type, a.message_id, a.conversation_id, a.seq, a.status, COALESCE(a.fired_at, a.remind_at), \
         a.payload, a.updated_at"
    };
}

/// Everything that a commit moves in the row of one member.
#[derive(Default)]
struct Move {
    read: Option<(Seq, CountNo)>,
    patch: SettingsPatch,
}

/// Is there anything of a user's own in it?
pub(super) fn is_personal(commit: &Commit) -> bool {
    let own = |event: &Event| {
        matches!(
            event,
            Event::ReadMoved { .. }
                | Event::SettingsChanged { .. }
                | Event::ActionChanged { .. }
                | Event::ContactMade { .. }
                | Event::ContactEnded { .. }
                | Event::BlockChanged { .. }
                | Event::BlocksHeeded { .. }
        )
    };
    commit.events.iter().any(own)
}

/// One move for each row, in the order of the rows: as senders do, so that neither waits for the other in a circle.
fn moves(group: &[&Commit]) -> BTreeMap<(ConversationId, Principal), Move> {
    let mut moves: BTreeMap<_, Move> = BTreeMap::new();
    for event in group.iter().flat_map(|commit| &commit.events) {
        match event {
            Event::ReadMoved {
                conversation_id,
                principal,
                seq,
                count_no,
                ..
            } => {
                let row = moves.entry((*conversation_id, *principal)).or_default();
                row.read = row.read.max(Some((*seq, *count_no)));
                row.patch.marked_unread = Some(false);
            }
            Event::SettingsChanged {
                conversation_id,
                principal,
                patch,
            } => {
                let row = &mut moves.entry((*conversation_id, *principal)).or_default().patch;
                *row = SettingsPatch {
                    muted: patch.muted.or(row.muted),
                    pinned: patch.pinned.or(row.pinned),
                    marked_unread: patch.marked_unread.or(row.marked_unread),
                    cleared: patch.cleared.max(row.cleared),
                };
            }
            _ => {}
        }
    }
    moves
}

sql_impl! {
/// Whatever users have done for themselves.
async fn store_personal(connection: &mut DB::Connection, group: &[&Commit]) -> Result<(), WriteError> {
    for ((id, principal), row) in moves(group) {
        if let Some((seq, count_no)) = row.read {
            let set = [("last_read_seq", seq.get()), ("last_read_count_no", count_no.get())];
            advance::<DB>(connection, id, principal, set).await?;
        }
        if let Some((seq, count_no)) = row.patch.cleared {
            let set = [("cleared_seq", seq.get()), ("cleared_count_no", count_no.get())];
            advance::<DB>(connection, id, principal, set).await?;
        }
        set_flags::<DB>(connection, id, principal, &row.patch).await?;
    }
    for event in group.iter().flat_map(|commit| &commit.events) {
        match event {
            Event::ActionChanged { principal, action } => put_action::<DB>(connection, *principal, action).await?,
            Event::ContactMade { one, other, request, at } => {
                make_contact::<DB>(connection, (*one, *other), *request, *at).await?;
            }
            Event::ContactEnded { one, other } => end_contact::<DB>(connection, *one, *other).await?,
            Event::BlockChanged { owner, other, at, blocked } => {
                set_block::<DB>(connection, (*owner, *other), *at, *blocked).await?;
            }
            Event::BlocksHeeded { pair: (one, other), .. } => heed_blocks::<DB>(connection, *one, *other).await?,
            _ => {}
        }
    }
    Ok(())
}
}

sql_impl! {
/// Moves the first of the columns forward only, and the second with it.
async fn advance(
    connection: &mut DB::Connection,
    id: ConversationId,
    principal: Principal,
    set: [(&str, i64); 2],
) -> Result<(), WriteError> {
    let [(guard, seq), (beside, count_no)] = set;
    let mut builder = QueryBuilder::<DB>::new("UPDATE im_member SET ");
    builder.push(guard).push(" = ").push_bind(seq).push(", ").push(beside).push(" = ").push_bind(count_no);
    builder.push(" WHERE conversation_id = ").push_bind(id.get());
    builder.push(" AND principal_type = ").push_bind(principal.kind.code());
    builder.push(" AND principal_id = ").push_bind(principal.id);
    builder.push(" AND status = 1 AND ").push(guard).push(" < ").push_bind(seq);
    builder.build().execute(connection).await?;
    Ok(())
}
}

sql_impl! {
async fn set_flags(
    connection: &mut DB::Connection,
    id: ConversationId,
    principal: Principal,
    patch: &SettingsPatch,
) -> Result<(), WriteError> {
    let flags = [("muted", patch.muted), ("pinned", patch.pinned), ("marked_unread", patch.marked_unread)];
    let mut builder = QueryBuilder::<DB>::new("UPDATE im_member SET ");
    let mut columns = builder.separated(", ");
    let mut any = false;
    for (column, flag) in flags {
        if let Some(flag) = flag {
            columns.push(column).push_unseparated(" = ").push_bind_unseparated(flag);
            any = true;
        }
    }
    if !any {
        return Ok(());
    }
    builder.push(" WHERE conversation_id = ").push_bind(id.get());
    builder.push(" AND principal_type = ").push_bind(principal.kind.code());
    builder.push(" AND principal_id = ").push_bind(principal.id).push(" AND status = 1");
    builder.build().execute(connection).await?;
    Ok(())
}
}

sql_impl! {
async fn put_action(
    connection: &mut DB::Connection,
    principal: Principal,
    action: &Action,
) -> Result<(), WriteError> {
    let text = DB::upsert(
        sql!(
            "INSERT INTO im_user_action (principal_type, principal_id, action_type, message_id, conversation_id, seq,
             status, remind_at, fired_at, payload, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (principal_type, principal_id, action_type, message_id) DO UPDATE SET
             status = excluded.status, remind_at = excluded.remind_at, fired_at = excluded.fired_at,
             payload = excluded.payload, updated_at = excluded.updated_at"
        ),
        "INSERT INTO im_user_action (principal_type, principal_id, action_type, message_id, conversation_id, seq,
         status, remind_at, fired_at, payload, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON DUPLICATE KEY UPDATE status = VALUES(status), remind_at = VALUES(remind_at),
         fired_at = VALUES(fired_at), payload = VALUES(payload), updated_at = VALUES(updated_at)",
    );
    let time = action.remind_at.map(Timestamp::millis);
    let query = sqlx::query(text).bind(principal.kind.code()).bind(principal.id);
    let query = query
        .bind(action.action_type.code())
        .bind(action.message_id.get())
        .bind(action.conversation_id.get())
        .bind(action.seq.get())
        .bind(if action.active { 1_i16 } else { 2_i16 })
        .bind(time.filter(|_| action.active))
        .bind(time.filter(|_| !action.active))
        .bind(action.payload.as_ref().map(Content::as_str))
        .bind(action.updated_at.millis())
        .bind(action.updated_at.millis());
    query.execute(connection).await?;
    Ok(())
}
}

sql_impl! {
fn action_from(columns: &mut Columns<'_, DB>) -> StoreResult<Action> {
    let action_type = ActionType::from_code(columns.small()?);
    Ok(Action {
        action_type: action_type.ok_or_else(|| StoreError::Inconsistent("action_type cannot be read".into()))?,
        message_id: columns.message_id()?,
        conversation_id: columns.conversation_id()?,
        seq: columns.seq()?,
        active: columns.small()? == 1,
        remind_at: columns.maybe_big()?.map(Timestamp::from_millis),
        payload: columns.maybe_text()?.map(|payload| Content::trusted(&payload)),
        updated_at: columns.time()?,
    })
}
}

sql_impl! {
impl SqlStore {
    /// The other one of a pair; none where one of the two has blocked the other.
    async fn peer(&self, id: ConversationId, principal: Principal) -> StoreResult<Option<Principal>> {
        let query = sqlx::query(sql!(
            "SELECT r.principal_type, r.principal_id FROM im_member r WHERE r.conversation_id = ? AND r.status = 1
             AND (r.principal_type <> ? OR r.principal_id <> ?) AND NOT EXISTS (SELECT 1 FROM im_block b
             WHERE b.owner_type = r.principal_type AND b.owner_id = r.principal_id AND b.other_type = ? AND b.other_id = ?)
             AND NOT EXISTS (SELECT 1 FROM im_block b WHERE b.owner_type = ? AND b.owner_id = ?
             AND b.other_type = r.principal_type AND b.other_id = r.principal_id) LIMIT 1"
        ));
        let (kind, number) = (principal.kind.code(), principal.id);
        let query = query.bind(id.get()).bind(kind).bind(number).bind(kind).bind(number).bind(kind).bind(number);
        let row = bounded(query.fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).principal()).transpose()
    }

    /// Moves the time at which a reminder is due next; `false` = another process was faster, or its user has changed
    /// their mind.
    async fn move_due(&self, due: &DueReminder, from: Timestamp, to: Option<Timestamp>) -> StoreResult<bool> {
        // MySQL assigns from left to right: `fired_at` comes first.
        let query = sqlx::query(sql!(
            "UPDATE im_user_action SET fired_at = COALESCE(fired_at, remind_at), remind_at = ? WHERE principal_type = ?
             AND principal_id = ? AND action_type = 3 AND message_id = ? AND status = 1 AND remind_at = ?"
        ));
        let query = query.bind(to.map(Timestamp::millis)).bind(due.principal.kind.code()).bind(due.principal.id);
        let query = query.bind(due.action.message_id.get()).bind(from.millis());
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }
}
}

sql_impl! {
impl PersonalStore for SqlStore {
    async fn position(&self, id: ConversationId, principal: Principal, seq: Seq) -> StoreResult<Option<Position>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT c.kind, c.last_seq, c.last_count_no, ", membership_columns!(),
            " FROM im_conversation c JOIN im_member r ON r.conversation_id = c.conversation_id",
            " AND r.principal_type = ? AND r.principal_id = ? AND r.status = 1 WHERE c.conversation_id = ?"
        )));
        let query = query.bind(principal.kind.code()).bind(principal.id).bind(id.get());
        let Some(row) = bounded(query.fetch_optional(&self.pool)).await? else {
            return Ok(None);
        };
        let mut columns = Columns::<DB>::new(&row);
        let (kind, last_seq, last_count_no) = (columns.small()?, columns.seq()?, columns.big()?);
        let Some(membership) = columns.maybe_membership()? else {
            return Ok(None);
        };
        let at = seq.min(last_seq);
        let floor = at.max(membership.last_read_seq).max(membership.cleared_seq);
        // Up to the head that was read: what came since is not looked at.
        let query = sqlx::query(sql!(concat!(
            "SELECT (SELECT m.count_no FROM im_message m WHERE m.conversation_id = r.conversation_id AND m.seq = ?),
             (SELECT COUNT(*) FROM im_gone g WHERE g.conversation_id = r.conversation_id AND g.seq > ? AND g.seq <= ?),
             (SELECT COUNT(*) FROM im_user_action a JOIN im_message d ON d.message_id = a.message_id
             WHERE a.principal_type = r.principal_type AND a.principal_id = r.principal_id
             AND a.conversation_id = r.conversation_id AND a.seq > ? AND a.seq <= ? AND ", deletion_counts!(), ")
             FROM im_member r WHERE r.conversation_id = ? AND r.principal_type = ? AND r.principal_id = ?"
        )));
        let query = query.bind(at.get()).bind(floor.get()).bind(last_seq.get()).bind(floor.get()).bind(last_seq.get());
        let query = query.bind(id.get()).bind(principal.kind.code()).bind(principal.id);
        let row = bounded(query.fetch_one(&self.pool)).await?;
        let mut columns = Columns::<DB>::new(&row);
        let at_count_no = match columns.maybe_big()? {
            Some(count_no) => count_no,
            None if at == Seq::ZERO => 0,
            None => return Err(StoreError::Inconsistent(format!("conversation {id} has no message with seq {at}"))),
        };
        let taken_off = columns.big()?.saturating_add(columns.big()?);
        let counted = counted_up_to(&membership, at, at_count_no);
        let unread = last_count_no.saturating_sub(counted).saturating_sub(taken_off);
        let is_direct = Kind::from_code(kind) == Some(Kind::Direct);
        Ok(Some(Position {
            membership,
            peer: if is_direct { self.peer(id, principal).await? } else { None },
            at,
            at_count_no: CountNo::new(at_count_no),
            unread_count: u64::try_from(unread).unwrap_or_default(),
        }))
    }

    async fn actionable(&self, message: MessageId, principal: Principal) -> StoreResult<Option<Actionable>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT m.seq, m.sender_type, m.status, ", conversation_columns!(), ", ", membership_columns!(),
            " FROM im_message m JOIN im_conversation c ON c.conversation_id = m.conversation_id",
            " LEFT JOIN im_member r ON r.conversation_id = m.conversation_id AND r.principal_type = ?",
            " AND r.principal_id = ? AND r.status = 1 WHERE m.message_id = ?"
        )));
        let query = query.bind(principal.kind.code()).bind(principal.id).bind(message.get());
        let Some(row) = bounded(query.fetch_optional(&self.pool)).await? else {
            return Ok(None);
        };
        let mut columns = Columns::<DB>::new(&row);
        let (seq, sender) = (columns.seq()?, columns.small()?);
        let status = columns.status()?;
        let header = columns.header()?;
        columns.head()?;
        let membership = columns.maybe_membership()?;
        let shown = membership.is_some_and(|own| seq >= visibility::first_visible(&header, &own));
        let query = sqlx::query(sql!(concat!(
            "SELECT ", action_columns!(), " FROM im_user_action a WHERE a.principal_type = ? AND a.principal_id = ?
             AND a.action_type IN (1, 2, 3) AND a.message_id = ?"
        )));
        let query = query.bind(principal.kind.code()).bind(principal.id).bind(message.get());
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let actions = rows.iter().map(|row| action_from::<DB>(&mut Columns::new(row)));
        Ok(Some(Actionable {
            conversation_id: header.conversation_id,
            seq,
            counts: sender != PrincipalType::System.code() && !status.is_gone(),
            visible: shown && status != MessageStatus::Deleted,
            actions: actions.collect::<StoreResult<Vec<_>>>()?,
        }))
    }

    async fn actions(
        &self,
        principal: Principal,
        action_type: Option<ActionType>,
        after: Option<ActionPosition>,
        limit: u32,
    ) -> StoreResult<Vec<Action>> {
        let (kind, id) = after.map_or((0, i64::MAX), |after| (after.action_type.code(), after.message_id.get()));
        let (first, last) = action_type.map_or((0, i16::MAX), |only| (only.code(), only.code()));
        let query = sqlx::query(sql!(concat!(
            "SELECT ", action_columns!(), " FROM im_user_action a
             JOIN im_message m ON m.message_id = a.message_id AND m.status <> 4
             JOIN im_conversation c ON c.conversation_id = a.conversation_id
             JOIN im_member r ON r.conversation_id = a.conversation_id AND r.principal_type = a.principal_type
             AND r.principal_id = a.principal_id AND r.status = 1 AND r.cleared_seq < a.seq
             AND (c.history_visibility = 1 OR r.joined_seq <= a.seq)
             WHERE a.principal_type = ? AND a.principal_id = ?
             AND a.action_type >= ? AND a.action_type <= ? AND a.status = 1
             AND (a.action_type = 1 OR NOT EXISTS (SELECT 1 FROM im_user_action d
             WHERE d.principal_type = a.principal_type AND d.principal_id = a.principal_id AND d.action_type = 1
             AND d.message_id = a.message_id AND d.status = 1))
             AND (a.action_type > ? OR (a.action_type = ? AND a.message_id < ?))
             ORDER BY a.action_type, a.message_id DESC LIMIT ?"
        )));
        let query = query.bind(principal.kind.code()).bind(principal.id).bind(first).bind(last);
        let query = query.bind(kind).bind(kind).bind(id).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| action_from::<DB>(&mut Columns::new(row))).collect()
    }

    async fn receipts(&self, id: ConversationId, limit: u32) -> StoreResult<Vec<Receipt>> {
        let query = sqlx::query(sql!(
            "SELECT r.principal_type, r.principal_id, r.last_read_seq, (SELECT MAX(d.seq) FROM im_device_cursor d
             WHERE d.principal_type = r.principal_type AND d.principal_id = r.principal_id
             AND d.conversation_id = r.conversation_id)
             FROM im_member r WHERE r.conversation_id = ? AND r.status = 1
             ORDER BY r.joined_seq, r.principal_type, r.principal_id LIMIT ?"
        ));
        let rows = bounded(query.bind(id.get()).bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        let receipt = |row| {
            let mut columns = Columns::<DB>::new(row);
            Ok(Receipt {
                principal: columns.principal()?,
                last_read_seq: columns.seq()?,
                delivered_seq: Seq::new(columns.maybe_big()?.unwrap_or_default()),
            })
        };
        rows.iter().map(receipt).collect()
    }

    async fn due_reminders(
        &self,
        now: Timestamp,
        after: Option<DuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<DueReminder>> {
        let (time, message, kind, number) = after.map_or((i64::MIN, 0, 0, 0), |after| {
            let message = after.message_id.map_or(0, MessageId::get);
            (after.due_at.millis(), message, after.principal.kind.code(), after.principal.id)
        });
        let query = sqlx::query(sql!(concat!(
            "SELECT ", action_columns!(), ", a.principal_type, a.principal_id, a.remind_at FROM im_user_action a
             WHERE a.remind_at <= ? AND a.remind_at >= ? AND a.action_type = 3 AND a.status = 1
             AND (a.remind_at > ? OR a.message_id > ? OR (a.message_id = ? AND (a.principal_type > ?
             OR (a.principal_type = ? AND a.principal_id > ?))))
             ORDER BY a.remind_at, a.message_id, a.principal_type, a.principal_id LIMIT ?"
        )));
        let query = query.bind(now.millis()).bind(time).bind(time).bind(message).bind(message);
        let query = query.bind(kind).bind(kind).bind(number).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let due = |row| {
            let mut columns = Columns::<DB>::new(row);
            let action = action_from::<DB>(&mut columns)?;
            Ok(DueReminder { principal: columns.principal()?, due_at: columns.time()?, action })
        };
        rows.iter().map(due).collect()
    }

    async fn claim_reminder(&self, due: &DueReminder, until: Timestamp) -> StoreResult<bool> {
        self.move_due(due, due.due_at, Some(until)).await
    }

    async fn settle_reminder(&self, due: &DueReminder, until: Timestamp) -> StoreResult<bool> {
        self.move_due(due, until, None).await
    }
}
}

/// `count_no` at the highest of `at`, what was read and what was cleared.
fn counted_up_to(membership: &Membership, at: Seq, at_count_no: i64) -> i64 {
    let read = (membership.last_read_seq, membership.last_read_count_no.get());
    let cleared = (membership.cleared_seq, membership.cleared_count_no.get());
    let highest = read.max(cleared).max((at, at_count_no));
    highest.1
}
