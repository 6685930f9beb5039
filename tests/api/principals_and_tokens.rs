//! Who is let in, and as whom.

use serde_json::{Value, json};

use super::world::{Reply, World, id_of};

#[actix_web::test]
async fn without_a_good_token_nothing_is_looked_at() {
    let world = World::start().await;
    let good = world.user(1).token;
    let cut = &good[..good.len() - 6];
    let bearer = |token: &str| Some(format!("Bearer {token}"));
    for header in [
        None,
        bearer(""),
        bearer("x.y.z"),
        bearer(cut),
        Some(format!("Basic {good}")),
        Some(good.clone()),
    ] {
        for path in [
            "/v1/conversations",
            "/v1/conversations/abc",
            "/v1/messages/7",
            "/v1/me/acks",
        ] {
            let method = if path.ends_with("acks") {
                reqwest::Method::POST
            } else {
                reqwest::Method::GET
            };
            let mut request = world
                .http
                .request(method, format!("{}{path}", world.url))
                .body("not json");
            if let Some(header) = &header {
                request = request.header("authorization", header);
            }
            let reply = Reply::of(request, format!("{path} with {header:?}")).await;
            let body = reply.refused("unauthenticated");
            assert_eq!(reply.headers["www-authenticate"], "Bearer");
            assert!(!reply.text.contains(cut), "{body}");
        }
    }
    world.stop().await;
}

#[actix_web::test]
async fn an_external_id_is_one_principal_wherever_it_is_named() {
    let world = World::start().await;
    let ann = world.user(1);
    let name = "0d9f-uuid 键";
    let body = json!({"kind": "GROUP", "title": "x", "members": [
        {"type": "USER", "external_id": name}, {"type": "AGENT", "external_id": name}, {"type": "USER", "external_id": name},
    ]});
    let room = id_of(&ann.post("/v1/conversations", &body).await.ok(201), "conversation_id");
    let members = ann.get(&format!("/v1/conversations/{room}/members")).await.ok(200);
    assert_eq!(
        members["items"].as_array().unwrap().len(),
        3,
        "named twice is there once, USER is not AGENT"
    );
    // Named first, seen later.
    let message = world.external(name).say(&room, "here I am").await;
    assert_eq!(message["sender"]["type"], "USER");
    id_of(&message["sender"], "id");
    let ids: Vec<&Value> = members["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["principal"])
        .collect();
    assert!(ids.contains(&&message["sender"]));
    // A decimal external id is the id itself.
    let direct = json!({"kind": "DIRECT", "member": {"type": "USER", "external_id": "1"}});
    assert_eq!(ann.post("/v1/conversations", &direct).await.ok(201)["member_count"], 1);
    world.stop().await;
}

#[actix_web::test]
async fn without_auto_provisioning_unknown_principals_are_turned_away() {
    let world = World::start_with(|config| config.auth.auto_provision = false).await;
    world.user(1).get("/v1/conversations").await.refused("unauthenticated");
    world
        .external("nobody")
        .get("/v1/conversations")
        .await
        .refused("unauthenticated");
    world.stop().await;
}

#[actix_web::test]
async fn the_acting_device_is_named_by_a_header() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    let send = |device: &'static str, key: &'static str| {
        let body = json!({"client_message_id": key, "message_type": "TEXT", "content": {"text": "x"}});
        let request = world
            .http
            .post(format!("{}/v1/conversations/{room}/messages", world.url));
        let request = request
            .bearer_auth(&ann.token)
            .header("x-device-id", device)
            .body(body.to_string());
        Reply::of(request, format!("as {device}"))
    };
    send("phone", "a").await.ok(201);
    for bad in ["two words", ""] {
        let refusal = send(bad, "b").await.refused("invalid_request");
        assert!(refusal["detail"].as_str().unwrap().starts_with("X-Device-Id"));
    }
    world.stop().await;
}

#[actix_web::test]
async fn acknowledgements_are_bounded_and_checked() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    let acks = |acks: Value| json!({"device_id": "phone", "acks": acks});
    let good = json!({"conversation_id": room, "seq": 1, "change_seq": 0});
    ann.post("/v1/me/acks", &acks(json!([good]))).await.ok(200);
    ann.post(
        "/v1/me/acks",
        &acks(json!([{"conversation_id": room, "seq": 1}, {"conversation_id": "7", "seq": 9}])),
    )
    .await
    .ok(200);
    for bad in [
        json!({"acks": []}),
        json!({"device_id": "a b", "acks": []}),
        json!({"device_id": "phone"}),
        acks(json!({})),
        acks(json!([{"conversation_id": 7, "seq": 1}])),
        acks(json!([{"conversation_id": "7"}])),
        acks(json!([{"conversation_id": "7", "seq": -1}])),
        acks(json!(vec![good; 501])),
    ] {
        ann.post("/v1/me/acks", &bad).await.refused("invalid_request");
    }
    world.stop().await;
}
