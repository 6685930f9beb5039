//! What nobody needs of files goes: uploads to which nothing has referred for long, and bytes that no file has.
//!
//! In steps, each of which looks again: a file is marked, and goes when nothing has begun to refer to it for longer than
//! a commit can be under way; bytes are retired, so that no upload takes them, and go later still. Every step can be done
//! by several processes at once, and again after a crash. The store decides each in one statement.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use super::error::ServiceError;
use crate::clock::Clock;
use crate::domain::{FileState, Timestamp};
use crate::storage::{FileStore, LooseBlob, StoreResult};

/// How often it is looked.
const EVERY: Duration = Duration::from_mins(1);
/// What one look takes on at most of each kind …
const STEP: u32 = 200;
/// … and the pause before the next one, when there was as much as that.
const BETWEEN_STEPS: Duration = Duration::from_millis(200);
/// A commit that was decided before a file was marked is stored by then, or never.
const FILE_GRACE: Duration = Duration::from_mins(10);
/// An upload that has taken bytes which were there names them by then, or has to begin anew.
const BLOB_GRACE: Duration = Duration::from_hours(1);
/// So many objects in a row that cannot be removed: then it is not about them.
const FAILURES_MAX: usize = 3;

/// Where objects are removed.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Removes an object; one that is not there is removed.
    async fn remove(&self, object_key: &str) -> Result<(), ServiceError>;
}

/// What one look has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files that were marked.
    pub expired: u64,
    /// Files that are gone.
    pub files: u64,
    /// Objects that are gone.
    pub objects: u64,
    /// There is more to do at once.
    pub more: bool,
}

/// Who looks for what nobody needs.
pub struct Sweep {
    store: Arc<dyn FileStore>,
    objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    unreferenced: Duration,
}

impl Sweep {
    /// A file goes when nothing has referred to it for so long.
    #[must_use]
    pub fn new(
        store: Arc<dyn FileStore>,
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        unreferenced: Duration,
    ) -> Self {
        Self {
            store,
            objects,
            clock,
            unreferenced,
        }
    }

    /// Looks for ever. It may be dropped at any moment.
    pub async fn watch(&self) {
        loop {
            let wait = match self.look().await {
                Ok(swept) => {
                    if swept.files > 0 || swept.objects > 0 {
                        tracing::info!(
                            files = swept.files,
                            objects = swept.objects,
                            "removed what nobody referred to"
                        );
                    }
                    if swept.more { BETWEEN_STEPS } else { EVERY }
                }
                Err(error) => {
                    tracing::warn!(%error, "files that nobody refers to have to wait");
                    EVERY
                }
            };
            sleep(wait).await;
        }
    }

    /// One look.
    ///
    /// # Errors
    /// When the store does not answer. An object that cannot be removed is none: it is tried again later.
    pub async fn look(&self) -> StoreResult<Swept> {
        let mut swept = Swept::default();
        let now = self.clock.now();
        for state in [FileState::Ready, FileState::Uploading] {
            self.mark(state, now, &mut swept).await?;
        }
        self.remove_files(now, &mut swept).await?;
        self.remove_blobs(now, &mut swept).await?;
        Ok(swept)
    }

    async fn mark(&self, state: FileState, now: Timestamp, swept: &mut Swept) -> StoreResult<()> {
        let loose = self
            .store
            .loose_files(state, now.minus(self.unreferenced), STEP)
            .await?;
        swept.more |= is_full(loose.len());
        for file in loose {
            if !self.store.keep_file(file).await? && self.store.expire_file(file, now).await? {
                swept.expired += 1;
            }
        }
        Ok(())
    }

    async fn remove_files(&self, now: Timestamp, swept: &mut Swept) -> StoreResult<()> {
        let expired = self
            .store
            .loose_files(FileState::Expired, now.minus(FILE_GRACE), STEP)
            .await?;
        swept.more |= is_full(expired.len());
        for file in expired {
            if !self.store.keep_file(file).await? && self.store.remove_file(file, now).await? {
                swept.files += 1;
            }
        }
        Ok(())
    }

