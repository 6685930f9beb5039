//! Bytes on their way out.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::sniff::sniff;
use super::upload::object_key;
use super::{Files, unknown};
use crate::domain::{File, FileId, MediaType, Principal};
use crate::service::ServiceError;

/// The largest small picture that is given out: ours are far smaller.
const SMALL_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Part of a file, as a stream that reads no further than its reader.
pub type Body = BoxStream<'static, Result<Bytes, ServiceError>>;

impl Files {
    /// A file that `viewer` may read: their own, or one that a message refers to which they see at present.
    ///
    /// # Errors
    /// `not_found` for everything else, there or not.
    pub async fn get(&self, viewer: Principal, id: FileId) -> Result<File, ServiceError> {
        self.store.readable_file(id, viewer).await?.ok_or_else(unknown)
    }

    /// Bytes of a file; `range` lies inside it.
    ///
    /// # Errors
    /// `unavailable`
    pub async fn read(&self, file: &File, range: Range<u64>) -> Result<Body, ServiceError> {
        let chunks = self.blobs.read(&object_key(&file.blob)?, range).await?;
        Ok(chunks.map_err(ServiceError::from).boxed())
    }

    /// Where the bucket gives the file out itself, shown as `media_type` and with this `Content-Disposition`; none where
    /// it comes through this server.
    ///
    /// # Errors
    /// `unavailable`
    pub async fn elsewhere(
        &self,
        file: &File,
        media_type: &str,
        disposition: &str,
    ) -> Result<Option<String>, ServiceError> {
        if !self.options.redirect || !self.blobs.can_sign() {
            return Ok(None);
        }
        let key = object_key(&file.blob)?;
        let signed = self
            .blobs
            .sign_get(&key, media_type, disposition, self.options.signed_for);
        Ok(Some(signed.await?))
    }

    /// The small picture of a file, and what it is.
    ///
    /// # Errors
    /// `not_found` where there is none, or the file may not be seen.
    pub async fn thumbnail(&self, file: &File) -> Result<(Bytes, MediaType), ServiceError> {
        let small = file.thumbnail.as_ref().ok_or_else(unknown)?;
        if small.size_bytes > SMALL_BYTES_MAX {
            return Err(ServiceError::internal(&format!(
                "blob {} is no small picture",
                small.blob_id
            )));
        }
        let chunks = self.blobs.read(&object_key(small)?, 0..small.size_bytes).await?;
        let add = |mut whole: BytesMut, chunk: Bytes| async move {
            whole.extend_from_slice(&chunk);
            Ok(whole)
        };
        let whole = chunks.try_fold(BytesMut::new(), add).await?.freeze();
        let media_type = MediaType::judged(None, sniff(&whole));
        Ok((whole, media_type))
    }
}
