//! What a client says on a WebSocket: one JSON object a frame, `{"id": number, "type": …, …}`.

use std::borrow::Cow;

use super::fields::{Fields, limit, required};
use super::rest::SendMessage;
use super::sync::Ask;
use crate::domain::{ChangeSeq, Content, ConversationId, DeviceId, DomainError, InvalidField, MessageId, Seq, json};

/// A page of history without `limit`.
pub const HISTORY_LIMIT_DEFAULT: u32 = 50;
/// The largest page of history; a larger `limit` is cut to it.
pub const HISTORY_LIMIT_MAX: u32 = 200;

/// Known words that this server does not offer (yet).
const NOT_OFFERED: [&str; 3] = ["stream.open", "stream.append", "stream.finish"];

/// A text frame, read as far as it can be read.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// What the reply carries as `reply_to`; `None` when the frame has no readable number there.
    pub id: Option<u64>,
    /// What is asked, or which field is wrong.
    pub frame: Result<Frame<'a>, DomainError>,
}

/// What is asked.
#[derive(Debug)]
pub enum Frame<'a> {
    /// The first frame: who is there.
    Hello(Hello<'a>),
    /// A new token for a connection that goes on.
    Auth {
        /// The token.
        token: Cow<'a, str>,
    },
    /// Says something.
    Send {
        /// Where.
        conversation_id: ConversationId,
        /// What, as on REST.
        message: Box<SendMessage>,
    },
    /// Gives a message other words.
    Edit {
        /// Which.
        message_id: MessageId,
        /// The words, in compact form; the rules of the message's type are the writer's business.
        content: Content,
    },
    /// Takes a message back.
    Recall {
        /// Which.
        message_id: MessageId,
    },
    /// Which messages and changes have arrived on this device.
    Acknowledge(Vec<Acknowledged>),
    /// The user has read.
    Read {
        /// Where.
        conversation_id: ConversationId,
        /// Up to here.
        seq: Seq,
    },
    /// A page of history.
    History(History),
    /// What this device has missed.
    Sync(Ask),
    /// Are you there? The answer stands behind everything that was queued before.
    Ping,
    /// The user is writing.
    Typing {
        /// Where; `None` when it cannot be read: typing is never answered.
        conversation_id: Option<ConversationId>,
    },
}

/// `hello`
#[derive(Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// May be missing when the upgrade request had a bearer header.
    pub token: Option<Cow<'a, str>>,
    /// The client's name for this machine.
    pub device_id: DeviceId,
    /// `web`, `ios`, …
    pub platform: Option<Cow<'a, str>>,
}

/// An entry of `message.ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Where.
    pub conversation_id: ConversationId,
    /// Messages up to here.
    pub seq: Seq,
    /// Changes up to here; 0 = says nothing about changes.
    pub change_seq: ChangeSeq,
}

/// `history`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Where.
    pub conversation_id: ConversationId,
    /// Older than this.
    pub before_seq: Option<Seq>,
    /// Newer than this.
    pub after_seq: Option<Seq>,
    /// At most so many.
    pub limit: u32,
}

/// Reads a text frame. `content_bytes_max` bounds the compact form of a message's content.
#[must_use]
pub fn parse(text: &str, content_bytes_max: usize) -> Incoming<'_> {
    let Some(fields) = Fields::parse(text) else {
        return Incoming {
            id: None,
            frame: Err(InvalidField::new("frame", "must be one JSON object").into()),
        };
    };
    let id = fields.raw("id").and_then(|json| json.parse().ok());
    let admitted = json::admit(text).map_err(DomainError::from);
    let frame = admitted.and_then(|()| typed(&fields, id, content_bytes_max));
    Incoming { id, frame }
}

