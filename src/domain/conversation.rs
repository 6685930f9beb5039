//! A conversation as its writer holds it, and what it becomes by events.
//!
//! Invariants: INV-SEQ-1 and INV-CHG-1 (numbers without holes), INV-IDEM-1 (one key, one message).
//! The rules stand in [`super::decide`]; nothing here asks for time, chance or a database.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::chain::{self, Digest};
use super::event::Event;
use super::ids::{ChangeSeq, ClientMessageId, ClientRequestId, ConversationId, CountNo, Principal, Seq, Timestamp};
use super::member::Members;
use super::message::{KeyRecord, MessageStatus};

/// How many used keys a writer remembers; an older one is found by the unique key of the store.
pub const RECENT_KEYS_MAX: usize = 128;

/// An enum with a small number at rest and a word on the wire for each variant.
macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The small number that stands for it at rest.
            #[must_use]
            pub const fn code(self) -> i16 {
                match self { $(Self::$variant => $code),+ }
            }

            /// The inverse of `code`.
            #[must_use]
            pub const fn from_code(code: i16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// The word of the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The inverse of `as_str`.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

pub(super) use word_enum;

word_enum!(
    /// What kind of place it is.
    Kind {
        /// One per unordered pair, fixed members.
        Direct = 1 "DIRECT",
        /// Members come and go, with roles.
        Group = 2 "GROUP",
        /// One per user; only SYSTEM writes.
        Inbox = 3 "INBOX",
    }
);
word_enum!(
    /// Whether it can be written to.
    Status {
        /// It can.
        Active = 1 "ACTIVE",
        /// It can only be read.
        Dissolved = 2 "DISSOLVED",
    }
);
word_enum!(
    /// What members see of the time before they joined.
    HistoryVisibility {
        /// Everything.
        Shared = 1 "SHARED",
        /// Only from their joining on.
        Joined = 2 "JOINED",
    }
);
word_enum!(
    /// Who may send.
    Posting {
        /// Every member.
        All = 1 "ALL",
        /// Admins and the owner.
        Admins = 2 "ADMINS",
    }
);
word_enum!(
    /// Who may add members.
    Adding {
        /// Every member.
        All = 1 "ALL",
        /// Admins and the owner.
        Admins = 2 "ADMINS",
    }
);

/// Names a conversation that must exist once: unique in the store, compared byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CreationKey(String);

impl CreationKey {
    /// The DIRECT of an unordered pair.
    #[must_use]
    pub fn direct(one: Principal, other: Principal) -> Self {
        Self(format!("direct/{}/{}", one.min(other), one.max(other)))
    }

    /// The one INBOX of a principal.
    #[must_use]
    pub fn inbox(owner: Principal) -> Self {
        Self(format!("inbox/{owner}"))
    }

    /// A group that its creator named by a `client_request_id`.
    #[must_use]
    pub fn request(creator: Principal, key: &ClientRequestId) -> Self {
        Self(format!("request/{creator}/{key}"))
    }

    /// The text at rest.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CreationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a conversation is, apart from what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name everywhere and for ever.
    pub conversation_id: ConversationId,
    /// What kind of place it is.
    pub kind: Kind,
    /// Of a GROUP.
    pub title: Option<String>,
    /// A picture.
    pub avatar_url: Option<String>,
    /// Of a GROUP with members.
    pub owner: Option<Principal>,
    /// What members see of the time before they joined.
    pub history_visibility: HistoryVisibility,
    /// Who may send.
    pub posting: Posting,
    /// Who may add members.
    pub adding: Adding,
    /// Whether it can be written to.
    pub status: Status,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the header last changed.
    pub updated_at: Timestamp,
}

/// Where a conversation stands: the counters that one writer owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The newest message's; never goes back.
    pub last_seq: Seq,
    /// The newest change's; never goes back.
    pub last_change_seq: ChangeSeq,
    /// Messages by USER or AGENT so far.
    pub last_count_no: CountNo,
    /// Of the newest message.
    pub chain_hash: Digest,
    /// The newest message that is not RECALLED or DELETED; 0 if none.
    pub last_message_seq: Seq,
    /// When the newest message came; when there is none, when the conversation was made. Lists are ordered by it.
    pub last_activity_at: Timestamp,
}

