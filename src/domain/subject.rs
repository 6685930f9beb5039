//! How somebody outside names a principal: by our id, or by the id of the host's own user system.

use super::error::InvalidField;
use super::ids::{ExternalId, Principal, PrincipalType};

/// A principal as a token or a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// USER or AGENT.
    pub kind: PrincipalType,
    /// Which one.
    pub name: Name,
}

/// Our id, or a foreign one that has to be looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Ours: 1 to 2^63-1.
    Id(i64),
    /// The host's.
    External(ExternalId),
}

impl Name {
    /// Reads a token's `sub` or an `external_id`: a plain decimal of 1 to 2^63-1 is our id, any other text of 1 to 128
    /// characters is the host's. `007` is the host's, so that it never becomes somebody else's `7`.
    ///
    /// # Errors
    /// An empty text, one of more than 128 characters, or one with control characters.
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let id = Principal::parse(PrincipalType::User, text).filter(|_| !text.starts_with('0'));
        match id {
            Some(principal) => Ok(Self::Id(principal.id)),
            None => ExternalId::parse(text).map(Self::External),
        }
    }
}

impl From<Principal> for Subject {
    fn from(principal: Principal) -> Self {
        Self {
            kind: principal.kind,
            name: Name::Id(principal.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_decimal_is_our_id_and_anything_else_the_hosts() {
        assert_eq!(Name::parse("1001"), Ok(Name::Id(1001)));
        assert_eq!(Name::parse("9223372036854775807"), Ok(Name::Id(i64::MAX)));
        for external in [
            "0",
            "007",
            "-7",
            "9223372036854775808",
            "7.0",
            " 7",
            "ann",
            "键",
            &"x".repeat(128),
        ] {
            assert!(matches!(Name::parse(external), Ok(Name::External(_))), "{external}");
        }
        for bad in ["", "a\u{0}", "tab\there", &"x".repeat(129)] {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
    }
}
