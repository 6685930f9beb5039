//! A message refers only to files that its sender may read, judged where it gets its number; the right travels with what is
//! sent on, and goes with the words.

use serde_json::{Value, json};
use sqlx::{Connection as _, QueryBuilder, Sqlite, SqliteConnection};

use super::socket::Socket;
use super::world::{Caller, Reply, World, id_of};

/// A file of user 1 is there, as if it had been uploaded.
pub(crate) async fn put_file(world: &World, id: u32) {
    let mut connection = SqliteConnection::connect(&world.database_url()).await.unwrap();
    for row in [
        format!(
            "INSERT INTO im_blob (blob_id, object_key, size_bytes, live, created_at) VALUES ({id}, 'key {id}', 1, 1, 0)"
        ),
        format!(
            "INSERT INTO im_file (file_id, uploader_type, uploader_id, name, media_type, state, blob_id, created_at)
             VALUES ({id}, 1, 1, 'paper', 'text/plain', 2, {id}, 0)"
        ),
    ] {
        let mut insert = QueryBuilder::<Sqlite>::new(row);
        insert.build().execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
}

fn message(kind: &str, key: &str, files: &[Value]) -> Value {
    let attachments: Vec<Value> = files.iter().map(|id| json!({"file_id": id, "name": "a"})).collect();
    let content =
        json!({"text": "look", "card_type": "c", "card_data": {}, "ciphertext": "AAEC", "attachments": attachments});
    json!({"client_message_id": key, "message_type": kind, "content": content})
}

async fn show(who: &Caller, room: &str, key: &str, file: u32) -> Reply {
    let body = message("IMAGE", key, &[file.to_string().into()]);
    who.post(&format!("/v1/conversations/{room}/messages"), &body).await
}

async fn last_seq(who: &Caller, room: &str) -> i64 {
    let room = who.get(&format!("/v1/conversations/{room}")).await.ok(200);
    room["last_seq"].as_i64().unwrap()
}

#[actix_web::test]
async fn a_file_that_the_sender_may_not_read_costs_no_number_whatever_the_type() {
    let world = World::with_admin().await;
    let (ann, bob) = (world.user(1), world.user(2));
    put_file(&world, 7).await;
    let room = ann.group(&[&bob]).await;
    let messages = format!("/v1/conversations/{room}/messages");
    let before = last_seq(&bob, &room).await;
    for kind in ["IMAGE", "FILE", "VOICE", "VIDEO", "TEXT", "CARD", "ENCRYPTED", "MY_OWN"] {
        for (unreadable, why) in [("7", "another's"), ("8", "nobody's")] {
            let body = message(kind, "k", &[unreadable.into()]);
            let refusal = bob.post(&messages, &body).await.refused("not_found");
            assert_eq!(
                refusal["detail"], "no such file",
                "{kind} with {why}: one answer for both"
            );
        }
        for bad in [json!(7), json!("x"), json!(""), json!("-1")] {
            bob.post(&messages, &message(kind, "k", &[bad]))
                .await
                .refused("invalid_request");
        }
        let many: Vec<Value> = (1..=51).map(|id| id.to_string().into()).collect();
        bob.post(&messages, &message(kind, "k", &many))
            .await
            .refused("invalid_request");
    }
    // In his name the admin key has no more right than he.
    let mut for_bob = message("FILE", "k", &["7".into()]);
    for_bob["sender"] = bob.principal.clone();
    let admin = world.admin();
    let path = format!("/admin/v1/conversations/{room}/messages");
    admin.post(&path, &for_bob).await.refused("not_found");
    assert_eq!(last_seq(&bob, &room).await, before);
    show(&ann, &room, "k", 7).await.ok(201);
    show(&bob, &room, "k", 7).await.ok(201);
    assert_eq!(last_seq(&bob, &room).await, before + 2);
    world.stop().await;
}

#[actix_web::test]
async fn an_edit_brings_in_no_file_that_its_sender_may_not_read() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    put_file(&world, 7).await;
    let room = ann.group(&[&bob]).await;
    let said = id_of(&bob.say(&room, "words").await, "message_id");
    let edit = json!({"content": {"text": "look", "attachments": [{"file_id": "7"}]}});
    let path = format!("/v1/messages/{said}");
    bob.patch(&path, &edit).await.refused("not_found");
    let shown = show(&ann, &room, "k", 7).await.ok(201);
    bob.patch(&path, &edit).await.ok(200);
    // His own message shows it now, so it stays his to show when hers is gone.
    let hers = id_of(&shown["message"], "message_id");
    ann.post(&format!("/v1/messages/{hers}/recall"), &json!({}))
        .await
        .ok(200);
    show(&bob, &room, "again", 7).await.ok(201);
    world.stop().await;
}

