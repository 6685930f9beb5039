//! A database of its own for a benchmark, and the check afterwards that what was acked is there.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, MySql, Postgres, QueryBuilder, Row, Sqlite};

use crate::design::Acked;
use crate::test_database::TestDatabase;

/// The kinds of databases.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    #[value(name = "mysql")]
    MySql,
}

/// A new database; it is dropped with the handle.
pub(crate) async fn fresh(kind: Kind) -> Result<TestDatabase> {
    let missing = "no database server is given: run `tests/run databases --redis -- cargo bench …`, which starts them";
    match kind {
        Kind::Sqlite => Ok(TestDatabase::sqlite()),
        Kind::Postgres => TestDatabase::postgres().await.context(missing),
        Kind::MySql => TestDatabase::mysql().await.context(missing),
    }
}

/// The rows of whole numbers that a statement gives.
pub(crate) async fn numbers(url: &str, statement: &str, columns: usize) -> Result<Vec<Vec<i64>>> {
    macro_rules! numbers_of {
        ($database:ty) => {{
            let mut connection = <$database as sqlx::Database>::Connection::connect(url).await?;
            let rows = QueryBuilder::<$database>::new(statement)
                .build()
                .fetch_all(&mut connection)
                .await?;
            let row = |row| (0..columns).map(|column| Row::try_get(row, column)).collect();
            rows.iter().map(row).collect::<Result<_, sqlx::Error>>()?
        }};
    }
    Ok(match url.split(':').next() {
        Some("postgres") => numbers_of!(Postgres),
        Some("mysql") => numbers_of!(MySql),
        _ => numbers_of!(Sqlite),
    })
}

/// Carries a statement out.
pub(crate) async fn execute(url: &str, statement: &str) -> Result<()> {
    numbers(url, statement, 0).await.map(drop)
}

/// Every acked message is stored under the number that its sender was told, and the numbers of each conversation are
/// 1, 2, 3 … without a hole. Answers how many rows were looked at for that.
pub(crate) async fn check(url: &str, conversations: &[i64], acked: &[Acked]) -> Result<usize> {
    let ids: Vec<String> = conversations.iter().map(i64::to_string).collect();
    let ids = ids.join(", ");
    let first = acked.iter().map(|acked| acked.message_id).min().unwrap_or_default();
    let rows = format!(
        "SELECT conversation_id, message_id, seq FROM im_message WHERE conversation_id IN ({ids}) \
         AND message_id >= {first}"
    );
    let stored: HashSet<Vec<i64>> = numbers(url, &rows, 3).await?.into_iter().collect();
    let missing = acked
        .iter()
        .filter(|acked| !stored.contains(&vec![acked.conversation_id, acked.message_id, acked.seq]));
    ensure!(missing.count() == 0, "an acked message is not stored as it was acked");
    let broken = format!(
        "SELECT conversation_id FROM im_message WHERE conversation_id IN ({ids}) \
         GROUP BY conversation_id HAVING min(seq) <> 1 OR max(seq) <> count(*)"
    );
    let holes = numbers(url, &broken, 1).await?.len();
    ensure!(holes == 0, "{holes} conversations have a hole");
    Ok(stored.len())
}

/// The settings that decide what an ack is worth.
pub(crate) async fn settings(url: &str) -> Result<String> {
    let store = onescribe::storage::sql::open(url, onescribe::storage::sql::OpenOptions::default()).await?;
    let durability = store.durability().await?;
    store.close().await;
    Ok(durability.summary)
}
