//! The usual design, at its best: each sender has a connection of its own, statements are prepared once, and a message
//! is `BEGIN`, `SELECT … FOR UPDATE` of the conversation, `INSERT`, `UPDATE` of the counters, `COMMIT`. SQLite locks the
//! whole file instead of a row.

use anyhow::Result;
use async_trait::async_trait;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection, Executor, PgConnection, Postgres, QueryBuilder};

use crate::design::{Acked, Draft, Sender, next_message_id};

const INSERT: &str = "INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id, \
    client_message_id, message_type, content, status, sent_at, change_seq, count_no, content_hash, chain_hash) \
    VALUES ($1, $2, $3, 1, $4, $5, 'TEXT', $6, 1, $7, 0, $8, $9, $10)";
const INSERT_UNNUMBERED: &str = "INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id, \
    client_message_id, message_type, content, status, sent_at, change_seq, count_no, content_hash, chain_hash) \
    VALUES (?, ?, ?, 1, ?, ?, 'TEXT', ?, 1, ?, 0, ?, ?, ?)";
const UPDATE: &str = "UPDATE im_conversation SET last_seq = $1, last_count_no = $2, last_message_seq = $3, \
    last_activity_at = $4 WHERE conversation_id = $5";
const UPDATE_UNNUMBERED: &str = "UPDATE im_conversation SET last_seq = ?, last_count_no = ?, last_message_seq = ?, \
    last_activity_at = ? WHERE conversation_id = ?";

/// The hashes are as long as ours, but nobody computes them here.
const HASH: [u8; 32] = [7; 32];

macro_rules! bind_row {
    ($query:expr, $draft:expr, $acked:expr) => {
        $query
            .bind($acked.message_id)
            .bind($acked.conversation_id)
            .bind($acked.seq)
            .bind($draft.sender_id)
            .bind($draft.client_message_id.as_bytes())
            .bind($draft.content.as_str())
            .bind($acked.message_id)
            .bind($acked.seq)
            .bind(HASH.as_slice())
            .bind(HASH.as_slice())
    };
}

macro_rules! sender {
    ($connection:ty, $begin:literal, $select:literal, $insert:expr, $update:expr) => {
        #[async_trait]
        impl Sender for RowLock<$connection> {
            async fn send(&mut self, draft: Draft) -> Result<Acked> {
                let connection = &mut self.connection;
                connection.execute($begin).await?;
                let last: i64 = sqlx::query_scalar($select)
                    .bind(draft.conversation_id)
                    .fetch_one(&mut *connection)
                    .await?;
                let acked = Acked {
                    conversation_id: draft.conversation_id,
                    message_id: next_message_id(),
                    seq: last + 1,
                };
                bind_row!(sqlx::query($insert), draft, acked)
                    .execute(&mut *connection)
                    .await?;
                sqlx::query($update)
                    .bind(acked.seq)
                    .bind(acked.seq)
                    .bind(acked.seq)
                    .bind(acked.seq)
                    .bind(acked.conversation_id)
                    .execute(&mut *connection)
                    .await?;
                connection.execute("COMMIT").await?;
                Ok(acked)
            }
        }
    };
}

/// A sender that takes the number under a lock.
pub(crate) struct RowLock<C> {
    connection: C,
}

/// Connects.
pub(crate) async fn connect(url: &str) -> Result<Box<dyn Sender>> {
    Ok(match url.split(':').next() {
        Some("postgres") => Box::new(RowLock {
            connection: PgConnection::connect(url).await?,
        }),
        Some("mysql") => Box::new(RowLock {
            connection: MySqlConnection::connect(url).await?,
        }),
        _ => Box::new(RowLock {
            connection: sqlite(url).await?,
        }),
    })
}

/// As durable as ours.
async fn sqlite(url: &str) -> Result<SqliteConnection> {
    let options = url.parse::<SqliteConnectOptions>()?;
    let options = options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    Ok(SqliteConnection::connect_with(&options).await?)
}

sender!(
    PgConnection,
    "BEGIN",
    "SELECT last_seq FROM im_conversation WHERE conversation_id = $1 FOR UPDATE",
    INSERT,
    UPDATE
);
sender!(
    MySqlConnection,
    "START TRANSACTION",
    "SELECT last_seq FROM im_conversation WHERE conversation_id = ? FOR UPDATE",
    INSERT_UNNUMBERED,
    UPDATE_UNNUMBERED
);
sender!(
    SqliteConnection,
    "BEGIN IMMEDIATE",
    "SELECT last_seq FROM im_conversation WHERE conversation_id = ?",
    INSERT_UNNUMBERED,
    UPDATE_UNNUMBERED
);

/// The row of a message on PostgreSQL.
pub(crate) fn insert(draft: &Draft, acked: Acked) -> Query<'_, Postgres, PgArguments> {
    bind_row!(sqlx::query(INSERT), draft, acked)
}

/// Conversations for the rivals: a bare row each, with the ids `first..first + count`.
pub(crate) async fn add_conversations(url: &str, first: i64, count: i64) -> Result<Vec<i64>> {
    let hash = if url.starts_with("postgres") {
        "'\\x00'"
    } else {
        "X'00'"
    };
    let rows: Vec<String> = (first..first + count)
        .map(|id| format!("({id}, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, {hash}, 0, 0, 8)"))
        .collect();
    let statement = format!(
        "INSERT INTO im_conversation (conversation_id, kind, history_visibility, posting, adding, status, created_at, \
         updated_at, last_seq, last_change_seq, last_count_no, chain_hash, last_message_seq, last_activity_at, \
         member_count) VALUES {}",
        rows.join(", ")
    );
    macro_rules! insert_on {
        ($database:ty, $connection:expr) => {{
            let mut connection = $connection;
            QueryBuilder::<$database>::new(&statement)
                .build()
                .execute(&mut connection)
                .await?;
        }};
    }
    match url.split(':').next() {
        Some("postgres") => insert_on!(Postgres, PgConnection::connect(url).await?),
        Some("mysql") => insert_on!(sqlx::MySql, MySqlConnection::connect(url).await?),
        _ => insert_on!(sqlx::Sqlite, sqlite(url).await?),
    }
    Ok((first..first + count).collect())
}
