//! Back ends read what happened from one log: everything, once, in order, as it is now.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::world::{Caller, World};

/// Reads on from `after` until an event of this type has come.
pub(crate) async fn read_until(admin: &Caller, after: i64, last: &str) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    let mut after = after;
    for _ in 0..20 {
        let page = admin
            .get(&format!("/admin/v1/events?after={after}&wait_secs=10"))
            .await
            .ok(200);
        events.extend(page["items"].as_array().unwrap().iter().cloned());
        after = page["next_after"].as_i64().unwrap();
        if events.iter().any(|event| event["type"] == last) {
            return events;
        }
    }
    panic!("{last} did not come: {events:#?}");
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn everything_that_happened_is_told_in_order_as_it_is_now() {
    let world = World::with_admin().await;
    let (ann, bob, cy, admin) = (world.user(1), world.user(2), world.user(3), world.admin());
    let earlier = ann.group(&[&bob]).await;
    let empty = admin.get("/admin/v1/events").await.ok(200);
    assert_eq!(
        empty,
        json!({"items": [], "next_after": 0, "newest": 0}),
        "nobody asked before"
    );
    tokio::time::sleep(Duration::from_millis(2)).await; // what is of the same moment as the question may be told
    let room = ann.group(&[&bob]).await;
    let one = ann.say(&room, "sekrit one").await;
    let path = format!("/v1/messages/{}", one["message_id"].as_str().unwrap());
    ann.patch(&path, &json!({"content": {"text": "sekrit two"}}))
        .await
        .ok(200);
    bob.put(&format!("{path}/reactions/x"), &json!({})).await.ok(200);
    let members = format!("/v1/conversations/{room}/members");
    ann.post(&members, &json!({"members": [cy.principal]})).await.ok(200);
    ann.delete(&format!("{members}/USER/3")).await.ok(200);
    ann.post(&format!("{path}/recall"), &json!({})).await.ok(200);
    ann.delete(&path).await.ok(200);
    let events = read_until(&admin, 0, "message.deleted").await;
    let expected = [
        "message.created", // conversation_created
        "message.created",
        "message.edited",
        "message.created", // member_added
        "member.added",
        "message.created", // member_removed
        "member.removed",
        "message.recalled",
        "message.deleted",
    ];
    let mut told = types(&events);
    // The times of an act's own message and change are the same: which comes first is open.
    told[3..7].sort_unstable();
    let mut wanted = expected;
    wanted[3..7].sort_unstable();
    assert_eq!(told, wanted);
    let text = json!(events).to_string();
    assert!(!text.contains("sekrit") && !text.contains(&earlier), "{text}");
    let numbers: Vec<i64> = events.iter().map(|event| event["event_no"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<i64>>());
    let edited = &events[2]["data"];
    assert_eq!(edited["message"]["message_id"], one["message_id"]);
    assert_eq!(edited["message"]["status"], "DELETED");
    assert_eq!(
        (&edited["change"]["change_seq"], &edited["conversation_id"]),
        (&json!(1), &json!(room))
    );
    assert_eq!(events[2]["timestamp"], edited["change"]["changed_at"]);
    let added = events.iter().find(|event| event["type"] == "member.added").unwrap();
    assert_eq!(
        added["data"]["change"]["payload"],
        json!({"members": [cy.principal], "reason": "ADDED"})
    );
    assert!(added["data"].get("message").is_none());
    let again = admin.get("/admin/v1/events?after=2&limit=3").await.ok(200);
    assert_eq!(again["items"].as_array().unwrap(), &events[2..5], "the same again");
    assert_eq!((&again["next_after"], &again["newest"]), (&json!(5), &json!(9)));
    world.stop().await;
}

#[actix_web::test]
async fn whoever_waits_is_answered_when_something_happens() {
    let world = World::with_admin().await;
    let (ann, admin) = (world.user(1), world.admin());
    let room = ann.group(&[]).await;
    admin.get("/admin/v1/events").await.ok(200);
    let began = Instant::now();
    let quiet = admin.get("/admin/v1/events?after=0&wait_secs=1").await.ok(200);
    assert!(began.elapsed() >= Duration::from_secs(1), "{quiet}");
    let (waited, _) = tokio::join!(admin.get("/admin/v1/events?wait_secs=60"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ann.say(&room, "now").await
    });
    let waited = waited.ok(200);
    assert_eq!(waited["items"][0]["data"]["message"]["content"]["text"], "now");
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "it does not wait for the end of its time"
    );
    world.stop().await;
}

#[actix_web::test]
async fn whoever_waits_does_not_hold_up_a_shutdown() {
    let world = World::with_admin().await;
    let admin = world.admin();
    let began = Instant::now();
    let (waited, ()) = tokio::join!(admin.get("/admin/v1/events?wait_secs=60"), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.stop().await;
    });
    assert_eq!(waited.ok(200)["items"], json!([]));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[actix_web::test]
async fn a_place_that_is_not_in_the_log_is_refused_with_what_is() {
    let world = World::with_admin().await;
    let admin = world.admin();
    let refused = admin.get("/admin/v1/events?after=7").await.refused("history_reset");
    assert_eq!((&refused["oldest"], &refused["newest"]), (&json!(1), &json!(0)));
    for query in ["after=-1", "after=x", "limit=0", "wait_secs=-1"] {
        admin
            .get(&format!("/admin/v1/events?{query}"))
            .await
            .refused("invalid_request");
    }
    world.stop().await;
}

#[actix_web::test]
async fn b46_b47_a_reader_in_a_loop_beside_20_writers_misses_nothing_and_reads_nothing_twice() {
    const WRITERS: usize = 20;
    const EACH: usize = 15;
    let world = World::with_admin().await;
    let (ann, admin) = (world.user(1), world.admin());
    admin.get("/admin/v1/events").await.ok(200);
    let mut rooms = Vec::new();
    for _ in 0..WRITERS / 4 {
        rooms.push(ann.group(&[]).await);
    }
    let writing = AtomicUsize::new(WRITERS);
    let writers = (0..WRITERS).map(|writer| {
        let (ann, room, writing) = (&ann, &rooms[writer % rooms.len()], &writing);
        async move {
            let mut sent = Vec::new();
            for _ in 0..EACH {
                sent.push(ann.say(room, "x").await["message_id"].as_str().unwrap().to_owned());
            }
            writing.fetch_sub(1, Ordering::SeqCst);
            sent
        }
    });
    let reading = async {
        let (mut read, mut after) = (Vec::new(), 0);
        loop {
            let done = writing.load(Ordering::SeqCst) == 0;
            let wait = if done { 2 } else { 0 };
            let page = admin
                .get(&format!("/admin/v1/events?after={after}&limit=9&wait_secs={wait}"))
                .await
                .ok(200);
            let items = page["items"].as_array().unwrap();
            if done && items.is_empty() {
                return read;
            }
            read.extend(items.iter().map(|event| event["data"]["message"].clone()));
            after = page["next_after"].as_i64().unwrap();
        }
    };
    let (sent, read) = tokio::join!(join_all(writers), reading);
    let mut seqs: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for message in &read {
        let room = message["conversation_id"].as_str().unwrap();
        seqs.entry(room).or_default().push(message["seq"].as_u64().unwrap());
    }
    for (room, seqs) in seqs {
        assert_eq!(seqs, (1..).take(seqs.len()).collect::<Vec<u64>>(), "{room}");
    }
    for id in sent.iter().flatten() {
        assert_eq!(
            read.iter().filter(|message| message["message_id"] == **id).count(),
            1,
            "{id}"
        );
    }
    world.stop().await;
}
