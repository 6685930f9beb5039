//! What is asked of a conversation's writer. Syntax has been checked at the door; rights and state have not.

use super::chain::Digest;
use super::content::{Content, MessageType};
use super::conversation::{Adding, CreationKey, HistoryVisibility, Kind, Posting};
use super::ids::{
    ClientMessageId, ClientRequestId, ConversationId, DeviceId, Emoji, MessageId, Principal, Seq, Timestamp,
};
use super::member::Role;
use super::notification::{NotificationKey, NotificationKind};
use super::personal::Personal;
use super::subject::Subject;

/// Who acts, and on which device (that device learns the result from its reply and is spared the push).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The token's principal.
    pub principal: Principal,
    /// None for REST without `X-Device-Id`: then nobody is spared.
    pub device: Option<DeviceId>,
}

/// One thing to decide.
#[derive(Clone, Debug)]
pub enum Command {
    /// Makes the conversation; its id must be new.
    Create(Create),
    /// Says something.
    Send(Send),
    /// Says something in the name of another, by the admin key: SYSTEM anywhere but in an INBOX, others where they are
    /// members. `posting` does not bind it.
    SendFor(Send),
    /// Makes principals members.
    AddMembers {
        /// Who adds.
        origin: Origin,
        /// Who is added; those who are members already are passed over.
        members: Vec<Principal>,
    },
    /// Does something to a message of this conversation.
    Touch {
        /// Who; SYSTEM is the admin key.
        origin: Origin,
        /// Which.
        message_id: MessageId,
        /// What.
        touch: Touch,
    },
    /// Changes the header: OWNER or ADMIN.
    Update {
        /// Who.
        origin: Origin,
        /// What.
        patch: HeaderPatch,
    },
    /// Gives a member another role: OWNER only. The role OWNER hands the group over, and its former owner becomes ADMIN.
    SetRole {
        /// Who.
        origin: Origin,
        /// Whose role.
        target: Principal,
        /// Which.
        role: Role,
    },
    /// Ends the group: OWNER only. Its members may still read.
    Dissolve {
        /// Who.
        origin: Origin,
    },
    /// Of an INBOX: what its user does for themselves.
    Personal {
        /// The user.
        origin: Origin,
        /// What.
        act: Personal,
    },
    /// Of an INBOX, which the first one makes: tells its user something. While the same (by its key) is pending and seen,
    /// or was declined just now, it is that one.
    Notify(Notify),
    /// Of an INBOX: the server itself brings a notification to its end.
    Conclude(Conclusion),
    /// Of a GROUP: whom of these could the actor invite? Nothing changes.
    Invite {
        /// Who would invite.
        origin: Origin,
        /// Whom; members are passed over.
        members: Vec<Principal>,
    },
    /// Of a GROUP: an invitation was accepted. It holds as long as whoever gave it may add members.
    Join {
        /// Who joins.
        member: Principal,
        /// Who invited them.
        by: Principal,
        /// When. Who has joined since then was let in by it already, and has left: they are not brought back.
        accepted_at: Timestamp,
    },
    /// Of a DIRECT: who of the two has blocked the other is asked anew.
    HeedBlocks,
    /// Ends a membership: `target` = the actor is leaving.
    RemoveMember {
        /// Who removes.
        origin: Origin,
        /// Who goes.
        target: Principal,
    },
}

/// What a message can undergo.
#[derive(Clone, Debug)]
pub enum Touch {
    /// Other words, in compact form; only by its sender. The rules of its type are checked by the writer, who knows it.
    Edit(Content),
    /// Taken back: by its sender inside the window, by OWNER/ADMIN of a group at any time.
    Recall {
        /// When the server received the request: the window is judged by this (B64).
        received_at: Timestamp,
        /// How long a sender may.
        window_ms: i64,
    },
    /// Removed for everyone: by OWNER/ADMIN of a group, or by the admin key.
    Delete,
    /// A reaction of the actor.
    React {
        /// Which.
        emoji: Emoji,
        /// Given, or taken back.
        added: bool,
    },
    /// Pinned (`true`) or not: by OWNER/ADMIN of a group, by both in a DIRECT.
    Pin(bool),
}

