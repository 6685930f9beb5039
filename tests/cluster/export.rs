//! A store goes through `export` and `import` into an empty one, and what comes out of that is the same again.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::stores::Kind;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::support::tokens::user_token;

const ADMIN_KEY: &str = "the admin key of the tests";
/// Words and bytes that are gone, and must be nowhere.
const GONE: [&str; 5] = [
    "WORDS-EDITED",
    "WORDS-RECALLED",
    "WORDS-DELETED",
    "BYTES-RECALLED",
    "member_removed",
];

/// What a client keeps where an import keeps the time.
const OWN_SAID_AT: &str = "once";

/// The files of an export by their names, and the lines of its rooms in order of their names: ids are replaced by how often
/// something new came before them in the room.
type Export = (BTreeMap<String, Vec<u8>>, BTreeMap<String, Vec<String>>);

struct Scene {
    url: String,
    users: Vec<Rest>,
}

fn user(id: u64) -> Value {
    json!({"type": "USER", "id": id.to_string()})
}

fn id_of(value: &Value, name: &str) -> String {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name} in {value}"))
        .to_owned()
}

impl Scene {
    fn at(url: &str) -> Self {
        let users = (0..=5).map(|id| Rest::new(url, id)).collect();
        Self {
            url: url.to_owned(),
            users,
        }
    }

    /// Says something; answers the message's id.
    async fn say(&self, user: usize, room: &str, kind: &str, content: &Value, quote: Option<&str>) -> String {
        let key = format!("{user}/{content}");
        let key: String = key.chars().filter(|c| !c.is_control()).take(100).collect();
        let body =
            json!({"client_message_id": key, "message_type": kind, "content": content, "quoted_message_id": quote});
        let path = format!("/v1/conversations/{room}/messages");
        id_of(&self.users[user].post(&path, &body).await["message"], "message_id")
    }

    async fn text(&self, user: usize, room: &str, text: &str, quote: Option<&str>) -> String {
        self.say(user, room, "TEXT", &json!({"text": text}), quote).await
    }

