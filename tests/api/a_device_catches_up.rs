//! What a device missed: once, in order, in answers of a bounded size.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::socket::Socket;
use super::world::{Caller, World, id_of};

/// A client's copy: its cursors, and every message and change that it was told, in the order in which it came.
#[derive(Default)]
pub(crate) struct Copy {
    cursors: BTreeMap<String, (i64, i64)>,
    pub(crate) seqs: BTreeMap<String, Vec<i64>>,
    pub(crate) changes: BTreeMap<String, Vec<i64>>,
    /// Holes to be filled from history: after, before.
    pub(crate) holes: Vec<(String, i64, i64)>,
}

impl Copy {
    pub(crate) fn ask(&self, message_limit: u64, conversation_limit: u64) -> Value {
        let cursors: Vec<Value> = self
            .cursors
            .iter()
            .map(|(id, (seq, change_seq))| json!({"conversation_id": id, "seq": seq, "change_seq": change_seq}))
            .collect();
        json!({"device_id": "copy", "cursors": cursors, "message_limit": message_limit,
               "conversation_limit": conversation_limit})
    }

    /// Takes an answer in; `true` = there is more.
    pub(crate) fn take(&mut self, page: &Value) -> bool {
        for entry in page["conversations"].as_array().unwrap() {
            let id = id_of(&entry["conversation"], "conversation_id");
            let numbers = |list: &str, field: &str| {
                let list = entry[list].as_array().unwrap();
                list.iter().map(|one| one[field].as_i64().unwrap()).collect::<Vec<_>>()
            };
            self.seqs
                .entry(id.clone())
                .or_default()
                .extend(numbers("messages", "seq"));
            self.changes
                .entry(id.clone())
                .or_default()
                .extend(numbers("changes", "change_seq"));
            if let Some(missing) = entry["missing"].as_object() {
                let bound = |name: &str| missing[name].as_i64().unwrap();
                self.holes.push((id.clone(), bound("after_seq"), bound("before_seq")));
            }
            let next = &entry["next"];
            let next = (next["seq"].as_i64().unwrap(), next["change_seq"].as_i64().unwrap());
            assert_ne!(
                self.cursors.insert(id, next),
                Some(next),
                "an entry without anything new: {entry}"
            );
        }
        page["has_more"].as_bool().unwrap()
    }

    /// Fills what `missing` named; answers the seqs of a conversation, each as often as it was told.
    pub(crate) async fn filled(&mut self, caller: &Caller, room: &str) -> Vec<i64> {
        for (id, after, before) in std::mem::take(&mut self.holes) {
            let (mut after, mut more) = (after, true);
            while more {
                let (page, has_more) = caller
                    .page(&id, &format!("after_seq={after}&before_seq={before}&limit=200"))
                    .await;
                let page: Vec<i64> = page.into_iter().map(|seq| i64::try_from(seq).unwrap()).collect();
                after = page.last().copied().unwrap_or(after);
                self.seqs.entry(id.clone()).or_default().extend(page);
                more = has_more;
            }
        }
        let mut seqs = self.seqs.get(room).cloned().unwrap_or_default();
        seqs.sort_unstable();
        seqs
    }
}

async fn sync_all(caller: &Caller, copy: &mut Copy, message_limit: u64, conversation_limit: u64) -> usize {
    for calls in 1.. {
        let ask = copy.ask(message_limit, conversation_limit);
        if !copy.take(&caller.post("/v1/sync", &ask).await.ok(200)) {
            return calls;
        }
    }
    unreachable!()
}

async fn edit(caller: &Caller, message: &Value, text: &str) {
    let path = format!("/v1/messages/{}", id_of(message, "message_id"));
    let body = json!({"content": {"text": text}}).to_string().into_bytes();
    caller.call(reqwest::Method::PATCH, &path, Some(body)).await.ok(200);
}

fn entry<'a>(page: &'a Value, room: &str) -> Option<&'a Value> {
    let entries = page["conversations"].as_array().unwrap();
    entries
        .iter()
        .find(|entry| entry["conversation"]["conversation_id"] == room)
}

#[actix_web::test]
async fn b56_230_edits_come_in_pages_that_next_joins_and_the_message_is_as_it_is_now() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let message = ann.say(&room, "first").await;
    for n in 0..230 {
        edit(&ann, &message, &format!("edit {n}")).await;
    }
    let mut copy = Copy::default();
    let first = bob.post("/v1/sync", &copy.ask(50, 100)).await.ok(200);
    let changes = entry(&first, &room).unwrap()["changes"].as_array().unwrap().clone();
    assert_eq!((changes.len(), &first["has_more"]), (100, &json!(true)));
    assert!(
        changes
            .iter()
            .all(|change| change["message"]["content"]["text"] == "edit 229")
    );
    assert_eq!(
        entry(&first, &room).unwrap()["next"],
        json!({"seq": 2, "change_seq": 100})
    );
    copy.take(&first);
    assert_eq!(sync_all(&bob, &mut copy, 50, 100).await, 2);
    assert_eq!(copy.changes[&room], (1..=230).collect::<Vec<_>>());
    assert_eq!(copy.seqs[&room], [1, 2]);
    world.stop().await;
}

