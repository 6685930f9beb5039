//! This node's row: the lease of its worker id, renewed while it runs, so that two processes on one database never
//! give the same id (B10).

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::clock::Clock;
use crate::domain::Timestamp;
use crate::domain::snowflake::Snowflake;
use crate::ids::Ids;
use crate::storage::{Store, StoreError, StoreResult};

/// A lease is renewed when this part of it is over: several tries fit into the rest.
const RENEWALS_PER_LEASE: u32 = 6;

/// The identity of this process among all that share the database.
pub struct Node {
    id: String,
    worker: u16,
    lease: Duration,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<Ids>,
}

impl Node {
    /// Takes a free worker id for `lease`.
    ///
    /// # Errors
    /// [`StoreError::NoFreeWorker`] for the 1,025th process.
    pub async fn join(store: Arc<dyn Store>, clock: Arc<dyn Clock>, lease: Duration) -> StoreResult<Self> {
        let id = Uuid::now_v7().to_string();
        let until = after(&*clock, lease);
        let taken = store.claim_worker(&id, clock.now(), until).await?;
        let flake = Snowflake::new(taken.worker, taken.not_before)
            .ok_or_else(|| StoreError::Inconsistent(format!("worker id {} has more than 10 bits", taken.worker)))?;
        let ids = Arc::new(Ids::new(Arc::clone(&clock), flake, until));
        Ok(Self {
            id,
            worker: taken.worker,
            lease,
            store,
            clock,
            ids,
        })
    }

    /// The generator that this lease allows.
    #[must_use]
    pub fn ids(&self) -> Arc<Ids> {
        Arc::clone(&self.ids)
    }

    /// The worker id.
    #[must_use]
    pub fn worker(&self) -> u16 {
        self.worker
    }

    /// Renews the lease for as long as it can; returns when another process has the worker id. Until the next
    /// successful renewal no id is given beyond the end of the lease, so a store that cannot be reached for a while
    /// costs refusals and no double.
    pub async fn keep(&self) {
        let mut ticks = tokio::time::interval(self.lease / RENEWALS_PER_LEASE);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let until = after(&*self.clock, self.lease);
            match self
                .store
                .renew_worker(&self.id, self.worker, until, self.ids.last_issued())
                .await
            {
                Ok(true) => self.ids.extend_lease(until),
                Ok(false) => {
                    self.ids.extend_lease(Timestamp::default());
                    tracing::error!(worker = self.worker, "another process has taken over this worker id");
                    return;
                }
                Err(error) => {
                    tracing::warn!(worker = self.worker, %error, "the lease of the worker id could not be renewed");
                }
            }
        }
    }

    /// Gives the worker id back. No id is given afterwards.
    pub async fn leave(&self) {
        self.ids.extend_lease(Timestamp::default());
        if let Err(error) = self
            .store
            .release_worker(&self.id, self.worker, self.ids.last_issued())
            .await
        {
            tracing::warn!(%error, "the worker id could not be given back; its lease will end by itself");
        }
    }
}

fn after(clock: &dyn Clock, lease: Duration) -> Timestamp {
    let millis = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(clock.now().millis().saturating_add(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::snowflake::{EPOCH_MS, time_of};
    use crate::storage::memory::MemoryStore;

    const LEASE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn b10_two_processes_on_one_store_have_different_worker_ids() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(EPOCH_MS + 1_000)));
        let one = Node::join(Arc::clone(&store), clock.clone(), LEASE).await.unwrap();
        let two = Node::join(store, clock, LEASE).await.unwrap();
        assert_ne!(one.worker(), two.worker());
        assert_ne!(one.ids().next().unwrap(), two.ids().next().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_slept_through_its_lease_gives_no_id() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(EPOCH_MS + 1_000)));
        let slept = Node::join(Arc::clone(&store), clock.clone(), LEASE).await.unwrap();
        slept.ids().next().unwrap();
        clock.advance(30_000);
        assert!(slept.ids().next().is_err());
        // Worker ids that nobody has had are given out first; then it is this one's turn.
        let mut heirs = Vec::new();
        while heirs.last().is_none_or(|heir: &Node| heir.worker() != slept.worker()) {
            heirs.push(Node::join(Arc::clone(&store), clock.clone(), LEASE).await.unwrap());
        }
        slept.keep().await;
        assert!(
            slept.ids().next().is_err(),
            "it learns that it has lost the id and gives none ever after"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn b09_a_restart_with_a_clock_set_back_gives_no_earlier_id() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(EPOCH_MS + 7_200_000)));
        let before = Node::join(Arc::clone(&store), clock.clone(), LEASE).await.unwrap();
        let last = before.ids().next().unwrap();
        before.leave().await;
        clock.advance(-3_600_000);
        let after = Node::join(store, clock.clone(), LEASE).await.unwrap();
        assert!(after.ids().next().is_err(), "refused and not given twice");
        clock.advance(3_600_000);
        after.ids().extend_lease(Timestamp::from_millis(i64::MAX));
        let next = after.ids().next().unwrap();
        assert!(next > last && time_of(next) >= time_of(last));
    }
}
