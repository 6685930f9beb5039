//! Reactions and pins are changes that everybody sees, each with their own eyes; a message is sent on like any other.

use serde_json::{Value, json};

use super::socket::{Socket, words};
use super::world::{Caller, World, id_of};

const THUMB: &str = "%F0%9F%91%8D";
const BROWN_THUMB: &str = "%F0%9F%91%8D%F0%9F%8F%BD";

async fn room_with(ann: &Caller, bob: &Caller) -> (String, Value, String) {
    let room = ann.group(&[bob]).await;
    let message = ann.say(&room, "words").await;
    let path = format!("/v1/messages/{}", id_of(&message, "message_id"));
    (room, message, path)
}

/// The reactions of a message on the wire, in short.
fn shown(message: &Value) -> Vec<(String, u64, bool)> {
    let reactions = message["reactions"].as_array().unwrap().iter();
    let short = |reaction: &Value| {
        let emoji = reaction["emoji"].as_str().unwrap().to_owned();
        (
            emoji,
            reaction["count"].as_u64().unwrap(),
            reaction["me"].as_bool().unwrap(),
        )
    };
    reactions.map(short).collect()
}

fn one(emoji: &str, count: u64, me: bool) -> Vec<(String, u64, bool)> {
    vec![(emoji.to_owned(), count, me)]
}

#[actix_web::test]
async fn b103_reactions_are_counted_byte_for_byte_on_every_way_out() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let (room, sent, path) = room_with(&ann, &bob).await;
    for _ in 0..2 {
        let reply = bob.set(&format!("{path}/reactions/{THUMB}")).await.ok(200);
        assert_eq!(shown(&reply["message"]), one("👍", 1, true));
    }
    bob.set(&format!("{path}/reactions/{BROWN_THUMB}")).await.ok(200);
    let reply = bob.delete(&format!("{path}/reactions/{THUMB}")).await.ok(200);
    let payload = json!({"emoji": "👍", "principal": bob.principal, "added": false});
    assert_eq!(
        (&reply["change"]["change_type"], &reply["change"]["payload"]),
        (&json!("REACTION"), &payload)
    );
    assert_eq!(reply["change"]["change_seq"], reply["message"]["change_seq"]);
    let again = bob.delete(&format!("{path}/reactions/{THUMB}")).await.ok(200);
    assert_eq!(
        (&again["change"], shown(&again["message"])),
        (&Value::Null, one("👍🏽", 1, true))
    );
    let key = sent["client_message_id"].as_str().unwrap();
    let mut device = Socket::hello(&world, &ann, "phone").await;
    let pages = [
        ann.get(&path).await.ok(200),
        ann.get(&format!("/v1/conversations/{room}/messages?limit=1"))
            .await
            .ok(200)["items"][0]
            .clone(),
        ann.get(&format!("/v1/conversations/{room}")).await.ok(200)["last_message"].clone(),
        ann.get("/v1/conversations").await.ok(200)["items"][0]["last_message"].clone(),
        ann.send(&room, key, "words").await.ok(200)["message"].clone(),
        ann.send(&room, key, "other words")
            .await
            .refused("idempotency_key_reused")["original"]
            .clone(),
        device.send(&room, key, "other words").await["original"].clone(),
        device.ask(json!({"type": "history", "conversation_id": room})).await["items"][1].clone(),
    ];
    for (at, message) in pages.iter().enumerate() {
        assert_eq!(
            (shown(message), &message["change_seq"]),
            (one("👍🏽", 1, false), &json!(3)),
            "{at}"
        );
    }
    let edited = ann.post_raw(&format!("{path}/recall"), "").await.ok(200);
    assert!(shown(&edited["message"]).is_empty());
    bob.set(&format!("{path}/reactions/{THUMB}"))
        .await
        .refused("message_recalled");
    world.stop().await;
}

#[actix_web::test]
async fn an_emoji_that_is_none_changes_nothing() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let (room, _, path) = room_with(&ann, &bob).await;
    for bad in ["%00", "%FF", "%F0%9F", "a%0Ab", &"x".repeat(65)] {
        let refusal = ann
            .set(&format!("{path}/reactions/{bad}"))
            .await
            .refused("invalid_request");
        assert!(refusal["detail"].as_str().unwrap().starts_with("emoji"), "{refusal}");
    }
    let slash = ann.set(&format!("{path}/reactions/a%2Fb+c")).await.ok(200);
    assert_eq!(shown(&slash["message"]), one("a/b+c", 1, true));
    world
        .user(9)
        .set(&format!("{path}/reactions/ok"))
        .await
        .refused("not_found");
    ann.set("/v1/messages/7/reactions/ok").await.refused("not_found");
    assert_eq!(
        ann.get(&format!("/v1/conversations/{room}")).await.ok(200)["last_change_seq"],
        1
    );
    world.stop().await;
}

