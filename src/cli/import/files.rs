//! The files of lines: found beside them and nowhere else, and uploaded like those of anybody.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::time::sleep;

use super::line::{Attached, Uploaded};
use super::survey::Place;
use super::{Importer, PAUSE, TRIES_MAX};
use crate::app::{Announced, Files, ServiceError};
use crate::domain::{Code, Principal};

/// What is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// What became of the files of a line.
pub(super) enum Uploads {
    /// All are there, in order.
    Done(Vec<Uploaded>),
    /// The line cannot be had with them, and why.
    Refused(String),
    /// Somebody has asked to stop.
    Stopped,
}

/// Where files may lie.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// That of a file of lines.
    pub(super) fn of(lines: &Path) -> io::Result<Self> {
        let lines = lines.canonicalize()?;
        Ok(Self(lines.parent().map(Path::to_path_buf).unwrap_or(lines)))
    }

    /// Opens a file inside; the message says which and what to do. Whoever made the folder may be hostile: neither a
    /// link that leads out of it nor something that is no file, like a pipe that nobody writes to, is opened.
    fn open(&self, path: &Path, bytes_max: u64) -> Result<File, String> {
        let shown = shown(path);
        let cannot = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                let folder = self.0.display();
                format!("the file {shown} is missing in {folder}; put it there and import again")
            }
            _ => format!("the file {shown} cannot be read ({error}); mend that and import again"),
        };
        let place = self.0.join(path).canonicalize().map_err(cannot)?;
        if !place.starts_with(&self.0) {
            let what = "leads out of the folder of the lines; copy what it names into the folder and import again";
            return Err(format!("the file {shown} {what}"));
        }
        // Before it is opened: a pipe would wait for its other end.
        let found = place.metadata().map_err(cannot)?;
        if !found.is_file() {
            return Err(format!("{shown} is no file; put one there and import again"));
        }
        if found.len() > bytes_max {
            return Err(format!(
                "the file {shown} has {} bytes, and limits.upload_bytes is {bytes_max}; raise that and import again",
                found.len()
            ));
        }
        File::open(&place).map_err(cannot)
    }
}

impl Importer<'_> {
    /// Uploads the files of a line for its author; nothing is uploaded unless all can be opened.
    pub(super) async fn upload(
        &self,
        author: Principal,
        place: Place,
        attached: &[Attached],
    ) -> anyhow::Result<Uploads> {
        let files = self.files.context("there are files that the first pass has not seen")?;
        for file in attached {
            if let Err(why) = self.folder.open(&file.path, files.bytes_max()) {
                return Ok(Uploads::Refused(why));
            }
        }
        let mut uploaded = Vec::with_capacity(attached.len());
        for file in attached {
            let mut tries = 0;
            let done = loop {
                let error = match self.upload_one(files, author, file).await {
                    Ok(done) => break done,
                    Err(error) => error,
                };
                tries += 1;
                if !error.code.retryable() {
                    let why = format!("the file {} was not taken: {error}", shown(&file.path));
                    return Ok(Uploads::Refused(why));
                }
                if self.stopped() {
                    return Ok(Uploads::Stopped);
                }
                if tries == TRIES_MAX {
                    bail!(
                        "the files of line {} could not be stored for a minute ({error}); see that the database and the \
                         store of files are up and have room, then run the same command again",
                        place.number
                    );
                }
                sleep(PAUSE).await;
            };
            uploaded.push(done);
        }
        Ok(Uploads::Done(uploaded))
    }

    async fn upload_one(&self, files: &Files, author: Principal, file: &Attached) -> Result<Uploaded, ServiceError> {
        let opened = self.folder.open(&file.path, files.bytes_max());
        let opened = opened.map_err(|why| ServiceError::new(Code::NotFound, why))?;
        let announced = Announced {
            name: file.name.clone(),
            media_type: file.media_type.clone(),
        };
        let seat = files.seat(author)?;
        let done = files.upload(seat, author, announced, chunks(opened)).await?;
        Ok(Uploaded {
            file_id: done.file_id,
            name: done.name,
            media_type: done.media_type,
            size_bytes: done.blob.size_bytes,
        })
    }
}

/// A path in a message: what would turn or hide what is around it is spelled out.
fn shown(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}

/// The bytes of a file, read no faster than they are taken.
fn chunks(file: File) -> impl Stream<Item = Result<Bytes, ServiceError>> {
    stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = file.read(&mut chunk).map_err(|error| {
            let detail = format!("it cannot be read to its end ({error})");
            ServiceError::new(Code::InvalidRequest, detail)
        })?;
        chunk.truncate(read);
        Ok((read > 0).then(|| (Bytes::from(chunk), file)))
    })
}
