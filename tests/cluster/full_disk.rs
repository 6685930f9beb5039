//! The disk is full under load and has room again (B110).

use crate::disk::Disk;
use crate::history::Answer;
use crate::support::server::Server;
use crate::workload::{Crowd, read_all};

/// Room for little more than an empty store.
const DISK: &str = "4m";
/// Turns of the senders while there is no room: enough for what room is left in the files of the store.
const TURNS_MAX: usize = 400;

#[tokio::test]
async fn b110_a_full_disk_costs_retryable_errors_and_no_number() {
    match Disk::small(DISK) {
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
