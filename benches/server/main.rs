//! The whole server over real WebSockets with default durability, the load on the same machine: acked sends a second,
//! server CPU and the database's work per acked message, and the ack's latency at fixed rates; interleaved in the same
//! run with the row-lock design at its best, which has no network in front of it.
//!
//! `tests/run databases -- cargo bench --bench server` (PostgreSQL; `-- --database sqlite` or `mysql` for the others)
//! prints tables and the ratios, checks from a connection of its own that every acked message is stored and that no
//! conversation has a hole, and writes `benches/charts/server.svg`. With `-- --rows 6000000` a server whose store holds
//! so many messages takes turns with one that begins empty.

#[path = "../support/chart.rs"]
mod chart;
#[path = "../support/closed_loop.rs"]
mod closed_loop;
mod counters;
#[path = "../support/cpu.rs"]
mod cpu;
#[path = "../support/database.rs"]
mod database;
#[path = "../support/design.rs"]
mod design;
mod fill;
mod load;
mod place;
mod process;
mod report;
mod rival;
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
#[path = "../support/row_lock.rs"]
mod row_lock;
mod setup;
mod socket;
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
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::{Builder, Handle};

use crate::database::Kind;
use crate::place::{CONVERSATIONS, Place};
use crate::report::Report;
use crate::rival::Rival;

const WARM_UP: Duration = Duration::from_secs(1);
const COUNTED: Duration = Duration::from_secs(3);
const FIXED_RATE_COUNTED: Duration = Duration::from_secs(8);
/// A rate that a busy service has, far below saturation.
const MODERATE: usize = 5_000;

#[derive(Parser)]
struct Options {
    /// Which database.
    #[arg(long, value_enum, default_value = "postgres")]
    database: Kind,
    /// Also a store with so many messages, in turn with the one that begins empty; then only 1,000 conversations.
    #[arg(long, default_value_t = 0)]
    rows: usize,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    // The load has one thread: two cores must do for it, the server and the database.
    let load = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let row_lock = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let bench = load.spawn(bench(options, row_lock.handle().clone()));
    load.block_on(bench).context("the benchmark panicked")?
}

async fn bench(options: Options, row_lock: Handle) -> Result<()> {
    let Options {
        database, rows, rounds, ..
    } = options;
    let mut places = vec![Place::new(database, 0, rows > 0).await?];
    if rows > 0 {
        places.push(Place::new(database, rows, true).await?);
    }
    let mut rival = Rival::new(row_lock, database, CONVERSATIONS).await?;
    let progress = ProgressBar::new(u64::try_from(rounds + 1)?);
    progress.set_style(ProgressStyle::with_template("{bar:30} {msg} ({eta} left)")?);
    for round in 1..=rounds {
        progress.set_message(format!("round {round} of {rounds}"));
        for place in &mut places {
            for at in 0..place.scenarios.len() {
                place.closed(at, WARM_UP, COUNTED).await?;
                rival.run(at > 0, WARM_UP + COUNTED).await?;
            }
        }
        rival.run_idle(COUNTED).await?;
        progress.inc(1);
    }
    progress.set_message("fixed rates");
    for place in &mut places {
        at_fixed_rates(place).await?;
    }
    progress.finish_and_clear();

    for place in &places {
        println!(
            "checked: all {} acked messages are stored as they were acked, no conversation has a hole",
            place.check().await?
        );
        println!("{}", database::settings(&place.database.url).await?);
    }
    println!("checked: {} rows of the row lock", rival.check().await?);
    let report = Report {
        places: &places,
        rival: &rival,
    };
    report.print();
    if database == Kind::Postgres && rows == 0 {
        report.chart()?;
    }
    Ok(())
}

async fn at_fixed_rates(place: &mut Place) -> Result<()> {
    for at in 0..place.scenarios.len() {
        let share = |by| {
            let scenario = place.scenarios.get(at).context("there is such a scenario")?;
            scenario.saturation_divided_by(by)
        };
        let (half, third) = (share(2)?, share(3)?);
        place
            .fixed(at, ("half of that", half), WARM_UP, FIXED_RATE_COUNTED)
            .await?;
        if at == 0 {
            place
                .fixed(at, ("a third of that", third), WARM_UP, FIXED_RATE_COUNTED)
                .await?;
            place
                .fixed(at, ("moderate", MODERATE), WARM_UP, FIXED_RATE_COUNTED)
                .await?;
        }
    }
    Ok(())
}
