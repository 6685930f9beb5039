//! MySQL and MariaDB: what both have. Rows go in as multi-row VALUES in a few fixed sizes, since each size is its own
//! prepared statement; updates of many rows come from one JSON text.

use std::sync::LazyLock;

use sqlx::error::DatabaseError;
use sqlx::mysql::{MySql, MySqlConnection, MySqlDatabaseError, MySqlQueryResult};
use sqlx::{Executor, Row as _};

use super::dialect::{Dialect, Refusal};
use super::json;
use super::sends::{HeadRow, ReadRow};
use crate::domain::{Message, MessageId, Timestamp};
use crate::storage::{CommitError, Durability};

/// The prepared statements, by number of rows, largest first.
static INSERTS: LazyLock<Vec<(usize, String)>> = LazyLock::new(|| {
    [256, 64, 16, 4, 1]
        .into_iter()
        .map(|rows| {
            let row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
            let text = format!(
                "INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id, client_message_id,
                 message_type, content, quoted_message_id, status, sent_at, edited_at, change_seq, count_no,
                 content_hash, chain_hash) VALUES {}",
                vec![row; rows].join(", ")
            );
            (rows, text)
        })
        .collect()
});

/// STRAIGHT_JOIN: the JSON first, then a look-up by key for each of its rows.
const HEADS: &str = "UPDATE JSON_TABLE(?, '$[*]' COLUMNS (conversation_id BIGINT PATH '$[0]',
    old_seq BIGINT PATH '$[1]', old_change_seq BIGINT PATH '$[2]', last_seq BIGINT PATH '$[3]',
    last_change_seq BIGINT PATH '$[4]', last_count_no BIGINT PATH '$[5]', chain_hash VARCHAR(64) PATH '$[6]',
    last_message_seq BIGINT PATH '$[7]', last_activity_at BIGINT PATH '$[8]', member_count BIGINT PATH '$[9]')) AS n
    STRAIGHT_JOIN im_conversation AS c ON c.conversation_id = n.conversation_id
    SET c.last_seq = n.last_seq, c.last_change_seq = n.last_change_seq, c.last_count_no = n.last_count_no,
    c.chain_hash = UNHEX(n.chain_hash), c.last_message_seq = n.last_message_seq,
    c.last_activity_at = n.last_activity_at, c.member_count = n.member_count
    WHERE c.last_seq = n.old_seq AND c.last_change_seq = n.old_change_seq";

const READS: &str = "UPDATE JSON_TABLE(?, '$[*]' COLUMNS (conversation_id BIGINT PATH '$[0]',
    sender_type SMALLINT PATH '$[1]', sender_id BIGINT PATH '$[2]', seq BIGINT PATH '$[3]',
    count_no BIGINT PATH '$[4]')) AS n
    STRAIGHT_JOIN im_member AS r ON r.conversation_id = n.conversation_id AND r.principal_type = n.sender_type
    AND r.principal_id = n.sender_id
    SET r.last_read_seq = n.seq, r.last_read_count_no = n.count_no, r.marked_unread = FALSE
    WHERE r.status = 1 AND r.last_read_seq < n.seq";

