//! Catching up: what a device asks, of a frame or of a REST body, and what it is told.

use serde::Serialize;

use super::fields::{Fields, limit_of, required};
use super::{convert, view};
use crate::domain::{ChangeSeq, ConversationId, DeviceId, InvalidField, Seq, Timestamp};

/// The messages of one conversation, unless said otherwise.
pub const MESSAGE_LIMIT_DEFAULT: u32 = 50;
/// The conversations of one answer, unless said otherwise.
pub const CONVERSATION_LIMIT_DEFAULT: u32 = 100;
/// The most of either; a larger limit is cut to it.
pub const SYNC_LIMIT_MAX: u32 = 200;

/// How far a device is in one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Where.
    pub conversation_id: ConversationId,
    /// Messages up to here.
    pub seq: Seq,
    /// Changes up to here.
    pub change_seq: ChangeSeq,
}

/// `POST /v1/sync`, or a `sync` frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which device; a frame need not say it.
    pub device_id: Option<DeviceId>,
    /// Of which store its history is.
    pub store_epoch: Option<String>,
    /// How far it is; `None` = as far as it acknowledged.
    pub cursors: Option<Vec<Cursor>>,
    /// The most messages of one conversation.
    pub message_limit: u32,
    /// The most conversations.
    pub conversation_limit: u32,
}

impl Ask {
    /// Reads the fields.
    ///
    /// # Errors
    /// `invalid_request` with the field's name.
    pub fn read(fields: &Fields<'_>) -> Result<Self, InvalidField> {
        let device_id = fields.text("device_id")?;
        let limit = |name, default| limit_of(name, fields.number(name)?, default, SYNC_LIMIT_MAX);
        let cursors = fields.list("cursors")?;
        let cursors = cursors.map(|cursors| cursors.iter().map(cursor).collect::<Result<_, _>>());
        Ok(Self {
            device_id: device_id.map(|text| DeviceId::parse(&text)).transpose()?,
            store_epoch: fields.text("store_epoch")?.map(std::borrow::Cow::into_owned),
            cursors: cursors.transpose()?,
            message_limit: limit("message_limit", MESSAGE_LIMIT_DEFAULT)?,
            conversation_limit: limit("conversation_limit", CONVERSATION_LIMIT_DEFAULT)?,
        })
    }
}

fn cursor(fields: &Fields<'_>) -> Result<Cursor, InvalidField> {
    let conversation_id = fields.id("conversation_id", ConversationId::parse)?;
    Ok(Cursor {
        conversation_id: required("conversation_id", conversation_id)?,
        seq: Seq::new(required("seq", fields.number("seq")?)?),
        change_seq: ChangeSeq::new(required("change_seq", fields.number("change_seq")?)?),
    })
}

/// What a device has missed.
#[derive(Debug, Serialize)]
pub struct Sync<'a> {
    /// Now.
    #[serde(serialize_with = "convert::time")]
    pub server_time: Timestamp,
    /// The name of the store.
    pub store_epoch: &'a str,
    /// The latest activity first.
    pub conversations: Vec<Entry<'a>>,
    /// Where the device's user is no longer.
    #[serde(serialize_with = "decimals")]
    pub removed: &'a [ConversationId],
    /// Ask again with the `next` of each.
    pub has_more: bool,
}

/// A conversation in which something is newer than the cursor.
#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    /// As the device's user sees it.
    pub conversation: view::Conversation<'a>,
    /// Ascending by seq.
    pub messages: Vec<view::Message<'a>>,
    /// Ascending by change_seq, without a hole.
    pub changes: Vec<view::Change<'a>>,
    /// The hole to be fetched from history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// The cursor from now on.
    pub next: Next,
    /// What the device has of it is not of this history.
    #[serde(skip_serializing_if = "is_false")]
    pub history_reset: bool,
}

/// A hole; both bounds are exclusive.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Missing {
    /// Newer than this.
    pub after_seq: i64,
    /// Older than this.
    pub before_seq: i64,
}

/// A cursor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Next {
    /// Messages up to here.
    pub seq: i64,
    /// Changes up to here.
    pub change_seq: i64,
}

/// A device.
#[derive(Debug, Serialize)]
pub struct Device<'a> {
    /// As the client named it.
    pub device_id: &'a str,
    /// As it said itself.
    pub platform: Option<&'a str>,
    /// It has a connection now.
    pub online: bool,
    /// When it was last noticed; of one that is online: now.
    #[serde(serialize_with = "convert::time")]
    pub last_seen_at: Timestamp,
}

/// `GET /v1/me/unread`
#[derive(Debug, Serialize)]
pub struct UnreadTotal {
    /// Of all that are not muted.
    pub total: u64,
    /// Those with something unread, the latest activity first; at most 1,000.
    pub conversations: Vec<Unread>,
}

/// What is unread in one conversation.
#[derive(Debug, Serialize)]
pub struct Unread {
    /// Which.
    #[serde(serialize_with = "convert::decimal")]
    pub conversation_id: i64,
    /// As in the list of conversations.
    pub unread_count: u64,
    /// As in the list of conversations.
    pub mention_count: u64,
    /// Not in the total.
    pub muted: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

fn decimals<S: serde::Serializer>(ids: &&[ConversationId], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Ask, &'static str> {
        Ask::read(&Fields::parse(json).unwrap()).map_err(|invalid| invalid.field)
    }

    #[test]
    fn limits_have_defaults_and_are_cut() {
        let ask = read("{\"device_id\":\"phone\"}").unwrap();
        assert_eq!((ask.message_limit, ask.conversation_limit), (50, 100));
        assert_eq!((ask.cursors, ask.store_epoch), (None, None));
        let ask = read("{\"message_limit\":1000,\"conversation_limit\":7,\"cursors\":[]}").unwrap();
        assert_eq!((ask.message_limit, ask.conversation_limit), (200, 7));
        assert_eq!(
            ask.cursors,
            Some(Vec::new()),
            "named none: not the same as not naming any"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (json, field) in [
            ("{\"device_id\":7}", "device_id"),
            ("{\"device_id\":\"\u{e9}\"}", "device_id"),
            ("{\"store_epoch\":7}", "store_epoch"),
            ("{\"message_limit\":0}", "message_limit"),
            ("{\"conversation_limit\":-1}", "conversation_limit"),
            ("{\"cursors\":{}}", "cursors"),
            ("{\"cursors\":[{\"seq\":1,\"change_seq\":1}]}", "conversation_id"),
            ("{\"cursors\":[{\"conversation_id\":\"7\",\"change_seq\":1}]}", "seq"),
            ("{\"cursors\":[{\"conversation_id\":\"7\",\"seq\":1}]}", "change_seq"),
            (
                "{\"cursors\":[{\"conversation_id\":\"7\",\"seq\":-1,\"change_seq\":0}]}",
                "seq",
            ),
        ] {
            assert_eq!(read(json), Err(field), "{json}");
        }
    }
}
