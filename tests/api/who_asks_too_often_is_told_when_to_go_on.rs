//! Rate limits: nothing is done and no number is used, both doors count together, and what is refused says for how long.

use std::time::Duration;

use onescribe::config::SecretString;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::socket::{Socket, send};
use super::world::{ADMIN_KEY, Caller, Reply, World};

/// Few, so that a test meets the limit soon; and slow, so that a slow machine does, too.
const BURST: u32 = 5;

async fn strict() -> World {
    World::start_with(|config| {
        (config.limits.requests_per_second, config.limits.requests_burst) = (1, BURST);
        config.admin.api_key = Some(SecretString::from(ADMIN_KEY));
    })
    .await
}

/// Lists conversations until that is refused.
async fn exhaust(caller: &Caller) -> Reply {
    for _ in 0..BURST * 10 {
        let reply = caller.get("/v1/conversations").await;
        if reply.status != 200 {
            return reply;
        }
    }
    panic!("{BURST} at once and one a second, and nothing was refused");
}

/// Asks with several frames at once: before the last of them no allowance can have come back.
async fn refused(socket: &mut Socket, frame: &Value) -> Value {
    for _ in 0..BURST * 10 {
        let answer = socket.ask(frame.clone()).await;
        if answer["type"] == "error" {
            return answer;
        }
    }
    panic!("no {} was refused", frame["type"]);
}

#[actix_web::test]
async fn what_is_refused_is_not_stored_and_uses_no_number() {
    let world = strict().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let sends = (0..20).map(|n| {
        let (ann, room) = (ann.clone(), room.clone());
        async move { ann.send(&room, &format!("key {n}"), "hello").await }
    });
    let replies = futures_util::future::join_all(sends).await;
    let (stored, refused): (Vec<&Reply>, Vec<&Reply>) = replies.iter().partition(|reply| reply.status == 201);
    assert!(!refused.is_empty());
    for reply in &refused {
        let body = reply.refused("rate_limited");
        let after: u64 = reply.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!(after >= 1 && body["retry_after_ms"].as_u64().unwrap() >= 1, "{body}");
        assert!(
            body["detail"].as_str().unwrap().contains("limits.requests_per_second"),
            "{body}"
        );
    }
    let told = bob.send(&room, "his own", "he is not held back").await.ok(201);
    let seqs: Vec<u64> = stored
        .iter()
        .map(|reply| reply.body()["message"]["seq"].as_u64().unwrap())
        .collect();
    let last = told["message"]["seq"].as_u64().unwrap();
    assert!(
        seqs.iter().all(|seq| *seq < last) && u64::try_from(seqs.len()).unwrap() == last - 2,
        "{seqs:?} {last}"
    );
    world.stop().await;
}

#[actix_web::test]
async fn both_doors_count_together_and_who_waits_as_told_goes_on() {
    let world = strict().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = bob.group(&[&ann]).await;
    let mut socket = Socket::hello(&world, &ann, "phone").await;
    exhaust(&ann).await.refused("rate_limited");
    let refusal = refused(&mut socket, &send(&room, "key", "hello")).await;
    assert_eq!(
        (&refusal["code"], &refusal["retryable"]),
        (&json!("rate_limited"), &json!(true))
    );
    // What keeps her client in order is not held back …
    socket.pushed().await;
    assert_eq!(
        socket.ask(json!({"type": "auth", "token": ann.token})).await["type"],
        "ok"
    );
    let acks = json!({"type": "message.ack", "acks": [{"conversation_id": room, "seq": 1}]});
    assert_eq!(socket.ask(acks).await["type"], "ok");
    // … and when it is over she goes on.
    sleep(Duration::from_millis(refusal["retry_after_ms"].as_u64().unwrap())).await;
    assert_eq!(socket.send(&room, "key", "hello").await["type"], "message.sent");
    world.stop().await;
}

#[actix_web::test]
async fn typing_is_shed_in_silence_and_pings_are_refused_with_a_hint() {
    let world = strict().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut socket = Socket::hello(&world, &bob, "phone").await;
    for _ in 0..BURST * 3 {
        socket
            .text(&json!({"type": "typing", "conversation_id": room}).to_string())
            .await;
    }
    let refusal = refused(&mut socket, &json!({"type": "ping"})).await;
    assert_eq!(
        refusal["code"], "rate_limited",
        "and nothing but answers to pings came: {refusal}"
    );
    assert!(refusal["retry_after_ms"].as_u64().unwrap() >= 1);
    world.stop().await;
}

#[actix_web::test]
async fn b86_who_floods_is_not_read_until_it_may_ask_again_and_control_still_acts() {
    let world = strict().await;
    let ann = world.user(1);
    let mut flood = Socket::hello(&world, &ann, "phone").await;
    for _ in 0..1_000 {
        flood.post(json!({"type": "nonsense"})).await;
    }
    let (mut answers, until) = (0, Instant::now() + Duration::from_millis(700));
    while let Ok(answer) = timeout(until.saturating_duration_since(Instant::now()), flood.frame()).await {
        assert!(answer.is_ok(), "refusals by the limit are no violations: {answer:?}");
        answers += 1;
    }
    assert!(answers < 300, "{answers} answers to a flood in less than a second");
    let kicked = Instant::now();
    let admin = world.admin();
    admin
        .put("/admin/v1/users/1", &json!({"status": "DISABLED"}))
        .await
        .ok(200);
    assert_eq!(flood.closed().await, 4010);
    assert!(kicked.elapsed() < Duration::from_secs(3), "{:?}", kicked.elapsed());
    world.stop().await;
}

/// A GET of the WebSocket's path that is no handshake: 400 where it is let in, 429 where not.
async fn knock(world: &World, forwarded_for: &str) -> Reply {
    let request = world.http.request(Method::GET, format!("{}/v1/ws", world.url));
    Reply::of(
        request.header("x-forwarded-for", forwarded_for),
        "GET /v1/ws".to_owned(),
    )
    .await
}

#[actix_web::test]
async fn too_many_connections_of_one_address_are_refused_and_requests_are_not() {
    let world = World::start_with(|config| {
        (config.limits.connects_per_second, config.limits.connects_burst) = (1, 3);
    })
    .await;
    let mut let_in = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        match Socket::open_with(&world, None).await {
            Ok(socket) => let_in.push(socket),
            Err(429) => refused += 1,
            Err(status) => panic!("{status}"),
        }
    }
    assert!(
        let_in.len() >= 3 && refused > 0,
        "{} let in, {refused} refused",
        let_in.len()
    );
    // The address is the connection's, whatever a stranger says.
    let mut last = knock(&world, "198.51.100.1").await;
    for n in 2..12 {
        if last.status == 429 {
            break;
        }
        last = knock(&world, &format!("198.51.100.{n}")).await;
    }
    last.refused("rate_limited");
    assert!(last.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    world.user(1).get("/v1/conversations").await.ok(200);
    for _ in 0..20 {
        world
            .user(1)
            .with_token("bad")
            .get("/v1/conversations")
            .await
            .refused("unauthenticated");
    }
    world.stop().await;
}

#[actix_web::test]
async fn behind_a_proxy_of_our_own_every_client_has_its_own_allowance() {
    let world = World::start_with(|config| {
        (config.limits.connects_per_second, config.limits.connects_burst) = (1, 2);
        config.server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    for n in 1..20 {
        knock(&world, &format!("203.0.113.5, 198.51.100.{n}"))
            .await
            .refused("invalid_request");
    }
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(knock(&world, "198.51.100.77").await.status);
    }
    assert!(statuses.contains(&400) && statuses.contains(&429), "{statuses:?}");
    world.stop().await;
}
