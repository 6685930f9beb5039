//! A committer lane's connection: one transaction for many conversations, and an honest answer for each.
//!
//! The connection belongs to the lane, not to a pool, and whoever drives the lane does not cancel it (B19). When the
//! database does not answer in time, the connection is dropped; what was under way ends with it, or is
//! [`CommitError::Unknown`] if COMMIT had been sent.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::dialect::{Dialect, Refusal};
use super::general::store_general;
use super::personal::{is_personal, store_personal};
use super::sends::{Sends, is_plain};
use super::{ConnectOptions, Gate};
use crate::storage::{Commit, CommitError, CommitResult, Writer};

/// The longest wait for a transaction; then the connection is dropped.
const COMMIT_WAIT_MAX: Duration = Duration::from_secs(10);
/// The longest wait for a new connection.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Conversations with more than plain sends in one transaction: each needs several statements, and
/// [`COMMIT_WAIT_MAX`] is for all of them.
const GENERAL_PER_TRANSACTION: usize = 50;

/// How often one conversation is tried when the database says that once more may help: with several nodes that create
/// the same conversation, MySQL may see a deadlock several times.
const AGAIN_TRIES_MAX: u32 = 20;

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The conversation, or one of the group, is refused for good.
    Refused(CommitError),
    /// Nothing is stored; once more may help.
    Again,
    /// No connection: the rest of the batch need not try.
    Down,
}

/// What went wrong inside an attempt.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The database said so, or the connection broke.
    Sql(sqlx::Error),
    /// What was found does not fit.
    Refused(CommitError),
}

impl WriteError {
    /// For a statement with unique keys that all mean the same.
    pub(super) fn clash(error: sqlx::Error, meaning: CommitError) -> Self {
        match &error {
            sqlx::Error::Database(refusal) if refusal.is_unique_violation() => Self::Refused(meaning),
            _ => Self::Sql(error),
        }
    }
}

impl From<sqlx::Error> for WriteError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// BEGIN has been sent: after an error only ROLLBACK is possible.
    pub(super) begun: bool,
    /// COMMIT, or the one statement that is its own transaction, has been sent: from here on a lost connection
    /// leaves the outcome unknown.
    pub(super) decided: bool,
}

/// The lane.
pub(super) struct SqlWriter<DB: Dialect> {
    options: ConnectOptions<DB>,
    gate: Gate,
    connection: Option<DB::Connection>,
}

impl<DB: Dialect> SqlWriter<DB> {
    pub(super) fn new(options: ConnectOptions<DB>, gate: Gate) -> Self {
        Self {
            options,
            gate,
            connection: None,
        }
    }

    async fn connect(options: ConnectOptions<DB>) -> Result<DB::Connection, sqlx::Error> {
        let connecting = async {
            let mut connection = DB::Connection::connect_with(&options).await?;
            DB::prepare(&mut connection).await?;
            DB::prepare_lane(&mut connection).await?;
            Ok(connection)
        };
        timeout(CONNECT_WAIT_MAX, connecting)
            .await
            .unwrap_or_else(|_| Err(no_answer(CONNECT_WAIT_MAX)))
    }
}