fn typed<'a>(fields: &Fields<'a>, id: Option<u64>, content_bytes_max: usize) -> Result<Frame<'a>, DomainError> {
    let kind = required("type", fields.text("type")?)?;
    if kind == "typing" {
        let conversation_id = fields.id("conversation_id", ConversationId::parse).unwrap_or_default();
        return Ok(Frame::Typing { conversation_id });
    }
    // Without it the client could not tell which frame a reply is for.
    let numbered = id.ok_or(InvalidField::new("id", "must be a whole number of 0 or more"));
    let unknown = |hint| Err(InvalidField::new("type", hint).into());
    let frame = match kind.as_ref() {
        "hello" => Frame::Hello(hello(fields)?),
        "auth" => Frame::Auth {
            token: required("token", fields.text("token")?)?,
        },
        "message.send" => Frame::Send {
            conversation_id: conversation_id(fields)?,
            message: Box::new(SendMessage::read(fields, content_bytes_max)?),
        },
        "message.edit" => Frame::Edit {
            message_id: message_id(fields)?,
            content: edited(fields, content_bytes_max)?,
        },
        "message.recall" => Frame::Recall {
            message_id: message_id(fields)?,
        },
        "message.ack" => Frame::Acknowledge(acknowledged(fields)?),
        "read" => Frame::Read {
            conversation_id: conversation_id(fields)?,
            seq: seq(fields)?,
        },
        "history" => Frame::History(history(fields)?),
        "sync" => Frame::Sync(Ask::read(fields)?),
        "ping" => Frame::Ping,
        later if NOT_OFFERED.contains(&later) => return unknown("is known, but this server does not offer it yet"),
        _ => return unknown("is not known"),
    };
    numbered?;
    Ok(frame)
}

fn hello<'a>(fields: &Fields<'a>) -> Result<Hello<'a>, InvalidField> {
    Ok(Hello {
        token: fields.text("token")?,
        device_id: DeviceId::connecting(&required("device_id", fields.text("device_id")?)?)?,
        platform: fields.text("platform")?,
    })
}

fn conversation_id(fields: &Fields<'_>) -> Result<ConversationId, InvalidField> {
    required("conversation_id", fields.id("conversation_id", ConversationId::parse)?)
}

/// `seq` of a read, of a frame or of a REST body.
///
/// # Errors
/// `invalid_request`.
pub fn seq(fields: &Fields<'_>) -> Result<Seq, InvalidField> {
    Ok(Seq::new(required("seq", fields.number("seq")?)?))
}

fn message_id(fields: &Fields<'_>) -> Result<MessageId, InvalidField> {
    required("message_id", fields.id("message_id", MessageId::parse)?)
}

/// `content` of an edit, of a frame or of a REST body.
///
/// # Errors
/// `invalid_request`, `payload_too_large`.
pub fn edited(fields: &Fields<'_>, content_bytes_max: usize) -> Result<Content, DomainError> {
    Content::compact(required("content", fields.raw("content"))?, content_bytes_max)
}

/// `acks`, of a frame or of a REST body.
pub(super) fn acknowledged(fields: &Fields<'_>) -> Result<Vec<Acknowledged>, InvalidField> {
    let acks = required("acks", fields.list("acks")?)?;
    acks.iter()
        .map(|ack| {
            Ok(Acknowledged {
                conversation_id: conversation_id(ack)?,
                seq: Seq::new(required("seq", ack.number("seq")?)?),
                change_seq: ChangeSeq::new(ack.number("change_seq")?.unwrap_or_default()),
            })
        })
        .collect()
}

