//! Every list goes by one rule: `limit`, `cursor`, `next_cursor`, everything once. Whatever answers with `items` is held to it;
//! history has a rule of its own, by seq.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::stage::{Stage, Who};
use super::table::{CALLS, Call};
use crate::world::{Caller, World, id_of};

/// Two and more of everything that can be listed.
async fn fill(stage: &Stage<'_>, owner: &Caller) {
    owner.group(&[]).await;
    for words in ["one", "two", "three"] {
        let message = id_of(&owner.say(&stage.room, words).await, "message_id");
        owner.set(&format!("/v1/messages/{message}/pin")).await.ok(200);
        owner
            .set(&format!("/v1/messages/{message}/actions/FAVORITE"))
            .await
            .ok(200);
    }
    for number in [21, 22, 23] {
        let friend = stage.world.user(number);
        let asked = friend
            .post("/v1/contacts/requests", &json!({"to": owner.principal}))
            .await
            .ok(201);
        let id = id_of(&asked, "notification_id");
        owner
            .post(&format!("/v1/notifications/{id}/accept"), &json!({}))
            .await
            .ok(200);
        owner.set(&format!("/v1/me/blocks/AGENT/{number}")).await.ok(200);
    }
    for device in ["phone", "desk & co", "%"] {
        let body = json!({"device_id": device});
        owner.post("/v1/sync", &body).await.ok(200);
    }
}

/// The lists, with the paths that lead to them.
async fn lists(stage: &Stage<'_>, owner: &Caller) -> BTreeMap<String, String> {
    let mut lists = BTreeMap::new();
    for call in CALLS.iter().filter(|call| call.call.starts_with("GET /v1/")) {
        let path = stage.fill(call.call.trim_start_matches("GET "));
        let reply = owner.get(&path).await;
        let is_json = reply.headers["content-type"] == "application/json";
        let is_list = reply.status == 200 && is_json && reply.body().get("items").is_some();
        if is_list && !path.ends_with("/messages") {
            lists.insert(Call::route(call), path);
        }
    }
    lists
}

async fn walk(owner: &Caller, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut page = owner.get(&format!("{path}?limit=1")).await.ok(200);
    loop {
        let got = page["items"].as_array().unwrap();
        assert_eq!(got.len(), 1, "{path}: {page}");
        items.extend(got.iter().cloned());
        let Some(cursor) = page["next_cursor"].as_str() else {
            return items;
        };
        page = owner.get(&format!("{path}?limit=1&cursor={cursor}")).await.ok(200);
    }
}

#[actix_web::test]
async fn every_list_shows_everything_once_by_limit_and_cursor_and_refuses_what_is_none() {
    let world = World::with_admin().await;
    let stage = Stage::build(&world).await;
    let owner = stage.caller(Who::Owner);
    fill(&stage, &owner).await;
    let lists = lists(&stage, &owner).await;
    let names: Vec<&str> = lists.keys().map(String::as_str).collect();
    let expected = [
        "GET /v1/contacts",
        "GET /v1/conversations",
        "GET /v1/conversations/{conversation_id}/members",
        "GET /v1/conversations/{conversation_id}/pins",
        "GET /v1/me/actions",
        "GET /v1/me/blocks",
        "GET /v1/me/devices",
        "GET /v1/notifications",
    ];
    assert_eq!(names, expected, "a new list is named here");
    let mut cursors = Vec::new();
    for path in lists.values() {
        let all = owner.get(&format!("{path}?limit=1000000000")).await.ok(200);
        assert_eq!(all["next_cursor"], Value::Null, "{path}");
        let all = all["items"].as_array().unwrap();
        assert!(all.len() >= 3, "{path} shows {}", all.len());
        assert_eq!(&walk(&owner, path).await, all, "{path}");
        for bad in [
            "limit=0",
            "limit=-1",
            "limit=x",
            "limit=9223372036854775808",
            "cursor=x",
            "cursor=1.2.3.4",
        ] {
            owner.get(&format!("{path}?{bad}")).await.refused("invalid_request");
        }
        let first = owner.get(&format!("{path}?limit=1")).await.ok(200);
        cursors.push(first["next_cursor"].as_str().unwrap().to_owned());
    }
    for (at, path) in lists.values().enumerate() {
        let foreign = cursors.iter().enumerate().filter(|(of, _)| *of != at);
        for (_, cursor) in foreign {
            let reply = owner.get(&format!("{path}?cursor={cursor}")).await;
            reply.refused("invalid_request");
        }
    }
    world.stop().await;
}
