//! Devices: who is online, which were here, and what becomes of one that is deleted.

use serde_json::json;

use super::socket::Socket;
use super::world::World;

#[actix_web::test]
async fn b92_a_deleted_device_is_closed_with_its_own_code_and_comes_back_as_a_new_one() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let one = ann.say(&room, "one").await;
    let mut phone = Socket::hello(&world, &bob, "my/phone%").await;
    let ack = json!({"type": "message.ack", "acks": [{"conversation_id": room, "seq": one["seq"]}]});
    assert_eq!(phone.ask(ack).await["type"], "ok");
    let stored = json!({"device_id": "my/phone%"});
    assert_eq!(bob.post("/v1/sync", &stored).await.ok(200)["conversations"], json!([]));
    ann.delete("/v1/me/devices/my%2Fphone%25").await.refused("not_found");
    let listed = bob.get("/v1/me/devices").await.ok(200);
    assert_eq!(
        (&listed["items"][0]["device_id"], &listed["items"][0]["online"]),
        (&json!("my/phone%"), &json!(true))
    );
    bob.delete("/v1/me/devices/my%2Fphone%25").await.ok(200);
    assert_eq!(phone.closed().await, 4010);
    assert_eq!(bob.get("/v1/me/devices").await.ok(200)["items"], json!([]));
    bob.delete("/v1/me/devices/my%2Fphone%25").await.refused("not_found");
    bob.delete("/v1/me/devices/%20").await.refused("not_found");
    let page = bob.post("/v1/sync", &stored).await.ok(200);
    assert_eq!(
        page["conversations"][0]["messages"].as_array().unwrap().len(),
        2,
        "its cursors are forgotten"
    );
    let listed = bob.get("/v1/me/devices").await.ok(200);
    assert_eq!(
        (&listed["items"][0]["platform"], &listed["items"][0]["online"]),
        (&json!(null), &json!(false))
    );
    drop(Socket::hello(&world, &bob, "my/phone%").await);
    world.stop().await;
}

#[actix_web::test]
async fn a_connected_device_is_listed_however_many_were_here_after_it() {
    let world = World::start().await;
    let bob = world.user(2);
    let _phone = Socket::hello(&world, &bob, "phone").await;
    for later in ["desk", "zebra"] {
        bob.post("/v1/sync", &json!({"device_id": later})).await.ok(200);
    }
    let (mut listed, mut query) = (Vec::new(), "limit=1".to_owned());
    loop {
        let page = bob.get(&format!("/v1/me/devices?{query}")).await.ok(200);
        let device = &page["items"][0];
        listed.push((device["device_id"].clone(), device["online"].clone()));
        // Coming back in between moves nobody to another page.
        bob.post("/v1/me/acks", &json!({"device_id": "desk", "acks": []}))
            .await
            .ok(200);
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("limit=1&cursor={cursor}"),
            None => break,
        }
    }
    let expected = [("desk", false), ("phone", true), ("zebra", false)];
    assert_eq!(listed, expected.map(|(name, online)| (json!(name), json!(online))));
    world.stop().await;
}

#[actix_web::test]
async fn b80_the_total_of_unread_is_the_sum_of_the_list() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    assert_eq!(
        bob.get("/v1/me/unread").await.ok(200),
        json!({"total": 0, "conversations": []})
    );
    for messages in [0, 2, 3] {
        let room = ann.group(&[&bob]).await;
        for _ in 0..messages {
            ann.say(&room, "x").await;
        }
    }
    let unread = bob.get("/v1/me/unread").await.ok(200);
    let listed = bob.get("/v1/conversations").await.ok(200);
    let counts = |list: &serde_json::Value, count: fn(&serde_json::Value) -> u64| {
        let list = list.as_array().unwrap().iter();
        let counts = list.map(|one| (one["conversation_id"].to_string(), count(one)));
        counts.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    let of_list = counts(&listed["items"], |one| one["me"]["unread_count"].as_u64().unwrap());
    assert_eq!(
        counts(&unread["conversations"], |one| one["unread_count"].as_u64().unwrap()),
        of_list
    );
    assert_eq!(unread["total"], 5);
    world.stop().await;
}
