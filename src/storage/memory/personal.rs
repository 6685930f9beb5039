//! What belongs to one user alone.

use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use super::conversations::unread_above;
use super::tables::{ConversationRow, Tables};
use crate::domain::{
    Action, ActionType, Actionable, ConversationId, CountNo, Event, Kind, Message, MessageId, MessageStatus, Position,
    Principal, PrincipalType, Receipt, Seq, SettingsPatch, Timestamp, visibility,
};
use crate::storage::{ActionPosition, DuePosition, DueReminder, PersonalStore, StoreResult};

/// An action, and when its reminder is due next.
pub(super) struct ActionRow {
    pub(super) action: Action,
    pub(super) due_at: Option<Timestamp>,
}

impl Tables {
    /// What a commit of an INBOX moves in the rows of other conversations: forward only, and of present members only.
    pub(super) fn apply_personal(&mut self, event: &Event) {
        match event {
            Event::ReadMoved {
                conversation_id,
                principal,
                seq,
                count_no,
                ..
            } => self.move_read(*conversation_id, *principal, *seq, *count_no),
            Event::SettingsChanged {
                conversation_id,
                principal,
                patch,
            } => self.set(*conversation_id, *principal, patch),
            Event::ActionChanged { principal, action } => {
                let key = (*principal, action.action_type, action.message_id);
                let row = ActionRow {
                    action: action.clone(),
                    due_at: action.remind_at.filter(|_| action.active),
                };
                self.actions.insert(key, row);
            }
            _ => {}
        }
    }

    fn move_read(&mut self, id: ConversationId, principal: Principal, seq: Seq, count_no: CountNo) {
        let row = self.conversations.get_mut(&id);
        if let Some(own) = row.and_then(|row| row.present_mut(principal)) {
            if own.last_read_seq < seq {
                (own.last_read_seq, own.last_read_count_no) = (seq, count_no);
            }
            own.marked_unread = false;
        }
    }

    fn set(&mut self, id: ConversationId, principal: Principal, patch: &SettingsPatch) {
        let row = self.conversations.get_mut(&id);
        if let Some(own) = row.and_then(|row| row.present_mut(principal)) {
            own.muted = patch.muted.unwrap_or(own.muted);
            own.pinned = patch.pinned.unwrap_or(own.pinned);
            own.marked_unread = patch.marked_unread.unwrap_or(own.marked_unread);
            if let Some((seq, count_no)) = patch.cleared
                && own.cleared_seq < seq
            {
                (own.cleared_seq, own.cleared_count_no) = (seq, count_no);
            }
        }
    }

    /// Has `principal` deleted this message for themselves?
    pub(super) fn is_hidden(&self, id: MessageId, principal: Principal) -> bool {
        let row = self.actions.get(&(principal, ActionType::Delete, id));
        row.is_some_and(|row| row.action.active)
    }

    /// Who has deleted this message for themselves, or cleared it away.
    pub(super) fn hidden_for(&self, row: &ConversationRow, message: &Message) -> Vec<Principal> {
        let mut hidden: Vec<Principal> = row.cleared(message.seq).collect();
        let deleted = self.actions.iter().filter(|((_, kind, id), row)| {
            *kind == ActionType::Delete && *id == message.message_id && row.action.active
        });
        hidden.extend(deleted.map(|((principal, ..), _)| *principal));
        hidden
    }
}

fn place(tables: &Tables, id: MessageId) -> Option<(&ConversationRow, &Arc<Message>)> {
    let (conversation_id, seq) = tables.message_places.get(&id)?;
    let row = tables.conversations.get(conversation_id)?;
    Some((row, row.messages.get(seq)?))
}

fn position(tables: &Tables, id: ConversationId, principal: Principal, seq: Seq) -> Option<Position> {
    let row = tables.conversations.get(&id)?;
    let membership = *row.present(principal)?;
    let at = seq.min(row.head.last_seq);
    let floor = at.max(membership.last_read_seq).max(membership.cleared_seq);
    let other = |other: &&Principal| {
        **other != principal && row.header.kind == Kind::Direct && !tables.notes.ties(principal, **other).is_blocked()
    };
    Some(Position {
        membership,
        peer: row.members.keys().find(other).copied(),
        at,
        at_count_no: row.messages.get(&at).map_or(CountNo::ZERO, |message| message.count_no),
        unread_count: unread_above(tables, row, principal, floor),
    })
}

/// May `principal` see it, unless they have deleted it for themselves?
fn is_shown(row: &ConversationRow, message: &Message, principal: Principal) -> bool {
    let own = row.present(principal);
    let shown = own.is_some_and(|own| message.seq >= visibility::first_visible(&row.header, own));
    shown && message.status != MessageStatus::Deleted
}

