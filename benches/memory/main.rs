//! What one server takes of memory, by what it holds: resident memory (VmRSS) before and after, on SQLite, each part with a
//! fresh process so that nothing is left of how the data came in.
//!
//! `cargo bench --bench memory` prints the table; the sizing table of the README is made of it.

#[path = "../server/process.rs"]
mod process;
#[path = "../server/setup.rs"]
mod setup;
#[path = "../server/socket.rs"]
#[expect(dead_code, reason = "the load of the bench `server` reads more")]
mod socket;

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::process::Server;
use crate::socket::{Socket, find};

const CONNECTIONS: usize = 10_000;
const CONVERSATIONS: usize = 5_000;
const MEMBERS: usize = 100_000;
/// The most that one request may name.
const MEMBERS_AT_ONCE: usize = 1_000;
const AT_ONCE: usize = 16;
/// The allocator gives pages back a little later.
const SETTLING: Duration = Duration::from_secs(3);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let files = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: files.maximum,
        maximum: files.maximum,
    };
    setrlimit(Resource::Nofile, raised)?;
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("store.db").display());
    let (groups, large) = fill(&url).await?;

    println!("| what | measured with | each takes |\n| --- | --: | --: |");
    let server = Server::start(&url)?;
    warm_up(&server.address).await?;
    let before = resident(&server).await?;
    println!("| a server with nothing to do | 1 | {before} KiB |");
    let connections = connect(&server.address, CONNECTIONS).await?;
    row("an idle connection", CONNECTIONS, before, resident(&server).await?);
    drop((connections, server));

    let server = Server::start(&url)?;
    warm_up(&server.address).await?;
    let before = resident(&server).await?;
    say_in(&server.address, &groups).await?;
    row(
        "a conversation in use, 2 members",
        CONVERSATIONS,
        before,
        resident(&server).await?,
    );
    drop(server);

    let server = Server::start(&url)?;
    warm_up(&server.address).await?;
    let before = resident(&server).await?;
    say_in(&server.address, &[large]).await?;
    row("a member of a group in use", MEMBERS, before, resident(&server).await?);
    Ok(())
}

fn row(what: &str, count: usize, before: usize, after: usize) {
    println!(
        "| {what} | {count} | {} B |",
        after.saturating_sub(before) * 1024 / count
    );
}

/// VmRSS in KiB.
async fn resident(server: &Server) -> Result<usize> {
    sleep(SETTLING).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no VmRSS")?.parse()?)
}

/// Small groups, and a large one.
async fn fill(url: &str) -> Result<(Vec<i64>, i64)> {
    let server = Server::start(url)?;
    let members = |n: usize| vec![1, 1_000_000 + n];
    let groups = setup::groups(&server.address, (0..CONVERSATIONS).map(members).collect()).await?;
    let large = setup::groups(&server.address, vec![vec![1]]).await?;
    let large = *large.first().context("a group was made")?;
    let client = reqwest::Client::new();
    for first in (2_000_000..2_000_000 + MEMBERS).step_by(MEMBERS_AT_ONCE) {
        let members: Vec<Value> = (first..first + MEMBERS_AT_ONCE)
            .map(|user| json!({ "type": "USER", "id": user.to_string() }))
            .collect();
        let path = format!("http://{}/v1/conversations/{large}/members", server.address);
        let request = client.post(path).bearer_auth(setup::token(1)?);
        request
            .json(&json!({ "members": members }))
            .send()
            .await?
            .error_for_status()?;
    }
    Ok((groups, large))
}

/// What the first of everything takes is no part of what each takes.
async fn warm_up(address: &str) -> Result<()> {
    drop(connect(address, 100).await?);
    sleep(SETTLING).await;
    Ok(())
}

async fn connect(address: &str, count: usize) -> Result<Vec<Socket>> {
    let one = |user| async move { Socket::connect(address, &setup::token(user)?, "d").await };
    stream::iter((0..count).map(|user| one(3_000_000 + user)))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// A message in each conversation, so that its writer is loaded.
async fn say_in(address: &str, conversations: &[i64]) -> Result<()> {
    let mut socket = Socket::connect(address, &setup::token(1)?, "d").await?;
    for conversation in conversations {
        let send = json!({
            "id": 1, "type": "message.send", "conversation_id": conversation.to_string(), "message_type": "TEXT",
            "client_message_id": uuid::Uuid::now_v7().to_string(), "content": { "text": "x".repeat(100) }
        });
        socket.push(send.to_string().as_bytes());
        socket.flush().await?;
        while !is_answered(&mut socket).await? {}
    }
    Ok(())
}

async fn is_answered(socket: &mut Socket) -> Result<bool> {
    while let Some(text) = socket.next_text()? {
        if find(text, b"\"message.sent\"").is_some() {
            return Ok(true);
        }
        anyhow::ensure!(find(text, b"\"error\"").is_none(), "{}", String::from_utf8_lossy(text));
    }
    socket.read().await?;
    Ok(false)
}