    async fn call(&self, user: usize, method: Method, path: &str, body: Value) -> Value {
        let (status, answer) = self.users[user].call(method, path, Some(&body)).await.unwrap();
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// By the admin key, in the name of whom no token of these tests is for.
    async fn say_for(&self, sender: Value, room: &str, kind: &str, content: Value) {
        let body = json!({"client_message_id": "k", "message_type": kind, "content": content, "sender": sender});
        let request = reqwest::Client::new().post(format!("{}/admin/v1/conversations/{room}/messages", self.url));
        let answer = request.bearer_auth(ADMIN_KEY).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    /// Uploads a file; answers its entry of `attachments`.
    async fn upload(&self, user: u64, name: &str, media_type: &str, bytes: &[u8]) -> Value {
        let head = format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: {media_type}\r\n\r\n"
        );
        let body = [head.as_bytes(), bytes, b"\r\n--b--\r\n"].concat();
        let request = reqwest::Client::new()
            .post(format!("{}/v1/files", self.url))
            .bearer_auth(user_token(user));
        let request = request
            .header("content-type", "multipart/form-data; boundary=b")
            .body(body);
        let file: Value = request.send().await.unwrap().json().await.unwrap();
        json!({"file_id": id_of(&file, "file_id"), "name": file["name"], "media_type": file["media_type"], "size": file["size"]})
    }

    /// Everything that a conversation can have in it.
    async fn play(&self) {
        let members = json!([user(2), user(3), user(4), {"type": "USER", "external_id": "ann"}, {"type": "AGENT", "external_id": "helper"}]);
        let tea = json!({"kind": "GROUP", "title": "tea 🎶", "members": members});
        let tea = id_of(&self.users[1].post("/v1/conversations", &tea).await, "conversation_id");
        let direct = json!({"kind": "DIRECT", "member": user(2)});
        let direct = id_of(
            &self.users[1].post("/v1/conversations", &direct).await,
            "conversation_id",
        );
        let first = self
            .text(1, &tea, "Is the kettle on? \u{202e}\u{7f}\u{1} \" \\ 你好", None)
            .await;
        self.say(2, &tea, "MARKDOWN", &json!({"text": "**hi**", "n": 0.1}), Some(&first))
            .await;
        self.files(&tea, &direct).await;
        let everybody = self.users[1].get(&format!("/v1/conversations/{tea}/members")).await;
        let everybody = everybody["items"].as_array().unwrap().clone();
        let users = everybody
            .iter()
            .map(|member| &member["principal"])
            .filter(|one| one["type"] == "USER");
        let ann = users.map(|user| id_of(user, "id")).find(|id| id.len() > 1);
        let mentions = json!([{"user_id": ann.unwrap(), "offset": 0, "length": 4}]);
        self.say(
            1,
            &tea,
            "TEXT",
            &json!({"text": "@ann, look", "mentions": mentions, "said_at": OWN_SAID_AT}),
            None,
        )
        .await;
        self.say_for(
            json!({"type": "USER", "external_id": "ann"}),
            &tea,
            "TEXT",
            json!({"text": "I see"}),
        )
        .await;
        self.say_for(
            json!({"type": "AGENT", "external_id": "helper"}),
            &tea,
            "CARD",
            json!({"card_type": "poll", "card_data": {"z": [1], "a": null}}),
        )
        .await;
        self.say_for(
            json!({"type": "SYSTEM", "id": "0"}),
            &tea,
            "TEXT",
            json!({"text": "closed on Monday"}),
        )
        .await;
        self.gone(&tea).await;
        self.text(4, &tea, "I am off", None).await;
        self.call(
            1,
            Method::DELETE,
            &format!("/v1/conversations/{tea}/members/USER/4"),
            json!({}),
        )
        .await;
        self.text(2, &direct, "between us", None).await;
        let notes = json!({"kind": "DIRECT", "member": user(3)});
        let notes = id_of(
            &self.users[3].post("/v1/conversations", &notes).await,
            "conversation_id",
        );
        self.text(3, &notes, "to myself", None).await;
        self.rules().await;
    }

    async fn files(&self, tea: &str, direct: &str) {
        let mut picture = Vec::new();
        let pixels = image::RgbImage::from_fn(400, 300, |x, y| image::Rgb([x.to_le_bytes()[0], y.to_le_bytes()[0], 7]));
        pixels
            .write_to(&mut Cursor::new(&mut picture), image::ImageFormat::Png)
            .unwrap();
        let picture = self.upload(1, "tea.png", "image/png", &picture).await;
        let shown = self
            .say(1, tea, "IMAGE", &json!({"attachments": [picture]}), None)
            .await;
        for key in ["one", "two"] {
            let file = self
                .upload(2, &format!("{key}.txt"), "text/plain", b"the same bytes")
                .await;
            self.say(2, tea, "FILE", &json!({"text": key, "attachments": [file]}), None)
                .await;
        }
        let voice = self.upload(1, "voice.ogg", "audio/ogg", b"OggS and so on").await;
        let empty = self.upload(1, "empty", "application/x-own", b"").await;
        self.say(
            1,
            direct,
            "VOICE",
            &json!({"attachments": [voice.clone(), empty]}),
            None,
        )
        .await;
        let on = json!({"conversation_ids": [direct], "client_message_id": "on"});
        self.users[2].post(&format!("/v1/messages/{shown}/forward"), &on).await;
    }

    /// What is edited, recalled and deleted, and who answers it.
    async fn gone(&self, tea: &str) {
        let edited = self.text(1, tea, "WORDS-EDITED", None).await;
        let words = json!({"content": {"text": "as it is now"}});
        self.call(1, Method::PATCH, &format!("/v1/messages/{edited}"), words)
            .await;
        let recalled = self.text(2, tea, "WORDS-RECALLED", None).await;
        let deleted = self.text(3, tea, "WORDS-DELETED", None).await;
        let file = self.upload(2, "gone", "application/x-own", b"BYTES-RECALLED").await;
        let bytes = self.say(2, tea, "FILE", &json!({"attachments": [file]}), None).await;
        for (answer, quoted) in [
            ("to the recalled", &recalled),
            ("to the deleted", &deleted),
            ("to the edited", &edited),
        ] {
            self.text(1, tea, answer, Some(quoted)).await;
        }
        for message in [&recalled, &bytes] {
            self.users[2]
                .post(&format!("/v1/messages/{message}/recall"), &json!({}))
                .await;
        }
        self.call(1, Method::DELETE, &format!("/v1/messages/{deleted}"), json!({}))
            .await;
    }

    /// Groups with rules: who joins late sees no more than before, and the closed stays closed.
    async fn rules(&self) {
        let late =
            json!({"kind": "GROUP", "title": "late", "members": [user(2), user(4)], "history_visibility": "JOINED"});
        let late = id_of(&self.users[1].post("/v1/conversations", &late).await, "conversation_id");
        let members = format!("/v1/conversations/{late}/members");
        self.text(1, &late, "before", None).await;
        self.text(4, &late, "before, too", None).await;
        self.users[1].post(&members, &json!({"members": [user(3)]})).await;
        // Who comes again sees what is said from then on.
        self.call(1, Method::DELETE, &format!("{members}/USER/4"), json!({}))
            .await;
        self.text(2, &late, "after", None).await;
        self.users[1].post(&members, &json!({"members": [user(4)]})).await;
        self.text(3, &late, "last", None).await;
        self.call(1, Method::PATCH, &format!("{members}/USER/2"), json!({"role": "ADMIN"}))
            .await;
        let rules =
            json!({"posting": "ADMINS", "adding": "ALL", "title": null, "avatar_url": "https://a.example/x.png"});
        self.call(1, Method::PATCH, &format!("/v1/conversations/{late}"), rules)
            .await;
        let closed = self.users[5].group("closed", [1]).await;
        self.text(5, &closed, "over", None).await;
        self.call(5, Method::DELETE, &format!("/v1/conversations/{closed}"), json!({}))
            .await;
    }
}

/// Reads an export; its ids are replaced.
fn read(folder: &Path) -> Export {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join("files")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        files.insert(name, std::fs::read(path).unwrap());
    }
    let mut rooms = BTreeMap::<String, (Vec<String>, BTreeMap<String, String>)>::new();
    for line in std::fs::read_to_string(folder.join("messages.jsonl")).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let room = id_of(&value, "room");
        let (lines, known) = rooms.entry(room.clone()).or_default();
        known.insert(room, "ROOM".to_owned());
        let mut learn = |id: &Value, what: &str| {
            if let Some(id) = id.as_str() {
                known.insert(id.to_owned(), format!("{what}{}", lines.len()));
            }
        };
        learn(&value["ref"], "M");
        for (n, file) in value["files"].as_array().into_iter().flatten().enumerate() {
            learn(&file["file_id"], &format!("F{n}/"));
        }
        // The place of the time is taken: it is when the message was stored.
        if value["content"]["said_at"] == OWN_SAID_AT {
            learn(&value["at"], "AT");
        }
        lines.push(line.to_owned());
    }
    let replaced = rooms.into_values().map(|(lines, known)| {
        let lines = lines.into_iter().map(|line| {
            let parts = line.split('"').map(|part| known.get(part).map_or(part, String::as_str));
            parts.collect::<Vec<_>>().join("\"")
        });
        let lines: Vec<String> = lines.collect();
        (lines[0].clone(), lines)
    });
    (files, replaced.collect())
}

