//! Events for other systems over `kill -9`: every one reaches the receiver at least once and the reader exactly once, in the
//! order of its conversation, by the same name each time.

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

/// An event that a receiver took: its id, and which message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    id: String,
    room: String,
    seq: u64,
}

/// A receiver that refuses every ninth call and lets others wait a little.
#[derive(Clone, Default)]
struct Receiver {
    taken: Arc<Mutex<Vec<Taken>>>,
    calls: Arc<Mutex<usize>>,
}

impl Receiver {
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
            let call = {
                let mut calls = self.calls.lock().unwrap();
                *calls += 1;
                *calls
            };
            sleep(Duration::from_millis(5)).await;
            let refused = call % 9 == 2;
            if !refused {
                let body: Value = serde_json::from_slice(&body).unwrap();
                self.taken.lock().unwrap().push(taken(&id, &body));
            }
            let status = if refused { "500 No" } else { "200 OK" };
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

async fn rounds(kind: Kind) {
    let Some(store) = kind.fresh().await else { return };
    let mut server = Server::new(&store.url);
    for (key, value) in [
        ("ADMIN__API_KEY", ADMIN_KEY),
        ("WEBHOOKS__ALLOW_PRIVATE_ADDRESSES", "true"),
        ("WEBHOOKS__TIMEOUT_SECS", "1"),
    ] {
        server.set(&format!("ONESCRIBE__{key}"), value);
    }
    let receiver = Receiver::default();
    let hook = json!({"url": receiver.start().await, "secret": SECRET, "events": ["message.created"]});
    let url = server.start().await;
    operator(&url, Method::PUT, "/webhooks/one", Some(hook)).await.unwrap();
    operator(&url, Method::GET, "/events", None).await.unwrap();
    sleep(Duration::from_millis(2)).await; // what is of the same moment may be told
    let mut rooms = Vec::new();
    for n in 0..ROOMS {
        rooms.push(Rest::new(&url, 1).group(&format!("room {n}"), [2]).await);
    }
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
    let url = server.url().to_owned();
    let expected = ROOMS * (1 + MESSAGES * (KILLS + 1));
    patiently("all events", async {
        while firsts(&receiver.taken()).len() < expected || messages(&read).len() < expected {
            read_on(&url, &mut read).await;
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    judge(&acked, &receiver.taken(), &read);
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

async fn send(url: &str, room: &str, key: String) -> (String, u64) {
    let (status, body) = Rest::new(url, 1).send(room, &key, "x").await.unwrap();
    assert!(status.is_success(), "{body}");
    (room.to_owned(), body["message"]["seq"].as_u64().unwrap())
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
