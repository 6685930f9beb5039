//! What users are told in their INBOX, contacts and blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use super::tables::Tables;
use crate::domain::{
    Block, ChangeType, Contact, Event, Message, MessageId, MessageStatus, MessageType, Notification, NotificationKey,
    NotificationState, Principal, Seq, Ties, Timestamp,
};
use crate::storage::{Commit, DueNotification, NotificationStore, StoreResult, TieStore};

/// The rows.
#[derive(Default)]
pub(super) struct NoteTables {
    notifications: BTreeMap<MessageId, Notification>,
    /// Both ways.
    contacts: BTreeMap<(Principal, Principal), (MessageId, Timestamp)>,
    blocks: BTreeMap<(Principal, Principal), BlockRow>,
}

struct BlockRow {
    heeded: bool,
    created_at: Timestamp,
}

impl NoteTables {
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Notified { notification } => {
                let id = notification.notification_id;
                self.notifications.insert(id, Notification::clone(notification));
            }
            Event::NotificationChanged { notification } => {
                if let Some(row) = self.notifications.get_mut(&notification.notification_id) {
                    // What was carried out in the meantime is not due again.
                    let due_at = if row.state == notification.state {
                        row.due_at
                    } else {
                        notification.due_at
                    };
                    *row = Notification {
                        due_at,
                        ..Notification::clone(notification)
                    };
                }
            }
            Event::ContactMade {
                one,
                other,
                request,
                at,
            } => {
                for pair in [(*one, *other), (*other, *one)] {
                    self.contacts.entry(pair).or_insert((*request, *at));
                }
            }
            Event::ContactEnded { one, other } => {
                self.contacts.remove(&(*one, *other));
                self.contacts.remove(&(*other, *one));
            }
            Event::BlockChanged {
                owner,
                other,
                at,
                blocked,
            } => {
                if *blocked {
                    let (heeded, created_at) = (false, *at);
                    let row = BlockRow { heeded, created_at };
                    self.blocks.entry((*owner, *other)).or_insert(row);
                } else {
                    self.blocks.remove(&(*owner, *other));
                }
            }
            Event::BlocksHeeded { pair: (one, other), .. } => {
                for pair in [(*one, *other), (*other, *one)] {
                    if let Some(row) = self.blocks.get_mut(&pair) {
                        row.heeded = true;
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn ties(&self, one: Principal, other: Principal) -> Ties {
        let blocker = |owner: Principal, other: Principal| Some((owner, self.blocks.get(&(owner, other))?.heeded));
        let (low, high) = (one.min(other), one.max(other));
        Ties {
            contact: self.contacts.get(&(one, other)).map(|(request, _)| *request),
            blockers: [blocker(low, high), blocker(high, low)].into_iter().flatten().collect(),
        }
    }
}

impl Tables {
    /// What a notification said goes with its message, wherever it stands.
    pub(super) fn forget_deleted_notes(&mut self, commit: &Commit) {
        for event in &commit.events {
            let Event::MessageChanged { message, .. } = event else {
                continue;
            };
            if message.status != MessageStatus::Deleted || message.message_type != MessageType::Notification {
                continue;
            }
            self.notes.notifications.remove(&message.message_id);
            let row = self.conversations.get_mut(&commit.conversation_id);
            for change in row.into_iter().flat_map(|row| row.changes.values_mut()) {
                let is_about_it = change.message_id == Some(message.message_id);
                if is_about_it && change.change_type == ChangeType::NotificationUpdated {
                    Arc::make_mut(change).payload = None;
                }
            }
        }
    }

    fn told(&self, note: &Notification) -> Option<&Message> {
        let row = self.conversations.get(&note.inbox_id)?;
        let (_, seq) = self.message_places.get(&note.notification_id)?;
        row.messages.get(seq).map(Arc::as_ref)
    }

    /// The owner has neither deleted it for themselves nor cleared it away.
    fn is_shown(&self, note: &Notification) -> bool {
        let row = self.conversations.get(&note.inbox_id);
        let cleared = row.and_then(|row| row.present(note.owner)).map(|own| own.cleared_seq);
        let seq = self.told(note).map_or(Seq::ZERO, |message| message.seq);
        cleared.is_some_and(|cleared| cleared < seq) && !self.is_hidden(note.notification_id, note.owner)
    }
}

fn at_most(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[async_trait]
impl NotificationStore for MemoryStore {
    async fn notification(&self, id: MessageId) -> StoreResult<Option<Notification>> {
        self.call(|tables| tables.notes.notifications.get(&id).cloned()).await
    }

    async fn notification_by_key(&self, owner: Principal, key: &NotificationKey) -> StoreResult<Option<Notification>> {
        self.call(|tables| {
            let mut all = tables.notes.notifications.values();
            all.find(|note| note.owner == owner && note.key.as_ref() == Some(key))
                .cloned()
        })
        .await
    }

    async fn pending_from(&self, owner: Principal, from: Principal, limit: u32) -> StoreResult<Vec<Notification>> {
        self.call(|tables| {
            let all = tables.notes.notifications.values();
            let pending =
                all.filter(|note| (note.owner, note.from, note.state) == (owner, from, NotificationState::Pending));
            let mut pending: Vec<Notification> = pending.cloned().collect();
            pending.sort_by_key(|note| (note.kind.code(), note.notification_id));
            pending.truncate(at_most(limit));
            pending
        })
        .await
    }

    async fn notifications(
        &self,
        owner: Principal,
        state: Option<NotificationState>,
        before: Option<MessageId>,
        limit: u32,
    ) -> StoreResult<Vec<Notification>> {
        self.call(|tables| {
            let newest_first = tables.notes.notifications.values().rev();
            let asked = newest_first.filter(|note| {
                note.owner == owner
                    && state.is_none_or(|state| note.state == state)
                    && before.is_none_or(|before| note.notification_id < before)
                    && tables.is_shown(note)
            });
            asked.take(at_most(limit)).cloned().collect()
        })
        .await
    }

    async fn notifications_due(
        &self,
        now: Timestamp,
        after: Option<DueNotification>,
        limit: u32,
    ) -> StoreResult<Vec<Notification>> {
        self.call(|tables| {
            let due = tables.notes.notifications.values().filter_map(|note| {
                let position = DueNotification::of(note)?;
                (position.due_at <= now && Some(position) > after).then_some((position, note))
            });
            let mut due: Vec<_> = due.collect();
            due.sort_by_key(|(position, _)| *position);
            due.into_iter()
                .take(at_most(limit))
                .map(|(_, note)| note.clone())
                .collect()
        })
        .await
    }

    async fn finish_notification(&self, id: MessageId) -> StoreResult<()> {
        self.call(|tables| {
            let row = tables.notes.notifications.get_mut(&id);
            if let Some(row) = row.filter(|row| row.is_unfinished()) {
                row.due_at = None;
            }
        })
        .await
    }

    async fn notifications_of(&self, ids: &[MessageId]) -> StoreResult<Vec<Notification>> {
        self.call(|tables| {
            let found = ids.iter().filter_map(|id| tables.notes.notifications.get(id));
            found.cloned().collect()
        })
        .await
    }

    async fn notifications_after(&self, after: Option<MessageId>, limit: u32) -> StoreResult<Vec<Notification>> {
        self.call(|tables| {
            let above = tables.notes.notifications.values();
            let above = above.filter(|note| after.is_none_or(|after| note.notification_id > after));
            above.take(at_most(limit)).cloned().collect()
        })
        .await
    }
}

#[async_trait]
impl TieStore for MemoryStore {
    async fn ties(&self, one: Principal, other: Principal) -> StoreResult<Ties> {
        self.call(|tables| tables.notes.ties(one, other)).await
    }

    async fn contacts(&self, owner: Principal, after: Option<Principal>, limit: u32) -> StoreResult<Vec<Contact>> {
        self.call(|tables| {
            let all = tables.notes.contacts.iter();
            let mine = all.filter(|((own, other), _)| *own == owner && after.is_none_or(|after| *other > after));
            let contact = |((_, other), (_, at)): (&(Principal, Principal), &(MessageId, Timestamp))| {
                let profile = tables.principals.get(other);
                Contact {
                    principal: *other,
                    display_name: profile.and_then(|profile| profile.display_name.clone()),
                    avatar_url: profile.and_then(|profile| profile.avatar_url.clone()),
                    created_at: *at,
                }
            };
            mine.take(at_most(limit)).map(contact).collect()
        })
        .await
    }

    async fn blocks(&self, owner: Principal, after: Option<Principal>, limit: u32) -> StoreResult<Vec<Block>> {
        self.call(|tables| {
            let all = tables.notes.blocks.iter();
            let mine = all.filter(|((own, other), _)| *own == owner && after.is_none_or(|after| *other > after));
            let block = |((_, other), row): (&(Principal, Principal), &BlockRow)| Block {
                principal: *other,
                created_at: row.created_at,
            };
            mine.take(at_most(limit)).map(block).collect()
        })
        .await
    }
}
