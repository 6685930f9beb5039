//! The state machine: `Draft::decide` turns commands into events, one after the other, on top of a committed state.
//!
//! A draft never touches the state below it: memory changes only after the commit, by [`Conversation::apply`].
//! What must be known from the store first is asked for by [`Refusal::Needs`]; the caller fetches it and starts over.

use std::collections::HashMap;
use std::sync::Arc;

mod append;
mod header;
mod marking;
mod membership;
mod notifying;
mod personal;
mod referring;
mod sending;
#[cfg(test)]
mod tests;
mod ties;
mod touch;

pub(super) use append::principal_json;
pub use membership::check_title;
use sending::Authority;
pub use sending::repeat;

use super::annotated::Annotated;
use super::change::Change;
use super::command::Command;
use super::conversation::{Conversation, Head, Header};
use super::error::DomainError;
use super::event::Event;
use super::ids::{ClientMessageId, ConversationId, FileId, MessageId, Principal, Seq, Timestamp};
use super::member::Member;
use super::message::{KeyRecord, Message};
use super::notification::{Notification, NotificationKey};
use super::personal::{Action, Actionable, Position};
use super::ties::Ties;

/// The most members of a group.
pub const MEMBERS_MAX: usize = 100_000;

/// What a command led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The conversation was made.
    Created,
    /// A message got its number.
    Sent(Arc<Message>),
    /// The key was used before, for the same payload: this was the first.
    Duplicate(KeyRecord),
    /// The change that was made; `None` where nothing had to change.
    Changed(Option<Arc<Change>>),
    /// The message as it is now, and the change that was made; `None` where nothing had to change.
    Touched(Arc<Annotated>, Option<Arc<Change>>),
    /// A user has read.
    Read {
        /// Their position from here on.
        last_read_seq: Seq,
        /// What is above it.
        unread_count: u64,
        /// The change of their INBOX; `None` where nothing moved.
        change: Option<Arc<Change>>,
    },
    /// The user's action as it is now, and the change of their INBOX; `None` where nothing had to change.
    Acted(Action, Option<Arc<Change>>),
    /// The notification was made: somebody has been told.
    Notified(Arc<Notification>),
    /// The notification as it is now, and the change of its INBOX; `None` where nothing had to change.
    Noted(Arc<Notification>, Option<Arc<Change>>),
    /// Those who may be invited, and into what.
    Invitable {
        /// In the order asked, without members.
        principals: Vec<Principal>,
        /// Of the group.
        title: Option<String>,
    },
}

impl Outcome {
    /// Nothing had to be stored for it.
    #[must_use]
    pub const fn is_unchanged(&self) -> bool {
        matches!(
            self,
            Self::Duplicate(_)
                | Self::Changed(None)
                | Self::Touched(_, None)
                | Self::Read { change: None, .. }
                | Self::Acted(_, None)
                | Self::Noted(_, None)
                | Self::Invitable { .. }
        )
    }
}

/// Why there is no outcome (yet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not allowed.
    Rejected(DomainError),
    /// It cannot be said before this is known.
    Needs(Fact),
}

impl From<DomainError> for Refusal {
    fn from(error: DomainError) -> Self {
        Self::Rejected(error)
    }
}

/// Something that only the store knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// Was this key used?
    Key(Principal, ClientMessageId),
    /// Which message of this conversation is quoted, and has the viewer deleted it?
    Quote(MessageId, Principal),
    /// A message of this conversation that is to be touched.
    Message(MessageId),
    /// Where does this principal stand in that conversation, and what if everything up to this seq were read?
    Position(ConversationId, Principal, Seq),
    /// A message anywhere that the principal wants to mark for themselves.
    Actionable(MessageId, Principal),
    /// A notification anywhere.
    Notification(MessageId),
    /// The notification of this principal that has this key.
    Keyed(Principal, NotificationKey),
    /// What the first has pending from the second: a request, then invitations, as many as one commit ends.
    PendingFrom(Principal, Principal),
    /// When did this principal, who is no member of this conversation, last join it?
    LastJoined(Principal),
    /// What is between these two, in this order.
    Ties(Principal, Principal),
    /// Which of these files, in order, may the principal read?
    Files(Principal, Vec<FileId>),
}

/// A message as a decision about it has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touchable {
    /// The message as it is, with everything on it.
    pub annotated: Annotated,
    /// Who has deleted it for themselves, or cleared it away.
    pub hidden_for: Vec<Principal>,
    /// The newest message below it that is not RECALLED or DELETED; 0 if none.
    pub standing_below: Seq,
    /// How many messages of the conversation are pinned, this one included.
    pub pins: usize,
}

impl Touchable {
    /// Is it hidden from this principal by their own will?
    #[must_use]
    pub fn is_hidden_for(&self, principal: Principal) -> bool {
        self.hidden_for.contains(&principal)
    }
}

/// A quoted message as far as a quote has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotable {
    /// Its place.
    pub seq: Seq,
    /// Deleted for everyone, or deleted or cleared away by the viewer.
    pub gone: bool,
}