async fn variable(connection: &mut MySqlConnection, text: &'static str) -> Result<Option<i64>, sqlx::Error> {
    match sqlx::query(text).fetch_one(connection).await {
        Ok(row) => row.try_get(0).map(Some),
        // One of the two does not have it.
        Err(sqlx::Error::Database(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Dialect for MySql {
    const BEGIN_WRITE: &'static str = "START TRANSACTION";

    fn affected(result: &MySqlQueryResult) -> u64 {
        result.rows_affected()
    }

    fn upsert<'a>(_on_conflict: &'a str, on_duplicate_key: &'a str) -> &'a str {
        on_duplicate_key
    }

    fn refusal(error: &dyn DatabaseError) -> Refusal {
        let number = error
            .try_downcast_ref::<MySqlDatabaseError>()
            .map_or(0, MySqlDatabaseError::number);
        // "Duplicate entry '…' for key 'NAME'": MySQL writes the table before the name, MariaDB does not.
        let message = error.message();
        let key = message
            .rsplit("for key '")
            .next()
            .unwrap_or_default()
            .trim_end_matches('\'');
        match number {
            1062 | 1586 if key.ends_with("uq_message_client_key") => Refusal::Clash(CommitError::KeyTaken),
            1062 | 1586 if key.ends_with("uq_message_seq") => Refusal::Clash(CommitError::Fenced),
            // Deadlock.
            1213 => Refusal::Again,
            // Shutdown, aborted, killed, failed in COMMIT: the connection ends, or nobody knows.
            1053 | 1152 | 1180 | 1184 | 1317 | 1927 | 3169 => Refusal::Lost,
            // No space, no memory, rights, read only, no such table.
            1021 | 1037 | 1038 | 1040 | 1041 | 1044 | 1045 | 1114 | 1142 | 1146 | 1290 | 1836 => Refusal::Server,
            _ => Refusal::Data,
        }
    }

    async fn prepare(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        let settings = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', \
                        innodb_lock_wait_timeout = 5";
        connection.execute(settings).await?;
        connection
            .execute("set session transaction isolation level read committed")
            .await
            .map(drop)
    }

    async fn prepare_lane(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        connection.execute("SET SESSION innodb_lock_wait_timeout = 1").await?;
        // A process that was stopped in a transaction must not hold its rows for long. MySQL does not have it.
        match connection.execute("SET SESSION idle_transaction_timeout = 15").await {
            Err(error) if !matches!(error, sqlx::Error::Database(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// sqlx asks for the lock with a wait of -1, which MariaDB does not understand.
    async fn lock_migration(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
        let lock = "SELECT CAST(GET_LOCK(CONCAT('onescribe', MD5(DATABASE())), 60) AS SIGNED)";
        Ok(variable(connection, lock).await? == Some(1))
    }

    async fn durability(connection: &mut MySqlConnection) -> Result<Durability, sqlx::Error> {
        let version: String = sqlx::query("SELECT VERSION()")
            .fetch_one(&mut *connection)
            .await?
            .try_get(0)?;
        let flush = variable(connection, "SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED)").await?;
        let double = variable(connection, "SELECT CAST(@@innodb_doublewrite <> 'OFF' AS SIGNED)").await?;
        let log = variable(connection, "SELECT CAST(@@log_bin AS SIGNED)").await?;
        let sync = variable(connection, "SELECT CAST(@@sync_binlog AS SIGNED)").await?;
        let mut weaker = Vec::new();
        if flush != Some(1) {
            weaker.push("innodb_flush_log_at_trx_commit is not 1: a crash loses the last acknowledged messages");
        }
        if double == Some(0) {
            weaker.push("innodb_doublewrite is off: a crash of the machine can damage pages");
        }
        if log == Some(1) && sync != Some(1) {
            weaker.push("sync_binlog is not 1: after a crash replicas can differ");
        }
        let show = |value: Option<i64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        let summary = format!(
            "MySQL/MariaDB {version}: innodb_flush_log_at_trx_commit = {}, log_bin = {}, sync_binlog = {}",
            show(flush),
            show(log),
            show(sync)
        );
        Ok(Durability::new(&summary, &weaker))
    }

    async fn advance_heads(connection: &mut MySqlConnection, heads: &[HeadRow<'_>]) -> Result<u64, sqlx::Error> {
        if heads.is_empty() {
            return Ok(0);
        }
        Ok(sqlx::query(HEADS)
            .bind(json::heads(heads)?)
            .execute(connection)
            .await?
            .rows_affected())
    }

    async fn insert_messages(connection: &mut MySqlConnection, messages: &[&Message]) -> Result<(), sqlx::Error> {
        let mut rest = messages;
        while let Some((rows, text)) = INSERTS.iter().find(|(rows, _)| *rows <= rest.len()) {
            let (part, after) = rest.split_at(*rows);
            let mut query = sqlx::query(text.as_str());
            for row in part {
                query = query
                    .bind(row.message_id.get())
                    .bind(row.conversation_id.get())
                    .bind(row.seq.get())
                    .bind(row.sender.kind.code())
                    .bind(row.sender.id)
                    .bind(row.client_message_id.as_ref().map(|key| key.as_str().as_bytes()))
                    .bind(row.message_type.as_str())
                    .bind(row.content.as_str())
                    .bind(row.quoted_message_id.map(MessageId::get))
                    .bind(row.status.code())
                    .bind(row.sent_at.millis())
                    .bind(row.edited_at.map(Timestamp::millis))
                    .bind(row.change_seq.get())
                    .bind(row.count_no.get())
                    .bind(row.content_hash.as_bytes().as_slice())
                    .bind(row.chain_hash.as_bytes().as_slice());
            }
            query.execute(&mut *connection).await?;
            rest = after;
        }
        Ok(())
    }

    async fn advance_reads(connection: &mut MySqlConnection, reads: &[ReadRow]) -> Result<(), sqlx::Error> {
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
