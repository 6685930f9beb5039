//! Notifications, contacts and blocks: what is asked for, as domain values, and what is answered, as JSON.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::fields::{Fields, required};
use super::{convert, view};
use crate::domain::notification::NOTIFICATION_TEXT_CHARS_MAX;
use crate::domain::{self, InvalidField, NotificationState, Subject, Timestamp};

/// The most principals that are invited at once.
pub const INVITED_MAX: usize = 100;

/// `POST /v1/contacts/requests`: whom, and what is said to them.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn friend_request(fields: &Fields<'_>) -> Result<(Subject, Option<String>), InvalidField> {
    let to = required("to", fields.subject("to")?)?;
    Ok((to, text(fields)?))
}

/// `text` of a notification: for people, so lines may be broken.
///
/// # Errors
/// `invalid_request` when it is too long.
pub fn text(fields: &Fields<'_>) -> Result<Option<String>, InvalidField> {
    const HINT: &str = "must have at most 1,000 characters and no control characters but line breaks and tabs";
    let text = fields.text("text")?;
    let strange = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    let fits = |text: &str| text.chars().count() <= NOTIFICATION_TEXT_CHARS_MAX && !text.chars().any(strange);
    match text {
        Some(text) if !fits(&text) => Err(InvalidField::new("text", HINT)),
        text => Ok(text.map(Cow::into_owned)),
    }
}

/// `POST /v1/conversations/{id}/invites`: whom.
///
/// # Errors
/// `invalid_request` when it is missing or no list of principals.
pub fn invited(fields: &Fields<'_>) -> Result<Vec<Subject>, InvalidField> {
    const HINT: &str =
        "must be a list of at most 100 {\"type\": \"USER\" or \"AGENT\", \"id\" or \"external_id\": string}";
    required("to", fields.subjects("to", INVITED_MAX, HINT)?)
}

/// `state` of a query string.
///
/// # Errors
/// `invalid_request` when it is none.
pub fn state(word: &str) -> Result<NotificationState, InvalidField> {
    const HINT: &str = "must be PENDING, ACCEPTED, DECLINED or EXPIRED";
    NotificationState::parse(word).ok_or(InvalidField::new("state", HINT))
}

/// A notification.
#[derive(Debug, Serialize)]
pub struct Notification<'a> {
    #[serde(serialize_with = "convert::decimal")]
    notification_id: i64,
    kind: &'static str,
    from: view::Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<view::Principal>,
    text: Option<&'a str>,
    #[serde(serialize_with = "convert::optional_decimal")]
    conversation_id: Option<i64>,
    state: &'static str,
    #[serde(serialize_with = "convert::optional_time")]
    read_at: Option<Timestamp>,
    #[serde(serialize_with = "convert::time")]
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

impl<'a> From<&'a domain::Notification> for Notification<'a> {
    /// As its owner sees it.
    fn from(note: &'a domain::Notification) -> Self {
        Self {
            notification_id: note.notification_id.get(),
            kind: note.kind.as_str(),
            from: note.from.into(),
            to: None,
            text: note.text.as_deref(),
            conversation_id: note.conversation_id.map(domain::ConversationId::get),
            state: note.state.as_str(),
            read_at: note.read_at,
            created_at: note.created_at,
            payload: note.payload.as_ref().map(|payload| convert::raw(payload.as_str())),
        }
    }
}

impl<'a> Notification<'a> {
    /// As `viewer` sees it: whoever asks is told whom, and not when that one has read it.
    #[must_use]
    pub fn seen_by(viewer: domain::Principal, note: &'a domain::Notification) -> Self {
        let owned = Self::from(note);
        if viewer == note.owner {
            return owned;
        }
        Self {
            to: Some(note.owner.into()),
            read_at: None,
            ..owned
        }
    }
}

/// Those who have been invited.
#[derive(Debug, Serialize)]
pub struct Invited<'a> {
    /// In the order asked; who is a member or blocked is left out.
    pub items: Vec<Notification<'a>>,
}

/// A contact.
#[derive(Debug, Serialize)]
pub struct Contact<'a> {
    principal: view::Principal,
    display_name: Option<&'a str>,
    avatar_url: Option<&'a str>,
    #[serde(serialize_with = "convert::time")]
    created_at: Timestamp,
}

impl<'a> From<&'a domain::Contact> for Contact<'a> {
    fn from(contact: &'a domain::Contact) -> Self {
        Self {
            principal: contact.principal.into(),
            display_name: contact.display_name.as_deref(),
            avatar_url: contact.avatar_url.as_deref(),
            created_at: contact.created_at,
        }
    }
}

/// Somebody who is blocked.
#[derive(Debug, Serialize)]
pub struct Block {
    principal: view::Principal,
    #[serde(serialize_with = "convert::time")]
    created_at: Timestamp,
}

impl From<&domain::Block> for Block {
    fn from(block: &domain::Block) -> Self {
        Self {
            principal: block.principal.into(),
            created_at: block.created_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_bounded_and_may_have_lines() {
        let of = |text: &str| {
            let body = serde_json::json!({ "text": text }).to_string();
            super::text(&Fields::parse(&body).unwrap())
        };
        for good in ["", "a\nb\tc", &"友".repeat(1_000)] {
            assert_eq!(of(good), Ok(Some(good.to_owned())));
        }
        for bad in ["\u{7}", &"x".repeat(1_001)] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
