//! What reads cost, on the three databases: a page of history at any depth, the list with unread counts,
//! and catching up.
//!
//! `tests/run databases -- cargo bench --bench reads` prints the tables. Rows are made by the databases themselves, as
//! our writers would have left them; they are read through the store, as the server does.

#[expect(
    dead_code,
    clippy::expect_used,
    reason = "shared with the tests, which need more of it"
)]
#[path = "../../tests/support/database.rs"]
mod database;
mod depth;
mod fill;
mod listing;
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
#[path = "../server/process.rs"]
mod process;
#[expect(dead_code, reason = "shared with the other benchmarks, which need more of it")]
#[path = "../support/spread.rs"]
mod spread;
mod syncing;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use onescribe::storage::Store;
use onescribe::storage::sql::{OpenOptions, open};

use crate::database::TestDatabase;
use crate::spread::{float, short};

/// A database with the tables of the product, and the store on it.
struct Place {
    name: &'static str,
    database: TestDatabase,
    store: Arc<dyn Store>,
}

impl Place {
    async fn new(name: &'static str, database: TestDatabase) -> Result<Self> {
        let store = open(&database.url, OpenOptions::default()).await?;
        Ok(Self { name, database, store })
    }
}

/// Latencies of one kind of read, in microseconds.
struct Timing(Histogram<u64>);

impl Timing {
    fn new() -> Result<Self> {
        Ok(Self(Histogram::new(3)?))
    }

    fn record(&mut self, took: Duration) -> Result<()> {
        Ok(self.0.record(u64::try_from(took.as_micros())?.max(1))?)
    }

    /// Milliseconds.
    fn quantile(&self, quantile: f64) -> f64 {
        float(usize::try_from(self.0.value_at_quantile(quantile)).unwrap_or(usize::MAX)) / 1_000.0
    }

    /// `p50 / p99` in milliseconds.
    fn show(&self) -> String {
        format!("{} / {}", short(self.quantile(0.5)), short(self.quantile(0.99)))
    }
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(bench())
}

async fn bench() -> Result<()> {
    let missing = "run `tests/run databases -- cargo bench --bench reads`, which starts PostgreSQL and MariaDB";
    let places = [
        Place::new("SQLite", TestDatabase::sqlite()).await?,
        Place::new("PostgreSQL", TestDatabase::postgres().await.context(missing)?).await?,
        Place::new("MariaDB", TestDatabase::mysql().await.context(missing)?).await?,
    ];
    let progress = ProgressBar::new(fill::STEPS * 3);
    progress.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")?);
    for place in &places {
        progress.set_message(format!("rows on {}", place.name));
        fill::fill(&place.database.url, &progress).await?;
    }
    progress.finish_and_clear();
    depth::run(&places).await?;
    listing::run(&places).await?;
    syncing::run(&places).await?;
    Ok(())
}
