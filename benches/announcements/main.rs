//! Does an announcement to 100,000 stall chat? The whole server over real WebSockets, with chat at a fixed rate before,
//! during and after it: what an ack takes, how many are told a second, what the server grows by, and whether everybody was
//! told exactly once.
//!
//! `tests/run databases -- cargo bench --bench announcements` takes PostgreSQL; `-- --database sqlite` or `mysql` the
//! others, `--receivers`, `--rate` and `--seconds` another size. None of the receivers has an INBOX yet: the dearest case.

#[path = "../support/database.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod database;
#[path = "../support/design.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod design;
mod job;
#[path = "../server/load.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod load;
#[path = "../server/process.rs"]
mod process;
#[path = "../server/setup.rs"]
mod setup;
#[path = "../server/socket.rs"]
mod socket;
#[path = "../support/spread.rs"]
#[expect(dead_code, reason = "shared with another benchmark, which needs more of it")]
mod spread;
#[expect(
    dead_code,
    clippy::expect_used,
    reason = "shared with the tests, which need more of it"
)]
#[path = "../../tests/support/database.rs"]
mod test_database;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use onescribe::clock::{Clock, SystemClock};
use onescribe::domain::Principal;
use onescribe::storage::sql::{OpenOptions, open};
use tokio::runtime::Builder;

use crate::database::{Kind, check, numbers};
use crate::design::Acked;
use crate::job::Job;
use crate::load::{Client, Mode, Plan};
use crate::process::Server;
use crate::socket::Socket;
use crate::spread::{float, short};

const CONVERSATIONS: usize = 64;
/// Devices, each with its own part of the conversations.
const CLIENTS: usize = 16;
const IN_FLIGHT: usize = 32;
/// Receivers that never chat begin here.
const FIRST_ABSENT_USER: usize = 100_000;
/// Users in one call of the store.
const USERS_AT_ONCE: usize = 5_000;
const WARM_UP: Duration = Duration::from_secs(2);
/// While it is told, chat is measured in pieces of this length.
const PIECE: Duration = Duration::from_secs(3);

#[derive(Parser)]
struct Options {
    /// Which database.
    #[arg(long, value_enum, default_value = "postgres")]
    database: Kind,
    /// Users who are told.
    #[arg(long, default_value_t = 100_000)]
    receivers: usize,
    /// Sends a second of those who chat.
    #[arg(long, default_value_t = 500)]
    rate: usize,
    /// How long chat is measured before and after it.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Those who chat, and what came of it.
struct Chat {
    clients: Vec<Client>,
    conversations: Vec<i64>,
    rate: usize,
    acked: Vec<Acked>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    // One thread for the load: the server and the database need the rest.
    let load = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let bench = load.spawn(bench(options));
    load.block_on(bench).context("the benchmark panicked")?
}

async fn bench(options: Options) -> Result<()> {
    let progress = ProgressBar::new(u64::try_from(options.receivers)?);
    progress.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})")?);
    let database = database::fresh(options.database).await?;
    make_users(&database.url, options.receivers, &progress).await?;
    let server = Server::start(&database.url)?;
    let mut chat = Chat::start(&server.address, options.rate).await?;
    let seconds = Duration::from_secs(options.seconds);

    progress.set_message("chat before it");
    chat.piece(WARM_UP, seconds).await?;
    let before = chat.piece(WARM_UP, seconds).await?;
    progress.set_message("are told");
    progress.reset();
    let job = Job::announce(&server, progress.clone()).await?;
    let mut during = Histogram::new(3)?;
    // The last piece ends after the job, so it counts only where there is no other.
    loop {
        let piece = chat.piece(Duration::ZERO, PIECE).await?;
        let is_over = job.is_over();
        if !is_over || during.is_empty() {
            during.add(&piece)?;
        }
        if is_over {
            break;
        }
    }
    let told = job.end().await?;
    progress.set_message("chat after it");
    let after = chat.piece(WARM_UP, seconds).await?;
    progress.finish_and_clear();

    drop(server);
    everybody_was_told_once(&database.url, told.receivers).await?;
    let looked_at = check(&database.url, &chat.conversations, &chat.acked).await?;
    print(&options, [&before, &during, &after]);
    println!(
        "\n{} receivers in {} s: {}/s; the server grew from {} to at most {} MiB while they were told. Each has one \
         notification, and {looked_at} messages of chat are stored as they were acked.",
        told.receivers,
        short(told.seconds),
        short(float(told.receivers) / told.seconds),
        told.kib_before / 1_024,
        told.kib_most / 1_024,
    );
    Ok(())
}