fn no_answer(within: Duration) -> sqlx::Error {
    let text = format!("no answer within {} s", within.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

/// Nothing of an attempt whose COMMIT was refused is stored, unless the refusal itself is about the connection.
fn judge<DB: Dialect>(error: &WriteError, progress: Progress) -> Trouble {
    let refusal = match error {
        WriteError::Refused(error) => return Trouble::Refused(*error),
        WriteError::Sql(sqlx::Error::Database(error)) => DB::refusal(error.as_ref()),
        WriteError::Sql(_) => Refusal::Lost,
    };
    match refusal {
        Refusal::Clash(error) => Trouble::Refused(error),
        Refusal::Data => Trouble::Refused(CommitError::Failed),
        Refusal::Again => Trouble::Again,
        Refusal::Lost if progress.decided => Trouble::Refused(CommitError::Unknown),
        Refusal::Lost | Refusal::Server => Trouble::Down,
    }
}

sql_impl! {
impl SqlWriter {
    /// One transaction. Answers the conversations that it did not take although the rest is stored.
    async fn attempt(&mut self, group: &[&Commit]) -> Result<Vec<i64>, Trouble> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Self::connect(self.options.clone()).await.map_err(|error| {
                tracing::warn!(%error, "a committer lane cannot reach the database");
                Trouble::Down
            })?,
        };
        let mut progress = Progress::default();
        let gate = self.gate.clone();
        let writing = async {
            let _turn = gate.pass().await;
            let written = write::<DB>(&mut connection, group, &mut progress).await;
            let usable = match &written {
                Ok(_) => true,
                // One statement that was refused has ended its own transaction.
                Err(WriteError::Sql(sqlx::Error::Database(_))) if !progress.begun => true,
                // In a transaction that has failed only ROLLBACK is possible; if that fails, the connection goes.
                Err(WriteError::Refused(_) | WriteError::Sql(sqlx::Error::Database(_))) =>
                    (&mut connection).execute("ROLLBACK").await.is_ok(),
                Err(_) => false,
            };
            (written, usable)
        };
        let (written, usable) = match timeout(COMMIT_WAIT_MAX, writing).await {
            Ok(ended) => ended,
            Err(_) => (Err(WriteError::Sql(no_answer(COMMIT_WAIT_MAX))), false),
        };
        let trouble = written.as_ref().err().map(|error| judge::<DB>(error, progress));
        let lost = trouble.is_some_and(|trouble| {
            matches!(trouble, Trouble::Down | Trouble::Refused(CommitError::Unknown))
        });
        if let Err(WriteError::Sql(error)) = &written {
            if lost {
                tracing::warn!(%error, decided = progress.decided, "a commit failed");
            } else {
                tracing::debug!(%error, "a commit was refused");
            }
        }
        if usable && !lost {
            self.connection = Some(connection);
        }
        match trouble {
            Some(trouble) => Err(trouble),
            None => Ok(written.unwrap_or_default()),
        }
    }

    /// Stores a group, halving it as long as somebody in it is refused, so that a bad one never fails its neighbours.
    async fn store(&mut self, commits: &[&Commit], group: Vec<usize>, results: &mut [CommitResult]) {
        let mut groups = vec![group];
        while let Some(mut group) = groups.pop() {
            let members: Vec<&Commit> = group.iter().filter_map(|index| commits.get(*index).copied()).collect();
            let mut outcome = self.attempt(&members).await;
            let mut tries = 1;
            while outcome == Err(Trouble::Again) && group.len() == 1 && tries < AGAIN_TRIES_MAX {
                outcome = self.attempt(&members).await;
                tries += 1;
            }
            let verdict = match outcome {
                Ok(fenced) => {
                    for index in group {
                        let id = commits.get(index).map(|commit| commit.conversation_id.get());
                        let is_fenced = id.is_some_and(|id| fenced.contains(&id));
                        set(results, index, if is_fenced { Err(CommitError::Fenced) } else { Ok(()) });
                    }
                    continue;
                }
                Err(Trouble::Down) => {
                    for index in groups.drain(..).flatten().chain(group) {
                        set(results, index, Err(CommitError::Failed));
                    }
                    return;
                }
                Err(Trouble::Refused(CommitError::Unknown)) => CommitError::Unknown,
                Err(_) if group.len() > 1 => {
                    groups.push(group.split_off(group.len() / 2));
                    groups.push(group);
                    continue;
                }
                Err(Trouble::Refused(error)) => error,
                Err(Trouble::Again) => CommitError::Failed,
            };
            for index in group {
                set(results, index, Err(verdict));
            }
        }
    }
}
}

fn set(results: &mut [CommitResult], index: usize, result: CommitResult) {
    if let Some(place) = results.get_mut(index) {
        *place = result;
    }
}

sql_impl! {
/// Writes a group, sorted by conversation. Answers the conversations that were fenced although the rest is stored.
async fn write(
    connection: &mut DB::Connection,
    group: &[&Commit],
    progress: &mut Progress,
) -> Result<Vec<i64>, WriteError> {
    let plain = group.iter().all(|commit| is_plain(commit));
    let sends = Sends::of(group);
    if DB::ONE_STATEMENT && plain && sends.parts().len() <= 1 {
        progress.decided = true;
        let passed: HashSet<i64> = DB::one_statement(connection, &sends).await?.into_iter().collect();
        let asked = sends.heads.iter().map(|head| head.conversation_id.get());
        return Ok(asked.filter(|id| !passed.contains(id)).collect());
    }
    progress.begun = true;
    connection.execute(DB::BEGIN_WRITE).await?;
    if DB::advance_heads(connection, &sends.heads).await? != u64::try_from(sends.heads.len()).unwrap_or(u64::MAX) {
        return Err(WriteError::Refused(CommitError::Fenced));
    }
    if !plain {
        store_general::<DB>(connection, group).await?;
        store_personal::<DB>(connection, group).await?;
    }
    for part in sends.parts() {
        DB::insert_messages(connection, part).await?;
    }
    DB::advance_reads(connection, &sends.reads).await?;
    progress.decided = true;
    connection.execute("COMMIT").await?;
    Ok(Vec::new())
}
}

sql_impl! {
impl Writer for SqlWriter {
    async fn commit(&mut self, commits: &[Commit]) -> Vec<CommitResult> {
        let mut results = vec![Err(CommitError::Failed); commits.len()];
        let commits: Vec<&Commit> = commits.iter().collect();
        let mut order: Vec<usize> = (0..commits.len()).collect();
        order.sort_by_key(|index| commits.get(*index).map(|commit| commit.conversation_id));
        // A second batch of one conversation waits for the first.
        while !order.is_empty() {
            let mut seen = None;
            let (first, again): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|index| {
                let id = commits.get(*index).map(|commit| commit.conversation_id);
                std::mem::replace(&mut seen, id) != id
            });
            let (plain, general): (Vec<usize>, Vec<usize>) =
                first.into_iter().partition(|index| commits.get(*index).is_some_and(|commit| is_plain(commit)));
            if !plain.is_empty() {
                self.store(&commits, plain, &mut results).await;
            }
            // What users do for themselves moves rows of other conversations: in transactions of its own, so that all
            // of them are taken in one order.
            let (personal, general): (Vec<usize>, Vec<usize>) =
                general.into_iter().partition(|index| commits.get(*index).is_some_and(|commit| is_personal(commit)));
            for group in general.chunks(GENERAL_PER_TRANSACTION).chain(personal.chunks(GENERAL_PER_TRANSACTION)) {
                self.store(&commits, group.to_vec(), &mut results).await;
            }
            order = again;
        }
        results
    }
}
}
