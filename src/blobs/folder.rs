//! What is special about a folder of one's own: it is made, it is nobody else's, and a process that dies leaves
//! unfinished files in it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::BlobError;

/// Makes the folder, readable by its owner alone, as the file of a store is.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}

/// The library writes `NAME#1` beside `NAME` until an object is complete, and lists none of those. A process that dies
/// leaves them for ever.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split_once('#')
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Removes files that were begun and not written to for so long: their writers are dead.
pub(super) async fn remove_leftovers(folder: PathBuf, older_than: Duration) -> Result<(), BlobError> {
    let removing = spawn_blocking(move || remove_below(&folder, 2, older_than));
    let removed = removing
        .await
        .map_err(|error| BlobError::Unavailable(error.to_string()))?;
    removed.map_err(|error| BlobError::Unavailable(error.to_string()))
}

fn remove_below(folder: &Path, levels: u8, older_than: Duration) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, meta) = (entry.path(), entry.metadata()?);
        if meta.is_dir() && levels > 0 {
            remove_below(&path, levels - 1, older_than)?;
        } else if meta.is_file()
            && is_unfinished(&path)
            && meta.modified()?.elapsed().is_ok_and(|age| age >= older_than)
        {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}
