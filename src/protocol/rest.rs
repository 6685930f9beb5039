//! REST bodies: what is asked for, as domain values, and what is answered, as JSON.

use std::borrow::Cow;

use serde::Serialize;

use super::fields::{Fields, required};
use super::frame::{self, Acknowledged};
use super::view;
use crate::domain::personal::{PAYLOAD_BYTES_MAX, check_action};
use crate::domain::time::parse_rfc3339;
use crate::domain::{
    ActionType, Adding, ClientMessageId, ClientRequestId, Content, ConversationId, DeviceId, Digest, DomainError,
    HeaderPatch, HistoryVisibility, InvalidField, Kind, MessageId, MessageType, NewConversation, Personal, Posting,
    Role, Seq, Subject, chain,
};

/// The most principals that one request may name. The SYSTEM message that lists them goes to every member who is
/// online, so it keeps to what content may have (64 KiB).
pub const MEMBERS_NAMED_MAX: usize = 1_000;
/// The most conversations that a message is forwarded to at once.
pub const FORWARD_CONVERSATIONS_MAX: usize = 50;
/// The longest title of a group, in characters.
pub const TITLE_CHARS_MAX: usize = 256;
/// The longest address of a picture, in characters.
pub const URL_CHARS_MAX: usize = 2_048;
/// The most entries of a page of conversations or members.
pub const LIST_LIMIT_MAX: u32 = 200;
/// The entries of such a page, unless said otherwise.
pub const LIST_LIMIT_DEFAULT: u32 = 50;

const MEMBERS_HINT: &str =
    "must be a list of at most 1,000 {\"type\": \"USER\" or \"AGENT\", \"id\" or \"external_id\": string}";

/// `POST /v1/conversations/{id}/messages`, checked but for rights and state.
#[derive(Clone, Debug)]
pub struct SendMessage {
    /// The sender's key.
    pub client_message_id: ClientMessageId,
    /// What kind.
    pub message_type: MessageType,
    /// What it says, in compact form.
    pub content: Content,
    /// Its fingerprint.
    pub content_hash: Digest,
    /// What it answers.
    pub quoted_message_id: Option<MessageId>,
    /// Refuse unless the head is here.
    pub expected_last_seq: Option<Seq>,
}

impl SendMessage {
    /// `content_bytes_max` bounds the compact form of the content.
    ///
    /// # Errors
    /// `invalid_request` with the field's name, `payload_too_large`.
    pub fn read(fields: &Fields<'_>, content_bytes_max: usize) -> Result<Self, DomainError> {
        let key = required("client_message_id", fields.text("client_message_id")?)?;
        let client_message_id = ClientMessageId::parse(&key)?;
        let message_type = required("message_type", fields.text("message_type")?)?;
        let message_type = MessageType::parse(&message_type)?;
        let quoted_message_id = fields.id("quoted_message_id", MessageId::parse)?;
        let expected_last_seq = fields.number("expected_last_seq")?.map(Seq::new);
        let content = required("content", fields.raw("content"))?;
        let content = Content::parse(content, &message_type, content_bytes_max)?;
        Ok(Self {
            client_message_id,
            message_type,
            content_hash: chain::content_hash(content.as_str()),
            content,
            quoted_message_id,
            expected_last_seq,
        })
    }
}

/// What an act on a message answers.
#[derive(Debug, Serialize)]
pub struct Touched<'a> {
    /// The message as it is now.
    pub message: view::Message<'a>,
    /// `null` where nothing had to change.
    pub change: Option<view::Change<'a>>,
}

/// `POST /v1/conversations`.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn new_conversation(fields: &Fields<'_>) -> Result<NewConversation, InvalidField> {
    const KIND: &str = "must be DIRECT or GROUP";
    let kind = fields.word("kind", KIND, Kind::parse)?;
    match required("kind", kind)? {
        Kind::Direct => Ok(NewConversation::Direct {
            member: required("member", fields.subject("member")?)?,
        }),
        Kind::Group => new_group(fields),
        Kind::Inbox => Err(InvalidField::new("kind", KIND)),
    }
}

