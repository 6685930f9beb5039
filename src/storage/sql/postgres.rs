//! PostgreSQL: UNNEST of arrays, so that each statement is one prepared text whatever the number of rows.

use std::sync::LazyLock;

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnection, PgQueryResult, Postgres};
use sqlx::{Executor, Row as _};

use super::dialect::{Dialect, Refusal};
use super::sends::{HeadRow, ReadRow, Sends};
use crate::domain::{Message, MessageId, Timestamp};
use crate::storage::{CommitError, Durability};

/// A column of the rows that are bound as arrays, and its type.
type Column = (&'static str, &'static str);

const HEAD: [Column; 10] = [
    ("conversation_id", "bigint"),
    ("old_seq", "bigint"),
    ("old_change_seq", "bigint"),
    ("last_seq", "bigint"),
    ("last_change_seq", "bigint"),
    ("last_count_no", "bigint"),
    ("chain_hash", "bytea"),
    ("last_message_seq", "bigint"),
    ("last_activity_at", "bigint"),
    ("member_count", "bigint"),
];
const MESSAGE: [Column; 16] = [
    ("message_id", "bigint"),
    ("conversation_id", "bigint"),
    ("seq", "bigint"),
    ("sender_type", "smallint"),
    ("sender_id", "bigint"),
    ("client_message_id", "bytea"),
    ("message_type", "text"),
    ("content", "text"),
    ("quoted_message_id", "bigint"),
    ("status", "smallint"),
    ("sent_at", "bigint"),
    ("edited_at", "bigint"),
    ("change_seq", "bigint"),
    ("count_no", "bigint"),
    ("content_hash", "bytea"),
    ("chain_hash", "bytea"),
];
const READ: [Column; 5] = [
    ("conversation_id", "bigint"),
    ("sender_type", "smallint"),
    ("sender_id", "bigint"),
    ("seq", "bigint"),
    ("count_no", "bigint"),
];

/// The rows of the arrays `$first`, `$first + 1`, … Unnested in the list of what is selected they are taken one by one;
/// in FROM each array would first be written into a store of its own, which is 5 % of a statement.
fn rows(first: usize, columns: &[Column]) -> String {
    let unnest = |((name, kind), at): (&Column, usize)| format!("unnest(${at}::{kind}[]) AS {name}");
    let columns: Vec<String> = columns.iter().zip(first..).map(unnest).collect();
    format!("(SELECT {})", columns.join(", "))
}

fn heads(first: usize) -> String {
    format!(
        "UPDATE im_conversation c SET last_seq = n.last_seq, last_change_seq = n.last_change_seq, \
         last_count_no = n.last_count_no, chain_hash = n.chain_hash, last_message_seq = n.last_message_seq, \
         last_activity_at = n.last_activity_at, member_count = n.member_count FROM {} AS n \
         WHERE c.conversation_id = n.conversation_id AND c.last_seq = n.old_seq AND c.last_change_seq = n.old_change_seq",
        rows(first, &HEAD)
    )
}

fn messages(first: usize) -> String {
    let names = MESSAGE.map(|(name, _)| name).join(", ");
    format!(
        "INSERT INTO im_message ({names}) SELECT * FROM {} AS m",
        rows(first, &MESSAGE)
    )
}

fn reads(first: usize) -> String {
    format!(
        "UPDATE im_member r SET last_read_seq = n.seq, last_read_count_no = n.count_no, marked_unread = FALSE \
         FROM {} AS n WHERE r.conversation_id = n.conversation_id AND r.principal_type = n.sender_type \
         AND r.principal_id = n.sender_id AND r.status = 1 AND r.last_read_seq < n.seq",
        rows(first, &READ)
    )
}

static HEADS: LazyLock<String> = LazyLock::new(|| heads(1));
static MESSAGES: LazyLock<String> = LazyLock::new(|| messages(1));
static READS: LazyLock<String> = LazyLock::new(|| reads(1));

