//! Files and their bytes. Every step is one statement, or several that can be done again without harm.

use std::collections::HashSet;

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{Blob, BlobId, Digest, Dimensions, File, FileId, FileState, MessageId, Principal, Timestamp};
use crate::storage::{
    FileStore, FinishedFile, LooseBlob, LooseFile, NewBlob, NewFile, StoreError, StoreResult, StrayReferences,
};

/// Rows in one statement.
const ROWS_PER_STATEMENT: usize = 500;
/// How often bytes are settled again because those that were there just went.
const SETTLE_TRIES_MAX: u32 = 5;

/// The columns of a blob that [`Columns::blob`] reads.
macro_rules! blob_columns {
    ($name:literal) => {
        concat!(
            $name,
            ".blob_id, ",
            $name,
            ".object_key, ",
            $name,
            ".sha256, ",
            $name,
            ".size_bytes"
        )
    };
}

/// A message refers to the file of the row.
macro_rules! referenced {
    () => {
        "EXISTS (SELECT 1 FROM im_file_ref f WHERE f.file_id = im_file.file_id)"
    };
}

/// A file has the blob of the row: two look-ups by key, for one with OR would read every file on some databases.
macro_rules! has_file {
    () => {
        "(EXISTS (SELECT 1 FROM im_file f WHERE f.blob_id = im_blob.blob_id) \
         OR EXISTS (SELECT 1 FROM im_file f WHERE f.thumb_blob_id = im_blob.blob_id))"
    };
}

fn bad(what: &str) -> StoreError {
    StoreError::Inconsistent(format!("{what} of a file cannot be read"))
}

fn pixels(number: Option<i64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok())
}

fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

sql_impl! {
impl Columns<'r> {
    pub(super) fn file_id(&mut self) -> StoreResult<FileId> {
        FileId::new(self.big()?).ok_or_else(|| bad("the id"))
    }

    /// `None` where the outer join found no blob.
    fn maybe_blob(&mut self) -> StoreResult<Option<Blob>> {
        let Some(id) = self.maybe_big()? else {
            self.skip(3);
            return Ok(None);
        };
        Ok(Some(Blob {
            blob_id: BlobId::new(id).ok_or_else(|| bad("the blob"))?,
            object_key: self.key()?,
            sha256: self.maybe_digest()?,
            size_bytes: self.count()?,
        }))
    }

    fn blob(&mut self) -> StoreResult<Blob> {
        self.maybe_blob()?.ok_or_else(|| bad("the blob"))
    }

    fn file(&mut self) -> StoreResult<File> {
        Ok(File {
            file_id: self.file_id()?,
            uploader: self.principal()?,
            name: self.text()?,
            media_type: self.text()?,
            state: FileState::from_code(self.small()?).ok_or_else(|| bad("the state"))?,
            dimensions: match (pixels(self.maybe_big()?), pixels(self.maybe_big()?)) {
                (Some(width), Some(height)) => Some(Dimensions { width, height }),
                _ => None,
            },
            created_at: self.time()?,
            blob: self.blob()?,
            thumbnail: self.maybe_blob()?,
        })
    }
}
}