/// What is known from the store.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `None` = the key was never used.
    pub keys: HashMap<(Principal, ClientMessageId), Option<KeyRecord>>,
    /// `None` = no such message in this conversation.
    pub quotes: HashMap<(MessageId, Principal), Option<Quotable>>,
    /// `None` = no such message in this conversation.
    pub messages: HashMap<MessageId, Option<Touchable>>,
    /// `None` = not a member there.
    pub positions: HashMap<(ConversationId, Principal, Seq), Option<Position>>,
    /// `None` = no message that the principal could ever see.
    pub actionables: HashMap<(MessageId, Principal), Option<Actionable>>,
    /// `None` = no such notification.
    pub notifications: HashMap<MessageId, Option<Notification>>,
    /// `None` = none has the key.
    pub keyed: HashMap<(Principal, NotificationKey), Option<Notification>>,
    /// A request, then invitations.
    pub pending_from: HashMap<(Principal, Principal), Vec<Notification>>,
    /// `None` = never.
    pub last_joined: HashMap<Principal, Option<Timestamp>>,
    /// Two principals in order.
    pub ties: HashMap<(Principal, Principal), Ties>,
    /// May the principal read the file?
    pub files: HashMap<(FileId, Principal), bool>,
}

/// What comes from outside into a decision.
pub struct Context<'a> {
    /// The time of this batch.
    pub now: Timestamp,
    /// Gives message ids; a refusal uses nothing up.
    pub next_id: &'a mut dyn FnMut() -> Result<MessageId, DomainError>,
    /// What was fetched.
    pub facts: &'a Facts,
}

/// A batch in the making.
pub struct Draft<'a> {
    conversation_id: ConversationId,
    base: Option<&'a Conversation>,
    header: Option<Arc<Header>>,
    head: Option<Head>,
    /// What differs from `base`: `None` = a member no longer.
    members: HashMap<Principal, Option<Member>>,
    keys: HashMap<(Principal, ClientMessageId), KeyRecord>,
    /// Messages as this draft leaves them.
    touched: HashMap<MessageId, Touchable>,
    /// Of an INBOX: what its user has done in this draft.
    acts: personal::Acts,
    /// Of an INBOX: what its user is told, as this draft leaves it.
    notes: HashMap<MessageId, Arc<Notification>>,
    /// What is between an INBOX's user and others, where this draft has changed it.
    ties: HashMap<(Principal, Principal), Ties>,
    /// Of a DIRECT: who blocks whom, where this draft has looked.
    blockers: Option<Vec<Principal>>,
    /// Messages that this draft has pinned and unpinned.
    pins: (usize, usize),
    member_count: usize,
    events: Vec<Event>,
}

/// A finished batch: what the store is asked to make true, all or nothing.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What happens, in order. Never empty.
    pub events: Vec<Event>,
    /// The header afterwards.
    pub header: Arc<Header>,
    /// The head afterwards.
    pub head: Head,
    /// Present members afterwards.
    pub member_count: usize,
}

impl<'a> Draft<'a> {
    /// On top of a committed state; `None` = there is no such conversation yet.
    #[must_use]
    pub fn new(conversation_id: ConversationId, base: Option<&'a Conversation>) -> Self {
        Self {
            conversation_id,
            base,
            header: base.map(|base| Arc::clone(&base.header)),
            head: base.map(|base| base.head),
            members: HashMap::new(),
            keys: HashMap::new(),
            touched: HashMap::new(),
            acts: personal::Acts::default(),
            notes: HashMap::new(),
            ties: HashMap::new(),
            blockers: None,
            pins: (0, 0),
            member_count: base.map_or(0, |base| base.members.len()),
            events: Vec::new(),
        }
    }

    /// How many events there are so far.
    #[must_use]
    pub fn events_len(&self) -> usize {
        self.events.len()
    }

    /// What is to be committed; `None` when nothing is.
    #[must_use]
    pub fn finish(self) -> Option<Batch> {
        let (header, head) = self.header.zip(self.head)?;
        (!self.events.is_empty()).then_some(Batch {
            events: self.events,
            header,
            head,
            member_count: self.member_count,
        })
    }

    /// Decides one command on top of those before it.
    ///
    /// # Errors
    /// [`Refusal`]: then the draft is as it was.
    pub fn decide(&mut self, command: &Command, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        match command {
            Command::Create(create) => self.create(create, context),
            Command::Send(send) => self.send(send, Authority::Own, context),
            Command::SendFor(send) => self.send(send, Authority::AdminKey, context),
            Command::AddMembers { origin, members } => self.add_members(origin, members, context),
            Command::Personal { origin, act } => self.personal(origin, act, context),
            Command::Notify(notify) => self.notify(notify, context),
            Command::Conclude(conclusion) => self.conclude(conclusion, context),
            Command::Invite { origin, members } => self.invite(origin, members),
            Command::Join {
                member,
                by,
                accepted_at,
            } => self.join(*member, *by, *accepted_at, context),
            Command::HeedBlocks => self.heed_blocks(context),
            Command::RemoveMember { origin, target } => self.remove_member(origin, *target, context),
            Command::Touch {
                origin,
                message_id,
                touch,
            } => self.touch(origin, *message_id, touch, context),
            Command::Update { origin, patch } => self.update(origin, patch, context),
            Command::SetRole { origin, target, role } => self.set_role(origin, *target, *role, context),
            Command::Dissolve { origin } => self.dissolve(origin, context),
        }
    }

    fn member(&self, principal: Principal) -> Option<Member> {
        match self.members.get(&principal) {
            Some(changed) => *changed,
            None => self.base.and_then(|base| base.members.get(principal)),
        }
    }

    /// Everybody who is a member at this point.
    fn present(&self) -> impl Iterator<Item = Member> {
        let untouched = self.base.into_iter().flat_map(|base| base.members.iter());
        let untouched = untouched.filter(|member| !self.members.contains_key(&member.principal));
        untouched.chain(self.members.values().flatten().copied())
    }

    fn existing(&self) -> Result<(Arc<Header>, Head), DomainError> {
        self.header
            .clone()
            .zip(self.head)
            .ok_or(DomainError::ConversationNotFound)
    }
}