fn new_group(fields: &Fields<'_>) -> Result<NewConversation, InvalidField> {
    let key = fields.text("client_request_id")?;
    Ok(NewConversation::Group {
        title: required("title", title(fields)?)?,
        members: members(fields)?,
        client_request_id: key.map(|key| ClientRequestId::parse(&key)).transpose()?,
        history_visibility: history_visibility(fields)?.unwrap_or(HistoryVisibility::Shared),
        posting: posting(fields)?.unwrap_or(Posting::All),
        adding: adding(fields)?.unwrap_or(Adding::Admins),
    })
}

fn title(fields: &Fields<'_>) -> Result<Option<String>, InvalidField> {
    const HINT: &str = "must have at most 256 characters and no control characters";
    bounded(fields, "title", TITLE_CHARS_MAX, HINT)
}

/// `avatar_url` of a group or a profile: kept as it is, never fetched.
pub(super) fn avatar_url(fields: &Fields<'_>) -> Result<Option<String>, InvalidField> {
    const HINT: &str = "must have at most 2,048 characters and no control characters";
    bounded(fields, "avatar_url", URL_CHARS_MAX, HINT)
}

pub(super) fn bounded(
    fields: &Fields<'_>,
    name: &'static str,
    chars_max: usize,
    hint: &'static str,
) -> Result<Option<String>, InvalidField> {
    let text = fields.text(name)?;
    let fits = |text: &str| text.chars().count() <= chars_max && !text.chars().any(char::is_control);
    match text {
        Some(text) if !fits(&text) => Err(InvalidField::new(name, hint)),
        text => Ok(text.map(Cow::into_owned)),
    }
}

fn history_visibility(fields: &Fields<'_>) -> Result<Option<HistoryVisibility>, InvalidField> {
    const HINT: &str = "must be SHARED or JOINED";
    fields.word("history_visibility", HINT, HistoryVisibility::parse)
}

fn posting(fields: &Fields<'_>) -> Result<Option<Posting>, InvalidField> {
    fields.word("posting", "must be ALL or ADMINS", Posting::parse)
}

fn adding(fields: &Fields<'_>) -> Result<Option<Adding>, InvalidField> {
    fields.word("adding", "must be ALL or ADMINS", Adding::parse)
}

/// `PATCH /v1/conversations/{id}`: absent leaves, `null` unsets; the words of an enum cannot be unset.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn header_patch(fields: &Fields<'_>) -> Result<HeaderPatch, InvalidField> {
    const NEVER_UNSET: &str = "cannot be unset; leave it out to keep it";
    let word = |name| fields.patch(name, |fields| Ok(fields.raw(name)));
    for name in ["history_visibility", "posting", "adding"] {
        if word(name)? == Some(None) {
            return Err(InvalidField::new(name, NEVER_UNSET));
        }
    }
    Ok(HeaderPatch {
        title: fields.patch("title", title)?,
        avatar_url: fields.patch("avatar_url", avatar_url)?,
        history_visibility: history_visibility(fields)?,
        posting: posting(fields)?,
        adding: adding(fields)?,
    })
}

/// `PATCH …/members/{type}/{id}`.
///
/// # Errors
/// `invalid_request` when the role is missing or none.
pub fn role(fields: &Fields<'_>) -> Result<Role, InvalidField> {
    let role = fields.word("role", "must be OWNER, ADMIN or MEMBER", Role::parse)?;
    required("role", role)
}

/// `members`: who is added, of `POST …/members` and of a new group.
///
/// # Errors
/// `invalid_request` when it is missing or no list of principals.
pub fn members(fields: &Fields<'_>) -> Result<Vec<Subject>, InvalidField> {
    let members = fields.subjects("members", MEMBERS_NAMED_MAX, MEMBERS_HINT)?;
    required("members", members)
}

