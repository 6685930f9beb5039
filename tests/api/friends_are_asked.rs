//! B120: friend requests, from the asking to the contact: once, whoever asks, however often, on whatever device.

use std::slice;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::socket::Socket;
use super::world::{Caller, Reply, World, id_of};

pub(crate) async fn ask(from: &Caller, to: &Caller, text: &str) -> Reply {
    let body = json!({"to": to.principal, "text": text});
    from.post("/v1/contacts/requests", &body).await
}

pub(crate) async fn asked(from: &Caller, to: &Caller) -> String {
    id_of(&ask(from, to, "it's me").await.ok(201), "notification_id")
}

pub(crate) async fn answer(who: &Caller, id: &str, answer: &str) -> Reply {
    who.post(&format!("/v1/notifications/{id}/{answer}"), &json!({})).await
}

/// Ids, by state.
pub(crate) async fn listed(who: &Caller, state: &str) -> Vec<String> {
    let page = who.get(&format!("/v1/notifications?state={state}")).await.ok(200);
    let items = page["items"].as_array().unwrap();
    items.iter().map(|note| id_of(note, "notification_id")).collect()
}

pub(crate) async fn contacts(who: &Caller) -> Vec<Value> {
    let page = who.get("/v1/contacts").await.ok(200);
    let items = page["items"].as_array().unwrap();
    items.iter().map(|contact| contact["principal"].clone()).collect()
}

async fn of_kind(who: &Caller, kind: &str) -> Vec<Value> {
    let page = who.get("/v1/conversations").await.ok(200);
    let items = page["items"].as_array().unwrap().iter();
    items
        .filter(|conversation| conversation["kind"] == kind)
        .cloned()
        .collect()
}

#[actix_web::test]
async fn b120_a_request_is_told_once_and_accepted_it_makes_contacts_and_one_direct() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let replies = join_all((0..20).map(|_| ask(&ann, &bob, "it's me"))).await;
    assert_eq!(
        replies.iter().filter(|reply| reply.status == 201).count(),
        1,
        "however many ask at once"
    );
    let id = id_of(&replies[0].body(), "notification_id");
    assert!(
        replies
            .iter()
            .all(|reply| reply.body()["notification_id"] == id.as_str())
    );
    assert_eq!(replies[0].body()["to"], bob.principal);
    assert_eq!(listed(&bob, "PENDING").await, slice::from_ref(&id));
    assert_eq!(listed(&ann, "PENDING").await, [""; 0]);
    let inbox = of_kind(&bob, "INBOX").await;
    assert_eq!(inbox[0]["last_message"]["content"]["text"], "it's me");
    assert_eq!(inbox[0]["me"]["unread_count"], 0);
    answer(&ann, &id, "accept").await.refused("not_found");
    for _ in 0..2 {
        let accepted = answer(&bob, &id, "accept").await.ok(200);
        assert_eq!(
            (&accepted["state"], &accepted["from"]),
            (&json!("ACCEPTED"), &ann.principal)
        );
        assert!(accepted["read_at"].is_string());
    }
    answer(&bob, &id, "decline").await.refused("already_decided");
    for (me, other) in [(&ann, &bob), (&bob, &ann)] {
        assert_eq!(contacts(me).await, slice::from_ref(&other.principal));
        assert_eq!(of_kind(me, "DIRECT").await.len(), 1);
    }
    let again = ask(&ann, &bob, "again").await.ok(200);
    assert_eq!(
        (&again["state"], &again["read_at"]),
        (&json!("ACCEPTED"), &Value::Null),
        "not when it was read"
    );
    world.stop().await;
}

#[actix_web::test]
async fn b120_of_two_devices_that_answer_at_once_one_is_first_and_all_learn_it() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let mut desk = Socket::hello(&world, &bob, "desk").await;
    for round in 0..8 {
        let id = if round == 0 {
            asked(&ann, &bob).await
        } else {
            asked(&world.user(100 + round), &bob).await
        };
        let (yes, no) = tokio::join!(answer(&bob, &id, "accept"), answer(&bob, &id, "decline"));
        let (won, lost) = if yes.status == 200 { (yes, no) } else { (no, yes) };
        lost.refused("already_decided");
        let state = won.ok(200)["state"].clone();
        let changes: Vec<Value> = desk
            .pushed()
            .await
            .into_iter()
            .filter(|push| push["type"] == "inbox.changed")
            .collect();
        let [told] = changes.as_slice() else {
            panic!("{changes:?}")
        };
        let change = &told["change"];
        assert_eq!(change["change_type"], "NOTIFICATION_UPDATED");
        assert_eq!(
            (&change["payload"]["state"], &change["payload"]["notification_id"]),
            (&state, &json!(id))
        );
        assert_eq!(
            change["payload"], change["message"]["content"],
            "the message says the same"
        );
    }
    world.stop().await;
}

