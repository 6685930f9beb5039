//! The keys that tokens may be signed with: a secret, a public key, a JWKS file.

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey};
use thiserror::Error;

/// The most keys of a JWKS file.
const KEYS_MAX: usize = 64;

/// A point of the curve P-256, not compressed: other curves are not served.
const P256_POINT_BYTES: usize = 65;

/// Why a key cannot be used. Says what is wrong with it, never what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Not a key, or of a kind that is not served.
    #[error("must be the PEM of a public key for RS256, ES256 (P-256) or EdDSA (Ed25519)")]
    Pem,
    /// Not a JWKS.
    #[error("must be a JWKS: {{\"keys\": [...]}}")]
    Jwks,
    /// A JWKS without a key for RS256, ES256 or EdDSA.
    #[error("has no signing key for RS256, ES256 or EdDSA")]
    NoKey,
    /// More than are read.
    #[error("has more than 64 keys")]
    TooMany,
    /// An empty secret.
    #[error("must not be empty")]
    EmptySecret,
}

/// A key serves one algorithm only, so that a public key is never taken for an HMAC secret.
pub(super) struct Key {
    pub(super) kid: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

/// All keys that tokens are checked with.
#[derive(Default)]
pub struct Keys(Vec<Key>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|key| (&key.kid, key.algorithm)))
            .finish()
    }
}

impl Keys {
    /// Adds the HS256 secret.
    ///
    /// # Errors
    /// [`KeyError::EmptySecret`].
    pub fn add_secret(&mut self, secret: &str) -> Result<(), KeyError> {
        let key = DecodingKey::from_secret(secret.as_bytes()).map_err(|_| KeyError::EmptySecret)?;
        self.0.push(Key {
            kid: None,
            algorithm: Algorithm::HS256,
            key,
        });
        Ok(())
    }

    /// Adds the public key of a PEM file; what kind it is says the file itself.
    ///
    /// # Errors
    /// [`KeyError::Pem`].
    pub fn add_pem(&mut self, pem: &str) -> Result<(), KeyError> {
        let pem = pem.as_bytes();
        let rsa = || DecodingKey::from_rsa_pem(pem).map(|key| (Algorithm::RS256, key));
        let ec = || DecodingKey::from_ec_pem(pem).map(|key| (Algorithm::ES256, key));
        let ed = || DecodingKey::from_ed_pem(pem).map(|key| (Algorithm::EdDSA, key));
        let found = rsa().or_else(|_| ec()).or_else(|_| ed());
        let (algorithm, key) = found.map_err(|_| KeyError::Pem)?;
        let point_bytes = key.try_get_as_bytes().map_or(0, <[u8]>::len);
        if algorithm == Algorithm::ES256 && point_bytes != P256_POINT_BYTES {
            return Err(KeyError::Pem);
        }
        self.0.push(Key {
            kid: None,
            algorithm,
            key,
        });
        Ok(())
    }

    /// Adds the keys of a JWKS file. Those that are not for signing with RS256, ES256 or EdDSA are passed over.
    ///
    /// # Errors
    /// [`KeyError::Jwks`], [`KeyError::NoKey`], [`KeyError::TooMany`].
    pub fn add_jwks(&mut self, json: &str) -> Result<(), KeyError> {
        let set: JwkSet = serde_json::from_str(json).map_err(|_| KeyError::Jwks)?;
        if set.keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        let before = self.0.len();
        self.0.extend(set.keys.iter().filter_map(key_of));
        if self.0.len() == before {
            Err(KeyError::NoKey)
        } else {
            Ok(())
        }
    }

    /// The key for a token: the one that it names by `kid`, else the only one for its algorithm.
    pub(super) fn find(&self, algorithm: Algorithm, kid: Option<&str>) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| key.algorithm == algorithm);
        if let Some(kid) = kid
            && let Some(named) = self.0.iter().find(|key| key.kid.as_deref() == Some(kid))
        {
            return Some(named).filter(|key| key.algorithm == algorithm);
        }
        let only = fitting.next()?;
        if fitting.next().is_some() { None } else { Some(only) }
    }
}

fn key_of(jwk: &Jwk) -> Option<Key> {
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(ec) if ec.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(okp) if okp.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        _ => return None,
    };
    let declared = jwk
        .common
        .key_algorithm
        .is_none_or(|declared| declared.to_string() == format!("{algorithm:?}"));
    let signs = jwk
        .common
        .public_key_use
        .as_ref()
        .is_none_or(|usage| *usage == jsonwebtoken::jwk::PublicKeyUse::Signature);
    if !declared || !signs {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(Key {
        kid: jwk.common.key_id.clone(),
        algorithm,
        key,
    })
}
