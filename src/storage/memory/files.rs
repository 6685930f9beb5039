//! Files, their bytes and who refers to them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;

use async_trait::async_trait;

use super::MemoryStore;
use super::messages::message;
use super::tables::Tables;
use crate::domain::{
    Blob, BlobId, ConversationId, Digest, Event, File, FileId, FileState, MessageId, Principal, Seq, Timestamp,
    visibility,
};
use crate::storage::{
    Commit, FileStore, FinishedFile, LooseBlob, LooseFile, MarkKind, NewBlob, NewFile, StoreError, StoreResult, Stray,
    StrayReferences,
};

/// All of them.
#[derive(Default)]
pub(super) struct FileTables {
    files: BTreeMap<FileId, FileRow>,
    blobs: BTreeMap<BlobId, BlobRow>,
    references: BTreeMap<FileId, BTreeMap<MessageId, (ConversationId, Seq)>>,
}

struct FileRow {
    /// Its blobs are as they were when it was finished: what they are now stands in their rows.
    file: File,
    unreferenced_since: Option<Timestamp>,
}

struct BlobRow {
    blob: Blob,
    live: bool,
    touched_at: Option<Timestamp>,
}

impl FileTables {
    /// The keys between the tables: what a commit refers to is there.
    pub(super) fn has_what_is_referred_to(&self, commit: &Commit) -> bool {
        commit.events.iter().all(|event| match event {
            Event::Referenced { added, .. } => added.iter().all(|file| self.files.contains_key(file)),
            _ => true,
        })
    }

    pub(super) fn apply(&mut self, conversation_id: ConversationId, event: &Event) {
        let Event::Referenced {
            message_id,
            seq,
            added,
            removed,
            at,
        } = event
        else {
            return;
        };
        for file in removed {
            self.references.entry(*file).or_default().remove(message_id);
            if let Some(row) = self.files.get_mut(file) {
                row.unreferenced_since = Some(*at);
            }
        }
        for file in added {
            let references = self.references.entry(*file).or_default();
            references.insert(*message_id, (conversation_id, *seq));
        }
    }

    fn is_referenced(&self, file: FileId) -> bool {
        self.references
            .get(&file)
            .is_some_and(|references| !references.is_empty())
    }

    fn has_file(&self, blob: BlobId) -> bool {
        let has = |row: &FileRow| {
            let thumbnail = row.file.thumbnail.as_ref().map(|thumbnail| thumbnail.blob_id);
            row.file.blob.blob_id == blob || thumbnail == Some(blob)
        };
        self.files.values().any(has)
    }

    fn touch(&mut self, blob: BlobId, now: Timestamp) {
        if let Some(row) = self.blobs.get_mut(&blob) {
            row.touched_at = Some(now);
        }
    }

    fn let_go(&mut self, file: &File, now: Timestamp) {
        self.touch(file.blob.blob_id, now);
        if let Some(thumbnail) = &file.thumbnail {
            self.touch(thumbnail.blob_id, now);
        }
    }

    fn file(&self, id: FileId) -> Option<File> {
        let mut file = self.files.get(&id)?.file.clone();
        file.blob = self.blobs.get(&file.blob.blob_id)?.blob.clone();
        if let Some(thumbnail) = &mut file.thumbnail {
            *thumbnail = self.blobs.get(&thumbnail.blob_id)?.blob.clone();
        }
        Some(file)
    }

    fn loose_file(&mut self, loose: LooseFile) -> Option<&mut FileRow> {
        let row = self.files.get_mut(&loose.file_id);
        row.filter(|row| row.unreferenced_since == Some(loose.since))
    }

    fn loose_blob(&mut self, loose: &LooseBlob) -> Option<&mut BlobRow> {
        let row = self.blobs.get_mut(&loose.blob.blob_id);
        row.filter(|row| row.touched_at == Some(loose.touched_at))
    }

    fn settle(&mut self, id: BlobId, sha256: Digest, size_bytes: u64, now: Timestamp) -> StoreResult<Blob> {
        let same = |row: &&mut BlobRow| row.live && row.blob.sha256 == Some(sha256);
        let earlier = self.blobs.values_mut().find(same).map(|row| {
            row.touched_at = Some(now);
            row.blob.clone()
        });
        if let Some(earlier) = earlier {
            self.touch(id, now);
            return Ok(earlier);
        }
        let row = self.blobs.get_mut(&id).filter(|row| row.blob.sha256.is_none());
        let row = row.ok_or_else(|| StoreError::Unavailable("the bytes of an upload have gone".into()))?;
        (row.blob.sha256, row.blob.size_bytes) = (Some(sha256), size_bytes);
        (row.live, row.touched_at) = (true, Some(now));
        Ok(row.blob.clone())
    }

