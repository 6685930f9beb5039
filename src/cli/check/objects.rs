//! The objects of files against their rows: none without a row, no row without its bytes.

use std::collections::HashSet;

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::PRINTED_MAX;
use crate::blobs::{BlobError, Blobs, Found, ObjectKey};
use crate::domain::{Blob, Timestamp};
use crate::storage::FileStore;

/// Objects or rows that are in memory at once.
const PAGE: usize = 500;
/// Objects that are asked for at once.
const AT_ONCE: usize = 16;
/// What is younger may be on its way: nothing is said of it, and nothing of it is removed.
const YOUNG_MS: i64 = 3_600_000;

/// What was found in the store of bytes.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// How many were looked at.
    pub(super) looked: u64,
    /// What is wrong, in words: the first ones.
    pub(super) findings: Vec<String>,
    /// All of them, also those that are not kept.
    pub(super) found: usize,
    /// Objects without a row that were removed.
    pub(super) removed: u64,
}

impl Objects {
    fn add(&mut self, what: String) {
        self.found += 1;
        if self.findings.len() < PRINTED_MAX {
            self.findings.push(what);
        }
    }
}

/// Compares both sides; with `remove_orphans` removes the objects that no row names.
///
/// # Errors
/// When one of the two cannot be read to its end.
pub(super) async fn objects(
    store: &dyn FileStore,
    blobs: &Blobs,
    now: Timestamp,
    remove_orphans: bool,
) -> anyhow::Result<Objects> {
    let mut report = Objects::default();
    let mut pages = blobs.list().try_chunks(PAGE);
    while let Some(page) = pages.next().await {
        let page = page
            .map_err(|error| error.1)
            .context("the store of files cannot be read")?;
        report.looked += u64::try_from(page.len()).unwrap_or_default();
        for orphan in orphans(store, page, now).await? {
            if remove_orphans {
                blobs.remove(&orphan.key).await?;
                report.removed += 1;
            } else {
                let what = format!("object {} has no row ({} bytes)", orphan.key, orphan.size_bytes);
                report.add(what);
            }
        }
    }
    let mut after = None;
    loop {
        let page = store
            .blobs_after(after, u32::try_from(PAGE).unwrap_or(u32::MAX))
            .await?;
        let Some(last) = page.last() else { return Ok(report) };
        after = Some(last.blob_id);
        let wrong = stream::iter(page).map(|blob| wrong(store, blobs, blob));
        let wrong: Vec<Option<String>> = wrong.buffer_unordered(AT_ONCE).try_collect().await?;
        wrong.into_iter().flatten().for_each(|what| report.add(what));
    }
}

async fn orphans(store: &dyn FileStore, page: Vec<Found>, now: Timestamp) -> anyhow::Result<Vec<Found>> {
    let keys: Vec<String> = page.iter().map(|found| found.key.to_string()).collect();
    let known: HashSet<String> = store.known_objects(&keys).await?;
    let is_orphan = |found: &Found| {
        let old = now.millis().saturating_sub(found.written_ms) >= YOUNG_MS;
        old && !known.contains(found.key.as_str())
    };
    Ok(page.into_iter().filter(is_orphan).collect())
}

/// What is wrong with the bytes of a row; those that are being written have no fingerprint yet.
async fn wrong(store: &dyn FileStore, blobs: &Blobs, blob: Blob) -> anyhow::Result<Option<String>> {
    if blob.sha256.is_none() {
        return Ok(None);
    }
    let Some(key) = ObjectKey::parse(&blob.object_key) else {
        return Ok(Some(format!("blob {} has a key that is none", blob.blob_id)));
    };
    match blobs.size_bytes(&key).await {
        Ok(size) if size == blob.size_bytes => Ok(None),
        Ok(size) => {
            let what = format!("object {key} has {size} bytes instead of {}", blob.size_bytes);
            Ok(Some(what))
        }
        // A row goes after its object: one that is gone by now has told nothing.
        Err(BlobError::Missing(_)) => {
            let still = store.known_objects(&[blob.object_key]).await?;
            Ok((!still.is_empty())
                .then(|| format!("object {key} is not there: the bytes of blob {} are lost", blob.blob_id)))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::blobs::Place;
    use crate::domain::{BlobId, Digest};
    use crate::storage::NewBlob;
    use crate::storage::memory::MemoryStore;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    struct World {
        store: MemoryStore,
        blobs: Arc<Blobs>,
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let blobs = Blobs::open(&Place::Folder(folder.path().into()), 1 << 20, true).unwrap();
            let store = MemoryStore::default();
            Self { store, blobs, folder }
        }

        /// An object of five bytes that is so old.
        async fn object(&self, age: Duration) -> ObjectKey {
            let mut writing = self.blobs.write(ObjectKey::fresh());
            writing.write("bytes".into()).await.unwrap();
            let key = writing.finish().await.unwrap().keep();
            let written = UNIX_EPOCH + Duration::from_millis(u64::try_from(NOW.millis()).unwrap()) - age;
            File::options()
                .write(true)
                .open(self.path(&key))
                .unwrap()
                .set_modified(written)
                .unwrap();
            key
        }

        fn path(&self, key: &ObjectKey) -> std::path::PathBuf {
            Path::join(self.folder.path(), key.as_str())
        }

        async fn row(&self, id: i64, key: &ObjectKey, size_bytes: u64) {
            let blob_id = BlobId::new(id).unwrap();
            let blob = NewBlob {
                blob_id,
                object_key: key.to_string(),
                size_bytes: 0,
                created_at: NOW,
            };
            self.store.add_blob(&blob).await.unwrap();
            let sha256 = Digest::new([u8::try_from(id).unwrap(); 32]);
            self.store.settle_blob(blob_id, sha256, size_bytes, NOW).await.unwrap();
        }

        async fn check(&self, remove_orphans: bool) -> Objects {
            objects(&self.store, &self.blobs, NOW, remove_orphans).await.unwrap()
        }
    }

    #[tokio::test]
    async fn objects_and_rows_that_have_lost_one_another_are_found() {
        let world = World::new();
        let old = Duration::from_hours(2);
        let [good, short, lost, orphan] = [
            world.object(old).await,
            world.object(old).await,
            world.object(old).await,
            world.object(old).await,
        ];
        let young = world.object(Duration::from_mins(59)).await;
        world.row(1, &good, 5).await;
        world.row(2, &short, 6).await;
        world.row(3, &lost, 5).await;
        std::fs::remove_file(world.path(&lost)).unwrap();

        let found = world.check(false).await;
        assert_eq!(
            (found.looked, found.found, found.removed),
            (4, 3, 0),
            "{:?}",
            found.findings
        );
        for what in [
            format!("object {orphan} has no row (5 bytes)"),
            format!("object {short} has 5 bytes instead of 6"),
            format!("object {lost} is not there: the bytes of blob 3 are lost"),
        ] {
            assert!(found.findings.contains(&what), "{what} is not in {:?}", found.findings);
        }
        assert!(world.path(&orphan).exists(), "looking removes nothing");

        let removed = world.check(true).await;
        assert_eq!((removed.found, removed.removed), (2, 1), "{:?}", removed.findings);
        assert!(!world.path(&orphan).exists() && world.path(&young).exists() && world.path(&good).exists());
    }
}
