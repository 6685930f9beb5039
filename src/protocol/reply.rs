//! What the server says on a WebSocket: replies (with `reply_to`) and pushes (without), as JSON.

use serde::Serialize;

use super::fields::Fields;
use super::{convert, sync, view};
use crate::domain::{self, Code, Timestamp};

/// `welcome`
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "welcome")]
pub struct Welcome<'a> {
    /// The hello's `id`.
    pub reply_to: u64,
    /// The name of this connection, for logs and support.
    pub session_id: String,
    /// Who the token says it is.
    pub principal: view::Principal,
    /// As given.
    pub device_id: &'a str,
    /// Now.
    #[serde(serialize_with = "convert::time")]
    pub server_time: Timestamp,
    /// Changes when an older copy of the store was restored.
    pub store_epoch: String,
    /// How often the server pings; silent for two of them = closed.
    pub heartbeat_secs: u64,
    /// What a client must keep to.
    pub limits: Limits,
}

/// The limits that a client has to know.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// Largest content, in compact form.
    pub content_bytes: usize,
    /// Largest frame.
    pub frame_bytes: usize,
    /// Most entries of one `message.ack`.
    pub acks_per_frame: usize,
    /// How long a sender may recall.
    pub recall_window_secs: u64,
}

/// `message.sent`
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "message.sent")]
pub struct Sent<'a> {
    /// The send's `id`.
    pub reply_to: u64,
    /// The first id of this key.
    #[serde(serialize_with = "convert::decimal")]
    pub message_id: i64,
    /// Where.
    #[serde(serialize_with = "convert::decimal")]
    pub conversation_id: i64,
    /// The first seq of this key.
    pub seq: i64,
    /// The first time of this key.
    #[serde(serialize_with = "convert::time")]
    pub sent_at: Timestamp,
    /// The key.
    pub client_message_id: &'a str,
    /// The key was used before, for the same payload.
    pub duplicate: bool,
}

/// `pong`
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "pong")]
pub struct Pong {
    /// The ping's `id`.
    pub reply_to: u64,
    /// Now.
    #[serde(serialize_with = "convert::time")]
    pub server_time: Timestamp,
}

/// `ok`: done, and there is nothing more to say.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "ok")]
pub struct Done {
    /// The frame's `id`.
    pub reply_to: u64,
}

/// `ok` to an edit or a recall.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "ok")]
pub struct Touched<'a> {
    /// The frame's `id`.
    pub reply_to: u64,
    /// The message as it is now.
    pub message: view::Message<'a>,
    /// What this device has to count; `null` where nothing changed.
    pub change: Option<view::Change<'a>>,
}

/// `ok` to a read.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "ok")]
pub struct Read {
    /// The frame's `id`.
    pub reply_to: u64,
    /// Where you stand now.
    pub last_read_seq: i64,
    /// What is above it.
    pub unread_count: u64,
    /// Of your INBOX; `null` where nothing moved.
    pub change_seq: Option<i64>,
}

/// `history`
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "history")]
pub struct History<'a> {
    /// The frame's `id`.
    pub reply_to: u64,
    /// Ascending by seq.
    pub items: Vec<view::Message<'a>>,
    /// There is more of the range on the far side.
    pub has_more: bool,
}

/// `sync`
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "sync")]
pub struct Sync<'a> {
    /// The frame's `id`.
    pub reply_to: u64,
    /// As on REST.
    #[serde(flatten)]
    pub page: sync::Sync<'a>,
}

/// `error`
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "error")]
pub struct Error<'a> {
    /// `null` when the frame had no readable `id`.
    pub reply_to: Option<u64>,
    /// What a program acts on.
    #[serde(serialize_with = "code")]
    pub code: Code,
    /// What a person reads.
    pub detail: &'a str,
    /// May the same frame succeed later?
    pub retryable: bool,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// With `idempotency_key_reused`: the first message as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<view::Message<'a>>,
    /// With `precondition_failed`: where the head is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<i64>,
}

impl<'a> Error<'a> {
    /// An error with nothing besides.
    #[must_use]
    pub const fn new(reply_to: Option<u64>, code: Code, detail: &'a str) -> Self {
        Self {
            reply_to,
            code,
            detail,
            retryable: code.retryable(),
            retry_after_ms: None,
            original: None,
            last_seq: None,
        }
    }
}

fn code<S: serde::Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.as_str())
}

