//! What the operator says reaches whoever it is for, once, and how far it has come can be seen.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::socket::Socket;
use super::the_feed_tells_what_happened::read_until;
use super::world::{Caller, Reply, World, id_of};

async fn announce(admin: &Caller, key: &str, audience: Value) -> Reply {
    let body = json!({"audience": audience, "text": "maintenance\nat noon", "payload": {"at": 12.0}, "client_request_id": key});
    admin.post("/admin/v1/announcements", &body).await
}

/// The job at its end.
async fn ended(admin: &Caller, job: &Value) -> Value {
    let path = format!("/admin/v1/jobs/{}", id_of(job, "job_id"));
    for _ in 0..300 {
        let job = admin.get(&path).await.ok(200);
        if job["state"] != "RUNNING" {
            return job;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("{job} does not end");
}

async fn told(who: &Caller) -> Vec<Value> {
    let page = who.get("/v1/notifications").await.ok(200);
    page["items"].as_array().unwrap().clone()
}

#[actix_web::test]
async fn those_who_are_named_are_told_once_users_and_agents() {
    let world = World::with_admin().await;
    let (admin, ann, bot, cy) = (world.admin(), world.user(1), world.agent(1), world.user(3));
    cy.group(&[&ann]).await;
    let mut phone = Socket::hello(&world, &ann, "phone").await;
    let audience = json!([
        bot.principal,
        ann.principal,
        ann.principal,
        world.external("zoe").principal["id"].clone()
    ]);
    announce(&admin, "k", audience).await.refused("invalid_request");
    let zoe = json!({"type": "USER", "external_id": "zoe"});
    let audience = json!([bot.principal, ann.principal, ann.principal, zoe]);
    let job = announce(&admin, "k", audience).await.ok(202);
    assert_eq!(
        (&job["state"], &job["total"]),
        (&json!("RUNNING"), &json!(3)),
        "each once"
    );
    let job = ended(&admin, &job).await;
    assert_eq!(
        (&job["state"], &job["done"], &job["total"], &job["missed"]),
        (&json!("DONE"), &json!(3), &json!(3), &json!(0))
    );
    for who in [&ann, &bot, &world.external("zoe")] {
        let notes = told(who).await;
        let [note] = notes.as_slice() else {
            panic!("one is told once: {notes:?}")
        };
        assert_eq!(note["kind"], "ANNOUNCEMENT");
        assert_eq!(note["from"], json!({"type": "SYSTEM", "id": "0"}));
        assert_eq!(
            (&note["text"], &note["state"]),
            (&json!("maintenance\nat noon"), &json!("PENDING"))
        );
        assert_eq!(note["payload"].to_string(), "{\"at\":12.0}");
    }
    assert_eq!(told(&cy).await, Vec::<Value>::new());
    let pushed = phone.pushed().await;
    let message = pushed
        .iter()
        .find(|push| push["type"] == "message.new")
        .expect("a push");
    assert_eq!(message["message"]["message_type"], "NOTIFICATION");
    assert_eq!(message["message"]["content"]["text"], "maintenance\nat noon");
    world.stop().await;
}

#[actix_web::test]
async fn all_are_the_users_who_are_known_at_that_moment_disabled_ones_included() {
    let world = World::with_admin().await;
    let (admin, ann, bob, bot) = (world.admin(), world.user(1), world.user(2), world.agent(3));
    ann.group(&[&bob, &bot]).await;
    admin
        .put("/admin/v1/users/2", &json!({"status": "DISABLED"}))
        .await
        .ok(200);
    let job = announce(&admin, "k", json!("ALL")).await.ok(202);
    assert_eq!(job["total"], 2);
    let job = ended(&admin, &job).await;
    assert_eq!((&job["done"], &job["total"]), (&json!(2), &json!(2)));
    let late = world.user(9);
    for (who, count) in [(&ann, 1), (&bot, 0), (&late, 0)] {
        assert_eq!(told(who).await.len(), count);
    }
    admin
        .put("/admin/v1/users/2", &json!({"status": "ACTIVE"}))
        .await
        .ok(200);
    assert_eq!(told(&bob).await.len(), 1, "it waits for who comes back");
    world.stop().await;
}

#[actix_web::test]
async fn the_same_request_is_the_same_job_and_another_with_its_key_is_refused() {
    let world = World::with_admin().await;
    let (admin, ann, bob) = (world.admin(), world.user(1), world.user(2));
    let both = json!([ann.principal, bob.principal]);
    let replies = join_all((0..20).map(|_| announce(&admin, "k", both.clone()))).await;
    assert_eq!(
        replies.iter().filter(|reply| reply.status == 202).count(),
        1,
        "one is new"
    );
    let job = id_of(&replies[0].body(), "job_id");
    for reply in &replies {
        assert!(
            matches!(reply.status, 200 | 202) && reply.body()["job_id"] == job.as_str(),
            "{}",
            reply.text
        );
    }
    let order = json!([bob.principal, ann.principal, bob.principal]);
    assert_eq!(
        announce(&admin, "k", order).await.ok(200)["job_id"],
        job.as_str(),
        "the same audience"
    );
    announce(&admin, "k", json!("ALL"))
        .await
        .refused("idempotency_key_reused");
    announce(&admin, "k", json!([ann.principal]))
        .await
        .refused("idempotency_key_reused");
    let other = json!({"audience": both, "text": "maintenance\nat noon", "client_request_id": "k"});
    let refused = admin.post("/admin/v1/announcements", &other).await;
    refused.refused("idempotency_key_reused");
    let done = ended(&admin, &replies[0].body()).await;
    // The words of a job that is done are forgotten; what was asked for is not.
    assert_eq!(announce(&admin, "k", both).await.ok(200), done);
    admin
        .post("/admin/v1/announcements", &other)
        .await
        .refused("idempotency_key_reused");
    for who in [&ann, &bob] {
        assert_eq!(told(who).await.len(), 1);
    }
    world.stop().await;
}

#[actix_web::test]
async fn an_announcement_can_only_be_read() {
    let world = World::with_admin().await;
    let (admin, ann, bob) = (world.admin(), world.user(1), world.user(2));
    let job = announce(&admin, "k", json!([ann.principal])).await.ok(202);
    ended(&admin, &job).await;
    let id = id_of(&told(&ann).await[0], "notification_id");
    let answer = async |who: &Caller, verb: &str| who.post(&format!("/v1/notifications/{id}/{verb}"), &json!({})).await;
    for verb in ["accept", "decline"] {
        answer(&ann, verb).await.refused("invalid_request");
        answer(&bob, verb).await.refused("not_found");
    }
    let read = answer(&ann, "read").await.ok(200);
    assert!(read["read_at"].is_string() && read["state"] == "PENDING", "{read}");
    assert_eq!(answer(&ann, "read").await.ok(200), read);
    // Read and told again by a process that was killed: it is the same.
    announce(&admin, "k", json!([ann.principal])).await.ok(200);
    assert_eq!(told(&ann).await, [read]);
    world.stop().await;
}

#[actix_web::test]
async fn jobs_are_listed_newest_first_page_by_page_without_their_words() {
    let world = World::with_admin().await;
    let (admin, ann) = (world.admin(), world.user(1));
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        let job = announce(&admin, key, json!([ann.principal])).await.ok(202);
        ids.insert(0, id_of(&ended(&admin, &job).await, "job_id"));
    }
    let all = admin.get("/admin/v1/jobs").await;
    assert!(!all.text.contains("maintenance"));
    let all = all.ok(200);
    let listed = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|job| id_of(job, "job_id")).collect::<Vec<_>>()
    };
    assert_eq!((listed(&all), &all["next_cursor"]), (ids.clone(), &Value::Null));
    let first = admin.get("/admin/v1/jobs?limit=2").await.ok(200);
    assert_eq!(listed(&first), ids[..2]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = admin
        .get(&format!("/admin/v1/jobs?limit=2&cursor={cursor}"))
        .await
        .ok(200);
    assert_eq!((listed(&rest), &rest["next_cursor"]), (ids[2..].to_vec(), &Value::Null));
    for bad in ["limit=0", "limit=x", "cursor=x"] {
        admin
            .get(&format!("/admin/v1/jobs?{bad}"))
            .await
            .refused("invalid_request");
    }
    for nothing in ["x", "7"] {
        admin
            .get(&format!("/admin/v1/jobs/{nothing}"))
            .await
            .refused("not_found");
    }
    world.stop().await;
}

