//! A file goes up in a form and comes back whole, in parts, or not at all when it is known already.

use onescribe::domain::Digest;
use reqwest::Method;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::form::{form, form_type};
use super::world::{Reply, World, id_of};

fn sha256(bytes: &[u8]) -> String {
    Digest::new(Sha256::digest(bytes).into()).to_string()
}

/// Bytes that look like nothing.
fn noise(length: usize) -> Vec<u8> {
    (0..length)
        .map(|n| u8::try_from((n * 31 + n / 251) % 256).unwrap())
        .collect()
}

#[actix_web::test]
async fn a_file_comes_back_whole_and_in_parts() {
    let world = World::start().await;
    let ann = world.user(1);
    let bytes = noise(700_001);
    let file = ann.upload("报告 final.pdf", "application/pdf", &bytes).await.ok(201);
    let id = id_of(&file, "file_id");
    assert_eq!(
        (&file["name"], &file["media_type"]),
        (&"报告 final.pdf".into(), &"application/pdf".into())
    );
    assert_eq!(
        (&file["size"], &file["sha256"]),
        (&700_001.into(), &sha256(&bytes).into())
    );
    let url = format!("/v1/files/{id}");
    assert_eq!(file["url"], *url);
    assert!(file.get("width").is_none() && file.get("thumbnail").is_none(), "{file}");

    let whole = ann.download(&url, &[]).await;
    assert!(whole.status == 200 && whole.bytes == bytes);
    let etag = whole.header("etag").to_owned();
    assert_eq!(etag, format!("\"{}\"", sha256(&bytes)));
    for (name, value) in [
        ("content-type", "application/pdf"),
        ("content-length", "700001"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'"),
        ("cache-control", "private, no-cache"),
        (
            "content-disposition",
            "attachment; filename=\"__ final.pdf\"; filename*=UTF-8''%E6%8A%A5%E5%91%8A%20final.pdf",
        ),
    ] {
        assert_eq!(whole.header(name), value, "{name}");
    }
    let head = ann.bytes_of(Method::HEAD, &url, &[]).await;
    assert_eq!(
        (head.status, head.header("content-length"), head.bytes.len()),
        (200, "700001", 0)
    );

    let part = ann.download(&url, &[("range", "bytes=1000-1999")]).await;
    assert!(part.status == 206 && part.bytes == bytes[1000..2000]);
    assert_eq!(part.header("content-range"), "bytes 1000-1999/700001");
    let end = ann.download(&url, &[("range", "bytes=-5"), ("if-range", &etag)]).await;
    assert!(end.status == 206 && end.bytes == bytes[699_996..]);
    let other = ann
        .download(&url, &[("range", "bytes=-5"), ("if-range", "\"other\"")])
        .await;
    assert!(other.status == 200 && other.bytes == bytes);
    let beyond = ann.download(&url, &[("range", "bytes=700001-")]).await;
    assert_eq!((beyond.status, beyond.header("content-range")), (416, "bytes */700001"));
    assert_eq!(beyond.header("content-type"), "application/problem+json");
    let known = ann.download(&url, &[("if-none-match", &etag)]).await;
    assert_eq!(
        (known.status, known.bytes.len(), known.header("etag")),
        (304, 0, etag.as_str())
    );

    let empty = ann.upload("empty", "text/plain", b"").await.ok(201);
    let empty = ann.download(empty["url"].as_str().unwrap(), &[]).await;
    assert_eq!((empty.status, empty.header("content-length")), (200, "0"));
    world.stop().await;
}

#[actix_web::test]
async fn the_same_bytes_are_kept_once_under_every_name() {
    let world = World::start().await;
    let (ann, bob) = (world.user(1), world.user(2));
    let bytes = noise(300_000);
    let one = ann.upload("one.txt", "text/plain", &bytes).await.ok(201);
    let (two, three) = tokio::join!(
        bob.upload("two.csv", "text/csv", &bytes),
        ann.upload("three", "application/x-own", &bytes)
    );
    let (two, three) = (two.ok(201), three.ok(201));
    assert_eq!(world.objects().len(), 1);
    for (who, file, name, kind) in [
        (&ann, &one, "one.txt", "text/plain"),
        (&bob, &two, "two.csv", "text/csv"),
        (&ann, &three, "three", "application/x-own"),
    ] {
        assert_eq!((&file["name"], &file["media_type"]), (&name.into(), &kind.into()));
        let back = who.download(file["url"].as_str().unwrap(), &[]).await;
        assert!(back.bytes == bytes && back.header("content-type") == kind, "{name}");
    }
    // Whose bytes they are says nothing about whose file it is.
    bob.get(one["url"].as_str().unwrap()).await.refused("not_found");
    ann.get(two["url"].as_str().unwrap()).await.refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn a_picture_has_a_size_and_a_small_one() {
    let world = World::start().await;
    let ann = world.user(1);
    let picture = image::RgbImage::from_fn(1_000, 500, |x, y| {
        image::Rgb([x, y, x ^ y].map(|value| u8::try_from(value % 256).unwrap()))
    });
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let file = ann.upload("tea.png", "image/png", bytes.get_ref()).await.ok(201);
    assert_eq!((&file["width"], &file["height"]), (&1_000.into(), &500.into()));
    let whole = ann.download(file["url"].as_str().unwrap(), &[]).await;
    assert_eq!(whole.header("content-disposition"), "inline; filename=\"tea.png\"");
    let url = file["thumbnail"].as_str().unwrap();
    let small = ann.download(url, &[]).await;
    assert_eq!((small.status, small.header("content-type")), (200, "image/jpeg"));
    assert_eq!(small.header("x-content-type-options"), "nosniff");
    let decoded = image::load_from_memory(&small.bytes).unwrap();
    assert_eq!((decoded.width(), decoded.height()), (320, 160));
    let known = ann.download(url, &[("if-none-match", small.header("etag"))]).await;
    assert_eq!(known.status, 304);
    world.user(2).get(url).await.refused("not_found");
    let plain = ann.uploaded(b"no picture").await;
    ann.get(&format!("/v1/files/{plain}/thumbnail"))
        .await
        .refused("not_found");
    world.stop().await;
}

#[actix_web::test]
async fn what_is_no_form_with_a_file_is_refused_in_words() {
    let world = World::start().await;
    let ann = world.user(1);
    let refused = |reply: Reply, code: &str, word: &str| {
        let detail = reply.refused(code)["detail"].to_string();
        assert!(detail.contains(word), "{detail}");
    };
    refused(
        ann.post("/v1/files", &json!({"file": "x"})).await,
        "invalid_request",
        "multipart/form-data",
    );
    refused(ann.post_form("").await, "invalid_request", "file");
    refused(
        ann.post_form(form("name=\"other\"", "", b"x")).await,
        "invalid_request",
        "file",
    );
    refused(
        ann.post_form(form("filename=\"x\"", "", b"x")).await,
        "invalid_request",
        "body",
    );
    let nul = form("name=\"file\"; filename*=UTF-8''a%00b", "", b"x");
    refused(ann.post_form(nul).await, "invalid_request", "NUL");
    let mut broken = form("name=\"file\"; filename=\"x\"", "", &noise(100_000));
    broken.truncate(50_000);
    refused(ann.post_form(broken).await, "invalid_request", "broke off");
    assert_eq!(world.objects(), Vec::<std::path::PathBuf>::new());

    let nobody = ann.with_token("no token");
    nobody.upload("x", "text/plain", b"x").await.refused("unauthenticated");
    for id in ["x", "0", "123", "99999999999999999999"] {
        ann.get(&format!("/v1/files/{id}")).await.refused("not_found");
        ann.get(&format!("/v1/files/{id}/thumbnail")).await.refused("not_found");
        ann.post(&format!("/v1/files/uploads/{id}/complete"), &json!({}))
            .await
            .refused("not_found");
    }
    let direct = json!({"name": "x", "size": 1, "media_type": "text/plain"});
    let reply = ann.post("/v1/files/uploads", &direct).await;
    refused(reply, "invalid_request", "POST /v1/files");
    // A field before the file is passed over.
    let boundary = form_type().split('"').nth(1).unwrap().to_owned();
    let first = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n");
    let both = [first.as_bytes(), &form("name=\"file\"; filename=\"x\"", "", b"12345")].concat();
    assert_eq!(ann.post_form(both).await.ok(201)["size"], 5);
    world.stop().await;
}

#[actix_web::test]
async fn a_file_of_the_limit_is_taken_and_one_byte_more_is_not() {
    let world = World::start_with(|config| config.limits.upload_bytes = 1_000).await;
    let ann = world.user(1);
    let of = |length: usize| form("name=\"file\"; filename=\"x\"", "", &noise(length));
    // In one piece, whose length is in the head, and in pieces without.
    let pieces = |length: usize| {
        let pieces: Vec<_> = of(length)
            .chunks(997)
            .map(|piece| Ok::<_, std::io::Error>(piece.to_vec()))
            .collect();
        reqwest::Body::wrap_stream(futures_util::stream::iter(pieces))
    };
    for length in [0, 999, 1_000] {
        assert_eq!(ann.post_form(of(length)).await.ok(201)["size"], length);
        assert_eq!(ann.post_form(pieces(length)).await.ok(201)["size"], length);
    }
    let kept = world.objects().len();
    for length in [1_001, 70_000, 900_000] {
        for body in [of(length).into(), pieces(length)] {
            let refusal = ann.post_form(body).await.refused("payload_too_large");
            assert!(
                refusal["detail"].as_str().unwrap().contains("1000 bytes"),
                "{length}: {refusal}"
            );
        }
    }
    assert_eq!(world.objects().len(), kept, "nothing of them was kept");
    world.stop().await;
}
