//! The rows, and how a commit changes them: all of it or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::events::EventTables;
use super::files::FileTables;
use super::jobs::JobTables;
use super::notes::NoteTables;
use super::personal::ActionRow;
use super::webhooks::WebhookTables;
use crate::domain::{
    ActionType, Annotated, Change, ChangeSeq, ClientMessageId, ConversationId, CountNo, DeviceId, Emoji, Event,
    ExternalId, Head, Header, Marked, Member, Membership, Mentions, Message, MessageId, Principal, PrincipalType,
    Profile, Reactor, Seq, Timestamp,
};
use crate::storage::{Commit, CommitError, CommitResult};

/// Everything that is stored.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) conversations: BTreeMap<ConversationId, ConversationRow>,
    pub(super) creation_keys: BTreeMap<String, ConversationId>,
    pub(super) message_places: BTreeMap<MessageId, (ConversationId, Seq)>,
    pub(super) principals: BTreeMap<Principal, Profile>,
    /// When each of them got its row.
    pub(super) known_since: BTreeMap<Principal, Timestamp>,
    pub(super) external_ids: BTreeMap<(PrincipalType, ExternalId), Principal>,
    pub(super) devices: BTreeMap<(Principal, DeviceId), DeviceRow>,
    pub(super) cursors: BTreeMap<(Principal, DeviceId, ConversationId), (Seq, ChangeSeq)>,
    pub(super) workers: BTreeMap<u16, WorkerRow>,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) actions: BTreeMap<(Principal, ActionType, MessageId), ActionRow>,
    pub(super) notes: NoteTables,
    pub(super) events: EventTables,
    pub(super) webhooks: WebhookTables,
    pub(super) jobs: JobTables,
    pub(super) files: FileTables,
}

/// A conversation and what belongs to it.
pub(super) struct ConversationRow {
    pub(super) header: Arc<Header>,
    pub(super) head: Head,
    pub(super) member_count: usize,
    pub(super) members: BTreeMap<Principal, MemberRow>,
    pub(super) messages: BTreeMap<Seq, Arc<Message>>,
    pub(super) changes: BTreeMap<ChangeSeq, Arc<Change>>,
    pub(super) keys: BTreeMap<(Principal, ClientMessageId), Seq>,
    pub(super) reactions: BTreeMap<MessageId, Vec<(Emoji, Reactor)>>,
    /// Whom each message mentions, where it mentions somebody.
    pub(super) mentions: BTreeMap<Seq, Mentions>,
    /// Since when.
    pub(super) pins: BTreeMap<MessageId, Timestamp>,
}

/// The row of a member outlives the membership: who comes back finds `cleared_seq`.
pub(super) struct MemberRow {
    pub(super) membership: Membership,
    pub(super) present: bool,
}

/// A device that was here.
pub(super) struct DeviceRow {
    pub(super) platform: Option<String>,
    pub(super) last_seen_at: Timestamp,
}

/// A worker id that was leased once.
pub(super) struct WorkerRow {
    pub(super) node: String,
    pub(super) lease_until: Timestamp,
    pub(super) last_issued: Timestamp,
}

impl Tables {
    pub(super) fn commit(&mut self, commit: &Commit) -> CommitResult {
        self.check(commit)?;
        let id = commit.conversation_id;
        for event in &commit.events {
            if let Event::Created { creation_key, .. } = event {
                self.conversations.insert(id, ConversationRow::new(commit));
                if let Some(key) = creation_key {
                    self.creation_keys.insert(key.as_str().to_owned(), id);
                }
            }
            if let Event::MessageSent { message, .. } = event {
                self.message_places.insert(message.message_id, (id, message.seq));
            }
            if let Some(row) = self.conversations.get_mut(&id) {
                row.apply(event);
            }
            self.apply_personal(event);
            self.notes.apply(event);
            self.files.apply(id, event);
        }
        self.forget_deleted_notes(commit);
        if let Some(row) = self.conversations.get_mut(&id) {
            row.header = Arc::clone(&commit.header);
            row.head = commit.head;
            row.member_count = commit.member_count;
        }
        Ok(())
    }

    /// The unique keys and the compare-and-set. What passes here is stored as it is, right or wrong.
    fn check(&self, commit: &Commit) -> CommitResult {
        let row = self.conversations.get(&commit.conversation_id);
        match (row, commit.expected) {
            (None, None) => self.check_creation(commit)?,
            (Some(_), None) => return Err(CommitError::Exists),
            (Some(row), Some(expected)) if row.head.counters() == expected => {}
            (_, Some(_)) => return Err(CommitError::Fenced),
        }
        let mut new_keys = BTreeSet::new();
        if !self.files.has_what_is_referred_to(commit) {
            return Err(CommitError::Failed);
        }
        for event in &commit.events {
            let Event::MessageSent { message, .. } = event else {
                continue;
            };
            if self.message_places.contains_key(&message.message_id) {
                return Err(CommitError::Failed);
            }
            if let Some(key) = &message.client_message_id {
                let key = (message.sender, key.clone());
                if row.is_some_and(|row| row.keys.contains_key(&key)) || !new_keys.insert(key) {
                    return Err(CommitError::KeyTaken);
                }
            }
        }
        Ok(())
    }

    fn check_creation(&self, commit: &Commit) -> CommitResult {
        match commit.events.first() {
            Some(Event::Created {
                creation_key: Some(key),
                ..
            }) if self.creation_keys.contains_key(key.as_str()) => Err(CommitError::Exists),
            Some(Event::Created { .. }) => Ok(()),
            _ => Err(CommitError::Fenced),
        }
    }
}

