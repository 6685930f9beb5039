//! Names of objects.

use std::fmt;

use uuid::Uuid;

/// The folder of objects that clients write past this server.
const INCOMING: &str = "incoming/";

/// The key of an object: `ab/cd/<uuid>`, or `incoming/<number>` for what a client writes past this server. Nothing that
/// a client has said is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// One that was never used.
    #[must_use]
    pub fn fresh() -> Self {
        let name = Uuid::new_v4().simple().to_string();
        let (first, second) = (name.get(..2).unwrap_or("00"), name.get(2..4).unwrap_or("00"));
        Self(format!("{first}/{second}/{name}"))
    }

    /// Where a client writes the file of this number.
    #[must_use]
    pub fn incoming(number: i64) -> Self {
        Self(format!("{INCOMING}{number}"))
    }

    /// Is it written past this server?
    #[must_use]
    pub fn is_incoming(&self) -> bool {
        self.0.starts_with(INCOMING)
    }

    /// Reads what [`ObjectKey::as_str`] wrote; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let incoming = |rest: &str| !rest.is_empty() && rest.len() <= 19 && rest.bytes().all(|b| b.is_ascii_digit());
        let own = || {
            let (first, rest) = text.split_once('/')?;
            let (second, name) = rest.split_once('/')?;
            let hex = name.len() == 32 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            Some(hex && name.get(..2) == Some(first) && name.get(2..4) == Some(second))
        };
        let ours = match text.strip_prefix(INCOMING) {
            Some(rest) => incoming(rest),
            None => own().unwrap_or(false),
        };
        ours.then(|| Self(text.to_owned()))
    }

    /// As it is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_ours_are_keys() {
        for key in [ObjectKey::fresh(), ObjectKey::incoming(i64::MAX)] {
            assert_eq!(ObjectKey::parse(key.as_str()), Some(key));
        }
        assert_ne!(ObjectKey::fresh(), ObjectKey::fresh());
        for text in [
            "",
            "incoming/",
            "incoming/x",
            "incoming/1/2",
            "ab/cd/abcd",
            "../../etc/passwd",
            "00/00/0123456789abcdef0123456789abcdef",
            "01/23/0123456789abcdef0123456789abcde/",
            "01/23/0123456789ABCDEF0123456789ABCDEF",
        ] {
            assert_eq!(ObjectKey::parse(text), None, "{text}");
        }
    }
}
