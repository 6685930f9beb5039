//! A file: what was uploaded under a name, and where its bytes are. The bytes are kept once, whatever names they have.

use super::chain::Digest;
use super::ids::{BlobId, FileId, Principal, Timestamp};

/// Where a file stands in its life: `UPLOADING → READY → EXPIRED`, and back to READY where a reference turns up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileState {
    /// Its bytes are not all there, or were not checked yet.
    Uploading,
    /// It can be read and referred to.
    Ready,
    /// Nothing refers to it, and it is about to go: nobody may begin to.
    Expired,
}

impl FileState {
    const ALL: [Self; 3] = [Self::Uploading, Self::Ready, Self::Expired];

    /// The small number that stands for it at rest.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::Uploading => 1,
            Self::Ready => 2,
            Self::Expired => 3,
        }
    }

    /// The inverse of [`FileState::code`].
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// Bytes in the object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its row.
    pub blob_id: BlobId,
    /// Under which key the object store has them.
    pub object_key: String,
    /// Their fingerprint; `None` = they are being written.
    pub sha256: Option<Digest>,
    /// How many bytes; before they were counted, how many were announced.
    pub size_bytes: u64,
}

/// The size of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

/// What was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name everywhere.
    pub file_id: FileId,
    /// Who uploaded it.
    pub uploader: Principal,
    /// What they called it.
    pub name: String,
    /// What it is said to be, as far as its bytes do not contradict.
    pub media_type: String,
    /// Where it stands.
    pub state: FileState,
    /// Its bytes.
    pub blob: Blob,
    /// Of a picture.
    pub dimensions: Option<Dimensions>,
    /// Of a picture: a small one.
    pub thumbnail: Option<Blob>,
    /// When the upload began.
    pub created_at: Timestamp,
}

impl File {
    /// May this principal read it whatever refers to it? Its uploader, and the server itself.
    #[must_use]
    pub fn is_open_to(&self, viewer: Principal) -> bool {
        self.state == FileState::Ready && (self.uploader == viewer || viewer == Principal::SYSTEM)
    }
}
