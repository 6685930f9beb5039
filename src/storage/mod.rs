//! FACTS AT REST: the traits, in the words of the domain. `sql` implements them for SQLite, PostgreSQL and
//! MySQL/MariaDB with one text; `memory` implements them for tests and the simulation. `tests/storage` holds every
//! implementation to one contract.
//!
//! Never here: a decision. A store keeps what the domain decided and says honestly what became of it:
//! stored, not stored, or [`CommitError::Unknown`].
//!
//! Invariants: INV-OWN-1 (a commit whose counters moved stores nothing), INV-IDEM-1 (unique key), INV-COST-1
//! (statements and rows of a send do not depend on the number of members).

mod events;
mod files;
mod jobs;
mod marks;
pub mod memory;
mod notifications;
mod personal;
pub mod sql;
mod sync;
mod ties;
mod webhooks;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;

pub use events::{
    AuditedCursor, AuditedEvent, EventCursor, EventStore, Lag, LagPage, LogState, Missable, Placed, Placement, Placer,
    PushDue, PushPlacement, Unplaced,
};
pub use files::{FileStore, FinishedFile, LooseBlob, LooseFile, NewBlob, NewFile, StrayReferences};
pub use jobs::{JobHolder, JobProgress, JobStore};
pub use notifications::{DueNotification, NotificationStore};
pub use personal::{ActionPosition, DuePosition, DueReminder, PersonalStore};
pub use sync::{About, Logged, Outline, Standing, Stretch, SyncStore, Unread, Window};
pub use ties::TieStore;
use ties::pair_of;
pub use webhooks::{Holder, WebhookStore};

use crate::domain::{
    Change, ChangeSeq, ClientMessageId, Conversation, ConversationId, Counters, CreationKey, DeviceId, Event, EventNo,
    ExternalId, Head, Header, KeyRecord, Marked, Marks, Member, Membership, Message, MessageId, Principal,
    PrincipalType, Profile, ProfilePatch, Quotable, Seq, Timestamp, Touchable,
};

pub use marks::{MarkKind, PinPosition, PinQuery, Stray, StrayReactions};

/// Why a read or a small write failed. Inside words only: clients get a code and a `trace_id`.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The database cannot be reached or does not answer in time; trying again may help.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A row that cannot be: a bug or a damaged store.
    #[error("inconsistent data: {0}")]
    Inconsistent(String),
    /// All 1,024 worker ids are leased.
    #[error(
        "all 1,024 worker ids are leased by running nodes; stop one, or wait until the lease of a stopped one ends"
    )]
    NoFreeWorker,
}

/// Why a commit stored nothing, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// The counters moved: somebody else wrote this conversation. Nothing is stored.
    #[error("another writer has moved the counters")]
    Fenced,
    /// A `client_message_id` of it was used before. Nothing is stored.
    #[error("a key was used before")]
    KeyTaken,
    /// The creation key or the id of a new conversation exists. Nothing is stored.
    #[error("the conversation exists")]
    Exists,
    /// The database refused or was not reached. Nothing is stored; trying again may help.
    #[error("the database did not take it")]
    Failed,
    /// The connection was lost before the answer: it may be stored, now or in a moment.
    #[error("the outcome is unknown")]
    Unknown,
}

/// What became of one [`Commit`].
pub type CommitResult = Result<(), CommitError>;
/// What a read gives.
pub type StoreResult<T> = Result<T, StoreError>;

/// One conversation's batch, all or nothing.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Which conversation.
    pub conversation_id: ConversationId,
    /// The counters it was decided on; `None` = the conversation is new (its first event is `Created`).
    pub expected: Option<Counters>,
    /// What is to become true.
    pub events: Vec<Event>,
    /// The header afterwards.
    pub header: Arc<Header>,
    /// The head afterwards.
    pub head: Head,
    /// Present members afterwards.
    pub member_count: usize,
}

/// A committer lane's own way to write. It is used by one task that is never cancelled (B19).
#[async_trait]
pub trait Writer: Send {
    /// Stores each batch or nothing of it, in one transaction where possible; a bad one never fails its neighbours.
    /// The answers stand in the order of the commits. Stores with a commit: the messages, the changes, the members,
    /// the new counters (compare-and-set), each sender's read position, and which messages refer to which files. A file that
    /// has gone meanwhile is [`CommitError::Failed`].
    async fn commit(&mut self, commits: &[Commit]) -> Vec<CommitResult>;
}

/// A conversation as one principal sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What it is.
    pub header: Header,
    /// Where it stands.
    pub head: Head,
    /// Present members.
    pub member_count: u64,
    /// The viewer's; `None` = not a member (any more).
    pub membership: Option<Membership>,
    /// What the viewer has not read: sent by USER or AGENT, not gone, not cleared or deleted by the viewer (INV-UNREAD-1).
    pub unread_count: u64,
    /// Those of them whose present text mentions the viewer or all.
    pub mention_count: u64,
    /// The newest message that is not RECALLED or DELETED, with what is on it.
    pub last_message: Option<Marked>,
}

