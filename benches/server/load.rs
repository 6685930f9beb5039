//! Load over many connections: closed-loop (so many in flight on each) or at a fixed rate, where latency counts from
//! the planned time, so that a stall of the server is not hidden (no coordinated omission).

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use crate::design::Acked;
use crate::socket::{Socket, find, number};

/// Frame ids begin here, so that all have one length.
const FIRST_FRAME: i64 = 1_000_000_000;
/// How long the last acks may take after the last send.
const LAST_ACKS_WAIT_MAX: Duration = Duration::from_secs(20);
/// Planned sends that may wait for a connection's task.
const PLANNED_MAX: usize = 65_536;
/// At a fixed rate the sends of one tick are planned for its beginning.
const TICK: Duration = Duration::from_millis(1);

/// How to load the server.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// So many unanswered sends on each connection at any time.
    Closed { in_flight: usize },
    /// So many sends a second over all connections. What is planned when a connection has `in_flight_max` unanswered
    /// sends waits on our side; its latency counts from the planned time all the same.
    Rate { per_second: usize, in_flight_max: usize },
}

/// One run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    /// Not counted.
    pub(crate) warm_up: Duration,
    pub(crate) counted: Duration,
}

/// A device with the conversations to which it sends.
pub(crate) struct Client {
    pub(crate) socket: Socket,
    pub(crate) conversations: Vec<i64>,
}

/// What a run gave.
pub(crate) struct Outcome {
    pub(crate) acked: Vec<Acked>,
    /// Acks in the counted time.
    pub(crate) counted: usize,
    /// Pushes received over all.
    pub(crate) pushes: usize,
    /// Microseconds, of what was acked in the counted time.
    pub(crate) latency: Histogram<u64>,
    /// Gives the clients back for the next run.
    pub(crate) clients: Vec<Client>,
}

struct Flying {
    conversation_id: i64,
    /// When it was sent, or planned to be sent.
    since: Instant,
}

struct Runner {
    client: Client,
    counted_from: Instant,
    until: Instant,
    flying: Vec<Flying>,
    acked: Vec<Acked>,
    counted: usize,
    pushes: usize,
    latency: Histogram<u64>,
}

/// Runs the plan on all clients.
pub(crate) async fn run(clients: Vec<Client>, plan: Plan) -> Result<Outcome> {
    let counted_from = Instant::now() + plan.warm_up;
    let until = counted_from + plan.counted;
    let mut tasks = Vec::new();
    let mut lines = Vec::new();
    for client in clients {
        let mut runner = Runner::new(client, counted_from, until)?;
        let (line, planned) = mpsc::channel(PLANNED_MAX);
        lines.push(line);
        tasks.push(tokio::spawn(async move {
            match plan.mode {
                Mode::Closed { in_flight } => runner.closed(in_flight).await?,
                Mode::Rate { in_flight_max, .. } => runner.fixed_rate(planned, in_flight_max).await?,
            }
            anyhow::Ok(runner)
        }));
    }
    if let Mode::Rate { per_second, .. } = plan.mode {
        // A thread that sleeps is punctual to some ten microseconds; a timer of the runtime is not.
        std::thread::spawn(move || pace(&lines, per_second, until));
    }
    let mut outcome = Outcome {
        acked: Vec::new(),
        counted: 0,
        pushes: 0,
        latency: Histogram::new(3)?,
        clients: Vec::new(),
    };
    for task in tasks {
        let runner = task.await.context("a client panicked")??;
        outcome.acked.extend(runner.acked);
        outcome.counted += runner.counted;
        outcome.pushes += runner.pushes;
        outcome.latency.add(&runner.latency)?;
        outcome.clients.push(runner.client);
    }
    Ok(outcome)
}

/// Plans sends, spread evenly over the connections.
fn pace(lines: &[mpsc::Sender<Instant>], per_second: usize, until: Instant) {
    let started = Instant::now();
    let (mut planned, mut tick, mut next) = (0, 0, lines.iter().cycle());
    loop {
        let at = started + TICK * tick;
        if at >= until {
            return;
        }
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let due = per_second * usize::try_from(tick + 1).unwrap_or_default() / 1_000;
        for line in next.by_ref().take(due - planned) {
            // A full line means a connection that is stuck for a long time: its end will be an error.
            line.try_send(at).ok();
        }
        (planned, tick) = (due, tick + 1);
    }
}

