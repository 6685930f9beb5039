//! The members of a JSON object that a client sent, read one by one, so that a refusal names the field.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::domain::{InvalidField, Name, Principal, PrincipalType, Subject, json};

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

    /// A whole request body: one JSON object, without NUL and lone surrogates anywhere.
    ///
    /// # Errors
    /// `invalid_request`.
    pub fn of_body(json: &'a str) -> Result<Self, InvalidField> {
        let fields = Self::parse(json).ok_or(InvalidField::new("body", "must be one JSON object"))?;
        json::admit(json)?;
        Ok(fields)
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

    /// Of a PATCH or PUT body: `None` = absent, so it stays; `Some(None)` = `null`, so it is unset.
    pub fn patch<T>(
        &self,
        name: &'static str,
        read: impl Fn(&Self) -> Result<Option<T>, InvalidField>,
    ) -> Result<Option<Option<T>>, InvalidField> {
        if self.0.iter().any(|(key, _)| key == name) {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A truth value.
    pub fn flag(&self, name: &'static str) -> Result<Option<bool>, InvalidField> {
        self.read(name, "must be true or false")
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

    /// A list of 1 to `max` ids: decimal strings, as in [`Fields::id`].
    pub fn ids<T>(
        &self,
        name: &'static str,
        max: usize,
        hint: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, InvalidField> {
        let invalid = InvalidField::new(name, hint);
        let texts: Option<Vec<Text<'_>>> = self.read(name, hint)?;
        let read = |texts: Vec<Text<'_>>| {
            let fits = (1..=max).contains(&texts.len());
            let ids = texts.iter().map(|text| parse(&text.0)).collect::<Option<Vec<_>>>();
            ids.filter(|_| fits).ok_or(invalid)
        };
        texts.map(read).transpose()
    }

    /// One of the words of an enum; `hint` names them.
    pub fn word<T>(
        &self,
        name: &'static str,
        hint: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidField> {
        let word: Option<Text<'_>> = self.read(name, hint)?;
        let read = |word: Text<'_>| parse(&word.0).ok_or(InvalidField::new(name, hint));
        word.map(read).transpose()
    }

    /// A principal: `{"type", "id"}` or `{"type", "external_id"}`.
    pub fn subject(&self, name: &'static str) -> Result<Option<Subject>, InvalidField> {
        const HINT: &str = "must be {\"type\": \"USER\" or \"AGENT\", \"id\" or \"external_id\": string}";
        let object: Option<Self> = self.read(name, HINT)?;
        let read = |object: Self| object.as_subject().ok_or(InvalidField::new(name, HINT));
        object.map(read).transpose()
    }

    /// A list of principals, not longer than `max`.
    pub fn subjects(
        &self,
        name: &'static str,
        max: usize,
        hint: &'static str,
    ) -> Result<Option<Vec<Subject>>, InvalidField> {
        let invalid = InvalidField::new(name, hint);
        let objects: Option<Vec<Self>> = self.read(name, hint)?;
        let read = |objects: Vec<Self>| {
            let fits = objects.len() <= max;
            let subjects = objects.iter().map(Self::as_subject).collect::<Option<Vec<_>>>();
            subjects.filter(|_| fits).ok_or(invalid)
        };
        objects.map(read).transpose()
    }

    fn as_subject(&self) -> Option<Subject> {
        let kind = self.word("type", "", PrincipalType::parse).ok()??;
        let name = match self.text("id").ok()? {
            Some(id) => Name::Id(Principal::parse(kind, &id)?.id),
            None => Name::parse(&self.text("external_id").ok()??).ok()?,
        };
        (kind != PrincipalType::System).then_some(Subject { kind, name })
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

/// `limit`: at least 1; what is over `max` is cut to it.
pub fn limit(given: Option<i64>, default: u32, max: u32) -> Result<u32, InvalidField> {
    limit_of("limit", given, default, max)
}

/// A limit with a name of its own: at least 1; what is over `max` is cut to it.
pub fn limit_of(name: &'static str, given: Option<i64>, default: u32, max: u32) -> Result<u32, InvalidField> {
    match given {
        None => Ok(default),
        Some(number) if number < 1 => Err(InvalidField::new(name, "must be 1 or more")),
        Some(number) => Ok(u32::try_from(number).map_or(max, |number| number.min(max))),
    }
}

/// A number of a query string, as strict as in JSON.
pub fn query_number(name: &'static str, text: &str) -> Result<i64, InvalidField> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or(InvalidField::new(name, "must be a whole number of 0 to 2^63-1"))
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
    fn in_a_patch_null_unsets_and_absent_leaves() {
        let fields = Fields::parse("{\"set\":\"x\",\"unset\":null}").unwrap();
        let patch = |name| fields.patch(name, |fields| Ok(fields.text(name)?.map(Cow::into_owned)));
        assert_eq!(patch("set"), Ok(Some(Some("x".to_owned()))));
        assert_eq!(patch("unset"), Ok(Some(None)));
        assert_eq!(patch("absent"), Ok(None));
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

    #[test]
    fn b102_nul_and_lone_surrogates_are_refused_in_every_field() {
        for bad in [
            "{\"unknown\":[\"\\u0000\"]}",
            "{\"k\\u0000\":1}",
            "{\"a\":\"\\ud800\"}",
            "{\"\\udc00\":1}",
            "\u{feff}{}",
            "",
        ] {
            assert!(Fields::of_body(bad).is_err(), "{bad}");
        }
        assert!(Fields::of_body("{\"a\":\"\\\\u0000 as letters\"}").is_ok());
    }

    #[test]
    fn principals_have_an_id_or_an_external_id() {
        fn subject(raw: &str) -> Option<Subject> {
            let json = format!("{{\"member\":{raw}}}");
            Fields::parse(&json).unwrap().subject("member").ok().flatten()
        }
        let user = |name| {
            Some(Subject {
                kind: PrincipalType::User,
                name,
            })
        };
        assert_eq!(subject("{\"type\":\"USER\",\"id\":\"7\"}"), user(Name::Id(7)));
        let external = "{\"type\":\"USER\",\"id\":null,\"external_id\":\"ann\"}";
        assert_eq!(subject(external), user(Name::parse("ann").unwrap()));
        for bad in [
            "{\"type\":\"USER\",\"id\":7}",
            "{\"type\":\"USER\",\"id\":\"seven\"}",
            "{\"type\":\"USER\",\"id\":\"-7\"}",
            "{\"type\":\"USER\",\"id\":\"9223372036854775808\"}",
            "{\"type\":\"ROBOT\",\"id\":\"7\"}",
            "{\"type\":\"SYSTEM\",\"id\":\"7\"}",
            "{\"type\":\"SYSTEM\",\"external_id\":\"x\"}",
            "{\"type\":\"USER\"}",
            "{\"id\":\"7\"}",
            "{\"type\":\"USER\",\"external_id\":\"\"}",
            "\"7\"",
            "[]",
        ] {
            assert_eq!(subject(bad), None, "{bad}");
        }
    }

    #[test]
    fn lists_of_principals_are_bounded() {
        let json = "{\"members\":[{\"type\":\"USER\",\"id\":\"1\"},{\"type\":\"AGENT\",\"id\":\"1\"}]}";
        let fields = Fields::parse(json).unwrap();
        let found = fields.subjects("members", 2, "few").unwrap();
        assert_eq!(found.map(|list| list.len()), Some(2));
        assert!(fields.subjects("members", 1, "few").is_err());
        for bad in ["\"bob\"", "[7]", "{}", "[null]"] {
            let json = format!("{{\"members\":{bad}}}");
            assert!(
                Fields::parse(&json).unwrap().subjects("members", 9, "few").is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn limits_are_cut_and_nonsense_is_refused() {
        assert_eq!(limit(None, 50, 200), Ok(50));
        assert_eq!(limit(Some(i64::MAX), 50, 200), Ok(200));
        assert!(limit(Some(0), 50, 200).is_err());
        assert_eq!(query_number("limit", "9223372036854775807"), Ok(i64::MAX));
        for bad in ["", "abc", "-1", "+1", "1.5", "9223372036854775808", " 1", "1e3"] {
            assert!(query_number("limit", bad).is_err(), "{bad}");
        }
    }
}
