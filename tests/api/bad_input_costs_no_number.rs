//! What is refused at the door never reaches a writer: the next message has the next number.

use serde_json::{Value, json};

use super::world::{CONTENT_BYTES, World, id_of};

fn body_with(content: &str) -> String {
    format!("{{\"client_message_id\":\"k\",\"message_type\":\"TEXT\",\"content\":{content}}}")
}

fn nested(levels: usize) -> String {
    // The content itself is the first level.
    let inner = levels - 1;
    format!("{{\"text\":\"x\",\"d\":{}1{}}}", "[".repeat(inner), "]".repeat(inner))
}

fn text_of(bytes: usize) -> String {
    format!("{{\"text\":\"{}\"}}", "x".repeat(bytes - "{\"text\":\"\"}".len()))
}

#[actix_web::test]
async fn bodies_that_cannot_be_understood() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[&world.user(2)]).await;
    let messages = format!("/v1/conversations/{room}/messages");
    let mut bad: Vec<Vec<u8>> = [
        "",
        "null",
        "[]",
        "{",
        "7",
        "\"text\"",
        "{\"a\":1}}",
        "{'a':1}",
        "\u{feff}{}",
        "{}x",
        "{}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    bad.push(b"\xef\xbb\xbf{}".to_vec());
    for content in [
        "\"text\"",
        "null",
        "[]",
        "7",
        "NaN",
        "{}",
        "{\"text\":7}",
        "{\"text\":\"\"}",
        "{\"text\":\"a\\u0000b\"}",
        "{\"text\":\"x\",\"k\\u0000\":1}",
        "{\"text\":\"x\",\"deep\":[{\"a\":[\"\\u0000\"]}]}",
        "{\"text\":\"\\ud800\"}",
        "{\"text\":\"x\",\"\\udc00\":1}",
        "{\"text\":\"\\ud83d\\u0041\"}",
    ] {
        bad.push(body_with(content).into_bytes());
    }
    for bytes in [&b"\xff"[..], b"\xc3\x28", b"\xed\xa0\x80"] {
        let text = body_with("{\"text\":\"?\"}");
        let (before, after) = text.split_once('?').unwrap();
        bad.push([before.as_bytes(), bytes, after.as_bytes()].concat());
    }
    // Also in fields that nobody asks for.
    for unknown in ["\"\\u0000\"", "[{\"k\\u0000\":1}]", "\"\\ud800\""] {
        let body = body_with("{\"text\":\"x\"}").replacen('{', &format!("{{\"unknown\":{unknown},"), 1);
        bad.push(body.into_bytes());
    }
    for levels in [65, 70, 1_000, 20_000] {
        bad.push(body_with(&nested(levels)).into_bytes());
    }
    for body in bad {
        let reply = ann.post_raw(&messages, &body).await;
        let detail = reply.refused("invalid_request")["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(": "), "names the field: {detail}");
    }
    assert_eq!(
        ann.post_raw(&messages, body_with(&nested(64))).await.ok(201)["message"]["seq"],
        2
    );
    world.stop().await;
}

#[actix_web::test]
async fn fields_that_are_missing_or_of_another_type() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[&world.user(2)]).await;
    let messages = format!("/v1/conversations/{room}/messages");
    let quoted = ann.say(&room, "target").await["message_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let good = json!({"client_message_id": "k", "message_type": "TEXT", "content": {"text": "x"}});
    for (field, values) in [
        (
            "client_message_id",
            vec![
                Value::Null,
                json!(""),
                json!("a".repeat(129)),
                json!("tab\there"),
                json!(7),
            ],
        ),
        (
            "message_type",
            vec![
                Value::Null,
                json!(""),
                json!("text"),
                json!("A".repeat(33)),
                json!(7),
                json!("SYSTEM"),
            ],
        ),
        (
            "content",
            vec![Value::Null, json!("text"), json!([]), json!({"text": 7})],
        ),
        (
            "quoted_message_id",
            vec![
                json!(quoted.parse::<i64>().unwrap()),
                json!("seven"),
                json!("-7"),
                json!("0"),
            ],
        ),
        (
            "expected_last_seq",
            vec![
                json!("one"),
                json!(-1),
                json!(1.5),
                json!(9_223_372_036_854_775_808_u64),
            ],
        ),
    ] {
        for value in values {
            let mut body = good.clone();
            body[field] = value;
            let refusal = ann.post(&messages, &body).await.refused("invalid_request");
            // SYSTEM is refused by its content rules, which know the type.
            assert!(
                refusal["detail"].as_str().unwrap().contains(field),
                "{refusal} for {body}"
            );
        }
    }
    ann.post(&messages, &json!({"content": {"text": "x"}}))
        .await
        .refused("invalid_request");
    assert_eq!(ann.post(&messages, &good).await.ok(201)["message"]["seq"], 3);
    world.stop().await;
}

