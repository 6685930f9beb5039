//! What was begun and not finished: a client went away, a removal failed.

use std::sync::{Mutex, PoisonError};

use object_store::MultipartUpload;
use tokio::sync::Notify;

use super::{BlobError, Blobs, ObjectKey};

/// So many are remembered; what comes beyond is left to `onescribe check --remove-orphans`.
const REMEMBERED_MAX: usize = 10_000;

/// A write that ended in the middle, or an object that nobody wants.
struct Left {
    parts: Option<Box<dyn MultipartUpload>>,
    key: ObjectKey,
}

/// The list of them.
#[derive(Default)]
pub(super) struct Abandoned {
    list: Mutex<Vec<Left>>,
    more: Notify,
}

impl Abandoned {
    /// Remembers one. Never waits, so that a destructor can call it.
    pub(super) fn add(&self, parts: Option<Box<dyn MultipartUpload>>, key: ObjectKey) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < REMEMBERED_MAX {
            list.push(Left { parts, key });
            self.more.notify_one();
        } else {
            tracing::warn!(%key, "too many objects wait for their removal; `onescribe check --remove-orphans` finds it");
        }
    }

    fn take(&self) -> Option<Left> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Blobs {
    /// Returns when something was given up, now or since the last time.
    pub async fn something_abandoned(&self) {
        self.abandoned.more.notified().await;
    }

    /// Removes what was given up in the middle (a client that went away). What fails is tried again the next time.
    ///
    /// # Errors
    /// [`BlobError::Unavailable`]
    pub async fn clear_abandoned(&self) -> Result<(), BlobError> {
        for _ in 0..self.abandoned.len() {
            let Some(mut left) = self.abandoned.take() else { break };
            if let Some(mut parts) = left.parts.take()
                && let Err(error) = parts.abort().await
            {
                // Parts that are aborted already, or were made one object: the key tells.
                tracing::debug!(%error, key = %left.key, "an unfinished object could not be aborted");
            }
            if let Err(error) = self.remove(&left.key).await {
                self.abandoned.add(None, left.key);
                return Err(error);
            }
        }
        Ok(())
    }
}