sql_impl! {
impl SqlStore {
    /// Those bytes are ours, unless others are there already: `None`.
    async fn claim_bytes(&self, id: BlobId, sha256: Digest, size_bytes: u64, now: Timestamp) -> StoreResult<Option<bool>> {
        let query = sqlx::query(sql!(
            "UPDATE im_blob SET sha256 = ?, size_bytes = ?, live = 1, touched_at = ? WHERE blob_id = ? AND sha256 IS NULL"
        ));
        let query = query.bind(sha256.as_bytes().as_slice()).bind(signed(size_bytes));
        let query = query.bind(now.millis()).bind(id.get());
        let _turn = self.gate.pass().await;
        let updated = query.execute(&self.pool);
        bounded(async {
            match updated.await {
                Err(sqlx::Error::Database(refusal)) if refusal.is_unique_violation() => Ok(None),
                other => other.map(|done| Some(DB::affected(&done) == 1)),
            }
        })
        .await
    }

    /// Takes the bytes that are there, so that they stay; `None` = they have just gone.
    async fn take_bytes(&self, sha256: Digest, now: Timestamp) -> StoreResult<Option<Blob>> {
        let hash = sha256.as_bytes().as_slice();
        let query = sqlx::query(sql!("UPDATE im_blob SET touched_at = ? WHERE sha256 = ? AND live = 1"));
        let turn = self.gate.pass().await;
        let taken = DB::affected(&bounded(query.bind(now.millis()).bind(hash).execute(&self.pool)).await?) == 1;
        drop(turn);
        if !taken {
            return Ok(None);
        }
        let query = sqlx::query(sql!(concat!(
            "SELECT ", blob_columns!("b"), " FROM im_blob b WHERE b.sha256 = ? AND b.live = 1"
        )));
        let row = bounded(query.bind(hash).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).blob()).transpose()
    }

    async fn blob_of(&self, id: BlobId) -> StoreResult<Option<Blob>> {
        let query = sqlx::query(sql!(concat!("SELECT ", blob_columns!("b"), " FROM im_blob b WHERE b.blob_id = ?")));
        let row = bounded(query.bind(id.get()).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).blob()).transpose()
    }

    /// The blobs of a file are loose since `now`.
    async fn touch_blobs_of(&self, id: FileId, now: Timestamp) -> StoreResult<()> {
        for file in self.files(&[id]).await? {
            for blob in std::iter::once(&file.blob).chain(&file.thumbnail) {
                self.touch_blob(blob.blob_id, now).await?;
            }
        }
        Ok(())
    }

    /// A step of the life of a loose file: `text` goes on from there.
    async fn step(&self, text: &'static str, now: Option<Timestamp>, file: LooseFile) -> StoreResult<bool> {
        let mut query = sqlx::query(text);
        if let Some(now) = now {
            query = query.bind(now.millis());
        }
        let _turn = self.gate.pass().await;
        let done = query.bind(file.file_id.get()).bind(file.since.millis()).execute(&self.pool);
        Ok(DB::affected(&bounded(done).await?) == 1)
    }

    /// The same of a loose blob.
    async fn blob_step(&self, text: &'static str, now: Option<Timestamp>, loose: &LooseBlob) -> StoreResult<bool> {
        let mut query = sqlx::query(text);
        if let Some(now) = now {
            query = query.bind(now.millis());
        }
        let _turn = self.gate.pass().await;
        let done = query.bind(loose.blob.blob_id.get()).bind(loose.touched_at.millis()).execute(&self.pool);
        Ok(DB::affected(&bounded(done).await?) == 1)
    }
}
}

