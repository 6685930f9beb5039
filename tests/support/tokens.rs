//! Tokens as a host's login service would make them: HS256 with the secret that [`super::server`] configures.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

/// The secret that the servers under test are given.
pub(crate) const SECRET: &str = "a-secret-of-the-tests-0123456789abcdef0123456789";
/// 2100-01-01: no test depends on the wall clock.
const EXPIRES: i64 = 4_102_444_800;

/// A token of `USER id`.
pub(crate) fn user_token(id: u64) -> String {
    let claims = json!({"sub": id.to_string(), "typ": "USER", "exp": EXPIRES});
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap()
}
