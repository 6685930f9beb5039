//! What the tests that run the real binary share: the process, a recording client, tokens, a proxy that breaks things.
//!
//! Nothing here knows the inside of the server: only the wire contract, the binary and its settings. A test binary
//! takes it in with `#[path = "../support/mod.rs"] mod support;`.

pub(crate) mod client;
#[expect(dead_code, reason = "other test binaries look into its folder")]
pub(crate) mod database;
pub(crate) mod light;
pub(crate) mod proxy;
pub(crate) mod rest;
#[expect(dead_code, reason = "other test binaries stop it and look into it")]
pub(crate) mod s3;
pub(crate) mod server;
pub(crate) mod tokens;

use std::time::Duration;

/// How long a test waits for something that must happen. Generous, so that slow machines do not fail; nothing here
/// measures speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `future`, at most [`PATIENCE`]; a test that waits in vain fails with the name of what did not come.
pub(crate) async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}
