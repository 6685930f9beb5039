//! A server on a database of its own, with what is loaded on it.

use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use crate::counters::Counters;
use crate::cpu;
use crate::database::{self, Kind};
use crate::design::Acked;
use crate::fill::fill;
use crate::load::{self, Client, Mode, Plan};
use crate::process::Server;
use crate::setup;
use crate::socket::Socket;
use crate::spread::float;
use crate::test_database::TestDatabase;

pub(crate) const CONVERSATIONS: usize = 1_000;
/// Devices that send to the 1,000 conversations, each to its own part of them.
const CLIENTS_OF_MANY: usize = 32;
const IN_FLIGHT_OF_MANY: usize = 32;
/// Devices that send to the hot conversation; each gets what the others send.
const CLIENTS_OF_HOT: usize = 8;
const IN_FLIGHT_OF_HOT: usize = 128;
/// One device alone in the hot conversation: nobody to push to.
const IN_FLIGHT_OF_LONE: usize = 768;
/// Users that are never online begin here.
const FIRST_ABSENT_USER: usize = 100_000;

/// One way to load the server.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    in_flight: usize,
    pub(crate) hot: bool,
    clients: Vec<Client>,
    pub(crate) closed: Vec<Measured>,
    /// `(what it is, planned a second, what came of it)`
    pub(crate) fixed: Vec<(&'static str, usize, Measured)>,
}

/// One run of one scenario.
pub(crate) struct Measured {
    pub(crate) acked_per_second: usize,
    pub(crate) server_cpu_micros: f64,
    /// Server, database, load.
    pub(crate) cores: [f64; 3],
    /// Of the database, per acked message: flushes of its log, round trips.
    pub(crate) counted: Option<[f64; 2]>,
    pub(crate) pushes_per_second: f64,
    /// Microseconds.
    pub(crate) latency: Histogram<u64>,
}

/// Where CPU time is read.
#[derive(Clone, Copy)]
struct Processes {
    server: u32,
    /// None when it runs elsewhere, or in the server.
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

pub(crate) struct Place {
    /// Messages that were there before.
    pub(crate) rows: usize,
    pub(crate) scenarios: Vec<Scenario>,
    acked: Vec<Acked>,
    processes: Processes,
    counters: Counters,
    // In this order: the server goes before its database.
    _server: Server,
    pub(crate) database: TestDatabase,
}

impl Place {
    /// With `rows` there is only the first scenario.
    pub(crate) async fn new(kind: Kind, rows: usize, only_many: bool) -> Result<Self> {
        let database = database::fresh(kind).await?;
        let mut server = Server::start(&database.url)?;
        let many = (0..CONVERSATIONS)
            .map(|n| vec![1 + n % CLIENTS_OF_MANY, FIRST_ABSENT_USER + n])
            .collect();
        let many = setup::groups(&server.address, many).await?;
        if rows > 0 {
            drop(server);
            fill(kind, &database.url, many.len(), rows).await?;
            server = Server::start(&database.url)?;
        }
        let mut scenarios = vec![of_many(&server.address, &many).await?];
        if !only_many {
            scenarios.extend(of_hot(&server.address).await?);
        }
        Ok(Self {
            rows,
            scenarios,
            acked: Vec::new(),
            processes: Processes {
                server: server.pid(),
                database: cpu::database(&database.url).await,
            },
            counters: Counters::of(&database.url),
            _server: server,
            database,
        })
    }

    /// As fast as the server takes it.
    pub(crate) async fn closed(&mut self, at: usize, warm_up: Duration, counted: Duration) -> Result<()> {
        let scenario = self.scenarios.get_mut(at).context("there is such a scenario")?;
        let mode = Mode::Closed {
            in_flight: scenario.in_flight,
        };
        let measured = self.run(at, Plan { mode, warm_up, counted }).await?;
        if let Some(scenario) = self.scenarios.get_mut(at) {
            scenario.closed.push(measured);
        }
        Ok(())
    }

