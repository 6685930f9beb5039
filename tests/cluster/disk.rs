//! A disk that a test fills.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::server::Server;

/// One write of the ballast.
const BLOCK: usize = 4096;

/// A disk that can be filled.
#[derive(Debug)]
pub(crate) enum Disk {
    /// A small file system.
    Mounted(PathBuf),
    /// A usual one, and a limit on the size of all files that the server writes.
    Limited(tempfile::TempDir),
}

impl Disk {
    /// A small file system of this size; `None` where we may not mount.
    pub(crate) fn small(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(folder.path())
            .output();
        mount
            .is_ok_and(|output| output.status.success())
            .then(|| Self::Mounted(folder.keep()))
    }

    /// A limit on what is written, instead of a disk.
    pub(crate) fn limited() -> Self {
        Self::Limited(tempfile::tempdir().unwrap())
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            Self::Mounted(folder) => folder,
            Self::Limited(folder) => folder.path(),
        }
    }

    /// Before the server starts.
    pub(crate) fn prepare(&self, server: &mut Server) {
        if matches!(self, Self::Limited(_)) {
            // A write beyond the limit shall fail, not end the process.
            server.wrap(&["sh", "-c", r#"trap "" XFSZ; exec "$0" "$@""#]);
        }
    }

    /// Leaves no room.
    pub(crate) fn fill(&mut self, server: Pid) {
        match self {
            Self::Mounted(folder) => {
                let mut ballast = File::create(folder.join("ballast")).unwrap();
                while ballast.write_all(&[0; BLOCK]).is_ok() {}
            }
            Self::Limited(_) => limit_files(server, Some(1)),
        }
    }

    /// There is room again.
    pub(crate) fn make_room(&mut self, server: Pid) {
        match self {
            Self::Mounted(folder) => std::fs::remove_file(folder.join("ballast")).unwrap(),
            Self::Limited(_) => limit_files(server, None),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Self::Mounted(folder) = self {
            // Lazy: the server may still have files open when a test has failed.
            Command::new("umount").arg("--lazy").arg(&*folder).status().ok();
            std::fs::remove_dir(&*folder).ok();
        }
    }
}

fn limit_files(server: Pid, bytes: Option<u64>) {
    prlimit(
        Some(server),
        Resource::Fsize,
        Rlimit {
            current: bytes,
            maximum: None,
        },
    )
    .unwrap();
}
