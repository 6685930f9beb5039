//! Names that want to be paths, types that want to be pages, pictures that want to be bombs.

use serde_json::Value;

use super::form::form;
use super::world::{Caller, World};

const PAGE: &[u8] = b"<!doctype html><script>alert(document.domain)</script>";
const DRAWING: &[u8] = b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"/>";
const UNKNOWN: &str = "application/octet-stream";

/// A GIF that a decoder takes, with this many columns and rows.
fn gif(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = b"GIF89a".to_vec();
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend(b"\x80\0\0\0\0\0\xff\xff\xff\x2c\0\0\0\0");
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend(b"\0\x02\x02\x44\x01\0\x3b");
    bytes
}

async fn uploaded(who: &Caller, name: &str, kind: &str, bytes: &[u8]) -> Value {
    who.upload(name, kind, bytes).await.ok(201)
}

#[actix_web::test]
async fn no_name_leads_out_of_the_store_or_out_of_its_header() {
    let world = World::start().await;
    let ann = world.user(1);
    let long = format!("{}.tar.gz", "报".repeat(300));
    for (name, kept) in [
        ("../../../etc/passwd", "passwd".to_owned()),
        ("..", "file".to_owned()),
        ("C:\\\\temp\\\\x.exe", "x.exe".to_owned()),
        ("photo\u{202E}gnp.exe", "photognp.exe".to_owned()),
        ("a\\\"; filename=\\\"b", "a\"; filename=\"b".to_owned()),
        ("%2e%2e%2fx", "%2e%2e%2fx".to_owned()),
        (&long, format!("{}.gz", "报".repeat(84))),
        ("", "file".to_owned()),
    ] {
        let file = uploaded(&ann, name, "text/plain", name.as_bytes()).await;
        assert_eq!(file["name"], *kept, "{name}");
        let back = ann.download(file["url"].as_str().unwrap(), &[]).await;
        assert_eq!((back.status, &back.bytes[..]), (200, name.as_bytes()));
        let disposition = back.header("content-disposition");
        assert!(
            disposition.starts_with("attachment; filename=\"") && disposition.is_ascii(),
            "{disposition}"
        );
    }
    // As browsers and libraries say it otherwise.
    for (disposition, kept) in [
        ("name=\"file\"; filename*=UTF-8''%E6%8A%A5.txt", "报.txt"),
        ("name=\"file\"; filename=\"x\"; filename*=UTF-8''..%2F..%2Fy", "y"),
        ("name=\"file\"; filename*=UTF-8''%FF%FE", "file"),
        ("name=\"file\"; filename*=UTF-8''a%0D%0AX%3A%20y", "aX: y"),
        ("name=\"file\"", "file"),
    ] {
        let file = ann.post_form(form(disposition, "", b"x")).await.ok(201);
        assert_eq!(file["name"], kept, "{disposition}");
        ann.download(file["url"].as_str().unwrap(), &[]).await;
    }
    let lies_in = world.folder().join("store.db.files");
    for object in world.objects() {
        let key = object.strip_prefix(&lies_in).unwrap().to_str().unwrap();
        assert_eq!(key.len(), 38, "{key}");
        assert!(
            key.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'/'),
            "{key}"
        );
    }
    world.stop().await;
}

#[actix_web::test]
async fn nothing_that_runs_is_given_out_as_something_that_runs() {
    let world = World::start().await;
    let ann = world.user(1);
    // A picture that is a script to whoever does not look, and an archive behind a picture.
    let polyglot = [b"GIF89a/*\0\x01\0*/=1;alert(1)//".as_slice(), PAGE].concat();
    let hidden = [&gif(1, 1)[..], b"PK\x03\x04\x14\0\0\0"].concat();
    for (kind, bytes, told, shown) in [
        ("text/html", PAGE, UNKNOWN, false),
        ("text/html; charset=utf-8", b"just words".as_slice(), UNKNOWN, false),
        ("image/png", PAGE, UNKNOWN, false),
        ("image/svg+xml", DRAWING, UNKNOWN, false),
        ("image/png", DRAWING, UNKNOWN, false),
        ("text/xml", b"<?xml version=\"1.0\"?><x/>", UNKNOWN, false),
        ("application/javascript", b"alert(1)", UNKNOWN, false),
        ("text/plain", b"alert(1)", "text/plain", false),
        ("application/pdf", b"%PDF-1.7 /JS", "application/pdf", false),
        ("image/png", b"no picture", UNKNOWN, false),
        ("image/png", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "application/x-executable", false),
        ("text/html", &polyglot, "image/gif", true),
        ("application/zip", &hidden, "image/gif", true),
        ("no type", b"x", UNKNOWN, false),
    ] {
        let file = uploaded(&ann, "x", kind, bytes).await;
        assert_eq!(file["media_type"], told, "{kind} {}", String::from_utf8_lossy(bytes));
        let back = ann.download(file["url"].as_str().unwrap(), &[]).await;
        assert_eq!((back.header("content-type"), back.bytes == bytes), (told, true));
        let inline = back.header("content-disposition").starts_with("inline");
        assert_eq!(inline, shown, "{kind}");
        assert_eq!(back.header("x-content-type-options"), "nosniff");
        assert_eq!(back.header("content-security-policy"), "sandbox; default-src 'none'");
    }
    let nested = ann.upload("x", "multipart/related; boundary=x", b"x").await;
    nested.refused("invalid_request");
    world.stop().await;
}

#[actix_web::test]
async fn bombs_are_files_like_any_other() {
    let world = World::start_with(|config| config.files.picture_pixels = 1_000_000).await;
    let ann = world.user(1);
    let good = uploaded(&ann, "x.gif", "image/gif", &gif(1, 1)).await;
    assert!(good["thumbnail"].is_string(), "{good}");
    // 4 billion pixels in 40 bytes.
    let bomb = uploaded(&ann, "x.gif", "image/gif", &gif(u16::MAX, u16::MAX)).await;
    assert_eq!((&bomb["width"], bomb.get("thumbnail")), (&65_535.into(), None));
    // A hundred megabytes of zeros, deflated, behind a header of a picture that fits.
    let rubbish = [
        b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x03\xe8\0\0\x03\xe8\x08\x06\0\0\0".as_slice(),
        &[0; 5_000],
    ]
    .concat();
    let rubbish = uploaded(&ann, "x.png", "image/png", &rubbish).await;
    assert!(rubbish.get("thumbnail").is_none(), "{rubbish}");
    for file in [&good, &bomb, &rubbish] {
        let back = ann.download(file["url"].as_str().unwrap(), &[]).await;
        assert_eq!(
            (back.status, back.bytes.len()),
            (200, file["size"].as_u64().unwrap().try_into().unwrap())
        );
    }
    world.stop().await;
}
