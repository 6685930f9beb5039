//! Blocks: what the blocked put before the blocker is refused, and the blocker sees nothing of it.

use std::slice;

use onescribe::domain::notification::ENDED_AT_ONCE_MAX;
use reqwest::Method;
use serde_json::{Value, json};

use super::friends_are_asked::{answer, ask, asked, contacts, listed};
use super::invitations_lead_into_groups::invited;
use super::socket::{Socket, send};
use super::world::{Caller, World, id_of};

async fn direct(one: &Caller, other: &Caller) -> String {
    let body = json!({"kind": "DIRECT", "member": other.principal});
    id_of(&one.post("/v1/conversations", &body).await.body(), "conversation_id")
}

async fn block(who: &Caller, other: &Caller, method: Method) {
    let id = other.principal["id"].as_str().unwrap();
    who.call(method, &format!("/v1/me/blocks/USER/{id}"), None)
        .await
        .ok(200);
}

#[actix_web::test]
async fn nothing_new_of_the_blocked_comes_into_the_direct_and_everything_after_the_end_of_it() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let pair = direct(&ann, &bob).await;
    let message = id_of(&ann.say(&pair, "before").await, "message_id");
    let theirs = id_of(&bob.say(&pair, "before, too").await, "message_id");
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    let mut angry = Socket::hello(&world, &ann, "phone").await;
    let mut desk = Socket::hello(&world, &ann, "desk").await;
    block(&bob, &ann, Method::PUT).await;
    block(&bob, &ann, Method::PUT).await;
    phone.pushed().await;
    angry.pushed().await;
    desk.pushed().await;
    ann.send(&pair, "k", "words").await.refused("forbidden");
    assert_eq!(angry.send(&pair, "l", "words").await["code"], "forbidden");
    ann.patch(&format!("/v1/messages/{message}"), &json!({"content": {"text": "x"}}))
        .await
        .refused("forbidden");
    ann.set(&format!("/v1/messages/{theirs}/reactions/x"))
        .await
        .refused("forbidden");
    ann.set(&format!("/v1/messages/{theirs}/pin"))
        .await
        .refused("forbidden");
    angry.post(json!({"type": "typing", "conversation_id": pair})).await;
    ann.post(&format!("/v1/conversations/{pair}/read"), &json!({"seq": 2}))
        .await
        .ok(200);
    angry.pushed().await;
    let seen = phone.pushed().await;
    assert_eq!(seen, [Value::Null; 0], "the blocker sees nothing of it");
    // What was there can be taken back, and the blocker may go on.
    ann.post(&format!("/v1/messages/{message}/recall"), &json!({}))
        .await
        .ok(200);
    bob.say(&pair, "and another thing").await;
    block(&bob, &ann, Method::DELETE).await;
    block(&bob, &ann, Method::DELETE).await;
    phone.pushed().await;
    ann.say(&pair, "after").await;
    angry.post(json!({"type": "typing", "conversation_id": pair})).await;
    let typing = loop {
        let frame = phone.frame().await.unwrap();
        if frame["type"] == "typing" {
            break frame;
        }
    };
    assert_eq!(typing["principal"], ann.principal);
    world.stop().await;
}

#[actix_web::test]
async fn a_block_holds_after_a_restart_of_the_writer_and_is_a_hidden_change_to_both() {
    let world = World::start_with(|config| config.conversation.idle_secs = 1).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let pair = direct(&ann, &bob).await;
    ann.say(&pair, "before").await;
    block(&bob, &ann, Method::PUT).await;
    for who in [&ann, &bob] {
        let page = who
            .post("/v1/sync", &json!({"device_id": "d", "cursors": []}))
            .await
            .ok(200);
        let entries = page["conversations"].as_array().unwrap();
        let entry = entries
            .iter()
            .find(|entry| entry["conversation"]["conversation_id"] == pair.as_str());
        let hidden = json!({"conversation_id": pair, "change_seq": 1, "change_type": "HIDDEN"});
        assert_eq!(entry.unwrap()["changes"], json!([hidden]));
    }
    // The writer is gone by then, and another is loaded.
    tokio::time::sleep(std::time::Duration::from_millis(3_500)).await;
    ann.send(&pair, "k", "words").await.refused("forbidden");
    world.stop().await;
}

#[actix_web::test]
async fn neither_of_two_begins_anything_with_the_other_and_groups_are_not_concerned() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    block(&bob, &ann, Method::PUT).await;
    for (me, other) in [(&ann, &bob), (&bob, &ann)] {
        let body = json!({"kind": "DIRECT", "member": other.principal});
        me.post("/v1/conversations", &body).await.refused("forbidden");
        ask(me, other, "hello").await.refused("forbidden");
    }
    ann.say(&room, "hello all").await;
    let blocks = bob.get("/v1/me/blocks").await.ok(200);
    assert_eq!(blocks["items"][0]["principal"], ann.principal);
    assert_eq!(ann.get("/v1/me/blocks").await.ok(200)["items"], json!([]));
    block(&bob, &ann, Method::DELETE).await;
    direct(&ann, &bob).await;
    world.stop().await;
}

