//! Signing tokens with a secret of our own.

use secrecy::{ExposeSecret as _, SecretString};

use super::jwt::mint;
use super::keys::KeyError;
use crate::domain::{InvalidField, Name, PrincipalType, Timestamp};

/// Makes HS256 tokens that this server takes.
#[derive(Debug)]
pub struct Signer {
    secret: SecretString,
    issuer: Option<String>,
    audience: Option<String>,
}

impl Signer {
    /// `issuer` and `audience`, when given, are in every token.
    #[must_use]
    pub const fn new(secret: SecretString, issuer: Option<String>, audience: Option<String>) -> Self {
        Self {
            secret,
            issuer,
            audience,
        }
    }

    /// A token for a principal, named by id or by external id, valid until `expires_at` (cut to the second).
    ///
    /// # Errors
    /// When `sub` cannot be the name of a principal, or the secret is empty.
    pub fn token(&self, sub: &str, kind: PrincipalType, expires_at: Timestamp) -> Result<String, SignError> {
        Name::parse(sub)?;
        let (issuer, audience) = (self.issuer.as_deref(), self.audience.as_deref());
        Ok(mint(
            self.secret.expose_secret(),
            sub,
            kind,
            expires_at,
            issuer,
            audience,
        )?)
    }
}

/// Why there is no token.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SignError {
    /// No name of a principal.
    #[error(transparent)]
    Subject(#[from] InvalidField),
    /// No usable secret.
    #[error(transparent)]
    Key(#[from] KeyError),
}
