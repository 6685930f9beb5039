//! What belongs to one user alone: positions, settings and actions. Its single writer is the user's INBOX.

use super::content::Content;
use super::error::InvalidField;
use super::ids::{ConversationId, CountNo, MessageId, Principal, Seq, Timestamp};
use super::member::Membership;
use super::notification::NotificationAnswer;

/// The most bytes of an action's `payload`, in compact form.
pub const PAYLOAD_BYTES_MAX: usize = 4_096;
/// The most members of a conversation whose receipts are told.
pub const RECEIPTS_MEMBERS_MAX: usize = 500;

/// What a user may do with a message for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionType {
    /// Not shown to me any more.
    Delete,
    /// Kept in a list of mine.
    Favorite,
    /// Shown to me again at a time.
    Reminder,
}

impl ActionType {
    const ALL: [Self; 3] = [Self::Delete, Self::Favorite, Self::Reminder];

    /// The small number that stands for it at rest.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::Delete => 1,
            Self::Favorite => 2,
            Self::Reminder => 3,
        }
    }

    /// The inverse of [`ActionType::code`].
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The word of the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Favorite => "FAVORITE",
            Self::Reminder => "REMINDER",
        }
    }

    /// The inverse of [`ActionType::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A REMINDER needs a time.
///
/// # Errors
/// [`InvalidField`] when it has none.
pub fn check_action(action_type: ActionType, remind_at: Option<Timestamp>) -> Result<(), InvalidField> {
    if action_type == ActionType::Reminder && remind_at.is_none() {
        return Err(InvalidField::new("remind_at", "a REMINDER needs a time (RFC 3339)"));
    }
    Ok(())
}

/// One action of one user on one message; kept as inactive when it is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// What.
    pub action_type: ActionType,
    /// On which message.
    pub message_id: MessageId,
    /// Where that is.
    pub conversation_id: ConversationId,
    /// Its place there.
    pub seq: Seq,
    /// ACTIVE or INACTIVE.
    pub active: bool,
    /// When a REMINDER is due; also afterwards.
    pub remind_at: Option<Timestamp>,
    /// Whatever the client keeps with it: a JSON object.
    pub payload: Option<Content>,
    /// When it was last set or taken back.
    pub updated_at: Timestamp,
}

impl Action {
    /// The word of the wire.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        if self.active { "ACTIVE" } else { "INACTIVE" }
    }
}

/// What a user asks for themselves; asked of their INBOX.
#[derive(Clone, Debug)]
pub enum Personal {
    /// Read up to here.
    Read {
        /// Which conversation.
        conversation_id: ConversationId,
        /// Cut to the head.
        seq: Seq,
    },
    /// `None` = stays.
    Settings {
        /// Which conversation.
        conversation_id: ConversationId,
        /// No `push.required`.
        muted: Option<bool>,
        /// First in the list.
        pinned: Option<bool>,
        /// Marked by hand.
        marked_unread: Option<bool>,
    },
    /// Hide everything up to here from me alone.
    Clear {
        /// Which conversation.
        conversation_id: ConversationId,
        /// Cut to the head; never back.
        up_to_seq: Seq,
    },
    /// Set an action on a message.
    Set {
        /// Which message.
        message_id: MessageId,
        /// What.
        action_type: ActionType,
        /// Of a REMINDER.
        remind_at: Option<Timestamp>,
        /// Kept with it.
        payload: Option<Content>,
    },
    /// Take an action back.
    Unset {
        /// Which message.
        message_id: MessageId,
        /// What.
        action_type: ActionType,
    },
    /// Answer a notification, or note that it was read.
    Answer {
        /// Which one: it has the id of the message that tells it.
        notification_id: MessageId,
        /// What to it.
        answer: NotificationAnswer,
    },
    /// Block somebody, or do so no longer. It ends their pending friend request (DECLINED), and that they are a contact.
    Block {
        /// Whom.
        principal: Principal,
        /// From here on.
        blocked: bool,
    },
    /// End that somebody is a contact, on both sides.
    EndContact {
        /// Who.
        principal: Principal,
    },
}

/// A member's settings of one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// No `push.required`, not in the total.
    pub muted: bool,
    /// First in the list.
    pub pinned: bool,
    /// Marked as unread by hand.
    pub marked_unread: bool,
    /// Everything up to here is hidden.
    pub cleared_seq: Seq,
}

impl From<&Membership> for Settings {
    fn from(membership: &Membership) -> Self {
        Self {
            muted: membership.muted,
            pinned: membership.pinned,
            marked_unread: membership.marked_unread,
            cleared_seq: membership.cleared_seq,
        }
    }
}

/// The fields of [`Settings`] that change. Only these are written: a send moves others of the same row at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettingsPatch {
    /// The new value.
    pub muted: Option<bool>,
    /// The new value.
    pub pinned: Option<bool>,
    /// The new value.
    pub marked_unread: Option<bool>,
    /// The new `cleared_seq`, and `count_no` there.
    pub cleared: Option<(Seq, CountNo)>,
}

impl SettingsPatch {
    /// Nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The settings afterwards.
    #[must_use]
    pub fn on(&self, before: Settings) -> Settings {
        Settings {
            muted: self.muted.unwrap_or(before.muted),
            pinned: self.pinned.unwrap_or(before.pinned),
            marked_unread: self.marked_unread.unwrap_or(before.marked_unread),
            cleared_seq: self.cleared.map_or(before.cleared_seq, |(seq, _)| seq),
        }
    }
}

/// What an INBOX has to know of one of its user's conversations before it moves something there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The user's membership.
    pub membership: Membership,
    /// The other one of a DIRECT.
    pub peer: Option<Principal>,
    /// The asked seq, not beyond the head.
    pub at: Seq,
    /// `count_no` at that seq.
    pub at_count_no: CountNo,
    /// What is unread if everything up to the highest of that seq, `last_read_seq` and `cleared_seq` is read or cleared.
    pub unread_count: u64,
}

/// What an INBOX has to know of a message before its user marks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actionable {
    /// Where it is.
    pub conversation_id: ConversationId,
    /// Its place there.
    pub seq: Seq,
    /// By USER or AGENT, neither RECALLED nor DELETED: it counts as unread for who has not read it.
    pub counts: bool,
    /// The user is a member, has neither cleared it nor joined too late to see it, and it is not DELETED.
    pub visible: bool,
    /// The user's actions on it.
    pub actions: Vec<Action>,
}

impl Actionable {
    /// The user's action of this type, if there ever was one.
    #[must_use]
    pub fn action(&self, action_type: ActionType) -> Option<&Action> {
        self.actions.iter().find(|action| action.action_type == action_type)
    }
}

/// How far one member has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Who.
    pub principal: Principal,
    /// Read up to here.
    pub last_read_seq: Seq,
    /// The furthest that one of their devices has acknowledged.
    pub delivered_seq: Seq,
}