#[actix_web::test]
async fn the_right_travels_with_what_is_sent_on_and_goes_with_the_words() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    put_file(&world, 7).await;
    let (room, other) = (ann.group(&[&bob]).await, bob.group(&[&cy]).await);
    let mut socket = Socket::hello(&world, &cy, "phone").await;
    show(&cy, &other, "k", 7).await.refused("not_found");
    let shown = show(&ann, &room, "k", 7).await.ok(201);
    let hers = id_of(&shown["message"], "message_id");
    let forward = json!({"conversation_ids": [other], "client_message_id": "f"});
    let items = bob
        .post(&format!("/v1/messages/{hers}/forward"), &forward)
        .await
        .ok(201);
    let copy = id_of(&items["items"][0]["message"], "message_id");
    assert_eq!(items["items"][0]["message"]["content"], shown["message"]["content"]);
    let pushed = socket.pushed().await;
    assert_eq!(
        pushed[0]["message"]["content"]["attachments"][0]["file_id"], "7",
        "{pushed:?}"
    );
    let frame = json!({"type": "message.send", "conversation_id": other, "client_message_id": "k", "message_type": "FILE",
                       "content": {"attachments": [{"file_id": "7", "name": "mine"}]}});
    assert_eq!(socket.ask(frame.clone()).await["type"], "message.sent");
    let mine = socket.ask(frame.clone()).await;
    assert_eq!(mine["duplicate"], true);
    // Everything that showed it is taken back: nobody but ann has a right left, and the repeat is answered all the same.
    for (who, message) in [(&bob, copy), (&cy, id_of(&mine, "message_id")), (&ann, hers)] {
        who.post(&format!("/v1/messages/{message}/recall"), &json!({}))
            .await
            .ok(200);
    }
    assert_eq!(socket.ask(frame).await["duplicate"], true);
    show(&cy, &other, "new", 7).await.refused("not_found");
    show(&bob, &room, "new", 7).await.refused("not_found");
    show(&ann, &room, "new", 7).await.ok(201);
    world.stop().await;
}

#[actix_web::test]
async fn what_i_have_left_cleared_or_deleted_for_myself_gives_me_no_right() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let notes = bob.group(&[]).await;
    for (file, way) in [(7, "left"), (8, "cleared"), (9, "deleted")] {
        put_file(&world, file).await;
        let room = ann.group(&[&bob]).await;
        let shown = show(&ann, &room, "k", file).await.ok(201);
        show(&bob, &notes, &format!("before {file}"), file).await.ok(201);
        // His own copy would be his right.
        let copies = bob
            .get(&format!("/v1/conversations/{notes}/messages?limit=1"))
            .await
            .ok(200);
        let copy = id_of(&copies["items"][0], "message_id");
        bob.post(&format!("/v1/messages/{copy}/recall"), &json!({}))
            .await
            .ok(200);
        let message = id_of(&shown["message"], "message_id");
        match way {
            "left" => drop(
                bob.delete(&format!("/v1/conversations/{room}/members/USER/2"))
                    .await
                    .ok(200),
            ),
            "cleared" => {
                let up_to = json!({"up_to_seq": shown["message"]["seq"]});
                bob.post(&format!("/v1/conversations/{room}/clear"), &up_to)
                    .await
                    .ok(200);
            }
            _ => drop(
                bob.put(&format!("/v1/messages/{message}/actions/DELETE"), &json!({}))
                    .await
                    .ok(200),
            ),
        }
        show(&bob, &notes, &format!("after {file}"), file)
            .await
            .refused("not_found");
    }
    world.stop().await;
}

#[actix_web::test]
async fn the_server_itself_shows_any_file_and_those_who_see_that_may_send_it_on() {
    let world = World::with_admin().await;
    let bob = world.user(2);
    put_file(&world, 7).await;
    let room = bob.group(&[&world.user(3)]).await;
    let mut body = message("FILE", "k", &["7".into()]);
    body["sender"] = json!({"type": "SYSTEM", "id": "0"});
    let path = format!("/admin/v1/conversations/{room}/messages");
    body["content"]["attachments"][0]["file_id"] = "8".into();
    world.admin().post(&path, &body).await.refused("not_found");
    body["content"]["attachments"][0]["file_id"] = "7".into();
    world.admin().post(&path, &body).await.ok(201);
    show(&bob, &room, "mine", 7).await.ok(201);
    world.stop().await;
}