#[actix_web::test]
async fn two_who_ask_each_other_end_as_one_contact() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let id = asked(&ann, &bob).await;
    let back = ask(&bob, &ann, "me too").await.ok(200);
    assert_eq!(
        (&back["notification_id"], &back["state"]),
        (&json!(id), &json!("ACCEPTED"))
    );
    assert_eq!(contacts(&ann).await, slice::from_ref(&bob.principal));
    // At once, too: whoever is second finds the other's.
    for round in 0..10 {
        let (one, other) = (world.user(10 + round), world.user(30 + round));
        let (first, second) = tokio::join!(ask(&one, &other, "a"), ask(&other, &one, "b"));
        assert!(
            first.status < 300 && second.status < 300,
            "{} {}",
            first.text,
            second.text
        );
        for (me, peer) in [(&one, &other), (&other, &one)] {
            assert_eq!(contacts(me).await, slice::from_ref(&peer.principal));
            assert_eq!(listed(me, "PENDING").await, [""; 0]);
            assert_eq!(of_kind(me, "DIRECT").await.len(), 1);
        }
    }
    world.stop().await;
}

#[actix_web::test]
async fn a_declined_request_makes_nothing_and_can_be_made_again() {
    let world = World::start_with(|config| config.notifications.ask_again_hours = 0).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let id = asked(&ann, &bob).await;
    answer(&bob, &id, "read").await.ok(200);
    for _ in 0..2 {
        assert_eq!(answer(&bob, &id, "decline").await.ok(200)["state"], "DECLINED");
    }
    answer(&bob, &id, "accept").await.refused("already_decided");
    assert_eq!((contacts(&ann).await, of_kind(&bob, "DIRECT").await), (vec![], vec![]));
    let second = asked(&ann, &bob).await;
    assert_ne!(second, id);
    assert_eq!(listed(&bob, "DECLINED").await, [id]);
    world.stop().await;
}

#[actix_web::test]
async fn who_was_told_no_does_not_ask_again_at_once_and_who_said_no_may_ask() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let id = asked(&ann, &bob).await;
    answer(&bob, &id, "decline").await.ok(200);
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    for _ in 0..3 {
        let no = ask(&ann, &bob, "please").await.ok(200);
        assert_eq!((&no["notification_id"], &no["state"]), (&json!(id), &json!("DECLINED")));
    }
    assert_eq!(
        phone.pushed().await,
        [Value::Null; 0],
        "nothing new reaches who declined"
    );
    assert_eq!(listed(&bob, "PENDING").await, [""; 0]);
    let back = asked(&bob, &ann).await;
    // Now the first one's asking is an answer.
    let yes = ask(&ann, &bob, "please").await.ok(200);
    assert_eq!(
        (&yes["notification_id"], &yes["state"]),
        (&json!(back), &json!("ACCEPTED"))
    );
    assert_eq!(contacts(&ann).await, slice::from_ref(&bob.principal));
    world.stop().await;
}

#[actix_web::test]
async fn a_request_that_was_cleared_away_or_deleted_is_made_again_and_seen() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let first = asked(&ann, &bob).await;
    let inbox = id_of(&of_kind(&bob, "INBOX").await[0], "conversation_id");
    bob.post(&format!("/v1/conversations/{inbox}/clear"), &json!({"up_to_seq": 1}))
        .await
        .ok(200);
    assert_eq!(listed(&bob, "PENDING").await, [""; 0]);
    let second = asked(&ann, &bob).await;
    assert_eq!(listed(&bob, "PENDING").await, slice::from_ref(&second));
    bob.set(&format!("/v1/messages/{second}/actions/DELETE")).await.ok(200);
    // Asking back does not accept what was thrown away: it is a request of one's own.
    let back = asked(&bob, &ann).await;
    let third = ask(&ann, &bob, "it is me").await.ok(200);
    assert_eq!(
        (&third["notification_id"], &third["state"]),
        (&json!(back), &json!("ACCEPTED"))
    );
    assert!(first != second && contacts(&bob).await == slice::from_ref(&ann.principal));
    world.stop().await;
}

