//! Identifiers and numbers. One type per meaning, so that a seq cannot be passed where an id is wanted.
//!
//! Ids are 63-bit positive integers (`BIGINT` at rest, decimal strings on the wire).
//! Numbers (`Seq`, `ChangeSeq`, `CountNo`) start at 0 = "none yet" and grow by one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::InvalidField;

/// The longest `client_message_id`, in characters.
pub const CLIENT_MESSAGE_ID_CHARS_MAX: usize = 128;
/// The longest `device_id`, in (visible ASCII) characters.
pub const DEVICE_ID_CHARS_MAX: usize = 64;
/// The longest `external_id`, in characters.
pub const EXTERNAL_ID_CHARS_MAX: usize = 128;
/// The longest reaction, in bytes.
pub const EMOJI_BYTES_MAX: usize = 64;
/// The longest `client_request_id`, in characters.
pub const CLIENT_REQUEST_ID_CHARS_MAX: usize = 128;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(i64);

        impl $name {
            /// `None` unless `value` is positive.
            #[must_use]
            pub const fn new(value: i64) -> Option<Self> {
                if value > 0 { Some(Self(value)) } else { None }
            }

            /// The number as it is stored.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0
            }

            /// Reads the decimal text of the wire: digits only, 1 to 2^63-1.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                parse_decimal(text).and_then(Self::new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(i64);

        impl $name {
            /// Before the first.
            pub const ZERO: Self = Self(0);

            /// Negative numbers do not exist: they become 0.
            #[must_use]
            pub const fn new(value: i64) -> Self {
                if value < 0 { Self(0) } else { Self(value) }
            }

            /// The number as it is stored.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0
            }

            /// The following number.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id_type!(
    /// A message, everywhere and for ever (a snowflake).
    MessageId
);
id_type!(
    /// A conversation (a snowflake).
    ConversationId
);
id_type!(
    /// A webhook (a snowflake).
    WebhookId
);
id_type!(
    /// Work in the background (a snowflake).
    JobId
);
id_type!(
    /// A file (a snowflake).
    FileId
);
id_type!(
    /// Bytes in the object store (a snowflake).
    BlobId
);
number_type!(
    /// The place of a message in its conversation: 1, 2, 3 … without holes (INV-SEQ-1).
    Seq
);
number_type!(
    /// The number of a change in its conversation: 1, 2, 3 … without holes (INV-CHG-1).
    ChangeSeq
);
number_type!(
    /// How many messages by USER or AGENT a conversation has up to and including a message.
    CountNo
);

number_type!(
    /// The place of an event in the store-wide log for other systems: 1, 2, 3 … in commit order.
    EventNo
);

/// Only digits, so that `+7`, ` 7` and `7.0` are refused as the contract says; `None` above 2^63-1.
fn parse_decimal(text: &str) -> Option<i64> {
    if text.is_empty() || text.len() > 19 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Who can act. `USER 7` and `AGENT 7` are different principals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PrincipalType {
    /// A person.
    User,
    /// A program that speaks for itself.
    Agent,
    /// The server.
    System,
}

impl PrincipalType {
    /// The small number that stands for it at rest and in the hash chain.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::User => 1,
            Self::Agent => 2,
            Self::System => 3,
        }
    }

    /// The inverse of [`PrincipalType::code`].
    #[must_use]
    pub const fn from_code(code: i16) -> Option<Self> {
        match code {
            1 => Some(Self::User),
            2 => Some(Self::Agent),
            3 => Some(Self::System),
            _ => None,
        }
    }

    /// The word of the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "USER",
            Self::Agent => "AGENT",
            Self::System => "SYSTEM",
        }
    }

    /// The inverse of [`PrincipalType::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::User, Self::Agent, Self::System]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// A user, an agent or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    /// USER, AGENT or SYSTEM.
    pub kind: PrincipalType,
    /// Unique within its kind; 0 is the server itself.
    pub id: i64,
}

impl Principal {
    /// The server: `{"type":"SYSTEM","id":"0"}`.
    pub const SYSTEM: Self = Self {
        kind: PrincipalType::System,
        id: 0,
    };

    /// A USER.
    #[must_use]
    pub const fn user(id: i64) -> Self {
        Self {
            kind: PrincipalType::User,
            id,
        }
    }

    /// An AGENT.
    #[must_use]
    pub const fn agent(id: i64) -> Self {
        Self {
            kind: PrincipalType::Agent,
            id,
        }
    }

