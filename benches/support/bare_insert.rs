//! What PostgreSQL can take at the most: two connections that insert rows in batches of 1,024, with nobody who waits for
//! an ack, no check, no hash, no read position. Each batch sets `last_message_seq` of the conversations it touches, in
//! the same statement.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::RngExt;
use sqlx::{Connection, PgConnection};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::design::{Draft, MEMBERS, next_message_id};
use crate::spread::float;

/// Rows in one statement.
const BATCH: usize = 1_024;
/// Connections; more gain nothing on two cores.
const WRITERS: usize = 2;
/// The share of a run that is not counted.
const WARM_UP_SHARE: f64 = 0.2;

const STATEMENT: &str = "WITH said AS (INSERT INTO im_message (message_id, conversation_id, seq, sender_type, sender_id, \
    client_message_id, message_type, content, status, sent_at, change_seq, count_no, content_hash, chain_hash) \
    SELECT id, conversation_id, seq, 1, sender_id, key, 'TEXT', content, 1, id, 0, seq, hash, hash \
    FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::bytea[]) \
    AS m(id, conversation_id, seq, sender_id, key, content, hash)) \
    UPDATE im_conversation c SET last_message_seq = n.seq FROM UNNEST($8::bigint[], $9::bigint[]) \
    AS n(conversation_id, seq) WHERE c.conversation_id = n.conversation_id";

/// One writer with its own part of the conversations: two must not wait for each other's rows.
pub(crate) struct Writer {
    connection: PgConnection,
    /// The last number of each.
    last: Vec<(i64, i64)>,
}

/// The writers, on these conversations.
pub(crate) async fn writers(url: &str, conversations: &[i64]) -> Result<Vec<Writer>> {
    let mut writers = Vec::new();
    for at in 0..WRITERS {
        writers.push(Writer {
            connection: PgConnection::connect(url).await?,
            last: conversations
                .iter()
                .skip(at)
                .step_by(WRITERS)
                .map(|id| (*id, 0))
                .collect(),
        });
    }
    Ok(writers)
}

/// Rows a second; gives the writers back.
pub(crate) async fn run(runtime: &Handle, writers: Vec<Writer>, time: Duration) -> Result<(f64, Vec<Writer>)> {
    let started = Instant::now();
    let (counted_from, until) = (started + time.mul_f64(WARM_UP_SHARE), started + time);
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|writer| runtime.spawn(write(writer, counted_from, until)))
        .collect();
    let (mut rows, mut writers) = (0, Vec::new());
    for task in tasks {
        let (counted, writer) = task.await.context("a writer panicked")??;
        rows += counted;
        writers.push(writer);
    }
    Ok((float(rows) / (until - counted_from).as_secs_f64(), writers))
}

async fn write(mut writer: Writer, counted_from: Instant, until: Instant) -> Result<(usize, Writer)> {
    let mut counted = 0;
    loop {
        writer.batch().await?;
        let now = Instant::now();
        if now >= until {
            return Ok((counted, writer));
        }
        if now >= counted_from {
            counted += BATCH;
        }
    }
}

impl Writer {
    async fn batch(&mut self) -> Result<()> {
        let mut drafts = Vec::with_capacity(BATCH);
        let (mut seqs, mut touched) = (Vec::with_capacity(BATCH), BTreeMap::new());
        for _ in 0..BATCH {
            let place = rand::rng().random_range(0..self.last.len());
            let (conversation_id, last) = self.last.get_mut(place).context("no conversations")?;
            *last += 1;
            drafts.push(Draft::new(*conversation_id, 1 + *last % MEMBERS));
            seqs.push(*last);
            touched.insert(*conversation_id, *last);
        }
        let (touched, newest): (Vec<i64>, Vec<i64>) = touched.into_iter().unzip();
        sqlx::query(STATEMENT)
            .bind(drafts.iter().map(|_| next_message_id()).collect::<Vec<_>>())
            .bind(drafts.iter().map(|draft| draft.conversation_id).collect::<Vec<_>>())
            .bind(seqs)
            .bind(drafts.iter().map(|draft| draft.sender_id).collect::<Vec<_>>())
            .bind(
                drafts
                    .iter()
                    .map(|draft| draft.client_message_id.as_bytes())
                    .collect::<Vec<_>>(),
            )
            .bind(drafts.iter().map(|draft| draft.content.as_str()).collect::<Vec<_>>())
            .bind(vec![[7_u8; 32].as_slice(); BATCH])
            .bind(touched)
            .bind(newest)
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }
}
