//! Two processes on one database, which do not know of each other: the fence in the store keeps them apart.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use crate::history::Seen;
use crate::stores::Kind;
use crate::support::server::Server;
use crate::workload::{Crowd, Receiver};

/// The shortest lease that can be configured.
const LEASE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn two_processes_write_one_conversation_without_hole_or_double_on_postgres() {
    side_by_side(Kind::Postgres, 41).await;
}

#[tokio::test]
async fn two_processes_write_one_conversation_without_hole_or_double_on_mysql() {
    side_by_side(Kind::MySql, 42).await;
}

async fn side_by_side(kind: Kind, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut servers = [Server::new(&store.url), Server::new(&store.url)];
    let urls = [servers[0].start().await, servers[1].start().await];
    let mut crowd = Crowd::gather(&urls[0], seed, 2, 8, 2).await;
    spread(&mut crowd, &urls).await;
    for _ in 0..5 {
        crowd.turn(4).await;
    }
    crowd.settle().await;
    let stored = judge(&mut crowd, &urls[1]).await;
    assert_eq!(workers(&stored).len(), 2, "each process has a worker id of its own");
    for server in &mut servers {
        server.assert_store_in_order().await;
        server.assert_no_panic();
        server.kill().await;
    }
}

#[tokio::test]
async fn a_process_that_slept_past_its_lease_gives_no_id_twice_on_postgres() {
    asleep(Kind::Postgres, 43).await;
}

#[tokio::test]
async fn a_process_that_slept_past_its_lease_gives_no_id_twice_on_mysql() {
    asleep(Kind::MySql, 44).await;
}

/// One process is stopped for longer than its lease; another joins and writes the same conversations; then the first
/// goes on.
async fn asleep(kind: Kind, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut servers: [Server; 3] = std::array::from_fn(|_| {
        let mut server = Server::new(&store.url);
        server.set("ONESCRIBE__DATABASE__LEASE_SECS", &LEASE.as_secs().to_string());
        server
    });
    let first_two = [servers[0].start().await, servers[1].start().await];
    let mut crowd = Crowd::gather(&first_two[0], seed, 2, 6, 2).await;
    spread(&mut crowd, &first_two).await;
    crowd.turn(5).await;

    servers[0].freeze();
    // Longer than the lease: its worker id may be given to others now.
    sleep(LEASE + LEASE / 2).await;
    let heir = servers[2].start().await;
    let sleeper = first_two[0].clone();
    for sender in crowd.senders.iter_mut().skip(1).step_by(2) {
        sender.connect(&heir).await;
    }
    let begin = async { join_all(crowd.senders.iter_mut().map(|sender| sender.turn(20))).await };
    let wake = async {
        servers[0].thaw();
    };
    tokio::join!(wake, begin);
    crowd.settle().await;
    let stored = judge(&mut crowd, &sleeper).await;
    assert!(workers(&stored).len() >= 2, "worker ids {:?}", workers(&stored));
    for server in &mut servers {
        server.assert_store_in_order().await;
        server.assert_no_panic();
        server.kill().await;
    }
}

/// Connects every other sender and receiver to each.
async fn spread(crowd: &mut Crowd, urls: &[String]) {
    let senders = crowd.senders.iter_mut().zip(urls.iter().cycle());
    join_all(senders.map(|(sender, url)| sender.connect(url))).await;
    let receivers = crowd.receivers.iter_mut().zip(urls.iter().cycle());
    join_all(receivers.map(|(receiver, url)| receiver.connect(url))).await;
}

/// Receivers are pushed what their own process wrote and read the rest.
async fn judge(crowd: &mut Crowd, url: &str) -> Vec<Seen> {
    join_all(crowd.receivers.iter_mut().map(Receiver::catch_up)).await;
    let mut history = crowd.history(url).await;
    history.pushes_may_lack = true;
    history.assert_kept();
    history.stored
}

/// The worker ids in the message ids: ten bits above the twelve of the counter.
fn workers(stored: &[Seen]) -> BTreeSet<u64> {
    stored
        .iter()
        .map(|seen| (seen.message_id.parse::<u64>().unwrap() >> 12) & 0x3ff)
        .collect()
}