impl ConversationRow {
    fn new(commit: &Commit) -> Self {
        Self {
            header: Arc::clone(&commit.header),
            head: Head::empty(commit.conversation_id, commit.header.created_at),
            member_count: 0,
            members: BTreeMap::new(),
            messages: BTreeMap::new(),
            changes: BTreeMap::new(),
            keys: BTreeMap::new(),
            reactions: BTreeMap::new(),
            mentions: BTreeMap::new(),
            pins: BTreeMap::new(),
        }
    }

    /// A message of this conversation with everything on it.
    pub(super) fn annotated(&self, message: &Arc<Message>) -> Annotated {
        let id = message.message_id;
        let given = self.reactions.get(&id).cloned().unwrap_or_default();
        Annotated::new(Arc::clone(message), given, self.pins.contains_key(&id))
    }

    /// The same as `viewer` sees it.
    pub(super) fn marked(&self, message: &Arc<Message>, viewer: Principal) -> Marked {
        Marked {
            message: message.as_ref().clone(),
            marks: self.annotated(message).marks_for(viewer),
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Created { members, .. } | Event::MembersAdded { members } => self.join(members),
            Event::MessageSent { message, .. } => self.append(message),
            Event::MemberRemoved { principal, .. } => {
                if let Some(row) = self.members.get_mut(principal) {
                    row.present = false;
                }
            }
            Event::RoleChanged { principal, role } => {
                if let Some(row) = self.members.get_mut(principal) {
                    row.membership.member.role = *role;
                }
            }
            Event::HeaderChanged { header } => self.header = Arc::clone(header),
            Event::MessageChanged { message, .. } => {
                self.messages.insert(message.seq, Arc::clone(message));
                if message.status.is_gone() {
                    self.reactions.remove(&message.message_id);
                    self.pins.remove(&message.message_id);
                }
            }
            Event::Mentioned { seq, now, .. } => {
                if *now == Mentions::Nobody {
                    self.mentions.remove(seq);
                } else {
                    self.mentions.insert(*seq, now.clone());
                }
            }
            Event::Reacted {
                message,
                emoji,
                principal,
                at,
                added,
            } => {
                self.messages.insert(message.seq, Arc::clone(message));
                let given = self.reactions.entry(message.message_id).or_default();
                given.retain(|(other, reactor)| (other, reactor.principal) != (emoji, *principal));
                if *added {
                    let (at, principal) = (*at, *principal);
                    given.push((emoji.clone(), Reactor { at, principal }));
                }
                if given.is_empty() {
                    self.reactions.remove(&message.message_id);
                }
            }
            Event::Pinned {
                message, at, pinned, ..
            } => {
                self.messages.insert(message.seq, Arc::clone(message));
                if *pinned {
                    self.pins.insert(message.message_id, *at);
                } else {
                    self.pins.remove(&message.message_id);
                }
            }
            // Rows of other conversations: see `personal`.
            Event::ReadMoved { .. }
            | Event::SettingsChanged { .. }
            | Event::ActionChanged { .. }
            // See `notes`.
            | Event::Notified { .. }
            | Event::NotificationChanged { .. }
            | Event::ContactMade { .. }
            | Event::ContactEnded { .. }
            | Event::BlockChanged { .. }
            | Event::BlocksHeeded { .. }
            // See `files`.
            | Event::Referenced { .. } => {}
            Event::Changed { change, .. } => {
                self.changes.insert(change.change_seq, Arc::clone(change));
            }
        }
    }

    /// Who joins has read everything up to the SYSTEM message that says so; muted and pinned start afresh.
    fn join(&mut self, members: &[Member]) {
        let read_count_no = self
            .messages
            .last_key_value()
            .map_or(CountNo::ZERO, |(_, newest)| newest.count_no);
        for member in members {
            let membership = Membership {
                member: *member,
                last_read_seq: member.joined_seq,
                last_read_count_no: read_count_no,
                cleared_seq: Seq::ZERO,
                cleared_count_no: CountNo::ZERO,
                marked_unread: false,
                muted: false,
                pinned: false,
            };
            let row = MemberRow {
                membership,
                present: true,
            };
            if let Some(earlier) = self.members.insert(member.principal, row)
                && let Some(row) = self.members.get_mut(&member.principal)
            {
                row.membership.cleared_seq = earlier.membership.cleared_seq;
                row.membership.cleared_count_no = earlier.membership.cleared_count_no;
            }
        }
    }

    /// Who sends has read up to there.
    fn append(&mut self, message: &Arc<Message>) {
        self.messages.insert(message.seq, Arc::clone(message));
        if let Some(key) = &message.client_message_id {
            self.keys.insert((message.sender, key.clone()), message.seq);
        }
        if let Some(row) = self.members.get_mut(&message.sender).filter(|row| row.present) {
            row.membership.last_read_seq = message.seq;
            row.membership.last_read_count_no = message.count_no;
            row.membership.marked_unread = false;
        }
    }

    /// The same, to be moved.
    pub(super) fn present_mut(&mut self, principal: Principal) -> Option<&mut Membership> {
        let row = self.members.get_mut(&principal).filter(|row| row.present);
        row.map(|row| &mut row.membership)
    }

    /// Who has cleared away a message with this seq, former members included.
    pub(super) fn cleared(&self, seq: Seq) -> impl Iterator<Item = Principal> {
        let cleared = self
            .members
            .iter()
            .filter(move |(_, row)| row.membership.cleared_seq >= seq);
        cleared.map(|(principal, _)| *principal)
    }

    /// The membership of who is in it now.
    pub(super) fn present(&self, principal: Principal) -> Option<&Membership> {
        self.members
            .get(&principal)
            .filter(|row| row.present)
            .map(|row| &row.membership)
    }
}