fn history(fields: &Fields<'_>) -> Result<History, InvalidField> {
    let limit = limit(fields.number("limit")?, HISTORY_LIMIT_DEFAULT, HISTORY_LIMIT_MAX)?;
    Ok(History {
        conversation_id: conversation_id(fields)?,
        before_seq: fields.number("before_seq")?.map(Seq::new),
        after_seq: fields.number("after_seq")?.map(Seq::new),
        limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Incoming<'_> {
        super::parse(text, 1000)
    }

    fn field_of(text: &str) -> (Option<u64>, &'static str) {
        let incoming = parse(text);
        match incoming.frame {
            Err(DomainError::Invalid(invalid)) => (incoming.id, invalid.field),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_understood_keeps_its_id_where_that_can_be_read() {
        for (text, id, field) in [
            ("not json", None, "frame"),
            ("[]", None, "frame"),
            ("7", None, "frame"),
            ("{\"type\":\"ping\"", None, "frame"),
            ("{\"id\":500}", Some(500), "type"),
            ("{\"id\":501,\"type\":\"no.such\"}", Some(501), "type"),
            ("{\"id\":\"x\",\"type\":7}", None, "type"),
            ("{\"type\":\"no.such\"}", None, "type"),
            ("{\"type\":\"ping\"}", None, "id"),
            ("{\"id\":-1,\"type\":\"ping\"}", None, "id"),
            ("{\"id\":1.5,\"type\":\"ping\"}", None, "id"),
            ("{\"id\":502,\"type\":\"history\"}", Some(502), "conversation_id"),
            (
                "{\"id\":503,\"type\":\"read\",\"conversation_id\":\"7\",\"seq\":-1}",
                Some(503),
                "seq",
            ),
            ("{\"id\":504,\"type\":\"message.send\"}", Some(504), "conversation_id"),
            ("{\"id\":505,\"type\":\"message.ack\",\"acks\":7}", Some(505), "acks"),
            ("{\"id\":506,\"type\":\"sync\",\"cursors\":{}}", Some(506), "cursors"),
            ("{\"id\":507,\"type\":\"ping\",\"x\":\"\\u0000\"}", Some(507), "request"),
            (
                "{\"id\":508,\"type\":\"ping\",\"x\":{\"\\ud800\":1}}",
                Some(508),
                "request",
            ),
        ] {
            assert_eq!(field_of(text), (id, field), "{text}");
        }
    }

    #[test]
    fn each_field_of_a_send_is_checked_by_name() {
        let whole = "\"conversation_id\":\"7\",\"client_message_id\":\"k\",\"message_type\":\"TEXT\",\"content\":{\"text\": \"x\"}";
        let text = format!("{{\"id\":1,\"type\":\"message.send\",{whole},\"expected_last_seq\":0}}");
        let parsed = parse(&text).frame;
        let Ok(Frame::Send { message, .. }) = parsed else {
            panic!("{parsed:?}")
        };
        assert_eq!(message.content.as_str(), "{\"text\":\"x\"}");
        assert_eq!(message.expected_last_seq, Some(Seq::ZERO));
        let long = text.replace("\"x\"", &format!("\"{}\"", "x".repeat(1000)));
        assert!(matches!(parse(&long).frame, Err(DomainError::ContentTooLarge { .. })));
        for (bad, field) in [
            ("\"conversation_id\":7", "conversation_id"),
            ("\"conversation_id\":\"-7\"", "conversation_id"),
            ("\"client_message_id\":\"\"", "client_message_id"),
            ("\"client_message_id\":null", "client_message_id"),
            ("\"message_type\":\"text\"", "message_type"),
            ("\"message_type\":7", "message_type"),
            ("\"content\":null", "content"),
            ("\"quoted_message_id\":7", "quoted_message_id"),
            ("\"expected_last_seq\":\"one\"", "expected_last_seq"),
            ("\"expected_last_seq\":-1", "expected_last_seq"),
        ] {
            // The later of two counts.
            let text = format!("{{\"id\":1,\"type\":\"message.send\",{whole},{bad}}}");
            assert_eq!(field_of(&text), (Some(1), field), "{bad}");
        }
    }

    #[test]
    fn a_hello_needs_a_device() {
        for bad in [
            "",
            ",\"device_id\":null",
            ",\"device_id\":\"\"",
            ",\"device_id\":\"has space\"",
            ",\"device_id\":7",
        ] {
            assert_eq!(
                field_of(&format!("{{\"id\":1,\"type\":\"hello\"{bad}}}")),
                (Some(1), "device_id"),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_acknowledgement_may_leave_out_changes_and_history_limits_are_cut() {
        let ack = "{\"id\":1,\"type\":\"message.ack\",\"acks\":[{\"conversation_id\":\"7\",\"seq\":3}]}";
        let expected = Acknowledged {
            conversation_id: ConversationId::new(7).unwrap(),
            seq: Seq::new(3),
            change_seq: ChangeSeq::ZERO,
        };
        assert!(matches!(parse(ack).frame, Ok(Frame::Acknowledge(acks)) if acks == [expected]));
        assert_eq!(field_of(&ack.replace(",\"seq\":3", "")), (Some(1), "seq"));
        let history = |limit: &str| format!("{{\"id\":1,\"type\":\"history\",\"conversation_id\":\"7\"{limit}}}");
        for (given, limit) in [("", 50), (",\"limit\":1", 1), (",\"limit\":9223372036854775807", 200)] {
            assert!(
                matches!(parse(&history(given)).frame, Ok(Frame::History(page)) if page.limit == limit),
                "{given}"
            );
        }
        for bad in ["0", "-1", "\"x\"", "1.5", "9223372036854775808"] {
            assert_eq!(
                field_of(&history(&format!(",\"limit\":{bad}"))),
                (Some(1), "limit"),
                "{bad}"
            );
        }
    }

    #[test]
    fn typing_is_never_answered() {
        for text in [
            "{\"type\":\"typing\"}",
            "{\"id\":\"x\",\"type\":\"typing\",\"conversation_id\":7}",
        ] {
            let frame = parse(text).frame;
            assert!(matches!(frame, Ok(Frame::Typing { conversation_id: None })), "{text}");
        }
    }
}