fn server(url: &str) -> Server {
    let mut server = Server::new(url);
    server.set("ONESCRIBE__ADMIN__API_KEY", ADMIN_KEY);
    server
}

async fn exported(server: &Server, folder: &Path) -> String {
    let (status, said) = server.run(&["export", folder.to_str().unwrap()]).await;
    assert!(status.success(), "{said}");
    said
}

async fn goes_through_and_is_the_same_again(from: Kind, to: Kind) {
    let (Some(from), Some(to)) = (from.fresh().await, to.fresh().await) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a/first"), folder.path().join("second"));
    let mut source = server(&from.url);
    let scene = Scene::at(&source.start().await);
    scene.play().await;
    let said = exported(&source, &first).await;
    assert!(
        said.contains("5 conversations, ") && said.contains(" 4 files in "),
        "{said}"
    );
    assert!(
        said.contains("left out: 2 recalled, 1 deleted, 0 still growing"),
        "{said}"
    );
    assert!(said.contains(" 2 quotes of what"), "{said}");
    assert_nothing_is_gone_in(&first);

    let mut target = server(&to.url);
    let lines = first.join("messages.jsonl");
    for (sent, there) in [
        ("0 already there, 0 skipped; ", ""),
        ("0 sent, ", "0 skipped; 0 files uploaded"),
    ] {
        let (status, said) = target.run(&["import", lines.to_str().unwrap()]).await;
        assert!(
            status.success() && said.contains(sent) && said.contains(there),
            "{said}"
        );
    }
    target.assert_store_in_order().await;
    exported(&target, &second).await;
    let (before, after) = (read(&first), read(&second));
    for (name, lines) in &before.1 {
        assert_eq!(Some(lines), after.1.get(name), "of {:?}", after.1.keys());
    }
    assert!(before == after, "the bytes of the files are the same");
    looked_at(&Scene::at(&target.start().await)).await;
}

