//! SQLite: one json_each statement per table, since each statement costs a trip to sqlx's worker thread.

use sqlx::error::DatabaseError;
use sqlx::sqlite::{Sqlite, SqliteConnection, SqliteQueryResult};
use sqlx::{Executor, Row as _};

use super::dialect::{Dialect, Refusal};
use super::json;
use super::sends::{HeadRow, ReadRow};
use crate::domain::Message;
use crate::storage::{CommitError, Durability};

const HEADS: &str = "UPDATE im_conversation SET last_seq = n.value ->> 3, last_change_seq = n.value ->> 4,
    last_count_no = n.value ->> 5, chain_hash = unhex(n.value ->> 6), last_message_seq = n.value ->> 7,
    last_activity_at = n.value ->> 8, member_count = n.value ->> 9 FROM json_each(?) AS n
    WHERE conversation_id = n.value ->> 0 AND last_seq = n.value ->> 1 AND last_change_seq = n.value ->> 2";

const MESSAGES: &str = "INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id,
    client_message_id, message_type, content, quoted_message_id, status, sent_at, edited_at, change_seq, count_no,
    content_hash, chain_hash)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, unhex(value ->> 5), value ->> 6,
    value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13,
    unhex(value ->> 14), unhex(value ->> 15) FROM json_each(?)";

const READS: &str = "UPDATE im_member SET last_read_seq = n.value ->> 3, last_read_count_no = n.value ->> 4,
    marked_unread = FALSE FROM json_each(?) AS n
    WHERE conversation_id = n.value ->> 0 AND principal_type = n.value ->> 1 AND principal_id = n.value ->> 2
    AND status = 1 AND last_read_seq < n.value ->> 3";

impl Dialect for Sqlite {
    /// Takes the write lock at once: a transaction that reads first can fail half-way.
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";
    const ONE_WRITER: bool = true;
    const LANES: usize = 1;

    fn affected(result: &SqliteQueryResult) -> u64 {
        result.rows_affected()
    }

    fn upsert<'a>(on_conflict: &'a str, _on_duplicate_key: &'a str) -> &'a str {
        on_conflict
    }

    fn refusal(error: &dyn DatabaseError) -> Refusal {
        const BUSY: u32 = 5;
        const LOCKED: u32 = 6;
        const FULL: u32 = 13;
        const TOO_BIG: u32 = 18;
        const CONSTRAINT: u32 = 19;
        let extended: u32 = error.code().and_then(|code| code.parse().ok()).unwrap_or_default();
        let text = error.message();
        match extended & 0xff {
            CONSTRAINT if text.contains("im_message.client_message_id") => Refusal::Clash(CommitError::KeyTaken),
            CONSTRAINT if text.contains("im_message.seq") => Refusal::Clash(CommitError::Fenced),
            CONSTRAINT | TOO_BIG => Refusal::Data,
            // Another process writes for too long; no space.
            BUSY | LOCKED | FULL => Refusal::Server,
            // An error of the disk: what COMMIT has written may be there after a restart.
            _ => Refusal::Lost,
        }
    }

    async fn prepare_lane(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        // Random pages of the client-id index: 64 MiB of them nearly double the rate on a large file.
        connection.execute("PRAGMA cache_size = -65536").await.map(drop)
    }

    async fn durability(connection: &mut SqliteConnection) -> Result<Durability, sqlx::Error> {
        let row = sqlx::query(
            "SELECT sqlite_version(), journal_mode, synchronous FROM pragma_journal_mode, pragma_synchronous",
        )
        .fetch_one(connection)
        .await?;
        let (version, journal, level): (String, String, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let name = match level {
            0 => "OFF",
            1 => "NORMAL",
            2 => "FULL",
            _ => "EXTRA",
        };
        let weaker: &[&str] = if level < 2 {
            &["synchronous is below FULL: a crash of the machine loses the last acknowledged messages"]
        } else {
            &[]
        };
        let summary = format!("SQLite {version}: journal_mode = {journal}, synchronous = {name}");
        Ok(Durability::new(&summary, weaker))
    }

    async fn advance_heads(connection: &mut SqliteConnection, heads: &[HeadRow<'_>]) -> Result<u64, sqlx::Error> {
        if heads.is_empty() {
            return Ok(0);
        }
        Ok(sqlx::query(HEADS)
            .bind(json::heads(heads)?)
            .execute(connection)
            .await?
            .rows_affected())
    }

    async fn insert_messages(connection: &mut SqliteConnection, messages: &[&Message]) -> Result<(), sqlx::Error> {
        sqlx::query(MESSAGES)
            .bind(json::messages(messages)?)
            .execute(connection)
            .await
            .map(drop)
    }

    async fn advance_reads(connection: &mut SqliteConnection, reads: &[ReadRow]) -> Result<(), sqlx::Error> {
        if reads.is_empty() {
            return Ok(());
        }
        sqlx::query(READS)
            .bind(json::reads(reads)?)
            .execute(connection)
            .await
            .map(drop)
    }
}