    async fn remove_blobs(&self, now: Timestamp, swept: &mut Swept) -> StoreResult<()> {
        let loose = self.store.loose_blobs(now.minus(BLOB_GRACE), STEP).await?;
        let full = is_full(loose.len());
        let mut failures = 0;
        for blob in loose {
            if self.store.keep_blob(&blob).await? {
                continue;
            }
            if blob.live {
                self.store.retire_blob(&blob, now).await?;
            } else if self.remove_object(&blob, now).await? {
                swept.objects += 1;
                failures = 0;
            } else {
                failures += 1;
                if failures == FAILURES_MAX {
                    return Ok(());
                }
            }
        }
        swept.more |= full;
        Ok(())
    }

    /// `false` = it could not be removed, and stands behind all others.
    async fn remove_object(&self, loose: &LooseBlob, now: Timestamp) -> StoreResult<bool> {
        let key = loose.blob.object_key.as_str();
        if let Err(error) = self.objects.remove(key).await {
            tracing::warn!(%error, key, "an object that nobody needs cannot be removed; it is tried again");
            self.store.touch_blob(loose.blob.blob_id, now).await?;
            return Ok(false);
        }
        // A crash before this leaves a row without an object, and the next look goes on.
        self.store.forget_blob(loose.blob.blob_id).await?;
        Ok(true)
    }
}

