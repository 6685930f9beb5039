//! What a device that was away has to be told: reads in a few statements for a whole page of conversations.

use async_trait::async_trait;

use super::{Seen, StoreResult};
use crate::domain::{Change, ChangeSeq, ConversationId, Message, MessageId, Principal, Seq, Timestamp};

/// Where one of a viewer's conversations stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub conversation_id: ConversationId,
    /// The newest message's.
    pub last_seq: Seq,
    /// The newest change's.
    pub last_change_seq: ChangeSeq,
    /// When the newest message came.
    pub last_activity_at: Timestamp,
}

/// Messages of one conversation, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which.
    pub conversation_id: ConversationId,
    /// Newer than this.
    pub after: Seq,
    /// Not newer than this.
    pub up_to: Seq,
    /// At most so many.
    pub limit: u32,
}

/// A message in a [`Window`], not yet read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Where.
    pub conversation_id: ConversationId,
    /// Its place.
    pub seq: Seq,
    /// Which.
    pub message_id: MessageId,
    /// How large its content is.
    pub content_bytes: usize,
}

/// A part of one conversation's change log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Which.
    pub conversation_id: ConversationId,
    /// Newer than this.
    pub after: ChangeSeq,
    /// Not newer than this.
    pub up_to: ChangeSeq,
}

/// A change, and what of its message decides whether and how it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The entry of the log.
    pub change: Change,
    /// The message that it is about, if it is about one.
    pub about: Option<About>,
}

/// The message that a change is about, not yet read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its place.
    pub seq: Seq,
    /// How large its content is now.
    pub content_bytes: usize,
    /// The viewer has deleted it for themselves.
    pub deleted_by_viewer: bool,
}

/// What somebody has not read in one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Which.
    pub conversation_id: ConversationId,
    /// As in [`Seen`], above 0.
    pub unread_count: u64,
    /// As in [`Seen`].
    pub mention_count: u64,
    /// Not in the total.
    pub muted: bool,
}

/// Reads across the conversations of one viewer. The statements of each depend on what is asked for, never on the number
/// of members or the length of the history; the rows on what they return (`standings`, `unread`: on the viewer's
/// conversations).
#[async_trait]
pub trait SyncStore: Send + Sync {
    /// All conversations (the INBOX too) in which `viewer` is a present member.
    async fn standings(&self, viewer: Principal) -> StoreResult<Vec<Standing>>;
    /// Those of `ids` that exist, as `viewer` sees them, in any order. Head and membership of each are of one moment.
    async fn seen_of(&self, ids: &[ConversationId], viewer: Principal) -> StoreResult<Vec<Seen>>;
    /// What `viewer` may see of each window (not DELETED, not deleted for the viewer), its newest first.
    async fn outlines(&self, windows: &[Window], viewer: Principal) -> StoreResult<Vec<Outline>>;
    /// The changes of each stretch, ascending.
    async fn log(&self, stretches: &[Stretch], viewer: Principal) -> StoreResult<Vec<Logged>>;
    /// Those of `ids` that exist, as they are now, in any order, whoever may see them.
    async fn messages_of(&self, ids: &[MessageId]) -> StoreResult<Vec<Message>>;
    /// The conversations in which `viewer` has something unread (not the INBOX), the latest activity first.
    async fn unread(&self, viewer: Principal) -> StoreResult<Vec<Unread>>;
}
