//! Webhooks and their deliveries, as the operator sees them. A secret is never told.

use serde::Serialize;

use super::convert;
use super::fields::{Fields, query_number};
use crate::domain::{self, DeliveryState, EventNo, InvalidField, NoticeSet, NoticeType, Timestamp};

/// What a PUT sets; absent = stays.
#[derive(Clone, Debug, Default)]
pub struct WebhookFields {
    /// Where.
    pub url: Option<String>,
    /// Signs from now on.
    pub secret: Option<String>,
    /// What for; empty or `null` = everything.
    pub events: Option<NoticeSet>,
}

impl WebhookFields {
    /// Reads the body of a PUT.
    ///
    /// # Errors
    /// `invalid_request` with the field's name.
    pub fn read(fields: &Fields<'_>) -> Result<Self, InvalidField> {
        let text = |name: &'static str| {
            let given = fields.patch(name, |fields| fields.text(name))?;
            let unset = InvalidField::new(name, "cannot be unset");
            given
                .map(|text| text.map(std::borrow::Cow::into_owned).ok_or(unset))
                .transpose()
        };
        let events = fields.patch("events", |fields| events(fields).map(Some))?;
        Ok(Self {
            url: text("url")?,
            secret: text("secret")?,
            events: events.map(Option::unwrap_or_default),
        })
    }
}

fn events(fields: &Fields<'_>) -> Result<NoticeSet, InvalidField> {
    const HINT: &str = "must be a list of message.created, message.edited, message.recalled, message.deleted, member.added, \
                        member.removed, notification.created, push.required; empty = all";
    let invalid = InvalidField::new("events", HINT);
    let Some(json) = fields.raw("events") else {
        return Ok(NoticeSet::default());
    };
    let words: Vec<String> = serde_json::from_str(json).map_err(|_| invalid.clone())?;
    let types: Option<Vec<NoticeType>> = words.iter().map(|word| NoticeType::parse(word)).collect();
    types.map(|types| NoticeSet::of(&types)).ok_or(invalid)
}

/// The state that deliveries are listed of.
///
/// # Errors
/// `invalid_request` when it is none.
pub fn delivery_state(word: &str) -> Result<DeliveryState, InvalidField> {
    DeliveryState::parse(word).ok_or(InvalidField::new("state", "must be PENDING, DELIVERED or DEAD"))
}

/// The id of a delivery in a path; `None` = it is none.
#[must_use]
pub fn delivery_id(text: &str) -> Option<EventNo> {
    query_number("delivery_id", text).ok().map(EventNo::new)
}

/// Who is called.
#[derive(Debug, Serialize)]
pub struct Webhook<'a> {
    name: &'a str,
    url: &'a str,
    events: Vec<&'static str>,
    secrets: Vec<Secret>,
    /// There are deliveries for what is wanted up to here.
    event_no: i64,
    #[serde(serialize_with = "convert::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "convert::time")]
    updated_at: Timestamp,
}

/// That there is one, and since and until when.
#[derive(Debug, Serialize)]
struct Secret {
    #[serde(serialize_with = "convert::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "convert::optional_time")]
    retires_at: Option<Timestamp>,
}

impl<'a> From<&'a domain::Webhook> for Webhook<'a> {
    fn from(webhook: &'a domain::Webhook) -> Self {
        let secret = |secret: &domain::WebhookSecret| Secret {
            created_at: secret.created_at,
            retires_at: secret.retires_at,
        };
        Self {
            name: webhook.name.as_str(),
            url: &webhook.url,
            events: webhook.notices.named().map(NoticeType::as_str).collect(),
            secrets: webhook.secrets.iter().map(secret).collect(),
            event_no: webhook.event_no.get(),
            created_at: webhook.created_at,
            updated_at: webhook.updated_at,
        }
    }
}

/// What became of one event.
#[derive(Debug, Serialize)]
pub struct Delivery<'a> {
    #[serde(serialize_with = "convert::decimal")]
    delivery_id: i64,
    event_no: i64,
    #[serde(serialize_with = "convert::decimal")]
    conversation_id: i64,
    state: &'static str,
    attempts: u32,
    last_error: Option<&'a str>,
    #[serde(serialize_with = "convert::optional_time")]
    next_attempt_at: Option<Timestamp>,
    #[serde(serialize_with = "convert::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "convert::optional_time")]
    finished_at: Option<Timestamp>,
}

impl<'a> From<&'a domain::Delivery> for Delivery<'a> {
    fn from(delivery: &'a domain::Delivery) -> Self {
        let waits = delivery.state == DeliveryState::Pending;
        Self {
            delivery_id: delivery.event_no.get(),
            event_no: delivery.event_no.get(),
            conversation_id: delivery.conversation_id.get(),
            state: delivery.state.as_str(),
            attempts: delivery.attempts,
            last_error: delivery.last_error.as_deref(),
            next_attempt_at: waits.then_some(delivery.next_attempt_at),
            created_at: delivery.created_at,
            finished_at: delivery.finished_at,
        }
    }
}
