//! Bodies of the operator's REST, and of profiles: what is asked for, as domain values, and what is answered, as JSON.

use std::time::Duration;

use serde::Serialize;

use super::convert;
use super::fields::{Fields, required};
use super::rest::{avatar_url, bounded};
use super::view;
use crate::domain::{
    ExternalId, InvalidField, Name, Principal, PrincipalStatus, PrincipalType, ProfilePatch, Subject, Timestamp,
};

/// The longest display name, in characters.
pub const DISPLAY_NAME_CHARS_MAX: usize = 256;
/// How long a token lives unless said otherwise.
pub const TOKEN_TTL_DEFAULT: Duration = Duration::from_hours(1);
/// The longest life of a token: a century.
pub const TOKEN_TTL_MAX: Duration = Duration::from_hours(100 * 366 * 24);

/// `PATCH /v1/me`: absent leaves, `null` unsets.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn own_profile(fields: &Fields<'_>) -> Result<ProfilePatch, InvalidField> {
    Ok(ProfilePatch {
        display_name: fields.patch("display_name", display_name)?,
        avatar_url: fields.patch("avatar_url", avatar_url)?,
        ..ProfilePatch::default()
    })
}

/// `PUT /admin/v1/users/{id}`: absent leaves, `null` unsets.
///
/// # Errors
/// `invalid_request` with the field's name.
pub fn user(fields: &Fields<'_>) -> Result<ProfilePatch, InvalidField> {
    const STATUS: &str = "must be ACTIVE or DISABLED";
    let status = fields.patch("status", |fields| fields.word("status", STATUS, PrincipalStatus::parse))?;
    Ok(ProfilePatch {
        external_id: fields.patch("external_id", external_id)?,
        status: status
            .map(|status| status.ok_or(InvalidField::new("status", STATUS)))
            .transpose()?,
        ..own_profile(fields)?
    })
}

fn display_name(fields: &Fields<'_>) -> Result<Option<String>, InvalidField> {
    const HINT: &str = "must have at most 256 characters and no control characters";
    bounded(fields, "display_name", DISPLAY_NAME_CHARS_MAX, HINT)
}

fn external_id(fields: &Fields<'_>) -> Result<Option<ExternalId>, InvalidField> {
    let Some(text) = fields.text("external_id")? else {
        return Ok(None);
    };
    match Name::parse(&text)? {
        Name::External(external_id) => Ok(Some(external_id)),
        // A token with such a `sub` is of the principal with that number, so nobody could ever be found by it.
        Name::Id(_) => Err(InvalidField::new(
            "external_id",
            "must not be a decimal number of 1 to 2^63-1: that is an id of this server",
        )),
    }
}

/// `POST /admin/v1/tokens`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Who: a decimal id or an external id.
    pub sub: String,
    /// USER or AGENT.
    pub kind: PrincipalType,
    /// How long it is valid.
    pub ttl: Duration,
}

impl NewToken {
    /// `typ` is USER and `ttl_secs` 3,600 unless given.
    ///
    /// # Errors
    /// `invalid_request` with the field's name.
    pub fn read(fields: &Fields<'_>) -> Result<Self, InvalidField> {
        const TYP: &str = "must be USER or AGENT";
        let sub = required("sub", fields.text("sub")?)?;
        Name::parse(&sub).map_err(|invalid| InvalidField::new("sub", invalid.hint))?;
        let kind = fields.word("typ", TYP, PrincipalType::parse)?;
        let kind = kind.unwrap_or(PrincipalType::User);
        if kind == PrincipalType::System {
            return Err(InvalidField::new("typ", TYP));
        }
        let secs = fields.number("ttl_secs")?.and_then(|secs| u64::try_from(secs).ok());
        let ttl = secs.map_or(TOKEN_TTL_DEFAULT, Duration::from_secs);
        if ttl.is_zero() || ttl > TOKEN_TTL_MAX {
            return Err(InvalidField::new("ttl_secs", "must be 1 to 3162240000 (100 years)"));
        }
        let sub = sub.into_owned();
        Ok(Self { sub, kind, ttl })
    }
}

/// `owner` of a conversation that the operator makes: the creator of a GROUP, one of the two of a DIRECT.
///
/// # Errors
/// `invalid_request` when it is missing or no principal.
pub fn owner(fields: &Fields<'_>) -> Result<Subject, InvalidField> {
    required("owner", fields.subject("owner")?)
}

/// In whose name the operator speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The server itself.
    System,
    /// A user or an agent.
    Somebody(Subject),
}