sql_impl! {
impl FileStore for SqlStore {
    async fn add_blob(&self, blob: &NewBlob) -> StoreResult<()> {
        let query = sqlx::query(sql!(
            "INSERT INTO im_blob (blob_id, object_key, size_bytes, touched_at, created_at) VALUES (?, ?, ?, ?, ?)"
        ));
        let query = query.bind(blob.blob_id.get()).bind(blob.object_key.as_bytes()).bind(signed(blob.size_bytes));
        let query = query.bind(blob.created_at.millis()).bind(blob.created_at.millis());
        let _turn = self.gate.pass().await;
        bounded(query.execute(&self.pool)).await.map(drop)
    }

    async fn settle_blob(&self, blob_id: BlobId, sha256: Digest, size_bytes: u64, now: Timestamp) -> StoreResult<Blob> {
        for _ in 0..SETTLE_TRIES_MAX {
            match self.claim_bytes(blob_id, sha256, size_bytes, now).await? {
                Some(_) => {
                    // Settled now, or by an earlier try whose answer was lost.
                    let blob = self.blob_of(blob_id).await?.filter(|blob| blob.sha256 == Some(sha256));
                    return blob.ok_or_else(|| StoreError::Unavailable("the bytes of an upload have gone".into()));
                }
                None => {
                    if let Some(earlier) = self.take_bytes(sha256, now).await? {
                        self.touch_blob(blob_id, now).await?;
                        return Ok(earlier);
                    }
                }
            }
        }
        Err(StoreError::Unavailable("the bytes of an upload come and go".into()))
    }

    async fn add_file(&self, file: &NewFile) -> StoreResult<()> {
        let query = sqlx::query(sql!(
            "INSERT INTO im_file (file_id, uploader_type, uploader_id, name, media_type, state, blob_id,
             unreferenced_since, created_at) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?)"
        ));
        let query = query.bind(file.file_id.get()).bind(file.uploader.kind.code()).bind(file.uploader.id);
        let query = query.bind(file.name.as_str()).bind(file.media_type.as_str()).bind(file.blob_id.get());
        let query = query.bind(file.created_at.millis()).bind(file.created_at.millis());
        let _turn = self.gate.pass().await;
        bounded(query.execute(&self.pool)).await.map(drop)
    }

    async fn finish_file(&self, finished: &FinishedFile) -> StoreResult<bool> {
        let thumbnail = finished.thumbnail.map(BlobId::get);
        let query = sqlx::query(sql!(
            "UPDATE im_file SET media_type = ?, state = 2, blob_id = ?, width = ?, height = ?, thumb_blob_id = ?
             WHERE file_id = ? AND state = 1 AND EXISTS (SELECT 1 FROM im_blob b WHERE b.blob_id = ? AND b.live = 1)"
        ));
        let dimensions = finished.dimensions;
        let query = query.bind(finished.media_type.as_str()).bind(finished.blob_id.get());
        let query = query.bind(dimensions.map(|size| i64::from(size.width)));
        let query = query.bind(dimensions.map(|size| i64::from(size.height))).bind(thumbnail);
        let query = query.bind(finished.file_id.get()).bind(finished.blob_id.get());
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    async fn drop_upload(&self, id: FileId, now: Timestamp) -> StoreResult<()> {
        // First: should the second statement not come, the file is looked at once more, and its bytes with it.
        self.touch_blobs_of(id, now).await?;
        let query = sqlx::query(sql!("DELETE FROM im_file WHERE file_id = ? AND state = 1"));
        let _turn = self.gate.pass().await;
        bounded(query.bind(id.get()).execute(&self.pool)).await.map(drop)
    }

    async fn files(&self, ids: &[FileId]) -> StoreResult<Vec<File>> {
        let mut files = Vec::with_capacity(ids.len());
        for part in ids.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(concat!(
                "SELECT i.file_id, i.uploader_type, i.uploader_id, i.name, i.media_type, i.state, i.width, i.height,
                 i.created_at, ", blob_columns!("b"), ", ", blob_columns!("t"),
                " FROM im_file i JOIN im_blob b ON b.blob_id = i.blob_id
                 LEFT JOIN im_blob t ON t.blob_id = i.thumb_blob_id WHERE i.file_id IN ("
            ));
            let mut list = builder.separated(", ");
            for id in part {
                list.push_bind(id.get());
            }
            builder.push(")");
            let query = builder.build().persistent(part.len() == 1);
            for row in &bounded(query.fetch_all(&self.pool)).await? {
                files.push(Columns::<DB>::new(row).file()?);
            }
        }
        Ok(files)
    }

    async fn shared_with(&self, ids: &[FileId], viewer: Principal) -> StoreResult<HashSet<FileId>> {
        self.shared(ids, viewer).await
    }

    async fn loose_files(&self, state: FileState, before: Timestamp, limit: u32) -> StoreResult<Vec<LooseFile>> {
        let query = sqlx::query(sql!(
            "SELECT file_id, unreferenced_since FROM im_file WHERE state = ? AND unreferenced_since <= ?
             ORDER BY unreferenced_since, file_id LIMIT ?"
        ));
        let query = query.bind(state.code()).bind(before.millis()).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let loose = rows.iter().map(|row| {
            let mut columns = Columns::<DB>::new(row);
            Ok(LooseFile { file_id: columns.file_id()?, since: columns.time()? })
        });
        loose.collect()
    }

    async fn keep_file(&self, file: LooseFile) -> StoreResult<bool> {
        let text = sql!(concat!(
            "UPDATE im_file SET state = 2, unreferenced_since = NULL
             WHERE file_id = ? AND unreferenced_since = ? AND ", referenced!()
        ));
        self.step(text, None, file).await
    }

    async fn expire_file(&self, file: LooseFile, now: Timestamp) -> StoreResult<bool> {
        let text = sql!(concat!(
            "UPDATE im_file SET state = 3, unreferenced_since = ?
             WHERE file_id = ? AND unreferenced_since = ? AND NOT ", referenced!()
        ));
        self.step(text, Some(now), file).await
    }

    async fn remove_file(&self, file: LooseFile, now: Timestamp) -> StoreResult<bool> {
        // First: should the second statement not come, the file is looked at once more, and its bytes with it.
        self.touch_blobs_of(file.file_id, now).await?;
        let text = sql!(concat!(
            "DELETE FROM im_file WHERE file_id = ? AND unreferenced_since = ? AND state = 3 AND NOT ", referenced!()
        ));
        self.step(text, None, file).await
    }

    async fn loose_blobs(&self, before: Timestamp, limit: u32) -> StoreResult<Vec<LooseBlob>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", blob_columns!("b"), ", b.live, b.touched_at FROM im_blob b WHERE b.touched_at <= ?
             ORDER BY b.touched_at, b.blob_id LIMIT ?"
        )));
        let rows = bounded(query.bind(before.millis()).bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        let loose = rows.iter().map(|row| {
            let mut columns = Columns::<DB>::new(row);
            Ok(LooseBlob {
                blob: columns.blob()?,
                live: columns.maybe_small()?.is_some(),
                touched_at: columns.time()?,
            })
        });
        loose.collect()
    }

    async fn keep_blob(&self, blob: &LooseBlob) -> StoreResult<bool> {
        let text = sql!(concat!(
            "UPDATE im_blob SET touched_at = NULL WHERE blob_id = ? AND touched_at = ? AND ", has_file!()
        ));
        self.blob_step(text, None, blob).await
    }

    async fn retire_blob(&self, blob: &LooseBlob, now: Timestamp) -> StoreResult<bool> {
        let text = sql!(concat!(
            "UPDATE im_blob SET live = NULL, touched_at = ? WHERE blob_id = ? AND touched_at = ? AND NOT ", has_file!()
        ));
        self.blob_step(text, Some(now), blob).await
    }

    async fn forget_blob(&self, id: BlobId) -> StoreResult<bool> {
        let query = sqlx::query(sql!(concat!(
            "DELETE FROM im_blob WHERE blob_id = ? AND live IS NULL AND NOT ", has_file!()
        )));
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.bind(id.get()).execute(&self.pool)).await?) == 1)
    }

    async fn touch_blob(&self, id: BlobId, now: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(sql!("UPDATE im_blob SET touched_at = ? WHERE blob_id = ?"));
        let _turn = self.gate.pass().await;
        bounded(query.bind(now.millis()).bind(id.get()).execute(&self.pool)).await.map(drop)
    }

    async fn references(&self, messages: &[MessageId]) -> StoreResult<HashSet<(MessageId, FileId)>> {
        self.references_of(messages).await
    }

    async fn stray_references(
        &self,
        after: Option<(MessageId, FileId)>,
        limit: u32,
    ) -> StoreResult<StrayReferences> {
        self.strays_after(after, limit).await
    }

    async fn blobs_after(&self, after: Option<BlobId>, limit: u32) -> StoreResult<Vec<Blob>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", blob_columns!("b"), " FROM im_blob b WHERE b.blob_id > ? ORDER BY b.blob_id LIMIT ?"
        )));
        let query = query.bind(after.map_or(0, BlobId::get)).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).blob()).collect()
    }

    async fn known_objects(&self, object_keys: &[String]) -> StoreResult<HashSet<String>> {
        let mut known = HashSet::new();
        for part in object_keys.chunks(ROWS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new("SELECT object_key FROM im_blob WHERE object_key IN (");
            let mut list = builder.separated(", ");
            for key in part {
                list.push_bind(key.as_bytes());
            }
            builder.push(")");
            let query = builder.build().persistent(false);
            for row in &bounded(query.fetch_all(&self.pool)).await? {
                known.insert(Columns::<DB>::new(row).key()?);
            }
        }
        Ok(known)
    }
}
}
