//! The same doors over an S3 endpoint that checks every signature: through this server, past it, and without it.

use onescribe::config::{Config, FilePlace};
use reqwest::redirect::Policy;
use serde_json::{Value, json};

use super::s3::{BUCKET, KEY, KEY_ID, S3};
use super::world::{Caller, World, id_of};

fn in_bucket(config: &mut Config, s3: &S3) {
    config.files.store = Some(FilePlace::S3 {
        bucket: BUCKET.to_owned(),
        prefix: "onescribe".to_owned(),
    });
    config.files.s3_endpoint = Some(s3.endpoint());
    config.files.s3_access_key_id = Some(KEY_ID.into());
    config.files.s3_secret_access_key = Some(KEY.into());
    config.files.s3_allow_http = true;
}

async fn world(s3: &S3) -> World {
    World::start_with(|config| in_bucket(config, s3)).await
}

/// More than one part.
fn large() -> Vec<u8> {
    (0..2_000_000_u32)
        .flat_map(|n| [n.to_le_bytes()[0], n.to_le_bytes()[1], n.to_le_bytes()[2]])
        .collect()
}

/// Puts bytes where the server has said, as the server has said.
async fn put(upload: &Value, body: Vec<u8>) -> u16 {
    let upload = &upload["upload"];
    assert_eq!(upload["method"], "PUT");
    let mut request = reqwest::Client::new().put(upload["url"].as_str().unwrap());
    for (name, value) in upload["headers"].as_object().unwrap() {
        request = request.header(name, value.as_str().unwrap());
    }
    request.body(body).send().await.unwrap().status().as_u16()
}

async fn invited(who: &Caller, name: &str, kind: &str, size: usize) -> Value {
    let asked = json!({"name": name, "size": size, "media_type": kind});
    who.post("/v1/files/uploads", &asked).await.ok(201)
}

