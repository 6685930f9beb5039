//! The folder that an export is written to. It is whole or it has no `messages.jsonl`: that is the last thing to get its
//! name, when all else is on disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Serialize;

/// The lines, under the name by which they are imported.
const LINES: &str = "messages.jsonl";
/// What is not whole yet.
const PART: &str = "part";
/// The folder of the bytes of files.
const FILES: &str = "files";
/// What others can read is what they are given.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const BUFFER_BYTES: usize = 256 * 1024;

/// An export that is being written.
pub(super) struct Folder {
    path: PathBuf,
    lines: BufWriter<File>,
}

/// The bytes of a file on their way in; dropped before its end it leaves nothing under the name.
pub(super) struct Object {
    place: PathBuf,
    part: PathBuf,
    out: BufWriter<File>,
}

impl Folder {
    /// Makes the folder, or takes one that is empty.
    ///
    /// # Errors
    /// When something is in it, or it cannot be written to.
    pub(super) fn begin(path: &Path) -> anyhow::Result<Self> {
        make(path)?;
        let cannot = || format!("cannot use {}", path.display());
        if fs::read_dir(path).with_context(cannot)?.next().is_some() {
            bail!(
                "{} is not empty: name a folder that is not there yet, or remove what an earlier export has left",
                path.display()
            );
        }
        make(&path.join(FILES)).with_context(cannot)?;
        let lines = create(&path.join(LINES).with_added_extension(PART)).with_context(cannot)?;
        Ok(Self {
            path: path.to_owned(),
            lines: BufWriter::with_capacity(BUFFER_BYTES, lines),
        })
    }

    pub(super) fn line(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.lines, line)?;
        Ok(self.lines.write_all(b"\n")?)
    }

    /// Where in the folder the bytes of this fingerprint lie.
    pub(super) fn path_of(sha256: &str) -> String {
        format!("{FILES}/{sha256}")
    }

    /// Are they there, as a whole?
    pub(super) fn has(&self, sha256: &str) -> bool {
        self.path.join(Self::path_of(sha256)).exists()
    }

    pub(super) fn object(&self, sha256: &str) -> io::Result<Object> {
        let place = self.path.join(Self::path_of(sha256));
        let part = place.with_added_extension(PART);
        Ok(Object {
            out: BufWriter::with_capacity(BUFFER_BYTES, create(&part)?),
            place,
            part,
        })
    }

    /// From here on it is whole. Answers where the lines are.
    pub(super) fn finish(self) -> anyhow::Result<PathBuf> {
        sync(self.lines)?;
        let place = self.path.join(LINES);
        File::open(self.path.join(FILES))?.sync_all()?;
        fs::rename(place.with_added_extension(PART), &place)?;
        File::open(&self.path)?.sync_all()?;
        // It may have been made for this; where its folder cannot be read, that is not ours to sync.
        if let Some(Ok(parent)) = self.path.canonicalize()?.parent().map(File::open) {
            parent.sync_all()?;
        }
        Ok(place)
    }
}

impl Object {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// It is there as a whole.
    pub(super) fn keep(self) -> io::Result<()> {
        sync(self.out)?;
        fs::rename(self.part, self.place)
    }

    /// It is not what it should be.
    pub(super) fn discard(self) -> io::Result<()> {
        fs::remove_file(self.part)
    }
}

fn make(path: &Path) -> anyhow::Result<()> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(FOLDER_MODE).create(path);
    made.with_context(|| format!("cannot make the folder {}", path.display()))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

fn sync(out: BufWriter<File>) -> io::Result<()> {
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}
