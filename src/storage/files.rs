//! Files, their bytes and who refers to them, at rest.
//!
//! References are rows, written with the commit that gives the message its number and taken away with the one that takes
//! its words: they are what is counted, and there is no counter. What nothing refers to goes in steps, each of which looks
//! again: a file is marked before its row goes, its bytes are marked before they are removed, and the database refuses to
//! remove a row that another one names. Each step can be done again without harm.

use std::collections::HashSet;

use async_trait::async_trait;

use super::{StoreResult, Stray};
use crate::domain::{Blob, BlobId, Digest, Dimensions, File, FileId, FileState, MessageId, Principal, Timestamp};

/// Bytes that are about to be written: the row comes first, so that none are there without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlob {
    /// Its row.
    pub blob_id: BlobId,
    /// Under which key they will be; at most 128 bytes, never used before.
    pub object_key: String,
    /// How many bytes were announced; 0 = nobody said.
    pub size_bytes: u64,
    /// Now.
    pub created_at: Timestamp,
}

/// An upload that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Its name everywhere.
    pub file_id: FileId,
    /// Who uploads it.
    pub uploader: Principal,
    /// What they call it.
    pub name: String,
    /// What they say it is.
    pub media_type: String,
    /// Where its bytes are written to.
    pub blob_id: BlobId,
    /// Now.
    pub created_at: Timestamp,
}

/// What became of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedFile {
    /// Which.
    pub file_id: FileId,
    /// What it is, after a look at its bytes.
    pub media_type: String,
    /// Where its bytes are: what [`FileStore::settle_blob`] said.
    pub blob_id: BlobId,
    /// Of a picture.
    pub dimensions: Option<Dimensions>,
    /// Of a picture: the small one, which was settled too.
    pub thumbnail: Option<BlobId>,
}

/// A file to which nothing refers, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LooseFile {
    /// Which.
    pub file_id: FileId,
    /// Since when.
    pub since: Timestamp,
}

/// Bytes that no file has, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooseBlob {
    /// Which.
    pub blob: Blob,
    /// Uploads of the same bytes may take them.
    pub live: bool,
    /// When they were last taken or let go.
    pub touched_at: Timestamp,
}

/// A page of references.
#[derive(Clone, Debug, Default)]
pub struct StrayReferences {
    /// Read up to here; `None` = there are no more.
    pub last: Option<(MessageId, FileId)>,
    /// How many were looked at.
    pub references: u64,
    /// What must not be there.
    pub strays: Vec<Stray>,
}

/// Files, their bytes, and what is to become of those that nobody needs.
#[async_trait]
pub trait FileStore: Send + Sync {
    /// Keeps that bytes are about to be written.
    async fn add_blob(&self, blob: &NewBlob) -> StoreResult<()>;
    /// The bytes are all there: answers where these bytes are kept from here on. That is `blob_id`, or a blob that has the
    /// same bytes: then what was written is no longer needed, and [`FileStore::forget_blob`] is for its row.
    async fn settle_blob(&self, blob_id: BlobId, sha256: Digest, size_bytes: u64, now: Timestamp) -> StoreResult<Blob>;
    /// Keeps that an upload has begun: UPLOADING.
    async fn add_file(&self, file: &NewFile) -> StoreResult<()>;
    /// The file is READY; `false` = it is not UPLOADING (any more), or its bytes are on their way out.
    async fn finish_file(&self, finished: &FinishedFile) -> StoreResult<bool>;
    /// Forgets an upload that has come to nothing, and its bytes are loose since `now`; a file that is not UPLOADING stays.
    async fn drop_upload(&self, id: FileId, now: Timestamp) -> StoreResult<()>;

    /// These files, whoever may see them, in any order; those that are not there are left out.
    async fn files(&self, ids: &[FileId]) -> StoreResult<Vec<File>>;
    /// Those of these files to which a message refers that `viewer` may see at present; what they have cleared or deleted
    /// for themselves does not count. The cost depends neither on the history nor on the number of members.
    async fn shared_with(&self, ids: &[FileId], viewer: Principal) -> StoreResult<HashSet<FileId>>;
    /// The file, if `viewer` may read it: they uploaded it, or it is shared with them.
    async fn readable_file(&self, id: FileId, viewer: Principal) -> StoreResult<Option<File>> {
        Ok(self.readable_files(&[id], viewer).await?.into_iter().next())
    }
    /// Those of these files that `viewer` may read.
    async fn readable_files(&self, ids: &[FileId], viewer: Principal) -> StoreResult<Vec<File>> {
        let mut files = self.files(ids).await?;
        files.retain(|file| file.state != FileState::Uploading);
        let foreign = files.iter().filter(|file| !file.is_open_to(viewer));
        let foreign: Vec<FileId> = foreign.map(|file| file.file_id).collect();
        let shared = match foreign.as_slice() {
            [] => HashSet::new(),
            foreign => self.shared_with(foreign, viewer).await?,
        };
        files.retain(|file| file.is_open_to(viewer) || shared.contains(&file.file_id));
        Ok(files)
    }

    /// Files of this state to which nothing has referred since `before` or earlier, the oldest first, at most `limit`.
    async fn loose_files(&self, state: FileState, before: Timestamp, limit: u32) -> StoreResult<Vec<LooseFile>>;
    /// Something does refer to it: it is READY and no longer loose. `false` = nothing does, or it is another's turn.
    async fn keep_file(&self, file: LooseFile) -> StoreResult<bool>;
    /// Nothing refers to it: it is EXPIRED, loose since `now`. `false` = something does, or it is another's turn.
    async fn expire_file(&self, file: LooseFile, now: Timestamp) -> StoreResult<bool>;
    /// The row of an EXPIRED file to which nothing refers goes, and its bytes are loose since `now`. `false` = something
    /// does, or it is another's turn.
    async fn remove_file(&self, file: LooseFile, now: Timestamp) -> StoreResult<bool>;

    /// Blobs that were touched at `before` or earlier and have not been looked at since, the oldest first, at most `limit`.
    async fn loose_blobs(&self, before: Timestamp, limit: u32) -> StoreResult<Vec<LooseBlob>>;
    /// A file does have them: they are no longer loose. `false` = none has, or it is another's turn.
    async fn keep_blob(&self, blob: &LooseBlob) -> StoreResult<bool>;
    /// No file has them: uploads take them no longer, and they are loose since `now`. `false` = one has, or it is
    /// another's turn.
    async fn retire_blob(&self, blob: &LooseBlob, now: Timestamp) -> StoreResult<bool>;
    /// The object has been removed, or was never written: the row goes, unless a file names it or it is live.
    async fn forget_blob(&self, id: BlobId) -> StoreResult<bool>;
    /// They could not be removed: they stand behind all others, loose since `now`.
    async fn touch_blob(&self, id: BlobId, now: Timestamp) -> StoreResult<()>;

    /// To which files these messages refer by their rows: for `check`.
    async fn references(&self, messages: &[MessageId]) -> StoreResult<HashSet<(MessageId, FileId)>>;
    /// References after `after`, by message and file, at most `limit`, each read at one moment with its message: for
    /// `check`.
    async fn stray_references(&self, after: Option<(MessageId, FileId)>, limit: u32) -> StoreResult<StrayReferences>;
    /// All blobs with an id above `after`, ascending, at most `limit`: for `check`.
    async fn blobs_after(&self, after: Option<BlobId>, limit: u32) -> StoreResult<Vec<Blob>>;
    /// Those of these object keys that a blob has: for `check`.
    async fn known_objects(&self, object_keys: &[String]) -> StoreResult<HashSet<String>>;
}
