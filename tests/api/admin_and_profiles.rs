//! What the operator may do, and what users see of each other.

use serde_json::{Value, json};

use super::socket::{Socket, words};
use super::world::{World, id_of};

#[actix_web::test]
async fn the_admin_api_wants_the_admin_key() {
    let world = World::with_admin().await;
    let (ann, admin) = (world.user(1), world.admin());
    for who in [ann.clone(), ann.with_token("wrong")] {
        who.get("/admin/v1/stats").await.refused("unauthenticated");
        who.get("/admin/v1/users/1").await.refused("unauthenticated");
        for path in ["tokens", "conversations", "conversations/7/messages"] {
            who.post_raw(&format!("/admin/v1/{path}"), "not json")
                .await
                .refused("unauthenticated");
        }
        who.put("/admin/v1/users/1", &json!({"status": "DISABLED"}))
            .await
            .refused("unauthenticated");
    }
    admin.get("/v1/me").await.refused("unauthenticated");
    ann.get("/v1/me").await.ok(200);
    let stats = admin.get("/admin/v1/stats").await.ok(200);
    assert_eq!((&stats["principals"], &stats["conversations"]), (&json!(1), &json!(0)));
    world.stop().await;
    let closed = World::start().await;
    closed.admin().get("/admin/v1/stats").await.refused("unauthenticated");
    closed.stop().await;
}

#[actix_web::test]
async fn users_are_made_changed_and_seen() {
    let world = World::with_admin().await;
    let (ann, bob, admin) = (world.user(1), world.user(2), world.admin());
    admin.get("/admin/v1/users/1").await.refused("not_found");
    for bad in ["abc", "0", "-1", "9223372036854775808"] {
        admin
            .put(&format!("/admin/v1/users/{bad}"), &json!({}))
            .await
            .refused("not_found");
    }
    let body = json!({"display_name": "Ann 安", "external_id": "ann@host", "status": "ACTIVE"});
    let made = admin.put("/admin/v1/users/1", &body).await.ok(200);
    let expected = json!({"principal": ann.principal, "external_id": "ann@host", "display_name": "Ann 安",
        "avatar_url": null, "status": "ACTIVE"});
    assert_eq!(made, expected);
    assert_eq!(admin.get("/admin/v1/users/1").await.ok(200), expected);
    admin
        .put("/admin/v1/users/2", &json!({"external_id": "ann@host"}))
        .await
        .refused("already_exists");
    admin
        .put("/admin/v1/users/1?type=AGENT", &json!({"external_id": "ann@host"}))
        .await
        .ok(200);
    admin
        .put("/admin/v1/users/1?type=SYSTEM", &json!({}))
        .await
        .refused("invalid_request");
    let mine = world.external("ann@host").get("/v1/me").await.ok(200);
    assert_eq!(
        mine["principal"], ann.principal,
        "a token with the external id is of the same principal"
    );
    let picture = json!({"avatar_url": "https://example.org/a.png"});
    let mine = ann.patch("/v1/me", &picture).await.ok(200);
    assert_eq!(
        (&mine["display_name"], &mine["avatar_url"]),
        (&json!("Ann 安"), &picture["avatar_url"])
    );
    assert!(mine.get("status").is_none());
    bob.get("/v1/users/USER/1").await.refused("not_found");
    ann.group(&[&bob]).await;
    assert_eq!(bob.get("/v1/users/USER/1").await.ok(200), mine);
    bob.get("/v1/users/USER/2").await.ok(200);
    for unseen in ["USER/3", "AGENT/1", "ROBOT/1", "USER/abc"] {
        bob.get(&format!("/v1/users/{unseen}")).await.refused("not_found");
    }
    ann.patch("/v1/me", &json!({"display_name": 7}))
        .await
        .refused("invalid_request");
    world.stop().await;
}

