//! A client that does not read, or is not there any more, loses its connection; nobody else loses anything.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::socket::{Socket, words};
use super::world::World;

/// More than the kernel holds for one connection.
const BURST: usize = 120;

#[actix_web::test]
async fn b87_a_slow_client_is_told_4008_and_the_others_get_everything() {
    let world = World::start_with(|config| config.limits.outbound_bytes = 131_072).await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&bob, &cy]).await;
    let mut slow = Socket::hello(&world, &bob, "phone").await;
    let mut free = Socket::hello(&world, &cy, "phone").await;
    let mut heard = Vec::new();
    for n in 0..BURST {
        ann.say(&room, &format!("{n} {}", "y".repeat(60_000))).await;
        heard.extend(words(&free.pushed().await));
    }
    assert_eq!(heard.len(), BURST);
    let mut seq = 1;
    let code = loop {
        match slow.frame().await {
            Ok(push) => {
                seq += 1;
                assert_eq!(push["message"]["seq"], json!(seq), "what it still got has no hole");
            }
            Err(code) => break code,
        }
    };
    assert_eq!(code, 4008);
    world.stop().await;
}

/// A client that asks for more than fits is read later: it is not taken for one that does not read.
#[actix_web::test]
async fn b87_large_answers_that_are_asked_for_at_once_do_not_cut_whoever_asks() {
    let world = World::start_with(|config| config.limits.outbound_bytes = 1 << 20).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    for n in 0..30 {
        ann.say(&room, &format!("{n} {}", "y".repeat(60_000))).await;
    }
    let mut reader = Socket::hello(&world, &bob, "phone").await;
    let mut asked = Vec::new();
    for n in 0..24 {
        let frame = if n % 3 == 0 {
            json!({"type": "sync", "cursors": []})
        } else {
            json!({"type": "history", "conversation_id": room, "limit": 200})
        };
        asked.push(reader.post(frame).await);
    }
    let ping = reader.post(json!({"type": "ping"})).await;
    asked.push(ping);
    let mut answered = Vec::new();
    while answered.len() < asked.len() {
        let frame = reader.frame().await.expect("it is not cut");
        assert_ne!(frame["type"], "error", "{frame}");
        answered.extend(frame["reply_to"].as_u64());
    }
    answered.sort_unstable();
    assert_eq!(answered, asked);
    world.stop().await;
}

#[actix_web::test]
async fn control_acts_within_a_second_on_a_connection_whose_writer_is_stuck() {
    let world = World::start_with(|config| config.limits.outbound_bytes = 64 << 20).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut stuck = Socket::hello(&world, &bob, "phone").await;
    for n in 0..BURST {
        ann.say(&room, &format!("{n} {}", "y".repeat(60_000))).await;
    }
    let mut new = Socket::hello(&world, &bob, "phone").await;
    new.pushed().await;
    sleep(Duration::from_millis(1_300)).await;
    // What the kernel had taken is still read, then the connection is over: the rest is not waited for.
    let mut read = 0;
    while stuck.frame().await.is_ok() {
        read += 1;
    }
    assert!(read < BURST, "{read} were sent to a replaced connection");
    world.stop().await;
}

#[actix_web::test]
async fn b90_a_silent_connection_is_closed_and_a_living_one_is_not() {
    let world = World::start_with(|config| config.server.heartbeat_secs = 1).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let mut alive = Socket::hello(&world, &ann, "phone").await;
    // Reads nothing, so it answers no ping.
    let mut dead = Socket::hello(&world, &bob, "phone").await;
    let until = Instant::now() + Duration::from_millis(3_500);
    while Instant::now() < until {
        alive.pushed().await;
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(dead.closed().await, 1001);
    alive.pushed().await;
    world.stop().await;
}