/// B58, for exports.
fn assert_nothing_is_gone_in(folder: &Path) {
    for (name, bytes) in read(folder).0.into_iter().chain([(
        "messages.jsonl".to_owned(),
        std::fs::read(folder.join("messages.jsonl")).unwrap(),
    )]) {
        let text = String::from_utf8_lossy(&bytes);
        for gone in GONE {
            assert!(!text.contains(gone), "{gone} is in {name}");
        }
    }
}

/// The rights in the new store are those of the old one.
async fn looked_at(scene: &Scene) {
    let rooms = scene.users[3].get("/v1/conversations").await;
    let rooms = rooms["items"].as_array().unwrap().clone();
    let find = |kind: &str, title: &Value| {
        let found = rooms
            .iter()
            .find(|room| room["kind"] == kind && room["title"] == *title);
        id_of(
            found.unwrap_or_else(|| panic!("{kind} {title} in {rooms:?}")),
            "conversation_id",
        )
    };
    let (tea, late) = (find("GROUP", &json!("tea 🎶")), find("GROUP", &Value::Null));
    find("DIRECT", &Value::Null);
    let seen = scene.users[3].history_after(&late, 0).await;
    let texts: Vec<&Value> = seen
        .iter()
        .map(|seen| &seen["content"]["text"])
        .filter(|text| !text.is_null())
        .collect();
    assert_eq!(texts, ["after", "last"], "who joined late sees what they saw");
    let seen = scene.users[4].history_after(&late, 0).await;
    let texts: Vec<&Value> = seen
        .iter()
        .map(|seen| &seen["content"]["text"])
        .filter(|text| !text.is_null())
        .collect();
    assert_eq!(texts, ["last"], "who came again sees what they saw");
    let path = format!("/v1/conversations/{tea}/messages");
    let (status, _) = scene.users[4].call(Method::GET, &path, None).await.unwrap();
    assert_eq!(status, 403, "who was removed stays so");
    let (status, problem) = scene.users[3].send(&late, "k", "may I?").await.unwrap();
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (403, &"forbidden".into()),
        "only admins post"
    );
    let header = scene.users[1].get(&format!("/v1/conversations/{late}")).await;
    assert_eq!(
        (&header["me"]["role"], &header["avatar_url"]),
        (&"OWNER".into(), &"https://a.example/x.png".into())
    );
    let all = scene.users[3].history_after(&tea, 0).await;
    let picture = all.iter().find(|message| message["message_type"] == "IMAGE").unwrap();
    let picture = id_of(&picture["content"]["attachments"][0], "file_id");
    let small = reqwest::Client::new().get(format!("{}/v1/files/{picture}/thumbnail", scene.url));
    let small = small.bearer_auth(user_token(3)).send().await.unwrap();
    assert_eq!(small.status(), 200, "a picture has a small one");
    let mention = all
        .iter()
        .find_map(|message| message["content"]["mentions"][0]["user_id"].as_str());
    let ann = all
        .iter()
        .find(|message| message["content"]["text"] == "I see")
        .unwrap();
    assert_eq!(
        mention,
        ann["sender"]["id"].as_str(),
        "who was mentioned has the same id"
    );
}

#[tokio::test]
async fn what_was_exported_and_imported_is_exported_the_same_again() {
    goes_through_and_is_the_same_again(Kind::Sqlite, Kind::Sqlite).await;
}

#[tokio::test]
async fn b20_a_store_moves_from_sqlite_to_postgres_as_it_is() {
    goes_through_and_is_the_same_again(Kind::Sqlite, Kind::Postgres).await;
}

#[tokio::test]
async fn b20_a_store_moves_from_postgres_to_mysql_as_it_is() {
    goes_through_and_is_the_same_again(Kind::Postgres, Kind::MySql).await;
}
