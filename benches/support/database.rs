//! A database of its own for a benchmark, its conversations, and the check afterwards that what was acked is there.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection, Row};

use crate::design::Acked;

/// Where PostgreSQL is: the script `tests/run` sets it.
pub(crate) const URL_VARIABLE: &str = "ONESCRIBE_TEST_POSTGRES_URL";

/// A database of its own; sqlx wants statements as literals.
pub(crate) struct Name {
    pub(crate) name: &'static str,
    pub(crate) drop: &'static str,
    pub(crate) create: &'static str,
}

/// For what we measure.
pub(crate) const OURS: Name = Name {
    name: "onescribe_bench",
    drop: "DROP DATABASE IF EXISTS onescribe_bench WITH (FORCE)",
    create: "CREATE DATABASE onescribe_bench",
};

/// Makes a database anew, empty, and answers its URL.
pub(crate) async fn fresh(database: &Name) -> Result<String> {
    let url = std::env::var(URL_VARIABLE).with_context(|| {
        format!("{URL_VARIABLE} is not set: run `tests/run databases --redis -- cargo bench` or set it yourself")
    })?;
    let mut admin = PgConnection::connect(&url)
        .await
        .context("PostgreSQL cannot be reached")?;
    sqlx::query(database.drop).execute(&mut admin).await?;
    sqlx::query(database.create).execute(&mut admin).await?;
    with_database(&url, database.name)
}

/// The same server, another database.
fn with_database(url: &str, name: &str) -> Result<String> {
    let (rest, query) = url
        .split_once('?')
        .map_or((url, None), |(rest, query)| (rest, Some(query)));
    let authority = rest.find("://").map_or(0, |at| at + 3);
    let end = rest
        .get(authority..)
        .and_then(|tail| tail.find('/'))
        .map_or(rest.len(), |at| authority + at);
    let server = rest.get(..end).context("the URL of PostgreSQL has no server")?;
    Ok(match query {
        Some(query) => format!("{server}/{name}?{query}"),
        None => format!("{server}/{name}"),
    })
}

/// Conversations for a rival: a bare row each, with the ids `first..first + count`.
pub(crate) async fn add_conversations(connection: &mut PgConnection, first: i64, count: i64) -> Result<Vec<i64>> {
    sqlx::query(
        "INSERT INTO im_conversation (conversation_id, kind, history_visibility, posting, adding, status, created_at, \
         updated_at, last_seq, last_change_seq, last_count_no, chain_hash, last_message_seq, last_activity_at, \
         member_count) SELECT id, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, '\\x00', 0, 0, 8 FROM generate_series($1, $2) AS id",
    )
    .bind(first)
    .bind(first + count - 1)
    .execute(connection)
    .await?;
    Ok((first..first + count).collect())
}

/// Every acked message is stored under the number that its sender was told, and the numbers of each conversation are
/// 1, 2, 3 … without a hole. Answers how many rows there are.
pub(crate) async fn check(url: &str, conversations: &[i64], acked: &[Acked]) -> Result<usize> {
    let mut connection = PgConnection::connect(url).await?;
    let rows = sqlx::query("SELECT conversation_id, message_id, seq FROM im_message WHERE conversation_id = ANY($1)")
        .bind(conversations)
        .fetch_all(&mut connection)
        .await?;
    let stored: HashSet<(i64, i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let missing = acked
        .iter()
        .filter(|acked| !stored.contains(&(acked.conversation_id, acked.message_id, acked.seq)));
    ensure!(missing.count() == 0, "an acked message is not stored as it was acked");
    let holes: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT 1 FROM im_message WHERE conversation_id = ANY($1) \
         GROUP BY conversation_id HAVING min(seq) <> 1 OR max(seq) <> count(*)) AS broken",
    )
    .bind(conversations)
    .fetch_one(&mut connection)
    .await?;
    ensure!(holes == 0, "{holes} conversations have a hole");
    Ok(rows.len())
}

/// The settings that decide what an ack is worth.
pub(crate) async fn settings(url: &str) -> Result<String> {
    let mut connection = PgConnection::connect(url).await?;
    let values: Vec<(String, String)> = sqlx::query_as(
        "SELECT name, setting || coalesce(' × ' || unit, '') FROM pg_settings WHERE name IN ('fsync', \
         'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_wal_size', 'server_version') ORDER BY name",
    )
    .fetch_all(&mut connection)
    .await?;
    let values: Vec<String> = values.iter().map(|(name, value)| format!("{name} {value}")).collect();
    Ok(format!("PostgreSQL: {}", values.join(", ")))
}
