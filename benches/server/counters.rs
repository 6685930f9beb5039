//! What a database has done so far, by its own count.

use anyhow::{Context, Result};
use sqlx::{Connection, MySqlConnection};

use crate::database::numbers;
use crate::spread::float;

/// Where to ask.
pub(crate) enum Counters {
    Postgres(String),
    MySql(String),
    /// SQLite counts nothing.
    None,
}

impl Counters {
    pub(crate) fn of(url: &str) -> Self {
        match url.split(':').next() {
            Some("postgres") => Self::Postgres(url.to_owned()),
            Some("mysql") => Self::MySql(url.to_owned()),
            _ => Self::None,
        }
    }

    /// Flushes of the log, and round trips. On PostgreSQL a lane's transaction is one statement, so transactions are
    /// round trips; its backends report them about once a second, so a short run is known to a third.
    pub(crate) async fn read(&self) -> Result<Option<[f64; 2]>> {
        let counts = match self {
            Self::Postgres(url) => {
                let statement = "SELECT (SELECT wal_sync FROM pg_stat_wal), \
                    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())";
                numbers(url, statement, 2).await?.pop().context("one row")?
            }
            Self::MySql(url) => {
                let mut connection = MySqlConnection::connect(url).await?;
                let mut counts = Vec::new();
                for statement in [
                    "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_fsyncs'",
                    "SHOW GLOBAL STATUS LIKE 'Questions'",
                ] {
                    let (_, count): (String, String) = sqlx::query_as(statement).fetch_one(&mut connection).await?;
                    counts.push(count.parse()?);
                }
                counts
            }
            Self::None => return Ok(None),
        };
        let count = |at: usize| counts.get(at).and_then(|count| usize::try_from(*count).ok());
        Ok(count(0)
            .zip(count(1))
            .map(|(flushes, trips)| [float(flushes), float(trips)]))
    }
}
