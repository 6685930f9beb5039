//! What a message says: types, rules of each type, the compact form that is stored and hashed.
//!
//! Content is never re-serialised through a number or a map: order of keys, repeated keys and number literals
//! come back as they were sent (B104).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::attachment;
use super::error::{DomainError, InvalidField};
use super::ids::{FileId, Principal, PrincipalType};
use super::json;
use super::mention::Mentions;

/// The most mentions in one text.
pub const MENTIONS_MAX: usize = 500;
/// The longest name of an own message type.
pub const MESSAGE_TYPE_CHARS_MAX: usize = 32;

/// What kind of message it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MessageType {
    /// `{"text", "mentions"?, "mention_all"?}`
    Text,
    /// `{"text"?, "attachments"}`, each of IMAGE, FILE, VOICE, VIDEO.
    Attachment(AttachmentType),
    /// `{"card_type", "card_data"}`
    Card,
    /// `{"ciphertext", …}`: opaque to the server.
    Encrypted,
    /// Made by the server: membership and the like.
    System,
    /// Made by the server: a notification in an INBOX.
    Notification,
    /// Any other `[A-Z][A-Z0-9_]{0,31}`, stored as given.
    Other(Arc<str>),
}

/// The types that carry files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttachmentType {
    /// A picture.
    Image,
    /// Any file.
    File,
    /// Recorded speech.
    Voice,
    /// A film.
    Video,
}

impl MessageType {
    /// Reads the word of the wire, also the server-made ones.
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let invalid = InvalidField::new("message_type", "must match [A-Z][A-Z0-9_]{0,31}");
        let mut bytes = text.bytes();
        if text.len() > MESSAGE_TYPE_CHARS_MAX || !bytes.next().is_some_and(|b| b.is_ascii_uppercase()) {
            return Err(invalid);
        }
        if !bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
            return Err(invalid);
        }
        Ok(match text {
            "TEXT" => Self::Text,
            "IMAGE" => Self::Attachment(AttachmentType::Image),
            "FILE" => Self::Attachment(AttachmentType::File),
            "VOICE" => Self::Attachment(AttachmentType::Voice),
            "VIDEO" => Self::Attachment(AttachmentType::Video),
            "CARD" => Self::Card,
            "ENCRYPTED" => Self::Encrypted,
            "SYSTEM" => Self::System,
            "NOTIFICATION" => Self::Notification,
            other => Self::Other(other.into()),
        })
    }

    /// The word of the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Text => "TEXT",
            Self::Attachment(AttachmentType::Image) => "IMAGE",
            Self::Attachment(AttachmentType::File) => "FILE",
            Self::Attachment(AttachmentType::Voice) => "VOICE",
            Self::Attachment(AttachmentType::Video) => "VIDEO",
            Self::Card => "CARD",
            Self::Encrypted => "ENCRYPTED",
            Self::System => "SYSTEM",
            Self::Notification => "NOTIFICATION",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Checked content in compact form (no insignificant white space, escapes in their shortest spelling).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(Arc<str>);

impl Content {
    /// What a client may send: checks syntax, the rules of the type, then the size of the compact form.
    ///
    /// # Errors
    /// [`DomainError::Invalid`] names the field; [`DomainError::ContentTooLarge`] when over `bytes_max`.
    pub fn parse(raw: &str, message_type: &MessageType, bytes_max: usize) -> Result<Self, DomainError> {
        let compact = compacted(raw, bytes_max)?;
        rules(&object(&compact)?, message_type)?;
        Ok(Self(compact.into()))
    }

    /// The first half of [`Content::parse`], for a door that does not know the type (an edit): any JSON object.
    ///
    /// # Errors
    /// As [`Content::parse`].
    pub fn compact(raw: &str, bytes_max: usize) -> Result<Self, DomainError> {
        let compact = compacted(raw, bytes_max)?;
        object(&compact)?;
        Ok(Self(compact.into()))
    }

    /// The second half of [`Content::parse`]: the rules of the type.
    ///
    /// # Errors
    /// [`InvalidField`] names the field.
    pub fn check(&self, message_type: &MessageType) -> Result<(), InvalidField> {
        rules(&object(&self.0)?, message_type)
    }