#[actix_web::test]
async fn reactions_and_pins_reach_every_device_but_the_acting_one_each_with_its_own_me() {
    let world = World::start_with(|config| config.server.workers = 2).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let (_, _, path) = room_with(&ann, &bob).await;
    let mut phone = Socket::hello(&world, &ann, "phone").await;
    let mut desk = Socket::hello(&world, &ann, "desk").await;
    let mut peer = Socket::hello(&world, &bob, "phone").await;
    ann.put_as("phone", &format!("{path}/reactions/ok")).await.ok(200);
    bob.set(&format!("{path}/reactions/ok")).await.ok(200);
    bob.set(&format!("{path}/reactions/no")).await.ok(200);
    ann.put_as("phone", &format!("{path}/pin")).await.ok(200);
    ann.call(
        reqwest::Method::PATCH,
        &path,
        Some(json!({"content": {"text": "x"}}).to_string().into_bytes()),
    )
    .await
    .ok(200);
    let told = |pushes: Vec<Value>| -> Vec<(String, Vec<bool>, bool)> {
        let short = |push: &Value| {
            let (change, message) = (&push["change"], &push["change"]["message"]);
            let mine = shown(message).into_iter().map(|(_, _, me)| me).collect();
            (
                change["change_type"].as_str().unwrap().to_owned(),
                mine,
                message["pinned"].as_bool().unwrap(),
            )
        };
        pushes.iter().map(short).collect()
    };
    let expected = |first: bool, second: bool, other: bool| {
        vec![
            ("REACTION".to_owned(), vec![first], false),
            ("REACTION".to_owned(), vec![second], false),
            ("REACTION".to_owned(), vec![second, other], false),
            ("PINNED".to_owned(), vec![second, other], true),
            ("EDITED".to_owned(), vec![second, other], true),
        ]
    };
    let mut heard = desk.pushed().await;
    assert!(heard[..4].iter().all(|push| push["type"] == "conversation.changed"));
    assert_eq!(
        heard.pop().map(|push| push["type"].clone()),
        Some(json!("message.edited"))
    );
    assert_eq!(told(heard), expected(true, true, false)[..4]);
    assert_eq!(told(peer.pushed().await), expected(false, true, true));
    let spared = told(phone.pushed().await);
    assert_eq!(spared.len(), 3, "not its own reaction and pin: {spared:?}");
    world.stop().await;
}

#[actix_web::test]
async fn a_change_to_what_one_may_not_see_is_hidden_also_when_it_is_a_reaction() {
    let world = World::start().await;
    let (ann, cy) = (world.user(1), world.user(3));
    let body = json!({"kind": "GROUP", "title": "room", "members": [], "history_visibility": "JOINED"});
    let room = id_of(&ann.post("/v1/conversations", &body).await.ok(201), "conversation_id");
    let path = format!("/v1/messages/{}", id_of(&ann.say(&room, "old").await, "message_id"));
    ann.post(
        &format!("/v1/conversations/{room}/members"),
        &json!({"members": [cy.principal]}),
    )
    .await
    .ok(200);
    let mut late = Socket::hello(&world, &cy, "phone").await;
    ann.set(&format!("{path}/reactions/ok")).await.ok(200);
    ann.set(&format!("{path}/pin")).await.ok(200);
    let pushes = late.pushed().await;
    let kinds: Vec<&Value> = pushes.iter().map(|push| &push["change"]["change_type"]).collect();
    assert_eq!(kinds, ["HIDDEN", "HIDDEN"]);
    cy.set(&format!("{path}/reactions/ok")).await.refused("not_found");
    let pins = format!("/v1/conversations/{room}/pins");
    assert_eq!(cy.get(&pins).await.ok(200), json!({"items": [], "next_cursor": null}));
    assert_eq!(ann.get(&pins).await.ok(200)["items"][0]["content"]["text"], "old");
    world.stop().await;
}