/// Everything of plain sends. `IN (…) IS TRUE` keeps the planner from turning the test into a join: it becomes a
/// look-up in a hash of the conversations that passed, also in a plan made for a few rows.
static SENDS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH passed AS ({} RETURNING c.conversation_id), \
         said AS ({} WHERE (m.conversation_id IN (SELECT conversation_id FROM passed)) IS TRUE), \
         seen AS ({} AND (n.conversation_id IN (SELECT conversation_id FROM passed)) IS TRUE) \
         SELECT conversation_id FROM passed",
        heads(1),
        messages(1 + HEAD.len()),
        reads(1 + HEAD.len() + MESSAGE.len())
    )
});

type Query<'q> = sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments>;

fn column<'a, T, R>(rows: &'a [T], field: impl FnMut(&'a T) -> R) -> Vec<R> {
    rows.iter().map(field).collect()
}

fn bind_heads<'q>(query: Query<'q>, heads: &[HeadRow<'_>]) -> Query<'q> {
    query
        .bind(column(heads, |row| row.conversation_id.get()))
        .bind(column(heads, |row| row.expected.last_seq.get()))
        .bind(column(heads, |row| row.expected.last_change_seq.get()))
        .bind(column(heads, |row| row.head.last_seq.get()))
        .bind(column(heads, |row| row.head.last_change_seq.get()))
        .bind(column(heads, |row| row.head.last_count_no.get()))
        .bind(column(heads, |row| row.head.chain_hash.as_bytes().as_slice()))
        .bind(column(heads, |row| row.head.last_message_seq.get()))
        .bind(column(heads, |row| row.head.last_activity_at.millis()))
        .bind(column(heads, |row| row.member_count))
}

fn bind_messages<'q>(query: Query<'q>, messages: &[&Message]) -> Query<'q> {
    let query = query
        .bind(column(messages, |row| row.message_id.get()))
        .bind(column(messages, |row| row.conversation_id.get()))
        .bind(column(messages, |row| row.seq.get()))
        .bind(column(messages, |row| row.sender.kind.code()))
        .bind(column(messages, |row| row.sender.id))
        .bind(column(messages, |row| {
            row.client_message_id.as_ref().map(|key| key.as_str().as_bytes())
        }))
        .bind(column(messages, |row| row.message_type.as_str()))
        .bind(column(messages, |row| row.content.as_str()));
    query
        .bind(column(messages, |row| row.quoted_message_id.map(MessageId::get)))
        .bind(column(messages, |row| row.status.code()))
        .bind(column(messages, |row| row.sent_at.millis()))
        .bind(column(messages, |row| row.edited_at.map(Timestamp::millis)))
        .bind(column(messages, |row| row.change_seq.get()))
        .bind(column(messages, |row| row.count_no.get()))
        .bind(column(messages, |row| row.content_hash.as_bytes().as_slice()))
        .bind(column(messages, |row| row.chain_hash.as_bytes().as_slice()))
}

fn bind_reads<'q>(query: Query<'q>, reads: &[ReadRow]) -> Query<'q> {
    query
        .bind(column(reads, |row| row.conversation_id.get()))
        .bind(column(reads, |row| row.sender.kind.code()))
        .bind(column(reads, |row| row.sender.id))
        .bind(column(reads, |row| row.seq.get()))
        .bind(column(reads, |row| row.count_no.get()))
}

/// The one statement of plain sends, with everything that it writes.
pub(super) fn query_of<'q>(sends: &Sends<'_>) -> Query<'q> {
    let query = bind_messages(bind_heads(sqlx::query(SENDS.as_str()), &sends.heads), &sends.messages);
    bind_reads(query, &sends.reads)
}

async fn setting(connection: &mut PgConnection, name: &'static str) -> Result<String, sqlx::Error> {
    let row = sqlx::query("SELECT current_setting($1)")
        .bind(name)
        .fetch_one(connection)
        .await?;
    row.try_get(0)
}

