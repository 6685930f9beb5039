//! A client that does not read, or is not there any more, loses its connection; nobody else loses anything.

use std::time::Duration;

use onescribe::config::SecretString;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::socket::{Socket, words};
use super::world::{ADMIN_KEY, World, user_token};

/// More than the kernel holds for one connection.
const BURST: usize = 60;
/// How long a token lasts that ends in the middle of it.
const EXPIRY: Duration = Duration::from_secs(3);

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

/// Whatever is queued, and whichever word it is: replaced, kicked, disabled, expired, and the end of the server.
#[actix_web::test]
async fn control_acts_within_a_second_on_a_connection_whose_writer_is_stuck() {
    let world = World::start_with(|config| {
        config.limits.outbound_bytes = 64 << 20;
        config.admin.api_key = Some(SecretString::from(ADMIN_KEY));
    })
    .await;
    let (ann, bob) = (world.user(1), world.user(2));
    let others = [3, 4, 5, 6].map(|id| world.user(id));
    let room = ann
        .group(&[&[&bob][..], &others.iter().collect::<Vec<_>>()].concat())
        .await;
    let expiring = others[2].with_token(&user_token("5", EXPIRY.as_millis().try_into().unwrap()));
    let begin = Instant::now();
    let callers = [&bob, &others[0], &others[1], &expiring, &others[3]];
    let mut stuck = Vec::new();
    for caller in callers {
        stuck.push(Socket::hello(&world, caller, "phone").await);
    }
    for n in 0..BURST {
        ann.say(&room, &format!("{n} {}", "y".repeat(60_000))).await;
    }
    let mut new = Socket::hello(&world, &bob, "phone").await;
    new.pushed().await;
    others[0].delete("/v1/me/devices/phone").await;
    let disabled = json!({"status": "DISABLED"});
    world.admin().put("/admin/v1/users/4", &disabled).await.ok(200);
    sleep(EXPIRY.saturating_sub(begin.elapsed())).await;
    sleep(Duration::from_millis(1_300)).await;
    let mut last = stuck.pop().unwrap();
    for (at, mut stuck) in stuck.into_iter().enumerate() {
        let read = read_out(&mut stuck).await;
        assert!(read < BURST, "{read} were sent to connection {at} after its end");
    }
    let begin = Instant::now();
    world.stop().await;
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "a stuck client held the shutdown up"
    );
    assert!(read_out(&mut last).await < BURST);
}

/// What the kernel had taken is still read, then the connection is over: the rest is not waited for.
async fn read_out(socket: &mut Socket) -> usize {
    let mut read = 0;
    while socket.frame().await.is_ok() {
        read += 1;
    }
    read
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
