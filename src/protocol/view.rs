//! The objects of the contract's section 1, as JSON. Ids are strings, numbers are numbers, content is passed through.

use serde::Serialize;
use serde_json::value::RawValue;

use super::convert;
use crate::domain;

/// `{"type","id"}`
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Principal {
    /// USER, AGENT or SYSTEM.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// A decimal string.
    #[serde(serialize_with = "convert::decimal")]
    pub id: i64,
}

/// A message.
#[derive(Debug, Serialize)]
pub struct Message<'a> {
    #[serde(serialize_with = "convert::decimal")]
    message_id: i64,
    #[serde(serialize_with = "convert::decimal")]
    conversation_id: i64,
    seq: i64,
    sender: Principal,
    client_message_id: Option<&'a str>,
    message_type: &'a str,
    content: &'a RawValue,
    #[serde(serialize_with = "convert::optional_decimal")]
    quoted_message_id: Option<i64>,
    status: &'static str,
    #[serde(serialize_with = "convert::time")]
    sent_at: domain::Timestamp,
    #[serde(serialize_with = "convert::optional_time")]
    edited_at: Option<domain::Timestamp>,
    change_seq: i64,
    count_no: i64,
    #[serde(serialize_with = "convert::hex")]
    content_hash: domain::Digest,
    #[serde(serialize_with = "convert::hex")]
    chain_hash: domain::Digest,
    reactions: Vec<Reaction<'a>>,
    pinned: bool,
}

/// How often an emoji was given.
#[derive(Debug, Serialize)]
struct Reaction<'a> {
    emoji: &'a str,
    count: u64,
    me: bool,
}

impl<'a> Message<'a> {
    /// With what is on it, as the viewer sees it.
    #[must_use]
    pub fn new(message: &'a domain::Message, marks: &'a domain::Marks) -> Self {
        let reaction = |tally: &'a domain::Tally| Reaction {
            emoji: tally.emoji.as_str(),
            count: tally.count,
            me: tally.me,
        };
        Self {
            reactions: marks.reactions.iter().map(reaction).collect(),
            pinned: marks.pinned,
            ..Self::unmarked(message)
        }
    }

    /// A message that is new, so that nobody can have put anything on it yet.
    #[must_use]
    pub fn unmarked(message: &'a domain::Message) -> Self {
        Self {
            message_id: message.message_id.get(),
            conversation_id: message.conversation_id.get(),
            seq: message.seq.get(),
            sender: message.sender.into(),
            client_message_id: message.client_message_id.as_ref().map(domain::ClientMessageId::as_str),
            message_type: message.message_type.as_str(),
            content: convert::raw(message.content.as_str()),
            quoted_message_id: message.quoted_message_id.map(domain::MessageId::get),
            status: message.status.as_str(),
            sent_at: message.sent_at,
            edited_at: message.edited_at,
            change_seq: message.change_seq.get(),
            count_no: message.count_no.get(),
            content_hash: message.content_hash,
            chain_hash: message.chain_hash,
            reactions: Vec::new(),
            pinned: false,
        }
    }
}

impl<'a> From<&'a domain::Marked> for Message<'a> {
    fn from(marked: &'a domain::Marked) -> Self {
        Self::new(&marked.message, &marked.marks)
    }
}

impl From<domain::Principal> for Principal {
    fn from(principal: domain::Principal) -> Self {
        Self {
            kind: principal.kind.as_str(),
            id: principal.id,
        }
    }
}

/// An entry of the change log.
#[derive(Debug, Serialize)]
pub struct Change<'a> {
    #[serde(serialize_with = "convert::decimal")]
    conversation_id: i64,
    change_seq: i64,
    change_type: &'static str,
    #[serde(flatten)]
    seen: Option<SeenChange<'a>>,
}

/// What a viewer learns of a change that is not HIDDEN.
#[derive(Debug, Serialize)]
struct SeenChange<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    actor: Principal,
    #[serde(serialize_with = "convert::time")]
    changed_at: domain::Timestamp,
}

impl<'a> Change<'a> {
    /// With the message that it is about, if it is about one.
    #[must_use]
    pub fn new(change: &'a domain::Change, message: Option<Message<'a>>) -> Self {
        if change.change_type == domain::ChangeType::Hidden {
            return Self::hidden(change);
        }
        Self {
            change_type: change.change_type.as_str(),
            seen: Some(SeenChange {
                message,
                payload: change.payload.as_ref().map(|payload| convert::raw(payload.as_str())),
                actor: change.actor.into(),
                changed_at: change.changed_at,
            }),
            ..Self::hidden(change)
        }
    }

    /// To whoever may not see what it is about: only its number, so that the numbers stay whole.
    #[must_use]
    pub fn hidden(change: &domain::Change) -> Self {
        Self {
            conversation_id: change.conversation_id.get(),
            change_seq: change.change_seq.get(),
            change_type: "HIDDEN",
            seen: None,
        }
    }
}

