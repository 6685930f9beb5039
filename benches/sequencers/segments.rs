//! Numbers in segments of 1,000 that a process takes from the database and gives out from memory, then one `INSERT`
//! that commits by itself.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use dashmap::DashMap;
use sqlx::{Connection, PgConnection};
use tokio::sync::Mutex;

use crate::design::{Acked, Draft, Sender, next_message_id};
use crate::row_lock::insert;

const SEGMENT: i64 = 1_000;

/// What is left of a conversation's segment: the last number given and the last that may be given.
#[derive(Default)]
struct Segment {
    last: i64,
    end: i64,
}

/// The segments of this process.
#[derive(Clone, Default)]
pub(crate) struct Segments(Arc<DashMap<i64, Arc<Mutex<Segment>>>>);

/// A sender that takes the number from a segment.
pub(crate) struct SegmentSender {
    segments: Segments,
    connection: PgConnection,
}

impl SegmentSender {
    /// Connects.
    pub(crate) async fn connect(url: &str, segments: Segments) -> Result<Self> {
        Ok(Self {
            segments,
            connection: PgConnection::connect(url).await?,
        })
    }

    async fn next(&mut self, conversation_id: i64) -> Result<i64> {
        let segment = Arc::clone(&self.segments.0.entry(conversation_id).or_default());
        let mut segment = segment.lock().await;
        if segment.last == segment.end {
            segment.end = sqlx::query_scalar(
                "UPDATE im_conversation SET last_seq = last_seq + $2 WHERE conversation_id = $1 RETURNING last_seq",
            )
            .bind(conversation_id)
            .bind(SEGMENT)
            .fetch_one(&mut self.connection)
            .await?;
            segment.last = segment.end - SEGMENT;
        }
        segment.last += 1;
        Ok(segment.last)
    }
}

#[async_trait]
impl Sender for SegmentSender {
    async fn send(&mut self, draft: Draft) -> Result<Acked> {
        let conversation_id = draft.conversation_id;
        let seq = self.next(conversation_id).await?;
        let acked = Acked {
            conversation_id,
            message_id: next_message_id(),
            seq,
        };
        insert(&draft, acked).execute(&mut self.connection).await?;
        Ok(acked)
    }
}
