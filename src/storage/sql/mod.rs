//! The store on SQLite, PostgreSQL and MySQL/MariaDB: one text of SQL, written with `?`, generic over [`Dialect`].
//! Only what must be fast or cannot be said in one text stands in a file per database.
//!
//! Never here: a decision, or a row that leaves this folder. Reads and small writes are single statements outside
//! any transaction, so that a cancelled request leaves nothing open on a pooled connection (B19); transactions
//! exist only in [`commit`], on connections that no request can cancel.
//!
//! Invariants: INV-OWN-1 (compare-and-set in `heads`), INV-IDEM-1 (unique keys, compared as bytes: B31),
//! INV-COST-1 (no row per member in a send), INV-READ-1 (guards on every read position).

#[macro_use]
mod statement;
#[macro_use]
mod rows;

mod audit;
mod commit;
pub mod connect;
mod conversations;
mod devices;
mod dialect;
mod events;
mod files;
mod general;
mod jobs;
mod json;
mod marks;
mod mentions;
mod messages;
mod mysql;
mod nodes;
mod notifications;
mod pages;
mod personal;
mod placing;
mod postgres;
mod principals;
mod pushes;
mod references;
mod sends;
mod settings;
mod sqlite;
mod sync;
mod ties;
mod webhooks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::{Connection, Pool};
use tokio::sync::Mutex;
use tokio::time::timeout;

pub use connect::{OpenOptions, migrate, open};
use dialect::Dialect;

use commit::SqlWriter;
use placing::SqlPlacer;

use super::{Commit, Durability, Placer, Store, StoreError, StoreResult, Writer};

/// The longest that a read or a small write may take, waiting for a connection included.
const STATEMENT_WAIT_MAX: Duration = Duration::from_secs(10);
/// The longest wait for a connection of the pool.
const CONNECTION_WAIT_MAX: Duration = Duration::from_secs(5);

/// How to connect to a database of kind `DB`.
type ConnectOptions<DB> = <<DB as sqlx::Database>::Connection as Connection>::Options;

/// Lets the writers of this process pass one after the other, in the order in which they came. SQLite has one
/// write lock and no queue in front of it: without this, small writes would starve behind a busy lane.
#[derive(Clone, Default)]
struct Gate(Option<Arc<Mutex<()>>>);

impl Gate {
    async fn pass(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match &self.0 {
            Some(gate) => Some(gate.lock().await),
            None => None,
        }
    }
}

/// The store on one kind of database.
struct SqlStore<DB: Dialect> {
    /// For reads and small writes.
    pool: Pool<DB>,
    /// For the connections that the lanes own.
    options: ConnectOptions<DB>,
    gate: Gate,
}

impl<DB: Dialect> SqlStore<DB> {
    fn new(options: ConnectOptions<DB>, connections: u32) -> Self {
        let pool = PoolOptions::<DB>::new()
            .max_connections(connections)
            .acquire_timeout(CONNECTION_WAIT_MAX)
            .after_connect(|connection, _| Box::pin(DB::prepare(connection)))
            .connect_lazy_with(options.clone());
        let gate = Gate(DB::ONE_WRITER.then(Arc::default));
        Self { pool, options, gate }
    }
}

sql_impl! {
impl Store for SqlStore {
    fn writer(&self) -> Box<dyn Writer> {
        Box::new(SqlWriter::<DB>::new(self.options.clone(), self.gate.clone()))
    }

    fn placer(&self) -> Box<dyn Placer> {
        Box::new(SqlPlacer::<DB>::new(self.options.clone(), self.gate.clone()))
    }

    fn lanes(&self) -> usize {
        DB::LANES
    }

    async fn durability(&self) -> StoreResult<Durability> {
        let mut connection = bounded(self.pool.acquire()).await?;
        bounded(DB::durability(&mut connection)).await
    }

    async fn close(&self) {
        // Waits for statements under way; a hung one does not hold up the shutdown.
        drop(timeout(STATEMENT_WAIT_MAX, self.pool.close()).await);
    }
}
}

/// Puts together what a lane sends to PostgreSQL for plain sends, sorted by conversation, and sends nothing. Answers how
/// many rows it would write. For the benchmarks, which count what this costs.
#[must_use]
pub fn assemble(commits: &[Commit]) -> usize {
    let commits: Vec<&Commit> = commits.iter().collect();
    let sends = sends::Sends::of(&commits);
    drop(postgres::query_of(&sends));
    sends.heads.len() + sends.messages.len() + sends.reads.len()
}

/// Waits for a statement, but not for ever.
async fn bounded<T>(statement: impl Future<Output = Result<T, sqlx::Error>>) -> StoreResult<T> {
    match timeout(STATEMENT_WAIT_MAX, statement).await {
        Ok(result) => result.map_err(|error| store_error(&error)),
        Err(_) => Err(StoreError::Unavailable(format!(
            "no answer within {} s",
            STATEMENT_WAIT_MAX.as_secs()
        ))),
    }
}

/// In our words; never with a statement or a password (sqlx puts neither into its errors).
fn store_error(error: &sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::TypeNotFound { .. }
        | sqlx::Error::RowNotFound => StoreError::Inconsistent(error.to_string()),
        other => StoreError::Unavailable(other.to_string()),
    }
}
