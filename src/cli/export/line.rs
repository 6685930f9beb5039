//! One line of an export, as `import` reads it. The same message gives the same line in every export of its store, so what
//! was imported before is known again.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cli::said_at;
use crate::domain::time::rfc3339;
use crate::domain::{
    ConversationId, ExternalId, File, Header, Kind, Message, MessageId, MessageType, Principal, Role, Status,
};

/// Somebody, by the id of the host's own user system and by ours.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Who {
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author_id: Option<String>,
    /// None of a USER.
    #[serde(skip_serializing_if = "Option::is_none")]
    author_type: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(super) struct MemberLine {
    #[serde(flatten)]
    who: Who,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
}

/// What a room is and who is in it; a later one only lists more members.
#[derive(Debug, Default, Serialize)]
pub(super) struct AboutLine<'a> {
    room: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    avatar_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_visibility: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    posting: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    adding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    members: Vec<MemberLine>,
}

/// Something that was said.
#[derive(Debug, Serialize)]
pub(super) struct SaidLine<'a> {
    room: String,
    at: String,
    #[serde(flatten)]
    author: Who,
    #[serde(rename = "ref")]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    /// None of a TEXT.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_type: Option<&'a str>,
    /// Of a TEXT that says nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileLine>,
}

/// A file of a message.
#[derive(Debug, Serialize)]
pub(super) struct FileLine {
    path: String,
    file_id: String,
    name: String,
    media_type: String,
}

impl Who {
    pub(super) fn new(principal: Principal, external_id: Option<&ExternalId>) -> Self {
        let is_somebody = principal != Principal::SYSTEM;
        Self {
            author: external_id.map(|id| id.as_str().to_owned()),
            author_id: is_somebody.then(|| principal.id.to_string()),
            author_type: Some(principal.kind.as_str()).filter(|kind| *kind != "USER"),
        }
    }
}

impl MemberLine {
    pub(super) fn new(who: Who, role: Role) -> Self {
        let role = Some(role).filter(|role| *role != Role::Member);
        Self {
            who,
            role: role.map(Role::as_str),
        }
    }
}

impl<'a> AboutLine<'a> {
    /// The first one of a room.
    pub(super) fn first(header: &'a Header, members: Vec<MemberLine>) -> Self {
        let about = Self::more(header.conversation_id, members);
        let kind = Some(header.kind.as_str());
        if header.kind != Kind::Group {
            return Self { kind, ..about };
        }
        Self {
            kind,
            // A group without a title says so; one that is silent about it is called like its room.
            title: Some(header.title.as_deref().unwrap_or_default()),
            avatar_url: header.avatar_url.as_deref(),
            history_visibility: Some(header.history_visibility.as_str()),
            posting: Some(header.posting.as_str()),
            adding: Some(header.adding.as_str()),
            status: Some(header.status)
                .filter(|status| *status != Status::Active)
                .map(Status::as_str),
            ..about
        }
    }

    /// More members.
    pub(super) fn more(room: ConversationId, members: Vec<MemberLine>) -> Self {
        Self {
            room: room.to_string(),
            members,
            ..Self::default()
        }
    }
}

impl<'a> SaidLine<'a> {
    pub(super) fn new(
        message: &'a Message,
        author: Who,
        reply_to: Option<MessageId>,
        files: Vec<FileLine>,
    ) -> serde_json::Result<Self> {
        let (content, at) = said_at::without(message.content.as_str());
        let is_text = message.message_type == MessageType::Text;
        let text = only_text(&content).filter(|_| is_text && files.is_empty());
        let is_worded = text.is_some();
        Ok(Self {
            room: message.conversation_id.to_string(),
            at: at.map_or_else(|| rfc3339(message.sent_at), str::to_owned),
            author,
            name: message.message_id.to_string(),
            reply_to: reply_to.map(|id| id.to_string()),
            message_type: (!is_text).then(|| message.message_type.as_str()),
            text,
            content: (!is_worded)
                .then(|| RawValue::from_string(content.into_owned()))
                .transpose()?,
            files,
        })
    }
}

impl FileLine {
    pub(super) fn new(file: &File, path: String) -> Self {
        Self {
            path,
            file_id: file.file_id.to_string(),
            name: file.name.clone(),
            media_type: file.media_type.clone(),
        }
    }
}

/// The text of a content that is nothing else, spelled as `import` spells it.
fn only_text(content: &str) -> Option<String> {
    #[derive(serde::Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    struct Words {
        text: String,
    }
    let words: Words = serde_json::from_str(content).ok()?;
    let again = serde_json::to_string(&words).ok()?;
    (again == content).then_some(words.text)
}
