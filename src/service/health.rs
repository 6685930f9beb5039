//! Whether this process should be given work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::error::ServiceError;
use crate::domain::Code;
use crate::storage::SettingStore;

/// How long the store may take to answer before this process calls itself not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers `/readyz`.
pub struct Health {
    store: Arc<dyn SettingStore>,
    draining: AtomicBool,
}

impl Health {
    /// Ready as long as `store` answers.
    #[must_use]
    pub fn new(store: Arc<dyn SettingStore>) -> Self {
        Self {
            store,
            draining: AtomicBool::new(false),
        }
    }

    /// From here on: not ready, so that no new work is sent here (B18).
    pub fn begin_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Is this process to be given work?
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn ready(&self) -> Result<(), ServiceError> {
        if self.draining.load(Ordering::Acquire) {
            return Err(ServiceError::new(Code::Unavailable, "this server is shutting down"));
        }
        match tokio::time::timeout(READY_TIMEOUT, self.store.ping()).await {
            Ok(answer) => Ok(answer?),
            Err(_elapsed) => Err(ServiceError::new(
                Code::Unavailable,
                "the store does not answer in time",
            )),
        }
    }
}