/// Users as they are provisioned, with nothing else.
async fn make_users(url: &str, count: usize, progress: &ProgressBar) -> Result<()> {
    progress.set_message("users are made");
    let store = open(url, OpenOptions::default()).await?;
    let first = i64::try_from(FIRST_ABSENT_USER)?;
    let users: Vec<Principal> = (first..first + i64::try_from(count)?).map(Principal::user).collect();
    for part in users.chunks(USERS_AT_ONCE) {
        store.provision(part, SystemClock.now()).await?;
        progress.inc(u64::try_from(part.len())?);
    }
    store.close().await;
    Ok(())
}

impl Chat {
    async fn start(address: &str, rate: usize) -> Result<Self> {
        let groups = (0..CONVERSATIONS).map(|n| vec![1 + n % CLIENTS, 1 + (n + 1) % CLIENTS]);
        let conversations = setup::groups(address, groups.collect()).await?;
        let mut clients = Vec::new();
        for index in 0..CLIENTS {
            clients.push(Client {
                socket: Socket::connect(address, &setup::token(1 + index)?, "load").await?,
                conversations: conversations.iter().skip(index).step_by(CLIENTS).copied().collect(),
            });
        }
        let acked = Vec::new();
        Ok(Self {
            clients,
            conversations,
            rate,
            acked,
        })
    }

    /// What acks took for so long, in microseconds.
    async fn piece(&mut self, warm_up: Duration, counted: Duration) -> Result<Histogram<u64>> {
        let mode = Mode::Rate {
            per_second: self.rate,
            in_flight_max: IN_FLIGHT,
        };
        let plan = Plan { mode, warm_up, counted };
        let outcome = load::run(std::mem::take(&mut self.clients), plan).await?;
        self.clients = outcome.clients;
        self.acked.extend(outcome.acked);
        Ok(outcome.latency)
    }
}

async fn everybody_was_told_once(url: &str, receivers: usize) -> Result<()> {
    let told = "SELECT COUNT(*), COUNT(DISTINCT owner_id) FROM im_notification WHERE kind = 3 AND owner_type = 1";
    let told = numbers(url, told, 2).await?;
    let all = i64::try_from(receivers)?;
    ensure!(told == [[all, all]], "{told:?} notifications and receivers, not {all}");
    let without = "SELECT COUNT(*) FROM im_principal p WHERE p.principal_type = 1 AND NOT EXISTS (SELECT 1 FROM \
                   im_notification n WHERE n.owner_type = 1 AND n.owner_id = p.principal_id AND n.kind = 3)";
    let without = numbers(url, without, 1).await?;
    ensure!(without == [[0]], "{without:?} users were not told");
    Ok(())
}

fn print(options: &Options, phases: [&Histogram<u64>; 3]) {
    println!(
        "| chat at {}/s | acks | ack p50 ms | ÷ before | ack p99 ms | ÷ before |",
        options.rate
    );
    println!("|---|--:|--:|--:|--:|--:|");
    let micros = |phase: &Histogram<u64>, q| float(usize::try_from(phase.value_at_quantile(q)).unwrap_or_default());
    let [before, ..] = phases;
    for (name, phase) in ["before", "during", "after"].into_iter().zip(phases) {
        let [p50, p99] = [0.5, 0.99].map(|q| (micros(phase, q), micros(before, q).max(1.0)));
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            phase.len(),
            short(p50.0 / 1e3),
            short(p50.0 / p50.1),
            short(p99.0 / 1e3),
            short(p99.0 / p99.1),
        );
    }
}
