//! The disk is full under load and has room again (B110).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::history::Answer;
use crate::support::server::Server;
use crate::workload::{Crowd, read_all};

/// A disk with room for little more than an empty store.
const DISK: &str = "size=4m";
/// Turns of the senders while there is no room: enough for what room is left in the files of the store.
const TURNS_MAX: usize = 400;
/// One write of the ballast.
const BLOCK: usize = 4096;

#[tokio::test]
async fn b110_a_full_disk_costs_retryable_errors_and_no_number() {
    match Disk::small() {
        Some(disk) => fill_up(disk, 21).await,
        None => eprintln!("LEFT OUT: a full disk, because a small file system cannot be mounted here"),
    }
}

/// The log cannot be written either: that must not end anything.
#[tokio::test]
async fn b110_nothing_can_be_written_for_a_while_not_even_the_log() {
    fill_up(Disk::limited(), 22).await;
}

async fn fill_up(mut disk: Disk, seed: u64) {
    let mut server = Server::new(&format!("sqlite://{}/store.db", disk.folder().display()));
    disk.prepare(&mut server);
    let url = server.start().await;
    let mut crowd = Crowd::gather(&url, seed, 2, 4, 1).await;
    crowd.connect_senders(&url).await;
    crowd.connect_receivers(&url).await;
    crowd.turn(3).await;

    disk.fill(server.pid());
    let mut turns = 0;
    while crowd.senders.iter().any(|sender| sender.open().next().is_none()) {
        turns += 1;
        assert!(turns < TURNS_MAX, "a full disk does not keep anybody from storing");
        crowd.turn(1).await;
    }
    assert!(!read_all(&url, &crowd.rooms).await.is_empty(), "reads go on");

    disk.make_room(server.pid());
    crowd.settle().await;
    crowd.turn(2).await;
    assert!(server.alive(), "it ended");
    let history = crowd.history(&url).await;
    history.assert_kept();
    let refusals = history.connections.iter().flat_map(|connection| &connection.attempts);
    let refusals = refusals
        .filter(|attempt| matches!(&attempt.answer, Answer::Refused { retryable: true, .. }))
        .count();
    assert!(
        refusals >= 4,
        "every sender met the full disk, but {refusals} were refused"
    );
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

/// A disk that can be filled.
#[derive(Debug)]
enum Disk {
    /// A small file system.
    Mounted(PathBuf),
    /// A usual one, and a limit on the size of all files that the server writes.
    Limited(tempfile::TempDir),
}

impl Disk {
    /// `None` where we may not mount.
    fn small() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK, "none"])
            .arg(folder.path())
            .output();
        mount
            .is_ok_and(|output| output.status.success())
            .then(|| Self::Mounted(folder.keep()))
    }

    fn limited() -> Self {
        Self::Limited(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> &Path {
        match self {
            Self::Mounted(folder) => folder,
            Self::Limited(folder) => folder.path(),
        }
    }

    fn prepare(&self, server: &mut Server) {
        if matches!(self, Self::Limited(_)) {
            // A write beyond the limit shall fail, not end the process.
            server.wrap(&["sh", "-c", r#"trap "" XFSZ; exec "$0" "$@""#]);
        }
    }

    fn fill(&mut self, server: Pid) {
        match self {
            Self::Mounted(folder) => {
                let mut ballast = File::create(folder.join("ballast")).unwrap();
                while ballast.write_all(&[0; BLOCK]).is_ok() {}
            }
            Self::Limited(_) => limit_files(server, Some(1)),
        }
    }

    fn make_room(&mut self, server: Pid) {
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