#[actix_web::test]
async fn files_go_through_this_server_into_a_bucket_and_back() {
    let s3 = S3::start().await;
    let world = world(&s3).await;
    let ann = world.user(1);
    let bytes = large();
    let file = ann.upload("large.bin", "application/x-own", &bytes).await.ok(201);
    let url = file["url"].as_str().unwrap();
    let back = ann.download(url, &[]).await;
    assert!(back.status == 200 && back.bytes == bytes);
    let part = ann.download(url, &[("range", "bytes=5242870-5242890")]).await;
    assert!(part.status == 206 && part.bytes == bytes[5_242_870..=5_242_890]);
    ann.upload("again.bin", "application/x-own", &bytes).await.ok(201);
    assert_eq!(s3.objects().len(), 1, "the same bytes are kept once");
    world.user(2).get(url).await.refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn a_download_may_be_sent_to_the_bucket() {
    let s3 = S3::start().await;
    let world = World::start_with(|config| {
        in_bucket(config, &s3);
        config.files.redirect = true;
    })
    .await;
    let ann = world.user(1);
    let file = ann.upload("é.txt", "text/plain", b"past the server").await.ok(201);
    let url = file["url"].as_str().unwrap();
    let http = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
    let asked = http.get(ann.at(url)).bearer_auth(&ann.token).send().await.unwrap();
    assert_eq!(
        (asked.status().as_u16(), &asked.headers()["cache-control"]),
        (302, &"no-store".parse().unwrap())
    );
    let place = asked.headers()["location"].to_str().unwrap().to_owned();
    assert!(
        place.starts_with(&s3.endpoint()) && place.contains("X-Amz-Expires=300"),
        "{place}"
    );
    assert!(place.contains("response-content-disposition=attachment"), "{place}");
    let bytes = http.get(&place).send().await.unwrap();
    assert_eq!(
        (bytes.status().as_u16(), bytes.text().await.unwrap().as_str()),
        (200, "past the server")
    );
    // Who may not read it is sent nowhere.
    world.user(2).get(url).await.refused("not_found");
    let etag = format!("\"{}\"", file["sha256"].as_str().unwrap());
    assert_eq!(ann.download(url, &[("if-none-match", &etag)]).await.status, 304);
    world.stop().await;
}

#[actix_web::test]
async fn a_file_that_was_put_past_this_server_counts_when_it_was_looked_at() {
    let s3 = S3::start().await;
    let world = world(&s3).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let bytes = large();
    let upload = invited(&ann, "../photo.jpg", "image/jpeg", bytes.len()).await;
    let id = id_of(&upload, "file_id");
    let (url, complete) = (format!("/v1/files/{id}"), format!("/v1/files/uploads/{id}/complete"));
    ann.get(&url).await.refused("not_found");
    let early = ann.post(&complete, &json!({})).await.refused("invalid_request");
    assert!(early["detail"].as_str().unwrap().contains("not there yet"), "{early}");
    assert_eq!(put(&upload, bytes[1..].to_vec()).await, 200);
    let fewer = ann.post(&complete, &json!({})).await.refused("invalid_request");
    assert!(fewer["detail"].as_str().unwrap().contains("were announced"), "{fewer}");
    ann.post(&complete, &json!({})).await.refused("invalid_request");
    assert!(s3.objects().is_empty(), "what is not as announced does not stay");
    assert_eq!(put(&upload, bytes.clone()).await, 200);
    bob.post(&complete, &json!({})).await.refused("not_found");
    ann.get(&url).await.refused("not_found");
    let file = ann.post(&complete, &json!({})).await.ok(200);
    // It was no picture, whatever was said.
    assert_eq!(
        (&file["name"], &file["media_type"]),
        (&"photo.jpg".into(), &"application/octet-stream".into())
    );
    assert_eq!(
        (&file["size"], &file["url"]),
        (&bytes.len().into(), &url.clone().into())
    );
    assert_eq!(
        ann.post(&complete, &json!({})).await.ok(200),
        file,
        "a repeat is the same act"
    );
    // The address still lives; what is written there now is read by nobody.
    let other: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    assert_eq!(put(&upload, other).await, 200);
    assert!(ann.download(&url, &[]).await.bytes == bytes);
    bob.get(&url).await.refused("not_found");

    let through = ann.upload("x", "application/x-own", &bytes).await.ok(201);
    assert_eq!(through["sha256"], file["sha256"]);
    let too_large = json!({"name": "x", "size": 104_857_601});
    ann.post("/v1/files/uploads", &too_large)
        .await
        .refused("payload_too_large");
    for wrong in [
        json!({"size": 1}),
        json!({"name": "x"}),
        json!({"name": "x", "size": -1}),
        json!({"name": "x", "size": 1, "media_type": "what"}),
        json!({"name": "x\0", "size": 1}),
    ] {
        ann.post("/v1/files/uploads", &wrong).await.refused("invalid_request");
    }
    world.stop().await;
}

#[actix_web::test]
async fn without_the_bucket_everything_else_goes_on_and_files_come_back_with_it() {
    let mut s3 = S3::start().await;
    let world = world(&s3).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let room = ann.group(&[&bob]).await;
    let file = ann.upload("x.bin", "application/x-own", b"before").await.ok(201);
    let url = file["url"].as_str().unwrap();
    s3.stop().await;
    ann.upload("y.bin", "application/x-own", b"meanwhile")
        .await
        .refused("unavailable");
    ann.upload("y.bin", "application/x-own", &large())
        .await
        .refused("unavailable");
    ann.get(url).await.refused("unavailable");
    assert_eq!(ann.download(url, &[("if-none-match", "*")]).await.status, 304);
    ann.say(&room, "words need no bucket").await;
    s3.start_again().await;
    assert_eq!(ann.download(url, &[]).await.bytes, b"before");
    let again = ann.upload("y.bin", "application/x-own", b"meanwhile").await.ok(201);
    assert_eq!(
        ann.download(again["url"].as_str().unwrap(), &[]).await.bytes,
        b"meanwhile"
    );
    world.stop().await;
}
