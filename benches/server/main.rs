//! The whole server over real WebSockets on PostgreSQL with default durability, the load on the same machine:
//! acked sends a second, server CPU per acked message, and the ack's latency at half load; interleaved in the same
//! run with the row-lock design at its best, which has no network in front of it.
//!
//! `tests/run databases -- cargo bench --bench server` prints tables and the ratios, checks from a connection of its own
//! that every acked message is stored and that no conversation has a hole, and writes `benches/charts/server.svg`.

#[path = "../support/chart.rs"]
mod chart;
#[path = "../support/closed_loop.rs"]
mod closed_loop;
#[path = "../support/cpu.rs"]
mod cpu;
#[path = "../support/database.rs"]
mod database;
#[path = "../support/design.rs"]
mod design;
mod load;
mod process;
mod report;
#[path = "../support/row_lock.rs"]
mod row_lock;
mod setup;
mod socket;
#[path = "../support/spread.rs"]
mod spread;

use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use sqlx::{Connection, PgConnection};
use tokio::runtime::{Builder, Handle};

use crate::database::{Name, OURS};
use crate::design::{Acked, Sender};
use crate::load::{Client, Mode, Plan};
use crate::process::Server;
use crate::report::{Measured, Report};
use crate::row_lock::RowLock;
use crate::socket::Socket;
use crate::spread::float;

const ROW_LOCK: Name = Name {
    name: "onescribe_bench_row_lock",
    drop: "DROP DATABASE IF EXISTS onescribe_bench_row_lock WITH (FORCE)",
    create: "CREATE DATABASE onescribe_bench_row_lock",
};
const CONVERSATIONS: usize = 1_000;
/// Devices that send to the 1,000 conversations, each to its own part of them.
const CLIENTS_OF_MANY: usize = 32;
const IN_FLIGHT_OF_MANY: usize = 32;
/// Devices that send to the hot conversation; each gets what the others send.
const CLIENTS_OF_HOT: usize = 8;
const IN_FLIGHT_OF_HOT: usize = 128;
/// One device alone in the hot conversation: nobody to push to.
const IN_FLIGHT_OF_LONE: usize = 768;
/// What suits the row lock best (see the bench `sequencers`).
const ROW_LOCK_CONNECTIONS_MANY: usize = 32;
const ROW_LOCK_CONNECTIONS_HOT: usize = 8;
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(1);
const COUNTED: Duration = Duration::from_secs(3);
const HALF_LOAD_COUNTED: Duration = Duration::from_secs(8);
/// Users that are never online begin here.
const FIRST_ABSENT_USER: usize = 100_000;

/// One way to load the server.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    in_flight: usize,
    pub(crate) hot: bool,
    clients: Vec<Client>,
    pub(crate) closed: Vec<Measured>,
    pub(crate) half: Option<(usize, Measured)>,
}

/// What the row lock reached.
pub(crate) struct RowLockRuns {
    /// Stored a second, a round each.
    pub(crate) rates: Vec<f64>,
    /// Microseconds, at that rate.
    pub(crate) latency: Histogram<u64>,
}

impl RowLockRuns {
    fn new() -> Result<Self> {
        Ok(Self {
            rates: Vec::new(),
            latency: Histogram::new(3)?,
        })
    }
}

/// One hot conversation and many.
pub(crate) struct RowLockReport {
    pub(crate) many: RowLockRuns,
    pub(crate) hot: RowLockRuns,
}

/// Where CPU time is read.
#[derive(Clone, Copy)]
struct Processes {
    server: u32,
    /// None when it runs elsewhere.
    database: Option<u32>,
}

impl Processes {
    /// CPU seconds so far of the server, the database and the load (this process).
    fn cpu(self) -> Result<[f64; 3]> {
        let server = cpu::of_process(self.server)?;
        let database = self.database.map(cpu::of_tree).transpose()?.unwrap_or_default();
        let load = cpu::of_process(std::process::id())?;
        Ok([server, database, load].map(|time| time.as_secs_f64()))
    }
}

