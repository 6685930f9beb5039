//! Large files through a real process: its memory stays where it was, a full disk costs nothing but the upload, and a
//! process that dies in the middle leaves nothing that is seen.

use std::fmt::Write as _;

use futures_util::{StreamExt, stream};
use reqwest::StatusCode;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::disk::Disk;
use crate::support::database::TestDatabase;
use crate::support::s3::{self, S3};
use crate::support::server::Server;
use crate::support::tokens::user_token;

const BOUNDARY: &str = "boundary-of-the-tests";
const MIB: u64 = 1 << 20;
/// What the memory of the server may grow by, whatever the size of a file.
const GROWTH_KIB_MAX: u64 = 32 * 1024;
/// Room for an empty store, and not for the file.
const DISK: &str = "8m";

/// `mib` MiB of bytes of which no two MiB are the same, and their SHA-256.
fn bytes(mib: u64) -> (impl Iterator<Item = Vec<u8>>, String) {
    let base: Vec<u8> = (0..MIB).map(|at| (at ^ (at >> 7)).to_le_bytes()[0]).collect();
    let piece = move |n: u64| -> Vec<u8> {
        let mut piece = base.clone();
        piece[..8].copy_from_slice(&n.to_le_bytes());
        piece
    };
    let mut hash = Sha256::new();
    (0..mib).for_each(|n| hash.update(piece(n)));
    ((0..mib).map(piece), hex(hash))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Sends a form with these bytes in pieces; the answer, or how the connection broke.
async fn upload(
    url: &str,
    pieces: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> reqwest::Result<(StatusCode, Value)> {
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"large\"\r\n\
         Content-Type: application/x-own\r\n\r\n"
    );
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let pieces = std::iter::once(head.into_bytes())
        .chain(pieces)
        .chain(std::iter::once(tail.into_bytes()));
    let body = reqwest::Body::wrap_stream(stream::iter(pieces.map(Ok::<_, std::io::Error>)));
    let request = reqwest::Client::new()
        .post(format!("{url}/v1/files"))
        .bearer_auth(user_token(1));
    let request = request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
    let response = request.body(body).send().await?;
    let status = response.status();
    Ok((status, response.json().await?))
}

/// Reads a file to its end; its size and its SHA-256.
async fn download(url: &str, file: &Value) -> (u64, String) {
    let place = format!("{url}{}", file["url"].as_str().unwrap());
    let response = reqwest::Client::new()
        .get(place)
        .bearer_auth(user_token(1))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let (mut size, mut hash) = (0, Sha256::new());
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap();
        size += u64::try_from(chunk.len()).unwrap();
        hash.update(&chunk);
    }
    (size, hex(hash))
}

/// Up and down, while the memory of the server is looked at.
async fn goes_through_in_little_memory(server: &mut Server, mib: u64) {
    server.set("ONESCRIBE__LIMITS__UPLOAD_BYTES", &(2048 * MIB).to_string());
    let url = server.start().await;
    // What is made once is made by a small one.
    let (pieces, _) = bytes(6);
    let (status, small) = upload(&url, pieces).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{small}");
    download(&url, &small).await;
    let before = server.memory_kib();

    let (pieces, sha256) = bytes(mib);
    let (most, pieces) = watched(server.pid(), pieces);
    let (status, file) = upload(&url, pieces).await.unwrap();
    assert_eq!(
        (status, &file["sha256"]),
        (StatusCode::CREATED, &sha256.clone().into()),
        "{file}"
    );
    assert_eq!(download(&url, &file).await, (mib * MIB, sha256));
    let most = most.load(std::sync::atomic::Ordering::Relaxed).max(server.memory_kib());
    assert!(
        most.saturating_sub(before) < GROWTH_KIB_MAX,
        "the memory of the server grew from {before} KiB to {most} KiB by a file of {mib} MiB"
    );
    println!("{mib} MiB: {before} KiB before, {most} KiB at the most");
    server.terminate();
    assert!(server.ended().await.success());
}