#[actix_web::test]
async fn without_auto_provision_only_those_who_are_known_can_be_named() {
    let world = World::with_admin_and(|config| config.auth.auto_provision = false).await;
    let admin = world.admin();
    admin.put("/admin/v1/users/1", &json!({})).await.ok(200);
    let (ann, nobody) = (world.user(1), world.user(2));
    let named = json!([ann.principal, nobody.principal]);
    announce(&admin, "k", named).await.refused("not_found");
    // The key was not used up.
    let job = announce(&admin, "k", json!([ann.principal])).await.ok(202);
    assert_eq!(ended(&admin, &job).await["total"], 1);
    world.stop().await;
}

#[actix_web::test]
async fn each_announcement_is_an_event_for_other_systems() {
    let world = World::with_admin().await;
    let (admin, ann) = (world.admin(), world.user(1));
    admin.get("/admin/v1/events").await.ok(200);
    sleep(Duration::from_millis(2)).await; // what is of the same moment as the question may be told
    announce(&admin, "k", json!([ann.principal])).await.ok(202);
    let events = read_until(&admin, 0, "notification.created").await;
    let created = events.iter().find(|event| event["type"] == "notification.created");
    assert_eq!(
        created.expect("it came")["data"]["notification"]["kind"],
        "ANNOUNCEMENT"
    );
    world.stop().await;
}
