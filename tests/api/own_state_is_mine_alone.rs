//! Read positions, settings, clearing, actions and receipts: seen by one user, on all devices of theirs.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::socket::Socket;
use super::world::{Caller, World, id_of};

async fn me(who: &Caller, room: &str) -> Value {
    who.get(&format!("/v1/conversations/{room}")).await.ok(200)["me"].clone()
}

async fn put(who: &Caller, path: &str, body: &Value) -> super::world::Reply {
    who.call(Method::PUT, path, Some(body.to_string().into_bytes())).await
}

async fn read(who: &Caller, room: &str, seq: &Value) -> Value {
    let path = format!("/v1/conversations/{room}/read");
    who.post(&path, &json!({"seq": seq})).await.ok(200)
}

fn kinds(pushes: &[Value]) -> Vec<&str> {
    pushes
        .iter()
        .map(|push| match push["type"].as_str().unwrap() {
            "inbox.changed" => push["change"]["change_type"].as_str().unwrap(),
            other => other,
        })
        .collect()
}

#[actix_web::test]
async fn b72_of_200_reports_at_once_the_highest_wins_and_each_that_moved_has_its_number() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    for n in 0..40 {
        ann.say(&room, &n.to_string()).await;
    }
    let mut desk = Socket::hello(&world, &bob, "desk").await;
    let reads = (0..200_u64).map(|n| {
        let (bob, room) = (bob.clone(), room.clone());
        async move { read(&bob, &room, &json!(n % 42)).await }
    });
    let replies = join_all(reads).await;
    let own = me(&bob, &room).await;
    assert_eq!((&own["last_read_seq"], &own["unread_count"]), (&json!(41), &json!(0)));
    let mut numbers: Vec<u64> = replies
        .iter()
        .filter_map(|reply| reply["change_seq"].as_u64())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=u64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
    let pushes = desk.pushed().await;
    let seqs: Vec<u64> = pushes
        .iter()
        .map(|push| push["last_read_seq"].as_u64().unwrap())
        .collect();
    assert!(seqs.is_sorted() && seqs.last() == Some(&41), "{seqs:?}");
    let told: Vec<u64> = pushes.iter().map(|push| push["change_seq"].as_u64().unwrap()).collect();
    assert_eq!(told, numbers, "each once, in order");
    world.stop().await;
}

#[actix_web::test]
async fn of_100_first_acts_at_once_all_find_one_inbox_and_no_device_hears_of_its_birth() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    let acts = (0..100).map(|n| {
        let (bob, room) = (bob.clone(), room.clone());
        async move {
            put(
                &bob,
                &format!("/v1/conversations/{room}/me"),
                &json!({"muted": n % 2 == 0}),
            )
            .await
            .ok(200)
        }
    });
    join_all(acts).await;
    let list = bob.get("/v1/conversations").await.ok(200);
    let inboxes: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["kind"] == "INBOX")
        .collect();
    assert_eq!(inboxes.len(), 1);
    let last = inboxes[0]["last_change_seq"].as_u64().unwrap();
    let pushes = phone.pushed().await;
    let numbers: Vec<u64> = pushes
        .iter()
        .map(|push| push["change"]["change_seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>(), "from its birth, each once");
    assert!(pushes.iter().all(|push| push["type"] == "inbox.changed"));
    let id = id_of(inboxes[0], "conversation_id");
    bob.send(&id, "k", "to myself").await.refused("forbidden");
    ann.get(&format!("/v1/conversations/{id}"))
        .await
        .refused("not_a_member");
    world.stop().await;
}

#[actix_web::test]
async fn a_read_is_told_to_my_other_devices_and_to_the_other_one_of_a_pair() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let body = json!({"kind": "DIRECT", "member": bob.principal});
    let pair = id_of(&ann.post("/v1/conversations", &body).await.ok(201), "conversation_id");
    let said = ann.say(&pair, "hello").await;
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    let mut desk = Socket::hello(&world, &bob, "desk").await;
    let mut peer = Socket::hello(&world, &ann, "phone").await;
    let frame = json!({"type": "read", "conversation_id": pair, "seq": said["seq"]});
    let reply = phone.ask(frame.clone()).await;
    assert_eq!(
        reply,
        json!({"type": "ok", "reply_to": reply["reply_to"], "last_read_seq": 1, "unread_count": 0, "change_seq": 1})
    );
    assert_eq!(phone.ask(frame).await["change_seq"], Value::Null);
    let mut push =
        json!({"type": "read.updated", "conversation_id": pair, "principal": bob.principal, "last_read_seq": 1});
    assert_eq!(peer.pushed().await, [push.clone()]);
    push["unread_count"] = json!(0);
    push["change_seq"] = json!(1);
    assert_eq!(desk.pushed().await, [push]);
    assert!(phone.pushed().await.is_empty(), "its reply has told it");
    // Marked by hand on one device, read at the same place on another: the mark goes, with a number.
    put(
        &bob,
        &format!("/v1/conversations/{pair}/me"),
        &json!({"marked_unread": true}),
    )
    .await
    .ok(200);
    assert_eq!(read(&bob, &pair, &json!(1)).await["change_seq"], 3);
    assert_eq!(kinds(&desk.pushed().await), ["SETTINGS_UPDATED", "SETTINGS_UPDATED"]);
    assert_eq!(me(&bob, &pair).await["marked_unread"], false);
    assert!(peer.pushed().await.is_empty(), "that is nobody else's");
    world.stop().await;
}

