//! FACTS IN MEMORY: every trait of the store on plain maps, for tests and the simulation. Nothing outlives the process.
//!
//! Never here: a wait (unless [`Faults`] asks for one), a thread, a look at the time, or an order that depends on
//! chance: the same calls give the same answers, so a simulation with a seed can be run again.
//!
//! Invariants: INV-OWN-1 (a commit whose counters moved stores nothing), INV-IDEM-1 (unique key).

mod conversations;
mod events;
mod files;
mod jobs;
mod messages;
mod notes;
mod personal;
mod rest;
mod sync;
mod tables;
#[cfg(test)]
mod tests;
mod webhooks;

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use async_trait::async_trait;

use super::{Commit, CommitError, CommitResult, Placer, Store, StoreError, StoreResult, Writer};
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

    /// How many polls a call waits: asked before it is served, and again before its answer is given. With it a
    /// simulation puts others in between; nobody else has to know.
    fn polls_to_wait(&self) -> u32 {
        0
    }
}

/// A store in memory. Clones share their content.
#[derive(Clone, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    faults: Option<Arc<dyn Faults>>,
}

#[derive(Default)]
struct Inner {
    tables: Tables,
    /// Commits whose answer is gone and that are still on their way, with the calls until they land.
    on_the_way: Vec<(u32, Commit)>,
}

impl MemoryStore {
    /// Empty, and nothing goes wrong.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Empty, and `faults` says what goes wrong.
    #[must_use]
    pub fn with_faults(faults: Arc<dyn Faults>) -> Self {
        Self {
            inner: Arc::default(),
            faults: Some(faults),
        }
    }

    /// The same content without its faults. Looking through it brings no commit nearer that is on its way.
    #[must_use]
    pub fn observer(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            faults: None,
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
    async fn call<T>(&self, ask: impl FnOnce(&mut Tables) -> T + Send) -> StoreResult<T> {
        self.wait().await;
        if self.faults.as_ref().is_some_and(|faults| faults.is_down()) {
            return Err(StoreError::Unavailable("the simulated database is down".into()));
        }
        let answer = ask(&mut self.lock_for_call().tables);
        self.wait().await;
        Ok(answer)
    }

    fn lock_for_call(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        if self.faults.is_some() {
            inner.bring_nearer();
        }
        inner
    }

    async fn wait(&self) {
        let mut polls = self.faults.as_ref().map_or(0, |faults| faults.polls_to_wait());
        poll_fn(|context| {
            if polls == 0 {
                return Poll::Ready(());
            }
            polls -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    async fn commit(&self, commit: &Commit) -> CommitResult {
        let fault = self
            .faults
            .as_ref()
            .map_or(Fault::None, |faults| faults.on_commit(commit));
        self.wait().await;
        let result = self.commit_with(fault, commit);
        self.wait().await;
        result
    }

    fn commit_with(&self, fault: Fault, commit: &Commit) -> CommitResult {
        let mut inner = self.lock_for_call();
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
    fn bring_nearer(&mut self) {
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
        let mut results = Vec::with_capacity(commits.len());
        for commit in commits {
            results.push(self.0.commit(commit).await);
        }
        results
    }
}

impl Store for MemoryStore {
    fn writer(&self) -> Box<dyn Writer> {
        Box::new(MemoryWriter(self.clone()))
    }

    fn placer(&self) -> Box<dyn Placer> {
        Box::new(self.clone())
    }

    fn lanes(&self) -> usize {
        2
    }
}
