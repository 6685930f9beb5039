//! Frames: what cannot be understood is answered and harms nobody; what is no frame of ours ends the connection.

use serde_json::json;
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::socket::{Socket, send};
use super::world::World;

fn fragment(words: &str, code: Data, last: bool) -> Message {
    Message::Frame(Frame::message(words.to_owned(), OpCode::Data(code), last))
}

#[actix_web::test]
async fn a_frame_that_cannot_be_understood_is_answered_and_costs_no_number() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut socket = Socket::hello(&world, &ann, "phone").await;
    let nested = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let whole = format!("\"conversation_id\":\"{room}\",\"client_message_id\":\"k\",\"message_type\":\"TEXT\"");
    let with = |content: &str| format!("{{\"id\":9,\"type\":\"message.send\",{whole},\"content\":{content}}}");
    for (text, id) in [
        ("[]".to_owned(), json!(null)),
        ("{\"type\":\"ping\"".to_owned(), json!(null)),
        ("{\"id\":9,\"type\":\"no.such\"}".to_owned(), json!(9)),
        (
            "{\"id\":9,\"type\":\"message.recall\",\"message_id\":7}".to_owned(),
            json!(9),
        ),
        (with("{\"text\":\"a\\u0000b\"}"), json!(9)),
        (with("{\"text\":\"\\ud800\"}"), json!(9)),
        (with(&format!("{{\"text\":\"x\",\"d\":{nested}}}")), json!(9)),
        (with("{\"text\":7}"), json!(9)),
        (with("null"), json!(9)),
        (
            with("{\"text\":\"x\"}").replace(&format!("\"{room}\""), &room),
            json!(9),
        ),
        (with("{\"text\":\"x\"}").replace("\"k\"", "\"\""), json!(9)),
    ] {
        let error = socket.answer(&text).await;
        assert_eq!(
            (&error["code"], &error["reply_to"]),
            (&json!("invalid_request"), &id),
            "{text}"
        );
    }
    let large = socket.send(&room, "k", &"x".repeat(super::world::CONTENT_BYTES)).await;
    assert_eq!(large["code"], "payload_too_large");
    assert_eq!(socket.send(&room, "k", "fine").await["seq"], 2, "no number was used up");
    world.stop().await;
}

#[actix_web::test]
async fn the_20th_of_them_in_a_row_ends_the_connection() {
    let world = World::start().await;
    let mut socket = Socket::hello(&world, &world.user(1), "phone").await;
    for _ in 0..2 {
        for _ in 0..19 {
            assert_eq!(socket.answer("nonsense").await["code"], "invalid_request");
        }
        socket.pushed().await;
    }
    for _ in 0..20 {
        socket.text("nonsense").await;
    }
    assert_eq!(socket.closed().await, 4004);
    world.stop().await;
}

#[actix_web::test]
async fn what_is_no_text_frame_closes_with_its_own_code() {
    let world = World::start().await;
    let text = OpCode::Data(Data::Text);
    for (message, code) in [
        (Message::binary(vec![0, 1]), 1003),
        (Message::Frame(Frame::message(vec![b'{', 0xFF, b'}'], text, true)), 1007),
    ] {
        let mut socket = Socket::hello(&world, &world.user(1), &code.to_string()).await;
        socket.message(message).await;
        assert_eq!(socket.closed().await, code);
    }
    world.stop().await;
}

#[actix_web::test]
async fn b95_too_big_is_1009_in_one_frame_or_in_many_and_harms_nobody() {
    let world = World::start_with(|config| {
        config.limits.content_bytes = 10_000;
        config.limits.frame_bytes = 20_000;
    })
    .await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut other = Socket::hello(&world, &bob, "other").await;
    let mut socket = Socket::hello(&world, &ann, "a").await;
    let frame = send(&room, "k", "in two pieces").to_string().replace('}', " }");
    let (first, second) = frame.split_at(frame.len() / 2);
    socket.message(fragment(first, Data::Text, false)).await;
    socket.message(fragment(second, Data::Continue, true)).await;
    // It has no id, which is said; so it was put together.
    assert_eq!(
        socket.frame().await.unwrap()["detail"],
        "id: must be a whole number of 0 or more"
    );
    socket.text(&send(&room, "k", &"x".repeat(21_000)).to_string()).await;
    assert_eq!(socket.closed().await, 1009);
    let mut socket = Socket::hello(&world, &ann, "b").await;
    socket.message(fragment(&"x".repeat(15_000), Data::Text, false)).await;
    socket
        .message(fragment(&"x".repeat(15_000), Data::Continue, false))
        .await;
    assert_eq!(socket.closed().await, 1009);
    ann.say(&room, "still here").await;
    assert_eq!(super::socket::words(&other.pushed().await), ["still here"]);
    world.stop().await;
}

#[actix_web::test]
async fn errors_carry_what_the_client_needs_to_go_on() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let mut socket = Socket::hello(&world, &ann, "phone").await;
    let first = socket.send(&room, "k", "one").await;
    let again = socket.send(&room, "k", "one").await;
    for field in ["message_id", "seq", "sent_at", "client_message_id", "conversation_id"] {
        assert_eq!(again[field], first[field], "{field}");
    }
    assert_eq!(
        (&first["duplicate"], &again["duplicate"]),
        (&json!(false), &json!(true))
    );
    let reused = socket.send(&room, "k", "two").await;
    assert_eq!(reused["code"], "idempotency_key_reused");
    assert_eq!(reused["original"]["message_id"], first["message_id"]);
    let mut late = send(&room, "k2", "two");
    late["expected_last_seq"] = 1.into();
    let late = socket.ask(late).await;
    assert_eq!(
        (&late["code"], &late["last_seq"]),
        (&json!("precondition_failed"), &json!(2))
    );
    let mut stranger = Socket::hello(&world, &world.user(3), "phone").await;
    assert_eq!(stranger.send(&room, "k", "x").await["code"], "not_a_member");
    assert_eq!(stranger.send("123456789", "k", "x").await["code"], "not_found");
    let history = json!({"type": "history", "conversation_id": room});
    assert_eq!(stranger.ask(history.clone()).await["code"], "not_a_member");
    let page = socket.ask(history).await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["has_more"]),
        (2, &json!(false))
    );
    world.stop().await;
}