/// Where a page of the conversation list ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPosition {
    /// Pinned ones come first.
    pub pinned: bool,
    /// Then the latest activity.
    pub last_activity_at: Timestamp,
    /// Then the higher id.
    pub conversation_id: ConversationId,
}

/// Where a page of the member list ends: ordered by the time of joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPosition {
    /// The last one's.
    pub joined_seq: Seq,
    /// The last one.
    pub principal: Principal,
}

/// Conversations and members.
#[async_trait]
pub trait ConversationStore: Send + Sync {
    /// The state of a writer (without recent keys), of a DIRECT with who blocks whom; the head's seq is `MAX(seq)` of the messages.
    async fn load(&self, id: ConversationId) -> StoreResult<Option<Conversation>>;
    /// The conversation that has this creation key.
    async fn by_creation_key(&self, key: &CreationKey) -> StoreResult<Option<ConversationId>>;
    /// One conversation as `viewer` sees it.
    async fn seen(&self, id: ConversationId, viewer: Principal) -> StoreResult<Option<Seen>>;
    /// The viewer's conversations after a position, pinned first, then by latest activity; at most `limit`.
    async fn list(&self, viewer: Principal, after: Option<ListPosition>, limit: u32) -> StoreResult<Vec<Seen>>;
    /// Present members after a position, in order of joining; at most `limit`.
    async fn members(&self, id: ConversationId, after: Option<MemberPosition>, limit: u32) -> StoreResult<Vec<Member>>;
    /// How far those of `principals` have cleared the conversation who have; a former membership counts.
    async fn cleared(&self, id: ConversationId, principals: &[Principal]) -> StoreResult<HashMap<Principal, Seq>>;
    /// When `principal` last became a member here, whether they still are or not; `None` = never.
    async fn last_joined(&self, id: ConversationId, principal: Principal) -> StoreResult<Option<Timestamp>>;
    /// What reads check: the header and the viewer's membership; `None` = no such conversation.
    async fn access(&self, id: ConversationId, viewer: Principal) -> StoreResult<Option<(Header, Option<Membership>)>>;
    /// Has the other one of this DIRECT blocked `principal`, who is in it? `false` where it is no DIRECT.
    async fn is_blocked_in(&self, id: ConversationId, principal: Principal) -> StoreResult<bool>;
    /// All conversations in which `principal` is a present member.
    async fn ids_of(&self, principal: Principal) -> StoreResult<Vec<ConversationId>>;
}

/// Which part of the history a page shows. The bounds are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// Which conversation.
    pub conversation_id: ConversationId,
    /// Whose deletions are left out.
    pub viewer: Principal,
    /// Newer than this.
    pub after: Seq,
    /// Older than this; `None` = up to the head.
    pub before: Option<Seq>,
    /// Take the oldest of the range (else the newest). The page is ascending either way.
    pub oldest_first: bool,
    /// At most so many.
    pub limit: u32,
}

/// Messages and changes.
#[async_trait]
pub trait MessageStore: Send + Sync {
    /// A page of what `viewer` may see (not DELETED, not deleted for the viewer), ascending by seq.
    async fn page(&self, query: PageQuery) -> StoreResult<Vec<Marked>>;
    /// A message by id, as it is now, whoever may see it.
    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>>;
    /// What is on these messages, as `viewer` sees it; those on which nothing is are left out. One statement for a
    /// page of messages.
    async fn marks(&self, viewer: Principal, messages: &[MessageId]) -> StoreResult<HashMap<MessageId, Marks>>;
    /// The messages with what is on them. A message that was never changed has nothing on it and is not asked for.
    async fn marked(&self, viewer: Principal, messages: Vec<Message>) -> StoreResult<Vec<Marked>> {
        let changed = messages.iter().filter(|message| message.change_seq > ChangeSeq::ZERO);
        let changed: Vec<MessageId> = changed.map(|message| message.message_id).collect();
        let mut marks = match changed.as_slice() {
            [] => HashMap::new(),
            changed => self.marks(viewer, changed).await?,
        };
        let marked = |message: Message| Marked {
            marks: marks.remove(&message.message_id).unwrap_or_default(),
            message,
        };
        Ok(messages.into_iter().map(marked).collect())
    }
    /// The pinned messages that the viewer may see, the newest pin first.
    async fn pins(&self, query: PinQuery) -> StoreResult<Vec<(PinPosition, Marked)>>;
    /// Has `viewer` deleted this message for themselves?
    async fn hidden(&self, id: MessageId, viewer: Principal) -> StoreResult<bool>;
    /// Which of these keys were used in the conversation.
    async fn keys(
        &self,
        id: ConversationId,
        keys: &[(Principal, ClientMessageId)],
    ) -> StoreResult<Vec<((Principal, ClientMessageId), KeyRecord)>>;
    /// What a quote has to know of a message of this conversation.
    async fn quotable(
        &self,
        id: ConversationId,
        message: MessageId,
        viewer: Principal,
    ) -> StoreResult<Option<Quotable>>;
    /// What a decision about a message of this conversation has to know; `None` = no such message in it.
    async fn touchable(&self, id: ConversationId, message: MessageId) -> StoreResult<Option<Touchable>>;
    /// Raw messages with `after < seq`, ascending, at most `limit`: for recovery and `check`.
    async fn messages_after(&self, id: ConversationId, after: Seq, limit: u32) -> StoreResult<Vec<Message>>;
    /// Raw changes with `after < change_seq`, ascending, at most `limit`.
    async fn changes_after(&self, id: ConversationId, after: ChangeSeq, limit: u32) -> StoreResult<Vec<Change>>;
}

