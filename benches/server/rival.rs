//! The row lock with what it needs, in turn with the server.

use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use onescribe::storage::sql::migrate;
use tokio::runtime::Handle;

use crate::closed_loop;
use crate::database::{self, Kind};
use crate::design::Acked;
use crate::row_lock;
use crate::test_database::TestDatabase;

/// What suits the row lock best (see the bench `sequencers`); SQLite takes one writer.
const CONNECTIONS_MANY: usize = 32;
const CONNECTIONS_HOT: usize = 8;

/// What the row lock reached.
pub(crate) struct Runs {
    /// Stored a second, a round each.
    pub(crate) rates: Vec<f64>,
    /// Microseconds, at that rate.
    pub(crate) latency: Histogram<u64>,
}

impl Runs {
    fn new() -> Result<Self> {
        Ok(Self {
            rates: Vec::new(),
            latency: Histogram::new(3)?,
        })
    }
}

pub(crate) struct Rival {
    runtime: Handle,
    kind: Kind,
    database: TestDatabase,
    many_ids: Vec<i64>,
    hot_ids: Vec<i64>,
    acked: Vec<Acked>,
    pub(crate) many: Runs,
    pub(crate) hot: Runs,
    /// One connection alone.
    pub(crate) idle: Runs,
}

impl Rival {
    pub(crate) async fn new(runtime: Handle, kind: Kind, conversations: usize) -> Result<Self> {
        let database = database::fresh(kind).await?;
        migrate(&database.url).await?;
        let mut many_ids = row_lock::add_conversations(&database.url, 1, i64::try_from(conversations)? + 1).await?;
        let hot_ids = many_ids.pop().into_iter().collect();
        Ok(Self {
            runtime,
            kind,
            database,
            many_ids,
            hot_ids,
            acked: Vec::new(),
            many: Runs::new()?,
            hot: Runs::new()?,
            idle: Runs::new()?,
        })
    }

    /// A round at the number of connections that suits it best.
    pub(crate) async fn run(&mut self, hot: bool, time: Duration) -> Result<()> {
        let connections = match (self.kind, hot) {
            (Kind::Sqlite, _) => 1,
            (_, true) => CONNECTIONS_HOT,
            (_, false) => CONNECTIONS_MANY,
        };
        let outcome = self.load(connections, hot, time).await?;
        let runs = if hot { &mut self.hot } else { &mut self.many };
        runs.rates.push(outcome.per_second);
        runs.latency.add(&outcome.latency)?;
        Ok(())
    }

    /// One connection, which waits for nobody.
    pub(crate) async fn run_idle(&mut self, time: Duration) -> Result<()> {
        let outcome = self.load(1, false, time).await?;
        self.idle.rates.push(outcome.per_second);
        self.idle.latency.add(&outcome.latency)?;
        Ok(())
    }

    async fn load(&mut self, connections: usize, hot: bool, time: Duration) -> Result<closed_loop::Outcome> {
        let ids = if hot { &self.hot_ids } else { &self.many_ids };
        let mut senders = Vec::new();
        for _ in 0..connections {
            senders.push(row_lock::connect(&self.database.url).await?);
        }
        let outcome = closed_loop::run(&self.runtime, senders, ids, time).await?;
        self.acked.extend(&outcome.acked);
        Ok(outcome)
    }

    pub(crate) async fn check(&self) -> Result<usize> {
        let conversations: Vec<i64> = self.many_ids.iter().chain(&self.hot_ids).copied().collect();
        let checked = database::check(&self.database.url, &conversations, &self.acked).await;
        checked.context("the row lock's store")
    }
}
