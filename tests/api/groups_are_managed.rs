//! Title, settings, roles and the end of a group, and who is told of them.

use reqwest::Method;
use serde_json::{Value, json};

use super::socket::{Socket, words};
use super::world::{Caller, World, id_of};

fn member(room: &str, id: u64) -> String {
    format!("/v1/conversations/{room}/members/USER/{id}")
}

/// The changes that were pushed: number, type, payload.
fn changes(pushes: &[Value]) -> Vec<(u64, String, Value)> {
    let changes = pushes.iter().filter(|push| push["type"] == "conversation.changed");
    let told = changes.map(|push| {
        let change = &push["change"];
        let number = change["change_seq"].as_u64().unwrap();
        (
            number,
            change["change_type"].as_str().unwrap().to_owned(),
            change["payload"].clone(),
        )
    });
    told.collect()
}

fn numbers(pushes: &[Value]) -> Vec<u64> {
    changes(pushes).into_iter().map(|(number, ..)| number).collect()
}

#[actix_web::test]
async fn the_acting_device_learns_its_change_from_the_reply_and_the_others_from_a_push() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let path = format!("/v1/conversations/{room}");
    let mut phone = Socket::hello(&world, &ann, "phone").await;
    let mut desk = Socket::hello(&world, &ann, "desk").await;
    let mut peer = Socket::hello(&world, &bob, "phone").await;
    let title = json!({"title": "named"});
    let named = ann.call_as("phone", Method::PATCH, &path, &title).await.ok(200);
    assert_eq!(
        (&named["title"], &named["change"]["change_seq"]),
        (&json!("named"), &json!(1))
    );
    assert_eq!(named["change"]["payload"], title);
    let role = json!({"role": "ADMIN"});
    let given = ann
        .call_as("phone", Method::PATCH, &member(&room, 2), &role)
        .await
        .ok(200);
    assert_eq!(
        given["change"]["payload"],
        json!({"principal": bob.principal, "role": "ADMIN"})
    );
    // A transfer is two changes: the reply tells the first, so the second is pushed to the acting device as well.
    let owner = json!({"role": "OWNER"});
    let handed = ann
        .call_as("phone", Method::PATCH, &member(&room, 2), &owner)
        .await
        .ok(200);
    assert_eq!(handed["change"]["change_seq"], 3);
    let quiet = bob.patch(&path, &json!({"posting": "ADMINS"})).await.ok(200);
    assert_eq!(quiet["change"]["payload"], json!({"posting": "ADMINS"}));
    let seen = phone.pushed().await;
    assert_eq!(numbers(&seen), [4, 5], "with 1 to 3 of the replies there is no hole");
    assert_eq!(words(&seen), ["title_changed", "role_changed", "role_changed"]);
    for socket in [&mut desk, &mut peer] {
        let seen = socket.pushed().await;
        assert_eq!(numbers(&seen), [1, 2, 3, 4, 5]);
        assert_eq!(
            changes(&seen)[3].2,
            json!({"principal": ann.principal, "role": "ADMIN"})
        );
        assert_eq!(words(&seen), ["title_changed", "role_changed", "role_changed"]);
    }
    world.stop().await;
}

#[actix_web::test]
async fn what_is_so_already_is_answered_with_no_change() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let path = format!("/v1/conversations/{room}");
    for body in [
        json!({}),
        json!({"title": "room"}),
        json!({"avatar_url": null, "unknown": 7}),
    ] {
        let same = ann.patch(&path, &body).await.ok(200);
        assert_eq!((&same["change"], &same["last_change_seq"]), (&Value::Null, &json!(0)));
    }
    let same = ann.patch(&member(&room, 2), &json!({"role": "MEMBER"})).await.ok(200);
    assert_eq!(same["change"], Value::Null);
    ann.delete(&path).await.ok(200);
    let again = ann.delete(&path).await.ok(200);
    assert_eq!(
        (&again["change"], &again["status"]),
        (&Value::Null, &json!("DISSOLVED"))
    );
    world.stop().await;
}

