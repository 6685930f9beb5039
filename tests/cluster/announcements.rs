//! `kill -9` in the middle of an announcement to hundreds, and two processes that could tell one: each receiver is told
//! once, and the job ends with all of them.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::stores::Kind;
use crate::support::server::Server;
use crate::support::tokens::user_token;

const ADMIN_KEY: &str = "the admin key of the tests";
/// Whom an announcement is for.
const RECEIVERS: u64 = 800;
/// Requests at a time.
const AT_ONCE: usize = 16;
/// How long a job may take, the leases of dead processes included.
const PATIENCE: Duration = Duration::from_mins(10);

#[tokio::test]
async fn three_kills_neither_lose_nor_double_an_announcement_on_sqlite() {
    killed(Kind::Sqlite, 3, 71).await;
}

#[tokio::test]
async fn two_kills_neither_lose_nor_double_an_announcement_on_postgres() {
    killed(Kind::Postgres, 2, 72).await;
}

#[tokio::test]
async fn two_kills_neither_lose_nor_double_an_announcement_on_mysql() {
    killed(Kind::MySql, 2, 73).await;
}

#[tokio::test]
async fn two_processes_tell_an_announcement_once_and_one_goes_on_when_the_other_stops_on_postgres() {
    side_by_side(Kind::Postgres).await;
}

#[tokio::test]
async fn two_processes_tell_an_announcement_once_and_one_goes_on_when_the_other_stops_on_mysql() {
    side_by_side(Kind::MySql).await;
}

/// The operator at one server.
struct Operator {
    http: Client,
    url: String,
}

impl Operator {
    fn at(url: &str) -> Self {
        let http = Client::builder().no_proxy().build().unwrap();
        Self {
            http,
            url: url.to_owned(),
        }
    }

    async fn announce(&self, key: &str) -> Value {
        let named: Vec<Value> = (1..=RECEIVERS)
            .map(|id| json!({"type": "USER", "id": id.to_string()}))
            .collect();
        let body = json!({"audience": named, "text": key, "client_request_id": key});
        let request = self.http.post(format!("{}/admin/v1/announcements", self.url));
        let response = request.bearer_auth(ADMIN_KEY).json(&body).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        response.json().await.unwrap()
    }

    async fn job(&self, job: &Value) -> Value {
        let path = format!("{}/admin/v1/jobs/{}", self.url, job["job_id"].as_str().expect("an id"));
        let response = self.http.get(path).bearer_auth(ADMIN_KEY).send().await.unwrap();
        response.json().await.unwrap()
    }

    /// The job when so many have been told.
    async fn until(&self, job: &Value, done: u64) -> Value {
        let since = Instant::now();
        loop {
            let now = self.job(job).await;
            if now["done"].as_u64().expect("a number") >= done && (done < RECEIVERS || now["state"] == "DONE") {
                return now;
            }
            assert!(since.elapsed() < PATIENCE, "{now} does not come to {done}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn server(url: &str) -> Server {
    let mut server = Server::new(url);
    server.set("ONESCRIBE__ADMIN__API_KEY", ADMIN_KEY);
    server
}

async fn killed(kind: Kind, kills: u64, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut server = server(&store.url);
    server.start().await;
    let job = Operator::at(server.url()).announce("one").await;
    for kill in 1..=kills {
        let part = RECEIVERS * kill / (kills + 1);
        let at = part - rng.random_range(0..RECEIVERS / 10);
        let now = Operator::at(server.url()).until(&job, at).await;
        server.kill().await;
        assert_eq!(now["state"], "RUNNING", "the kill comes in the middle: {now}");
        server.start().await;
    }
    let operator = Operator::at(server.url());
    assert_eq!(
        operator.announce("one").await["job_id"],
        job["job_id"],
        "asked again it is the same"
    );
    let two = operator.announce("two").await;
    for job in [&job, &two] {
        judge_job(&operator.until(job, RECEIVERS).await);
    }
    told(server.url(), &["one", "two"]).await;
    assert_in_order(&server).await;
    server.assert_no_panic();
}

async fn side_by_side(kind: Kind) {
    let Some(store) = kind.fresh().await else { return };
    let mut servers = [server(&store.url), server(&store.url)];
    let urls = [servers[0].start().await, servers[1].start().await];
    let first = Operator::at(&urls[0]);
    let job = first.announce("one").await;
    first.until(&job, RECEIVERS / 3).await;
    // Whichever of them tells it. One that stops gives it back at once.
    servers[0].terminate();
    assert!(servers[0].ended().await.success());
    let second = Operator::at(&urls[1]);
    judge_job(&second.until(&job, RECEIVERS).await);
    servers[0].start().await;
    let two = second.announce("two").await;
    judge_job(&second.until(&two, RECEIVERS).await);
    told(&urls[1], &["one", "two"]).await;
    for server in &mut servers {
        assert_in_order(server).await;
        server.assert_no_panic();
        server.kill().await;
    }
}

/// Thousands of INBOXes take their time.
async fn assert_in_order(server: &Server) {
    let checking = server.command(&["check"]).stderr(Stdio::piped()).output();
    let output = timeout(PATIENCE, checking).await.expect("the check ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "check has findings:\n{said}");
}

fn judge_job(job: &Value) {
    let numbers = [&job["done"], &job["total"], &job["missed"]].map(|number| number.as_u64().expect("a number"));
    assert_eq!(numbers, [RECEIVERS, RECEIVERS, 0], "{job}");
}

/// Each receiver has these, each once.
async fn told(url: &str, texts: &[&str]) {
    let http = Client::builder().no_proxy().build().unwrap();
    let path = format!("{url}/v1/notifications");
    let asked = (1..=RECEIVERS).map(|id| {
        let request = http.get(&path).bearer_auth(user_token(id));
        async move {
            let page: Value = request.send().await.unwrap().json().await.unwrap();
            let items = page["items"].as_array().expect("items");
            let told = items
                .iter()
                .map(|note| note["text"].as_str().expect("a text").to_owned());
            (id, told.collect::<BTreeSet<_>>(), items.len())
        }
    });
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    while let Some((id, told, count)) = answers.next().await {
        assert!(
            told.iter().eq(texts) && count == texts.len(),
            "USER {id} has {count}: {told:?}"
        );
    }
}
