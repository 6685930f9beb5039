//! Adding, removing, leaving.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::world::World;

#[actix_web::test]
async fn each_change_is_one_change_and_one_system_message() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&bob]).await;
    let path = format!("/v1/conversations/{room}");
    let added = ann
        .post(
            &format!("{path}/members"),
            &json!({"members": [cy.principal, bob.principal]}),
        )
        .await
        .ok(200);
    assert_eq!(
        added["members"],
        json!([cy.principal, bob.principal]),
        "whom the request named"
    );
    let change = &added["change"];
    assert_eq!(
        (&change["change_type"], &change["change_seq"]),
        (&json!("MEMBER_ADDED"), &json!(1))
    );
    assert_eq!(change["payload"], json!({"members": [cy.principal], "reason": "ADDED"}));
    let removed = ann.delete(&format!("{path}/members/USER/2")).await.ok(200);
    assert_eq!(
        removed["change"]["payload"],
        json!({"members": [bob.principal], "reason": "REMOVED"})
    );
    let left = cy.delete(&format!("{path}/members/USER/3")).await.ok(200);
    assert_eq!(
        (&left["change"]["payload"]["reason"], &left["change"]["change_seq"]),
        (&json!("LEFT"), &json!(3))
    );
    let history = ann.get(&format!("{path}/messages")).await.ok(200);
    let events: Vec<&Value> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["content"]["event"])
        .collect();
    assert_eq!(
        json!(events),
        json!([
            "conversation_created",
            "member_added",
            "member_removed",
            "member_removed"
        ])
    );
    ann.delete(&format!("{path}/members/USER/99"))
        .await
        .refused("not_found");
    ann.delete(&format!("{path}/members/ROBOT/2"))
        .await
        .refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn adding_twice_changes_nothing() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[]).await;
    let members = format!("/v1/conversations/{room}/members");
    let body = json!({"members": [bob.principal]});
    let replies = join_all((0..10).map(|_| ann.post(&members, &body))).await;
    let changes = replies
        .iter()
        .filter(|reply| reply.ok(200)["change"] != Value::Null)
        .count();
    assert_eq!(changes, 1);
    let seen = ann.get(&format!("/v1/conversations/{room}")).await.ok(200);
    assert_eq!(
        (&seen["member_count"], &seen["last_change_seq"], &seen["last_seq"]),
        (&json!(2), &json!(1), &json!(2))
    );
    world.stop().await;
}

#[actix_web::test]
async fn the_last_one_who_leaves_closes_the_door() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let path = format!("/v1/conversations/{room}");
    ann.delete(&format!("{path}/members/USER/1")).await.ok(200);
    assert_eq!(bob.get(&path).await.ok(200)["owner"], bob.principal);
    bob.delete(&format!("{path}/members/USER/2")).await.ok(200);
    bob.get(&path).await.refused("not_a_member");
    world.stop().await;
}