/// `PUT /v1/conversations/{id}/me`: `null` unsets, absent leaves.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn settings(fields: &Fields<'_>, conversation_id: ConversationId) -> Result<Personal, InvalidField> {
    let flag = |name| {
        Ok::<_, InvalidField>(
            fields
                .patch(name, |fields| fields.flag(name))?
                .map(Option::unwrap_or_default),
        )
    };
    Ok(Personal::Settings {
        conversation_id,
        muted: flag("muted")?,
        pinned: flag("pinned")?,
        marked_unread: flag("marked_unread")?,
    })
}

/// `POST /v1/conversations/{id}/clear`
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn clearing(fields: &Fields<'_>, conversation_id: ConversationId) -> Result<Personal, InvalidField> {
    Ok(Personal::Clear {
        conversation_id,
        up_to_seq: Seq::new(required("up_to_seq", fields.number("up_to_seq")?)?),
    })
}

/// `PUT /v1/messages/{id}/actions/{action_type}`
///
/// # Errors
/// `invalid_request` with the field's name, `payload_too_large`.
pub fn action(fields: &Fields<'_>, message_id: MessageId, action_type: ActionType) -> Result<Personal, DomainError> {
    const TIME: InvalidField = InvalidField::new("remind_at", "must be a time as RFC 3339 has it");
    let remind_at = match fields.text("remind_at")? {
        Some(text) => Some(parse_rfc3339(&text).ok_or(TIME)?),
        None => None,
    };
    check_action(action_type, remind_at)?;
    Ok(Personal::Set {
        message_id,
        action_type,
        remind_at,
        payload: payload(fields, PAYLOAD_BYTES_MAX)?,
    })
}

/// `payload`: any JSON object, for programs.
pub(super) fn payload(fields: &Fields<'_>, bytes_max: usize) -> Result<Option<Content>, DomainError> {
    let payload = fields.raw("payload").map(|raw| {
        Content::compact(raw, bytes_max).map_err(|error| match error {
            DomainError::Invalid(invalid) => InvalidField::new("payload", invalid.hint).into(),
            other => other,
        })
    });
    payload.transpose()
}

/// The answer to `POST /v1/conversations/{id}/read`.
#[derive(Debug, Serialize)]
pub struct Read {
    /// Where the reader stands now.
    pub last_read_seq: i64,
    /// What is above it.
    pub unread_count: u64,
    /// Of the reader's INBOX; `null` where nothing moved.
    pub change_seq: Option<i64>,
}

/// Who has read a message, and whom it has reached.
#[derive(Debug, Serialize)]
pub struct Receipts {
    /// Have read it.
    pub read: Vec<view::Principal>,
    /// A device of theirs has acknowledged it.
    pub delivered: Vec<view::Principal>,
    /// Neither.
    pub pending: Vec<view::Principal>,
}

/// `POST /v1/me/acks`: the same fields as `message.ack`, and the device.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn acknowledgement(fields: &Fields<'_>) -> Result<(DeviceId, Vec<Acknowledged>), InvalidField> {
    let device = DeviceId::connecting(&required("device_id", fields.text("device_id")?)?)?;
    Ok((device, frame::acknowledged(fields)?))
}

/// `POST /v1/messages/{id}/forward`: where to, and the key of every copy.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn forward(fields: &Fields<'_>) -> Result<(Vec<ConversationId>, ClientMessageId), InvalidField> {
    const HINT: &str = "must be a list of 1 to 50 conversation ids: decimal strings";
    let key = required("client_message_id", fields.text("client_message_id")?)?;
    let key = ClientMessageId::parse(&key)?;
    let to = fields.ids(
        "conversation_ids",
        FORWARD_CONVERSATIONS_MAX,
        HINT,
        ConversationId::parse,
    )?;
    Ok((required("conversation_ids", to)?, key))
}

/// The answer to a forward.
#[derive(Debug, Serialize)]
pub struct Forwarded<'a> {
    /// In the order asked.
    pub items: Vec<Copy<'a>>,
}

