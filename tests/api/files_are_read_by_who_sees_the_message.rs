//! Who may read a file follows from the messages that refer to it, and from nothing else.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::world::{Caller, World, id_of};

/// A file that somebody uploaded, and what it says.
async fn file(who: &Caller, words: &str) -> Value {
    who.upload("words.txt", "text/plain", words.as_bytes()).await.ok(201)
}

async fn reads(who: &Caller, file: &Value, words: &str) {
    let back = who.download(file["url"].as_str().unwrap(), &[]).await;
    assert_eq!(
        (back.status, String::from_utf8_lossy(&back.bytes).as_ref()),
        (200, words)
    );
}

/// Refused as if it were not there, also in part, and by its small picture.
async fn is_closed(who: &Caller, file: &Value) {
    let url = file["url"].as_str().unwrap();
    who.get(url).await.refused("not_found");
    who.get(&format!("{url}/thumbnail")).await.refused("not_found");
    let etag = format!("\"{}\"", file["sha256"].as_str().unwrap());
    for header in [
        ("range", "bytes=0-0"),
        ("if-none-match", etag.as_str()),
        ("if-none-match", "*"),
    ] {
        let part = who.download(url, &[header]).await;
        assert_eq!(part.status, 404, "{header:?}");
    }
}

#[actix_web::test]
async fn members_read_what_a_message_that_they_see_refers_to() {
    let world = World::start().await;
    let (ann, bob, eve) = (world.user(1), world.user(2), world.user(3));
    let room = ann.group(&[&bob]).await;
    let one = file(&ann, "for members").await;
    is_closed(&bob, &one).await;
    let sent = ann.send_file(&room, "k", &one).await.ok(201);
    assert_eq!(sent["message"]["content"]["attachments"][0]["file_id"], one["file_id"]);
    reads(&bob, &one, "for members").await;
    is_closed(&eve, &one).await;
    is_closed(&world.agent(2), &one).await;
    let repeat = ann.send_file(&room, "k", &one).await.ok(200);
    assert_eq!(repeat["duplicate"], true);

    // Who leaves reads no more, who comes does.
    let members = format!("/v1/conversations/{room}/members");
    ann.delete(&format!("{members}/USER/2")).await.ok(200);
    is_closed(&bob, &one).await;
    ann.post(&members, &json!({"members": [eve.principal]})).await.ok(200);
    reads(&eve, &one, "for members").await;
    reads(&ann, &one, "for members").await;
    world.stop().await;
}

#[actix_web::test]
async fn who_does_not_see_the_message_does_not_see_its_file() {
    let world = World::start().await;
    let (ann, bob, late) = (world.user(1), world.user(2), world.user(3));
    let body = json!({"kind": "GROUP", "title": "x", "members": [bob.principal], "history_visibility": "JOINED"});
    let room = id_of(&ann.post("/v1/conversations", &body).await.ok(201), "conversation_id");
    let messages = async |key: &str, words: &str| {
        let file = file(&ann, words).await;
        let sent = ann.send_file(&room, key, &file).await.ok(201);
        (file, id_of(&sent["message"], "message_id"))
    };
    let (early, _) = messages("early", "before").await;
    let members = format!("/v1/conversations/{room}/members");
    ann.post(&members, &json!({"members": [late.principal]})).await.ok(200);
    is_closed(&late, &early).await;
    reads(&bob, &early, "before").await;

    let (recalled, id) = messages("recalled", "inner words").await;
    reads(&late, &recalled, "inner words").await;
    ann.post(&format!("/v1/messages/{id}/recall"), &json!({})).await.ok(200);
    is_closed(&late, &recalled).await;
    reads(&ann, &recalled, "inner words").await;

    let (deleted, id) = messages("deleted", "gone").await;
    ann.delete(&format!("/v1/messages/{id}")).await.ok(200);
    is_closed(&bob, &deleted).await;

    let (hidden, id) = messages("hidden", "not for me").await;
    bob.put(&format!("/v1/messages/{id}/actions/DELETE"), &json!({}))
        .await
        .ok(200);
    is_closed(&bob, &hidden).await;
    reads(&late, &hidden, "not for me").await;

    let (cleared, _) = messages("cleared", "long ago").await;
    bob.post(&format!("/v1/conversations/{room}/clear"), &json!({"up_to_seq": 1_000}))
        .await
        .ok(200);
    is_closed(&bob, &cleared).await;
    reads(&late, &cleared, "long ago").await;
    world.stop().await;
}

