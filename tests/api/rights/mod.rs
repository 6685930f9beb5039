//! WHO MAY DO WHAT: every REST call and every frame, by everybody. A call or frame without a row fails here.
//!
//! A row is filled in by itself: `{conversation_id}` is a group, `{message_id}` a message of MEMBER in it,
//! `{file_id}` a picture that MEMBER sent to it, `{type}/{id}` and `{peer}` a plain member who does nothing, `{new}` somebody
//! who is in no conversation. A new placeholder needs a line in `Stage::fill`.

mod frames;
mod lists;
mod stage;
mod table;

use std::collections::BTreeSet;

use reqwest::Method;

use stage::{Outcome, Stage};
use table::{CALLS, Call, WHO};

use super::world::World;

/// The calls that the doors offer, as `METHOD /path`, read from where they are declared.
fn offered_calls() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/transport/rest");
    let mut offered = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = if path.is_file() {
            std::fs::read_to_string(path).unwrap()
        } else {
            String::new()
        };
        for resource in text.split("web::resource(").skip(1) {
            let (paths, rest) = resource.split_once(')').unwrap();
            let end = [";", "web::resource", "default_service"]
                .iter()
                .filter_map(|end| rest.find(end))
                .min();
            let handlers = &rest[..end.unwrap_or(rest.len())];
            for method in ["get", "post", "put", "patch", "delete"] {
                if handlers.contains(&format!(".{method}(")) {
                    // One path, or a list of aliases.
                    let paths = paths.split('"').skip(1).step_by(2);
                    offered.extend(paths.map(|path| format!("{} {path}", method.to_uppercase())));
                }
            }
        }
    }
    assert!(offered.len() > 20, "{offered:?}");
    offered
}

#[test]
fn every_call_has_a_row() {
    let rows: BTreeSet<String> = CALLS.iter().map(Call::route).collect();
    let offered = offered_calls();
    let missing: Vec<&String> = offered.difference(&rows).collect();
    assert!(
        missing.is_empty(),
        "who may do this? Add rows to CALLS in tests/api/rights/table.rs: {missing:?}"
    );
    let gone: Vec<&String> = rows.difference(&offered).collect();
    assert!(gone.is_empty(), "nobody offers this any more: {gone:?}");
}

#[actix_web::test]
async fn every_call_answers_everybody_as_the_table_says() {
    let world = World::with_admin().await;
    let mut stage = Stage::build(&world).await;
    let mut wrong = Vec::new();
    for call in CALLS {
        for (who, expected) in WHO.into_iter().zip(call.expected) {
            let (method, path) = call.call.split_once(' ').unwrap();
            let body = (!call.body.is_empty()).then(|| stage.fill(call.body).into_bytes());
            let method: Method = method.parse().unwrap();
            let reply = stage.caller(who).call(method, &stage.fill(path), body).await;
            let seen = Outcome::of(&reply);
            if seen != expected {
                wrong.push(format!(
                    "{} by {who:?}: {seen:?} instead of {expected:?}: {}",
                    call.call, reply.text
                ));
            }
            assert!(
                seen == Outcome::Ok || !reply.text.contains("secret"),
                "{} by {who:?} tells: {}",
                call.call,
                reply.text
            );
            if seen == Outcome::Ok && !call.call.starts_with("GET") {
                stage = Stage::build(&world).await;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.stop().await;
}

#[actix_web::test]
async fn a_conversation_is_listed_for_its_members_only() {
    let world = World::with_admin().await;
    let stage = Stage::build(&world).await;
    for who in table::PRINCIPALS {
        let list = stage.caller(who).get("/v1/conversations").await;
        let listed = list.text.contains(&stage.room);
        assert_eq!(listed, table::MEMBERS.contains(&who), "{who:?}");
        assert!(listed || !list.text.contains("secret"), "{who:?}");
    }
    world.stop().await;
}