fn main() -> Result<()> {
    // The load has one thread: two cores must do for it, the server and the database.
    let load = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let row_lock = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let bench = load.spawn(bench(row_lock.handle().clone()));
    load.block_on(bench).context("the benchmark panicked")?
}

async fn bench(row_lock: Handle) -> Result<()> {
    let (url, row_lock_url) = (database::fresh(&OURS).await?, database::fresh(&ROW_LOCK).await?);
    onescribe::storage::sql::migrate(&row_lock_url).await?;
    let server = Server::start(&url)?;
    let processes = Processes {
        server: server.pid(),
        database: cpu::postgres(&url).await,
    };
    let mut scenarios = scenarios(&server.address).await?;
    let mut rival = Rival::new(row_lock, row_lock_url).await?;

    let progress = ProgressBar::new(u64::try_from(ROUNDS + 1)?);
    progress.set_style(ProgressStyle::with_template("{bar:30} {msg} ({eta} left)")?);
    let mut acked = Vec::new();
    for round in 1..=ROUNDS {
        progress.set_message(format!("round {round} of {ROUNDS}"));
        for scenario in &mut scenarios {
            let plan = Plan {
                mode: Mode::Closed {
                    in_flight: scenario.in_flight,
                },
                warm_up: WARM_UP,
                counted: COUNTED,
            };
            let measured = run(scenario, plan, processes, &mut acked).await?;
            scenario.closed.push(measured);
            rival.run(scenario.hot).await?;
        }
        progress.inc(1);
    }
    progress.set_message("half load");
    for scenario in &mut scenarios {
        let per_second = half_of(scenario)?;
        let plan = Plan {
            mode: Mode::Rate {
                per_second,
                in_flight_max: scenario.in_flight,
            },
            warm_up: WARM_UP,
            counted: HALF_LOAD_COUNTED,
        };
        let measured = run(scenario, plan, processes, &mut acked).await?;
        scenario.half = Some((per_second, measured));
    }
    progress.finish_and_clear();

    let conversations: Vec<i64> = scenarios.iter().flat_map(Scenario::conversations).collect();
    let rows = database::check(&url, &conversations, &acked)
        .await
        .context("the server's store")?;
    let rival_rows = rival.check().await?;
    let report = Report {
        scenarios: &scenarios,
        row_lock: &rival.report,
    };
    println!("{}", database::settings(&url).await?);
    report.print();
    println!(
        "\nchecked: {} acked messages of the server among {rows} rows and {rival_rows} rows of the row lock: all stored \
         as they were acked, no conversation has a hole",
        acked.len()
    );
    report.chart()
}

impl Scenario {
    fn conversations(&self) -> Vec<i64> {
        self.clients
            .iter()
            .flat_map(|client| client.conversations.iter().copied())
            .collect()
    }
}

/// Half of what the closed loop reached.
fn half_of(scenario: &Scenario) -> Result<usize> {
    let rates: Vec<usize> = scenario
        .closed
        .iter()
        .map(|measured| measured.acked_per_second)
        .collect();
    Ok(rates.iter().sum::<usize>() / rates.len().max(1) / 2).and_then(|half| {
        anyhow::ensure!(half > 0, "nothing was acked");
        Ok(half)
    })
}

async fn run(scenario: &mut Scenario, plan: Plan, processes: Processes, acked: &mut Vec<Acked>) -> Result<Measured> {
    let clients = std::mem::take(&mut scenario.clients);
    let (outcome, cpu) = tokio::join!(load::run(clients, plan), load::around(plan, move || processes.cpu()));
    let (outcome, ([server0, database0, load0], [server1, database1, load1])) = (outcome?, cpu?);
    scenario.clients = outcome.clients;
    acked.extend(outcome.acked);
    let seconds = plan.counted.as_secs_f64();
    Ok(Measured {
        acked_per_second: outcome.counted / usize::try_from(plan.counted.as_secs())?,
        server_cpu_micros: (server1 - server0) * 1e6 / float(outcome.counted.max(1)),
        cores: [
            (server1 - server0) / seconds,
            (database1 - database0) / seconds,
            (load1 - load0) / seconds,
        ],
        pushes: outcome.pushes,
        latency: outcome.latency,
    })
}