#[actix_web::test]
async fn a_contact_ends_for_both_and_keeps_the_direct() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    bob.patch("/v1/me", &json!({"display_name": "Bob"})).await.ok(200);
    answer(&bob, &asked(&ann, &bob).await, "accept").await.ok(200);
    let page = ann.get("/v1/contacts").await.ok(200);
    assert_eq!(page["items"][0]["display_name"], "Bob");
    assert!(page["items"][0]["created_at"].is_string());
    let pair = id_of(&of_kind(&ann, "DIRECT").await[0], "conversation_id");
    for _ in 0..2 {
        bob.delete("/v1/contacts/USER/1").await.ok(200);
    }
    cy.delete("/v1/contacts/USER/1").await.ok(200);
    assert_eq!((contacts(&ann).await, contacts(&bob).await), (vec![], vec![]));
    ann.say(&pair, "still here").await;
    asked(&ann, &bob).await;
    world.stop().await;
}

#[actix_web::test]
async fn requests_expire_and_then_nothing_follows_from_them() {
    let world = World::start_with(|config| config.notifications.expire_days = 0).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let mut desk = Socket::hello(&world, &bob, "desk").await;
    let id = asked(&ann, &bob).await;
    answer(&bob, &id, "accept").await.refused("already_decided");
    let expired = loop {
        let frame = desk.frame().await.unwrap();
        if frame["type"] == "inbox.changed" {
            break frame;
        }
    };
    assert_eq!(expired["change"]["payload"]["state"], "EXPIRED");
    assert_eq!(listed(&bob, "EXPIRED").await, [id]);
    assert_eq!(contacts(&bob).await, [Value::Null; 0]);
    // In the background, where nobody answers.
    asked(&ann, &bob).await;
    let expired = loop {
        let frame = desk.frame().await.unwrap();
        if frame["type"] == "inbox.changed" {
            break frame;
        }
    };
    assert_eq!(expired["change"]["actor"], json!({"type": "SYSTEM", "id": "0"}));
    world.stop().await;
}

#[actix_web::test]
async fn what_is_asked_wrongly_is_refused_by_its_name() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let path = "/v1/contacts/requests";
    let long = "x".repeat(1_001);
    for body in [
        json!({}),
        json!({"to": "2"}),
        json!({"to": ann.principal}),
        json!({"to": {"type": "SYSTEM", "id": "0"}}),
        json!({"to": bob.principal, "text": 7}),
        json!({"to": bob.principal, "text": long}),
        json!({"to": bob.principal, "text": "\u{7}"}),
    ] {
        ann.post(path, &body).await.refused("invalid_request");
    }
    assert_eq!(listed(&bob, "PENDING").await, [""; 0]);
    for bad in ["x", "0", "9223372036854775808", "7"] {
        answer(&ann, bad, "accept").await.refused("not_found");
    }
    ann.get("/v1/notifications?state=OPEN").await.refused("invalid_request");
    ann.put("/v1/me/blocks/USER/1", &json!({}))
        .await
        .refused("invalid_request");
    ann.set("/v1/me/blocks/ROBOT/1").await.refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn a_contact_sees_the_profile_and_a_stranger_does_not() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    ann.get("/v1/users/USER/2").await.refused("not_found");
    let id = asked(&ann, &bob).await;
    ann.get("/v1/users/USER/2").await.refused("not_found");
    answer(&bob, &id, "accept").await.ok(200);
    ann.get("/v1/users/USER/2").await.ok(200);
    world.stop().await;
}

#[actix_web::test]
async fn what_the_operator_deletes_is_in_no_list_and_no_change() {
    let world = World::with_admin().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let id = id_of(&ask(&ann, &bob, "sekrit").await.ok(201), "notification_id");
    answer(&bob, &id, "read").await.ok(200);
    world.admin().delete(&format!("/admin/v1/messages/{id}")).await.ok(200);
    let told = [
        bob.get("/v1/notifications").await.text,
        bob.post("/v1/sync", &json!({"device_id": "new", "cursors": []}))
            .await
            .text,
        answer(&bob, &id, "accept").await.text,
        world.admin().get("/admin/v1/events").await.text,
    ];
    for line in told {
        assert!(!line.contains("sekrit"), "{line}");
    }
    answer(&bob, &id, "accept").await.refused("not_found");
    world.stop().await;
}