/// What became of one copy: `message`, or `error`.
#[derive(Debug, Serialize)]
pub struct Copy<'a> {
    /// Where to.
    #[serde(serialize_with = "super::convert::display")]
    pub conversation_id: ConversationId,
    /// The copy; of a repeat: the first one, as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<view::Message<'a>>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal<'a>>,
}

/// An error inside an answer, with the same words as a problem document.
#[derive(Debug, Serialize)]
pub struct Refusal<'a> {
    /// The stable code.
    pub code: super::error::Code,
    /// What is wrong, for people.
    pub detail: &'a str,
    /// May the same request succeed later?
    pub retryable: bool,
    /// With `idempotency_key_reused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<view::Message<'a>>,
    /// With retryable codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The answer to a send.
#[derive(Debug, Serialize)]
pub struct Sent<'a> {
    /// The message; of a repeat: the first one, as it is now.
    pub message: view::Message<'a>,
    /// The key was used before.
    pub duplicate: bool,
}

/// A page of history.
#[derive(Debug, Serialize)]
pub struct History<'a> {
    /// Ascending by seq.
    pub items: Vec<view::Message<'a>>,
    /// There is more of the range on the far side.
    pub has_more: bool,
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub struct List<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Asks for the next page; null at the end.
    pub next_cursor: Option<String>,
}

/// The answer to a change of a conversation: the conversation as it is now, and the change.
#[derive(Debug, Serialize)]
pub struct ConversationChanged<'a> {
    /// As the caller sees it.
    #[serde(flatten)]
    pub conversation: view::Conversation<'a>,
    /// The change; null where nothing had to change.
    pub change: Option<view::Change<'a>>,
}

/// The answer to a change of members.
#[derive(Debug, Serialize)]
pub struct MembersChanged<'a> {
    /// The change; null where nothing had to change.
    pub change: Option<view::Change<'a>>,
    /// The principals that the request named, with their ids.
    pub members: Vec<view::Principal>,
}

/// An error as RFC 9457 has it.
#[derive(Debug, Serialize)]
pub struct Problem<'a> {
    /// No page describes our types: `about:blank`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// A short name.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: super::error::Code,
    /// What is wrong, for people.
    pub detail: &'a str,
    /// May the same request succeed later?
    pub retryable: bool,
    /// With `idempotency_key_reused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<view::Message<'a>>,
    /// With `precondition_failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<i64>,
    /// With `history_reset` of the event feed: the oldest event that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<i64>,
    /// With `history_reset` of the event feed: the newest event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<i64>,
    /// With retryable codes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// With `internal`: by which the operator finds it in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Command, Context, Create, Draft, Event, Facts, Origin, Principal, Timestamp, decide::Outcome};

    #[test]
    fn the_message_that_lists_the_most_members_is_no_larger_than_content_may_be() {
        let count = i64::try_from(MEMBERS_NAMED_MAX).unwrap();
        let create = Create {
            origin: Origin {
                principal: Principal::agent(i64::MAX),
                device: None,
            },
            kind: Kind::Group,
            title: Some("room".to_owned()),
            members: (1..=count).map(|n| Principal::agent(i64::MAX - n)).collect(),
            creation_key: None,
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        };
        let mut draft = Draft::new(ConversationId::new(1).unwrap(), None);
        let mut next_id = || Ok(MessageId::new(1).unwrap());
        let mut context = Context {
            now: Timestamp::default(),
            next_id: &mut next_id,
            facts: &Facts::default(),
        };
        let outcome = draft.decide(&Command::Create(create), &mut context);
        assert_eq!(outcome, Ok(Outcome::Created));
        let batch = draft.finish().unwrap();
        let Some(Event::MessageSent { message, .. }) = batch.events.last() else {
            panic!("{:?}", batch.events.last())
        };
        assert!(
            message.content.as_str().len() <= 65_536,
            "{}",
            message.content.as_str().len()
        );
    }
}
