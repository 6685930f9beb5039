//! B55: between "what came before" and "what comes now" there is neither a hole nor a double, however a device comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::a_device_catches_up::Copy;
use super::socket::Socket;
use super::world::{Caller, World};

/// How often a device comes during steady traffic.
const CONNECTS: usize = 1_000;
/// So many connect at the same time.
const AT_ONCE: usize = 8;

/// One device comes: `welcome`, then sync from (0, 0) with a small page, then what is pushed until the barrier. What sync
/// told up to its `next`, and what was pushed above it, are the whole row.
async fn join(world: &World, caller: &Caller, room: &str, device: &str) {
    let mut socket = Socket::hello(world, caller, device).await;
    let number = |value: &Value| value.as_i64().unwrap();
    let (mut seq, mut change_seq, mut more) = (0, 0, true);
    while more {
        let cursors = json!([{"conversation_id": room, "seq": seq, "change_seq": change_seq}]);
        let page = socket
            .ask(json!({"type": "sync", "device_id": device, "cursors": cursors, "message_limit": 3}))
            .await;
        let entry = &page["conversations"][0];
        assert_eq!(entry["conversation"]["conversation_id"], room, "{page}");
        let next = (number(&entry["next"]["seq"]), number(&entry["next"]["change_seq"]));
        let newest = entry["messages"].as_array().unwrap().last();
        let newest = newest.map_or(seq, |message| number(&message["seq"]));
        assert_eq!(newest, next.0, "the newest message is there: {entry}");
        (seq, change_seq, more) = (next.0, next.1, page["has_more"] == true);
    }
    let pushes = socket.pushed().await;
    let messages: Vec<i64> = pushes
        .iter()
        .filter(|push| push["type"] == "message.new")
        .map(|push| number(&push["message"]["seq"]))
        .collect();
    let changes: Vec<i64> = pushes
        .iter()
        .filter_map(|push| push.get("change"))
        .map(|change| number(&change["change_seq"]))
        .collect();
    for (told, pushed) in [(seq, messages), (change_seq, changes)] {
        assert!(
            pushed.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "each once, in order: {pushed:?}"
        );
        if let Some(first) = pushed.first() {
            assert!(*first <= told + 1, "a hole between {told} and {first}");
        }
    }
}

#[actix_web::test]
async fn b55_a_thousand_connects_during_steady_traffic_join_without_hole_or_double() {
    let world = World::start_with(|config| config.server.workers = 2).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let message = ann.say(&room, "first").await;
    let stop = Arc::new(AtomicBool::new(false));
    let traffic = {
        let (ann, room, stop) = (ann.clone(), room.clone(), Arc::clone(&stop));
        let path = format!("/v1/messages/{}", message["message_id"].as_str().unwrap());
        actix_web::rt::spawn(async move {
            let mut n = 0_u32;
            while !stop.load(Ordering::SeqCst) {
                ann.say(&room, "more").await;
                let body = json!({"content": {"text": format!("edit {n}")}})
                    .to_string()
                    .into_bytes();
                ann.call(reqwest::Method::PATCH, &path, Some(body)).await.ok(200);
                n += 1;
            }
        })
    };
    let comers = (0..AT_ONCE).map(|lane| {
        let (world, bob, room) = (&world, &bob, &room);
        async move {
            for n in 0..CONNECTS / AT_ONCE {
                // Some devices are new, some replace their own earlier connection.
                join(world, bob, room, &format!("device-{lane}-{}", n % 5)).await;
            }
        }
    });
    futures_util::future::join_all(comers).await;
    stop.store(true, Ordering::SeqCst);
    traffic.await.unwrap();
    world.stop().await;
}

#[actix_web::test]
async fn b44_the_answers_of_a_client_that_syncs_in_a_loop_while_50_write_are_the_history() {
    const WRITERS: u64 = 50;
    const SAID: usize = 12;
    let world = World::start_with(|config| config.server.workers = 2).await;
    let reader = world.user(1);
    let writers: Vec<Caller> = (2..2 + WRITERS).map(|id| world.user(id)).collect();
    let room = reader.group(&writers.iter().collect::<Vec<_>>()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let write = writers.iter().map(|writer| {
        let room = &room;
        async move {
            for n in 0..SAID {
                let message = writer.say(room, "x").await;
                let path = format!("/v1/messages/{}", message["message_id"].as_str().unwrap());
                match n % 4 {
                    1 => {
                        let body = json!({"content": {"text": "edited"}}).to_string().into_bytes();
                        writer.call(reqwest::Method::PATCH, &path, Some(body)).await.ok(200);
                    }
                    3 => drop(writer.post(&format!("{path}/recall"), &json!({})).await.ok(200)),
                    _ => {}
                }
            }
        }
    });
    let mut copy = Copy::default();
    let read = async {
        let mut last = false;
        loop {
            let page = reader.post("/v1/sync", &copy.ask(7, 100)).await.ok(200);
            if !copy.take(&page) && last {
                return;
            }
            last = stop.load(Ordering::SeqCst);
        }
    };
    let written = async {
        futures_util::future::join_all(write).await;
        stop.store(true, Ordering::SeqCst);
    };
    futures_util::future::join(read, written).await;
    let count = |n: usize| (1..=i64::try_from(n).unwrap()).collect::<Vec<_>>();
    let all = usize::try_from(WRITERS).unwrap() * SAID;
    assert_eq!(
        copy.filled(&reader, &room).await,
        count(all + 1),
        "each message exactly once"
    );
    assert_eq!(
        copy.changes[&room],
        count(all / 2),
        "each change exactly once, in order"
    );
    world.stop().await;
}