    /// A USER or AGENT with the decimal id of the wire. SYSTEM is never named by a client.
    #[must_use]
    pub fn parse(kind: PrincipalType, id: &str) -> Option<Self> {
        match kind {
            PrincipalType::System => None,
            kind => parse_decimal(id).filter(|id| *id > 0).map(|id| Self { kind, id }),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.id)
    }
}

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $field:literal, $rule:expr, $hint:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the rule of the contract; compared byte for byte afterwards (B31).
            pub fn parse(text: &str) -> Result<Self, InvalidField> {
                let rule: fn(&str) -> bool = $rule;
                if rule(text) { Ok(Self(text.into())) } else { Err(InvalidField::new($field, $hint)) }
            }

            /// The text as the client gave it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_short_text(text: &str, chars_max: usize) -> bool {
    !text.is_empty() && text.chars().count() <= chars_max && !text.chars().any(char::is_control)
}

text_type!(
    /// The sender's own key for a send: a retry with it is the same act (INV-IDEM-1).
    /// Scope: (conversation, sender type, sender id).
    ClientMessageId, "client_message_id", |text| is_short_text(text, CLIENT_MESSAGE_ID_CHARS_MAX),
    "must have 1 to 128 characters and no control characters"
);
text_type!(
    /// A person's machine, named by the client.
    /// One that opens connections has no spaces ([`DeviceId::connecting`]); one that only syncs may be "new device".
    DeviceId, "device_id",
    |text| (1..=DEVICE_ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        && text.trim() == text,
    "must have 1 to 64 visible ASCII characters"
);

impl DeviceId {
    /// The name of a device that says hello or acts: without spaces, since a header carries it.
    pub fn connecting(text: &str) -> Result<Self, InvalidField> {
        let visible = text.bytes().all(|b| b.is_ascii_graphic());
        Self::parse(if visible { text } else { "" })
    }
}

text_type!(
    /// The id of a principal in the host's own user system.
    ExternalId, "external_id", |text| is_short_text(text, EXTERNAL_ID_CHARS_MAX),
    "must have 1 to 128 characters and no control characters"
);
text_type!(
    /// A reaction: any short text, byte for byte, so that skin tones and variation selectors stay distinct (B103).
    Emoji, "emoji",
    |text| (1..=EMOJI_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control),
    "must have 1 to 64 bytes of UTF-8 and no control characters"
);
text_type!(
    /// The caller's own key for making something once: a group, an announcement.
    ClientRequestId, "client_request_id", |text| is_short_text(text, CLIENT_REQUEST_ID_CHARS_MAX),
    "must have 1 to 128 characters and no control characters"
);

/// Milliseconds since 1970, UTC. Time never orders anything: [`Seq`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// So much earlier.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` until here; nothing, if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_plain_decimals_only() {
        assert_eq!(
            MessageId::parse("9223372036854775807").map(MessageId::get),
            Some(i64::MAX)
        );
        for bad in [
            "",
            "0",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "99999999999999999999",
            "seven",
            "１",
        ] {
            assert_eq!(MessageId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn keys_keep_every_character_and_refuse_control_characters() {
        for good in ["a".repeat(128).as_str(), "键".repeat(128).as_str(), " ", "abc ", "🎉"] {
            assert_eq!(
                ClientMessageId::parse(good).map(|key| key.as_str().to_owned()),
                Ok(good.to_owned())
            );
        }
        for bad in ["", "tab\there", "a\u{0}", "\u{7f}", "\u{85}", "a".repeat(129).as_str()] {
            assert!(ClientMessageId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn b103_emojis_that_differ_in_one_byte_are_different() {
        let family = "👨\u{200d}👩\u{200d}👧\u{200d}👦";
        let different = ["👍", "👍🏽", "❤️", "❤", "ok", family];
        for (at, one) in different.iter().enumerate() {
            let one = Emoji::parse(one).unwrap();
            let same = different
                .iter()
                .position(|other| Emoji::parse(other).as_ref() == Ok(&one));
            assert_eq!(same, Some(at));
        }
        assert!(Emoji::parse(&"x".repeat(EMOJI_BYTES_MAX)).is_ok());
        for bad in ["", "\0", "a\n", "\u{85}", &"👍".repeat(17)] {
            assert!(Emoji::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn clients_cannot_name_the_system() {
        assert_eq!(Principal::parse(PrincipalType::System, "1"), None);
        assert_eq!(Principal::parse(PrincipalType::User, "0"), None);
        assert_ne!(
            Principal::parse(PrincipalType::User, "7"),
            Principal::parse(PrincipalType::Agent, "7")
        );
    }
}
