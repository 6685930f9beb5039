//! B99: a pair of principals has one DIRECT conversation, however many ask at once.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::world::{Caller, Reply, World, id_of};

async fn open(me: &Caller, other: &Caller) -> Reply {
    let body = json!({"kind": "DIRECT", "member": other.principal});
    me.post("/v1/conversations", &body).await
}

#[actix_web::test]
async fn b99_a_hundred_who_ask_at_once_get_the_same_one() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let asked = (0..100).map(|n| if n % 2 == 0 { open(&ann, &bob) } else { open(&bob, &ann) });
    let replies = join_all(asked).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    let first = replies[0].body();
    for reply in &replies {
        assert!(matches!(reply.status, 200 | 201), "{}", reply.text);
        assert_eq!(reply.body()["conversation_id"], first["conversation_id"]);
    }
    assert_eq!(
        (&first["kind"], &first["last_seq"], &first["last_message"]),
        (&json!("DIRECT"), &json!(0), &Value::Null)
    );
    assert_eq!(first["me"]["joined_seq"], 0);
    world.stop().await;
}

#[actix_web::test]
async fn agents_are_others_and_with_oneself_it_is_notes() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let pair = open(&ann, &bob).await.ok(201);
    let with_agent = open(&ann, &world.agent(2)).await.ok(201);
    assert_ne!(id_of(&pair, "conversation_id"), id_of(&with_agent, "conversation_id"));
    let notes = open(&ann, &ann).await.ok(201);
    assert_eq!(notes["member_count"], 1);
    assert_eq!(
        open(&ann, &ann).await.ok(200)["conversation_id"],
        notes["conversation_id"]
    );
    world.stop().await;
}

#[actix_web::test]
async fn its_members_are_fixed() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let members = format!(
        "/v1/conversations/{}/members",
        id_of(&open(&ann, &bob).await.ok(201), "conversation_id")
    );
    ann.post(&members, &json!({"members": [cy.principal]}))
        .await
        .refused("forbidden");
    ann.delete(&format!("{members}/USER/2")).await.refused("forbidden");
    ann.delete(&format!("{members}/USER/1")).await.refused("forbidden");
    world.stop().await;
}

#[actix_web::test]
async fn a_group_with_a_client_request_id_is_made_once_per_creator() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let body = json!({"kind": "GROUP", "title": "once", "members": [bob.principal], "client_request_id": "req-1"});
    let replies = join_all((0..20).map(|_| ann.post("/v1/conversations", &body))).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    let id = id_of(&replies[0].body(), "conversation_id");
    assert!(
        replies
            .iter()
            .all(|reply| reply.body()["conversation_id"] == id.as_str())
    );
    assert_ne!(
        id_of(&bob.post("/v1/conversations", &body).await.ok(201), "conversation_id"),
        id
    );
    world.stop().await;
}