    /// So many a second.
    pub(crate) async fn fixed(
        &mut self,
        at: usize,
        (name, per_second): (&'static str, usize),
        warm_up: Duration,
        counted: Duration,
    ) -> Result<()> {
        let scenario = self.scenarios.get_mut(at).context("there is such a scenario")?;
        let mode = Mode::Rate {
            per_second,
            in_flight_max: scenario.in_flight,
        };
        let measured = self.run(at, Plan { mode, warm_up, counted }).await?;
        if let Some(scenario) = self.scenarios.get_mut(at) {
            scenario.fixed.push((name, per_second, measured));
        }
        Ok(())
    }

    async fn run(&mut self, at: usize, plan: Plan) -> Result<Measured> {
        let scenario = self.scenarios.get_mut(at).context("there is such a scenario")?;
        let clients = std::mem::take(&mut scenario.clients);
        let before = self.counters.read().await?;
        let processes = self.processes;
        let (outcome, cpu) = tokio::join!(load::run(clients, plan), load::around(plan, move || processes.cpu()));
        let (outcome, ([server0, database0, load0], [server1, database1, load1])) = (outcome?, cpu?);
        let after = self.counters.read().await?;
        let all = float(outcome.acked.len().max(1));
        if let Some(scenario) = self.scenarios.get_mut(at) {
            scenario.clients = outcome.clients;
        }
        self.acked.extend(outcome.acked);
        let seconds = plan.counted.as_secs_f64();
        Ok(Measured {
            acked_per_second: outcome.counted / usize::try_from(plan.counted.as_secs())?,
            server_cpu_micros: (server1 - server0) * 1e6 / float(outcome.counted.max(1)),
            cores: [
                (server1 - server0) / seconds,
                (database1 - database0) / seconds,
                (load1 - load0) / seconds,
            ],
            counted: before
                .zip(after)
                .map(|([flushes0, trips0], [flushes1, trips1])| [(flushes1 - flushes0) / all, (trips1 - trips0) / all]),
            pushes_per_second: float(outcome.pushes) / (plan.warm_up + plan.counted).as_secs_f64(),
            latency: outcome.latency,
        })
    }

    /// Everything acked is stored as it was acked; answers how many were acked.
    pub(crate) async fn check(&self) -> Result<usize> {
        let clients = self.scenarios.iter().flat_map(|scenario| &scenario.clients);
        let conversations: Vec<i64> = clients
            .flat_map(|client| client.conversations.iter().copied())
            .collect();
        database::check(&self.database.url, &conversations, &self.acked)
            .await
            .context("the server's store")?;
        Ok(self.acked.len())
    }
}

impl Scenario {
    fn new(name: &'static str, hot: bool, in_flight: usize, clients: Vec<Client>) -> Self {
        Self {
            name,
            in_flight,
            hot,
            clients,
            closed: Vec::new(),
            fixed: Vec::new(),
        }
    }

    /// What the closed loop reached on average, divided.
    pub(crate) fn saturation_divided_by(&self, by: usize) -> Result<usize> {
        let rates = self.closed.iter().map(|measured| measured.acked_per_second);
        let share = rates.sum::<usize>() / self.closed.len().max(1) / by;
        anyhow::ensure!(share > 0, "nothing was acked");
        Ok(share)
    }
}

async fn of_many(address: &str, many: &[i64]) -> Result<Scenario> {
    let mut clients = Vec::new();
    for index in 0..CLIENTS_OF_MANY {
        let own = many.iter().skip(index).step_by(CLIENTS_OF_MANY).copied().collect();
        clients.push(client(address, 1 + index, own).await?);
    }
    let name = "1,000 conversations, 32 devices";
    Ok(Scenario::new(name, false, IN_FLIGHT_OF_MANY, clients))
}

async fn of_hot(address: &str) -> Result<[Scenario; 2]> {
    let hot = setup::groups(address, vec![(1_001..=1_000 + CLIENTS_OF_HOT).collect()]).await?;
    let lone = setup::groups(address, vec![vec![2_001, FIRST_ABSENT_USER]]).await?;
    let mut clients = Vec::new();
    for index in 0..CLIENTS_OF_HOT {
        clients.push(client(address, 1_001 + index, hot.clone()).await?);
    }
    let lone = vec![client(address, 2_001, lone).await?];
    Ok([
        Scenario::new("1 hot conversation, 8 devices", true, IN_FLIGHT_OF_HOT, clients),
        Scenario::new("1 hot conversation, 1 device", true, IN_FLIGHT_OF_LONE, lone),
    ])
}

async fn client(address: &str, user: usize, conversations: Vec<i64>) -> Result<Client> {
    let socket = Socket::connect(address, &setup::token(user)?, "load").await?;
    Ok(Client { socket, conversations })
}