/// Users and agents.
#[async_trait]
pub trait PrincipalStore: Send + Sync {
    /// Makes those rows that are not there.
    async fn provision(&self, principals: &[Principal], now: Timestamp) -> StoreResult<()>;
    /// Those of `principals` that have a row.
    async fn known(&self, principals: &[Principal]) -> StoreResult<Vec<Principal>>;
    /// The principal that has this external id.
    async fn by_external_id(&self, kind: PrincipalType, external_id: &ExternalId) -> StoreResult<Option<Principal>>;
    /// Gives `principal` to an external id that has none yet; answers who has it afterwards (100 may ask at once).
    async fn adopt_external_id(
        &self,
        principal: Principal,
        external_id: &ExternalId,
        now: Timestamp,
    ) -> StoreResult<Principal>;
    /// What is known of a principal; `None` = it has no row.
    async fn profile(&self, principal: Principal) -> StoreResult<Option<Profile>>;
    /// Changes the row of a principal that has one; `false` = another one of its kind has the external id, and nothing
    /// has changed.
    async fn update_profile(&self, principal: Principal, patch: &ProfilePatch, now: Timestamp) -> StoreResult<bool>;
    /// Is there a conversation in which both are present members?
    async fn share_conversation(&self, one: Principal, other: Principal) -> StoreResult<bool>;
}

/// How far a device has acknowledged a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCursor {
    /// Which conversation.
    pub conversation_id: ConversationId,
    /// Messages up to here.
    pub seq: Seq,
    /// Changes up to here.
    pub change_seq: ChangeSeq,
}

/// A device that was here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The client's name for the machine.
    pub device_id: DeviceId,
    /// `web`, `ios`, …, as it said itself.
    pub platform: Option<String>,
    /// When it was last noticed.
    pub last_seen_at: Timestamp,
}

/// Devices and their cursors.
#[async_trait]
pub trait DeviceStore: Send + Sync {
    /// The device was here.
    async fn touch_device(
        &self,
        principal: Principal,
        device: &DeviceId,
        platform: Option<&str>,
        now: Timestamp,
    ) -> StoreResult<()>;
    /// Moves cursors, never back, never beyond the head; conversations in which the principal is no member are passed over.
    async fn acknowledge(
        &self,
        principal: Principal,
        device: &DeviceId,
        acks: &[DeviceCursor],
        now: Timestamp,
    ) -> StoreResult<()>;
    /// The devices with names behind `after`, ordered by name, so that none slips through a list that is read page by
    /// page while devices come and go; at most `limit`.
    async fn devices(&self, principal: Principal, after: Option<&DeviceId>, limit: u32) -> StoreResult<Vec<Device>>;
    /// Forgets the device and its cursors; `false` = it was not known.
    async fn forget_device(&self, principal: Principal, device: &DeviceId) -> StoreResult<bool>;
    /// Sets cursors back to (0, 0): they are of an earlier membership.
    async fn reset_cursors(
        &self,
        principal: Principal,
        device: &DeviceId,
        conversations: &[ConversationId],
        now: Timestamp,
    ) -> StoreResult<()>;
    /// The device's cursors.
    async fn cursors(&self, principal: Principal, device: &DeviceId) -> StoreResult<Vec<DeviceCursor>>;
}

/// A worker id on loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Below 1,024.
    pub worker: u16,
    /// No id of this time or earlier may be given: the newest that any node is known to have given.
    pub not_before: Timestamp,
}

