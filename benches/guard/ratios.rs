//! Ratios of designs that take turns on the same databases: our write path without a network, the usual design with a
//! lock, and on PostgreSQL the bare insert.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use onescribe::storage::sql::{OpenOptions, migrate, open};
use tokio::runtime::{Builder, Handle};

use crate::bare_insert;
use crate::baseline::{Better, Ratio};
use crate::closed_loop;
use crate::database::TestDatabase;
use crate::design::Sender;
use crate::row_lock;
use crate::single_writer::SingleWriter;
use crate::spread::{Spread, float};

const CONVERSATIONS: i64 = 1_000;
/// Unanswered sends at any time.
const IN_FLIGHT: usize = 1_000;
/// Connections that suit the row lock best; SQLite takes one writer.
const ROW_LOCK_CONNECTIONS: usize = 32;

/// A database with the tables, and what runs on it.
struct Place {
    name: &'static str,
    ours: SingleWriter,
    many: Vec<i64>,
    hot: Vec<i64>,
    rival: TestDatabase,
    rival_conversations: Vec<i64>,
    bare: Option<Bare>,
    rates: BTreeMap<&'static str, Vec<f64>>,
    /// Kept: dropped, it is removed.
    _database: TestDatabase,
}

struct Bare {
    writers: Vec<bare_insert::Writer>,
    /// Kept: dropped, it is removed.
    _database: TestDatabase,
}

const MANY: &str = "1,000 conversations";
const HOT: &str = "1 hot conversation";
const LOCK: &str = "row lock";
const BARE: &str = "bare batched insert";

/// Medians of `rounds` rounds in which every design has `time`.
pub(crate) fn measure(rounds: usize, time: Duration) -> Result<BTreeMap<String, Ratio>> {
    // The senders of all designs run on the same two threads; the actors have arbiters of their own.
    let senders = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    actix::System::new().block_on(rounds_of(rounds, time, senders.handle().clone()))
}

async fn rounds_of(rounds: usize, time: Duration, senders: Handle) -> Result<BTreeMap<String, Ratio>> {
    ensure!(rounds > 0 && !time.is_zero(), "nothing is measured in no time");
    let mut places = vec![Place::new("SQLite", TestDatabase::sqlite(), TestDatabase::sqlite()).await?];
    if let (Some(one), Some(two), Some(three)) = (
        TestDatabase::postgres().await,
        TestDatabase::postgres().await,
        TestDatabase::postgres().await,
    ) {
        let mut place = Place::new("PostgreSQL", one, two).await?;
        place.bare = Some(Bare::new(three).await?);
        places.push(place);
    }
    if let (Some(one), Some(two)) = (TestDatabase::mysql().await, TestDatabase::mysql().await) {
        places.push(Place::new("MariaDB", one, two).await?);
    }
    let progress = ProgressBar::new(u64::try_from((rounds + 1) * places.len())?);
    progress.set_style(ProgressStyle::with_template("{bar:30} {msg} ({eta} left)")?);
    for round in 0..=rounds {
        for place in &mut places {
            progress.set_message(format!("round {round} of {rounds}, {}", place.name));
            place.round(&senders, time).await?;
            if round == 0 {
                // Connections, plans and caches are warm now.
                place.rates.clear();
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let mut ratios = BTreeMap::new();
    for place in &places {
        place.print();
        place.ratios(&mut ratios);
    }
    Ok(ratios)
}

impl Bare {
    async fn new(database: TestDatabase) -> Result<Self> {
        migrate(&database.url).await?;
        let conversations = row_lock::add_conversations(&database.url, 1, CONVERSATIONS).await?;
        Ok(Self {
            writers: bare_insert::writers(&database.url, &conversations).await?,
            _database: database,
        })
    }
}

impl Place {
    async fn new(name: &'static str, database: TestDatabase, rival: TestDatabase) -> Result<Self> {
        let ours = SingleWriter::start(open(&database.url, OpenOptions::default()).await?)?;
        let mut many = ours.add_conversations(usize::try_from(CONVERSATIONS + 1)?).await?;
        let hot = many.pop().into_iter().collect();
        migrate(&rival.url).await?;
        let rival_conversations = row_lock::add_conversations(&rival.url, 1, CONVERSATIONS).await?;
        Ok(Self {
            name,
            ours,
            many,
            hot,
            rival,
            rival_conversations,
            bare: None,
            rates: BTreeMap::new(),
            _database: database,
        })
    }

    async fn round(&mut self, runtime: &Handle, time: Duration) -> Result<()> {
        for (design, conversations) in [(MANY, &self.many), (HOT, &self.hot)] {
            let senders = (0..IN_FLIGHT)
                .map(|_| -> Box<dyn Sender> { Box::new(self.ours.clone()) })
                .collect();
            let outcome = closed_loop::run(runtime, senders, conversations, time).await?;
            self.rates.entry(design).or_default().push(outcome.per_second);
        }
        let connections = if self.rival.url.starts_with("sqlite") {
            1
        } else {
            ROW_LOCK_CONNECTIONS
        };
        let mut senders = Vec::new();
        for _ in 0..connections {
            senders.push(row_lock::connect(&self.rival.url).await?);
        }
        let outcome = closed_loop::run(runtime, senders, &self.rival_conversations, time).await?;
        self.rates.entry(LOCK).or_default().push(outcome.per_second);
        if let Some(bare) = &mut self.bare {
            let writers = std::mem::take(&mut bare.writers);
            let (per_second, writers) = bare_insert::run(runtime, writers, time).await?;
            bare.writers = writers;
            self.rates.entry(BARE).or_default().push(per_second);
        }
        Ok(())
    }

    fn median(&self, design: &str) -> Option<f64> {
        self.rates.get(design).map(|rates| Spread::of(rates).median)
    }

    fn print(&self) {
        let (transactions, messages) = self.ours.written();
        println!("\n{}, stored a second, median [min–max]:", self.name);
        for (design, rates) in &self.rates {
            println!("  {design}: {}", Spread::of(rates));
        }
        println!(
            "  messages in a transaction: {:.1}",
            float(messages) / float(transactions.max(1))
        );
    }

    fn ratios(&self, ratios: &mut BTreeMap<String, Ratio>) {
        for (of, to) in [(MANY, LOCK), (HOT, MANY), (MANY, BARE)] {
            if let (Some(of_rate), Some(to_rate)) = (self.median(of), self.median(to)) {
                ratios.insert(
                    format!("{}: {of} ÷ {to}", self.name),
                    Ratio {
                        value: of_rate / to_rate,
                        better: Better::Larger,
                    },
                );
            }
        }
        let (transactions, messages) = self.ours.written();
        ratios.insert(
            format!("{}: transactions per message", self.name),
            Ratio {
                value: float(transactions) / float(messages.max(1)),
                better: Better::Smaller,
            },
        );
    }
}
