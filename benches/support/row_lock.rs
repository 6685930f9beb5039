//! The usual design, at its best: each sender has a connection of its own, statements are prepared once, and a message
//! is `BEGIN`, `SELECT … FOR UPDATE` of the conversation, `INSERT`, `UPDATE` of the counters, `COMMIT`.

use anyhow::Result;
use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, Postgres};

use crate::design::{Acked, Draft, Sender, next_message_id};

const INSERT: &str = "INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id, \
    client_message_id, message_type, content, status, sent_at, change_seq, count_no, content_hash, chain_hash) \
    VALUES ($1, $2, $3, 1, $4, $5, 'TEXT', $6, 1, $7, 0, $3, $8, $8)";

/// A sender that takes the number under a row lock.
pub(crate) struct RowLock {
    connection: PgConnection,
}

impl RowLock {
    /// Connects.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self {
            connection: PgConnection::connect(url).await?,
        })
    }
}

#[async_trait]
impl Sender for RowLock {
    async fn send(&mut self, draft: Draft) -> Result<Acked> {
        let mut transaction = self.connection.begin().await?;
        let last: i64 =
            sqlx::query_scalar("SELECT last_seq FROM im_conversation WHERE conversation_id = $1 FOR UPDATE")
                .bind(draft.conversation_id)
                .fetch_one(&mut *transaction)
                .await?;
        let acked = Acked {
            conversation_id: draft.conversation_id,
            message_id: next_message_id(),
            seq: last + 1,
        };
        insert(&draft, acked).execute(&mut *transaction).await?;
        sqlx::query(
            "UPDATE im_conversation SET last_seq = $2, last_count_no = $2, last_message_seq = $2, last_activity_at = $2 \
             WHERE conversation_id = $1",
        )
        .bind(acked.conversation_id)
        .bind(acked.seq)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(acked)
    }
}

/// The row of a message. The hashes are as long as ours, but nobody computes them here.
pub(crate) fn insert(draft: &Draft, acked: Acked) -> Query<'_, Postgres, PgArguments> {
    sqlx::query(INSERT)
        .bind(acked.message_id)
        .bind(acked.conversation_id)
        .bind(acked.seq)
        .bind(draft.sender_id)
        .bind(draft.client_message_id.as_bytes())
        .bind(draft.content.as_str())
        .bind(acked.message_id)
        .bind([7_u8; 32].to_vec())
}