#[actix_web::test]
async fn what_i_delete_for_me_is_hidden_on_every_way_and_comes_back() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let (old, new) = (ann.say(&room, "old").await, ann.say(&room, "new").await);
    let message = format!("/v1/messages/{}", new["message_id"].as_str().unwrap());
    let action = put(
        &bob,
        &format!("{message}/actions/DELETE"),
        &json!({"payload": {"why": 1}}),
    )
    .await
    .ok(200);
    assert_eq!(
        (&action["status"], &action["payload"]),
        (&json!("ACTIVE"), &json!({"why": 1}))
    );
    bob.get(&message).await.refused("not_found");
    bob.post(&format!("{message}/recall"), &json!({}))
        .await
        .refused("not_found");
    put(&bob, &format!("{message}/actions/FAVORITE"), &json!({}))
        .await
        .refused("not_found");
    let quote = json!({"client_message_id": "q", "message_type": "TEXT", "content": {"text": "re"}, "quoted_message_id": new["message_id"]});
    let messages = format!("/v1/conversations/{room}/messages");
    bob.post(&messages, &quote).await.refused("not_found");
    assert_eq!(bob.page(&room, "").await.0, [1, 2]);
    let seen = bob.get(&format!("/v1/conversations/{room}")).await.ok(200);
    assert_eq!(
        (&seen["last_message"]["seq"], &seen["me"]["unread_count"]),
        (&old["seq"], &json!(1))
    );
    // A change to it is a number and nothing else; offline or not.
    let mut desk = Socket::hello(&world, &bob, "desk").await;
    ann.patch(&message, &json!({"content": {"text": "newer"}}))
        .await
        .ok(200);
    let pushes = desk.pushed().await;
    assert_eq!(
        pushes[0]["change"],
        json!({"conversation_id": room, "change_seq": 1, "change_type": "HIDDEN"})
    );
    let back = bob.delete(&format!("{message}/actions/DELETE")).await.ok(200);
    assert_eq!(
        (&back["status"], &back["payload"]),
        (&json!("INACTIVE"), &json!({"why": 1}))
    );
    assert_eq!(bob.get(&message).await.ok(200)["content"]["text"], "newer");
    assert_eq!(me(&bob, &room).await["unread_count"], 2);
    world.stop().await;
}

#[actix_web::test]
async fn who_comes_back_finds_cleared_what_they_cleared() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let said = ann.say(&room, "old").await;
    let clear = format!("/v1/conversations/{room}/clear");
    let own = bob.post(&clear, &json!({"up_to_seq": said["seq"]})).await.ok(200);
    assert_eq!((&own["cleared_seq"], &own["unread_count"]), (&said["seq"], &json!(0)));
    bob.post(&clear, &json!({"up_to_seq": 1})).await.ok(200);
    bob.get(&format!("/v1/messages/{}", said["message_id"].as_str().unwrap()))
        .await
        .refused("not_found");
    bob.delete(&format!("/v1/conversations/{room}/members/USER/2"))
        .await
        .ok(200);
    for (method, path) in [
        (Method::POST, "read"),
        (Method::POST, "clear"),
        (Method::PUT, "me"),
        (Method::GET, "receipts?seq=1"),
    ] {
        let body = json!({"seq": 1, "up_to_seq": 1}).to_string().into_bytes();
        let reply = bob
            .call(method, &format!("/v1/conversations/{room}/{path}"), Some(body))
            .await;
        reply.refused("not_a_member");
    }
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    ann.post(
        &format!("/v1/conversations/{room}/members"),
        &json!({"members": [bob.principal]}),
    )
    .await
    .ok(200);
    let seen = bob.get(&format!("/v1/conversations/{room}")).await.ok(200);
    assert_eq!(seen["me"]["cleared_seq"], said["seq"]);
    assert_eq!(phone.pushed().await[0]["conversation"], seen, "the push tells the same");
    assert_eq!(bob.page(&room, "").await.0, [3, 4]);
    world.stop().await;
}