fn actionable(tables: &Tables, id: MessageId, principal: Principal) -> Option<Actionable> {
    let (row, message) = place(tables, id)?;
    let kinds = [ActionType::Delete, ActionType::Favorite, ActionType::Reminder];
    let actions = kinds
        .iter()
        .filter_map(|kind| tables.actions.get(&(principal, *kind, id)));
    Some(Actionable {
        conversation_id: message.conversation_id,
        seq: message.seq,
        counts: message.sender.kind != PrincipalType::System && !message.status.is_gone(),
        visible: is_shown(row, message, principal),
        actions: actions.map(|row| row.action.clone()).collect(),
    })
}

/// Moves the time at which a reminder is due next, unless it is another by now.
fn move_due(tables: &mut Tables, due: &DueReminder, from: Timestamp, to: Option<Timestamp>) -> bool {
    let key = (due.principal, ActionType::Reminder, due.action.message_id);
    let row = tables.actions.get_mut(&key);
    let row = row.filter(|row| row.due_at == Some(from));
    row.map(|row| row.due_at = to).is_some()
}

#[async_trait]
impl PersonalStore for MemoryStore {
    async fn position(&self, id: ConversationId, principal: Principal, seq: Seq) -> StoreResult<Option<Position>> {
        self.call(|tables| position(tables, id, principal, seq)).await
    }

    async fn actionable(&self, message: MessageId, principal: Principal) -> StoreResult<Option<Actionable>> {
        self.call(|tables| actionable(tables, message, principal)).await
    }

    async fn actions(
        &self,
        principal: Principal,
        action_type: Option<ActionType>,
        after: Option<ActionPosition>,
        limit: u32,
    ) -> StoreResult<Vec<Action>> {
        let order = |kind: ActionType, id: MessageId| (kind, std::cmp::Reverse(id));
        self.call(|tables| {
            let shown = |kind: ActionType, id: MessageId| {
                let place = place(tables, id).filter(|(row, message)| is_shown(row, message, principal));
                place.is_some() && (kind == ActionType::Delete || !tables.is_hidden(id, principal))
            };
            let mut mine: Vec<&Action> = tables
                .actions
                .iter()
                .filter(|((owner, kind, id), row)| {
                    *owner == principal
                        && row.action.active
                        && shown(*kind, *id)
                        && action_type.is_none_or(|only| only == *kind)
                        && after.is_none_or(|after| order(*kind, *id) > order(after.action_type, after.message_id))
                })
                .map(|(_, row)| &row.action)
                .collect();
            mine.sort_by_key(|action| order(action.action_type, action.message_id));
            mine.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            mine.into_iter().cloned().collect()
        })
        .await
    }

    async fn receipts(&self, id: ConversationId, limit: u32) -> StoreResult<Vec<Receipt>> {
        self.call(|tables| {
            let Some(row) = tables.conversations.get(&id) else {
                return Vec::new();
            };
            let mut present: Vec<_> = row
                .members
                .values()
                .filter(|row| row.present)
                .map(|row| &row.membership)
                .collect();
            present.sort_by_key(|own| (own.member.joined_seq, own.member.principal));
            present.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            let delivered = |principal: Principal| {
                let cursors = tables.cursors.iter();
                let mine = cursors.filter(|((owner, _, place), _)| *owner == principal && *place == id);
                mine.map(|(_, (seq, _))| *seq).max().unwrap_or_default()
            };
            let receipt = |own: &crate::domain::Membership| Receipt {
                principal: own.member.principal,
                last_read_seq: own.last_read_seq,
                delivered_seq: delivered(own.member.principal),
            };
            present.into_iter().map(receipt).collect()
        })
        .await
    }

    async fn due_reminders(
        &self,
        now: Timestamp,
        after: Option<DuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<DueReminder>> {
        self.call(|tables| {
            let due = tables.actions.iter().filter_map(|((principal, ..), row)| {
                Some(DueReminder {
                    principal: *principal,
                    due_at: row.due_at.filter(|at| *at <= now)?,
                    action: row.action.clone(),
                })
            });
            let mut due: Vec<_> = due.filter(|due| Some(due.position()) > after).collect();
            due.sort_by_key(DueReminder::position);
            due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            due
        })
        .await
    }

    async fn claim_reminder(&self, due: &DueReminder, until: Timestamp) -> StoreResult<bool> {
        self.call(|tables| move_due(tables, due, due.due_at, Some(until))).await
    }

    async fn settle_reminder(&self, due: &DueReminder, until: Timestamp) -> StoreResult<bool> {
        self.call(|tables| move_due(tables, due, until, None)).await
    }
}
