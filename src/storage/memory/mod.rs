//! FACTS IN MEMORY: every trait of the store on plain maps, for tests and the simulation. Nothing outlives the process.
//!
//! Never here: a wait, a thread, a look at the time, or an order that depends on chance: the same calls give the same
//! answers, so a simulation with a seed can be run again.
//!
//! Invariants: INV-OWN-1 (a commit whose counters moved stores nothing), INV-IDEM-1 (unique key).

mod conversations;
mod messages;
mod rest;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Commit, CommitError, CommitResult, Store, StoreError, StoreResult, Writer};
use tables::Tables;

/// What goes wrong with one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is refused; the answer is [`CommitError::Failed`].
    FailBefore,
    /// It is stored, the answer is lost: [`CommitError::Unknown`].
    UnknownStored,
    /// It is not stored, and the answer is [`CommitError::Unknown`].
    UnknownNotStored,
    /// The answer is [`CommitError::Unknown`], and it is stored after so many further calls of the store, unless its
    /// counters have moved by then.
    UnknownStoredLater(u32),
}

/// Decides what goes wrong.
pub trait Faults: Send + Sync {
    /// Asked once for each commit, before it is looked at.
    fn on_commit(&self, commit: &Commit) -> Fault;

    /// Asked before each read and each small write: `true` = the database does not answer.
    fn is_down(&self) -> bool {
        false
    }
}

/// Nothing ever goes wrong.
struct NoFaults;

impl Faults for NoFaults {
    fn on_commit(&self, _: &Commit) -> Fault {
        Fault::None
    }
}

/// A store in memory. Clones share their content.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    faults: Arc<dyn Faults>,
}

#[derive(Default)]
struct Inner {
    tables: Tables,
    /// Commits whose answer is gone and that are still on their way, with the calls until they land.
    on_the_way: Vec<(u32, Commit)>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Empty, and nothing goes wrong.
    #[must_use]
    pub fn new() -> Self {
        Self::with_faults(Arc::new(NoFaults))
    }

    /// Empty, and `faults` says what goes wrong.
    #[must_use]
    pub fn with_faults(faults: Arc<dyn Faults>) -> Self {
        Self {
            inner: Arc::default(),
            faults,
        }
    }

    /// Every commit that is still on its way arrives now: stored, or dropped because its counters have moved.
    pub fn land_all(&self) {
        let mut inner = self.lock();
        for (_, commit) in std::mem::take(&mut inner.on_the_way) {
            inner.tables.commit(&commit).ok(); // nobody waits for the answer
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call: what is on its way comes nearer, then `ask` sees the tables.
    fn call<T>(&self, ask: impl FnOnce(&mut Tables) -> T) -> StoreResult<T> {
        if self.faults.is_down() {
            return Err(StoreError::Unavailable("the simulated database is down".into()));
        }
        let mut inner = self.lock();
        inner.step();
        Ok(ask(&mut inner.tables))
    }

    fn commit(&self, commit: &Commit) -> CommitResult {
        let fault = self.faults.on_commit(commit);
        let mut inner = self.lock();
        inner.step();
        match fault {
            Fault::None => inner.tables.commit(commit),
            Fault::FailBefore => Err(CommitError::Failed),
            Fault::UnknownNotStored => Err(CommitError::Unknown),
            Fault::UnknownStored => {
                inner.tables.commit(commit).ok(); // the answer is what gets lost
                Err(CommitError::Unknown)
            }
            Fault::UnknownStoredLater(calls) => {
                inner.on_the_way.push((calls, commit.clone()));
                Err(CommitError::Unknown)
            }
        }
    }
}

impl Inner {
    fn step(&mut self) {
        if self.on_the_way.is_empty() {
            return;
        }
        let (landed, waiting) = std::mem::take(&mut self.on_the_way)
            .into_iter()
            .partition::<Vec<_>, _>(|(calls, _)| *calls <= 1);
        self.on_the_way = waiting.into_iter().map(|(calls, commit)| (calls - 1, commit)).collect();
        for (_, commit) in landed {
            self.tables.commit(&commit).ok(); // nobody waits for the answer
        }
    }
}

struct MemoryWriter(MemoryStore);

#[async_trait]
impl Writer for MemoryWriter {
    async fn commit(&mut self, commits: &[Commit]) -> Vec<CommitResult> {
        commits.iter().map(|commit| self.0.commit(commit)).collect()
    }
}

impl Store for MemoryStore {
    fn writer(&self) -> Box<dyn Writer> {
        Box::new(MemoryWriter(self.clone()))
    }

    fn lanes(&self) -> usize {
        2
    }
}
