//! BYTES AT REST: objects of files, in a folder or in a bucket of an S3-compatible store.
//!
//! Every object is written once under a key of its own, hashed while it passes, and never changed; what it belongs to
//! is said by rows of `storage`. Neither this process nor a crash of it leaves half an object under a key: an object is
//! there as a whole or not at all.
//!
//! Never here: names, types, rights, rows. Nothing else of the crate knows which library is under it.
//! Bounds: one part of memory per object that is written ([`Blobs::part_bytes`]), one chunk per object that is read.

mod abandoned;
mod folder;
mod key;
mod open;
mod signing;
mod writing;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};
use thiserror::Error;

use abandoned::Abandoned;
pub use key::ObjectKey;
pub use open::{Place, S3};
pub use signing::Signed;
pub use writing::{Stored, Writing};

/// Bytes of an object on their way out.
pub type Chunks = BoxStream<'static, Result<Bytes, BlobError>>;

/// Why bytes could not be kept or given.
#[derive(Debug, Error)]
pub enum BlobError {
    /// No such object.
    #[error("no object {0}")]
    Missing(String),
    /// The store did not do it: it cannot be reached, has no room, refuses our keys. Nothing half-written is left.
    #[error("the object store failed: {0}")]
    Unavailable(String),
    /// This store gives nobody a way around this server.
    #[error("this object store cannot sign")]
    CannotSign,
}

impl From<object_store::Error> for BlobError {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { path, .. } => Self::Missing(path),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// An object as it is found by looking through the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub key: ObjectKey,
    /// How large it is.
    pub size_bytes: u64,
    /// When it was written, in milliseconds since 1970.
    pub written_ms: i64,
}

/// The store of objects.
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    signer: Option<Arc<dyn Signer>>,
    prefix: Path,
    part_bytes: usize,
    /// Where unfinished writes of a process that died lie as files of their own.
    folder: Option<PathBuf>,
    abandoned: Abandoned,
}

impl Blobs {
    /// What one object that is being written holds in memory at the most.
    #[must_use]
    pub const fn part_bytes(&self) -> usize {
        self.part_bytes
    }

    /// Begins an object under a key that was never used.
    #[must_use]
    pub fn write(self: &Arc<Self>, key: ObjectKey) -> Writing {
        Writing::new(Arc::clone(self), key)
    }

    /// A part of an object, as a stream that reads no further than its reader; `range` lies inside the object.
    ///
    /// # Errors
    /// [`BlobError::Missing`], [`BlobError::Unavailable`]; the stream may break off with the same.
    pub async fn read(&self, key: &ObjectKey, range: Range<u64>) -> Result<Chunks, BlobError> {
        if range.is_empty() {
            return Ok(futures_util::stream::empty().boxed());
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&self.path(key), options).await?;
        Ok(found.into_stream().map_err(BlobError::from).boxed())
    }

    /// The size of an object in bytes.
    ///
    /// # Errors
    /// [`BlobError::Missing`], [`BlobError::Unavailable`]
    pub async fn size_bytes(&self, key: &ObjectKey) -> Result<u64, BlobError> {
        Ok(self.store.head(&self.path(key)).await?.size)
    }

    /// Removes an object; one that is not there is removed.
    ///
    /// # Errors
    /// [`BlobError::Unavailable`]
    pub async fn remove(&self, key: &ObjectKey) -> Result<(), BlobError> {
        match self.store.delete(&self.path(key)).await.map_err(BlobError::from) {
            Ok(()) | Err(BlobError::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes an object later, with [`Blobs::clear_abandoned`]: for whoever cannot wait, or has failed to.
    pub fn remove_later(&self, key: ObjectKey) {
        self.abandoned.add(None, key);
    }

    /// Every object, in no order. What lies here and has no key of ours is left out: it is not ours.
    pub fn list(&self) -> BoxStream<'_, Result<Found, BlobError>> {
        let prefix = (!self.prefix.as_ref().is_empty()).then_some(&self.prefix);
        let found = self.store.list(prefix).map_err(BlobError::from);
        let ours = found.try_filter_map(|meta| {
            let key = self.key_of(&meta.location);
            std::future::ready(Ok(key.map(|key| Found {
                key,
                size_bytes: meta.size,
                written_ms: meta.last_modified.timestamp_millis(),
            })))
        });
        ours.boxed()
    }

    /// Removes what writers left that died, and have not touched for so long.
    ///
    /// # Errors
    /// [`BlobError::Unavailable`]
    pub async fn remove_leftovers(&self, older_than: Duration) -> Result<(), BlobError> {
        match &self.folder {
            Some(folder) => folder::remove_leftovers(folder.clone(), older_than).await,
            // A bucket has a rule for this ("abort incomplete multipart uploads"); config.toml says so.
            None => Ok(()),
        }
    }

    fn path(&self, key: &ObjectKey) -> Path {
        let parts = self.prefix.parts();
        parts.chain(Path::from(key.as_str()).parts()).collect()
    }

    fn key_of(&self, path: &Path) -> Option<ObjectKey> {
        let parts = path.prefix_match(&self.prefix)?;
        let below: Path = parts.collect();
        ObjectKey::parse(below.as_ref())
    }
}