/// What is pushed.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub enum Push<'a> {
    /// A message has its number.
    #[serde(rename = "message.new")]
    MessageNew {
        /// The message.
        message: view::Message<'a>,
    },
    /// A message has other words.
    #[serde(rename = "message.edited")]
    MessageEdited {
        /// The entry of the change log.
        change: view::Change<'a>,
    },
    /// A message was taken back.
    #[serde(rename = "message.recalled")]
    MessageRecalled {
        /// The entry of the change log.
        change: view::Change<'a>,
    },
    /// A message was removed for everyone.
    #[serde(rename = "message.deleted")]
    MessageDeleted {
        /// The entry of the change log.
        change: view::Change<'a>,
    },
    /// Something of the conversation changed.
    #[serde(rename = "conversation.changed")]
    ConversationChanged {
        /// The entry of the change log.
        change: view::Change<'a>,
    },
    /// You are a member from here on.
    #[serde(rename = "conversation.joined")]
    ConversationJoined {
        /// As you see it.
        conversation: Box<view::Conversation<'a>>,
    },
    /// You are a member no longer.
    #[serde(rename = "conversation.left")]
    ConversationLeft {
        /// Where.
        #[serde(serialize_with = "convert::decimal")]
        conversation_id: i64,
        /// LEFT or REMOVED.
        reason: &'static str,
    },
    /// Somebody has read: you on another device, or the other one of a DIRECT.
    #[serde(rename = "read.updated")]
    ReadUpdated {
        /// Where.
        #[serde(serialize_with = "convert::decimal")]
        conversation_id: i64,
        /// Who.
        principal: view::Principal,
        /// Up to here.
        last_read_seq: i64,
        /// What only you learn of yourself.
        #[serde(flatten)]
        own: Option<OwnRead>,
    },
    /// Your own state has changed.
    #[serde(rename = "inbox.changed")]
    InboxChanged {
        /// The entry of your INBOX's change log.
        change: view::Change<'a>,
    },
    /// A reminder is due.
    #[serde(rename = "reminder.fired")]
    ReminderFired {
        /// Of this message, as it is now.
        message: view::Message<'a>,
        /// As you set it.
        action: view::Action<'a>,
    },
    /// Somebody is writing.
    #[serde(rename = "typing")]
    Typing {
        /// Where.
        #[serde(serialize_with = "convert::decimal")]
        conversation_id: i64,
        /// Who.
        principal: view::Principal,
    },
    /// This connection is about to be closed.
    #[serde(rename = "bye")]
    Bye {
        /// Why.
        reason: &'static str,
        /// When to come back, spread out over the clients.
        reconnect_after_ms: u64,
    },
}

/// What a user's own devices learn of a read besides.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OwnRead {
    unread_count: u64,
    change_seq: i64,
}

impl Push<'_> {
    /// `read.updated` as the other one of a DIRECT sees it.
    #[must_use]
    pub fn read(conversation_id: domain::ConversationId, principal: domain::Principal, seq: domain::Seq) -> Self {
        Self::ReadUpdated {
            conversation_id: conversation_id.get(),
            principal: principal.into(),
            last_read_seq: seq.get(),
            own: None,
        }
    }

    /// `read.updated` as the reader's own devices see it: the payload of a READ, by its names.
    fn own_read(change: &domain::Change) -> Option<Self> {
        let fields = Fields::parse(change.payload.as_ref()?.as_str())?;
        let conversation_id = fields.id("conversation_id", domain::ConversationId::parse).ok()??;
        Some(Self::ReadUpdated {
            conversation_id: conversation_id.get(),
            principal: change.actor.into(),
            last_read_seq: fields.number("last_read_seq").ok()??,
            own: Some(OwnRead {
                unread_count: u64::try_from(fields.number("unread_count").ok()??).ok()?,
                change_seq: change.change_seq.get(),
            }),
        })
    }
}

impl<'a> Push<'a> {
    /// The push that reports a change, with the message that it is about.
    #[must_use]
    pub fn change(change: &'a domain::Change, message: Option<view::Message<'a>>) -> Self {
        let view = view::Change::new(change, message);
        match change.change_type {
            domain::ChangeType::Edited => Self::MessageEdited { change: view },
            domain::ChangeType::Recalled => Self::MessageRecalled { change: view },
            domain::ChangeType::Deleted => Self::MessageDeleted { change: view },
            domain::ChangeType::Read => Self::own_read(change).unwrap_or(Self::InboxChanged { change: view }),
            domain::ChangeType::SettingsUpdated
            | domain::ChangeType::ActionSet
            | domain::ChangeType::ActionCleared
            | domain::ChangeType::NotificationUpdated => Self::InboxChanged { change: view },
            _ => Self::ConversationChanged { change: view },
        }
    }

    /// The push of a change of which only the number is told; `own`: it stands in an INBOX.
    #[must_use]
    pub fn hidden(change: &domain::Change, own: bool) -> Self {
        let change = view::Change::hidden(change);
        if own {
            Self::InboxChanged { change }
        } else {
            Self::ConversationChanged { change }
        }
    }

    /// `message.new`
    #[must_use]
    pub const fn message(message: view::Message<'a>) -> Self {
        Self::MessageNew { message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_names_of_the_contract() {
        let sent = Sent {
            reply_to: 7,
            message_id: 1,
            conversation_id: 2,
            seq: 3,
            sent_at: Timestamp::from_millis(0),
            client_message_id: "k",
            duplicate: false,
        };
        assert_eq!(
            serde_json::to_string(&sent).unwrap(),
            "{\"type\":\"message.sent\",\"reply_to\":7,\"message_id\":\"1\",\"conversation_id\":\"2\",\"seq\":3,\
             \"sent_at\":\"1970-01-01T00:00:00.000Z\",\"client_message_id\":\"k\",\"duplicate\":false}"
        );
        let error = Error::new(None, Code::Overloaded, "busy");
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            "{\"type\":\"error\",\"reply_to\":null,\"code\":\"overloaded\",\"detail\":\"busy\",\"retryable\":true}"
        );
        let left = Push::ConversationLeft {
            conversation_id: 7,
            reason: "LEFT",
        };
        assert_eq!(
            serde_json::to_string(&left).unwrap(),
            "{\"type\":\"conversation.left\",\"conversation_id\":\"7\",\"reason\":\"LEFT\"}"
        );
    }
}