impl Head {
    /// Of a conversation in which nothing was said.
    #[must_use]
    pub fn empty(conversation_id: ConversationId, created_at: Timestamp) -> Self {
        Self {
            last_seq: Seq::ZERO,
            last_change_seq: ChangeSeq::ZERO,
            last_count_no: CountNo::ZERO,
            chain_hash: chain::genesis(conversation_id),
            last_message_seq: Seq::ZERO,
            last_activity_at: created_at,
        }
    }

    /// What a commit compares before it writes (INV-OWN-1).
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters {
            last_seq: self.last_seq,
            last_change_seq: self.last_change_seq,
        }
    }
}

/// The two numbers that fence a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counters {
    /// Of the newest message.
    pub last_seq: Seq,
    /// Of the newest change.
    pub last_change_seq: ChangeSeq,
}

/// The whole state of a writer.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// What it is.
    pub header: Arc<Header>,
    /// Where it stands.
    pub head: Head,
    /// Who is in it.
    pub members: Members,
    /// Keys that were used lately.
    pub recent: RecentKeys,
    /// Of a DIRECT: who of the two has blocked the other. What the other sends is refused.
    pub blockers: Vec<Principal>,
}

impl Conversation {
    /// Makes one fact true in memory. Only what is committed is applied.
    pub fn apply(state: &mut Option<Self>, event: &Event) {
        match (state.as_mut(), event) {
            (_, Event::Created { header, members, .. }) => {
                *state = Some(Self {
                    head: Head::empty(header.conversation_id, header.created_at),
                    header: Arc::clone(header),
                    members: members.iter().copied().collect(),
                    recent: RecentKeys::default(),
                    blockers: Vec::new(),
                });
            }
            (Some(state), event) => state.apply_to_existing(event),
            (None, _) => {}
        }
    }

    fn apply_to_existing(&mut self, event: &Event) {
        match event {
            // Rows of other conversations, the user's own, what is on messages: a writer holds nothing of them.
            Event::Created { .. }
            | Event::ReadMoved { .. }
            | Event::SettingsChanged { .. }
            | Event::ActionChanged { .. }
            | Event::Mentioned { .. }
            | Event::Referenced { .. }
            | Event::Reacted { .. }
            | Event::Pinned { .. }
            | Event::Notified { .. }
            | Event::NotificationChanged { .. }
            | Event::ContactMade { .. }
            | Event::ContactEnded { .. }
            | Event::BlockChanged { .. } => {}
            Event::BlocksHeeded { blockers, .. } => self.blockers.clone_from(blockers),
            Event::MessageSent { message, .. } => {
                self.head.last_seq = message.seq;
                self.head.last_count_no = message.count_no;
                self.head.chain_hash = message.chain_hash;
                self.head.last_activity_at = message.sent_at;
                if !matches!(message.status, MessageStatus::Recalled | MessageStatus::Deleted) {
                    self.head.last_message_seq = message.seq;
                }
                if let Some(key) = &message.client_message_id {
                    self.recent.insert(message.sender, key.clone(), message.record());
                }
            }
            Event::MembersAdded { members } => {
                self.members.extend(members.iter().copied());
            }
            Event::MemberRemoved { principal, .. } => {
                self.members.remove(*principal);
            }
            Event::RoleChanged { principal, role } => {
                self.members.set_role(*principal, *role);
            }
            Event::HeaderChanged { header } => self.header = Arc::clone(header),
            Event::MessageChanged { last_message_seq, .. } => self.head.last_message_seq = *last_message_seq,
            Event::Changed { change, .. } => self.head.last_change_seq = change.change_seq,
        }
    }
}

/// The keys that were used lately, oldest out first.
#[derive(Clone, Debug, Default)]
pub struct RecentKeys {
    records: HashMap<(Principal, ClientMessageId), KeyRecord>,
    order: VecDeque<(Principal, ClientMessageId)>,
}

impl RecentKeys {
    /// What was sent with this key, if it is remembered.
    #[must_use]
    pub fn get(&self, sender: Principal, key: &ClientMessageId) -> Option<&KeyRecord> {
        self.records.get(&(sender, key.clone()))
    }

    /// Remembers a key; the oldest is forgotten when there are [`RECENT_KEYS_MAX`].
    pub fn insert(&mut self, sender: Principal, key: ClientMessageId, record: KeyRecord) {
        if self.records.insert((sender, key.clone()), record).is_some() {
            return;
        }
        self.order.push_back((sender, key));
        if self.order.len() > RECENT_KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.records.remove(&oldest);
        }
    }
}
