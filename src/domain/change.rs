//! The numbered log of everything that alters what is already there.

use super::content::Content;
use super::ids::{ChangeSeq, ConversationId, MessageId, Principal, Timestamp};

/// What kind of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeType {
    /// A message has other words.
    Edited,
    /// A message was taken back.
    Recalled,
    /// A message was removed for everyone.
    Deleted,
    /// A reaction was given or taken back; payload `{emoji, principal, added}`.
    Reaction,
    /// A message was pinned, or is pinned no longer; payload `{pinned}`.
    Pinned,
    /// Principals became members; payload `{members, reason}`.
    MemberAdded,
    /// Principals are members no longer; payload `{members, reason}`.
    MemberRemoved,
    /// A role changed; payload `{principal, role}`.
    MemberUpdated,
    /// Fields of the conversation changed; payload: those fields.
    ConversationUpdated,
    /// In an INBOX: its user has read; payload `{conversation_id, last_read_seq, unread_count}`.
    Read,
    /// In an INBOX: its user has other settings; payload: those of the conversation.
    SettingsUpdated,
    /// In an INBOX: its user has set an action; payload: the action.
    ActionSet,
    /// In an INBOX: its user has taken an action back; payload: the action.
    ActionCleared,
    /// In an INBOX: a notification is another than before; payload: the notification, which the message shows too.
    NotificationUpdated,
    /// Something that nobody is told but by its number: who blocks whom, who is a contact no longer.
    Hidden,
}

impl ChangeType {
    const ALL: [Self; 15] = [
        Self::Edited,
        Self::Recalled,
        Self::Deleted,
        Self::Reaction,
        Self::Pinned,
        Self::MemberAdded,
        Self::MemberRemoved,
        Self::MemberUpdated,
        Self::ConversationUpdated,
        Self::Read,
        Self::SettingsUpdated,
        Self::ActionSet,
        Self::ActionCleared,
        Self::NotificationUpdated,
        Self::Hidden,
    ];

    /// The word of the wire and of the store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "EDITED",
            Self::Recalled => "RECALLED",
            Self::Deleted => "DELETED",
            Self::Reaction => "REACTION",
            Self::Pinned => "PINNED",
            Self::MemberAdded => "MEMBER_ADDED",
            Self::MemberRemoved => "MEMBER_REMOVED",
            Self::MemberUpdated => "MEMBER_UPDATED",
            Self::ConversationUpdated => "CONVERSATION_UPDATED",
            Self::Read => "READ",
            Self::SettingsUpdated => "SETTINGS_UPDATED",
            Self::ActionSet => "ACTION_SET",
            Self::ActionCleared => "ACTION_CLEARED",
            Self::NotificationUpdated => "NOTIFICATION_UPDATED",
            Self::Hidden => "HIDDEN",
        }
    }

    /// The inverse of [`ChangeType::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One entry of a conversation's change log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub conversation_id: ConversationId,
    /// 1, 2, 3 … in that conversation (INV-CHG-1).
    pub change_seq: ChangeSeq,
    /// What kind.
    pub change_type: ChangeType,
    /// The message that it is about, if it is about one.
    pub message_id: Option<MessageId>,
    /// Compact JSON, as the type says; none where the message tells all.
    pub payload: Option<Content>,
    /// Who did it.
    pub actor: Principal,
    /// When.
    pub changed_at: Timestamp,
}
