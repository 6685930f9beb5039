//! One thing said, and where it stands in its life.

use super::chain::Digest;
use super::content::{Content, MessageType};
use super::ids::{ChangeSeq, ClientMessageId, ConversationId, CountNo, MessageId, Principal, Seq, Timestamp};

/// `NORMAL → EDITED → RECALLED`, or `DELETED`; RECALLED and DELETED are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageStatus {
    /// As it was sent.
    Normal,
    /// With other words than at first.
    Edited,
    /// Taken back by its sender or an admin; the words are gone.
    Recalled,
    /// Removed for everyone.
    Deleted,
    /// A streamed reply that is still growing.
    Streaming,
}

impl MessageStatus {
    const ALL: [Self; 5] = [
        Self::Normal,
        Self::Edited,
        Self::Recalled,
        Self::Deleted,
        Self::Streaming,
    ];

    /// The small number that stands for it at rest.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::Normal => 1,
            Self::Edited => 2,
            Self::Recalled => 3,
            Self::Deleted => 4,
            Self::Streaming => 5,
        }
    }

    /// The inverse of [`MessageStatus::code`].
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The words are gone for good.
    #[must_use]
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Recalled | Self::Deleted)
    }

    /// The word of the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Edited => "EDITED",
            Self::Recalled => "RECALLED",
            Self::Deleted => "DELETED",
            Self::Streaming => "STREAMING",
        }
    }
}

/// A message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name everywhere and for ever.
    pub message_id: MessageId,
    /// Where it was said.
    pub conversation_id: ConversationId,
    /// Its place there.
    pub seq: Seq,
    /// Who said it.
    pub sender: Principal,
    /// The sender's own key; none for what the server makes itself.
    pub client_message_id: Option<ClientMessageId>,
    /// What kind of message it is.
    pub message_type: MessageType,
    /// What it says at present.
    pub content: Content,
    /// The message that it answers.
    pub quoted_message_id: Option<MessageId>,
    /// Where it stands in its life.
    pub status: MessageStatus,
    /// When the server accepted it.
    pub sent_at: Timestamp,
    /// When its words last changed.
    pub edited_at: Option<Timestamp>,
    /// The number of its latest change; 0 if none.
    pub change_seq: ChangeSeq,
    /// How many messages by USER or AGENT there are up to here.
    pub count_no: CountNo,
    /// Fingerprint of the content as first stored.
    pub content_hash: Digest,
    /// Fingerprint of everything up to here.
    pub chain_hash: Digest,
}

impl Message {
    /// What a repeat of its key has to agree with (INV-IDEM-1).
    #[must_use]
    pub fn record(&self) -> KeyRecord {
        KeyRecord {
            message_id: self.message_id,
            seq: self.seq,
            sent_at: self.sent_at,
            content_hash: self.content_hash,
            message_type: self.message_type.clone(),
            quoted_message_id: self.quoted_message_id,
        }
    }
}

/// What is remembered of a used `client_message_id`: enough to answer a repeat and to see a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The first id.
    pub message_id: MessageId,
    /// The first seq.
    pub seq: Seq,
    /// The first time.
    pub sent_at: Timestamp,
    /// Of the content as first stored.
    pub content_hash: Digest,
    /// The first type.
    pub message_type: MessageType,
    /// The first quote.
    pub quoted_message_id: Option<MessageId>,
}