#[actix_web::test]
async fn nobody_can_refer_to_what_they_may_not_read() {
    let world = World::start().await;
    let (ann, eve) = (world.user(1), world.user(3));
    let own = eve.group(&[]).await;
    let one = file(&ann, "private").await;
    let head = eve.page(&own, "").await;
    for id in [one["file_id"].clone(), json!("123456789"), json!("9223372036854775807")] {
        let guess = json!({"file_id": id, "name": "x", "media_type": "text/plain", "size": 1});
        eve.send_file(&own, "guess", &guess).await.refused("not_found");
    }
    for id in [json!(7), json!("x"), json!(null), json!("-1"), json!("")] {
        let wrong = json!({"file_id": id, "name": "x", "media_type": "text/plain", "size": 1});
        eve.send_file(&own, "wrong", &wrong).await.refused("invalid_request");
    }
    // An edit refers to nothing more than a message does.
    let said = eve.say(&own, "words").await;
    let place = format!("/v1/messages/{}", id_of(&said, "message_id"));
    let content = json!({"text": "words", "attachments": [{"file_id": one["file_id"]}]});
    eve.patch(&place, &json!({"content": content}))
        .await
        .refused("not_found");
    assert_eq!(eve.page(&own, "").await.0.len(), head.0.len() + 1, "no number was used");
    is_closed(&eve, &one).await;
    world.stop().await;
}

#[actix_web::test]
async fn a_forward_passes_a_file_on_and_an_edit_exchanges_it() {
    let world = World::start().await;
    let (ann, bob, eve) = (world.user(1), world.user(2), world.user(3));
    let (room, other) = (ann.group(&[&bob]).await, bob.group(&[&eve]).await);
    let (one, two) = (file(&ann, "one").await, file(&ann, "two").await);
    let sent = ann.send_file(&room, "k", &one).await.ok(201);
    let place = format!("/v1/messages/{}", id_of(&sent["message"], "message_id"));
    let forward = json!({"conversation_ids": [other], "client_message_id": "f"});
    let copies = bob.post(&format!("{place}/forward"), &forward).await.ok(201);
    assert!(copies["items"][0]["message"].is_object(), "{copies}");
    reads(&eve, &one, "one").await;

    let content = json!({"text": "", "attachments": [{"file_id": two["file_id"], "name": "x", "media_type": "text/plain", "size": 3}]});
    ann.patch(&place, &json!({"content": content})).await.ok(200);
    reads(&bob, &two, "two").await;
    is_closed(&eve, &two).await;
    // By the forward, which is a message of its own.
    reads(&bob, &one, "one").await;
    ann.post(&format!("{place}/recall"), &json!({})).await.ok(200);
    is_closed(&bob, &two).await;
    reads(&eve, &one, "one").await;
    world.stop().await;
}

/// A folder that is older than its database: what its rows promise is not there, or not all of it.
#[actix_web::test]
async fn bytes_that_were_lost_come_back_with_whoever_brings_them_again() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let words = "all that was said. ".repeat(500);
    let first = file(&ann, &words).await;
    let damages: [fn(&Path) -> std::io::Result<()>; 2] =
        [|object| fs::remove_file(object), |object| fs::write(object, "all")];
    for damage in damages {
        let objects = world.objects();
        assert_eq!(objects.len(), 1, "{objects:?}");
        damage(&objects[0]).unwrap();
        let again = file(&bob, &words).await;
        reads(&bob, &again, &words).await;
        reads(&ann, &first, &words).await;
    }
    world.stop().await;
}