    /// Whom a message of this type with this content mentions.
    #[must_use]
    pub fn mentions(&self, message_type: &MessageType) -> Mentions {
        // Most texts mention nobody: a look is cheaper than a parse, and compact form spells keys in one way only.
        if *message_type != MessageType::Text || !self.0.contains("\"mention") {
            return Mentions::Nobody;
        }
        let Some(object) = Object::parse(&self.0) else {
            return Mentions::Nobody;
        };
        let principals = object.text("text").and_then(|text| mentions(&object, &text).ok());
        Mentions::new(
            object.get("mention_all") == Some("true"),
            principals.unwrap_or_default(),
        )
    }

    /// The files that it refers to, in order, each once; at most [`attachment::ATTACHMENTS_MAX`].
    #[must_use]
    pub fn files(&self) -> Vec<FileId> {
        attachment::files(&self.0)
    }

    /// The same with other files in the place of these; all else stays byte for byte.
    #[must_use]
    pub fn with_files(&self, new: &HashMap<FileId, FileId>) -> Self {
        Self(attachment::replaced(&self.0, new).into())
    }

    /// What the server made itself, or what comes back from the store.
    #[must_use]
    pub fn trusted(compact: &str) -> Self {
        Self(compact.into())
    }

    /// The compact JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn compacted(raw: &str, bytes_max: usize) -> Result<String, DomainError> {
    let compact = json::compact("content", raw)?;
    if compact.len() > bytes_max {
        return Err(DomainError::ContentTooLarge {
            bytes: compact.len(),
            max: bytes_max,
        });
    }
    Ok(compact)
}

fn object(compact: &str) -> Result<Object<'_>, InvalidField> {
    Object::parse(compact).ok_or(InvalidField::new("content", "must be a JSON object"))
}

/// The rules of a type.
fn rules(object: &Object<'_>, message_type: &MessageType) -> Result<(), InvalidField> {
    match message_type {
        MessageType::Text => text_rules(object)?,
        MessageType::Attachment(_) => return attachment::required(object),
        MessageType::Card => {
            object
                .text("card_type")
                .ok_or(InvalidField::new("content.card_type", "must be a string"))?;
            object
                .get("card_data")
                .ok_or(InvalidField::new("content.card_data", "is required"))?;
        }
        MessageType::Encrypted => {
            let text = object.text("ciphertext").filter(|text| is_base64(text));
            text.ok_or(InvalidField::new("content.ciphertext", "must be a base64 string"))?;
        }
        MessageType::System | MessageType::Notification => {
            return Err(InvalidField::new(
                "message_type",
                "SYSTEM and NOTIFICATION are made by the server",
            ));
        }
        MessageType::Other(_) => {}
    }
    attachment::allowed(object)
}

/// The members of a JSON object; the last of repeated keys counts, as in JavaScript.
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str::<Members<'a>>(text)
            .ok()
            .map(|members| Self(members.0))
    }

    /// `null` and absent mean the same.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.get())
            .filter(|raw| *raw != "null")
    }

    pub(super) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key)
            .and_then(|raw| serde_json::from_str::<Text<'a>>(raw).ok())
            .map(|text| text.0)
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

fn text_rules(object: &Object<'_>) -> Result<(), InvalidField> {
    let text = object.text("text").filter(|text| !text.is_empty());
    let text = text.ok_or(InvalidField::new("content.text", "must be a non-empty string"))?;
    mentions(object, &text)?;
    Ok(())
}

#[derive(Deserialize)]
struct MentionFields<'a> {
    #[serde(borrow)]
    user_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    agent_id: Option<Cow<'a, str>>,
    offset: u32,
    length: u32,
}