#[actix_web::test]
async fn a_patch_leaves_what_is_absent_and_unsets_what_is_null() {
    let world = World::start().await;
    let ann = world.user(1);
    let path = format!("/v1/conversations/{}", ann.group(&[]).await);
    let set = json!({"avatar_url": "https://example.org/安.png", "adding": "ALL", "history_visibility": "JOINED"});
    ann.patch(&path, &set).await.ok(200);
    let seen = ann.patch(&path, &json!({"title": null})).await.ok(200);
    assert_eq!(seen["change"]["payload"], json!({"title": null}));
    assert_eq!(
        json!([
            seen["title"],
            seen["avatar_url"],
            seen["adding"],
            seen["history_visibility"]
        ]),
        json!([null, "https://example.org/安.png", "ALL", "JOINED"])
    );
    for bad in [
        json!({"posting": null}),
        json!({"history_visibility": "?"}),
        json!({"title": 7}),
        json!({"title": "x".repeat(257)}),
        json!({"title": "a\nb"}),
        json!({"avatar_url": "x".repeat(2_049)}),
    ] {
        ann.patch(&path, &bad).await.refused("invalid_request");
    }
    let roles = member(path.rsplit('/').next().unwrap(), 1);
    for bad in [json!({}), json!({"role": "KING"}), json!({"role": null})] {
        ann.patch(&roles, &bad).await.refused("invalid_request");
    }
    world.stop().await;
}

#[actix_web::test]
async fn history_visibility_acts_at_once_on_reads_and_on_pushes() {
    let world = World::start().await;
    let (ann, new) = (world.user(1), world.user(2));
    let room = ann.group(&[]).await;
    let path = format!("/v1/conversations/{room}");
    let old = ann.say(&room, "old secret").await;
    let message = format!("/v1/messages/{}", id_of(&old, "message_id"));
    ann.post(&format!("{path}/members"), &json!({"members": [new.principal]}))
        .await
        .ok(200);
    let mut phone = Socket::hello(&world, &new, "phone").await;
    assert_eq!(new.page(&room, "").await.0, [1, 2, 3]);
    new.get(&message).await.ok(200);
    let edit = async |who: &Caller, text: &str| {
        let body = json!({"content": {"text": text}});
        who.patch(&message, &body).await.ok(200);
    };
    for (to, seqs) in [("JOINED", vec![3]), ("SHARED", vec![1, 2, 3])] {
        ann.patch(&path, &json!({"history_visibility": to})).await.ok(200);
        assert_eq!(new.page(&room, "").await.0, seqs, "{to}");
        let reply = new.get(&message).await;
        let history = phone.ask(json!({"type": "history", "conversation_id": room})).await;
        edit(&ann, &format!("secret, edited for {to}")).await;
        let pushed = Value::from(phone.pushed().await);
        if to == "JOINED" {
            reply.refused("not_found");
            assert!(!history.to_string().contains("secret") && !pushed.to_string().contains("secret"));
            assert!(pushed.to_string().contains("HIDDEN"), "{pushed}");
        } else {
            assert_eq!(reply.ok(200)["seq"], 2);
            assert!(history.to_string().contains("secret") && pushed.to_string().contains("edited for SHARED"));
        }
    }
    world.stop().await;
}

#[actix_web::test]
async fn a_dissolved_group_can_only_be_read() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let path = format!("/v1/conversations/{room}");
    let said = bob.say(&room, "x").await;
    let message = format!("/v1/messages/{}", id_of(&said, "message_id"));
    let mut peer = Socket::hello(&world, &bob, "phone").await;
    bob.delete(&path).await.refused("forbidden");
    let ended = ann.delete(&path).await.ok(200);
    assert_eq!(ended["change"]["payload"], json!({"status": "DISSOLVED"}));
    let pushed = peer.pushed().await;
    assert_eq!(
        (numbers(&pushed), words(&pushed)),
        (vec![1], vec!["dissolved".to_owned()])
    );
    bob.send(&room, "late", "x").await.refused("conversation_closed");
    bob.patch(&message, &json!({"content": {"text": "y"}}))
        .await
        .refused("conversation_closed");
    bob.post(&format!("{message}/recall"), &json!({}))
        .await
        .refused("conversation_closed");
    ann.patch(&path, &json!({"title": "y"}))
        .await
        .refused("conversation_closed");
    ann.patch(&member(&room, 2), &json!({"role": "ADMIN"}))
        .await
        .refused("conversation_closed");
    ann.delete(&member(&room, 2)).await.refused("conversation_closed");
    ann.delete(&message).await.refused("conversation_closed");
    assert_eq!(bob.page(&room, "").await.0, [1, 2, 3]);
    assert_eq!(bob.get(&message).await.ok(200)["content"], json!({"text": "x"}));
    assert_eq!(bob.get(&path).await.ok(200)["member_count"], 2);
    world.stop().await;
}
