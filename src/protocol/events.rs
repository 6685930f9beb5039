//! Events for other systems, as the feed lists them and as webhooks are called with them.

use serde::Serialize;
use serde_json::value::RawValue;

use super::fields::limit;
use super::{convert, view};
use crate::domain::{self, EventNo, InvalidField, NoticeType, PresentNotice, Timestamp};

/// The most events of one answer of the feed.
pub const FEED_LIMIT_MAX: u32 = 1_000;
/// Those of an answer, unless said otherwise.
pub const FEED_LIMIT_DEFAULT: u32 = 100;

/// `limit` of the feed.
///
/// # Errors
/// `invalid_request` when it is below 1.
pub fn feed_limit(given: Option<i64>) -> Result<u32, InvalidField> {
    limit(given, FEED_LIMIT_DEFAULT, FEED_LIMIT_MAX)
}

/// `{"type", "timestamp", "data"}`
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(serialize_with = "convert::time")]
    timestamp: Timestamp,
    data: Data<'a>,
}

/// What is told; each kind of event has its own members.
#[derive(Debug, Serialize)]
struct Data<'a> {
    #[serde(serialize_with = "convert::decimal")]
    conversation_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<view::Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<view::Change<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipient: Option<view::Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recipients: Option<Vec<Recipient>>,
}

/// Whom a push is for.
#[derive(Debug, Serialize)]
struct Recipient {
    principal: view::Principal,
    unread_total: u64,
}

impl<'a> From<&'a PresentNotice> for Event<'a> {
    fn from(present: &'a PresentNotice) -> Self {
        let notice = &present.placed.notice;
        let message = present.message.as_ref();
        let sent_at = message.map(|marked| marked.message.sent_at);
        let changed_at = present.change.as_ref().map(|change| change.changed_at);
        let is_push = notice.notice_type == NoticeType::PushRequired;
        let is_notification = notice.notice_type == NoticeType::NotificationCreated;
        let at = changed_at.or(sent_at).filter(|_| !is_push);
        let notification = message.filter(|_| is_notification);
        let recipient = |(principal, unread_total): &(domain::Principal, u64)| Recipient {
            principal: (*principal).into(),
            unread_total: *unread_total,
        };
        Self {
            kind: notice.notice_type.as_str(),
            timestamp: at.unwrap_or(present.placed.placed_at),
            data: Data {
                conversation_id: notice.conversation_id.get(),
                message: message.map(view::Message::from),
                change: present.change.as_ref().map(view::Change::from),
                notification: notification.map(|marked| convert::raw(marked.message.content.as_str())),
                recipient: present.owner.map(view::Principal::from),
                recipients: is_push.then(|| present.recipients.iter().map(recipient).collect()),
            },
        }
    }
}

/// An event in the feed.
#[derive(Debug, Serialize)]
pub struct FeedItem<'a> {
    event_no: i64,
    id: String,
    #[serde(flatten)]
    event: Event<'a>,
}

impl<'a> From<&'a PresentNotice> for FeedItem<'a> {
    fn from(present: &'a PresentNotice) -> Self {
        Self {
            event_no: present.placed.event_no.get(),
            id: present.placed.id(),
            event: present.into(),
        }
    }
}

/// `GET /admin/v1/events`
#[derive(Debug, Serialize)]
pub struct Feed<'a> {
    /// Ascending.
    pub items: Vec<FeedItem<'a>>,
    /// Ask with this next.
    pub next_after: i64,
    /// The newest event.
    pub newest: i64,
}

impl<'a> Feed<'a> {
    /// A page of the log.
    #[must_use]
    pub fn new(items: &'a [PresentNotice], next_after: EventNo, newest: EventNo) -> Self {
        Self {
            items: items.iter().map(FeedItem::from).collect(),
            next_after: next_after.get(),
            newest: newest.get(),
        }
    }
}
