//! Hello: who is let in, who is turned away, who is replaced, and when the door closes again.

use serde_json::json;

use super::socket::Socket;
use super::world::{World, user_token};

#[actix_web::test]
async fn a_welcome_says_what_a_client_needs() {
    let world = World::start().await;
    let ann = world.user(1);
    let mut socket = Socket::open(&world).await;
    let welcome = socket
        .ask(json!({"type": "hello", "token": ann.token, "device_id": "phone", "platform": "web"}))
        .await;
    assert_eq!(welcome["principal"], ann.principal);
    assert_eq!(welcome["device_id"], "phone");
    for field in ["session_id", "server_time", "store_epoch"] {
        assert!(welcome[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    for limit in ["content_bytes", "frame_bytes", "acks_per_frame", "recall_window_secs"] {
        assert!(
            welcome["limits"][limit].as_u64().is_some_and(|number| number > 0),
            "{limit}"
        );
    }
    world.stop().await;
}

#[actix_web::test]
async fn b94_whoever_does_not_say_a_good_hello_first_is_turned_away_with_4001() {
    let world = World::start_with(|config| config.server.hello_timeout_secs = 1).await;
    let token = world.user(1).token;
    let hello =
        |token: &str, device: &str| json!({"id": 1, "type": "hello", "token": token, "device_id": device}).to_string();
    let expired = user_token("1", -60_000);
    for (first, code) in [
        (hello("garbage", "d"), "unauthenticated"),
        (hello("", "d"), "unauthenticated"),
        (hello(&expired, "d"), "unauthenticated"),
        (hello(&token, "has space"), "invalid_request"),
        (hello(&token, ""), "invalid_request"),
        (
            json!({"id": 1, "type": "hello", "device_id": "d"}).to_string(),
            "unauthenticated",
        ),
        (json!({"id": 1, "type": "ping"}).to_string(), "unauthenticated"),
        (json!({"id": 1, "type": "sync"}).to_string(), "unauthenticated"),
    ] {
        let mut socket = Socket::open(&world).await;
        let error = socket.answer(&first).await;
        assert_eq!(
            (&error["code"], &error["reply_to"]),
            (&json!(code), &json!(1)),
            "{first}"
        );
        assert_eq!(socket.closed().await, 4001, "{first}");
    }
    let mut socket = Socket::open(&world).await;
    assert_eq!(socket.answer("not json").await["reply_to"], json!(null));
    assert_eq!(socket.closed().await, 4001);
    assert_eq!(Socket::open(&world).await.closed().await, 4001, "silence");
    world.stop().await;
}

#[actix_web::test]
async fn a_bearer_header_at_the_upgrade_replaces_the_token_and_a_bad_one_is_401() {
    let world = World::start().await;
    let ann = world.user(1);
    let mut socket = Socket::open_with(&world, Some(&ann.token)).await.unwrap();
    let welcome = socket.ask(json!({"type": "hello", "device_id": "phone"})).await;
    assert_eq!(welcome["principal"], ann.principal);
    assert_eq!(Socket::open_with(&world, Some("garbage")).await.err(), Some(401));
    world.stop().await;
}

#[actix_web::test]
async fn b93_the_newest_connection_of_a_device_wins_and_goes_on_alone() {
    let world = World::start_with(|config| config.server.workers = 2).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut old = Socket::hello(&world, &bob, "phone").await;
    let mut desk = Socket::hello(&world, &bob, "desk").await;
    for n in 0..10 {
        let mut new = Socket::hello(&world, &bob, "phone").await;
        assert_eq!(old.closed().await, 4009);
        ann.say(&room, &n.to_string()).await;
        assert_eq!(super::socket::words(&new.pushed().await), [n.to_string()]);
        old = new;
    }
    assert_eq!(desk.pushed().await.len(), 10, "another device is not replaced");
    world.stop().await;
}

#[actix_web::test]
async fn b92_an_expired_token_ends_the_connection_unless_it_is_renewed() {
    let world = World::start().await;
    let ann = world.user(1);
    let (mut short, mut renewed) = (Socket::open(&world).await, Socket::open(&world).await);
    for (socket, device) in [(&mut short, "short"), (&mut renewed, "renewed")] {
        let hello = json!({"type": "hello", "token": user_token("1", 1_500), "device_id": device});
        assert_eq!(socket.ask(hello).await["type"], "welcome");
    }
    assert_eq!(
        renewed.ask(json!({"type": "auth", "token": ann.token})).await["type"],
        "ok"
    );
    assert_eq!(short.closed().await, 4003);
    let other = renewed.ask(json!({"type": "auth", "token": world.user(2).token})).await;
    assert_eq!(other["code"], "forbidden");
    assert_eq!(
        renewed.ask(json!({"type": "auth", "token": "garbage"})).await["code"],
        "unauthenticated"
    );
    assert!(renewed.pushed().await.is_empty(), "and the connection goes on");
    world.stop().await;
}

#[actix_web::test]
async fn b18_a_stop_says_bye_and_closes_with_1012() {
    let world = World::start().await;
    let mut socket = Socket::hello(&world, &world.user(1), "phone").await;
    let ((), bye) = tokio::join!(world.stop(), async {
        let bye = socket.frame().await.unwrap();
        assert_eq!(socket.closed().await, 1012);
        bye
    });
    assert_eq!(bye["type"], "bye");
    assert!(bye["reconnect_after_ms"].as_u64().is_some_and(|wait| wait > 0));
}