    fn finish(&mut self, finished: &FinishedFile) -> bool {
        let live = |id: &BlobId| self.blobs.get(id).filter(|row| row.live).map(|row| row.blob.clone());
        let thumbnail = finished.thumbnail.as_ref().map(live);
        let (Some(blob), None | Some(Some(_))) = (live(&finished.blob_id), &thumbnail) else {
            return false;
        };
        let row = self.files.get_mut(&finished.file_id);
        let Some(row) = row.filter(|row| row.file.state == FileState::Uploading) else {
            return false;
        };
        row.file = File {
            media_type: finished.media_type.clone(),
            state: FileState::Ready,
            blob,
            dimensions: finished.dimensions,
            thumbnail: thumbnail.flatten(),
            ..row.file.clone()
        };
        true
    }
}

/// A message that refers to it, and that `viewer` may see.
fn is_shared_with(tables: &Tables, file: FileId, viewer: Principal) -> bool {
    let mut references = tables.files.references.get(&file).into_iter().flatten();
    references.any(|(message, (conversation, seq))| {
        let row = tables.conversations.get(conversation);
        let own = row.and_then(|row| Some((row, row.present(viewer)?)));
        own.is_some_and(|(row, own)| *seq >= visibility::first_visible(&row.header, own))
            && !tables.is_hidden(*message, viewer)
    })
}

fn stray_references(tables: &Tables) -> StrayReferences {
    let mut page = StrayReferences::default();
    for (file, references) in &tables.files.references {
        for (message_id, (conversation_id, seq)) in references {
            page.references += 1;
            let message = message(tables, *message_id);
            let stands = message.is_some_and(|message| {
                (message.conversation_id, message.seq) == (*conversation_id, *seq)
                    && message.content.files().contains(file)
            });
            if !stands {
                page.strays.push(Stray {
                    kind: MarkKind::File,
                    conversation_id: *conversation_id,
                    message_id: Some(*message_id),
                    seq: Some(*seq),
                });
            }
        }
    }
    page
}

fn first<T>(limit: u32, mut rows: Vec<T>, order: impl Fn(&T) -> (Timestamp, i64)) -> Vec<T> {
    rows.sort_by_key(order);
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    rows
}

#[async_trait]
impl FileStore for MemoryStore {
    async fn add_blob(&self, blob: &NewBlob) -> StoreResult<()> {
        self.call(|tables| {
            let row = BlobRow {
                blob: Blob {
                    blob_id: blob.blob_id,
                    object_key: blob.object_key.clone(),
                    sha256: None,
                    size_bytes: blob.size_bytes,
                },
                live: false,
                touched_at: Some(blob.created_at),
            };
            tables.files.blobs.insert(blob.blob_id, row);
        })
        .await
    }

    async fn settle_blob(&self, blob_id: BlobId, sha256: Digest, size_bytes: u64, now: Timestamp) -> StoreResult<Blob> {
        self.call(|tables| tables.files.settle(blob_id, sha256, size_bytes, now))
            .await?
    }

    async fn add_file(&self, file: &NewFile) -> StoreResult<()> {
        self.call(|tables| {
            let files = &mut tables.files;
            let row = files.blobs.get(&file.blob_id);
            let row = row.ok_or_else(|| StoreError::Unavailable("the bytes of an upload have gone".into()))?;
            let row = FileRow {
                file: File {
                    file_id: file.file_id,
                    uploader: file.uploader,
                    name: file.name.clone(),
                    media_type: file.media_type.clone(),
                    state: FileState::Uploading,
                    blob: row.blob.clone(),
                    dimensions: None,
                    thumbnail: None,
                    created_at: file.created_at,
                },
                unreferenced_since: Some(file.created_at),
            };
            files.files.insert(file.file_id, row);
            Ok(())
        })
        .await?
    }

    async fn finish_file(&self, finished: &FinishedFile) -> StoreResult<bool> {
        self.call(|tables| tables.files.finish(finished)).await
    }

    async fn drop_upload(&self, id: FileId, now: Timestamp) -> StoreResult<()> {
        self.call(|tables| {
            let files = &mut tables.files;
            let dropped = files.files.get(&id).map(|row| row.file.clone());
            if let Some(file) = dropped.filter(|file| file.state == FileState::Uploading) {
                files.let_go(&file, now);
                files.files.remove(&id);
            }
        })
        .await
    }

    async fn files(&self, ids: &[FileId]) -> StoreResult<Vec<File>> {
        let ids: BTreeSet<FileId> = ids.iter().copied().collect();
        self.call(|tables| ids.iter().filter_map(|id| tables.files.file(*id)).collect())
            .await
    }

    async fn shared_with(&self, ids: &[FileId], viewer: Principal) -> StoreResult<HashSet<FileId>> {
        self.call(|tables| {
            let shared = ids.iter().filter(|id| is_shared_with(tables, **id, viewer));
            shared.copied().collect()
        })
        .await
    }

