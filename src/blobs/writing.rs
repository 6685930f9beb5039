//! One object on its way in.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::{MultipartUpload, ObjectStoreExt as _, PutPayload};
use sha2::{Digest as _, Sha256};

use super::{BlobError, Blobs, ObjectKey};
use crate::domain::Digest;

/// An object that is being written. Dropped before its end, it leaves nothing: what is there of it is removed by the
/// next [`Blobs::clear_abandoned`].
pub struct Writing {
    blobs: Arc<Blobs>,
    key: ObjectKey,
    finished: bool,
    /// Less than a part.
    buffer: BytesMut,
    /// None as long as everything fits into one part.
    parts: Option<Box<dyn MultipartUpload>>,
    hash: Sha256,
    size_bytes: u64,
}

impl Writing {
    pub(super) fn new(blobs: Arc<Blobs>, key: ObjectKey) -> Self {
        Self {
            blobs,
            key,
            finished: false,
            buffer: BytesMut::new(),
            parts: None,
            hash: Sha256::new(),
            size_bytes: 0,
        }
    }

    /// How much was written so far, in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Adds bytes; waits while the store takes a part, and takes nothing more meanwhile.
    ///
    /// # Errors
    /// [`BlobError::Unavailable`]; what was written so far goes when this is dropped.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), BlobError> {
        self.hash.update(&bytes);
        self.size_bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        while !bytes.is_empty() {
            let room = self.blobs.part_bytes - self.buffer.len();
            let fits = bytes.split_to(room.min(bytes.len()));
            self.buffer.extend_from_slice(&fits);
            if self.buffer.len() == self.blobs.part_bytes {
                self.put_part().await?;
            }
        }
        Ok(())
    }

    async fn put_part(&mut self) -> Result<(), BlobError> {
        let part = self.buffer.split().freeze();
        let parts = if let Some(parts) = &mut self.parts {
            parts
        } else {
            let begun = self.blobs.store.put_multipart(&self.blobs.path(&self.key)).await?;
            self.parts.insert(begun)
        };
        Ok(parts.put_part(PutPayload::from_bytes(part)).await?)
    }

    /// Completes the object.
    ///
    /// # Errors
    /// [`BlobError::Unavailable`]; then it is as if it had never been begun.
    pub async fn finish(mut self) -> Result<Stored, BlobError> {
        if self.parts.is_some() {
            if !self.buffer.is_empty() {
                self.put_part().await?;
            }
            if let Some(parts) = &mut self.parts {
                parts.complete().await?;
            }
        } else {
            let whole = PutPayload::from_bytes(self.buffer.split().freeze());
            self.blobs.store.put(&self.blobs.path(&self.key), whole).await?;
        }
        let hash = std::mem::take(&mut self.hash).finalize();
        self.finished = true;
        Ok(Stored {
            blobs: Arc::clone(&self.blobs),
            key: self.key.clone(),
            kept: false,
            size_bytes: self.size_bytes,
            sha256: Digest::new(hash.into()),
        })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.finished {
            self.blobs.abandoned.add(self.parts.take(), self.key.clone());
        }
    }
}

/// An object that is complete, and belongs to nobody yet: unless it is [kept](Stored::keep), it goes with this.
pub struct Stored {
    blobs: Arc<Blobs>,
    key: ObjectKey,
    kept: bool,
    size_bytes: u64,
    sha256: Digest,
}

impl Stored {
    /// Its size in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The SHA-256 of its bytes.
    #[must_use]
    pub const fn sha256(&self) -> Digest {
        self.sha256
    }

    /// Where it is.
    #[must_use]
    pub const fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Stays from here on: somebody has written down that it is there, or may have. Answers where it is.
    #[must_use]
    pub fn keep(mut self) -> ObjectKey {
        self.kept = true;
        self.key.clone()
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if !self.kept {
            self.blobs.remove_later(self.key.clone());
        }
    }
}
