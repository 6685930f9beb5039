//! `kill -9` in mid-flight, again and again.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::stores::Kind;
use crate::support::server::Server;
use crate::workload::Crowd;

const SENDERS: u64 = 20;
const RECEIVERS: u64 = 4;
const ROOMS: usize = 4;
/// New messages of each sender in a round.
const MESSAGES: usize = 12;

#[tokio::test]
async fn thirty_kills_lose_and_double_nothing_on_sqlite() {
    rounds(Kind::Sqlite, 30, 1).await;
}

#[tokio::test]
async fn ten_kills_lose_and_double_nothing_on_postgres() {
    rounds(Kind::Postgres, 10, 2).await;
}

#[tokio::test]
async fn ten_kills_lose_and_double_nothing_on_mysql() {
    rounds(Kind::MySql, 10, 3).await;
}

/// P1–P6 over `count` kills, each when a seeded number of answers has come to one of the senders: the others are
/// anywhere between. What was not acked is sent again with the same key in the next round, and so is some of what was.
async fn rounds(kind: Kind, count: usize, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut server = Server::new(&store.url);
    let url = server.start().await;
    let mut crowd = Crowd::gather(&url, seed, ROOMS, SENDERS, RECEIVERS).await;
    let mut kills_in_flight = 0;
    for _ in 0..count {
        let url = server.url().to_owned();
        crowd.connect_senders(&url).await;
        crowd.connect_receivers(&url).await;
        let (witness, acks) = (rng.random_range(0..crowd.senders.len()), rng.random_range(0..MESSAGES));
        let witness = crowd.senders[witness].line().watch();
        let kill = async {
            let mut witness = witness;
            witness.wait_for(|log| log.acks >= acks).await.map(drop).ok();
            server.kill().await;
        };
        tokio::join!(crowd.turn(MESSAGES), kill);
        kills_in_flight += usize::from(crowd.senders.iter().any(|sender| sender.open().next().is_some()));
        server.start().await;
    }
    let url = server.url().to_owned();
    crowd.connect_senders(&url).await;
    crowd.connect_receivers(&url).await;
    crowd.settle().await;
    crowd.history(&url).await.assert_kept();
    server.assert_store_in_order().await;
    server.assert_no_panic();
    assert!(
        kills_in_flight * 2 > count,
        "only {kills_in_flight} of {count} kills met a send in flight"
    );
}
