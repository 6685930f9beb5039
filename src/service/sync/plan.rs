//! What is to be read of one conversation, and how much of it is told.

use std::collections::BTreeMap;

use super::SYNC_CHANGES_MAX;
use crate::domain::{ChangeSeq, ConversationId, HistoryVisibility, Kind, Seq, visibility};
use crate::service::conversations::only_visible;
use crate::service::messages::MESSAGE_OVERHEAD_BYTES;
use crate::storage::{Logged, Outline, Seen, Stretch, Window};

/// What a conversation has on the wire besides its last message, at the most.
const CONVERSATION_OVERHEAD_BYTES: usize = 8_192;
/// What a change has on the wire besides its payload and its message, at the most.
const CHANGE_OVERHEAD_BYTES: usize = 512;

/// From where a device is told.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) cursor: (Seq, ChangeSeq),
    /// It is not (0, 0) just because nothing is known.
    pub(super) named: bool,
    /// It is what the device acknowledged.
    pub(super) stored: bool,
}

/// What is to be read of a conversation.
pub(super) struct Plan {
    pub(super) seen: Seen,
    pub(super) history_reset: bool,
    /// The stored cursor is of an earlier membership.
    pub(super) forgets_stored: bool,
    /// Messages after this: the cursor, or what is before the first that the viewer may see.
    after: Seq,
    /// The cursor's.
    change_seq: ChangeSeq,
    /// The first that the viewer may see.
    pub(super) first: Seq,
    message_limit: u32,
}

impl Plan {
    /// `None` when the viewer is no member. A cursor of an earlier membership is no use when it is a stored one (the
    /// device has dropped what it had when it was removed), or when what was before is hidden now (it has to drop that).
    pub(super) fn new(seen: Seen, start: Start, message_limit: u32) -> Option<Self> {
        let own = seen.membership.as_ref()?;
        let head = &seen.head;
        let cursor = start.cursor;
        let nowhere = cursor == (Seq::ZERO, ChangeSeq::ZERO);
        let beyond = cursor.0 > head.last_seq || cursor.1 > head.last_change_seq;
        let earlier = seen.header.kind == Kind::Group && start.named && cursor.0 < own.member.joined_seq;
        let hides = seen.header.history_visibility == HistoryVisibility::Joined;
        let history_reset = beyond || (earlier && (start.stored || (hides && !nowhere)));
        let (seq, change_seq) = if history_reset {
            (Seq::ZERO, ChangeSeq::ZERO)
        } else {
            cursor
        };
        let first = visibility::first_visible(&seen.header, own);
        Some(Self {
            after: seq.max(Seq::new(first.get().saturating_sub(1))),
            first,
            change_seq,
            history_reset,
            forgets_stored: earlier && start.stored && !nowhere,
            message_limit,
            seen: only_visible(seen),
        })
    }

    pub(super) fn id(&self) -> ConversationId {
        self.seen.header.conversation_id
    }

    /// How many messages and changes are looked through, at the most.
    pub(super) fn rows(&self) -> u64 {
        let messages = self.seen.head.last_seq.get().saturating_sub(self.after.get());
        let messages = messages.clamp(0, i64::from(self.message_limit) + 1);
        let changes = self.up_to().get().saturating_sub(self.change_seq.get());
        u64::try_from(messages.saturating_add(changes)).unwrap_or_default()
    }

    fn up_to(&self) -> ChangeSeq {
        let page = self.change_seq.get().saturating_add(i64::from(SYNC_CHANGES_MAX));
        self.seen.head.last_change_seq.min(ChangeSeq::new(page))
    }

    pub(super) fn window(&self) -> Option<Window> {
        let window = Window {
            conversation_id: self.id(),
            after: self.after,
            up_to: self.seen.head.last_seq,
            limit: self.message_limit.saturating_add(1), // one more tells whether there are older ones
        };
        (window.up_to > window.after).then_some(window)
    }

    pub(super) fn stretch(&self) -> Option<Stretch> {
        let stretch = Stretch {
            conversation_id: self.id(),
            after: self.change_seq,
            up_to: self.up_to(),
        };
        (stretch.up_to > stretch.after).then_some(stretch)
    }
}

