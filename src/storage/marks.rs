//! What is asked and told of what stands on messages: reactions, pins, mentions, files.

use crate::domain::{ConversationId, MessageId, Principal, Seq, Timestamp};

/// Where a page of pinned messages ends: the newest pin first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinPosition {
    /// The last one's.
    pub pinned_at: Timestamp,
    /// Then the higher id.
    pub message_id: MessageId,
}

/// Which pinned messages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinQuery {
    /// Which conversation.
    pub conversation_id: ConversationId,
    /// Whose deletions are left out.
    pub viewer: Principal,
    /// The first seq that the viewer may see.
    pub first: Seq,
    /// Behind this one.
    pub after: Option<PinPosition>,
    /// At most so many.
    pub limit: u32,
}

/// What stands on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    /// Reactions.
    Reaction,
    /// The pin.
    Pin,
    /// Whom it mentions.
    Mention,
    /// A file to which it refers.
    File,
}

/// Rows that stand on a message that is not there, is another conversation's, is gone, (reactions and pins, which are not
/// read then) was never changed, or (files) does not refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray {
    /// What kind of rows.
    pub kind: MarkKind,
    /// The conversation that the rows name.
    pub conversation_id: ConversationId,
    /// The message that the rows name, where they name one.
    pub message_id: Option<MessageId>,
    /// Its seq, where it is known.
    pub seq: Option<Seq>,
}

/// A page of messages on which reactions stand.
#[derive(Clone, Debug, Default)]
pub struct StrayReactions {
    /// Read up to this message; `None` = there are no more.
    pub last: Option<MessageId>,
    /// How many messages were looked at.
    pub messages: u64,
    /// What must not be there.
    pub strays: Vec<Stray>,
}
