//! INV-IDEM-1: one key has one message for ever, and every answer about it is the same.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::world::World;

fn identity(message: &Value) -> (Value, Value, Value) {
    (
        message["message_id"].clone(),
        message["seq"].clone(),
        message["sent_at"].clone(),
    )
}

#[actix_web::test]
async fn b24_resend_returns_the_first_ack() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let first = ann.send(&room, "k", "pay").await.ok(201);
    assert_eq!(first["duplicate"], false);
    for _ in 0..3 {
        let again = ann.send(&room, "k", "pay").await.ok(200);
        assert_eq!(again["duplicate"], true);
        assert_eq!(identity(&again["message"]), identity(&first["message"]));
    }
    assert_eq!(bob.page(&room, "").await, (vec![1, 2], false));
    world.stop().await;
}

#[actix_web::test]
async fn b24_fifty_repeats_at_once_make_one_message() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    let replies = join_all((0..50).map(|_| ann.send(&room, "storm", "once"))).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    let first = identity(&replies[0].body()["message"]);
    assert!(replies.iter().all(|reply| identity(&reply.body()["message"]) == first));
    assert_eq!(ann.page(&room, "").await, (vec![1, 2], false));
    world.stop().await;
}

#[actix_web::test]
async fn b27_the_same_key_for_another_payload_is_a_conflict_that_shows_the_first() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    let first = ann.send(&room, "k", "one").await.ok(201)["message"].clone();
    let messages = format!("/v1/conversations/{room}/messages");
    let good = json!({"client_message_id": "k", "message_type": "TEXT", "content": {"text": "one"}});
    for (field, value) in [
        ("content", json!({"text": "two"})),
        ("message_type", json!("NOTE")),
        ("quoted_message_id", first["message_id"].clone()),
        ("quoted_message_id", json!("1")),
    ] {
        let mut other = good.clone();
        other[field] = value;
        let refusal = ann.post(&messages, &other).await.refused("idempotency_key_reused");
        assert_eq!(refusal["original"], first);
    }
    assert_eq!(ann.page(&room, "").await.0, [1, 2]);
    world.stop().await;
}

#[actix_web::test]
async fn b26_b29_a_key_belongs_to_its_sender_and_conversation() {
    let world = World::start().await;
    let (ann, bob, agent) = (world.user(1), world.user(2), world.agent(1));
    let (one, two) = (ann.group(&[&bob, &agent]).await, ann.group(&[&bob]).await);
    let mut ids = Vec::new();
    for (who, room) in [(&ann, &one), (&bob, &one), (&agent, &one), (&ann, &two)] {
        ids.push(who.send(room, "0", "same").await.ok(201)["message"]["message_id"].to_string());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    world.stop().await;
}

#[actix_web::test]
async fn b31_keys_are_compared_byte_for_byte() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    let keys = [
        "abc",
        "ABC",
        "abc ",
        " abc",
        "äbc",
        "a\u{308}bc",
        "ａbc",
        "👍",
        "🎉",
        "ß",
        "ss",
        "i",
        "ı",
        "%",
        "_",
        "\\",
        "'; --",
    ];
    for key in keys {
        assert_eq!(
            ann.send(&room, key, "same").await.ok(201)["message"]["client_message_id"],
            key
        );
    }
    for key in keys {
        ann.send(&room, key, "same").await.ok(200);
    }
    world.stop().await;
}

#[actix_web::test]
async fn a_repeat_wins_over_the_removal_of_its_sender() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let first = bob.send(&room, "k", "words").await.ok(201)["message"].clone();
    ann.delete(&format!("/v1/conversations/{room}/members/USER/2"))
        .await
        .ok(200);
    assert_eq!(bob.send(&room, "k", "words").await.ok(200)["message"], first);
    bob.send(&room, "k", "other").await.refused("idempotency_key_reused");
    bob.send(&room, "new", "words").await.refused("not_a_member");
    world.stop().await;
}

#[actix_web::test]
async fn the_same_payload_is_the_same_compact_content() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    let messages = format!("/v1/conversations/{room}/messages");
    let body =
        |content: &str| format!("{{\"client_message_id\":\"K\",\"message_type\":\"NOTE\",\"content\":{content}}}");
    let first = ann
        .post_raw(&messages, body("{ \"a\" : [ 1, 2.50 ] ,\n\t\"text\": \"x y\" }"))
        .await;
    first.ok(201);
    assert!(
        first.text.contains("\"content\":{\"a\":[1,2.50],\"text\":\"x y\"}"),
        "{}",
        first.text
    );
    ann.post_raw(&messages, body("{\"a\":[1,2.50],\"te\\u0078t\":\"x y\"}"))
        .await
        .ok(200);
    for other in [
        "{\"text\":\"x y\",\"a\":[1,2.50]}",
        "{\"a\":[1,2.5],\"text\":\"x y\"}",
        "{\"a\":[1,2.50],\"text\":\"x  y\"}",
    ] {
        ann.post_raw(&messages, body(other))
            .await
            .refused("idempotency_key_reused");
    }
    world.stop().await;
}
