//! B115: `kill -9` while reminders are told. Each reaches its user: once, or at least once where the server died as it told it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::sleep;

use crate::stores::Kind;
use crate::support::client::{Client, Log, Login};
use crate::support::rest::Rest;
use crate::support::server::Server;

const TELLER: u64 = 1;
const READER: u64 = 2;
/// Reminders that are told long before a kill, and those that are being told when it comes.
const CALM: usize = 4;
const RISKY: usize = 80;
/// When the latter are due, from the moment at which they are set.
const TOGETHER_MS: u64 = 1_000;
/// What was told for so long is settled.
const SETTLED: Duration = Duration::from_secs(3);
/// How long a server that dies keeps a reminder from others.
const CLAIM: Duration = Duration::from_secs(10);

#[tokio::test]
async fn b115_six_kills_lose_no_reminder_on_sqlite() {
    rounds(Kind::Sqlite, 6, 61).await;
}

#[tokio::test]
async fn b115_four_kills_lose_no_reminder_on_postgres() {
    rounds(Kind::Postgres, 4, 62).await;
}

#[tokio::test]
async fn b115_four_kills_lose_no_reminder_on_mysql() {
    rounds(Kind::MySql, 4, 63).await;
}

/// The messages of which somebody wants to be reminded, and in which lives of the server that came true.
struct Run {
    rng: SmallRng,
    room: String,
    risky: BTreeMap<String, Vec<usize>>,
    calm: BTreeMap<String, Vec<usize>>,
}

async fn rounds(kind: Kind, kills: usize, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut server = Server::new(&store.url);
    let url = server.start().await;
    let mut run = Run {
        rng: SmallRng::seed_from_u64(seed),
        room: Rest::new(&url, TELLER).group("room", [READER]).await,
        risky: BTreeMap::new(),
        calm: BTreeMap::new(),
    };
    let mut owed = 0;
    for life in 0..kills {
        let phone = Client::connect(server.url(), Login::new(READER, "phone")).await;
        run.remind_now(&phone, server.url()).await;
        sleep(SETTLED).await;
        run.remind_together(&phone, server.url()).await;
        server.kill().await;
        phone.closed().await;
        phone.with_log(|log| run.told(life, log));
        owed += run.risky.values().filter(|lives| lives.is_empty()).count();
        server.start().await;
    }
    let phone = Client::connect(server.url(), Login::new(READER, "phone")).await;
    run.remind_now(&phone, server.url()).await;
    let waiting = run.risky.iter().filter(|(_, lives)| lives.is_empty());
    let waiting: Vec<String> = waiting.map(|(id, _)| id.clone()).collect();
    let all_told = |log: &Log| waiting.iter().all(|id| fired(log).any(|told| told == *id));
    phone.until("every reminder", all_told).await;
    // Whatever a dead server had claimed is due again by now.
    sleep(CLAIM + SETTLED).await;
    phone.with_log(|log| run.told(kills, log));
    run.judge();
    assert!(owed > 0, "no kill came in the middle");
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

impl Run {
    /// Sets reminders that are due, and waits until they are told.
    async fn remind_now(&mut self, phone: &Client, url: &str) {
        let ids = self.said(url, CALM).await;
        for id in &ids {
            set(phone, url, id, 0).await;
        }
        let told = |log: &Log| ids.iter().all(|id| fired(log).any(|told| told == *id));
        phone.until("reminders that are due", told).await;
        self.calm.extend(ids.into_iter().map(|id| (id, Vec::new())));
    }

    /// Sets reminders that are all due at one moment, and waits until the server is in the middle of telling them.
    async fn remind_together(&mut self, phone: &Client, url: &str) {
        let ids = self.said(url, RISKY).await;
        let sets = ids.iter().map(|id| set(phone, url, id, TOGETHER_MS));
        join_all(sets).await;
        let seen = self.rng.random_range(1..RISKY / 2);
        let told = |log: &Log| fired(log).filter(|told| ids.contains(told)).count() >= seen;
        phone.until("some of the reminders", told).await;
        self.risky.extend(ids.iter().map(|id| (id.clone(), Vec::new())));
    }

    async fn said(&mut self, url: &str, count: usize) -> Vec<String> {
        let ann = Rest::new(url, TELLER);
        let mut ids = Vec::new();
        for _ in 0..count {
            let key = format!("{:x}", self.rng.random::<u64>());
            let (_, sent) = ann.send(&self.room, &key, "remember").await.unwrap();
            ids.push(sent["message"]["message_id"].as_str().expect("a message").to_owned());
        }
        ids
    }

    fn told(&mut self, life: usize, log: &Log) {
        for id in fired(log) {
            let lives = self.risky.get_mut(&id).or_else(|| self.calm.get_mut(&id));
            lives.expect("somebody asked for it").push(life);
        }
    }

    fn judge(&self) {
        let lost: Vec<_> = self.risky.iter().filter(|(_, lives)| lives.is_empty()).collect();
        assert!(lost.is_empty(), "never told: {lost:?}");
        let doubled: Vec<_> = self.calm.iter().filter(|(_, lives)| lives.len() != 1).collect();
        assert!(
            doubled.is_empty(),
            "not told once although no kill was near: {doubled:?}"
        );
        for (id, lives) in &self.risky {
            let apart = lives.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(apart, "{id} is told twice by one server: {lives:?}");
        }
    }
}

/// The messages of which the device was reminded.
fn fired(log: &Log) -> impl Iterator<Item = String> {
    let fired = log.frames.iter().filter(|frame| frame["type"] == "reminder.fired");
    fired.map(|frame| frame["message"]["message_id"].as_str().expect("an id").to_owned())
}

/// By the clock of the server.
async fn set(phone: &Client, url: &str, id: &str, after_ms: u64) {
    let pong = phone.ask(json!({"type": "ping"})).await.expect("a pong");
    let now = OffsetDateTime::parse(pong["server_time"].as_str().expect("a time"), &Rfc3339).unwrap();
    let due = (now + Duration::from_millis(after_ms)).format(&Rfc3339).unwrap();
    let path = format!("/v1/messages/{id}/actions/REMINDER");
    let body = json!({"remind_at": due});
    let (status, answer) = Rest::new(url, READER)
        .call(Method::PUT, &path, Some(&body))
        .await
        .unwrap();
    assert!(status.is_success(), "{answer}");
}
