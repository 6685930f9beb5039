//! The `client_message_id` of a message of ours says who sent it and when it was planned, so whoever receives it needs
//! no table: `b7f3a90c-12-3456-789012` is run, sender, number of the sender's message, microseconds since the start.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Names one message of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) run: u32,
    pub(super) sender: u32,
    /// 0, 1, 2 … of this sender.
    pub(super) number: u64,
    /// When it was to be sent, in microseconds since the run began.
    pub(super) planned: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{:08x}-{}-{}-{}", self.run, self.sender, self.number, self.planned)
    }
}

impl Key {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('b')?.split('-');
        let key = Self {
            run: u32::from_str_radix(parts.next()?, 16).ok()?,
            sender: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
            planned: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(key)
    }
}

/// A key as it comes in; none where the message is not ours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named(pub(super) Option<Key>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Named;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a client_message_id")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Named, E> {
                Ok(Named(Key::parse(text)))
            }
            fn visit_unit<E: Error>(self) -> Result<Named, E> {
                Ok(Named(None))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_as_it_went_and_others_are_nobody() {
        let key = Key {
            run: 0xb7,
            sender: 12,
            number: 3_456,
            planned: 789,
        };
        assert_eq!(key.to_string(), "b000000b7-12-3456-789");
        let parsed: Named = serde_json::from_str("\"b000000b7-12-3456-789\"").unwrap();
        assert_eq!(parsed.0, Some(key));
        for other in ["\"a-1\"", "\"b1-2-3\"", "\"b1-2-3-4-5\"", "\"\\u00e9\\n\"", "null"] {
            assert_eq!(serde_json::from_str::<Named>(other).unwrap().0, None, "{other}");
        }
    }
}
