//! What became true. A commit stores a list of these, memory applies them, delivery spreads them: one list for all three.

use std::sync::Arc;

use super::annotated::Annotated;
use super::change::Change;
use super::conversation::{CreationKey, Header};
use super::ids::{ConversationId, CountNo, DeviceId, Emoji, FileId, MessageId, Principal, Seq, Timestamp};
use super::member::{Member, Role};
use super::mention::Mentions;
use super::message::Message;
use super::notification::Notification;
use super::personal::{Action, SettingsPatch};

/// One fact of a conversation, in the order in which it became true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The conversation exists.
    Created {
        /// What it is.
        header: Arc<Header>,
        /// Who is in it.
        members: Vec<Member>,
        /// By which it is found again.
        creation_key: Option<CreationKey>,
    },
    /// A message has its number.
    MessageSent {
        /// The message.
        message: Arc<Message>,
        /// The sender's device that is spared the push.
        device: Option<DeviceId>,
    },
    /// Principals are members from here on.
    MembersAdded {
        /// Who.
        members: Vec<Member>,
    },
    /// A principal is no member from here on: nothing that follows is for them.
    MemberRemoved {
        /// Who.
        principal: Principal,
        /// Whether they went by themselves.
        left: bool,
    },
    /// A member has another role.
    RoleChanged {
        /// Who.
        principal: Principal,
        /// The new one.
        role: Role,
    },
    /// Owner, status, title … are as said here.
    HeaderChanged {
        /// The whole of it.
        header: Arc<Header>,
    },
    /// A message that was there is now as said here: edited, recalled or deleted for all. What is gone has nothing on it
    /// any more: its reactions and its pin go with the words.
    MessageChanged {
        /// The whole of it.
        message: Arc<Message>,
        /// The newest message that still stands; recalling the newest moves it back (B59).
        last_message_seq: Seq,
    },
    /// In an INBOX: its user has read another conversation up to here. Never back (INV-READ-1).
    ReadMoved {
        /// Which one.
        conversation_id: ConversationId,
        /// Whose position.
        principal: Principal,
        /// Up to here.
        seq: Seq,
        /// `count_no` there.
        count_no: CountNo,
        /// The other one of a DIRECT, who is told too.
        peer: Option<Principal>,
    },
    /// In an INBOX: its user has other settings for another conversation.
    SettingsChanged {
        /// Which one.
        conversation_id: ConversationId,
        /// Whose.
        principal: Principal,
        /// What changes.
        patch: SettingsPatch,
    },
    /// In an INBOX: an action of its user.
    ActionChanged {
        /// Whose.
        principal: Principal,
        /// The whole of it.
        action: Action,
    },
    /// Whom the present text of a message mentions is another than before. It stands after the message.
    Mentioned {
        /// Which message.
        seq: Seq,
        /// Whom the text mentioned before; members or not.
        before: Mentions,
        /// Whom it mentions now: members other than its sender, or everybody.
        now: Mentions,
    },
    /// The files to which the present content of a message refers are others than before. It stands after the message.
    Referenced {
        /// Which message.
        message_id: MessageId,
        /// Its place.
        seq: Seq,
        /// Files that it did not refer to before, in order, each once.
        added: Vec<FileId>,
        /// Files that it refers to no longer, in order, each once.
        removed: Vec<FileId>,
        /// When.
        at: Timestamp,
    },
    /// A principal has given a reaction, or has taken it back.
    Reacted {
        /// The message with its new change_seq; nothing else of it is another.
        message: Arc<Message>,
        /// Which.
        emoji: Emoji,
        /// Who.
        principal: Principal,
        /// When.
        at: Timestamp,
        /// Given, or taken back.
        added: bool,
    },
    /// A message was pinned, or is pinned no longer.
    Pinned {
        /// The message with its new change_seq; nothing else of it is another.
        message: Arc<Message>,
        /// By whom.
        principal: Principal,
        /// When.
        at: Timestamp,
        /// Pinned from here on.
        pinned: bool,
    },
    /// In an INBOX: somebody is told something; the message that tells it stands before.
    Notified {
        /// The whole of it.
        notification: Arc<Notification>,
    },
    /// In an INBOX: a notification is now as said here.
    NotificationChanged {
        /// The whole of it.
        notification: Arc<Notification>,
    },
    /// In an INBOX: two are contacts from here on.
    ContactMade {
        /// One of them.
        one: Principal,
        /// The other.
        other: Principal,
        /// The friend request that was accepted.
        request: MessageId,
        /// Since when.
        at: Timestamp,
    },
    /// In an INBOX: two are contacts no longer.
    ContactEnded {
        /// One of them.
        one: Principal,
        /// The other.
        other: Principal,
    },
    /// In an INBOX: its user blocks somebody, or does so no longer.
    BlockChanged {
        /// Who blocks.
        owner: Principal,
        /// Whom.
        other: Principal,
        /// When.
        at: Timestamp,
        /// From here on.
        blocked: bool,
    },
    /// In a DIRECT: these of the two have blocked the other. Its writers know of it from here on, all of them: the number
    /// of the change that follows fences those that do not.
    BlocksHeeded {
        /// The two.
        pair: (Principal, Principal),
        /// In order.
        blockers: Vec<Principal>,
    },
    /// An entry of the change log; it stands after the fact that it reports.
    Changed {
        /// The entry.
        change: Arc<Change>,
        /// The message that it is about, as it is after the change.
        message: Option<Arc<Annotated>>,
        /// Members who may not see that message: to them the change is HIDDEN.
        hidden_from: Vec<Principal>,
        /// The actor's device that is spared the push.
        device: Option<DeviceId>,
    },
}

impl Event {
    /// The acting device is told like every other: it gets no reply that would say the same.
    pub fn spare_nobody(&mut self) {
        if let Self::MessageSent { device, .. } | Self::Changed { device, .. } = self {
            *device = None;
        }
    }
}
