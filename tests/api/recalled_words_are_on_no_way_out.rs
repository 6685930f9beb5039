//! B58: the words of a recalled message are gone from everything that the server says and from every cell of its store.

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection as _, QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::files_go_with_messages::put_file;
use super::socket::Socket;
use super::the_feed_tells_what_happened::read_until;
use super::world::{Caller, World, id_of};

const WORDS: &str = "sekrit";
/// A file of ann's, which has another name than the message gives it.
const FILE: u32 = 77;

/// Everything that was said, answer by answer.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    async fn call(&mut self, who: &Caller, method: Method, path: &str, body: &Value) {
        let reply = who.call_as("search", method.clone(), path, body).await;
        assert!(reply.status < 500, "{method} {path}: {}", reply.text);
        self.0.push(format!("{method} {path}: {}", reply.text));
    }

    async fn get(&mut self, who: &Caller, path: &str) {
        self.call(who, Method::GET, path, &json!({})).await;
    }
}

/// Ann's message that others have done all that they can with, and then she takes it back.
async fn recalled(ann: &Caller, bob: &Caller) -> (String, String) {
    let room = ann.group(&[bob]).await;
    ann.say(&room, "before").await;
    let content = json!({
        "text": format!("{WORDS} one @bob"), "mentions": [{"user_id": "2", "offset": 11, "length": 4}],
        "attachments": [{"file_id": FILE.to_string(), "name": format!("{WORDS}.pdf")}],
    });
    let body = json!({"client_message_id": "k", "message_type": "TEXT", "content": content});
    let sent = ann
        .post(&format!("/v1/conversations/{room}/messages"), &body)
        .await
        .ok(201);
    let id = id_of(&sent["message"], "message_id");
    let message = format!("/v1/messages/{id}");
    let two = json!({
        "text": format!("{WORDS} two"), "mention_all": true,
        "attachments": [{"file_id": FILE.to_string(), "name": format!("{WORDS} again.pdf")}],
    });
    ann.patch(&message, &json!({ "content": two })).await.ok(200);
    for path in ["pin", "reactions/%F0%9F%91%8D"] {
        ann.put(&format!("{message}/{path}"), &json!({})).await.ok(200);
    }
    bob.put(
        &format!("{message}/actions/FAVORITE"),
        &json!({"payload": {"note": "mine"}}),
    )
    .await
    .ok(200);
    let due = json!({"remind_at": "2026-01-01T00:00:00.000Z"});
    ann.post(&format!("{message}/recall"), &json!({})).await.ok(200);
    bob.put(&format!("{message}/actions/REMINDER"), &due).await;
    let quote = json!({"client_message_id": "q", "message_type": "TEXT", "content": {"text": "about that"}, "quoted_message_id": id});
    bob.post(&format!("/v1/conversations/{room}/messages"), &quote)
        .await
        .ok(201);
    (room, id)
}

async fn over_rest(told: &mut Told, who: &Caller, room: &str, id: &str) {
    let (conversation, message) = (format!("/v1/conversations/{room}"), format!("/v1/messages/{id}"));
    for path in [
        "/v1/conversations".to_owned(),
        conversation.clone(),
        format!("{conversation}/messages"),
        format!("{conversation}/messages?after_seq=0"),
        format!("{conversation}/messages?before_seq=100"),
        format!("{conversation}/members"),
        format!("{conversation}/pins"),
        format!("{conversation}/receipts?seq=3"),
        message.clone(),
        "/v1/me/actions".to_owned(),
        "/v1/me/actions?action_type=FAVORITE".to_owned(),
        "/v1/me/actions?action_type=REMINDER".to_owned(),
        "/v1/me/unread".to_owned(),
        "/v1/notifications".to_owned(),
        "/v1/contacts".to_owned(),
        "/v1/me".to_owned(),
        "/v1/users/USER/1".to_owned(),
    ] {
        told.get(who, &path).await;
    }
    let cursors = json!([{"conversation_id": room, "seq": 2, "change_seq": 0}]);
    for body in [
        json!({"device_id": "d"}),
        json!({"device_id": "d", "cursors": []}),
        json!({"device_id": "d", "cursors": cursors}),
    ] {
        told.call(who, Method::POST, "/v1/sync", &body).await;
    }
    // What acts on it answers with the message, or refuses.
    told.call(who, Method::PATCH, &message, &json!({"content": {"text": "other"}}))
        .await;
    told.call(who, Method::POST, &format!("{message}/recall"), &json!({}))
        .await;
    told.call(who, Method::PUT, &format!("{message}/pin"), &json!({})).await;
    told.call(who, Method::PUT, &format!("{message}/reactions/x"), &json!({}))
        .await;
    told.call(who, Method::PUT, &format!("{message}/actions/FAVORITE"), &json!({}))
        .await;
    let forward = json!({"conversation_ids": [room], "client_message_id": "f"});
    told.call(who, Method::POST, &format!("{message}/forward"), &forward)
        .await;
    for text in ["again", "as it was first"] {
        let body = json!({"client_message_id": "k", "message_type": "TEXT", "content": {"text": text}});
        told.call(who, Method::POST, &format!("{conversation}/messages"), &body)
            .await;
    }
}