#[actix_web::test]
async fn pins_are_the_admins_and_are_listed_newest_first() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let (room, _, first) = room_with(&ann, &bob).await;
    let second = format!("/v1/messages/{}", id_of(&ann.say(&room, "second").await, "message_id"));
    bob.set(&format!("{first}/pin")).await.refused("forbidden");
    ann.set(&format!("{second}/pin")).await.ok(200);
    let reply = ann.set(&format!("{first}/pin")).await.ok(200);
    assert_eq!(
        (&reply["message"]["pinned"], &reply["change"]["payload"]),
        (&json!(true), &json!({"pinned": true}))
    );
    assert_eq!(ann.set(&format!("{first}/pin")).await.ok(200)["change"], Value::Null);
    let pins = format!("/v1/conversations/{room}/pins");
    let page = bob.get(&format!("{pins}?limit=1")).await.ok(200);
    assert_eq!(page["items"][0]["content"]["text"], "words");
    let next = page["next_cursor"].as_str().unwrap();
    let page = bob.get(&format!("{pins}?limit=1&cursor={next}")).await.ok(200);
    assert_eq!(
        (&page["items"][0]["content"]["text"], &page["next_cursor"]),
        (&json!("second"), &Value::Null)
    );
    world.user(9).get(&pins).await.refused("not_a_member");
    bob.delete(&format!("{first}/pin")).await.refused("forbidden");
    assert_eq!(
        ann.delete(&format!("{first}/pin")).await.ok(200)["message"]["pinned"],
        false
    );
    ann.post_raw(&format!("{second}/recall"), "").await.ok(200);
    assert_eq!(bob.get(&pins).await.ok(200)["items"], json!([]));
    ann.set(&format!("{second}/pin")).await.refused("message_recalled");
    world.stop().await;
}

#[actix_web::test]
async fn a_message_is_sent_on_once_and_only_where_its_sender_may() {
    let world = World::start().await;
    let (ann, bob, eve) = (world.user(1), world.user(2), world.user(3));
    let (_, _, path) = room_with(&ann, &bob).await;
    let (one, two, closed) = (bob.group(&[&eve]).await, bob.group(&[]).await, eve.group(&[]).await);
    let mut peer = Socket::hello(&world, &eve, "phone").await;
    let forward = format!("{path}/forward");
    let body = json!({"conversation_ids": [two, closed, "7", one], "client_message_id": "f"});
    for status in [201, 200] {
        let items = bob.post(&forward, &body).await.ok(status)["items"].clone();
        let places: Vec<&Value> = items
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["conversation_id"])
            .collect();
        assert_eq!(places, [&json!(two), &json!(closed), &json!("7"), &json!(one)]);
        let codes = [&items[1]["error"]["code"], &items[2]["error"]["code"]];
        assert_eq!(codes, ["not_a_member", "not_found"]);
        assert!(items[1].get("message").is_none() && items[0].get("error").is_none());
        assert_eq!(items[3]["message"]["content"], json!({"text": "words"}));
        assert_eq!(
            (&items[3]["message"]["sender"], &items[3]["message"]["seq"]),
            (&bob.principal, &json!(2))
        );
    }
    assert_eq!(words(&peer.pushed().await), ["words"]);
    eve.post(&forward, &body).await.refused("not_found");
    for (field, bad) in [
        ("conversation_ids", json!([])),
        ("conversation_ids", json!([7])),
        ("conversation_ids", json!(vec!["7"; 51])),
        ("client_message_id", json!("")),
    ] {
        let mut body = body.clone();
        body[field] = bad;
        let refusal = bob.post(&forward, &body).await.refused("invalid_request");
        assert!(refusal["detail"].as_str().unwrap().starts_with(field), "{refusal}");
    }
    let first = bob.page(&one, "limit=200").await.0[0];
    assert_eq!(first, 1);
    let made = bob
        .get(&format!("/v1/conversations/{one}/messages?limit=200"))
        .await
        .ok(200)["items"][0]
        .clone();
    let made = format!("/v1/messages/{}/forward", id_of(&made, "message_id"));
    let fresh = json!({"conversation_ids": [two], "client_message_id": "fresh"});
    bob.post(&made, &fresh).await.refused("forbidden");
    ann.post_raw(&format!("{path}/recall"), "").await.ok(200);
    bob.post(&forward, &fresh).await.refused("message_recalled");
    world.stop().await;
}
