//! Uploads past this server: a client puts the bytes into the bucket itself, and says when they are there.
//!
//! What a client has written may be written again as long as the address lives, so nobody ever reads it: the bytes are
//! copied to a key of ours while they are counted, hashed and looked at, on the same way as any other upload.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::time::timeout;

use super::upload::object_key;
use super::{Announced, Files, unknown};
use crate::blobs::{BlobError, ObjectKey, Signed};
use crate::domain::{Code, File, FileId, FileState, MediaType, Principal, Timestamp};
use crate::service::ServiceError;
use crate::storage::NewFile;

/// The longest copy: bytes that no file has yet are swept up after an hour.
const COPY_TIME_MAX: Duration = Duration::from_mins(45);

/// Where to put a file.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Its name from here on; it can be used when it is complete.
    pub file_id: FileId,
    /// Where, and with which headers.
    pub put: Signed,
    /// Until when.
    pub expires_at: Timestamp,
}

impl Files {
    /// Begins an upload past this server, of exactly `size_bytes`.
    ///
    /// # Errors
    /// `invalid_request` where the store cannot do that, `payload_too_large`, `unavailable`
    pub async fn invite(
        &self,
        uploader: Principal,
        announced: Announced,
        size_bytes: u64,
    ) -> Result<Invitation, ServiceError> {
        if !self.blobs.can_sign() {
            return Err(BlobError::CannotSign.into());
        }
        if size_bytes > self.options.upload_bytes_max {
            return Err(self.too_large());
        }
        let (file_id, blob_id, now) = (self.file_id()?, self.blob_id()?, self.clock.now());
        let media_type = announced.media_type.unwrap_or_default();
        let key = ObjectKey::incoming(file_id.get());
        let lasts = self.options.signed_for;
        let put = self.blobs.sign_put(&key, media_type.as_str(), lasts).await?;
        self.begin_blob(blob_id, key, size_bytes, now).await?;
        let file = NewFile {
            file_id,
            uploader,
            name: announced.name.as_str().to_owned(),
            media_type: media_type.to_string(),
            blob_id,
            created_at: now,
        };
        self.store.add_file(&file).await?;
        let lasts_ms = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
        Ok(Invitation {
            file_id,
            put,
            expires_at: Timestamp::from_millis(now.millis().saturating_add(lasts_ms)),
        })
    }

    /// The bytes are there: checks them, and makes the file one that can be used. A repeat answers the same.
    ///
    /// # Errors
    /// `not_found` for anybody but the uploader; `invalid_request` where the bytes are not there or are not as many as
    /// announced; `overloaded`, `unavailable`
    pub async fn complete(&self, uploader: Principal, id: FileId) -> Result<File, ServiceError> {
        let file = self.own(uploader, id).await?;
        if file.state != FileState::Uploading {
            return Ok(file);
        }
        let _seat = self.seat(uploader)?;
        let incoming = object_key(&file.blob)?;
        if !incoming.is_incoming() {
            return Err(unknown());
        }
        let announced = file.blob.size_bytes;
        match self.blobs.size_bytes(&incoming).await {
            Ok(size) if size == announced => {}
            Ok(size) => {
                self.blobs.remove(&incoming).await?;
                let detail = format!("size: {announced} bytes were announced, {size} were put there; put them again");
                return Err(ServiceError::new(Code::InvalidRequest, detail));
            }
            Err(BlobError::Missing(_)) => {
                let detail = "upload: the bytes are not there yet; put them to upload.url first";
                return Err(ServiceError::new(Code::InvalidRequest, detail));
            }
            Err(error) => return Err(error.into()),
        }
        let copied = timeout(COPY_TIME_MAX, self.copy_in(&file, &incoming)).await;
        let slow = || ServiceError::new(Code::Unavailable, "the store of files is too slow; try again");
        match copied.unwrap_or_else(|_| Err(slow())) {
            // Somebody else was faster.
            Err(error) if error.code == Code::Unavailable => match self.own(uploader, id).await? {
                ready if ready.state == FileState::Ready => Ok(ready),
                _ => Err(error),
            },
            other => other,
        }
    }

    /// What was put stays for a while under its own key, so that an address that still lives writes nothing that has no
    /// row: it goes as everything goes that no file has.
    async fn copy_in(&self, file: &File, incoming: &ObjectKey) -> Result<File, ServiceError> {
        let size_bytes = file.blob.size_bytes;
        let (blob_id, now) = (self.blob_id()?, self.clock.now());
        let key = self.begin_blob(blob_id, ObjectKey::fresh(), size_bytes, now).await?;
        let bytes = self.blobs.read(incoming, 0..size_bytes).await?;
        let (head, stored) = self
            .take_in(self.blobs.write(key), bytes.map_err(ServiceError::from))
            .await?;
        if stored.size_bytes() != size_bytes {
            return Err(ServiceError::new(
                Code::Unavailable,
                "the bytes changed while they were read; try again",
            ));
        }
        let kept = self.keep(blob_id, stored).await?;
        let declared = MediaType::parse(&file.media_type).unwrap_or_default();
        let looked = self.look(&kept, &head, declared).await?;
        let begun = NewFile {
            file_id: file.file_id,
            uploader: file.uploader,
            name: file.name.clone(),
            media_type: file.media_type.clone(),
            blob_id,
            created_at: file.created_at,
        };
        self.finish(begun, kept, looked).await
    }

    async fn own(&self, uploader: Principal, id: FileId) -> Result<File, ServiceError> {
        let found = self.store.files(&[id]).await?.into_iter().next();
        let own = found.filter(|file| file.uploader == uploader && file.state != FileState::Expired);
        own.ok_or_else(unknown)
    }
}
