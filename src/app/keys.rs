//! How tokens are signed here: with the configured secret, with one that the store keeps, or somewhere else.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use secrecy::{ExposeSecret as _, SecretString};

use crate::auth::{self, Authenticator, Keys, SignError};
use crate::clock::{Clock as _, SystemClock};
use crate::config::Auth;
use crate::domain::{PrincipalType, Timestamp};
use crate::storage::Store;

/// The setting under which a secret of our own is kept.
const SECRET_SETTING: &str = "hs256_secret";

/// The secret that HS256 tokens are signed with; none where only public keys are configured. Without any key one is
/// made at the first start and kept, so that `onescribe token` works and tokens outlive a restart.
async fn secret(auth: &Auth, store: &dyn Store) -> anyhow::Result<Option<SecretString>> {
    if auth.hs256_secret.is_some() || !auth.makes_tokens() {
        return Ok(auth.hs256_secret.clone());
    }
    let fresh = rand::random::<[u8; 32]>().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").ok(); // writing to a String cannot fail
        hex
    });
    let kept = store.setting_or(SECRET_SETTING, &fresh).await;
    let kept = kept.context("the secret for tokens cannot be read from the store")?;
    Ok(Some(SecretString::from(kept)))
}

/// Checks tokens as configured.
pub(super) async fn authenticator(auth: &Auth, store: &dyn Store) -> anyhow::Result<Authenticator> {
    let mut keys = Keys::default();
    if let Some(secret) = secret(auth, store).await? {
        keys.add_secret(secret.expose_secret()).context("auth.hs256_secret")?;
    }
    if let Some(path) = &auth.public_key_file {
        let pem = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        keys.add_pem(&pem)
            .with_context(|| format!("auth.public_key_file: {}", path.display()))?;
    }
    if let Some(path) = &auth.jwks_file {
        let json = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        keys.add_jwks(&json)
            .with_context(|| format!("auth.jwks_file: {}", path.display()))?;
    }
    Ok(Authenticator::new(keys, auth.issuer.clone(), auth.audience.clone()))
}

/// Makes tokens that are valid from now on.
#[derive(Debug)]
pub struct Signer(auth::Signer);

/// Signs with the secret of this store; none where only public keys are configured.
pub(super) async fn own_signer(auth: &Auth, store: &dyn Store) -> anyhow::Result<Option<auth::Signer>> {
    let secret = secret(auth, store).await?;
    Ok(secret.map(|secret| auth::Signer::new(secret, auth.issuer.clone(), auth.audience.clone())))
}

/// The signer of this store.
///
/// # Errors
/// Where only public keys are configured: whoever has the private key makes the tokens.
pub async fn signer(auth: &Auth, store: &dyn Store) -> anyhow::Result<Signer> {
    let Some(signer) = own_signer(auth, store).await? else {
        bail!(
            "this server checks tokens with public keys only (auth.public_key_file, auth.jwks_file), so it cannot make \
             any: ask whoever holds the private key, or set auth.hs256_secret as well"
        );
    };
    Ok(Signer(signer))
}

/// Signs with this secret, or else with the configured one: no store is asked. None where there is neither.
pub fn signer_with(secret: Option<String>, auth: &Auth) -> Option<Signer> {
    let secret = secret.map(SecretString::from).or_else(|| auth.hs256_secret.clone())?;
    let signer = auth::Signer::new(secret, auth.issuer.clone(), auth.audience.clone());
    Some(Signer(signer))
}

impl Signer {
    /// A token for a principal, named by id or by external id.
    ///
    /// # Errors
    /// When `sub` cannot be the name of a principal.
    pub fn token(&self, sub: &str, kind: PrincipalType, ttl: Duration) -> anyhow::Result<String> {
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp::from_millis(SystemClock.now().millis().saturating_add(ttl_ms));
        self.0.token(sub, kind, until).map_err(|error| match error {
            SignError::Subject(invalid) => anyhow::anyhow!("--user {}", invalid.hint),
            SignError::Key(error) => error.into(),
        })
    }
}
