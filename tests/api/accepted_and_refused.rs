//! Who may see and do what.

use serde_json::{Value, json};

use super::world::{World, id_of};

#[actix_web::test]
async fn b112_a_stranger_and_a_former_member_get_nothing() {
    let world = World::start().await;
    let (ann, bob, eve) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&bob]).await;
    let message = id_of(&ann.say(&room, "inner secret").await, "message_id");
    let path = format!("/v1/conversations/{room}");
    ann.delete(&format!("{path}/members/USER/2")).await.ok(200);
    for who in [&eve, &bob, &world.agent(1)] {
        for sub in ["", "/members", "/messages"] {
            let reply = who.get(&format!("{path}{sub}")).await;
            reply.refused("not_a_member");
            assert!(!reply.text.contains("secret"));
        }
        who.send(&room, "k", "x").await.refused("not_a_member");
        let add = json!({"members": [{"type": "USER", "id": "3"}]});
        who.post(&format!("{path}/members"), &add).await.refused("not_a_member");
        who.delete(&format!("{path}/members/USER/1"))
            .await
            .refused("not_a_member");
        who.get(&format!("/v1/messages/{message}")).await.refused("not_found");
        assert_eq!(
            who.get("/v1/conversations").await.ok(200),
            json!({"items": [], "next_cursor": null})
        );
    }
    world.stop().await;
}

#[actix_web::test]
async fn history_from_joining_on_shows_nothing_older_on_any_way() {
    let world = World::start().await;
    let (ann, bob, new) = (world.user(1), world.user(2), world.user(3));
    let body = json!({"kind": "GROUP", "title": "x", "members": [bob.principal], "history_visibility": "JOINED"});
    let room = id_of(&ann.post("/v1/conversations", &body).await.ok(201), "conversation_id");
    let old = ann.say(&room, "old secret").await;
    let members = format!("/v1/conversations/{room}/members");
    ann.post(&members, &json!({"members": [new.principal]})).await.ok(200);
    let fresh = ann.say(&room, "fresh").await;
    assert_eq!(new.page(&room, "").await, (vec![3, 4], false));
    assert_eq!(new.page(&room, "after_seq=0").await, (vec![3, 4], false));
    assert_eq!(new.page(&room, "after_seq=0&before_seq=3").await, (vec![], false));
    let message = |message: &Value| format!("/v1/messages/{}", message["message_id"].as_str().unwrap());
    new.get(&message(&old)).await.refused("not_found");
    assert_eq!(new.get(&message(&fresh)).await.ok(200)["seq"], 4);
    let quote = json!({"client_message_id": "q", "message_type": "TEXT", "content": {"text": "x"},
        "quoted_message_id": old["message_id"]});
    new.post(&format!("/v1/conversations/{room}/messages"), &quote)
        .await
        .refused("not_found");
    assert_eq!(bob.page(&room, "").await, (vec![1, 2, 3, 4], false));
    world.stop().await;
}

#[actix_web::test]
async fn b113_the_sender_is_the_tokens_principal_whatever_the_body_says() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[&world.agent(1)]).await;
    let messages = format!("/v1/conversations/{room}/messages");
    for (n, sender) in [json!({"type": "SYSTEM", "id": "0"}), world.agent(1).principal]
        .into_iter()
        .enumerate()
    {
        let body = json!({"client_message_id": format!("{n}"), "message_type": "TEXT", "content": {"text": "x"}, "sender": sender});
        assert_eq!(
            ann.post(&messages, &body).await.ok(201)["message"]["sender"],
            ann.principal
        );
    }
    let system = json!({"client_message_id": "s", "message_type": "SYSTEM", "content": {"event": "x"}});
    ann.post(&messages, &system).await.refused("invalid_request");
    world.stop().await;
}

#[actix_web::test]
async fn a_send_with_an_expected_last_seq_is_refused_where_the_head_is_elsewhere() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let body = |key: &str, seq: u64| json!({"client_message_id": key, "message_type": "TEXT", "content": {"text": "x"}, "expected_last_seq": seq});
    let messages = format!("/v1/conversations/{room}/messages");
    ann.post(&messages, &body("a", 1)).await.ok(201);
    let stale = bob.post(&messages, &body("b", 1)).await.refused("precondition_failed");
    assert_eq!(stale["last_seq"], 2);
    let repeat = ann.post(&messages, &body("a", 1)).await.ok(200);
    assert_eq!(
        (&repeat["duplicate"], &repeat["message"]["seq"]),
        (&json!(true), &json!(2))
    );
    world.stop().await;
}
