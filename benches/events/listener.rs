//! Those who are told of events: a receiver of a webhook with manners of its own, or a reader of the feed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::process::ADMIN_KEY;

/// What a slow receiver thinks about each call.
const SLOW: Duration = Duration::from_secs(2);
/// How long one who hangs keeps a connection: until nobody waits for it any more.
const FOR_EVER: Duration = Duration::from_hours(1);
/// Events that the reader asks for at once.
const PAGE: usize = 500;

/// Who is told, and how that goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Nobody,
    Feed,
    Quick,
    Slow,
    Refuses,
    Hangs,
    Down,
}

impl Way {
    /// The first is what the others are compared with.
    pub(crate) const ALL: [Self; 7] = [
        Self::Nobody,
        Self::Feed,
        Self::Quick,
        Self::Slow,
        Self::Refuses,
        Self::Hangs,
        Self::Down,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Feed => "a reader of the feed",
            Self::Quick => "a receiver that answers at once",
            Self::Slow => "a receiver that takes 2 s",
            Self::Refuses => "a receiver that answers 500",
            Self::Hangs => "a receiver that never answers",
            Self::Down => "a receiver that is down",
        }
    }
}

/// Whoever is told; it ends with the runtime of the benchmark, or when the server is gone.
pub(crate) struct Listener {
    told: Arc<AtomicUsize>,
}

impl Listener {
    /// Begins to listen to the server at `address`.
    pub(crate) async fn start(way: Way, address: &str) -> Result<Self> {
        let told = Arc::<AtomicUsize>::default();
        match way {
            Way::Nobody => {}
            Way::Feed => {
                let (address, told) = (address.to_owned(), Arc::clone(&told));
                // The first question begins the log.
                let first = page(&Client::new(), &address, 0, 0).await?;
                ensure!(first.1 == 0, "events of a server that was not asked");
                tokio::spawn(async move { read(&address, &told).await.ok() });
            }
            way => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let url = format!("http://{}/", listener.local_addr()?);
                if way == Way::Down {
                    drop(listener);
                } else {
                    tokio::spawn(accept(listener, way, Arc::clone(&told)));
                }
                put_webhook(address, &url).await?;
            }
        }
        Ok(Self { told })
    }

    /// Calls that came, or events that were read.
    pub(crate) fn told(&self) -> usize {
        self.told.load(Ordering::Relaxed)
    }
}

async fn put_webhook(address: &str, url: &str) -> Result<()> {
    let body = json!({
        "url": url,
        "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
        "events": ["message.created"],
    });
    let put = Client::new()
        .put(format!("http://{address}/admin/v1/webhooks/bench"))
        .bearer_auth(ADMIN_KEY)
        .json(&body);
    put.send().await?.error_for_status()?;
    Ok(())
}

/// Up to where it was read, and how many events came.
async fn page(client: &Client, address: &str, after: u64, wait_secs: u64) -> Result<(u64, usize)> {
    let url = format!("http://{address}/admin/v1/events?after={after}&limit={PAGE}&wait_secs={wait_secs}");
    let answer = client
        .get(url)
        .bearer_auth(ADMIN_KEY)
        .send()
        .await?
        .error_for_status()?;
    let body: Value = answer.json().await?;
    let next = body
        .get("next_after")
        .and_then(Value::as_u64)
        .context("no next_after")?;
    let items = body.get("items").and_then(Value::as_array).context("no items")?;
    Ok((next, items.len()))
}

async fn read(address: &str, told: &AtomicUsize) -> Result<()> {
    let client = Client::new();
    let mut after = 0;
    loop {
        let (next, count) = page(&client, address, after, 30).await?;
        told.fetch_add(count, Ordering::Relaxed);
        after = next;
    }
}

async fn accept(listener: TcpListener, way: Way, told: Arc<AtomicUsize>) {
    while let Ok((socket, _)) = listener.accept().await {
        let told = Arc::clone(&told);
        tokio::spawn(async move { serve(socket, way, &told).await.ok() });
    }
}

/// Reads calls and answers them in its way.
async fn serve(socket: TcpStream, way: Way, told: &AtomicUsize) -> Result<()> {
    let mut socket = BufReader::new(socket);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if socket.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let words = line.trim_end().to_ascii_lowercase();
            if words.is_empty() {
                break;
            }
            if let Some(value) = words.strip_prefix("content-length: ") {
                length = value.parse()?;
            }
        }
        body.resize(length, 0);
        socket.read_exact(&mut body).await?;
        told.fetch_add(1, Ordering::Relaxed);
        match way {
            Way::Slow => sleep(SLOW).await,
            Way::Hangs => sleep(FOR_EVER).await,
            _ => {}
        }
        let status = if way == Way::Refuses { "500 No" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        socket.write_all(answer.as_bytes()).await?;
    }
}