async fn over_a_socket(told: &mut Told, world: &World, who: &Caller, room: &str, id: &str) {
    let mut socket = Socket::hello(world, who, "search").await;
    for frame in [
        json!({"type": "history", "conversation_id": room}),
        json!({"type": "sync", "device_id": "search", "cursors": []}),
        json!({"type": "message.edit", "message_id": id, "content": {"text": "other"}}),
        json!({"type": "message.recall", "message_id": id}),
        json!({"type": "read", "conversation_id": room, "seq": 1}),
    ] {
        told.0.push(socket.ask(frame).await.to_string());
    }
    told.0.push(format!("{:?}", socket.pushed().await));
}

/// Every cell of every table.
async fn at_rest(url: &str) -> Vec<String> {
    let mut connection = SqliteConnection::connect(url).await.unwrap();
    let tables = sqlx::query("SELECT name FROM sqlite_master WHERE type = 'table'");
    let mut cells = Vec::new();
    for table in tables.fetch_all(&mut connection).await.unwrap() {
        let table: String = table.get(0);
        let columns = QueryBuilder::<Sqlite>::new(format!("SELECT name FROM pragma_table_info('{table}')"))
            .build()
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let text: Vec<String> = columns
            .iter()
            .map(|column| format!("COALESCE(CAST({} AS BLOB), x'')", column.get::<String, _>(0)))
            .collect();
        let rows = QueryBuilder::<Sqlite>::new(format!(
            "SELECT CAST({} AS BLOB) FROM {table}",
            text.join(" || ' ' || ")
        ))
        .build()
        .fetch_all(&mut connection)
        .await
        .unwrap();
        for row in &rows {
            // Keys and hashes are bytes.
            let cell = row.get::<Vec<u8>, _>(0);
            cells.push(format!("{table}: {}", String::from_utf8_lossy(&cell)));
        }
    }
    cells
}

#[actix_web::test]
async fn b58_recalled_words_are_on_no_way_out_and_in_no_cell() {
    let world = World::with_admin().await;
    let (ann, bob) = (world.user(1), world.user(2));
    world.admin().get("/admin/v1/events").await.ok(200);
    put_file(&world, FILE).await;
    let (room, id) = recalled(&ann, &bob).await;
    let mut told = Told::default();
    let events = read_until(&world.admin(), 0, "message.recalled").await;
    told.0.extend(events.iter().map(ToString::to_string));
    for who in [&ann, &bob] {
        over_rest(&mut told, who, &room, &id).await;
        over_a_socket(&mut told, &world, who, &room, &id).await;
    }
    told.get(&world.admin(), "/admin/v1/stats").await;
    let cells = at_rest(&world.database_url()).await;
    let said = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
    assert!(
        said(&cells, "about that") && said(&told.0, "about that"),
        "the search sees what is there"
    );
    assert!(said(&told.0, "\"recalled\":true"), "and the recalled message itself");
    assert!(
        said(&cells, "im_file: ") && !said(&cells, "im_file_ref: "),
        "the file is ann's alone again"
    );
    for line in told.0.iter().chain(&cells) {
        assert!(!line.contains(WORDS), "{line}");
    }
    world.stop().await;
}