/// Looks at the memory of a process with every 16th piece.
fn watched(
    server: rustix::process::Pid,
    pieces: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> (
    std::sync::Arc<std::sync::atomic::AtomicU64>,
    impl Iterator<Item = Vec<u8>> + Send + 'static,
) {
    let most = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let seen = std::sync::Arc::clone(&most);
    let pieces = pieces.enumerate().map(move |(n, piece)| {
        if n % 16 == 0 {
            seen.fetch_max(
                crate::support::server::memory_kib(server),
                std::sync::atomic::Ordering::Relaxed,
            );
        }
        piece
    });
    (most, pieces)
}

#[tokio::test]
async fn a_gibibyte_goes_through_into_a_folder_and_back_in_little_memory() {
    let database = TestDatabase::sqlite();
    let mut server = Server::new(&database.url);
    goes_through_in_little_memory(&mut server, 1024).await;
}

#[tokio::test]
async fn a_large_file_goes_through_into_a_bucket_and_back_in_little_memory() {
    let (database, s3) = (TestDatabase::sqlite(), S3::start().await);
    let mut server = Server::new(&database.url);
    for (key, value) in [
        ("STORE", format!("s3://{}/onescribe", s3::BUCKET)),
        ("S3_ENDPOINT", s3.endpoint()),
        ("S3_ACCESS_KEY_ID", s3::KEY_ID.to_owned()),
        ("S3_SECRET_ACCESS_KEY", s3::KEY.to_owned()),
        ("S3_ALLOW_HTTP", "true".to_owned()),
    ] {
        server.set(&format!("ONESCRIBE__FILES__{key}"), &value);
    }
    goes_through_in_little_memory(&mut server, 64).await;
}

/// B110, for files: the disk is full in the middle of one, and has room again.
#[tokio::test]
async fn b110_a_full_disk_costs_the_upload_and_nothing_else() {
    let Some(mut disk) = Disk::small(DISK) else {
        eprintln!("LEFT OUT: a full disk, because a small file system cannot be mounted here");
        return;
    };
    let database = TestDatabase::sqlite();
    let mut server = Server::new(&database.url);
    let objects = disk.folder().join("objects");
    server.set("ONESCRIBE__FILES__STORE", objects.to_str().unwrap());
    disk.prepare(&mut server);
    let url = server.start().await;
    let (pieces, _) = bytes(3);
    let (status, kept) = upload(&url, pieces).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{kept}");
    let (pieces, _) = bytes(16);
    refused(upload(&url, pieces).await);
    disk.fill(server.pid());
    let (pieces, _) = bytes(1);
    refused(upload(&url, pieces).await);
    assert_eq!(download(&url, &kept).await.0, 3 * MIB, "what was there can be read");
    disk.make_room(server.pid());
    let (pieces, sha256) = bytes(2);
    let (status, file) = upload(&url, pieces).await.unwrap();
    assert_eq!(
        (status, &file["sha256"]),
        (StatusCode::CREATED, &sha256.into()),
        "what broke off has left its room"
    );
    server.assert_no_panic();
    server.assert_store_in_order().await;
}

/// A client that is refused in the middle may be told so, or find the connection closed.
fn refused(answer: reqwest::Result<(StatusCode, Value)>) {
    if let Ok((status, problem)) = answer {
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
        assert_eq!(
            (&problem["code"], &problem["retryable"]),
            (&"unavailable".into(), &true.into())
        );
    }
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_leaves_no_file_and_starts_again() {
    let database = TestDatabase::sqlite();
    let mut server = Server::new(&database.url);
    let url = server.start().await;
    let (pieces, sha256) = bytes(4);
    let (status, kept) = upload(&url, pieces).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{kept}");
    // Pieces without end: the upload is under way when the process dies.
    let (begun, mut beginning) = tokio::sync::mpsc::unbounded_channel();
    let endless = (0_u64..).map(move |n| {
        begun.send(n).ok();
        vec![7; 65_536]
    });
    let uploading = tokio::spawn({
        let url = url.clone();
        async move { upload(&url, endless).await }
    });
    while beginning.recv().await.expect("it goes on") < 100 {}
    server.kill().await;
    assert!(uploading.await.unwrap().is_err(), "nobody was told that it was taken");
    let url = server.start().await;
    assert_eq!(download(&url, &kept).await, (4 * MIB, sha256));
    server.assert_store_in_order().await;
}
