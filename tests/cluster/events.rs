//! Events for other systems over `kill -9`, and with two processes of which one stands still for a while: every one reaches
//! the receiver at least once and the reader exactly once, in the order of its conversation, by the same name each time, and
//! none is called by two at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::stores::Kind;
use crate::support::patiently;
use crate::support::rest::Rest;
use crate::support::server::Server;

const ADMIN_KEY: &str = "the admin key of the tests";
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const ROOMS: usize = 3;
const KILLS: usize = 2;
/// Messages of each room between two kills.
const MESSAGES: usize = 8;
/// `webhooks.timeout_secs`; a lease lasts five seconds more.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a receiver thinks about a call.
const AT_ONCE: Duration = Duration::from_millis(5);
const SLOWLY: Duration = Duration::from_millis(300);

#[tokio::test]
async fn b116_kills_lose_no_event_on_sqlite() {
    rounds(Kind::Sqlite).await;
}

#[tokio::test]
async fn b116_kills_lose_no_event_on_postgres() {
    rounds(Kind::Postgres).await;
}

#[tokio::test]
async fn b116_kills_lose_no_event_on_mysql() {
    rounds(Kind::MySql).await;
}

#[tokio::test]
async fn of_two_processes_one_calls_and_the_other_takes_over_when_it_stands_still_on_postgres() {
    side_by_side(Kind::Postgres).await;
}

#[tokio::test]
async fn of_two_processes_one_calls_and_the_other_takes_over_when_it_stands_still_on_mysql() {
    side_by_side(Kind::MySql).await;
}

/// An event that a receiver took: its id, and which message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    id: String,
    room: String,
    seq: u64,
}

/// What a receiver does with a call: every ninth it refuses, every 27th it answers too late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manners {
    Take,
    Refuse,
    /// It answers 200 when nobody waits for that any more.
    Late,
}