    async fn loose_files(&self, state: FileState, before: Timestamp, limit: u32) -> StoreResult<Vec<LooseFile>> {
        self.call(|tables| {
            let rows = tables.files.files.iter().filter(|(_, row)| row.file.state == state);
            let loose = rows.filter_map(|(id, row)| {
                let since = row.unreferenced_since.filter(|since| *since <= before)?;
                Some(LooseFile { file_id: *id, since })
            });
            first(limit, loose.collect(), |loose| (loose.since, loose.file_id.get()))
        })
        .await
    }

    async fn keep_file(&self, file: LooseFile) -> StoreResult<bool> {
        self.call(|tables| {
            let files = &mut tables.files;
            if !files.is_referenced(file.file_id) {
                return false;
            }
            let Some(row) = files.loose_file(file) else {
                return false;
            };
            (row.file.state, row.unreferenced_since) = (FileState::Ready, None);
            true
        })
        .await
    }

    async fn expire_file(&self, file: LooseFile, now: Timestamp) -> StoreResult<bool> {
        self.call(|tables| {
            let files = &mut tables.files;
            if files.is_referenced(file.file_id) {
                return false;
            }
            let Some(row) = files.loose_file(file) else {
                return false;
            };
            (row.file.state, row.unreferenced_since) = (FileState::Expired, Some(now));
            true
        })
        .await
    }

    async fn remove_file(&self, file: LooseFile, now: Timestamp) -> StoreResult<bool> {
        self.call(|tables| {
            let files = &mut tables.files;
            if files.is_referenced(file.file_id) {
                return false;
            }
            let expired = files.loose_file(file).map(|row| row.file.clone());
            let Some(expired) = expired.filter(|file| file.state == FileState::Expired) else {
                return false;
            };
            files.let_go(&expired, now);
            files.files.remove(&file.file_id);
            true
        })
        .await
    }

    async fn loose_blobs(&self, before: Timestamp, limit: u32) -> StoreResult<Vec<LooseBlob>> {
        self.call(|tables| {
            let loose = tables.files.blobs.values().filter_map(|row| {
                Some(LooseBlob {
                    blob: row.blob.clone(),
                    live: row.live,
                    touched_at: row.touched_at.filter(|at| *at <= before)?,
                })
            });
            first(limit, loose.collect(), |loose| {
                (loose.touched_at, loose.blob.blob_id.get())
            })
        })
        .await
    }

    async fn keep_blob(&self, blob: &LooseBlob) -> StoreResult<bool> {
        self.call(|tables| {
            let files = &mut tables.files;
            if !files.has_file(blob.blob.blob_id) {
                return false;
            }
            let Some(row) = files.loose_blob(blob) else {
                return false;
            };
            row.touched_at = None;
            true
        })
        .await
    }

    async fn retire_blob(&self, blob: &LooseBlob, now: Timestamp) -> StoreResult<bool> {
        self.call(|tables| {
            let files = &mut tables.files;
            if files.has_file(blob.blob.blob_id) {
                return false;
            }
            let Some(row) = files.loose_blob(blob) else {
                return false;
            };
            (row.live, row.touched_at) = (false, Some(now));
            true
        })
        .await
    }

    async fn forget_blob(&self, id: BlobId) -> StoreResult<bool> {
        self.call(|tables| {
            let files = &mut tables.files;
            let gone = !files.has_file(id) && files.blobs.get(&id).is_some_and(|row| !row.live);
            if gone {
                files.blobs.remove(&id);
            }
            gone
        })
        .await
    }

    async fn touch_blob(&self, id: BlobId, now: Timestamp) -> StoreResult<()> {
        self.call(|tables| tables.files.touch(id, now)).await
    }

    async fn references(&self, messages: &[MessageId]) -> StoreResult<HashSet<(MessageId, FileId)>> {
        self.call(|tables| {
            let all = tables.files.references.iter().flat_map(|(file, references)| {
                let of = messages.iter().filter(|message| references.contains_key(*message));
                of.map(|message| (*message, *file))
            });
            all.collect()
        })
        .await
    }

    async fn stray_references(&self, _: Option<(MessageId, FileId)>, _: u32) -> StoreResult<StrayReferences> {
        self.call(|tables| stray_references(tables)).await // all of them at once: this is a model
    }

    async fn blobs_after(&self, after: Option<BlobId>, limit: u32) -> StoreResult<Vec<Blob>> {
        self.call(|tables| {
            let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
            let later = tables.files.blobs.range((lower, Bound::Unbounded));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            later.take(limit).map(|(_, row)| row.blob.clone()).collect()
        })
        .await
    }

    async fn known_objects(&self, object_keys: &[String]) -> StoreResult<HashSet<String>> {
        self.call(|tables| {
            let blobs = tables.files.blobs.values();
            let known: HashSet<String> = blobs.map(|row| row.blob.object_key.clone()).collect();
            object_keys.iter().filter(|key| known.contains(*key)).cloned().collect()
        })
        .await
    }
}