#[actix_web::test]
async fn a_block_ends_what_was_asked_in_both_directions_and_the_contact() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let theirs = asked(&ann, &bob).await;
    block(&bob, &ann, Method::PUT).await;
    assert_eq!(listed(&bob, "DECLINED").await, [theirs]);
    let own = asked(&bob, &cy).await;
    block(&bob, &cy, Method::PUT).await;
    assert_eq!(listed(&cy, "EXPIRED").await, slice::from_ref(&own));
    answer(&cy, &own, "accept").await.refused("already_decided");
    block(&bob, &cy, Method::DELETE).await;
    answer(&cy, &asked(&bob, &cy).await, "accept").await.ok(200);
    assert_eq!(contacts(&cy).await, slice::from_ref(&bob.principal));
    block(&cy, &bob, Method::PUT).await;
    assert_eq!((contacts(&cy).await, contacts(&bob).await), (vec![], vec![]));
    world.stop().await;
}

#[actix_web::test]
async fn a_block_ends_the_invitations_between_the_two_however_many() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let (theirs, own, of_cy) = (ann.group(&[]).await, bob.group(&[]).await, cy.group(&[]).await);
    let by_ann = invited(&ann, &theirs, &bob).await;
    let by_bob = invited(&bob, &own, &ann).await;
    let by_cy = invited(&cy, &of_cy, &bob).await;
    block(&bob, &ann, Method::PUT).await;
    assert_eq!(listed(&bob, "DECLINED").await, slice::from_ref(&by_ann));
    assert_eq!(listed(&ann, "EXPIRED").await, slice::from_ref(&by_bob));
    assert_eq!(listed(&bob, "PENDING").await, slice::from_ref(&by_cy));
    for (who, id) in [(&bob, &by_ann), (&ann, &by_bob)] {
        answer(who, id, "accept").await.refused("already_decided");
    }
    // More than one commit ends, in both directions.
    let many = ENDED_AT_ONCE_MAX + 5;
    for _ in 0..many {
        let (theirs, own) = (cy.group(&[]).await, bob.group(&[]).await);
        tokio::join!(invited(&cy, &theirs, &bob), invited(&bob, &own, &cy));
    }
    block(&bob, &cy, Method::PUT).await;
    for who in [&bob, &cy] {
        assert_eq!(listed(who, "PENDING").await, [""; 0]);
    }
    world.stop().await;
}

#[actix_web::test]
async fn after_a_block_was_answered_no_send_of_a_burst_gets_a_number() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    for round in 0..5 {
        let other = world.user(100 + round);
        let pair = direct(&other, &bob).await;
        let mut socket = Socket::hello(&world, &other, "phone").await;
        for n in 0..50 {
            socket.post(send(&pair, &format!("k{n}"), "words")).await;
        }
        block(&bob, &other, Method::PUT).await;
        let page = bob.get(&format!("/v1/conversations/{pair}")).await.ok(200);
        let head = page["last_seq"].clone();
        for n in 50..60 {
            socket.post(send(&pair, &format!("k{n}"), "words")).await;
        }
        socket.pushed().await;
        let page = bob.get(&format!("/v1/conversations/{pair}")).await.ok(200);
        assert_eq!(page["last_seq"], head);
    }
    // One that is made while the block is put: whatever came first, nothing is said after it.
    for round in 0..10 {
        let other = world.user(200 + round);
        let body = json!({"kind": "DIRECT", "member": ann.principal});
        let (made, ()) = tokio::join!(other.post("/v1/conversations", &body), block(&ann, &other, Method::PUT));
        if made.status == 201 {
            let pair = id_of(&made.body(), "conversation_id");
            other.send(&pair, "k", "words").await.refused("forbidden");
        } else {
            made.refused("forbidden");
        }
    }
    world.stop().await;
}

#[actix_web::test]
async fn neither_of_two_asks_how_far_the_other_reads_while_one_blocks() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let pair = direct(&ann, &bob).await;
    ann.say(&pair, "hello").await;
    let path = format!("/v1/conversations/{pair}/receipts?seq=1");
    bob.post(&format!("/v1/conversations/{pair}/read"), &json!({"seq": 1}))
        .await
        .ok(200);
    assert_eq!(ann.get(&path).await.ok(200)["read"], json!([bob.principal]));
    block(&bob, &ann, Method::PUT).await;
    for who in [&ann, &bob] {
        who.get(&path).await.refused("forbidden");
    }
    block(&bob, &ann, Method::DELETE).await;
    assert_eq!(ann.get(&path).await.ok(200)["read"], json!([bob.principal]));
    world.stop().await;
}
