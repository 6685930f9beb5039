//! The number from Redis `INCR`, then one `INSERT` that commits by itself. The counters of the conversation are not
//! written at all, which favours it. All senders share one multiplexed connection to Redis, as its authors advise.

use anyhow::Result;
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use sqlx::{Connection, PgConnection};

use crate::design::{Acked, Draft, Sender, next_message_id};
use crate::row_lock::insert;

/// A sender that asks Redis for the number.
pub(crate) struct RedisCounter {
    redis: MultiplexedConnection,
    connection: PgConnection,
}

impl RedisCounter {
    /// Connects to PostgreSQL.
    pub(crate) async fn connect(url: &str, redis: MultiplexedConnection) -> Result<Self> {
        Ok(Self {
            redis,
            connection: PgConnection::connect(url).await?,
        })
    }
}

#[async_trait]
impl Sender for RedisCounter {
    async fn send(&mut self, draft: Draft) -> Result<Acked> {
        let conversation_id = draft.conversation_id;
        let seq: i64 = redis::cmd("INCR")
            .arg(key(conversation_id))
            .query_async(&mut self.redis)
            .await?;
        let acked = Acked {
            conversation_id,
            message_id: next_message_id(),
            seq,
        };
        insert(&draft, acked).execute(&mut self.connection).await?;
        Ok(acked)
    }
}

/// Begins at 1 again: a counter may be left over from an earlier run.
pub(crate) async fn forget(redis: &mut MultiplexedConnection, conversations: &[i64]) -> Result<()> {
    let keys: Vec<String> = conversations.iter().map(|id| key(*id)).collect();
    Ok(redis::cmd("DEL").arg(keys).query_async(redis).await?)
}

fn key(conversation_id: i64) -> String {
    format!("onescribe:bench:{conversation_id}")
}