#[actix_web::test]
async fn content_and_bodies_over_their_limits() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[&world.user(2)]).await;
    let messages = format!("/v1/conversations/{room}/messages");
    ann.post_raw(&messages, body_with(&text_of(CONTENT_BYTES + 1)))
        .await
        .refused("payload_too_large");
    ann.post_raw(&messages, vec![b' '; 131_073])
        .await
        .refused("payload_too_large");
    let exact = ann
        .post_raw(&messages, body_with(&text_of(CONTENT_BYTES)))
        .await
        .ok(201);
    assert_eq!(exact["message"]["seq"], 2);
    world.stop().await;
}

#[actix_web::test]
async fn b69_paths_and_queries_out_of_range() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[&world.user(2)]).await;
    for id in [
        "0",
        "abc",
        "-1",
        "9223372036854775808",
        "1%00",
        "%ff",
        "%zz",
        "１",
        "7.0",
        &"9".repeat(40),
    ] {
        ann.get(&format!("/v1/conversations/{id}/messages"))
            .await
            .refused("not_found");
        ann.get(&format!("/v1/conversations/{id}")).await.refused("not_found");
        ann.get(&format!("/v1/messages/{id}")).await.refused("not_found");
        ann.send(id, "k", "x").await.refused("not_found");
    }
    let big = "9223372036854775808";
    for field in ["before_seq", "after_seq", "limit"] {
        for value in ["", "abc", "-1", "1.5", "%2B1", big, &"9".repeat(30)] {
            let path = format!("/v1/conversations/{room}/messages?{field}={value}");
            ann.get(&path).await.refused("invalid_request");
        }
    }
    for path in [
        "/v1/conversations".to_owned(),
        format!("/v1/conversations/{room}/members"),
    ] {
        for query in [
            "cursor=garbage",
            "cursor=-1",
            "cursor=",
            "limit=0",
            "limit=-3",
            "limit=x",
            "limit=9223372036854775808",
        ] {
            ann.get(&format!("{path}?{query}")).await.refused("invalid_request");
        }
        assert_eq!(
            ann.get(&format!("{path}?limit=1000000")).await.ok(200)["next_cursor"],
            Value::Null
        );
    }
    ann.get(&format!("/v1/conversations/{room}/messages?limit=0"))
        .await
        .refused("invalid_request");
    world.stop().await;
}

#[actix_web::test]
async fn conversations_that_cannot_be_made() {
    let world = World::start().await;
    let ann = world.user(1);
    let member = |fields: Value| json!({"kind": "GROUP", "title": "x", "members": [fields]});
    for body in [
        json!({}),
        json!({"kind": "CLUB", "title": "x", "members": []}),
        json!({"kind": "INBOX"}),
        json!({"kind": "DIRECT"}),
        json!({"kind": "GROUP", "members": []}),
        json!({"kind": "GROUP", "title": "x"}),
        json!({"kind": "GROUP", "title": "a\u{0}b", "members": []}),
        json!({"kind": "GROUP", "title": "x".repeat(257), "members": []}),
        json!({"kind": "GROUP", "title": "x", "members": "bob"}),
        json!({"kind": "GROUP", "title": "x", "members": [], "posting": "NOBODY"}),
        json!({"kind": "GROUP", "title": "x", "members": [], "history_visibility": "NEVER"}),
        json!({"kind": "GROUP", "title": "x", "members": [], "adding": "?"}),
        json!({"kind": "GROUP", "title": "x", "members": [], "client_request_id": ""}),
        member(json!({"type": "ROBOT", "id": "7"})),
        member(json!({"type": "SYSTEM", "id": "7"})),
        member(json!({"type": "USER", "id": "seven"})),
        member(json!({"type": "USER", "id": "-7"})),
        member(json!({"type": "USER", "id": 7})),
        member(json!({"type": "USER", "id": "9223372036854775808"})),
        member(json!({"type": "USER", "external_id": ""})),
    ] {
        ann.post("/v1/conversations", &body).await.refused("invalid_request");
    }
    assert_eq!(ann.get("/v1/conversations").await.ok(200)["items"], json!([]));
    let room = json!({"kind": "GROUP", "title": "", "members": [], "unknown_field": {"is": "ignored"}});
    id_of(&ann.post("/v1/conversations", &room).await.ok(201), "conversation_id");
    world.stop().await;
}
