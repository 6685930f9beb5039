//! The admin key: whoever holds it is the operator.

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest as _, Sha256};

/// The fingerprint of the configured admin key; without a key nobody is the operator.
#[derive(Clone, Debug, Default)]
pub struct OperatorKey(Option<[u8; 32]>);

impl OperatorKey {
    /// An empty key is none.
    #[must_use]
    pub fn new(key: Option<&SecretString>) -> Self {
        let key = key.map(ExposeSecret::expose_secret).filter(|key| !key.is_empty());
        Self(key.map(|key| Sha256::digest(key.as_bytes()).into()))
    }

    /// Is this the key? Fingerprints are compared, so that the time it takes says nothing about the key.
    #[must_use]
    pub fn opens_for(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        self.0.is_some_and(|key| key == given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_configured_key_opens_and_no_key_opens_nothing() {
        let key = OperatorKey::new(Some(&SecretString::from("sesame")));
        assert!(key.opens_for("sesame") && !key.opens_for("Sesame") && !key.opens_for(""));
        for none in [OperatorKey::new(None), OperatorKey::new(Some(&SecretString::from("")))] {
            assert!(!none.opens_for("") && !none.opens_for("sesame"));
        }
        assert!(!format!("{key:?}").contains("sesame"));
    }
}
