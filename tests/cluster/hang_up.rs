//! Requests that hang up at random moments (B19): no transaction is left open, and every ack is true.

use std::cell::Cell;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use serde_json::Value;
use sqlx::{Connection, MySqlConnection, PgConnection};
use tokio::time::{sleep, timeout};

use crate::history::{Answer, Attempt, History};
use crate::stores::Kind;
use crate::support::database::TestDatabase;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::support::{PATIENCE, patiently};
use crate::workload::{make_rooms, read_all};

const REQUESTS: usize = 3_000;
/// How many are under way at once.
const AT_ONCE: usize = 40;
/// What clients wait at first before they hang up, give or take all of it.
const FIRST_PATIENCE: Duration = Duration::from_millis(10);
/// How much more they wait after a hang-up, and how much less after an answer.
const LEARNS: f64 = 1.05;
const USERS: u64 = 8;
/// Between two looks at the sessions of the database.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

#[tokio::test]
async fn b19_requests_that_hang_up_leave_no_transaction_open_on_postgres() {
    hang_up(Kind::Postgres, 51).await;
}

#[tokio::test]
async fn b19_requests_that_hang_up_leave_no_transaction_open_on_mysql() {
    hang_up(Kind::MySql, 52).await;
}

async fn hang_up(kind: Kind, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut server = Server::new(&store.url);
    let url = server.start().await;
    let rooms = make_rooms(&url, 4, USERS).await;
    let callers: Vec<Caller> = (1..=USERS)
        .map(|user| Caller {
            user,
            rest: Rest::new(&url, user),
        })
        .collect();
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut calls = Vec::new();
    for number in 0..REQUESTS {
        let (caller, room) = (rng.random_range(0..callers.len()), rng.random_range(0..rooms.len()));
        calls.push((
            &callers[caller],
            rooms[room].as_str(),
            number,
            rng.random_range(0.0..2.0),
        ));
    }
    let patience = Cell::new(FIRST_PATIENCE);
    let hasty = calls.iter().map(|&(caller, room, number, temper)| {
        let patience = &patience;
        async move {
            let attempt = caller.send(room, number, patience.get().mul_f64(temper)).await;
            // Half of them shall hang up, however fast or slow this machine is.
            let change = if attempt.answer.open() { LEARNS } else { 1.0 / LEARNS };
            patience.set(patience.get().mul_f64(change));
            attempt
        }
    });
    let mut requests: Vec<Attempt> = stream::iter(hasty).buffer_unordered(AT_ONCE).collect().await;
    let hung_up = requests.iter().filter(|attempt| attempt.answer.open()).count();
    assert!(
        hung_up > REQUESTS / 4 && hung_up < REQUESTS * 3 / 4,
        "{hung_up} of {REQUESTS} hung up"
    );

    // Some ask again, and everything goes its normal way.
    let patient = calls
        .iter()
        .step_by(3)
        .map(|&(caller, room, number, _)| caller.send(room, number, PATIENCE));
    let patient: Vec<Attempt> = stream::iter(patient).buffer_unordered(AT_ONCE).collect().await;
    assert!(
        patient.iter().all(|attempt| !attempt.answer.open()),
        "a request that waited has no ack"
    );
    requests.extend(patient);

    no_open_transaction(&store).await;
    // A second process reads over sessions of its own: what it sees is committed.
    let mut second = Server::new(&store.url);
    let stored = read_all(&second.start().await, &rooms).await;
    History {
        requests,
        stored,
        ..History::default()
    }
    .assert_kept();
    server.assert_store_in_order().await;
    server.assert_no_panic();
    second.kill().await;
    server.kill().await;
}

struct Caller {
    user: u64,
    rest: Rest,
}

impl Caller {
    /// Sends message `number` and hangs up when there is no answer in time.
    async fn send(&self, room: &str, number: usize, temper: Duration) -> Attempt {
        let (key, text) = (format!("key {number}"), format!("text {number}"));
        let answer = match timeout(temper, self.rest.send(room, &key, &text)).await {
            Ok(Ok((status, body))) => answer(status, &body),
            Ok(Err(_)) | Err(_) => Answer::Unknown,
        };
        Attempt {
            sender: format!("USER {}", self.user),
            conversation: room.to_owned(),
            key,
            text,
            answer,
        }
    }
}

fn answer(status: StatusCode, body: &Value) -> Answer {
    if !status.is_success() {
        return Answer::Refused {
            code: body["code"].to_string(),
            retryable: body["retryable"] == true,
        };
    }
    let message = &body["message"];
    Answer::Acked {
        message_id: message["message_id"].as_str().expect("a message_id").to_owned(),
        seq: message["seq"].as_u64().expect("a seq"),
        duplicate: body["duplicate"] == true,
    }
}

/// Nothing is under way any more, so no session may be inside a transaction.
async fn no_open_transaction(store: &TestDatabase) {
    patiently("every session of the database to be outside of a transaction", async {
        while open_transactions(store).await > 0 {
            sleep(LOOK_AGAIN).await;
        }
    })
    .await;
}

async fn open_transactions(store: &TestDatabase) -> i64 {
    if store.url.starts_with("postgres") {
        let query = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND \
                     state LIKE 'idle in transaction%'";
        let mut session = PgConnection::connect(&store.url).await.unwrap();
        sqlx::query_scalar(query).fetch_one(&mut session).await.unwrap()
    } else {
        // A session that sleeps and has a transaction.
        let query = "SELECT COUNT(*) FROM information_schema.innodb_trx AS t JOIN information_schema.processlist AS p \
                     ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE() AND p.command = 'Sleep'";
        let mut session = MySqlConnection::connect(&store.url).await.unwrap();
        sqlx::query_scalar(query).fetch_one(&mut session).await.unwrap()
    }
}