/// The nodes' rows: worker ids are leased, so that two processes on one database never give the same id (B10).
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Takes a free worker id until `lease_until`; `node` is a UUID of this process.
    async fn claim_worker(&self, node: &str, now: Timestamp, lease_until: Timestamp) -> StoreResult<Lease>;
    /// Goes on holding it; `false` = it is not ours any more. Also keeps the last time issued.
    async fn renew_worker(
        &self,
        node: &str,
        worker: u16,
        lease_until: Timestamp,
        last_issued: Timestamp,
    ) -> StoreResult<bool>;
    /// Gives it back.
    async fn release_worker(&self, node: &str, worker: u16, last_issued: Timestamp) -> StoreResult<()>;
}

/// Small values of the store as a whole: `hs256_secret`, `store_epoch`.
#[async_trait]
pub trait SettingStore: Send + Sync {
    /// The value of `name`; `value` is kept if there is none. Answers what is kept afterwards.
    async fn setting_or(&self, name: &str, value: &str) -> StoreResult<String>;
    /// The value of `name`.
    async fn setting(&self, name: &str) -> StoreResult<Option<String>>;
    /// Gives `name` another value; nothing happens where it has none.
    async fn set_setting(&self, name: &str, value: &str) -> StoreResult<()>;
    /// Is the database reachable?
    async fn ping(&self) -> StoreResult<()>;
}

/// What `check` compares with the messages.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// What it is.
    pub header: Header,
    /// The stored counters (not `MAX(seq)`).
    pub head: Head,
    /// The stored number of members.
    pub member_count: u64,
    /// The rows of present members.
    pub member_rows: u64,
    /// The highest `last_read_seq` of a member.
    pub highest_read_seq: Seq,
    /// The highest `cleared_seq` of a member.
    pub highest_cleared_seq: Seq,
    /// Members whose counts at the two are not those of the messages there.
    pub miscounted: u64,
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Conversations, dissolved ones included.
    pub conversations: u64,
    /// Users and agents, disabled ones included.
    pub principals: u64,
}

/// Reads for `onescribe check` and for the operator.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Pins and mentions of a conversation that must not be there; of each at most `limit`.
    async fn strays(&self, id: ConversationId, limit: u32) -> StoreResult<Vec<Stray>>;
    /// Reactions of all conversations that must not be there, by the id of their message: the messages after `after`,
    /// at most `limit` of them. Each message and what stands on it are read at one moment.
    async fn stray_reactions(&self, after: Option<MessageId>, limit: u32) -> StoreResult<StrayReactions>;
    /// Conversations with an id above `after`, ascending, at most `limit`.
    async fn conversation_ids(&self, after: Option<ConversationId>, limit: u32) -> StoreResult<Vec<ConversationId>>;
    /// How much there is. Counts rows, so it is for the operator and not for every request.
    async fn totals(&self) -> StoreResult<Totals>;
    /// The stored counters of one, read at one moment.
    async fn ledger(&self, id: ConversationId) -> StoreResult<Option<Ledger>>;
    /// Events after a place, ascending, at most `limit`.
    async fn audited_events(&self, after: EventNo, limit: u32) -> StoreResult<Vec<AuditedEvent>>;
    /// How far events are placed, of conversations with an id above `after`, ascending, at most `limit`.
    async fn audited_cursors(&self, after: Option<ConversationId>, limit: u32) -> StoreResult<Vec<AuditedCursor>>;
}

/// What the connected database promises, as it answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// Product, version and the settings that matter.
    pub summary: String,
    /// What is weaker than "acknowledged means durable", and what that means; empty = nothing.
    pub weaker: Vec<String>,
}

impl Durability {
    /// From what was asked.
    #[must_use]
    pub fn new(summary: &str, weaker: &[&str]) -> Self {
        Self {
            summary: summary.to_owned(),
            weaker: weaker.iter().map(|text| (*text).to_owned()).collect(),
        }
    }
}

/// Everything that a server asks of its store.
#[async_trait]
pub trait Store:
    ConversationStore
    + MessageStore
    + PersonalStore
    + SyncStore
    + PrincipalStore
    + DeviceStore
    + NodeStore
    + SettingStore
    + AuditStore
    + EventStore
    + WebhookStore
    + JobStore
    + NotificationStore
    + TieStore
    + FileStore
{
    /// A writer of its own for a committer lane. Connects when it is first used, and again after a loss.
    fn writer(&self) -> Box<dyn Writer>;
    /// Gives events their places. Connects when it is first used, and again after a loss.
    fn placer(&self) -> Box<dyn Placer>;
    /// How many lanes are useful: 1 for SQLite, 2 for the others.
    fn lanes(&self) -> usize;
    /// How durable an acknowledged message really is, for the start-up log.
    async fn durability(&self) -> StoreResult<Durability> {
        Ok(Durability::new("memory", &["nothing survives the end of this process"]))
    }
    /// Ends the connections for reads, after the statements under way; nothing may be asked afterwards.
    async fn close(&self) {}
}