/// Who is mentioned; offsets and lengths are in Unicode code points and must lie inside the text.
fn mentions(object: &Object<'_>, text: &str) -> Result<Vec<Principal>, InvalidField> {
    const FIELD: &str = "content.mentions";
    if let Some(raw) = object.get("mention_all") {
        serde_json::from_str::<bool>(raw)
            .map_err(|_| InvalidField::new("content.mention_all", "must be true or false"))?;
    }
    let Some(raw) = object.get("mentions") else {
        return Ok(Vec::new());
    };
    let list: Vec<MentionFields<'_>> = serde_json::from_str(raw).map_err(|_| {
        InvalidField::new(
            FIELD,
            "must be a list of {\"user_id\" or \"agent_id\": string, \"offset\", \"length\": numbers}",
        )
    })?;
    if list.len() > MENTIONS_MAX {
        return Err(InvalidField::new(FIELD, "must have at most 500 entries"));
    }
    let chars = text.chars().count();
    let mut found = Vec::with_capacity(list.len());
    for mention in list {
        let principal = match (mention.user_id, mention.agent_id) {
            (Some(id), None) => Principal::parse(PrincipalType::User, &id),
            (None, Some(id)) => Principal::parse(PrincipalType::Agent, &id),
            _ => None,
        };
        found.push(principal.ok_or(InvalidField::new(
            FIELD,
            "each needs one of user_id and agent_id, a decimal string",
        ))?);
        let end = u64::from(mention.offset) + u64::from(mention.length);
        if mention.length == 0 || usize::try_from(end).map_or(true, |end| end > chars) {
            return Err(InvalidField::new(
                FIELD,
                "offset and length must lie inside the text (in code points)",
            ));
        }
    }
    Ok(found)
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty()
        && text.len() - body.len() <= 2
        && body
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(raw: &str) -> Result<String, DomainError> {
        Content::parse(raw, &MessageType::Text, 1000).map(|content| content.as_str().to_owned())
    }

    #[test]
    fn content_is_kept_but_for_white_space() {
        let raw = "{ \"z\" : [0.1000, 1E-7,-0 ,1e400],\n\"text\":\" a  b \",\"z\":1}";
        assert_eq!(
            text(raw).as_deref(),
            Ok("{\"z\":[0.1000,1E-7,-0,1e400],\"text\":\" a  b \",\"z\":1}")
        );
    }

    #[test]
    fn text_needs_words_and_mentions_inside_them() {
        for bad in [
            "{}",
            "{\"text\":\"\"}",
            "{\"text\":7}",
            "[]",
            "null",
            "\"text\"",
            "7",
            "{\"text\":\"x\",\"mention_all\":1}",
            "{\"text\":\"x\",\"mentions\":{}}",
            "{\"text\":\"x\",\"mentions\":[{\"user_id\":7,\"offset\":0,\"length\":1}]}",
            "{\"text\":\"x\",\"mentions\":[{\"user_id\":\"7\",\"offset\":0,\"length\":2}]}",
            "{\"text\":\"x\",\"mentions\":[{\"user_id\":\"7\",\"agent_id\":\"7\",\"offset\":0,\"length\":1}]}",
        ] {
            assert!(matches!(text(bad), Err(DomainError::Invalid(_))), "{bad}");
        }
        let mention =
            "{\"text\":\"👋 @b\",\"mentions\":[{\"user_id\":\"7\",\"offset\":2,\"length\":2}],\"mention_all\":null}";
        assert_eq!(text(mention).as_deref(), Ok(mention));
    }

    #[test]
    fn each_type_has_its_rules() {
        let parse = |kind: &str, raw: &str| Content::parse(raw, &MessageType::parse(kind).unwrap(), 1000);
        assert!(parse("CARD", "{\"card_type\":\"a\",\"card_data\":{}}").is_ok());
        assert!(parse("CARD", "{\"card_type\":\"a\"}").is_err());
        assert!(parse("ENCRYPTED", "{\"ciphertext\":\"AAECAwQ=\",\"nonce\":1.50}").is_ok());
        assert!(parse("ENCRYPTED", "{\"ciphertext\":\"no base 64\"}").is_err());
        assert!(parse("IMAGE", "{\"text\":\"\",\"attachments\":[]}").is_err());
        assert!(parse("MY_OWN_7", "{\"anything\":[1,null]}").is_ok());
        assert!(parse("SYSTEM", "{\"event\":\"x\"}").is_err());
        for bad in ["", "text", "7A", "A-B", "_A", &"A".repeat(33)] {
            assert!(MessageType::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_limit_counts_the_compact_form() {
        let exact = format!("{{ \"text\" : \"{}\" }}", "x".repeat(1000 - "{\"text\":\"\"}".len()));
        assert!(text(&exact).is_ok());
        assert!(matches!(
            text(&exact.replace("x\"", "xx\"")),
            Err(DomainError::ContentTooLarge { bytes: 1001, max: 1000 })
        ));
    }
}