/// What is told of a conversation: which messages and changes, their content not yet read.
pub(super) struct Draft {
    pub(super) plan: Plan,
    /// The newest first.
    pub(super) messages: Vec<Outline>,
    /// There are older ones after the cursor.
    older: bool,
    /// Ascending.
    pub(super) log: Vec<Logged>,
    change_seq: ChangeSeq,
}

impl Draft {
    /// Gives each conversation what was found of it.
    pub(super) fn sort(plans: Vec<Plan>, outlines: Vec<Outline>, log: Vec<Logged>) -> Vec<Self> {
        let mut found: BTreeMap<ConversationId, (Vec<Outline>, Vec<Logged>)> = BTreeMap::new();
        for outline in outlines {
            found.entry(outline.conversation_id).or_default().0.push(outline);
        }
        for logged in log {
            found.entry(logged.change.conversation_id).or_default().1.push(logged);
        }
        let mut draft = |plan: Plan| {
            let (mut messages, log) = found.remove(&plan.id()).unwrap_or_default();
            let limit = usize::try_from(plan.message_limit).unwrap_or(usize::MAX);
            let older = messages.len() > limit;
            messages.truncate(limit);
            let change_seq = plan.up_to().max(plan.change_seq);
            Self {
                plan,
                messages,
                older,
                log,
                change_seq,
            }
        };
        plans.into_iter().map(&mut draft).collect()
    }

    /// May the viewer see what this change is about?
    pub(super) fn shows(&self, logged: &Logged) -> bool {
        match &logged.about {
            Some(about) => about.seq >= self.plan.first && !about.deleted_by_viewer,
            None => logged.change.message_id.is_none(),
        }
    }

    fn bytes_of(&self, logged: &Logged) -> usize {
        if !self.shows(logged) {
            return CHANGE_OVERHEAD_BYTES;
        }
        let payload = logged.change.payload.as_ref();
        let payload = payload.map_or(0, |payload| payload.as_str().len());
        let message = logged.about.as_ref();
        let message = message.map_or(0, |about| about.content_bytes + MESSAGE_OVERHEAD_BYTES);
        CHANGE_OVERHEAD_BYTES + payload + message
    }

    fn own_bytes(&self) -> usize {
        let last = self.plan.seen.last_message.as_ref();
        let last = last.map_or(0, |last| last.message.content.as_str().len() + MESSAGE_OVERHEAD_BYTES);
        CONVERSATION_OVERHEAD_BYTES + last
    }

    /// About how large it is on the wire, at the most.
    pub(super) fn bytes(&self) -> usize {
        let messages = self.messages.iter().map(bytes_of);
        let changes = self.log.iter().map(|logged| self.bytes_of(logged));
        self.own_bytes() + messages.sum::<usize>() + changes.sum::<usize>()
    }

    /// Keeps the newest messages and the oldest changes that fit: one of each at least, so that every answer gets on.
    pub(super) fn cut_to(&mut self, bytes_max: usize) {
        let mut bytes = self.own_bytes();
        let mut fits = |more: usize| {
            bytes += more;
            bytes <= bytes_max
        };
        let messages = self
            .messages
            .iter()
            .take_while(|outline| fits(bytes_of(outline)))
            .count();
        let changes = self.log.iter().take_while(|logged| fits(self.bytes_of(logged))).count();
        let (messages, changes) = (messages.max(1), changes.max(1));
        if messages < self.messages.len() {
            self.messages.truncate(messages);
            self.older = true;
        }
        if changes < self.log.len() {
            self.log.truncate(changes);
            self.change_seq = self
                .log
                .last()
                .map_or(self.plan.change_seq, |last| last.change.change_seq);
        }
    }

    /// The cursor from now on.
    pub(super) fn next(&self) -> (Seq, ChangeSeq) {
        (self.plan.seen.head.last_seq, self.change_seq)
    }

    pub(super) fn has_more_changes(&self) -> bool {
        self.change_seq < self.plan.seen.head.last_change_seq
    }

    /// The hole between the cursor and the oldest message told.
    pub(super) fn missing(&self) -> Option<(Seq, Seq)> {
        let oldest = self.messages.last().filter(|_| self.older)?;
        Some((self.plan.after, oldest.seq))
    }
}

fn bytes_of(outline: &Outline) -> usize {
    outline.content_bytes + MESSAGE_OVERHEAD_BYTES
}