impl Dialect for Postgres {
    const NUMBERED: bool = true;
    const ONE_STATEMENT: bool = true;
    const BEGIN_WRITE: &'static str = "BEGIN";

    fn affected(result: &PgQueryResult) -> u64 {
        result.rows_affected()
    }

    fn upsert<'a>(on_conflict: &'a str, _on_duplicate_key: &'a str) -> &'a str {
        on_conflict
    }

    fn refusal(error: &dyn DatabaseError) -> Refusal {
        match error.constraint() {
            Some("uq_message_client_key") => return Refusal::Clash(CommitError::KeyTaken),
            Some("uq_message_seq") => return Refusal::Clash(CommitError::Fenced),
            _ => {}
        }
        let code = error.code().unwrap_or_default();
        match code.get(..2).unwrap_or_default() {
            // Deadlock, serialization.
            "40" => Refusal::Again,
            "08" => Refusal::Lost,
            "57" if code.starts_with("57P0") => Refusal::Lost,
            // Read only, rights, no such database or table, no space or memory, system, internal.
            "25" | "28" | "3D" | "42" | "53" | "58" | "XX" => Refusal::Server,
            _ => Refusal::Data,
        }
    }

    async fn prepare(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        // The list of conversations looks dear to the planner, which then compiles it for a second and runs it for 10 ms.
        connection.execute("SET jit = off").await.map(drop)
    }

    async fn prepare_lane(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        // One plan for all numbers of rows, and one that uses the keys: it must also be right when a table that was
        // empty at the time of planning has grown to millions of rows.
        // A process that was stopped in a transaction must not hold its rows for long.
        let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET lock_timeout = '1s'; \
                        SET idle_in_transaction_session_timeout = '15s'";
        connection.execute(settings).await.map(drop)
    }

    async fn durability(connection: &mut PgConnection) -> Result<Durability, sqlx::Error> {
        let fsync = setting(connection, "fsync").await?;
        let commit = setting(connection, "synchronous_commit").await?;
        let pages = setting(connection, "full_page_writes").await?;
        let version = setting(connection, "server_version").await?;
        let mut weaker = Vec::new();
        if fsync == "off" {
            weaker.push("fsync = off: a crash of the machine can destroy the whole database");
        }
        if commit == "off" {
            weaker.push("synchronous_commit = off: a crash loses the last acknowledged messages");
        }
        if pages == "off" {
            weaker.push("full_page_writes = off: a crash of the machine can damage pages");
        }
        Ok(Durability::new(
            &format!(
                "PostgreSQL {version}: fsync = {fsync}, synchronous_commit = {commit}, full_page_writes = {pages}"
            ),
            &weaker,
        ))
    }

    async fn advance_heads(connection: &mut PgConnection, heads: &[HeadRow<'_>]) -> Result<u64, sqlx::Error> {
        if heads.is_empty() {
            return Ok(0);
        }
        Ok(bind_heads(sqlx::query(HEADS.as_str()), heads)
            .execute(connection)
            .await?
            .rows_affected())
    }

    async fn insert_messages(connection: &mut PgConnection, messages: &[&Message]) -> Result<(), sqlx::Error> {
        bind_messages(sqlx::query(MESSAGES.as_str()), messages)
            .execute(connection)
            .await
            .map(drop)
    }

    async fn advance_reads(connection: &mut PgConnection, reads: &[ReadRow]) -> Result<(), sqlx::Error> {
        if reads.is_empty() {
            return Ok(());
        }
        bind_reads(sqlx::query(READS.as_str()), reads)
            .execute(connection)
            .await
            .map(drop)
    }

    async fn one_statement(connection: &mut PgConnection, sends: &Sends<'_>) -> Result<Vec<i64>, sqlx::Error> {
        let rows = query_of(sends).fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }
}
