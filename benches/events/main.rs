//! Do those who are told of events slow sends? The whole server over real WebSockets on PostgreSQL, with nobody to tell,
//! with a reader of the feed, and with a webhook whose receiver is quick, slow, refuses, hangs or is down: each time a
//! fresh server on a fresh database, the ways in turn, so that a machine with other work on it does the same to all.
//!
//! `tests/run databases -- cargo bench --bench events` (`-- --database sqlite` or `mysql` for the others) prints a table
//! with the ratios to nobody, at saturation and at a fixed rate. Receiver and reader run on the same cores and are part of
//! the figures at saturation; at the fixed rate there is room for them.

#[path = "../support/cpu.rs"]
mod cpu;
#[path = "../support/database.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod database;
#[path = "../support/design.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod design;
mod listener;
#[path = "../server/load.rs"]
mod load;
#[path = "../server/process.rs"]
mod process;
#[path = "../server/setup.rs"]
mod setup;
#[path = "../server/socket.rs"]
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
use tokio::runtime::Builder;

use crate::database::Kind;
use crate::listener::{Listener, Way};
use crate::load::{Client, Mode, Plan};
use crate::process::Server;
use crate::socket::Socket;
use crate::spread::{Spread, float, short};

const CONVERSATIONS: usize = 256;
/// Devices, each with its own part of the conversations.
const CLIENTS: usize = 16;
const IN_FLIGHT: usize = 32;
/// Users that are never online begin here.
const FIRST_ABSENT_USER: usize = 100_000;
const WARM_UP: Duration = Duration::from_secs(1);
const COUNTED: Duration = Duration::from_secs(3);
/// A rate that a busy service has, far below saturation.
const MODERATE: usize = 1_000;

#[derive(Parser)]
struct Options {
    /// Which database.
    #[arg(long, value_enum, default_value = "postgres")]
    database: Kind,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Acked sends a second at the fixed rate.
    #[arg(long, default_value_t = MODERATE)]
    rate: usize,
    /// cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What came of one way in one round.
struct Measured {
    saturated: f64,
    /// CPU of the server and its database per acked send at saturation, in microseconds.
    cpu_micros: f64,
    fixed: f64,
    /// At the fixed rate.
    p50_ms: f64,
    p99_ms: f64,
    /// Events that were told meanwhile, a second.
    told: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    // One thread for the load and one for whoever is told: the server and the database need the rest.
    let load = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let bench = load.spawn(bench(options));
    load.block_on(bench).context("the benchmark panicked")?
}

async fn bench(options: Options) -> Result<()> {
    let mut all: Vec<Vec<Measured>> = Way::ALL.iter().map(|_| Vec::new()).collect();
    let progress = ProgressBar::new(u64::try_from(options.rounds * Way::ALL.len())?);
    progress.set_style(ProgressStyle::with_template("{bar:30} {msg} ({eta} left)")?);
    for _ in 0..options.rounds {
        for (way, measured) in Way::ALL.into_iter().zip(&mut all) {
            progress.set_message(way.name());
            measured.push(measure(way, &options).await?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    print(&all, options.rate);
    Ok(())
}

async fn measure(way: Way, options: &Options) -> Result<Measured> {
    let database = database::fresh(options.database).await?;
    let server = Server::start(&database.url)?;
    let listener = Listener::start(way, &server.address).await?;
    let clients = clients(&server.address).await?;
    let processes = (server.pid(), cpu::database(&database.url).await);
    let told = listener.told();
    let mut plan = Plan {
        mode: Mode::Rate {
            per_second: options.rate,
            in_flight_max: IN_FLIGHT,
        },
        warm_up: WARM_UP,
        counted: COUNTED,
    };
    let fixed = load::run(clients, plan).await?;
    let told = listener.told() - told;
    let seconds = COUNTED.as_secs_f64();
    let quantile_ms = |q| anyhow::Ok(float(usize::try_from(fixed.latency.value_at_quantile(q))?) / 1e3);
    let (p50_ms, p99_ms) = (quantile_ms(0.5)?, quantile_ms(0.99)?);
    let at_rate = float(fixed.counted) / seconds;
    plan.mode = Mode::Closed { in_flight: IN_FLIGHT };
    let (outcome, cpu) = tokio::join!(
        load::run(fixed.clients, plan),
        load::around(plan, move || used(processes))
    );
    let (outcome, (before, after)) = (outcome?, cpu?);
    Ok(Measured {
        saturated: float(outcome.counted) / seconds,
        cpu_micros: (after - before) * 1e6 / float(outcome.counted.max(1)),
        fixed: at_rate,
        p50_ms,
        p99_ms,
        told: float(told) / (WARM_UP + COUNTED).as_secs_f64(),
    })
}

/// CPU seconds so far of the server and its database.
fn used((server, database): (u32, Option<u32>)) -> Result<f64> {
    let database = database.map(cpu::of_tree).transpose()?.unwrap_or_default();
    Ok((cpu::of_process(server)? + database).as_secs_f64())
}

async fn clients(address: &str) -> Result<Vec<Client>> {
    let groups = (0..CONVERSATIONS).map(|n| vec![1 + n % CLIENTS, FIRST_ABSENT_USER + n]);
    let all = setup::groups(address, groups.collect()).await?;
    let mut clients = Vec::new();
    for index in 0..CLIENTS {
        clients.push(Client {
            socket: Socket::connect(address, &setup::token(1 + index)?, "load").await?,
            conversations: all.iter().skip(index).step_by(CLIENTS).copied().collect(),
        });
    }
    Ok(clients)
}

fn print(all: &[Vec<Measured>], rate: usize) {
    let nobody = all.first().map(Vec::as_slice).unwrap_or_default();
    println!(
        "| who is told | acked/s at saturation | ÷ nobody | server + database CPU µs per acked | at {rate}/s: acked/s | \
         ack p50 ms | ÷ nobody | ack p99 ms | ÷ nobody | told/s |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (way, measured) in Way::ALL.into_iter().zip(all) {
        let of = |what: fn(&Measured) -> f64| Spread::of(&measured.iter().map(what).collect::<Vec<_>>());
        // Of neighbours in time, round by round: what slows the machine slows both.
        let ratio = |what: fn(&Measured) -> f64| {
            let rounds = measured.iter().zip(nobody);
            Spread::of(&rounds.map(|(own, nobody)| what(own) / what(nobody)).collect::<Vec<_>>())
        };
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            way.name(),
            of(|one| one.saturated),
            ratio(|one| one.saturated),
            of(|one| one.cpu_micros),
            short(of(|one| one.fixed).median),
            of(|one| one.p50_ms),
            ratio(|one| one.p50_ms),
            of(|one| one.p99_ms),
            ratio(|one| one.p99_ms),
            short(of(|one| one.told).median),
        );
    }
}
