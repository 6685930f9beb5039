//! Many uploads at once, uploads that nobody ends, and uploads that break off.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::form::{form, form_type};
use super::world::{Caller, Reply, World};

const PATIENCE: Duration = Duration::from_secs(20);

/// An upload that is under way: the head and some bytes of its form are sent, and nothing more until it is told.
struct Held {
    rest: mpsc::Sender<Vec<u8>>,
    reply: JoinHandle<Reply>,
}

impl Held {
    async fn begin(who: &Caller, world: &World) -> Self {
        let whole = form("name=\"file\"; filename=\"held\"", "", &vec![7; 600_000]);
        let before = world.objects().len();
        let (rest, chunks) = mpsc::channel(4);
        rest.send(whole[..400_000].to_vec()).await.unwrap();
        let body = stream::unfold(chunks, async |mut chunks| {
            chunks
                .recv()
                .await
                .map(|chunk| (Ok::<_, std::io::Error>(chunk), chunks))
        });
        let body = reqwest::Body::wrap_stream(body);
        let who = who.clone();
        let reply = tokio::spawn(async move { who.post_form(body).await });
        // It has a seat when its first part is in the store.
        until("the upload to begin", || world.objects().len() > before).await;
        Self { rest, reply }
    }

    async fn end(self) -> Reply {
        let whole = form("name=\"file\"; filename=\"held\"", "", &vec![7; 600_000]);
        self.rest.send(whole[400_000..].to_vec()).await.unwrap();
        drop(self.rest);
        self.reply.await.unwrap()
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

#[actix_web::test]
async fn fifty_uploads_at_once_come_back_each_as_it_was() {
    let world = World::start().await;
    let up = |n: u64| {
        let who = world.user(1 + n % 10);
        async move {
            let bytes: Vec<u8> = (0..200_000 + n * 1_111)
                .map(|at| u8::try_from((at * (n + 1)) % 256).unwrap())
                .collect();
            let file = who
                .upload(&format!("{n}.bin"), "application/x-own", &bytes)
                .await
                .ok(201);
            assert_eq!(file["name"], format!("{n}.bin"));
            let back = who.download(file["url"].as_str().unwrap(), &[]).await;
            assert!(back.status == 200 && back.bytes == bytes, "{n}");
        }
    };
    join_all((0..50).map(up)).await;
    assert_eq!(world.objects().len(), 50);
    world.stop().await;
}

#[actix_web::test]
async fn who_finds_no_seat_is_told_when_to_come_again_and_nobody_takes_them_all() {
    let world = World::start_with(|config| config.files.uploads_at_once = 4).await;
    let (ann, bob) = (world.user(1), world.user(2));
    let (first, second) = (Held::begin(&ann, &world).await, Held::begin(&ann, &world).await);
    let refused = ann.upload("x", "text/plain", b"x").await;
    assert_eq!(refused.headers["retry-after"], "2");
    refused.refused("overloaded");
    bob.upload("x", "text/plain", b"x").await.ok(201);
    let others = (Held::begin(&bob, &world).await, Held::begin(&bob, &world).await);
    world
        .user(3)
        .upload("y", "text/plain", b"y")
        .await
        .refused("overloaded");
    for held in [first, second, others.0, others.1] {
        assert_eq!(held.end().await.ok(201)["size"], 600_000);
    }
    world.user(3).upload("y", "text/plain", b"y").await.ok(201);
    world.stop().await;
}

#[actix_web::test]
async fn a_client_that_goes_away_in_the_middle_leaves_nothing_and_frees_its_seat() {
    let world = World::start_with(|config| config.files.uploads_at_once = 1).await;
    let ann = world.user(1);
    let whole = form("name=\"file\"; filename=\"x\"", "", &vec![9; 3_000_000]);
    for chunked in [false, true] {
        let before = world.objects().len();
        let address = ann.at("").trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let (length, chunk) = if chunked {
            ("Transfer-Encoding: chunked".to_owned(), format!("{:x}\r\n", 1_000_000))
        } else {
            (format!("Content-Length: {}", whole.len()), String::new())
        };
        let head = format!(
            "POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\n{length}\r\n\r\n{chunk}",
            ann.token,
            form_type()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&whole[..1_000_000]).await.unwrap();
        until("the upload to begin", || world.objects().len() > before).await;
        ann.upload("x", "text/plain", b"x").await.refused("overloaded");
        drop(stream);
        until("its bytes to go", || world.objects().len() == before).await;
        let freed = stream::repeat(()).then(async |()| ann.upload("x", "text/plain", b"").await.status);
        let freed = freed.filter(|status| std::future::ready(*status != 503));
        let freed = tokio::time::timeout(PATIENCE, Box::pin(freed).next()).await.unwrap();
        assert_eq!(freed, Some(201));
    }
    world.stop().await;
}
