//! Bytes on their way in.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, timeout};

use super::sniff::{HEAD_BYTES, sniff};
use super::{Files, Seat};
use crate::blobs::{BlobError, ObjectKey, Stored, Writing};
use crate::domain::{
    Blob, BlobId, Code, Dimensions, File, FileId, FileName, FileState, InvalidField, MediaType, Principal, Timestamp,
};
use crate::service::ServiceError;
use crate::storage::{FinishedFile, NewBlob, NewFile};

/// How long a client may be silent in the middle of an upload.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// From here on it has to be this fast on the whole: a seat is not for those who only sit.
const PACE_AFTER: Duration = Duration::from_mins(1);
const PACE_BYTES_A_SECOND: u64 = 1_024;

/// What an uploader says of a file.
#[derive(Clone, Debug, Default)]
pub struct Announced {
    /// What it is called.
    pub name: FileName,
    /// What it is.
    pub media_type: Option<MediaType>,
}

impl Announced {
    fn media_type(&self) -> MediaType {
        self.media_type.clone().unwrap_or_default()
    }
}

/// Bytes that have a row.
pub(super) struct Kept {
    /// Where they are.
    pub(super) blob: Blob,
    /// What was written in vain, since the same bytes were there: its row and its object.
    pub(super) spare: Option<(BlobId, ObjectKey)>,
}

/// What a look at bytes that have a row has shown.
pub(super) struct Looked {
    media_type: MediaType,
    dimensions: Option<Dimensions>,
    thumbnail: Option<Kept>,
}

impl Files {
    /// A seat for an upload. Ask for it before anything of the body is read.
    ///
    /// # Errors
    /// `overloaded`: come again.
    pub fn seat(&self, uploader: Principal) -> Result<Seat, ServiceError> {
        self.seats.take(uploader)
    }

    /// Takes a file in; `bytes` is read no faster than the store takes it. Dropped in the middle, it leaves nothing
    /// that anybody can see, and what is there goes by itself.
    ///
    /// # Errors
    /// `payload_too_large`, `unavailable`, `invalid_request` for a client that is silent or slow, and what `bytes` says.
    pub async fn upload(
        &self,
        _seat: Seat,
        uploader: Principal,
        announced: Announced,
        bytes: impl Stream<Item = Result<Bytes, ServiceError>>,
    ) -> Result<File, ServiceError> {
        let (file_id, blob_id, now) = (self.file_id()?, self.blob_id()?, self.clock.now());
        let key = self.begin_blob(blob_id, ObjectKey::fresh(), 0, now).await?;
        let declared = announced.media_type();
        let file = NewFile {
            file_id,
            uploader,
            name: announced.name.as_str().to_owned(),
            media_type: declared.to_string(),
            blob_id,
            created_at: now,
        };
        self.store.add_file(&file).await?;
        let taken = async {
            let (head, stored) = self.take_in(self.blobs.write(key), bytes).await?;
            let kept = self.keep(blob_id, stored).await?;
            let looked = self.look(&kept, &head, declared).await?;
            self.finish(file, kept, looked).await
        };
        let outcome = taken.await;
        if outcome.is_err() {
            self.give_up(file_id).await;
        }
        outcome
    }

    pub(super) async fn begin_blob(
        &self,
        blob_id: BlobId,
        key: ObjectKey,
        size_bytes: u64,
        now: Timestamp,
    ) -> Result<ObjectKey, ServiceError> {
        let blob = NewBlob {
            blob_id,
            object_key: key.as_str().to_owned(),
            size_bytes,
            created_at: now,
        };
        self.store.add_blob(&blob).await?;
        Ok(key)
    }

    /// Writes a stream to its end; answers how it begins, too.
    pub(super) async fn take_in(
        &self,
        mut writing: Writing,
        bytes: impl Stream<Item = Result<Bytes, ServiceError>>,
    ) -> Result<(Vec<u8>, Stored), ServiceError> {
        let mut bytes = std::pin::pin!(bytes);
        let mut head = Vec::new();
        let begun = Instant::now();
        loop {
            let next = timeout(SILENCE_MAX, bytes.next()).await;
            let next = next.map_err(|_| InvalidField::new("file", "did not arrive in time"))?;
            let Some(chunk) = next.transpose()? else { break };
            let size = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            if size > self.options.upload_bytes_max.saturating_sub(writing.size_bytes()) {
                return Err(self.too_large());
            }
            let wanted = HEAD_BYTES.saturating_sub(head.len()).min(chunk.len());
            head.extend_from_slice(chunk.get(..wanted).unwrap_or_default());
            writing.write(chunk).await?;
            self.check_pace(begun.elapsed(), writing.size_bytes())?;
        }
        Ok((head, writing.finish().await?))
    }

    fn check_pace(&self, elapsed: Duration, size_bytes: u64) -> Result<(), InvalidField> {
        let slow = elapsed > PACE_AFTER && size_bytes / PACE_BYTES_A_SECOND < elapsed.as_secs();
        if slow || elapsed > self.options.upload_time_max {
            return Err(InvalidField::new("file", "arrives too slowly"));
        }
        Ok(())
    }

