//! Invitations: whoever may add may invite, and it is worth what their right is worth when it is accepted.

use std::slice;

use serde_json::{Value, json};
use sqlx::{Connection as _, QueryBuilder, Sqlite, SqliteConnection};

use super::friends_are_asked::{answer, listed};
use super::socket::Socket;
use super::world::{Caller, Reply, World, id_of};

pub(crate) async fn invite(who: &Caller, room: &str, to: &[&Caller]) -> Reply {
    let to: Vec<&Value> = to.iter().map(|one| &one.principal).collect();
    who.post(&format!("/v1/conversations/{room}/invites"), &json!({ "to": to }))
        .await
}

pub(crate) async fn invited(who: &Caller, room: &str, one: &Caller) -> String {
    let page = invite(who, room, &[one]).await.ok(200);
    id_of(&page["items"][0], "notification_id")
}

#[actix_web::test]
async fn b120_an_invitation_is_told_once_and_accepted_it_leads_into_the_group() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&cy]).await;
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    let page = invite(&ann, &room, &[&bob, &cy, &bob]).await.ok(200);
    assert_eq!(
        page["items"].as_array().unwrap().len(),
        1,
        "members are passed over: {page}"
    );
    let note = &page["items"][0];
    assert_eq!((&note["kind"], &note["to"]), (&json!("GROUP_INVITE"), &bob.principal));
    assert_eq!(
        (&note["text"], &note["conversation_id"]),
        (&json!("room"), &json!(room))
    );
    let id = id_of(note, "notification_id");
    assert_eq!(invited(&ann, &room, &bob).await, id);
    bob.get(&format!("/v1/conversations/{room}"))
        .await
        .refused("not_a_member");
    for _ in 0..2 {
        answer(&bob, &id, "accept").await.ok(200);
    }
    let pushed = phone.pushed().await;
    assert!(
        pushed.iter().any(|push| push["type"] == "conversation.joined"),
        "{pushed:?}"
    );
    let page = ann.get(&format!("/v1/conversations/{room}/messages")).await.ok(200);
    let last = page["items"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(
        last,
        json!({"event": "member_added", "actor": bob.principal, "members": [bob.principal]})
    );
    // Who has left is not in it again by the same invitation.
    bob.delete(&format!("/v1/conversations/{room}/members/USER/2"))
        .await
        .ok(200);
    answer(&bob, &id, "accept").await.ok(200);
    bob.get(&format!("/v1/conversations/{room}"))
        .await
        .refused("not_a_member");
    world.stop().await;
}

#[actix_web::test]
async fn what_cannot_be_accepted_any_more_is_refused_with_its_reason_and_expired() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&cy]).await;
    let role = |role: &str| json!({ "role": role });
    let cy_in_it = format!("/v1/conversations/{room}/members/USER/3");
    ann.patch(&cy_in_it, &role("ADMIN")).await.ok(200);
    let by_cy = invited(&cy, &room, &bob).await;
    ann.patch(&cy_in_it, &role("MEMBER")).await.ok(200);
    answer(&bob, &by_cy, "accept").await.refused("forbidden");
    answer(&bob, &by_cy, "accept").await.refused("already_decided");
    let by_ann = invited(&ann, &room, &bob).await;
    ann.delete(&format!("/v1/conversations/{room}")).await.ok(200);
    answer(&bob, &by_ann, "accept").await.refused("conversation_closed");
    assert_eq!(listed(&bob, "EXPIRED").await, [by_ann, by_cy]);
    bob.get(&format!("/v1/conversations/{room}"))
        .await
        .refused("not_a_member");
    world.stop().await;
}

#[actix_web::test]
async fn who_may_not_add_may_not_invite_and_a_list_is_bounded() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&cy]).await;
    invite(&cy, &room, &[&bob]).await.refused("forbidden");
    invite(&bob, &room, &[&bob]).await.refused("not_a_member");
    invite(&ann, "7", &[&bob]).await.refused("not_found");
    let path = format!("/v1/conversations/{room}");
    ann.patch(&path, &json!({"adding": "ALL"})).await.ok(200);
    invite(&cy, &room, &[&bob]).await.ok(200);
    let many: Vec<Value> = (10..111)
        .map(|id| json!({"type": "USER", "id": id.to_string()}))
        .collect();
    for to in [json!(many), json!("x"), json!(null), json!([7])] {
        let body = json!({ "to": to });
        ann.post(&format!("{path}/invites"), &body)
            .await
            .refused("invalid_request");
    }
    // One who has blocked the inviter does not keep the others from it, and alone it is said.
    bob.set("/v1/me/blocks/USER/1").await.ok(200);
    let page = invite(&ann, &room, &[&bob, &world.user(4)]).await.ok(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    invite(&ann, &room, &[&bob]).await.refused("forbidden");
    world.stop().await;
}

#[actix_web::test]
async fn an_invitation_that_was_declined_is_not_repeated_at_once_and_one_that_was_deleted_is_made_again() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let (room, other) = (ann.group(&[]).await, ann.group(&[]).await);
    let id = invited(&ann, &room, &bob).await;
    answer(&bob, &id, "decline").await.ok(200);
    let page = invite(&ann, &room, &[&bob]).await.ok(200);
    assert_eq!(
        (&page["items"][0]["notification_id"], &page["items"][0]["state"]),
        (&json!(id), &json!("DECLINED"))
    );
    let hidden = invited(&ann, &other, &bob).await;
    bob.set(&format!("/v1/messages/{hidden}/actions/DELETE")).await.ok(200);
    let seen = invited(&ann, &other, &bob).await;
    assert_eq!(listed(&bob, "PENDING").await, slice::from_ref(&seen));
    answer(&bob, &seen, "accept").await.ok(200);
    bob.get(&format!("/v1/conversations/{other}")).await.ok(200);
    world.stop().await;
}

/// Whether something is still to be done with a notification; given a time, it is as if it had not been done.
async fn due_at(world: &World, id: &str, undone: Option<i64>) -> Option<i64> {
    let mut connection = SqliteConnection::connect(&world.database_url()).await.unwrap();
    let row = format!("WHERE notification_id = {id}");
    if let Some(at) = undone {
        let mut update = QueryBuilder::<Sqlite>::new(format!("UPDATE im_notification SET due_at = {at} {row}"));
        update.build().execute(&mut connection).await.unwrap();
    }
    let mut select = QueryBuilder::<Sqlite>::new(format!("SELECT due_at FROM im_notification {row}"));
    let due_at = select.build_query_scalar().fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    due_at
}

#[actix_web::test]
async fn who_left_after_an_acceptance_that_was_cut_off_is_not_brought_back() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[]).await;
    let id = invited(&ann, &room, &bob).await;
    answer(&bob, &id, "accept").await.ok(200);
    bob.delete(&format!("/v1/conversations/{room}/members/USER/2"))
        .await
        .ok(200);
    // As a process leaves it that died between the joining and the note of it.
    due_at(&world, &id, Some(1)).await;
    while due_at(&world, &id, None).await.is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    bob.get(&format!("/v1/conversations/{room}"))
        .await
        .refused("not_a_member");
    world.stop().await;
}