fn is_full(found: usize) -> bool {
    u32::try_from(found).is_ok_and(|found| found >= STEP)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::{BlobId, Code, FileId, Principal, chain};
    use crate::storage::memory::MemoryStore;
    use crate::storage::{FinishedFile, NewBlob, NewFile};

    const ANN: Principal = Principal::user(1);
    const DAY: Duration = Duration::from_hours(24);

    /// The keys that are there.
    #[derive(Default)]
    struct Shelf {
        keys: Mutex<BTreeSet<String>>,
        down: AtomicBool,
    }

    #[async_trait]
    impl Objects for Shelf {
        async fn remove(&self, object_key: &str) -> Result<(), ServiceError> {
            if self.down.load(Ordering::SeqCst) {
                return Err(ServiceError::new(Code::Unavailable, "down"));
            }
            self.keys.lock().unwrap().remove(object_key);
            Ok(())
        }
    }

    struct World {
        store: MemoryStore,
        shelf: Arc<Shelf>,
        clock: Arc<ManualClock>,
        sweep: Sweep,
    }

    impl World {
        fn new() -> Self {
            let (store, shelf) = (MemoryStore::new(), Arc::<Shelf>::default());
            let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
            let sweep = Sweep::new(
                Arc::new(store.clone()),
                Arc::<Shelf>::clone(&shelf),
                Arc::<ManualClock>::clone(&clock),
                DAY,
            );
            Self {
                store,
                shelf,
                clock,
                sweep,
            }
        }

        fn wait(&self, time: Duration) {
            self.clock.advance(i64::try_from(time.as_millis()).unwrap());
        }

        async fn begin(&self, id: i64) -> NewFile {
            let blob_id = BlobId::new(id).unwrap();
            let object_key = format!("key/{id}");
            self.shelf.keys.lock().unwrap().insert(object_key.clone());
            let blob = NewBlob {
                blob_id,
                object_key,
                size_bytes: 0,
                created_at: self.clock.now(),
            };
            self.store.add_blob(&blob).await.unwrap();
            let file = NewFile {
                file_id: FileId::new(id).unwrap(),
                uploader: ANN,
                name: "a".to_owned(),
                media_type: "text/plain".to_owned(),
                blob_id,
                created_at: self.clock.now(),
            };
            self.store.add_file(&file).await.unwrap();
            file
        }

        async fn upload(&self, id: i64, bytes: &str) {
            let file = self.begin(id).await;
            let (sha256, now) = (chain::content_hash(bytes), self.clock.now());
            let blob = self.store.settle_blob(file.blob_id, sha256, 1, now).await.unwrap();
            let finished = FinishedFile {
                file_id: file.file_id,
                media_type: file.media_type,
                blob_id: blob.blob_id,
                dimensions: None,
                thumbnail: None,
            };
            assert!(self.store.finish_file(&finished).await.unwrap());
        }

        async fn look(&self) -> (u64, u64, u64) {
            let swept = self.sweep.look().await.unwrap();
            assert!(!swept.more);
            (swept.expired, swept.files, swept.objects)
        }

        fn keys(&self) -> usize {
            self.shelf.keys.lock().unwrap().len()
        }
    }

    #[tokio::test]
    async fn an_upload_that_nothing_refers_to_goes_after_a_day_and_its_bytes_after_it() {
        let world = World::new();
        world.upload(1, "one").await;
        world.begin(2).await;
        let last = Duration::from_millis(1);
        world.wait(DAY.saturating_sub(last));
        assert_eq!(world.look().await, (0, 0, 0));
        world.wait(last);
        assert_eq!(world.look().await, (2, 0, 0));
        assert_eq!(world.look().await, (0, 0, 0), "not before its grace is over");
        world.wait(FILE_GRACE);
        assert_eq!(world.look().await, (0, 2, 0));
        // What was being written was never there for others; what was there is retired first.
        world.wait(BLOB_GRACE);
        assert_eq!(world.look().await, (0, 0, 1));
        assert_eq!(world.keys(), 1);
        world.wait(BLOB_GRACE);
        assert_eq!(world.look().await, (0, 0, 1));
        assert_eq!(world.keys(), 0);
        assert!(world.store.blobs_after(None, 10).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn bytes_stay_while_any_file_has_them() {
        let world = World::new();
        world.upload(1, "same").await;
        world.wait(DAY);
        world.upload(2, "same").await;
        assert_eq!(world.look().await, (1, 0, 0));
        world.wait(FILE_GRACE);
        assert_eq!(world.look().await, (0, 1, 0));
        world.wait(BLOB_GRACE);
        assert_eq!(world.look().await, (0, 0, 1), "what the second upload wrote in vain");
        world.wait(BLOB_GRACE);
        assert_eq!(world.look().await, (0, 0, 0));
        let file = world.store.readable_file(FileId::new(2).unwrap(), ANN).await.unwrap();
        assert_eq!(file.unwrap().blob.object_key, "key/1");
        assert_eq!(world.keys(), 1);
    }

    #[tokio::test]
    async fn what_cannot_be_removed_is_tried_again_and_holds_up_nobody_for_long() {
        let world = World::new();
        for id in 1..=5 {
            world.begin(id).await;
        }
        world.wait(DAY);
        assert_eq!(world.look().await, (5, 0, 0));
        world.wait(FILE_GRACE);
        assert_eq!(world.look().await, (0, 5, 0));
        world.wait(BLOB_GRACE);
        world.shelf.down.store(true, Ordering::SeqCst);
        assert_eq!(world.look().await, (0, 0, 0));
        world.shelf.down.store(false, Ordering::SeqCst);
        assert_eq!(
            world.look().await,
            (0, 0, 2),
            "three were tried, and stand behind the others"
        );
        world.wait(BLOB_GRACE);
        assert_eq!(world.look().await, (0, 0, 3));
        assert_eq!(world.keys(), 0);
    }

    #[tokio::test]
    async fn much_is_done_in_pieces() {
        let world = World::new();
        for id in 1..=i64::from(STEP) + 1 {
            world.begin(id).await;
        }
        world.wait(DAY);
        let first = world.sweep.look().await.unwrap();
        assert_eq!((first.expired, first.more), (u64::from(STEP), true));
        assert_eq!(world.look().await, (1, 0, 0));
    }
}
