//! All that differs between the databases.

use std::future::Future;

use sqlx::Database;
use sqlx::database::HasStatementCache;
use sqlx::error::DatabaseError;

use super::sends::{HeadRow, ReadRow, Sends};
use crate::domain::Message;
use crate::storage::{CommitError, Durability};

/// What a refusal of the database means for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// One of our unique keys.
    Clash(CommitError),
    /// Two waited for each other, or one came too late: nothing is stored, once more may help.
    Again,
    /// This data, or a row that somebody else holds for too long; neighbours are not concerned.
    Data,
    /// The server goes down or cannot go on; when COMMIT was sent, nobody knows.
    Lost,
    /// The server as a whole: no space, no memory, no right.
    Server,
}

/// A kind of database.
pub(super) trait Dialect: Database + HasStatementCache {
    /// PostgreSQL numbers its markers; the others write `?`.
    const NUMBERED: bool = false;
    /// How a transaction that writes begins.
    const BEGIN_WRITE: &'static str;
    /// Only one connection can write at a time.
    const ONE_WRITER: bool = false;
    /// Plain sends can be stored by one statement.
    const ONE_STATEMENT: bool = false;
    /// How many lanes are useful.
    const LANES: usize = 2;

    /// The rows that a statement found.
    fn affected(result: &Self::QueryResult) -> u64;

    /// The way to say "insert or update": the standard's younger cousins, or MySQL's.
    fn upsert<'a>(on_conflict: &'a str, on_duplicate_key: &'a str) -> &'a str;

    /// What a refusal means.
    fn refusal(error: &dyn DatabaseError) -> Refusal;

    /// Settings of a new connection, beyond what the options say.
    fn prepare(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        let _ = connection;
        async { Ok(()) }
    }

    /// Settings of a new connection of a lane, on top of [`Dialect::prepare`].
    fn prepare_lane(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        let _ = connection;
        async { Ok(()) }
    }

    /// Lets one process migrate at a time, where sqlx does not see to it; `false` = it took too long. The lock ends
    /// with the connection.
    fn lock_migration(connection: &mut Self::Connection) -> impl Future<Output = Result<bool, sqlx::Error>> + Send {
        let _ = connection;
        async { Ok(true) }
    }

    /// How durable the connected database really is.
    fn durability(connection: &mut Self::Connection) -> impl Future<Output = Result<Durability, sqlx::Error>> + Send;

    /// Compare-and-set of the counters (INV-OWN-1): how many conversations it found where they were expected.
    fn advance_heads(
        connection: &mut Self::Connection,
        heads: &[HeadRow<'_>],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Inserts messages, at most [`super::sends::ROWS_MAX`] and about [`super::sends::BYTES_MAX`] of content.
    fn insert_messages(
        connection: &mut Self::Connection,
        messages: &[&Message],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Moves the senders' read positions, never back (INV-READ-1).
    fn advance_reads(
        connection: &mut Self::Connection,
        reads: &[ReadRow],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Everything of plain sends in one statement that is its own transaction: the conversations that passed the
    /// comparison. Only asked for where [`Dialect::ONE_STATEMENT`].
    fn one_statement(
        connection: &mut Self::Connection,
        sends: &Sends<'_>,
    ) -> impl Future<Output = Result<Vec<i64>, sqlx::Error>> + Send {
        let _ = (connection, sends);
        async { Ok(Vec::new()) }
    }
}
