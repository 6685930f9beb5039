//! Checking tokens, and minting them for `onescribe token`.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation, decode, decode_header, encode};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::keys::{KeyError, Keys};
use crate::domain::{Name, PrincipalType, Subject, Timestamp};

/// The longest token that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 8_192;

/// Why a token does not count. Tells an honest client what to do, and a forger nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AuthError {
    /// None was given.
    #[error("a bearer token is required")]
    Missing,
    /// Not three parts of base64 and JSON, or too long.
    #[error("the token is not a JWT")]
    Malformed,
    /// `none`, or an algorithm that no key is there for.
    #[error("the token's alg is not accepted here")]
    Algorithm,
    /// No key has its `kid`, or several could fit.
    #[error("the token names no key that is known here")]
    UnknownKey,
    /// Not signed with that key.
    #[error("the token's signature is not valid")]
    Signature,
    /// `exp` is required.
    #[error("the token has no exp")]
    NoExpiry,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// `nbf` lies ahead.
    #[error("the token is not valid yet")]
    NotYet,
    /// `iss` is another.
    #[error("the token is of another issuer")]
    Issuer,
    /// `aud` does not name us.
    #[error("the token is for another audience")]
    Audience,
    /// `sub` is missing, empty or too long.
    #[error("the token's sub must have 1 to 128 characters and no control characters")]
    Subject,
    /// `typ` is neither USER nor AGENT.
    #[error("the token's typ must be USER or AGENT")]
    Type,
}

/// What a good token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Who.
    pub subject: Subject,
    /// Until when; the token is bad from this moment on.
    pub expires_at: Timestamp,
}

#[derive(Deserialize)]
struct Payload {
    sub: Option<serde_json::Value>,
    typ: Option<serde_json::Value>,
    exp: Option<serde_json::Value>,
    nbf: Option<serde_json::Value>,
}

/// Checks tokens with the configured keys.
#[derive(Debug)]
pub struct Authenticator {
    keys: Keys,
    issuer: Option<String>,
    audience: Option<String>,
}

impl Authenticator {
    /// `issuer` and `audience`, when given, must be in every token.
    #[must_use]
    pub fn new(keys: Keys, issuer: Option<String>, audience: Option<String>) -> Self {
        Self { keys, issuer, audience }
    }

    /// Checks signature, time and form of a token.
    ///
    /// # Errors
    /// [`AuthError`]: `unauthenticated`, with a reason that holds nothing of the token.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, AuthError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AuthError::Malformed);
        }
        let header = decode_header(token).map_err(|error| reason(&error))?;
        if !matches!(
            header.alg,
            Algorithm::HS256 | Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA
        ) {
            return Err(AuthError::Algorithm);
        }
        let key = self
            .keys
            .find(header.alg, header.kid.as_deref())
            .ok_or(AuthError::UnknownKey)?;
        let payload = decode::<Payload>(token, &key.key, &self.rules(key.algorithm)).map_err(|error| reason(&error))?;
        claims(&payload.claims, now)
    }

    fn rules(&self, algorithm: Algorithm) -> Validation {
        let mut rules = Validation::new(algorithm);
        let mut required = Vec::new();
        // The crate would ask its own clock: times are checked below, against ours.
        rules.validate_exp = false;
        if let Some(issuer) = &self.issuer {
            rules.set_issuer(&[issuer]);
            required.push("iss");
        }
        rules.validate_aud = self.audience.is_some();
        if let Some(audience) = &self.audience {
            rules.set_audience(&[audience]);
            required.push("aud");
        }
        rules.required_spec_claims = required.into_iter().map(str::to_owned).collect();
        rules
    }
}

fn claims(payload: &Payload, now: Timestamp) -> Result<Claims, AuthError> {
    let expires_at = payload.exp.as_ref().and_then(moment).ok_or(AuthError::NoExpiry)?;
    if expires_at <= now {
        return Err(AuthError::Expired);
    }
    match &payload.nbf {
        Some(not_before) if moment(not_before).is_none_or(|not_before| not_before > now) => {
            return Err(AuthError::NotYet);
        }
        _ => {}
    }
    let kind = match &payload.typ {
        None | Some(serde_json::Value::Null) => PrincipalType::User,
        Some(serde_json::Value::String(typ)) => match PrincipalType::parse(typ) {
            Some(kind @ (PrincipalType::User | PrincipalType::Agent)) => kind,
            _ => return Err(AuthError::Type),
        },
        Some(_) => return Err(AuthError::Type),
    };
    let sub = payload
        .sub
        .as_ref()
        .and_then(serde_json::Value::as_str)
        .ok_or(AuthError::Subject)?;
    let name = Name::parse(sub).map_err(|_| AuthError::Subject)?;
    Ok(Claims {
        subject: Subject { kind, name },
        expires_at,
    })
}

/// A NumericDate (RFC 7519): seconds since 1970, maybe with a fraction. One too far away is cut, not refused.
fn moment(value: &serde_json::Value) -> Option<Timestamp> {
    if let Some(secs) = value.as_i64() {
        return Some(Timestamp::from_millis(secs.saturating_mul(1_000)));
    }
    let secs = value.as_f64().filter(|secs| secs.is_finite())?;
    std::time::Duration::try_from_secs_f64(secs)
        .ok()
        .map(|since| Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

fn reason(error: &jsonwebtoken::errors::Error) -> AuthError {
    match error.kind() {
        ErrorKind::InvalidSignature => AuthError::Signature,
        ErrorKind::InvalidIssuer => AuthError::Issuer,
        ErrorKind::InvalidAudience => AuthError::Audience,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName | ErrorKind::UnsupportedAlgorithm => {
            AuthError::Algorithm
        }
        ErrorKind::MissingRequiredClaim(claim) if claim == "iss" => AuthError::Issuer,
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => AuthError::Audience,
        ErrorKind::InvalidClaimFormat(claim) if claim == "iss" => AuthError::Issuer,
        ErrorKind::InvalidClaimFormat(claim) if claim == "aud" => AuthError::Audience,
        _ => AuthError::Malformed,
    }
}

#[derive(Serialize)]
struct Minted<'a> {
    sub: &'a str,
    typ: &'static str,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

/// An HS256 token: `sub` as the contract has it, valid until `expires_at` (cut to the second).
///
/// # Errors
/// [`KeyError::EmptySecret`].
pub fn mint(
    secret: &str,
    sub: &str,
    kind: PrincipalType,
    expires_at: Timestamp,
    issuer: Option<&str>,
    audience: Option<&str>,
) -> Result<String, KeyError> {
    let claims = Minted {
        sub,
        typ: kind.as_str(),
        exp: expires_at.millis() / 1_000,
        iss: issuer,
        aud: audience,
    };
    let key = EncodingKey::from_secret(secret.as_bytes()).map_err(|_| KeyError::EmptySecret)?;
    encode(&Header::new(Algorithm::HS256), &claims, &key).map_err(|_| KeyError::EmptySecret)
}
