//! The name of this store: another name means another history.

use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::domain::Timestamp;
use crate::storage::{SettingStore, StoreResult};

/// The setting that keeps it.
pub const EPOCH_SETTING: &str = "store_epoch";
/// So long a running server may go on with the old name after `onescribe epoch renew`.
pub const EPOCH_STALE_MS_MAX: i64 = 5_000;

/// The store's epoch, as known here.
pub struct Epoch {
    store: Arc<dyn SettingStore>,
    clock: Arc<dyn Clock>,
    known: Mutex<(String, Timestamp)>,
}

impl Epoch {
    /// Reads it; `fresh` is kept if there is none yet.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn read(store: Arc<dyn SettingStore>, clock: Arc<dyn Clock>, fresh: &str) -> StoreResult<Self> {
        let kept = store.setting_or(EPOCH_SETTING, fresh).await?;
        let known = Mutex::new((kept, clock.now()));
        Ok(Self { store, clock, known })
    }

    /// The epoch, at most [`EPOCH_STALE_MS_MAX`] old; older where the store does not answer.
    pub async fn current(&self) -> String {
        let (known, read_at) = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let now = self.clock.now();
        // A clock that was set back makes it look young for too long: then it is read as well.
        if (0..EPOCH_STALE_MS_MAX).contains(&(now.millis() - read_at.millis())) {
            return known;
        }
        match self.store.setting(EPOCH_SETTING).await {
            Ok(Some(epoch)) => {
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = (epoch.clone(), now);
                epoch
            }
            Ok(None) => known,
            Err(error) => {
                tracing::warn!(%error, "the store's epoch cannot be read; the one known is used");
                known
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::storage::memory::MemoryStore;

    #[tokio::test]
    async fn b53_a_running_server_notices_a_renewed_epoch_within_the_named_time() {
        let store = Arc::new(MemoryStore::new());
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        let settings = Arc::<MemoryStore>::clone(&store);
        let epoch = Epoch::read(settings, Arc::<ManualClock>::clone(&clock), "first").await;
        let epoch = epoch.unwrap();
        assert_eq!(epoch.current().await, "first");
        store.set_setting(EPOCH_SETTING, "second").await.unwrap();
        clock.advance(EPOCH_STALE_MS_MAX);
        assert_eq!(epoch.current().await, "second");
    }
}
