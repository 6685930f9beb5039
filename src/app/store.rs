//! Opens the store, and says how durable it is.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use secrecy::ExposeSecret as _;

use crate::config::Database;
use crate::storage::Store;
use crate::storage::sql::{self, OpenOptions};

/// Connects, and brings the schema up to date if `auto_migrate`. Without it nothing is made: a store that is not there
/// is an error.
///
/// # Errors
/// When the database cannot be reached, or its tables are not of this version. No error holds the password.
pub async fn open(database: &Database, auto_migrate: bool) -> anyhow::Result<Arc<dyn Store>> {
    let url = database.url.expose_secret();
    let place = place(url);
    if let Some(file) = place.strip_prefix("sqlite://")
        && !auto_migrate
        && !Path::new(file).exists()
    {
        bail!("there is no store at {file}: see database.url, or make one with `onescribe migrate`");
    }
    let options = OpenOptions {
        auto_migrate,
        connections: database.read_connections,
        ..OpenOptions::default()
    };
    let opened = sql::open(url, options).await;
    opened.with_context(|| format!("cannot use the database at {place} (database.url)"))
}

/// What of a URL may be shown: neither the user nor the password nor the options.
fn place(url: &str) -> String {
    let plain = url.split('?').next().unwrap_or_default();
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}://{rest}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SecretString;

    #[test]
    fn the_place_of_a_database_shows_no_password() {
        for (url, shown) in [
            ("sqlite://onescribe.db", "sqlite://onescribe.db"),
            ("sqlite:///var/lib/one.db?mode=rwc", "sqlite:///var/lib/one.db"),
            (
                "postgres://me:hunter2@host:5432/name?password=hunter2",
                "postgres://host:5432/name",
            ),
            ("mysql://me:hunter@2@host/name", "mysql://host/name"),
            ("postgres:///name", "postgres:///name"),
        ] {
            assert_eq!(place(url), shown);
        }
    }

    #[tokio::test]
    async fn a_store_that_is_not_there_is_not_made_by_looking_at_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("none.db");
        let database = Database {
            url: SecretString::from(format!("sqlite://{}", file.display())),
            ..Database::default()
        };
        let error = open(&database, false).await.err().unwrap();
        assert!(error.to_string().starts_with("there is no store at"), "{error:#}");
        assert!(!file.exists());
    }
}