#[actix_web::test]
async fn an_external_id_that_moves_is_the_new_holders_at_once() {
    let world = World::with_admin().await;
    let admin = world.admin();
    let first = world.external("desk").get("/v1/me").await.ok(200);
    let path = format!("/admin/v1/users/{}", id_of(&first["principal"], "id"));
    admin.put(&path, &json!({"external_id": null})).await.ok(200);
    admin
        .put("/admin/v1/users/77", &json!({"external_id": "desk"}))
        .await
        .ok(200);
    let second = world.external("desk").get("/v1/me").await.ok(200);
    assert_eq!(second["principal"]["id"], "77");
    world.stop().await;
}

#[actix_web::test]
async fn a_disabled_user_is_sent_away_at_once_and_may_come_back() {
    let world = World::with_admin().await;
    let (ann, bob, admin) = (world.user(1), world.user(2), world.admin());
    let room = ann.group(&[&bob]).await;
    let mut sockets = [
        Socket::hello(&world, &bob, "phone").await,
        Socket::hello(&world, &bob, "desk").await,
    ];
    let mut peer = Socket::hello(&world, &ann, "phone").await;
    admin
        .put("/admin/v1/users/2", &json!({"status": "DISABLED"}))
        .await
        .ok(200);
    for socket in &mut sockets {
        assert_eq!(socket.closed().await, 4010);
    }
    bob.get("/v1/conversations").await.refused("unauthenticated");
    bob.send(&room, "k", "x").await.refused("unauthenticated");
    let mut late = Socket::open(&world).await;
    let refusal = late
        .ask(json!({"type": "hello", "token": bob.token, "device_id": "phone"}))
        .await;
    assert_eq!(refusal["code"], "unauthenticated");
    assert_eq!(late.closed().await, 4001);
    // What they said and where they are stays; nobody else is concerned.
    ann.say(&room, "life goes on").await;
    assert_eq!(words(&peer.pushed().await), ["life goes on"]);
    assert_eq!(
        ann.get(&format!("/v1/conversations/{room}")).await.ok(200)["member_count"],
        2
    );
    admin
        .put("/admin/v1/users/2", &json!({"status": "SLEEPING"}))
        .await
        .refused("invalid_request");
    admin
        .put("/admin/v1/users/2", &json!({"status": "ACTIVE"}))
        .await
        .ok(200);
    bob.get("/v1/conversations").await.ok(200);
    Socket::hello(&world, &bob, "phone").await;
    world.stop().await;
}

#[actix_web::test]
async fn tokens_are_made_for_the_operator() {
    let world = World::with_admin().await;
    let admin = world.admin();
    let made = admin
        .post("/admin/v1/tokens", &json!({"sub": "7", "typ": "AGENT", "ttl_secs": 60}))
        .await
        .ok(201);
    let agent = world.agent(7).with_token(made["token"].as_str().unwrap());
    assert_eq!(agent.get("/v1/me").await.ok(200)["principal"], agent.principal);
    assert!(made["expires_at"].as_str().unwrap().contains(".000"), "{made}");
    for bad in [
        json!({}),
        json!({"sub": "7", "typ": "SYSTEM"}),
        json!({"sub": "7", "ttl_secs": 0}),
    ] {
        admin.post("/admin/v1/tokens", &bad).await.refused("invalid_request");
    }
    world.stop().await;
}

