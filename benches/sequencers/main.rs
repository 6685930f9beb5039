//! The ways to number and store a message, side by side on one PostgreSQL and one table with three unique keys: row
//! lock, Redis `INCR`, segments of 1,000, and our single writer with group commit; one hot conversation and 1,000;
//! 1, 8 and 32 senders, for the single writer also 1,000 in flight.
//!
//! `tests/run databases --redis -- cargo bench --bench sequencers` prints a table, checks that every acked message is
//! stored and that no conversation has a hole, and writes `benches/charts/sequencers.svg`.

#[path = "../support/chart.rs"]
mod chart;
#[path = "../support/closed_loop.rs"]
mod closed_loop;
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
#[path = "../support/database.rs"]
mod database;
#[path = "../support/design.rs"]
mod design;
mod redis_counter;
mod report;
#[path = "../support/row_lock.rs"]
mod row_lock;
mod segments;
#[path = "../support/single_writer.rs"]
mod single_writer;
#[path = "../support/spread.rs"]
mod spread;
#[expect(
    dead_code,
    clippy::expect_used,
    reason = "shared with the tests, which need more of it"
)]
#[path = "../../tests/support/database.rs"]
mod test_database;

use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use onescribe::storage::sql::OpenOptions;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

use crate::design::{Acked, Sender};
use crate::redis_counter::RedisCounter;
use crate::report::Cell;
use crate::segments::{SegmentSender, Segments};
use crate::single_writer::SingleWriter;

const REDIS_URL_VARIABLE: &str = "ONESCRIBE_TEST_REDIS_URL";
const CONVERSATIONS: i64 = 1_000;
const SENDERS: [usize; 3] = [1, 8, 32];
const SENDERS_OF_THE_SINGLE_WRITER: [usize; 4] = [1, 8, 32, 1_000];
/// Rounds that count; one shorter round before them warms up.
const ROUNDS: usize = 3;
const RUN: Duration = Duration::from_millis(1_250);
const WARM_UP_RUN: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    RowLock,
    Redis,
    Segments,
    SingleWriter,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::RowLock, Self::Redis, Self::Segments, Self::SingleWriter];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RowLock => "row lock",
            Self::Redis => "Redis INCR + insert",
            Self::Segments => "segments of 1,000 + insert",
            Self::SingleWriter => "single writer, group commit (ours)",
        }
    }

    const fn senders(self) -> &'static [usize] {
        match self {
            Self::SingleWriter => &SENDERS_OF_THE_SINGLE_WRITER,
            _ => &SENDERS,
        }
    }
}

/// A design with what it runs on.
struct Contestant {
    kind: Kind,
    hot: Vec<i64>,
    many: Vec<i64>,
    acked: Vec<Acked>,
}

/// What senders are made from.
struct World {
    url: String,
    redis: MultiplexedConnection,
    segments: Segments,
    single_writer: SingleWriter,
}

impl World {
    async fn sender(&self, kind: Kind) -> Result<Box<dyn Sender>> {
        Ok(match kind {
            Kind::RowLock => row_lock::connect(&self.url).await?,
            Kind::Redis => Box::new(RedisCounter::connect(&self.url, self.redis.clone()).await?),
            Kind::Segments => Box::new(SegmentSender::connect(&self.url, self.segments.clone()).await?),
            Kind::SingleWriter => Box::new(self.single_writer.clone()),
        })
    }

    async fn contestant(&mut self, kind: Kind, first: i64) -> Result<Contestant> {
        let count = usize::try_from(CONVERSATIONS + 1)?;
        let mut many = if kind == Kind::SingleWriter {
            self.single_writer.add_conversations(count).await?
        } else {
            row_lock::add_conversations(&self.url, first, CONVERSATIONS + 1).await?
        };
        redis_counter::forget(&mut self.redis, &many).await?;
        let hot = many.pop().into_iter().collect();
        Ok(Contestant {
            kind,
            hot,
            many,
            acked: Vec::new(),
        })
    }
}

fn main() -> Result<()> {
    // The rivals' senders and ours run on the same two threads; the actors have arbiters of their own.
    let senders = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    actix::System::new().block_on(bench(senders.handle().clone()))
}

async fn bench(runtime: Handle) -> Result<()> {
    let database = database::fresh(database::Kind::Postgres).await?;
    let url = database.url.clone();
    let store = onescribe::storage::sql::open(&url, OpenOptions::default()).await?;
    let redis_url = std::env::var(REDIS_URL_VARIABLE).with_context(|| format!("{REDIS_URL_VARIABLE} is not set"))?;
    // Connections belong to the threads that use them.
    let redis = runtime.spawn(async move { redis::Client::open(redis_url)?.get_multiplexed_async_connection().await });
    let mut world = World {
        redis: redis.await?.context("Redis cannot be reached")?,
        segments: Segments::default(),
        single_writer: SingleWriter::start(store)?,
        url,
    };
    let mut contestants = Vec::new();
    for (kind, first) in Kind::ALL.into_iter().zip((0..).step_by(1_000_000)) {
        contestants.push(world.contestant(kind, first + 1).await?);
    }
    let mut cells = cells();
    measure(&world, &runtime, &mut contestants, &mut cells).await?;
    let mut rows = 0;
    for contestant in &contestants {
        let conversations: Vec<i64> = contestant.many.iter().chain(&contestant.hot).copied().collect();
        rows += database::check(&world.url, &conversations, &contestant.acked)
            .await
            .with_context(|| contestant.kind.name())?;
    }
    println!("{}", database::settings(&world.url).await?);
    println!(
        "{ROUNDS} interleaved rounds of {} ms, median [min–max]\n",
        RUN.as_millis()
    );
    report::print(&cells);
    let (transactions, messages) = world.single_writer.written();
    println!(
        "\nours, over all cells: {:.1} messages in a transaction",
        spread::float(messages) / spread::float(transactions)
    );
    println!("\nchecked: {rows} rows, every acked message is stored as it was acked, no conversation has a hole");
    report::chart(&cells)
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for hot in [false, true] {
        for kind in Kind::ALL {
            cells.extend(kind.senders().iter().map(|senders| Cell::new(kind, hot, *senders)));
        }
    }
    cells
}

/// The cells take turns, so that a disturbance of the machine and the growth of the table hit all of them.
async fn measure(world: &World, runtime: &Handle, contestants: &mut [Contestant], cells: &mut [Cell]) -> Result<()> {
    let runs = u64::try_from(cells.len() * (ROUNDS + 1))?;
    let progress = ProgressBar::new(runs);
    progress.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)")?);
    for round in 0..=ROUNDS {
        for cell in cells.iter_mut() {
            progress.set_message(format!("{}, {} senders", cell.kind.name(), cell.senders));
            let contestant = contestants.iter_mut().find(|contestant| contestant.kind == cell.kind);
            let contestant = contestant.context("every kind has a contestant")?;
            let mut senders = Vec::new();
            for _ in 0..cell.senders {
                senders.push(world.sender(cell.kind).await?);
            }
            let conversations = if cell.hot { &contestant.hot } else { &contestant.many };
            let time = if round == 0 { WARM_UP_RUN } else { RUN };
            let outcome = closed_loop::run(runtime, senders, conversations, time).await?;
            contestant.acked.extend(&outcome.acked);
            if round > 0 {
                cell.add(&outcome)?;
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(())
}
