//! Catching up over REST with a real server: everything of a user with many conversations, then what ten sends changed.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use onescribe::auth::mint;
use onescribe::clock::{Clock, SystemClock};
use onescribe::domain::{PrincipalType, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fill::{FIRST_OF, LISTERS, LISTS, MESSAGES};
use crate::process::{SECRET, Server};
use crate::spread::{float, short};
use crate::{Place, Timing};

/// Whole first syncs of each user.
const FIRST_ROUNDS: usize = 3;
/// Syncs after ten sends each.
const LATER_ROUNDS: usize = 30;
const SENDS: i64 = 10;
const CONVERSATIONS_A_PAGE: usize = 200;
const TOKEN_MS: i64 = 3_600_000;

/// Measures and prints.
pub(crate) async fn run(places: &[Place]) -> Result<()> {
    println!(
        "\nSync over REST, {CONVERSATIONS_A_PAGE} conversations a request, {MESSAGES} new messages in each; ms:\n"
    );
    println!(
        "| database | conversations | first sync: requests | whole | one request p50 / p99 | MB | with {SENDS} changed \
         p50 / p99 | kB |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for place in places {
        let server = Server::start(&place.database.url)?;
        for (at, count) in (0..).zip(LISTS) {
            let device = Device::new(&server, LISTERS + at)?;
            println!(
                "| {} | {count} | {} |",
                place.name,
                device.measure(at, usize::try_from(count)?).await?
            );
        }
    }
    Ok(())
}

/// A client that keeps its cursors.
struct Device {
    http: reqwest::Client,
    url: String,
    token: String,
}

/// What one whole sync took.
#[derive(Default)]
struct Took {
    requests: usize,
    bytes: usize,
    conversations: usize,
    messages: usize,
}

impl Device {
    fn new(server: &Server, user: i64) -> Result<Self> {
        let until = Timestamp::from_millis(SystemClock.now().millis() + TOKEN_MS);
        let token = mint(SECRET, &user.to_string(), PrincipalType::User, until, None, None)?;
        Ok(Self {
            http: reqwest::Client::builder().no_proxy().build()?,
            url: format!("http://{}", server.address),
            token,
        })
    }

    async fn measure(&self, at: i64, count: usize) -> Result<String> {
        let (mut page, mut later) = (Timing::new()?, Timing::new()?);
        let (mut whole, mut first) = (Timing::new()?, Took::default());
        let mut cursors = BTreeMap::new();
        for _ in 0..FIRST_ROUNDS {
            cursors.clear();
            let started = Instant::now();
            first = self.sync(&mut cursors, &mut page).await?;
            whole.record(started.elapsed())?;
            ensure!(
                first.conversations == count,
                "{} of {count} conversations",
                first.conversations
            );
        }
        let mut small = Took::default();
        for round in 0..LATER_ROUNDS {
            for n in 0..SENDS {
                self.send(FIRST_OF + at * 100_000 + 1 + n, &format!("{round}-{n}"))
                    .await?;
            }
            small = self.sync(&mut cursors, &mut later).await?;
            ensure!(
                (small.conversations, small.messages) == (10, 10),
                "{} came",
                small.messages
            );
        }
        Ok(format!(
            "{} | {} | {} | {} | {} | {}",
            first.requests,
            short(whole.quantile(0.5)),
            page.show(),
            short(float(first.bytes) / 1_000_000.0),
            later.show(),
            short(float(small.bytes) / 1_000.0),
        ))
    }

    /// Asks until there is no more, each time with every cursor that it has.
    async fn sync(&self, cursors: &mut BTreeMap<String, Value>, timing: &mut Timing) -> Result<Took> {
        let mut took = Took::default();
        loop {
            let known: Vec<&Value> = cursors.values().collect();
            let body = json!({"device_id": "bench", "cursors": known, "conversation_limit": CONVERSATIONS_A_PAGE});
            let started = Instant::now();
            let answer = self.post("/v1/sync", &body).await?;
            timing.record(started.elapsed())?;
            took.requests += 1;
            took.bytes += answer.len();
            let answer: Value = serde_json::from_slice(&answer)?;
            for entry in list(&answer, "/conversations")? {
                let id = field(entry, "/conversation/conversation_id")?;
                took.conversations += 1;
                took.messages += list(entry, "/messages")?.len();
                let (seq, change_seq) = (field(entry, "/next/seq")?, field(entry, "/next/change_seq")?);
                let cursor = json!({"conversation_id": id, "seq": seq, "change_seq": change_seq});
                cursors.insert(id.to_string(), cursor);
            }
            if *field(&answer, "/has_more")? != true {
                return Ok(took);
            }
        }
    }

    async fn send(&self, conversation: i64, key: &str) -> Result<()> {
        let body = json!({"client_message_id": key, "message_type": "TEXT", "content": {"text": "hello"}});
        self.post(&format!("/v1/conversations/{conversation}/messages"), &body)
            .await?;
        Ok(())
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Vec<u8>> {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token);
        let response = request.body(body.to_string()).send().await?;
        let status = response.status();
        let bytes = response.bytes().await?;
        ensure!(
            status.is_success(),
            "POST {path}: {status} {}",
            String::from_utf8_lossy(&bytes)
        );
        Ok(bytes.to_vec())
    }
}

fn field<'a>(value: &'a Value, path: &str) -> Result<&'a Value> {
    value.pointer(path).with_context(|| format!("{path} is missing"))
}

fn list<'a>(value: &'a Value, path: &str) -> Result<&'a Vec<Value>> {
    field(value, path)?
        .as_array()
        .with_context(|| format!("{path} is no list"))
}
