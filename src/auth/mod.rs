//! WHO IS ASKING: a token becomes a subject, or nothing.
//!
//! Never here: a clock of its own (`now` is an argument), a look into the store, a token or key in an error or a log.

mod jwt;
mod keys;
mod operator;
mod signer;
#[cfg(test)]
mod tests;

pub use jwt::{AuthError, Authenticator, Claims, mint};
pub use keys::{KeyError, Keys};
pub use operator::OperatorKey;
pub use signer::{SignError, Signer};

pub use crate::domain::{Name, Subject};