#[actix_web::test]
async fn b87_an_answer_on_a_socket_leaves_room_in_the_outbound_queue_and_nothing_is_lost_by_that() {
    const OUTBOUND: usize = 262_144;
    let world = World::start_with(|config| config.limits.outbound_bytes = OUTBOUND).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let mut rooms = Vec::new();
    for _ in 0..3 {
        let room = ann.group(&[&bob]).await;
        for n in 0..8 {
            let message = ann.say(&room, &n.to_string().repeat(30_000)).await;
            edit(&ann, &message, &"x".repeat(30_000)).await;
        }
        rooms.push(room);
    }
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    let mut copy = Copy::default();
    let mut more = true;
    while more {
        let mut ask = copy.ask(50, 100);
        ask["type"] = "sync".into();
        let page = phone.ask(ask).await;
        assert_eq!(page["type"], "sync", "{page}");
        assert!(
            page.to_string().len() <= OUTBOUND / 2 + 100_000,
            "{}",
            page.to_string().len()
        );
        more = copy.take(&page);
    }
    for room in &rooms {
        assert_eq!(copy.filled(&bob, room).await, (1..=9).collect::<Vec<_>>());
        assert_eq!(copy.changes[room], (1..=8).collect::<Vec<_>>());
    }
    world.stop().await;
}

#[actix_web::test]
async fn what_was_before_ones_joining_is_hidden_and_its_changes_are_numbers_only() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let body = json!({"kind": "GROUP", "title": "x", "members": [], "history_visibility": "JOINED"});
    let room = id_of(&ann.post("/v1/conversations", &body).await.ok(201), "conversation_id");
    let before = ann.say(&room, "secret").await;
    ann.post(
        &format!("/v1/conversations/{room}/members"),
        &json!({"members": [bob.principal]}),
    )
    .await
    .ok(200);
    edit(&ann, &before, "still secret").await;
    let after = ann.say(&room, "hello").await;
    edit(&ann, &after, "hello bob").await;
    let page = bob
        .post("/v1/sync", &json!({"device_id": "d", "cursors": []}))
        .await
        .ok(200);
    let found = entry(&page, &room).unwrap();
    let seqs: Vec<_> = found["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["seq"])
        .collect();
    assert_eq!(seqs, [&json!(3), &json!(4)]);
    assert_eq!(
        found["changes"][1],
        json!({"conversation_id": room, "change_seq": 2, "change_type": "HIDDEN"})
    );
    assert_eq!(found["changes"][2]["message"]["content"]["text"], "hello bob");
    assert!(!page.to_string().contains("secret"), "{page}");
    assert_eq!(found.get("missing"), None, "what is hidden is no hole");
    world.stop().await;
}

#[actix_web::test]
async fn a_stored_cursor_of_an_earlier_membership_is_a_reset_and_a_left_conversation_is_removed() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    ann.say(&room, "one").await;
    let ack = json!({"device_id": "d", "acks": [{"conversation_id": room, "seq": 2, "change_seq": 0}]});
    bob.post("/v1/me/acks", &ack).await.ok(200);
    let stored = json!({"device_id": "d"});
    assert_eq!(entry(&bob.post("/v1/sync", &stored).await.ok(200), &room), None);
    bob.delete(&format!("/v1/conversations/{room}/members/USER/2"))
        .await
        .ok(200);
    let page = bob.post("/v1/sync", &stored).await.ok(200);
    assert_eq!((&page["removed"], entry(&page, &room)), (&json!([room]), None));
    ann.post(
        &format!("/v1/conversations/{room}/members"),
        &json!({"members": [bob.principal]}),
    )
    .await
    .ok(200);
    let page = bob.post("/v1/sync", &stored).await.ok(200);
    let again = entry(&page, &room).unwrap();
    assert_eq!((&page["removed"], &again["history_reset"]), (&json!([]), &json!(true)));
    assert_eq!(
        again["messages"].as_array().unwrap().len(),
        4,
        "whoever was removed has dropped its copy"
    );
    let named = json!({"device_id": "d", "cursors": [{"conversation_id": room, "seq": 2, "change_seq": 0}]});
    let page = bob.post("/v1/sync", &named).await.ok(200);
    let again = entry(&page, &room).unwrap();
    assert_eq!(
        (again.get("history_reset"), again["messages"].as_array().unwrap().len()),
        (None, 2)
    );
    world.stop().await;
}

#[actix_web::test]
async fn b48_thousands_of_cursors_fit_and_more_than_the_limit_are_refused() {
    let world = World::start().await;
    let bob = world.user(2);
    let cursors = |count: u64| {
        let cursors: Vec<Value> = (1..=count)
            .map(|id| json!({"conversation_id": (u64::MAX / 2 - id).to_string(), "seq": 9_000_000, "change_seq": 9_000_000}))
            .collect();
        json!({"device_id": "d", "cursors": cursors})
    };
    let page = bob.post("/v1/sync", &cursors(5_000)).await.ok(200);
    assert_eq!(page["removed"].as_array().unwrap().len(), 5_000);
    bob.post("/v1/sync", &cursors(20_001)).await.refused("invalid_request");
    for bad in [
        json!({}),
        json!({"device_id": "d", "message_limit": 0}),
        json!({"device_id": "d", "cursors": [{"conversation_id": "x", "seq": 1, "change_seq": 0}]}),
    ] {
        bob.post("/v1/sync", &bad).await.refused("invalid_request");
    }
    world.stop().await;
}
