//! The same over the WebSocket, and what is left after the end of a group.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::stage::{Outcome, Stage, Who};
use super::table::{AFTER_THE_END, CALLS, FRAMES, PRINCIPALS, WHO};
use crate::socket::Socket;
use crate::world::World;

/// The frames that the door understands, read from where they are declared.
fn offered_frames() -> BTreeSet<String> {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/protocol/frame.rs"));
    let (_, typed) = text.split_once("\nfn typed").unwrap();
    let (typed, _) = typed.split_once("\n}\n").unwrap();
    let mut offered = BTreeSet::new();
    let parts: Vec<&str> = typed.split('"').collect();
    for at in (1..parts.len().saturating_sub(1)).step_by(2) {
        let (before, after) = (parts[at - 1].trim_end(), parts[at + 1].trim_start());
        if after.starts_with("=>") || before.ends_with("kind ==") {
            offered.insert(parts[at].to_owned());
        }
    }
    assert!(offered.len() > 8, "{offered:?}");
    offered
}

#[test]
fn every_frame_has_a_row() {
    let rows: BTreeSet<String> = FRAMES.iter().map(|frame| frame.kind.to_owned()).collect();
    assert_eq!(
        rows,
        offered_frames(),
        "who may do this? FRAMES in tests/api/rights/table.rs has to say it for each frame"
    );
}

/// What somebody is answered, or what a peer hears of it where nothing is answered.
async fn outcome(socket: &mut Socket, peer: &mut Socket, frame: Value) -> (Outcome, Value) {
    if frame["type"] == "typing" {
        socket.post(frame).await;
        socket.pushed().await;
        let heard = peer.pushed().await.iter().any(|push| push["type"] == "typing");
        let outcome = if heard { Outcome::Ok } else { Outcome::NotAMember };
        return (outcome, Value::Null);
    }
    let reply = socket.ask(frame).await;
    let outcome = if reply["type"] == "error" {
        Outcome::of_code(&reply["code"])
    } else {
        Outcome::Ok
    };
    (outcome, reply)
}

#[actix_web::test]
async fn every_frame_answers_everybody_as_the_table_says() {
    let world = World::with_admin().await;
    let mut wrong = Vec::new();
    for (column, who) in PRINCIPALS.into_iter().enumerate() {
        let mut stage = Stage::build(&world).await;
        let caller = stage.caller(who);
        let mut peer = Socket::hello(&world, &stage.peer(), "phone").await;
        let mut socket = Socket::hello(&world, &caller, "phone").await;
        for frame in FRAMES {
            let fields = stage.fill(frame.fields).replace("{token}", &caller.token);
            let mut body: Value = serde_json::from_str(&fields).unwrap();
            body["type"] = frame.kind.into();
            let (seen, reply) = outcome(&mut socket, &mut peer, body).await;
            let expected = &frame.expected[column];
            if seen != *expected {
                wrong.push(format!(
                    "{} by {who:?}: {seen:?} instead of {expected:?}: {reply}",
                    frame.kind
                ));
            }
            assert!(seen == Outcome::Ok || !reply.to_string().contains("secret"), "{reply}");
            if seen == Outcome::Ok && frame.kind.starts_with("message.") {
                stage = Stage::build(&world).await;
            }
        }
        let pushed = Value::from(socket.pushed().await).to_string();
        let outside = matches!(who, Who::Stranger | Who::AgentOfThatNumber);
        assert!(!outside || !pushed.contains("secret"), "{who:?} hears {pushed}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.stop().await;
}

#[actix_web::test]
async fn after_the_end_members_read_on_and_nobody_writes() {
    let world = World::with_admin().await;
    let (stage, room) = ended(&world).await;
    let of_room = |call: &str| call.contains("{conversation_id}") || call.contains("{message_id}");
    let (mut wrong, mut by_operator) = (Vec::new(), Vec::new());
    for call in CALLS.iter().filter(|call| of_room(&call.route())) {
        let ended = AFTER_THE_END.iter().find(|(route, _)| *route == call.route());
        let expected = ended.map_or(&call.expected, |(_, expected)| expected);
        for (who, expected) in WHO.into_iter().zip(expected) {
            let (method, path) = call.call.split_once(' ').unwrap();
            let body = (!call.body.is_empty()).then(|| stage.fill(call.body).into_bytes());
            let method: Method = method.parse().unwrap();
            if who == Who::AdminKey && *expected == Outcome::Ok && method != Method::GET {
                by_operator.push((method, path));
                continue;
            }
            let reply = stage.caller(who).call(method, &stage.fill(path), body).await;
            let seen = Outcome::of(&reply);
            if seen != *expected {
                wrong.push(format!("{} by {who:?}: {seen:?} instead of {expected:?}", call.call));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let seen = stage.caller(Who::Member).get(&room).await.ok(200);
    assert_eq!(
        (&seen["status"], &seen["last_change_seq"], &seen["title"]),
        (&json!("DISSOLVED"), &json!(3), &json!("room")),
        "nothing has changed since"
    );
    // The operator still acts, each time on a message that is there.
    assert_eq!(by_operator.len(), 2, "{by_operator:?}");
    for (method, path) in by_operator {
        let (stage, _) = ended(&world).await;
        let reply = stage.caller(Who::AdminKey).call(method, &stage.fill(path), None).await;
        reply.ok(200);
    }
    world.stop().await;
}

/// A group that was dissolved, and its path.
async fn ended(world: &World) -> (Stage<'_>, String) {
    let stage = Stage::build(world).await;
    let room = format!("/v1/conversations/{}", stage.room);
    stage.caller(Who::Owner).delete(&room).await.ok(200);
    (stage, room)
}
