//! What is uploaded and downloaded: bytes go to `blobs`, what is known of them to `storage`, and nothing is whole in memory.
//!
//! A row comes before its object, so that no object is there without one; a file can be read and referred to only when its
//! bytes are complete, counted, hashed and looked at.
//! Never here: HTTP, forms, headers.
//! Bounds: uploads at once ([`Seats`]), pictures at once (`pictures`), one part of memory per upload.

mod direct;
mod download;
mod pictures;
mod seats;
mod sniff;
#[cfg(test)]
mod tests;
mod upload;

use std::sync::Arc;
use std::time::Duration;

pub use direct::Invitation;
pub use download::Body;
pub use seats::Seat;
pub use upload::Announced;

use async_trait::async_trait;

use pictures::Pictures;
use seats::Seats;

use super::error::ServiceError;
use super::sweep::Objects;
use crate::blobs::{BlobError, Blobs, ObjectKey};
use crate::clock::Clock;
use crate::domain::{BlobId, Code, DomainError, FileId};
use crate::ids::Ids;
use crate::storage::FileStore;

/// How files are dealt with.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// The largest file, in bytes.
    pub upload_bytes_max: u64,
    /// Uploads that are under way at the same time.
    pub uploads_at_once: usize,
    /// The longest upload.
    pub upload_time_max: Duration,
    /// The largest picture of which a small one is made; 0 = none.
    pub picture_pixels_max: u64,
    /// How long an address of the bucket can be used.
    pub signed_for: Duration,
    /// Send downloads to the bucket.
    pub redirect: bool,
}

/// Use cases around files.
pub struct Files {
    store: Arc<dyn FileStore>,
    blobs: Arc<Blobs>,
    ids: Arc<Ids>,
    clock: Arc<dyn Clock>,
    options: FileOptions,
    seats: Arc<Seats>,
    pictures: Pictures,
}

impl Files {
    /// Bytes go to `blobs`, rows to `store`.
    #[must_use]
    pub fn new(
        store: Arc<dyn FileStore>,
        blobs: Arc<Blobs>,
        ids: Arc<Ids>,
        clock: Arc<dyn Clock>,
        options: FileOptions,
    ) -> Self {
        Self {
            store,
            blobs,
            ids,
            clock,
            seats: Seats::new(options.uploads_at_once),
            pictures: Pictures::new(options.picture_pixels_max),
            options,
        }
    }

    /// The size of the largest file, in bytes.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.options.upload_bytes_max
    }

    fn too_large(&self) -> ServiceError {
        let detail = format!("a file must not have more than {} bytes", self.options.upload_bytes_max);
        ServiceError::new(Code::PayloadTooLarge, detail)
    }

    fn file_id(&self) -> Result<FileId, DomainError> {
        FileId::new(self.ids.next()?).ok_or(DomainError::LeaseLost)
    }

    fn blob_id(&self) -> Result<BlobId, DomainError> {
        BlobId::new(self.ids.next()?).ok_or(DomainError::LeaseLost)
    }
}

#[async_trait]
impl Objects for Blobs {
    async fn remove(&self, object_key: &str) -> Result<(), ServiceError> {
        let wrong = || ServiceError::internal(&format!("{object_key} is no key of an object"));
        let key = ObjectKey::parse(object_key).ok_or_else(wrong)?;
        Ok(self.remove(&key).await?)
    }
}

/// One answer for what is not there and what may not be seen.
fn unknown() -> ServiceError {
    ServiceError::new(Code::NotFound, "no such file, or none that you may see")
}

impl From<BlobError> for ServiceError {
    fn from(error: BlobError) -> Self {
        match error {
            // A row says that it is there: somebody has emptied the folder, or it is not the one that it was.
            BlobError::Missing(_) => Self::internal(&error),
            BlobError::Unavailable(_) => {
                tracing::warn!(%error, "the store of files did not answer");
                let detail = "the store of files cannot be reached or is full at the moment; try again";
                Self::new(Code::Unavailable, detail)
            }
            BlobError::CannotSign => {
                let detail = "this server takes files itself: use POST /v1/files";
                Self::new(Code::InvalidRequest, detail)
            }
        }
    }
}
