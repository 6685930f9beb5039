//! Closed-loop load: every sender sends its next message when the last one is stored.

use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rand::RngExt;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::design::{Acked, Draft, MEMBERS, Sender};
use crate::spread::float;

/// The share of a run that is not counted: connections warm up, queues fill.
const WARM_UP_SHARE: f64 = 0.2;

/// What one run gave.
pub(crate) struct Outcome {
    pub(crate) acked: Vec<Acked>,
    pub(crate) per_second: f64,
    /// Microseconds from handing over to the ack.
    pub(crate) latency: Histogram<u64>,
}

/// Runs the senders on `runtime` for `time`, each choosing among the conversations by chance.
pub(crate) async fn run(
    runtime: &Handle,
    senders: Vec<Box<dyn Sender>>,
    conversations: &[i64],
    time: Duration,
) -> Result<Outcome> {
    let started = Instant::now();
    let (counted_from, until) = (started + time.mul_f64(WARM_UP_SHARE), started + time);
    let tasks = senders.into_iter().enumerate().map(|(index, sender)| {
        let conversations = conversations.to_vec();
        let sender_id = 1 + i64::try_from(index).unwrap_or_default() % MEMBERS;
        runtime.spawn(one_sender(sender, sender_id, conversations, counted_from, until))
    });
    let tasks: Vec<_> = tasks.collect();
    let mut latency = Histogram::new(3)?;
    let (mut acked, mut counted) = (Vec::new(), 0);
    for task in tasks {
        let one = task.await.context("a sender panicked")??;
        latency.add(&one.latency)?;
        counted += one.counted;
        acked.extend(one.acked);
    }
    let per_second = float(counted) / (until - counted_from).as_secs_f64();
    Ok(Outcome {
        acked,
        per_second,
        latency,
    })
}

struct OfOne {
    acked: Vec<Acked>,
    counted: usize,
    latency: Histogram<u64>,
}

async fn one_sender(
    mut sender: Box<dyn Sender>,
    sender_id: i64,
    conversations: Vec<i64>,
    counted_from: Instant,
    until: Instant,
) -> Result<OfOne> {
    let mut one = OfOne {
        acked: Vec::new(),
        counted: 0,
        latency: Histogram::new(3)?,
    };
    loop {
        let begin = Instant::now();
        if begin >= until {
            return Ok(one);
        }
        let place = rand::rng().random_range(0..conversations.len());
        let conversation = *conversations.get(place).context("no conversations")?;
        one.acked.push(sender.send(Draft::new(conversation, sender_id)).await?);
        let end = Instant::now();
        if end >= counted_from && end < until {
            one.counted += 1;
            one.latency.record(u64::try_from((end - begin).as_micros())?)?;
        }
    }
}