    /// Writes down that an object is complete. Whether that was done is not known when it fails, so the object stays:
    /// its row tells whoever looks for what is left over.
    pub(super) async fn keep(&self, blob_id: BlobId, stored: Stored) -> Result<Kept, ServiceError> {
        let (sha256, size_bytes) = (stored.sha256(), stored.size_bytes());
        let key = stored.keep();
        let blob = self
            .store
            .settle_blob(blob_id, sha256, size_bytes, self.clock.now())
            .await?;
        if blob.blob_id == blob_id {
            return Ok(Kept { blob, spare: None });
        }
        self.mend(&blob, &key).await?;
        let spare = Some((blob_id, key));
        Ok(Kept { blob, spare })
    }

    /// A row says that the same bytes are there. Where they are not, since the folder or the bucket is older than the
    /// database, they come back with whoever brings them again.
    async fn mend(&self, blob: &Blob, same: &ObjectKey) -> Result<(), ServiceError> {
        let key = object_key(blob)?;
        match self.blobs.size_bytes(&key).await {
            Ok(size_bytes) if size_bytes == blob.size_bytes => return Ok(()),
            Ok(_) | Err(BlobError::Missing(_)) => {}
            Err(error) => return Err(error.into()),
        }
        tracing::warn!(%key, "the bytes of a file were missing or cut; they were uploaded again and are put back");
        let mut bytes = self.blobs.read(same, 0..blob.size_bytes).await?;
        let mut writing = self.blobs.write(key);
        while let Some(chunk) = bytes.next().await {
            writing.write(chunk?).await?;
        }
        drop(writing.finish().await?.keep());
        Ok(())
    }

    /// What the bytes are, and a small picture of a large one.
    pub(super) async fn look(&self, kept: &Kept, head: &[u8], declared: MediaType) -> Result<Looked, ServiceError> {
        let media_type = MediaType::judged(Some(declared), sniff(head));
        let key = object_key(&kept.blob)?;
        let picture = self
            .pictures
            .look(&self.blobs, &key, kept.blob.size_bytes, &media_type)
            .await;
        let (dimensions, small) = picture.map(|picture| (picture.dimensions, picture.small)).unzip();
        let thumbnail = match small.flatten() {
            Some(small) => Some(self.keep_small(small).await?),
            None => None,
        };
        Ok(Looked {
            media_type,
            dimensions,
            thumbnail,
        })
    }

    async fn keep_small(&self, small: Vec<u8>) -> Result<Kept, ServiceError> {
        let (blob_id, now) = (self.blob_id()?, self.clock.now());
        let size_bytes = u64::try_from(small.len()).unwrap_or_default();
        let key = self.begin_blob(blob_id, ObjectKey::fresh(), size_bytes, now).await?;
        let mut writing = self.blobs.write(key);
        writing.write(small.into()).await?;
        self.keep(blob_id, writing.finish().await?).await
    }

    /// The file is there from here on.
    pub(super) async fn finish(&self, begun: NewFile, kept: Kept, looked: Looked) -> Result<File, ServiceError> {
        let finished = FinishedFile {
            file_id: begun.file_id,
            media_type: looked.media_type.to_string(),
            blob_id: kept.blob.blob_id,
            dimensions: looked.dimensions,
            thumbnail: looked.thumbnail.as_ref().map(|thumbnail| thumbnail.blob.blob_id),
        };
        if !self.store.finish_file(&finished).await? {
            let detail = "the upload took too long, and what was there of it has gone; upload it again";
            return Err(ServiceError::new(Code::Unavailable, detail));
        }
        self.clear(kept.spare).await;
        let thumbnail = match looked.thumbnail {
            Some(small) => {
                self.clear(small.spare).await;
                Some(small.blob)
            }
            None => None,
        };
        Ok(File {
            file_id: begun.file_id,
            uploader: begun.uploader,
            name: begun.name,
            media_type: finished.media_type,
            state: FileState::Ready,
            blob: kept.blob,
            dimensions: finished.dimensions,
            thumbnail,
            created_at: begun.created_at,
        })
    }

    /// Removes what was written in vain. What fails here is found by whoever looks for what is left over.
    async fn clear(&self, spare: Option<(BlobId, ObjectKey)>) {
        let Some((blob_id, key)) = spare else { return };
        let cleared = match self.blobs.remove(&key).await {
            Ok(()) => self
                .store
                .forget_blob(blob_id)
                .await
                .map(drop)
                .map_err(ServiceError::from),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = cleared {
            tracing::info!(%error, %key, "bytes that were there already are removed later");
        }
    }

    pub(super) async fn give_up(&self, file_id: FileId) {
        if let Err(error) = self.store.drop_upload(file_id, self.clock.now()).await {
            tracing::info!(%error, %file_id, "an upload that has come to nothing is forgotten later");
        }
    }
}

/// The key of a row.
pub(super) fn object_key(blob: &Blob) -> Result<ObjectKey, ServiceError> {
    let wrong = || ServiceError::internal(&format!("blob {} has a key that is none", blob.blob_id));
    ObjectKey::parse(&blob.object_key).ok_or_else(wrong)
}
