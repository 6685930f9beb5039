//! Whatever is refused, and whoever refuses it: one form.

use reqwest::Method;
use serde_json::json;

use super::world::{Reply, World};

#[actix_web::test]
async fn paths_and_methods_that_do_not_exist() {
    let world = World::start().await;
    let ann = world.user(1);
    for path in [
        "/",
        "/v1",
        "/v1/no/such/path",
        "/v1/conversations/7/no",
        "/v2/conversations",
        "/%ff",
    ] {
        ann.get(path).await.refused("not_found");
    }
    for (method, path) in [
        (Method::PUT, "/v1/conversations"),
        (Method::POST, "/healthz"),
        (Method::POST, "/v1/messages/7"),
    ] {
        let reply = ann.call(method, path, None).await;
        assert_eq!(reply.status, 405, "{}", reply.text);
        assert_eq!(reply.headers["content-type"], "application/problem+json");
        let body = reply.body();
        assert_eq!(
            (&body["code"], &body["status"], &body["title"]),
            (&json!("invalid_request"), &json!(405), &json!("Method Not Allowed"))
        );
    }
    world.stop().await;
}

#[actix_web::test]
async fn conversations_and_messages_that_do_not_exist() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    ann.get("/v1/conversations/123456789").await.refused("not_found");
    ann.get("/v1/conversations/123456789/members")
        .await
        .refused("not_found");
    ann.get("/v1/conversations/123456789/messages")
        .await
        .refused("not_found");
    ann.send("123456789", "k", "x").await.refused("not_found");
    ann.get("/v1/messages/123456789").await.refused("not_found");
    let quote =
        json!({"client_message_id": "q", "message_type": "TEXT", "content": {"text": "x"}, "quoted_message_id": "1"});
    ann.post(&format!("/v1/conversations/{room}/messages"), &quote)
        .await
        .refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn a_content_type_is_not_asked_for_and_a_wrong_one_does_no_harm() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    for (n, kind) in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")]
        .into_iter()
        .enumerate()
    {
        let body = json!({"client_message_id": n.to_string(), "message_type": "TEXT", "content": {"text": "x"}});
        let mut request = world
            .http
            .post(format!("{}/v1/conversations/{room}/messages", world.url))
            .bearer_auth(&ann.token);
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        Reply::of(request.body(body.to_string()), format!("{kind:?}"))
            .await
            .ok(201);
    }
    world.stop().await;
}

#[actix_web::test]
async fn health_needs_no_token() {
    let world = World::start().await;
    for path in ["/healthz", "/readyz"] {
        let reply = Reply::of(world.http.get(format!("{}{path}", world.url)), path.to_owned()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    world.stop().await;
}

#[actix_web::test]
async fn a_large_body_is_refused_in_a_way_that_its_sender_can_read() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    for bytes in [131_073, 1_000_000, 8_000_000] {
        let reply = ann
            .post_raw(&format!("/v1/conversations/{room}/messages"), vec![b'x'; bytes])
            .await;
        reply.refused("payload_too_large");
    }
    world.stop().await;
}