/// `sender` of a message that the operator sends; absent = the server itself.
///
/// # Errors
/// `invalid_request` when it is no principal.
pub fn sender(fields: &Fields<'_>) -> Result<Sender, InvalidField> {
    const HINT: &str =
        "must be {\"type\": \"USER\", \"AGENT\" or \"SYSTEM\", \"id\": string}; the id of SYSTEM is \"0\"";
    let invalid = InvalidField::new("sender", HINT);
    let Some(json) = fields.raw("sender") else {
        return Ok(Sender::System);
    };
    let object = Fields::parse(json).ok_or(invalid.clone())?;
    let kind = object.word("type", HINT, PrincipalType::parse);
    if kind.map_err(|_| invalid.clone())? != Some(PrincipalType::System) {
        let somebody = fields.subject("sender").map_err(|_| invalid.clone())?;
        return somebody.map(Sender::Somebody).ok_or(invalid);
    }
    let id = object.text("id").map_err(|_| invalid.clone())?;
    let is_server = id.is_none_or(|id| id == Principal::SYSTEM.id.to_string());
    if is_server { Ok(Sender::System) } else { Err(invalid) }
}

/// A user or an agent, as the operator sees one.
#[derive(Debug, Serialize)]
pub struct User<'a> {
    #[serde(flatten)]
    profile: view::Profile<'a>,
    status: &'static str,
}

impl<'a> From<&'a crate::domain::Profile> for User<'a> {
    fn from(profile: &'a crate::domain::Profile) -> Self {
        Self {
            profile: profile.into(),
            status: profile.status.as_str(),
        }
    }
}

/// A token that was made.
#[derive(Debug, Serialize)]
pub struct Token<'a> {
    /// The bearer token.
    pub token: &'a str,
    /// Until when it is valid.
    #[serde(serialize_with = "convert::time")]
    pub expires_at: Timestamp,
}

/// `GET /admin/v1/stats`
#[derive(Debug, Serialize)]
pub struct Stats {
    /// Of this server.
    pub version: &'static str,
    /// Now.
    #[serde(serialize_with = "convert::time")]
    pub server_time: Timestamp,
    /// Connections to this process that have said hello.
    pub sessions: usize,
    /// Conversations in the store, dissolved ones included.
    pub conversations: u64,
    /// Users and agents in the store, disabled ones included.
    pub principals: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields<'_> {
        Fields::parse(json).unwrap()
    }

    #[test]
    fn the_operator_speaks_as_the_server_or_as_somebody() {
        for system in [
            "{}",
            "{\"sender\":null}",
            "{\"sender\":{\"type\":\"SYSTEM\",\"id\":\"0\"}}",
            "{\"sender\":{\"type\":\"SYSTEM\"}}",
        ] {
            assert_eq!(sender(&fields(system)), Ok(Sender::System), "{system}");
        }
        let agent = sender(&fields("{\"sender\":{\"type\":\"AGENT\",\"id\":\"7\"}}"));
        assert_eq!(agent, Ok(Sender::Somebody(Principal::agent(7).into())));
        for bad in [
            "7",
            "{}",
            "{\"type\":\"SYSTEM\",\"id\":\"7\"}",
            "{\"type\":\"SYSTEM\",\"id\":0}",
            "{\"type\":\"USER\",\"id\":\"0\"}",
        ] {
            let json = format!("{{\"sender\":{bad}}}");
            assert_eq!(sender(&fields(&json)).unwrap_err().field, "sender", "{bad}");
        }
    }

    #[test]
    fn tokens_have_a_bounded_life() {
        let read = |json: &str| NewToken::read(&fields(json));
        let token = read("{\"sub\":\"ann\"}").unwrap();
        assert_eq!((token.kind, token.ttl), (PrincipalType::User, TOKEN_TTL_DEFAULT));
        let agent = read("{\"sub\":\"7\",\"typ\":\"AGENT\",\"ttl_secs\":60}").unwrap();
        assert_eq!((agent.kind, agent.ttl.as_secs()), (PrincipalType::Agent, 60));
        for (bad, field) in [
            ("{}", "sub"),
            ("{\"sub\":\"\"}", "sub"),
            ("{\"sub\":\"7\",\"typ\":\"SYSTEM\"}", "typ"),
            ("{\"sub\":\"7\",\"ttl_secs\":0}", "ttl_secs"),
            ("{\"sub\":\"7\",\"ttl_secs\":9223372036854775807}", "ttl_secs"),
        ] {
            assert_eq!(read(bad).unwrap_err().field, field, "{bad}");
        }
    }

    #[test]
    fn a_put_leaves_what_is_absent_and_unsets_what_is_null() {
        let patch = user(&fields("{\"display_name\":null,\"status\":\"DISABLED\"}")).unwrap();
        assert_eq!((patch.display_name, patch.avatar_url), (Some(None), None));
        assert_eq!(
            (patch.external_id, patch.status),
            (None, Some(PrincipalStatus::Disabled))
        );
        for (bad, field) in [
            ("{\"status\":null}", "status"),
            ("{\"status\":\"SLEEPING\"}", "status"),
            ("{\"external_id\":\"1001\"}", "external_id"),
            ("{\"external_id\":\"\"}", "external_id"),
            ("{\"display_name\":7}", "display_name"),
            ("{\"display_name\":\"a\\nb\"}", "display_name"),
        ] {
            assert_eq!(user(&fields(bad)).unwrap_err().field, field, "{bad}");
        }
    }
}
