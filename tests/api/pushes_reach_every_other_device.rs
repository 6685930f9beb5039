//! What is said reaches every device of every member but the one that said it, in order, once.

use serde_json::{Value, json};

use super::socket::{Socket, send, words};
use super::world::World;

fn kinds(pushes: &[Value]) -> Vec<&str> {
    pushes.iter().map(|push| push["type"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn b41_pipelined_sends_keep_their_order_at_the_sender_and_at_the_receivers() {
    let world = World::start_with(|config| config.server.workers = 2).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut sender = Socket::hello(&world, &ann, "phone").await;
    let mut desk = Socket::hello(&world, &ann, "desk").await;
    let mut peer = Socket::hello(&world, &bob, "phone").await;
    let keys: Vec<String> = (0..300).map(|n| format!("k{n}")).collect();
    for key in &keys {
        sender.post(send(&room, key, key)).await;
    }
    for (n, key) in keys.iter().enumerate() {
        let sent = sender.frame().await.unwrap();
        assert_eq!((&sent["client_message_id"], &sent["seq"]), (&json!(key), &json!(n + 2)));
    }
    assert_eq!(words(&desk.pushed().await), keys);
    assert_eq!(words(&peer.pushed().await), keys);
    assert!(sender.pushed().await.is_empty(), "no echo");
    world.stop().await;
}

#[actix_web::test]
async fn b41_a_row_of_sends_longer_than_what_may_wait_is_read_later_and_not_refused() {
    let world = World::start().await;
    let ann = world.user(1);
    let mut rooms = Vec::new();
    for _ in 0..20 {
        rooms.push(ann.group(&[]).await);
    }
    let mut sender = Socket::hello(&world, &ann, "phone").await;
    for n in 0..3_000 {
        let key = format!("k{n}");
        sender.post(send(&rooms[n % rooms.len()], &key, &key)).await;
    }
    let mut last = std::collections::HashMap::new();
    for _ in 0..3_000 {
        let sent = sender.frame().await.unwrap();
        assert_eq!(sent["type"], "message.sent", "{sent}");
        let key: u64 = sent["client_message_id"].as_str().unwrap()[1..].parse().unwrap();
        let before = last.insert(sent["conversation_id"].clone(), (key, sent["seq"].as_u64().unwrap()));
        let (key_before, seq_before) = before.unwrap_or_default();
        assert!(
            before.is_none() || (key > key_before && sent["seq"].as_u64().unwrap() > seq_before),
            "{sent}"
        );
    }
    world.stop().await;
}

#[actix_web::test]
async fn b43_a_rest_send_spares_the_device_that_it_names() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut phone = Socket::hello(&world, &ann, "phone").await;
    let mut desk = Socket::hello(&world, &ann, "desk").await;
    let mut namesake = Socket::hello(&world, &bob, "phone").await;
    let path = format!("/v1/conversations/{room}/messages");
    let body = json!({"client_message_id": "k", "message_type": "TEXT", "content": {"text": "quiet"}});
    ann.post_as("phone", &path, &body).await.ok(201);
    ann.say(&room, "loud").await;
    assert_eq!(words(&phone.pushed().await), ["loud"]);
    assert_eq!(words(&desk.pushed().await), ["quiet", "loud"]);
    assert_eq!(
        words(&namesake.pushed().await),
        ["quiet", "loud"],
        "another user's device of that name"
    );
    world.stop().await;
}

#[actix_web::test]
async fn b96_b98_members_hear_from_their_joining_to_their_leaving_and_nothing_besides() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let mut peer = Socket::hello(&world, &bob, "phone").await;
    let mut late = Socket::hello(&world, &cy, "phone").await;
    let room = ann.group(&[&bob]).await;
    ann.say(&room, "one").await;
    let members = format!("/v1/conversations/{room}/members");
    ann.post(&members, &json!({"members": [cy.principal]})).await.ok(200);
    ann.say(&room, "two").await;
    ann.delete(&format!("{members}/USER/3")).await.ok(200);
    ann.say(&room, "three").await;
    let pushes = peer.pushed().await;
    assert_eq!(pushes[0]["type"], "conversation.joined");
    assert_eq!(
        words(&pushes),
        [
            "conversation_created",
            "one",
            "member_added",
            "two",
            "member_removed",
            "three"
        ]
    );
    let pushes = late.pushed().await;
    let expected = [
        "conversation.joined",
        "conversation.changed",
        "message.new",
        "message.new",
        "conversation.left",
    ];
    assert_eq!(kinds(&pushes), expected);
    assert_eq!(words(&pushes), ["member_added", "two"]);
    assert_eq!(pushes[0]["conversation"]["me"]["role"], "MEMBER");
    assert_eq!(pushes[0]["conversation"]["me"]["unread_count"], 0);
    assert_eq!(pushes[4]["reason"], "REMOVED");
    world.stop().await;
}

#[actix_web::test]
async fn typing_is_passed_on_once_a_second_and_never_answered() {
    let world = World::start().await;
    let (ann, bob, eve) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&bob]).await;
    let mut phone = Socket::hello(&world, &ann, "phone").await;
    let mut peer = Socket::hello(&world, &bob, "phone").await;
    let mut outsider = Socket::hello(&world, &eve, "phone").await;
    let typing = json!({"type": "typing", "conversation_id": room}).to_string();
    for _ in 0..5 {
        phone.text(&typing).await;
        outsider.text(&typing).await;
    }
    assert!(phone.pushed().await.is_empty() && outsider.pushed().await.is_empty());
    let pushes = peer.pushed().await;
    assert!(matches!(pushes.len(), 1 | 2), "{pushes:?}");
    assert_eq!(pushes[0]["principal"], ann.principal);
    world.stop().await;
}