impl<'a> From<&'a domain::Change> for Change<'a> {
    fn from(change: &'a domain::Change) -> Self {
        Self::new(change, None)
    }
}

/// What others see of a user or an agent.
#[derive(Debug, Serialize)]
pub struct Profile<'a> {
    principal: Principal,
    external_id: Option<&'a str>,
    display_name: Option<&'a str>,
    avatar_url: Option<&'a str>,
}

impl<'a> From<&'a domain::Profile> for Profile<'a> {
    fn from(profile: &'a domain::Profile) -> Self {
        Self {
            principal: profile.principal.into(),
            external_id: profile.external_id.as_ref().map(domain::ExternalId::as_str),
            display_name: profile.display_name.as_deref(),
            avatar_url: profile.avatar_url.as_deref(),
        }
    }
}

/// What a user has done with a message for themselves.
#[derive(Debug, Serialize)]
pub struct Action<'a> {
    action_type: &'static str,
    #[serde(serialize_with = "convert::decimal")]
    message_id: i64,
    #[serde(serialize_with = "convert::decimal")]
    conversation_id: i64,
    status: &'static str,
    #[serde(serialize_with = "convert::optional_time")]
    remind_at: Option<domain::Timestamp>,
    payload: Option<&'a RawValue>,
    #[serde(serialize_with = "convert::time")]
    updated_at: domain::Timestamp,
}

impl<'a> From<&'a domain::Action> for Action<'a> {
    fn from(action: &'a domain::Action) -> Self {
        Self {
            action_type: action.action_type.as_str(),
            message_id: action.message_id.get(),
            conversation_id: action.conversation_id.get(),
            status: action.status(),
            remind_at: action.remind_at,
            payload: action.payload.as_ref().map(|payload| convert::raw(payload.as_str())),
            updated_at: action.updated_at,
        }
    }
}

/// A member, as others see one.
#[derive(Debug, Serialize)]
pub struct Member {
    principal: Principal,
    role: &'static str,
    joined_seq: i64,
    #[serde(serialize_with = "convert::time")]
    joined_at: domain::Timestamp,
}

impl From<&domain::Member> for Member {
    fn from(member: &domain::Member) -> Self {
        Self {
            principal: member.principal.into(),
            role: member.role.as_str(),
            joined_seq: member.joined_seq.get(),
            joined_at: member.joined_at,
        }
    }
}

/// The `me` of a conversation.
#[derive(Debug, Serialize)]
pub struct Me {
    role: &'static str,
    last_read_seq: i64,
    unread_count: u64,
    mention_count: u64,
    marked_unread: bool,
    muted: bool,
    pinned: bool,
    cleared_seq: i64,
    joined_seq: i64,
}

impl Me {
    /// From a membership and the head that it is counted against.
    #[must_use]
    pub fn new(membership: &domain::Membership, unread_count: u64, mention_count: u64) -> Self {
        Self {
            role: membership.member.role.as_str(),
            last_read_seq: membership.last_read_seq.get(),
            unread_count,
            mention_count,
            marked_unread: membership.marked_unread,
            muted: membership.muted,
            pinned: membership.pinned,
            cleared_seq: membership.cleared_seq.get(),
            joined_seq: membership.member.joined_seq.get(),
        }
    }
}

/// A conversation, as one member sees it.
#[derive(Debug, Serialize)]
pub struct Conversation<'a> {
    #[serde(serialize_with = "convert::decimal")]
    conversation_id: i64,
    kind: &'static str,
    title: Option<&'a str>,
    avatar_url: Option<&'a str>,
    owner: Option<Principal>,
    history_visibility: &'static str,
    posting: &'static str,
    adding: &'static str,
    last_seq: i64,
    last_change_seq: i64,
    last_message: Option<Message<'a>>,
    member_count: u64,
    status: &'static str,
    #[serde(serialize_with = "convert::time")]
    created_at: domain::Timestamp,
    #[serde(serialize_with = "convert::time")]
    updated_at: domain::Timestamp,
    me: Me,
}

impl<'a> Conversation<'a> {
    /// `last_message` must be one that the member may see.
    #[must_use]
    pub fn new(
        header: &'a domain::Header,
        head: &domain::Head,
        member_count: u64,
        me: Me,
        last_message: Option<Message<'a>>,
    ) -> Self {
        Self {
            conversation_id: header.conversation_id.get(),
            kind: header.kind.as_str(),
            title: header.title.as_deref(),
            avatar_url: header.avatar_url.as_deref(),
            owner: header.owner.map(Into::into),
            history_visibility: header.history_visibility.as_str(),
            posting: header.posting.as_str(),
            adding: header.adding.as_str(),
            last_seq: head.last_seq.get(),
            last_change_seq: head.last_change_seq.get(),
            last_message,
            member_count,
            status: header.status.as_str(),
            created_at: header.created_at,
            updated_at: header.updated_at,
            me,
        }
    }
}