/// Something to be told in an INBOX.
#[derive(Clone, Debug)]
pub struct Notify {
    /// Who is told.
    pub to: Principal,
    /// What kind.
    pub kind: NotificationKind,
    /// By whom.
    pub from: Principal,
    /// One that is pending with this key is not doubled.
    pub key: NotificationKey,
    /// So long after a no, the no is the answer to whoever asks the same again.
    pub ask_again_ms: i64,
    /// For people.
    pub text: Option<String>,
    /// The group of an invitation.
    pub conversation_id: Option<ConversationId>,
    /// For programs: a JSON object in compact form.
    pub payload: Option<Content>,
    /// Until when it can be answered; `None` = for ever.
    pub expires_at: Option<Timestamp>,
}

/// How a notification ends without its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// Its time has passed.
    Expire(MessageId),
    /// It cannot be carried out (any more): the group is closed, whoever invited may not do so now.
    Lapse(MessageId),
    /// The friend request of this principal has become true: the user had asked them, too, and they have accepted.
    Mirrored {
        /// Who asked.
        from: Principal,
    },
    /// What this principal has asked and invited to is taken back, so much of it as one commit ends, and they are contacts no
    /// longer: they have blocked the user.
    Withdrawn {
        /// Who asked.
        from: Principal,
    },
}

/// Fields of a group's header that change; `None` = stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderPatch {
    /// `Some(None)` unsets.
    pub title: Option<Option<String>>,
    /// `Some(None)` unsets.
    pub avatar_url: Option<Option<String>>,
    /// What members see of the time before they joined.
    pub history_visibility: Option<HistoryVisibility>,
    /// Who may send.
    pub posting: Option<Posting>,
    /// Who may add members.
    pub adding: Option<Adding>,
}

impl Command {
    /// Nobody need be about to ask for more: an INBOX gets an announcement whether its user is here or not.
    #[must_use]
    pub fn is_in_passing(&self) -> bool {
        match self {
            Self::Create(create) => create.kind == Kind::Inbox,
            Self::Notify(notify) => notify.kind == NotificationKind::Announcement,
            _ => false,
        }
    }
}

impl Create {
    /// Of the INBOX of a principal.
    #[must_use]
    pub fn inbox(owner: Principal) -> Self {
        Self {
            origin: Origin {
                principal: owner,
                device: None,
            },
            kind: Kind::Inbox,
            title: None,
            members: Vec::new(),
            creation_key: Some(CreationKey::inbox(owner)),
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        }
    }
}

/// A new conversation.
#[derive(Clone, Debug)]
pub struct Create {
    /// Who creates it: the OWNER of a GROUP, one of the two of a DIRECT.
    pub origin: Origin,
    /// DIRECT or GROUP.
    pub kind: Kind,
    /// The title of a GROUP.
    pub title: Option<String>,
    /// The others.
    pub members: Vec<Principal>,
    /// The same key names the same conversation: see [`CreationKey`].
    pub creation_key: Option<CreationKey>,
    /// What members see of the time before they joined.
    pub history_visibility: HistoryVisibility,
    /// Who may send.
    pub posting: Posting,
    /// Who may add members.
    pub adding: Adding,
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Send {
    /// The sender, and the device that is spared the push.
    pub origin: Origin,
    /// The sender's key.
    pub client_message_id: ClientMessageId,
    /// What kind.
    pub message_type: MessageType,
    /// What it says, in compact form.
    pub content: Content,
    /// Its fingerprint, computed once at the door.
    pub content_hash: Digest,
    /// What it answers.
    pub quoted_message_id: Option<MessageId>,
    /// Refuse unless the head is here.
    pub expected_last_seq: Option<Seq>,
}

/// What a client asks for when it makes a conversation: members may still be named by the ids of the host.
#[derive(Clone, Debug)]
pub enum NewConversation {
    /// The one of two principals, or of one with itself.
    Direct {
        /// The other.
        member: Subject,
    },
    /// A group of its own.
    Group {
        /// Its name.
        title: String,
        /// The others.
        members: Vec<Subject>,
        /// The same key of the same creator is the same group.
        client_request_id: Option<ClientRequestId>,
        /// What members see of the time before they joined.
        history_visibility: HistoryVisibility,
        /// Who may send.
        posting: Posting,
        /// Who may add members.
        adding: Adding,
    },
}