#[actix_web::test]
async fn actions_on_what_i_may_not_see_any_more_are_not_listed_and_can_be_taken_back() {
    let world = World::with_admin().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let (room, left) = (ann.group(&[&bob]).await, ann.group(&[&bob]).await);
    let mut paths = Vec::new();
    for (place, words) in [
        (&room, "cleared"),
        (&room, "kept"),
        (&room, "deleted"),
        (&room, "mine"),
        (&left, "left"),
    ] {
        let said = ann.say(place, words).await;
        let path = format!("/v1/messages/{}", id_of(&said, "message_id"));
        bob.set(&format!("{path}/actions/FAVORITE")).await.ok(200);
        paths.push((said, path));
    }
    let listed = async |kind: &str| {
        let list = bob.get(&format!("/v1/me/actions?action_type={kind}")).await.ok(200);
        let ids = list["items"].as_array().unwrap().iter();
        ids.map(|action| action["message_id"].clone()).collect::<Vec<_>>()
    };
    let id = |at: usize| paths[at].0["message_id"].clone();
    assert_eq!(listed("FAVORITE").await, [id(4), id(3), id(2), id(1), id(0)]);
    bob.post(
        &format!("/v1/conversations/{room}/clear"),
        &json!({"up_to_seq": paths[0].0["seq"]}),
    )
    .await
    .ok(200);
    world.admin().delete(&paths[2].1).await.ok(200);
    bob.set(&format!("{}/actions/DELETE", paths[3].1)).await.ok(200);
    bob.delete(&format!("/v1/conversations/{left}/members/USER/2"))
        .await
        .ok(200);
    assert_eq!(listed("FAVORITE").await, [id(1)]);
    assert_eq!(listed("DELETE").await, [id(3)]);
    // Nothing more can be done with them, but what I did I can take back, also twice.
    for at in [0, 2, 3, 4] {
        let favorite = format!("{}/actions/FAVORITE", paths[at].1);
        put(&bob, &favorite, &json!({"payload": {"more": 1}}))
            .await
            .refused("not_found");
        for _ in 0..2 {
            let back = bob.delete(&favorite).await.ok(200);
            assert_eq!((&back["status"], &back["message_id"]), (&json!("INACTIVE"), &id(at)));
        }
        let reminder = format!("{}/actions/REMINDER", paths[at].1);
        bob.delete(&reminder).await.refused("not_found");
        ann.delete(&format!("{}/actions/FAVORITE", paths[2].1))
            .await
            .refused("not_found");
    }
    world.stop().await;
}

#[actix_web::test]
async fn receipts_name_every_member_but_the_sender_once() {
    let world = World::start().await;
    let (ann, bob, cy, dee) = (world.user(1), world.user(2), world.user(3), world.agent(4));
    let room = ann.group(&[&bob, &cy, &dee]).await;
    let said = ann.say(&room, "x").await;
    read(&bob, &room, &said["seq"]).await;
    let acks = json!({"device_id": "d", "acks": [{"conversation_id": room, "seq": said["seq"]}]});
    cy.post("/v1/me/acks", &acks).await.ok(200);
    let path = format!("/v1/conversations/{room}/receipts");
    let receipts = dee.get(&format!("{path}?seq={}", said["seq"])).await.ok(200);
    assert_eq!(
        receipts,
        json!({"read": [bob.principal], "delivered": [cy.principal], "pending": [dee.principal]})
    );
    ann.get(&format!("{path}?seq=99")).await.refused("not_found");
    ann.get(&path).await.refused("invalid_request");
    world.stop().await;
}

#[actix_web::test]
async fn actions_are_refused_by_the_name_of_what_is_wrong() {
    let world = World::start().await;
    let (ann, eve) = (world.user(1), world.user(9));
    let room = ann.group(&[]).await;
    let id = id_of(&ann.say(&room, "x").await, "message_id");
    for (kind, body, field) in [
        ("LIKE", json!({}), "action_type"),
        ("REMINDER", json!({}), "remind_at"),
        ("REMINDER", json!({"remind_at": "tomorrow"}), "remind_at"),
        ("FAVORITE", json!({"payload": 7}), "payload"),
    ] {
        let refused = put(&ann, &format!("/v1/messages/{id}/actions/{kind}"), &body)
            .await
            .refused("invalid_request");
        assert!(refused["detail"].as_str().unwrap().contains(field), "{refused}");
    }
    let large = json!({"payload": {"x": "y".repeat(5_000)}});
    put(&ann, &format!("/v1/messages/{id}/actions/FAVORITE"), &large)
        .await
        .refused("payload_too_large");
    put(&eve, &format!("/v1/messages/{id}/actions/FAVORITE"), &json!({}))
        .await
        .refused("not_found");
    ann.call(Method::PUT, &format!("/v1/messages/{id}/actions/FAVORITE"), None)
        .await
        .ok(200);
    let list = ann.get("/v1/me/actions?action_type=FAVORITE&limit=1").await.ok(200);
    assert_eq!(
        (&list["items"][0]["message_id"], &list["next_cursor"]),
        (&json!(id), &Value::Null)
    );
    assert_eq!(
        eve.get("/v1/conversations").await.ok(200)["items"],
        json!([]),
        "a refusal makes no inbox"
    );
    world.stop().await;
}
