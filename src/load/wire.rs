//! What of a frame the load looks at; everything else is passed over.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::key::Named;

/// An id, a decimal string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Id(pub(super) i64);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Id;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id as a decimal string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                text.parse().map(Id).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// `message.new`, `message.sent`, `history`, `error`, `bye` and the rest, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct Frame<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(default)]
    pub(super) reply_to: Option<u64>,
    #[serde(default)]
    pub(super) message: Option<Message>,
    #[serde(default)]
    pub(super) conversation_id: Option<Id>,
    #[serde(default)]
    pub(super) seq: Option<u64>,
    #[serde(default)]
    pub(super) client_message_id: Named,
    #[serde(default)]
    pub(super) duplicate: bool,
    #[serde(default)]
    pub(super) items: Vec<Message>,
    #[serde(default)]
    pub(super) has_more: bool,
    #[serde(default)]
    pub(super) code: Option<&'a str>,
    #[serde(default)]
    pub(super) detail: Option<String>,
    #[serde(default)]
    pub(super) retryable: bool,
    #[serde(default)]
    pub(super) retry_after_ms: Option<u64>,
    #[serde(default)]
    pub(super) reconnect_after_ms: Option<u64>,
}

/// A message as somebody receives it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Message {
    pub(super) conversation_id: Id,
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) client_message_id: Named,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_contract_are_read() {
        let push = r#"{"type":"message.new","message":{"message_id":"9","conversation_id":"7","seq":3,"sender":{"type":"USER","id":"1"},"client_message_id":"b00000001-2-3-4","content":{"text":"\"type\":\"no\""},"status":"NORMAL"}}"#;
        let frame: Frame<'_> = serde_json::from_str(push).unwrap();
        let message = frame.message.unwrap();
        assert_eq!(
            (frame.kind, message.conversation_id, message.seq),
            ("message.new", Id(7), 3)
        );
        assert_eq!(message.client_message_id.0.unwrap().number, 3);
        let sent = r#"{"type":"message.sent","reply_to":7,"message_id":"1","conversation_id":"2","seq":3,"sent_at":"1970-01-01T00:00:00.000Z","client_message_id":"b00000001-2-3-4","duplicate":true}"#;
        let frame: Frame<'_> = serde_json::from_str(sent).unwrap();
        assert!((frame.reply_to, frame.seq, frame.duplicate) == (Some(7), Some(3), true));
        let error = r#"{"type":"error","reply_to":null,"code":"overloaded","detail":"\"busy\"","retryable":true,"retry_after_ms":50}"#;
        let frame: Frame<'_> = serde_json::from_str(error).unwrap();
        assert!((frame.code, frame.retryable, frame.retry_after_ms) == (Some("overloaded"), true, Some(50)));
    }
}