/// A receiver that refuses some calls, and answers some too late.
#[derive(Clone)]
struct Receiver {
    pause: Duration,
    /// Every call that came.
    calls: Arc<Mutex<Vec<Taken>>>,
    /// Those that were taken.
    taken: Arc<Mutex<Vec<Taken>>>,
    /// The ids of calls under way …
    open: Arc<Mutex<BTreeSet<String>>>,
    /// … and those that came meanwhile once more.
    doubles: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    fn new(pause: Duration) -> Self {
        Self {
            pause,
            calls: Arc::default(),
            taken: Arc::default(),
            open: Arc::default(),
            doubles: Arc::default(),
        }
    }

    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let receiver = self.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let receiver = receiver.clone();
                tokio::spawn(async move { receiver.serve(socket).await.ok() });
            }
        });
        url
    }

    async fn serve(&self, socket: TcpStream) -> std::io::Result<()> {
        let mut socket = BufReader::new(socket);
        loop {
            let (mut length, mut id) = (0, String::new());
            loop {
                let mut line = String::new();
                if socket.read_line(&mut line).await? == 0 {
                    return Ok(());
                }
                let line = line.trim().to_owned();
                if line.is_empty() {
                    break;
                }
                match line.to_ascii_lowercase().split_once(": ") {
                    Some(("content-length", value)) => length = value.parse().unwrap(),
                    Some(("webhook-id", value)) => value.clone_into(&mut id),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            socket.read_exact(&mut body).await?;
            if !self.open.lock().unwrap().insert(id.clone()) {
                self.doubles.lock().unwrap().push(id.clone());
            }
            let call = taken(&id, &serde_json::from_slice(&body).unwrap());
            let manners = {
                let mut calls = self.calls.lock().unwrap();
                calls.push(call.clone());
                match calls.len() % 27 {
                    2 | 11 | 20 => Manners::Refuse,
                    5 => Manners::Late,
                    _ => Manners::Take,
                }
            };
            if manners == Manners::Late {
                // The caller has gone when the answer comes: for it the call is over before it is for us.
                self.open.lock().unwrap().remove(&id);
                sleep(TIMEOUT + SLOWLY).await;
            } else {
                sleep(self.pause).await;
                self.open.lock().unwrap().remove(&id);
            }
            if manners == Manners::Take {
                self.taken.lock().unwrap().push(call);
            }
            let status = if manners == Manners::Refuse { "500 No" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            socket.write_all(answer.as_bytes()).await?;
        }
    }

    fn taken(&self) -> Vec<Taken> {
        self.taken.lock().unwrap().clone()
    }
}

fn taken(id: &str, event: &Value) -> Taken {
    let message = &event["data"]["message"];
    Taken {
        id: id.to_owned(),
        room: message["conversation_id"].as_str().unwrap().to_owned(),
        seq: message["seq"].as_u64().unwrap(),
    }
}

/// A call by the operator; `None` when the server is not there.
async fn operator(url: &str, method: Method, path: &str, body: Option<Value>) -> Option<Value> {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = http
        .request(method, format!("{url}/admin/v1{path}"))
        .bearer_auth(ADMIN_KEY);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.ok()?;
    assert!(
        response.status().is_success(),
        "{path}: {}",
        response.text().await.unwrap()
    );
    response.json().await.ok()
}

/// What was read: the place of each event, and the message where it is about one that was sent.
type Read = Vec<(u64, Option<Taken>)>;

/// Reads the feed on.
async fn read_on(url: &str, read: &mut Read) {
    let after = read.last().map_or(0, |(event_no, _)| *event_no);
    let page = operator(url, Method::GET, &format!("/events?after={after}&limit=7"), None).await;
    let Some(page) = page else { return };
    for event in page["items"].as_array().unwrap() {
        let event_no = event["event_no"].as_u64().unwrap();
        // Who has missed something is named there, too.
        let is_message = event["type"] == "message.created";
        let message = is_message.then(|| taken(event["id"].as_str().unwrap(), event));
        read.push((event_no, message));
    }
}

fn server(database_url: &str) -> Server {
    let mut server = Server::new(database_url);
    for (key, value) in [
        ("ADMIN__API_KEY", ADMIN_KEY),
        ("WEBHOOKS__ALLOW_PRIVATE_ADDRESSES", "true"),
        ("WEBHOOKS__TIMEOUT_SECS", &TIMEOUT.as_secs().to_string()),
    ] {
        server.set(&format!("ONESCRIBE__{key}"), value);
    }
    server
}

/// Rooms whose events are wanted.
async fn rooms(url: &str, receiver: &Receiver, count: usize) -> Vec<String> {
    let hook = json!({"url": receiver.start().await, "secret": SECRET, "events": ["message.created"]});
    operator(url, Method::PUT, "/webhooks/one", Some(hook)).await.unwrap();
    operator(url, Method::GET, "/events", None).await.unwrap();
    sleep(Duration::from_millis(2)).await; // what is of the same moment may be told
    let mut rooms = Vec::new();
    for n in 0..count {
        rooms.push(Rest::new(url, 1).group(&format!("room {n}"), [2]).await);
    }
    rooms
}

/// Waits until everything has come by both ways, and judges.
async fn settle(url: &str, expected: usize, acked: &BTreeSet<(String, u64)>, receiver: &Receiver, mut read: Read) {
    patiently("all events", async {
        while firsts(&receiver.taken()).len() < expected || messages(&read).len() < expected {
            read_on(url, &mut read).await;
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    judge(acked, &receiver.taken(), &read);
    assert_eq!(*receiver.doubles.lock().unwrap(), Vec::<String>::new(), "one at a time");
}

async fn until_among(calls: &Mutex<Vec<Taken>>, (room, seq): &(String, u64)) {
    let is_there = || {
        let calls = calls.lock().unwrap();
        calls.iter().any(|one| (&one.room, one.seq) == (room, *seq))
    };
    patiently(&format!("a call for seq {seq}"), async {
        while !is_there() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn side_by_side(kind: Kind) {
    let Some(store) = kind.fresh().await else { return };
    let mut servers = [server(&store.url), server(&store.url)];
    let urls = [servers[0].start().await, servers[1].start().await];
    let receiver = Receiver::new(SLOWLY);
    let room = rooms(&urls[0], &receiver, 1).await.remove(0);
    let mut acked = BTreeSet::new();
    // Whichever of them calls stands still at least once, each time in the middle of a call.
    let turns = [0, 1, 0];
    for (turn, still) in turns.into_iter().enumerate() {
        let other = &urls[1 - still];
        let before = send(&urls[still], &room, format!("{turn} before")).await;
        until_among(&receiver.calls, &before).await;
        servers[still].freeze();
        let meanwhile = send(other, &room, format!("{turn} meanwhile")).await;
        until_among(&receiver.taken, &meanwhile).await;
        acked.extend([before, meanwhile]);
        servers[still].thaw();
    }
    settle(&urls[1], 1 + 2 * turns.len(), &acked, &receiver, Read::new()).await;
    for server in &mut servers {
        server.assert_store_in_order().await;
        server.kill().await;
    }
}

async fn rounds(kind: Kind) {
    let Some(store) = kind.fresh().await else { return };
    let mut server = server(&store.url);
    let url = server.start().await;
    let receiver = Receiver::new(AT_ONCE);
    let rooms = rooms(&url, &receiver, ROOMS).await;
    let mut acked = BTreeSet::new();
    let mut read = Read::new();
    for round in 0..=KILLS {
        let url = server.url().to_owned();
        let before = receiver.taken().len();
        for n in 0..MESSAGES {
            let sends = rooms.iter().map(|room| send(&url, room, format!("{round} {n}")));
            for (room, seq) in futures_util::future::join_all(sends).await {
                acked.insert((room, seq));
            }
            read_on(&url, &mut read).await;
        }
        if round < KILLS {
            // In the middle of its calls: the lease of the one before has to end first.
            patiently("a call", async {
                while receiver.taken().len() < before + 4 {
                    sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
            server.kill().await;
            server.start().await;
        }
    }
    let expected = ROOMS * (1 + MESSAGES * (KILLS + 1));
    settle(server.url(), expected, &acked, &receiver, read).await;
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

/// Sends until it is acknowledged: a writer that finds another process's messages says so, and is asked again.
async fn send(url: &str, room: &str, key: String) -> (String, u64) {
    patiently("an ack", async {
        loop {
            let (status, body) = Rest::new(url, 1).send(room, &key, "x").await.unwrap();
            if status.is_success() {
                return (room.to_owned(), body["message"]["seq"].as_u64().unwrap());
            }
            assert_eq!(body["retryable"], true, "{body}");
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

fn messages(read: &Read) -> Vec<&Taken> {
    read.iter().filter_map(|(_, message)| message.as_ref()).collect()
}

/// Each event once, when it was taken first.
fn firsts(taken: &[Taken]) -> Vec<&Taken> {
    let mut seen = BTreeSet::new();
    taken.iter().filter(|one| seen.insert(&one.id)).collect()
}

fn judge(acked: &BTreeSet<(String, u64)>, taken: &[Taken], read: &Read) {
    let numbers: Vec<u64> = read.iter().map(|(event_no, _)| *event_no).collect();
    assert_eq!(
        numbers,
        (1..).take(read.len()).collect::<Vec<u64>>(),
        "the reader misses nothing"
    );
    let told = messages(read);
    for all in [told.as_slice(), firsts(taken).as_slice()] {
        let mut seqs: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for one in all {
            seqs.entry(&one.room).or_default().push(one.seq);
        }
        for (room, seqs) in &seqs {
            assert_eq!(*seqs, (1..).take(seqs.len()).collect::<Vec<u64>>(), "{room} in order");
        }
        for (room, seq) in acked {
            assert!(seqs[room.as_str()].contains(seq), "{room} {seq} was acknowledged");
        }
    }
    let names: BTreeMap<(&str, u64), &str> = told
        .iter()
        .map(|one| ((one.room.as_str(), one.seq), one.id.as_str()))
        .collect();
    for one in taken {
        assert_eq!(names[&(one.room.as_str(), one.seq)], one.id, "one event has one name");
    }
}