impl Runner {
    fn new(client: Client, counted_from: Instant, until: Instant) -> Result<Self> {
        Ok(Self {
            client,
            counted_from,
            until,
            flying: Vec::new(),
            acked: Vec::new(),
            counted: 0,
            pushes: 0,
            latency: Histogram::new(3)?,
        })
    }

    async fn closed(&mut self, in_flight: usize) -> Result<()> {
        for _ in 0..in_flight {
            self.send(Instant::now())?;
        }
        self.client.socket.flush().await?;
        while Instant::now() < self.until {
            self.client.socket.read().await?;
            let now = Instant::now();
            for _ in 0..self.take_acks(now)? {
                self.send(now)?;
            }
            self.client.socket.flush().await?;
        }
        self.wait_for_the_rest().await
    }

    async fn fixed_rate(&mut self, mut planned: mpsc::Receiver<Instant>, in_flight_max: usize) -> Result<()> {
        loop {
            tokio::select! {
                at = planned.recv(), if self.in_flight() < in_flight_max => {
                    let Some(at) = at else { return self.wait_for_the_rest().await };
                    self.send(at)?;
                    while self.in_flight() < in_flight_max
                        && let Ok(at) = planned.try_recv()
                    {
                        self.send(at)?;
                    }
                }
                read = self.client.socket.read() => {
                    read?;
                    self.take_acks(Instant::now())?;
                }
            }
            self.client.socket.flush().await?;
        }
    }

    fn in_flight(&self) -> usize {
        self.flying.len() - self.acked.len()
    }

    async fn wait_for_the_rest(&mut self) -> Result<()> {
        let rest = async {
            while self.in_flight() > 0 {
                self.client.socket.read().await?;
                self.take_acks(Instant::now())?;
                self.client.socket.flush().await?;
            }
            anyhow::Ok(())
        };
        timeout(LAST_ACKS_WAIT_MAX, rest)
            .await
            .context("sends were never answered")?
    }

    /// Puts the next message into the next write.
    fn send(&mut self, since: Instant) -> Result<()> {
        let conversations = &self.client.conversations;
        let place = self.flying.len() % conversations.len();
        let conversation_id = *conversations.get(place).context("a client has conversations")?;
        let id = FIRST_FRAME + i64::try_from(self.flying.len())?;
        let key = Uuid::new_v4();
        let frame = format!(
            r#"{{"id":{id},"type":"message.send","conversation_id":"{conversation_id}","client_message_id":"{key}","message_type":"TEXT","content":{{"text":"{key} and then some words, as many as people use in a sentence or two of an ordinary chat"}}}}"#
        );
        self.client.socket.push(frame.as_bytes());
        self.flying.push(Flying { conversation_id, since });
        Ok(())
    }

    /// Deals with what was read; answers how many sends were acked.
    fn take_acks(&mut self, now: Instant) -> Result<usize> {
        let before = self.acked.len();
        while let Some(text) = self.client.socket.next_text()? {
            // The kind stands at the beginning.
            let kind = text.get(..40).unwrap_or(text);
            if find(kind, b"\"message.new\"").is_some() {
                self.pushes += 1;
                continue;
            }
            if find(kind, b"\"message.sent\"").is_none() {
                bail!("unexpected: {}", String::from_utf8_lossy(text));
            }
            let frame = usize::try_from(number(text, b"\"reply_to\":")? - FIRST_FRAME)?;
            let flying = self.flying.get(frame).context("an answer to nothing")?;
            ensure!(
                find(text, b"\"duplicate\":false").is_some(),
                "a fresh key is a duplicate"
            );
            self.acked.push(Acked {
                conversation_id: flying.conversation_id,
                message_id: number(text, b"\"message_id\":")?,
                seq: number(text, b"\"seq\":")?,
            });
            if now >= self.counted_from && now < self.until {
                self.counted += 1;
                self.latency.record(u64::try_from((now - flying.since).as_micros())?)?;
            }
        }
        Ok(self.acked.len() - before)
    }
}

/// Sleeps until the counted part of a plan begins, then until it ends, and tells what `measure` gave for it.
pub(crate) async fn around<T>(plan: Plan, measure: impl Fn() -> Result<T>) -> Result<(T, T)> {
    let counted_from = Instant::now() + plan.warm_up;
    sleep_until(counted_from).await;
    let before = measure()?;
    sleep_until(counted_from + plan.counted).await;
    Ok((before, measure()?))
}
