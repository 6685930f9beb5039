//! The members of a JSON object that a client sent, read one by one, so that a refusal names the field.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::domain::InvalidField;

/// An object's members, not yet looked at. Unknown ones are ignored, of repeated ones the last counts, `null` and
/// absent mean the same.
#[derive(Debug)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// `None` when the text is no JSON object.
    #[must_use]
    pub fn parse(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The JSON text of a member.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        let last = self.0.iter().rev().find(|(key, _)| key == name);
        last.map(|(_, value)| value.get()).filter(|json| *json != "null")
    }

    fn read<T: Deserialize<'a>>(&self, name: &'static str, hint: &'static str) -> Result<Option<T>, InvalidField> {
        let parse = |json| serde_json::from_str(json).map_err(|_| InvalidField::new(name, hint));
        self.raw(name).map(parse).transpose()
    }

    /// A string.
    pub fn text(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, InvalidField> {
        let text: Option<Text<'a>> = self.read(name, "must be a string")?;
        Ok(text.map(|text| text.0))
    }

    /// A number of 0 to 2^63-1.
    pub fn number(&self, name: &'static str) -> Result<Option<i64>, InvalidField> {
        const HINT: &str = "must be a whole number of 0 to 2^63-1";
        let number: Option<i64> = self.read(name, HINT)?;
        match number {
            Some(negative) if negative < 0 => Err(InvalidField::new(name, HINT)),
            number => Ok(number),
        }
    }

    /// An id: a decimal string, never a number, which a browser would round (B11).
    pub fn id<T>(&self, name: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, InvalidField> {
        let invalid = InvalidField::new(name, "must be an id: a decimal string of 1 to 2^63-1");
        let read = |json| {
            serde_json::from_str::<Text<'_>>(json)
                .ok()
                .and_then(|text| parse(&text.0))
        };
        self.raw(name).map(|json| read(json).ok_or(invalid)).transpose()
    }

    /// A list of objects.
    pub fn list(&self, name: &'static str) -> Result<Option<Vec<Self>>, InvalidField> {
        self.read(name, "must be a list of objects")
    }
}

/// Says that a field is missing.
pub fn required<T>(name: &'static str, value: Option<T>) -> Result<T, InvalidField> {
    value.ok_or(InvalidField::new(name, "is required"))
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((name, value));
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ConversationId;

    #[test]
    fn only_objects_have_fields() {
        for bad in [
            "",
            "not json",
            "[]",
            "7",
            "\"text\"",
            "null",
            "{",
            "{\"a\":1}}",
            "{\"a\":NaN}",
        ] {
            assert!(Fields::parse(bad).is_none(), "{bad}");
        }
        let deep = format!("{{\"a\":{}{},\"b\":7}}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(Fields::parse(&deep).unwrap().number("b"), Ok(Some(7)));
    }

    #[test]
    fn the_last_of_repeated_fields_counts_and_null_is_absent() {
        let fields = Fields::parse("{\"a\":\"x\",\"\\u0061\":\"y\",\"n\":null}").unwrap();
        assert_eq!(fields.text("a").unwrap().as_deref(), Some("y"));
        assert_eq!(fields.text("n"), Ok(None));
        assert_eq!(fields.text("b"), Ok(None));
    }

    #[test]
    fn b11_ids_are_strings_and_numbers_are_whole() {
        let json = "{\"s\":\"7\",\"n\":7,\"neg\":-1,\"f\":1.5,\"big\":9223372036854775808,\"zero\":\"0\",\"max\":9223372036854775807}";
        let fields = Fields::parse(json).unwrap();
        assert_eq!(fields.id("s", ConversationId::parse), Ok(ConversationId::new(7)));
        for bad in ["n", "neg", "zero"] {
            let name: &'static str = bad;
            assert_eq!(fields.id(name, ConversationId::parse).unwrap_err().field, bad);
        }
        assert_eq!(fields.number("max"), Ok(Some(i64::MAX)));
        for bad in ["s", "neg", "f", "big"] {
            assert_eq!(fields.number(bad).unwrap_err().field, bad);
        }
    }
}
