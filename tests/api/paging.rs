//! B67, B69: pages show everything once, in order, and say when there is more.

use serde_json::{Value, json};

use super::world::{Caller, World, id_of};

async fn walk(who: &Caller, room: &str, limit: usize, down: bool) -> Vec<u64> {
    let mut seqs: Vec<u64> = Vec::new();
    loop {
        let query = match (down, seqs.first(), seqs.last()) {
            (true, Some(first), _) => format!("limit={limit}&before_seq={first}"),
            (true, None, _) => format!("limit={limit}"),
            (false, _, last) => format!("limit={limit}&after_seq={}", last.unwrap_or(&0)),
        };
        let (got, more) = who.page(room, &query).await;
        assert!(got.is_sorted() && got.len() <= limit);
        assert!(!more || got.len() == limit, "a short page that says has_more");
        if down {
            seqs.splice(0..0, got);
        } else {
            seqs.extend(got);
        }
        if !more {
            return seqs;
        }
    }
}

#[actix_web::test]
async fn b67_every_message_once_in_both_directions() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    for n in 0..29 {
        ann.say(&room, &n.to_string()).await;
    }
    let everything: Vec<u64> = (1..=30).collect();
    for limit in [1, 7, 29, 30, 31, 200] {
        assert_eq!(walk(&bob, &room, limit, true).await, everything, "down by {limit}");
        assert_eq!(walk(&bob, &room, limit, false).await, everything, "up by {limit}");
    }
    world.stop().await;
}

#[actix_web::test]
async fn a_range_takes_the_side_that_is_named() {
    let world = World::start().await;
    let ann = world.user(1);
    let room = ann.group(&[]).await;
    for n in 0..19 {
        ann.say(&room, &n.to_string()).await;
    }
    for (query, seqs, more) in [
        ("limit=3", vec![18, 19, 20], true),
        ("before_seq=10&limit=3", vec![7, 8, 9], true),
        ("after_seq=10&limit=3", vec![11, 12, 13], true),
        ("after_seq=4&before_seq=10&limit=3", vec![5, 6, 7], true),
        ("after_seq=4&before_seq=8&limit=3", vec![5, 6, 7], false),
        ("after_seq=20", vec![], false),
        ("after_seq=7&before_seq=8", vec![], false),
        ("before_seq=1", vec![], false),
        ("before_seq=0", vec![], false),
        ("after_seq=9223372036854775807", vec![], false),
        ("before_seq=3&after_seq=0", vec![1, 2], false),
    ] {
        assert_eq!(ann.page(&room, query).await, (seqs, more), "{query}");
    }
    assert_eq!(ann.page(&room, "limit=1000000000").await.0.len(), 20);
    world.stop().await;
}

async fn pages(who: &Caller, path: &str, limit: u32) -> Vec<Value> {
    let mut items = Vec::new();
    let mut query = format!("limit={limit}");
    loop {
        let page = who.get(&format!("{path}?{query}")).await.ok(200);
        let got = page["items"].as_array().unwrap();
        assert!(u32::try_from(got.len()).unwrap() <= limit);
        items.extend(got.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("limit={limit}&cursor={cursor}"),
            None => return items,
        }
    }
}

#[actix_web::test]
async fn conversations_are_listed_once_the_latest_activity_first() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let mut rooms = Vec::new();
    for _ in 0..7 {
        rooms.push(ann.group(&[&bob]).await);
    }
    ann.say(&rooms[2], "newest").await;
    let moved = rooms.remove(2);
    rooms.push(moved);
    rooms.reverse();
    for limit in [1, 3, 7, 100] {
        let items = pages(&bob, "/v1/conversations", limit).await;
        let ids: Vec<String> = items.iter().map(|item| id_of(item, "conversation_id")).collect();
        assert_eq!(ids, rooms, "by {limit}");
    }
    let newest = &pages(&bob, "/v1/conversations", 1).await[0];
    assert_eq!(newest["last_message"]["content"], json!({"text": "newest"}));
    assert_eq!(newest["me"]["unread_count"], 1);
    world.stop().await;
}

#[actix_web::test]
async fn members_are_listed_once_in_the_order_of_joining() {
    let world = World::start().await;
    let people: Vec<Caller> = (1..=11).map(|id| world.user(id)).collect();
    let founders: Vec<&Caller> = people[1..6].iter().collect();
    let room = people[0].group(&founders).await;
    let path = format!("/v1/conversations/{room}/members");
    for late in people[6..].iter().rev() {
        people[0]
            .post(&path, &json!({"members": [late.principal]}))
            .await
            .ok(200);
    }
    for limit in [1, 4, 11, 200] {
        let items = pages(&people[3], &path, limit).await;
        let ids: Vec<u64> = items
            .iter()
            .map(|item| id_of(&item["principal"], "id").parse().unwrap())
            .collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 11, 10, 9, 8, 7], "by {limit}");
    }
    let first = &people[3].get(&format!("{path}?limit=1")).await.ok(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    people[3]
        .get(&format!("/v1/conversations?cursor={cursor}"))
        .await
        .refused("invalid_request");
    assert_eq!(first["items"][0]["role"], "OWNER");
    world.stop().await;
}