async fn scenarios(address: &str) -> Result<Vec<Scenario>> {
    let many = (0..CONVERSATIONS)
        .map(|n| vec![1 + n % CLIENTS_OF_MANY, FIRST_ABSENT_USER + n])
        .collect();
    let many = setup::groups(address, many).await?;
    let hot = setup::groups(address, vec![(1_001..=1_000 + CLIENTS_OF_HOT).collect()]).await?;
    let lone = setup::groups(address, vec![vec![2_001, FIRST_ABSENT_USER]]).await?;

    let mut clients_of_many = Vec::new();
    for index in 0..CLIENTS_OF_MANY {
        let own = many.iter().skip(index).step_by(CLIENTS_OF_MANY).copied().collect();
        clients_of_many.push(client(address, 1 + index, own).await?);
    }
    let mut clients_of_hot = Vec::new();
    for index in 0..CLIENTS_OF_HOT {
        clients_of_hot.push(client(address, 1_001 + index, hot.clone()).await?);
    }
    let lone = client(address, 2_001, lone).await?;
    let scenario = |name, hot, in_flight, clients| Scenario {
        name,
        in_flight,
        hot,
        clients,
        closed: Vec::new(),
        half: None,
    };
    Ok(vec![
        scenario(
            "1,000 conversations, 32 devices",
            false,
            IN_FLIGHT_OF_MANY,
            clients_of_many,
        ),
        scenario("1 hot conversation, 8 devices", true, IN_FLIGHT_OF_HOT, clients_of_hot),
        scenario("1 hot conversation, 1 device", true, IN_FLIGHT_OF_LONE, vec![lone]),
    ])
}

async fn client(address: &str, user: usize, conversations: Vec<i64>) -> Result<Client> {
    let socket = Socket::connect(address, &setup::token(user)?, "load").await?;
    Ok(Client { socket, conversations })
}

/// The row lock, with what it needs.
struct Rival {
    runtime: Handle,
    url: String,
    many: Vec<i64>,
    hot: Vec<i64>,
    acked: Vec<Acked>,
    report: RowLockReport,
}

impl Rival {
    async fn new(runtime: Handle, url: String) -> Result<Self> {
        let mut connection = PgConnection::connect(&url).await?;
        let mut many = database::add_conversations(&mut connection, 1, i64::try_from(CONVERSATIONS)? + 1).await?;
        let hot = many.pop().into_iter().collect();
        Ok(Self {
            runtime,
            url,
            many,
            hot,
            acked: Vec::new(),
            report: RowLockReport {
                many: RowLockRuns::new()?,
                hot: RowLockRuns::new()?,
            },
        })
    }

    async fn run(&mut self, hot: bool) -> Result<()> {
        let count = if hot {
            ROW_LOCK_CONNECTIONS_HOT
        } else {
            ROW_LOCK_CONNECTIONS_MANY
        };
        let conversations = if hot { &self.hot } else { &self.many };
        let mut senders: Vec<Box<dyn Sender>> = Vec::new();
        for _ in 0..count {
            senders.push(Box::new(RowLock::connect(&self.url).await?));
        }
        let outcome = closed_loop::run(&self.runtime, senders, conversations, WARM_UP + COUNTED).await?;
        self.acked.extend(outcome.acked);
        let runs = if hot {
            &mut self.report.hot
        } else {
            &mut self.report.many
        };
        runs.rates.push(outcome.per_second);
        runs.latency.add(&outcome.latency)?;
        Ok(())
    }

    async fn check(&self) -> Result<usize> {
        let conversations: Vec<i64> = self.many.iter().chain(&self.hot).copied().collect();
        database::check(&self.url, &conversations, &self.acked)
            .await
            .context("the row lock's store")
    }
}
