//! The bytes of files: each once, under its fingerprint, and only those that have it.

use std::collections::HashMap;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use super::Export;
use super::folder::Folder;
use super::line::FileLine;
use crate::blobs::{BlobError, ObjectKey};
use crate::domain::{Blob, Digest, File, FileId, Message};

impl Export<'_> {
    /// Brings the files of a message into the folder. Those that are lost are named, and their place is kept.
    pub(super) async fn files(&mut self, message: &Message) -> anyhow::Result<Vec<FileLine>> {
        let ids = message.content.files();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.store.files(&ids).await?;
        let rows: HashMap<FileId, File> = rows.into_iter().map(|file| (file.file_id, file)).collect();
        let mut lines = Vec::with_capacity(ids.len());
        for id in ids {
            let of = format!("file {id} of message {}", message.message_id);
            let found = rows.get(&id).and_then(|file| Some((file, file.blob.sha256?)));
            let Some((file, sha256)) = found else {
                self.tally.lost(format!(
                    "{of}: nothing is known of it; an import will skip this message"
                ));
                continue;
            };
            let hex = sha256.hex();
            let path = Folder::path_of(hex.as_str());
            if !self.folder.has(hex.as_str()) {
                if self.fetch(&file.blob, sha256).await.with_context(|| of.clone())? {
                    self.tally.files += 1;
                } else {
                    let what = format!(
                        "{of} ({:?}): its bytes are lost; an import skips this message",
                        file.name
                    );
                    self.tally.lost(format!("{what} unless you put them at {path}"));
                }
            }
            lines.push(FileLine::new(file, path));
        }
        Ok(lines)
    }

    /// Brings one object in; `false` = it is not there, or is not what was uploaded.
    async fn fetch(&self, blob: &Blob, sha256: Digest) -> anyhow::Result<bool> {
        let blobs = self.blobs.as_deref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let Some(key) = ObjectKey::parse(&blob.object_key) else {
            return Ok(false);
        };
        match blobs.size_bytes(&key).await {
            Ok(size_bytes) if size_bytes == blob.size_bytes => {}
            Ok(_) | Err(BlobError::Missing(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let mut object = self.folder.object(sha256.hex().as_str())?;
        let mut hash = Sha256::new();
        let mut chunks = blobs.read(&key, 0..blob.size_bytes).await?;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            hash.update(&chunk);
            object.write(&chunk)?;
        }
        if Digest::new(hash.finalize().into()) == sha256 {
            object.keep()?;
            return Ok(true);
        }
        object.discard()?;
        Ok(false)
    }
}
