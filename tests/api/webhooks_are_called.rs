//! A receiver is called with what happens, and the operator sees what became of it.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use futures_util::future::join_all;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::world::{Caller, World, id_of};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OTHER: &str = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

/// A call that came.
#[derive(Clone)]
struct Came {
    headers: HeaderMap,
    text: String,
    path: String,
}

impl Came {
    fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }
}

/// A receiver on a port of its own; it answers with this status from now on.
#[derive(Clone)]
struct Receiver {
    came: Arc<Mutex<Vec<Came>>>,
    status: Arc<Mutex<u16>>,
    url: String,
}

impl Receiver {
    fn start() -> Self {
        let (came, status) = (Arc::<Mutex<Vec<Came>>>::default(), Arc::new(Mutex::new(200)));
        let state = (Arc::clone(&came), Arc::clone(&status));
        let server = HttpServer::new(move || {
            let state = Data::new(state.clone());
            App::new().app_data(state).default_service(web::to(take))
        });
        let bound = server.workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", bound.addrs()[0]);
        actix_web::rt::spawn(bound.run());
        Self { came, status, url }
    }

    fn answer(&self, status: u16) {
        *self.status.lock().unwrap() = status;
    }

    /// Those of this type, once there are so many.
    async fn wait(&self, kind: &str, count: usize) -> Vec<Came> {
        for _ in 0..600 {
            let all = self.came.lock().unwrap().clone();
            let own: Vec<Came> = all.into_iter().filter(|came| came.body()["type"] == kind).collect();
            if own.len() >= count {
                return own;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{count} {kind} did not come");
    }
}

type State = (Arc<Mutex<Vec<Came>>>, Arc<Mutex<u16>>);

#[expect(clippy::needless_pass_by_value, reason = "actix hands them over")]
fn take(state: Data<State>, request: HttpRequest, body: Bytes) -> Ready<HttpResponse> {
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers() {
        let name = reqwest::header::HeaderName::from_bytes(name.as_str().as_bytes()).unwrap();
        headers.insert(name, value.to_str().unwrap().parse().unwrap());
    }
    state.0.lock().unwrap().push(Came {
        headers,
        text: String::from_utf8(body.to_vec()).unwrap(),
        path: request.path().to_owned(),
    });
    let status = actix_web::http::StatusCode::from_u16(*state.1.lock().unwrap()).unwrap();
    let answer = HttpResponse::build(status)
        .insert_header(("location", "/elsewhere"))
        .finish();
    ready(answer)
}

async fn world() -> World {
    World::with_admin_and(|config| {
        config.webhooks.allow_private_addresses = true;
        config.push.after_secs = 1;
    })
    .await
}

async fn hook(admin: &Caller, receiver: &Receiver, events: &[&str]) -> Value {
    let body = json!({"url": receiver.url, "secret": SECRET, "events": events});
    let made = admin.put("/admin/v1/webhooks/one", &body).await.ok(201);
    tokio::time::sleep(Duration::from_millis(2)).await; // what is of the same moment may be told
    made
}

#[actix_web::test]
async fn calls_are_signed_as_the_specification_says() {
    let world = world().await;
    let (ann, admin, receiver) = (world.user(1), world.admin(), Receiver::start());
    hook(&admin, &receiver, &["message.created"]).await;
    let room = ann.group(&[]).await;
    let sent = ann.say(&room, "Ä 🎉 \"quoted\"").await;
    let came = receiver.wait("message.created", 2).await.remove(1);
    assert_eq!(came.body()["data"]["message"], sent);
    assert_eq!(came.body()["timestamp"], sent["sent_at"]);
    assert_eq!(came.path, "/hook");
    let key = Webhook::new(SECRET).unwrap();
    key.verify(came.text.as_bytes(), &came.headers).unwrap();
    assert!(
        Webhook::new(OTHER)
            .unwrap()
            .verify(came.text.as_bytes(), &came.headers)
            .is_err()
    );
    let tampered = came.text.replace("quoted", "forged");
    assert!(key.verify(tampered.as_bytes(), &came.headers).is_err());
    for (header, value) in [("webhook-id", "evt_9_9"), ("webhook-timestamp", "1700000000")] {
        let mut headers = came.headers.clone();
        headers.insert(header, value.parse().unwrap());
        assert!(key.verify(came.text.as_bytes(), &headers).is_err(), "{header}");
    }
    // A call that is kept and played again is too old, although its signature is right, and none is of the future; clocks
    // that differ a little do no harm.
    let now: i64 = came.headers["webhook-timestamp"].to_str().unwrap().parse().unwrap();
    for (skew, refusal) in [
        (-301, Some("too old")),
        (-200, None),
        (200, None),
        (330, Some("too far in future")),
    ] {
        let mut headers = came.headers.clone();
        headers.insert("webhook-timestamp", (now + skew).into());
        let signature = key.sign(came.id(), now + skew, came.text.as_bytes()).unwrap();
        headers.insert("webhook-signature", signature.parse().unwrap());
        let verified = key.verify(came.text.as_bytes(), &headers);
        let told = verified.err().map(|error| error.to_string());
        let as_expected = match (&told, refusal) {
            (Some(told), Some(refusal)) => told.contains(refusal),
            (told, refusal) => told.is_none() && refusal.is_none(),
        };
        assert!(as_expected, "{skew}: {told:?}");
    }
    world.stop().await;
}

#[actix_web::test]
async fn the_operator_sees_what_became_of_the_calls_and_repeats_them() {
    let world = world().await;
    let (ann, admin, receiver) = (world.user(1), world.admin(), Receiver::start());
    receiver.answer(302);
    let made = hook(&admin, &receiver, &[]).await;
    assert_eq!((&made["name"], &made["events"]), (&json!("one"), &json!([])));
    let room = ann.group(&[]).await;
    let path = "/admin/v1/webhooks/one";
    receiver.wait("message.created", 1).await;
    let pending = loop {
        let list = admin.get(&format!("{path}/deliveries?state=PENDING")).await.ok(200);
        if list["items"][0]["attempts"]
            .as_u64()
            .is_some_and(|attempts| attempts > 0)
        {
            break list["items"][0].clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(pending["last_error"], "HTTP 302: redirects are not followed");
    assert_eq!(
        (&pending["conversation_id"], &pending["finished_at"]),
        (&json!(room), &Value::Null)
    );
    assert!(pending["next_attempt_at"].is_string());
    assert!(receiver.came.lock().unwrap().iter().all(|came| came.path == "/hook"));
    receiver.answer(200);
    ann.say(&room, "one").await;
    ann.say(&room, "two").await;
    receiver.wait("message.created", 4).await;
    let id = id_of(&pending, "delivery_id");
    let again = admin
        .post(&format!("{path}/deliveries/{id}/redeliver"), &json!({}))
        .await
        .ok(202);
    assert_eq!((&again["state"], &again["attempts"]), (&json!("PENDING"), &json!(0)));
    let all = receiver.wait("message.created", 5).await;
    assert_eq!(all[0].id(), all[4].id());
    admin
        .post(&format!("{path}/replay"), &json!({"after": 1}))
        .await
        .ok(202);
    let all = receiver.wait("message.created", 7).await;
    assert_eq!([all[5].id(), all[6].id()], [all[2].id(), all[3].id()]);
    let mut seen = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = admin.get(&format!("{path}/deliveries{query}")).await.ok(200);
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["event_no"].clone()),
        );
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        query = format!("?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, [3, 2, 1]);
    world.stop().await;
}

#[actix_web::test]
async fn calls_that_are_about_to_begin_keep_no_connection_to_the_store_from_others() {
    let world = World::with_admin_and(|config| {
        config.webhooks.allow_private_addresses = true;
        config.database.read_connections = 1;
    })
    .await;
    let (ann, admin, receiver) = (world.user(1), world.admin(), Receiver::start());
    hook(&admin, &receiver, &["message.created"]).await;
    let mut rooms = Vec::new();
    for _ in 0..20 {
        rooms.push(ann.group(&[]).await);
    }
    // Each of these would be answered `unavailable` while others wait for one that does not go on.
    for _ in 0..5 {
        join_all(rooms.iter().map(|room| ann.say(room, "x"))).await;
        ann.get("/v1/conversations").await.ok(200);
    }
    receiver.wait("message.created", 6 * rooms.len()).await;
    world.stop().await;
}

#[actix_web::test]
async fn what_is_no_webhook_is_refused_and_secrets_are_never_told() {
    let world = World::with_admin().await;
    let admin = world.admin();
    let path = "/admin/v1/webhooks/one";
    let public = "https://1.1.1.1/hook";
    for (body, field) in [
        (json!({}), "url"),
        (json!({"url": public}), "secret"),
        (json!({"url": public, "secret": "hunter2"}), "secret"),
        (json!({"url": public, "secret": "whsec_c2hvcnQ="}), "secret"),
        (
            json!({"url": public, "secret": SECRET, "events": ["message.read"]}),
            "events",
        ),
        (json!({"url": public, "secret": SECRET, "events": "all"}), "events"),
        (json!({"url": null, "secret": SECRET}), "url"),
        (json!({"url": "https://ann:pw@1.1.1.1/", "secret": SECRET}), "url"),
        (json!({"url": "http://127.0.0.1:8080/", "secret": SECRET}), "url"),
        (json!({"url": "http://localhost/", "secret": SECRET}), "url"),
        (json!({"url": "http://[::1]/", "secret": SECRET}), "url"),
        (json!({"url": "http://169.254.169.254/latest", "secret": SECRET}), "url"),
    ] {
        let refused = admin.put(path, &body).await.refused("invalid_request");
        assert!(
            refused["detail"].as_str().unwrap().starts_with(field),
            "{body}: {refused}"
        );
    }
    let good = json!({"url": public, "secret": SECRET, "events": ["push.required", "message.created"]});
    admin
        .put("/admin/v1/webhooks/a%20b", &good)
        .await
        .refused("invalid_request");
    admin.put(path, &good).await.ok(201);
    let changed = admin.put(path, &json!({"secret": OTHER, "events": null})).await.ok(200);
    assert_eq!((&changed["url"], &changed["events"]), (&json!(public), &json!([])));
    assert_eq!(changed["secrets"].as_array().unwrap().len(), 2);
    assert!(changed["secrets"][0]["retires_at"].is_string() && changed["secrets"][1]["retires_at"].is_null());
    for path in [path, "/admin/v1/webhooks"] {
        let told = admin.get(path).await;
        told.ok(200);
        assert!(
            !told.text.contains("whsec") && told.text.contains(public),
            "{}",
            told.text
        );
    }
    admin
        .get(&format!("{path}/deliveries?state=LOST"))
        .await
        .refused("invalid_request");
    admin
        .get(&format!("{path}/deliveries?cursor=7"))
        .await
        .refused("invalid_request");
    admin
        .post(&format!("{path}/deliveries/7/redeliver"), &json!({}))
        .await
        .refused("not_found");
    admin
        .post(&format!("{path}/replay"), &json!({}))
        .await
        .refused("invalid_request");
    let nowhere = admin.post(&format!("{path}/replay"), &json!({"after": 99})).await;
    nowhere.refused("history_reset");
    admin.delete(path).await.ok(200);
    for path in [
        path.to_owned(),
        format!("{path}/deliveries"),
        "/admin/v1/webhooks/two".to_owned(),
    ] {
        admin.get(&path).await.refused("not_found");
    }
    admin.delete(path).await.refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn b80_who_is_away_is_named_with_the_total_that_the_unread_list_tells() {
    let world = world().await;
    let (ann, bob, cy, admin) = (world.user(1), world.user(2), world.user(3), world.admin());
    let receiver = Receiver::start();
    let (quiet, room) = (ann.group(&[&bob]).await, ann.group(&[&bob, &cy]).await);
    ann.say(&quiet, "of long ago").await;
    bob.put(&format!("/v1/conversations/{quiet}/me"), &json!({"muted": true}))
        .await
        .ok(200);
    hook(&admin, &receiver, &["push.required"]).await;
    // As many as there are not muted would hide that they are counted.
    ann.say(&quiet, "muted").await;
    ann.say(&quiet, "muted, too").await;
    ann.say(&room, "one").await;
    let sent = ann.say(&room, "two").await;
    let ack = json!({"device_id": "phone", "acks": [{"conversation_id": room, "seq": sent["seq"]}]});
    cy.post("/v1/me/acks", &ack).await.ok(200);
    let came = receiver.wait("push.required", 1).await.remove(0);
    let data = came.body()["data"].clone();
    let total = bob.get("/v1/me/unread").await.ok(200)["total"].clone();
    assert_eq!(
        data["recipients"],
        json!([{"principal": bob.principal, "unread_total": total}])
    );
    assert_eq!((&total, &data["conversation_id"]), (&json!(2), &json!(room)));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(receiver.wait("push.required", 1).await.len(), 1, "once");
    world.stop().await;
}
