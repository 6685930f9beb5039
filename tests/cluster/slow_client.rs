//! Clients that stop reading, fall silent, or come twice.

use std::time::Duration;

use tokio::time::Instant;

use crate::history::{Connection, Copy, History, Posted, Seen};
use crate::support::client::{Client, Login};
use crate::support::database::TestDatabase;
use crate::support::proxy::{Flow, Proxy};
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::workload::{Receiver, heads, make_rooms, read_all};

/// Together they are more than the kernel keeps for a connection (some 70), let alone the server; but few enough that
/// also a busy machine has sent the rest within the ten seconds in which a slow client may read its 4008.
const LARGE_MESSAGES: usize = 100;
const LARGE: usize = 60_000;
const REPLACEMENTS: usize = 100;

/// P10, B82, B87: the others are not affected, and it loses nothing.
#[tokio::test]
async fn a_client_that_stops_reading_is_cut_with_4008_and_loses_nothing() {
    let store = TestDatabase::sqlite();
    let mut server = Server::new(&store.url);
    server.set("ONESCRIBE__LIMITS__OUTBOUND_BYTES", "262144");
    let url = server.start().await;
    let rooms = make_rooms(&url, 1, 4).await;
    let room = &rooms[0];
    let sender = Client::connect(&url, Login::new(1, "sender")).await;
    let stuck = Login {
        receive_buffer: Some(4096),
        ..Login::new(2, "stuck")
    };
    let stuck = Client::connect(&url, stuck).await;
    let mut live = Receiver::new(3, &rooms);
    live.connect(&url).await;

    stuck.stall();
    let mut posted = Vec::new();
    for number in 0..LARGE_MESSAGES {
        let (key, text) = (format!("key {number}"), "x".repeat(LARGE));
        let frame = sender.send(room, &key, &text).await;
        posted.push(Posted {
            frame,
            conversation: room.clone(),
            key,
            text,
        });
        // One at a time: the live receiver is never far behind, so only the stuck one is too slow.
        sender
            .until("the ack of a large message", |log| log.acks > number)
            .await;
    }
    let stored = read_all(&url, &rooms).await;
    live.until(&heads(&stored)).await;
    assert_eq!(
        live.line().with_log(|log| log.closed),
        None,
        "a neighbour of the stuck client was cut"
    );

    stuck.resume();
    assert_eq!(stuck.closed().await, 4008);
    let before = stuck.with_log(|log| Connection::new(2, "stuck", Vec::new(), &log.frames));
    assert!(
        before.pushes().count() < LARGE_MESSAGES,
        "it was pushed everything although it did not read"
    );
    let mut back = Receiver::new(2, &rooms);
    back.connect(&url).await;
    let messages: Vec<Seen> = before.pushes().cloned().chain(back.copy().messages).collect();
    live.leave();
    let sent = sender.with_log(|log| Connection::new(1, "sender", posted, &log.frames));
    let connections = vec![sent, before, live.record[0].clone()];
    let copies = vec![
        Copy {
            name: "stuck".to_owned(),
            messages,
        },
        live.copy(),
    ];
    History {
        connections,
        copies,
        stored,
        ..History::default()
    }
    .assert_kept();
    server.assert_no_panic();
}

/// B90: its packets are lost, but nothing says that it is gone.
#[tokio::test]
async fn b90_a_client_that_falls_silent_is_dropped_within_two_heartbeats() {
    let store = TestDatabase::sqlite();
    let mut server = Server::new(&store.url);
    server.set("ONESCRIBE__SERVER__HEARTBEAT_SECS", "1");
    let url = server.start().await;
    let proxy = Proxy::start(url.trim_start_matches("http://"), b"").await;
    let silent = Client::connect(&format!("http://127.0.0.1:{}", proxy.port()), Login::new(1, "silent")).await;
    let lively = Client::connect(&url, Login::new(1, "lively")).await;
    proxy.set(Flow::ClientMuted);
    let begin = Instant::now();
    silent.closed().await;
    // Two heartbeats, and one for the moment at which the first of them begins; the rest is a slow machine.
    assert!(
        begin.elapsed() < Duration::from_secs(3 + 2),
        "half-open for {:?}",
        begin.elapsed()
    );
    lively.settle().await;
    server.assert_no_panic();
}

/// B93: the newest wins, and the late end of an old connection takes nothing away from it.
#[tokio::test]
async fn b93_a_hundred_connections_of_one_device_replace_each_other() {
    let store = TestDatabase::sqlite();
    let mut server = Server::new(&store.url);
    let url = server.start().await;
    let rooms = make_rooms(&url, 1, 2).await;
    let sender = Rest::new(&url, 1);
    let mut newest = Client::connect(&url, Login::new(2, "phone")).await;
    let mut replaced = Vec::new();
    for number in 0..REPLACEMENTS {
        let next = Client::connect(&url, Login::new(2, "phone")).await;
        assert_eq!(newest.closed().await, 4009, "the old one is told that it was replaced");
        replaced.push(std::mem::replace(&mut newest, next));
        // Every tenth time the old sockets go as well, late.
        if number % 10 == 9 {
            replaced.clear();
        }
        let (status, sent) = sender.send(&rooms[0], &format!("key {number}"), "hello").await.unwrap();
        assert!(status.is_success(), "{sent}");
        newest
            .until("the push to the newest connection", |log| log.pushes > 0)
            .await;
    }
    let last_words = replaced.iter().map(|old| old.with_log(|log| log.pushes)).max();
    assert!(last_words <= Some(1), "an old connection is still pushed to");
    newest.settle().await;
    assert_eq!(newest.with_log(|log| (log.pushes, log.closed)), (1, None));
    server.assert_no_panic();
}
