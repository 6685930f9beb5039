//! Opens the store, and says how durable it is.

use std::sync::Arc;

use secrecy::ExposeSecret as _;

use crate::config::Database;
use crate::storage::Store;
use crate::storage::sql::{self, OpenOptions};

/// Connects, and brings the schema up to date if `auto_migrate`.
///
/// # Errors
/// When the database cannot be reached, or its tables are not of this version. No error holds the password.
pub async fn open(database: &Database, auto_migrate: bool) -> anyhow::Result<Arc<dyn Store>> {
    let options = OpenOptions {
        auto_migrate,
        connections: database.read_connections,
    };
    Ok(sql::open(database.url.expose_secret(), options).await?)
}

/// The start-up lines about what "stored" means on this database: an operator should never be surprised by it.
pub(super) async fn say_how_durable(store: &dyn Store) -> anyhow::Result<()> {
    let durability = store.durability().await?;
    if durability.weaker.is_empty() {
        tracing::info!(store = durability.summary, "an acknowledged message is on disk");
    } else {
        tracing::info!(store = durability.summary, "connected");
    }
    for weaker in durability.weaker {
        tracing::warn!("acknowledged does not mean durable here: {weaker}");
    }
    Ok(())
}