#[actix_web::test]
async fn the_operator_makes_conversations_and_speaks_for_others() {
    let world = World::with_admin().await;
    let (ann, bob, admin) = (world.user(1), world.user(2), world.admin());
    let mut body = json!({"kind": "GROUP", "title": "made", "members": [bob.principal], "posting": "ADMINS",
        "client_request_id": "once"});
    admin
        .post("/admin/v1/conversations", &body)
        .await
        .refused("invalid_request");
    body["owner"] = ann.principal.clone();
    let room = admin.post("/admin/v1/conversations", &body).await.ok(201);
    assert_eq!((&room["owner"], &room["me"]["role"]), (&ann.principal, &json!("OWNER")));
    let room = id_of(&room, "conversation_id");
    let again = admin.post("/admin/v1/conversations", &body).await.ok(200);
    assert_eq!(again["conversation_id"], room);
    let pair = json!({"kind": "DIRECT", "owner": ann.principal, "member": bob.principal});
    let pair = admin.post("/admin/v1/conversations", &pair).await.ok(201);
    assert_eq!(
        ann.get(&format!("/v1/conversations/{}", id_of(&pair, "conversation_id")))
            .await
            .ok(200)["kind"],
        "DIRECT"
    );
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    let path = format!("/admin/v1/conversations/{room}/messages");
    let say = |sender: Value| {
        json!({"sender": sender, "client_message_id": "k", "message_type": "NOTE",
        "content": {"text": format!("by {}", sender["type"])}})
    };
    for sender in [json!({"type": "SYSTEM", "id": "0"}), bob.principal.clone()] {
        let first = admin.post(&path, &say(sender.clone())).await.ok(201);
        assert_eq!(first["message"]["sender"], sender);
        let again = admin.post(&path, &say(sender)).await.ok(200);
        assert_eq!(
            (&again["duplicate"], &again["message"]["message_id"]),
            (&json!(true), &first["message"]["message_id"])
        );
    }
    assert_eq!(words(&phone.pushed().await), ["by \"SYSTEM\"", "by \"USER\""]);
    assert_eq!(
        bob.get(&format!("/v1/conversations/{room}")).await.ok(200)["me"]["unread_count"],
        0
    );
    admin
        .post(&path, &say(world.user(3).principal))
        .await
        .refused("not_a_member");
    let system = json!({"client_message_id": "s", "message_type": "SYSTEM", "content": {"event": "member_removed"}});
    admin.post(&path, &system).await.refused("invalid_request");
    let nowhere = path.replace(&room, "123");
    admin
        .post(&nowhere, &say(json!({"type": "SYSTEM", "id": "0"})))
        .await
        .refused("not_found");
    ann.delete(&format!("/v1/conversations/{room}")).await.ok(200);
    let late = json!({"client_message_id": "late", "message_type": "TEXT", "content": {"text": "x"}});
    admin.post(&path, &late).await.refused("conversation_closed");
    world.stop().await;
}

#[actix_web::test]
async fn without_auto_provisioning_the_operator_makes_users() {
    let world = World::start_with(|config| {
        config.auth.auto_provision = false;
        config.admin.api_key = Some(onescribe::config::SecretString::from("the admin key of the tests"));
    })
    .await;
    let (ann, admin) = (world.user(1), world.admin());
    ann.get("/v1/me").await.refused("unauthenticated");
    admin
        .put("/admin/v1/users/1", &json!({"display_name": "Ann"}))
        .await
        .ok(200);
    assert_eq!(ann.get("/v1/me").await.ok(200)["display_name"], "Ann");
    let body = json!({"kind": "GROUP", "title": "x", "members": [{"type": "USER", "id": "2"}]});
    ann.post("/v1/conversations", &body).await.refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn what_the_operator_says_is_never_unread_and_so_mentions_nobody_and_the_operator_takes_it_away() {
    let world = World::with_admin().await;
    let (ann, bob, admin) = (world.user(1), world.user(2), world.admin());
    let room = ann.group(&[&bob]).await;
    let path = format!("/admin/v1/conversations/{room}/messages");
    let content = json!({"text": "maintenance at noon", "mention_all": true});
    let body = json!({"client_message_id": "k", "message_type": "TEXT", "content": content});
    let said = admin.post(&path, &body).await.ok(201);
    let me = bob.get(&format!("/v1/conversations/{room}")).await.ok(200)["me"].clone();
    assert_eq!((&me["unread_count"], &me["mention_count"]), (&json!(0), &json!(0)));
    let message = format!("/admin/v1/messages/{}", said["message"]["message_id"].as_str().unwrap());
    bob.delete(&message).await.refused("unauthenticated");
    let gone = admin.delete(&message).await.ok(200);
    assert_eq!(gone["change"]["change_type"], "DELETED");
    assert_eq!(bob.page(&room, "").await.0, [1]);
    world.stop().await;
}
