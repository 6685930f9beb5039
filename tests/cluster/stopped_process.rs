//! A receiver whose process is stopped under traffic (SIGSTOP): nobody waits for it, and it loses only its connection.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, sleep};

use crate::history::{Connection, Copy, History, Posted, Seen};
use crate::support::client::{Client, Login};
use crate::support::database::TestDatabase;
use crate::support::patiently;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::support::tokens::user_token;
use crate::workload::{Receiver, Rooms, make_rooms, read_all};

const LARGE: usize = 60_000;
/// What the process still prints before it is stopped.
const BEFORE: usize = 5;
/// More than the kernel keeps for a connection: some 70 here.
const FILL: usize = 100;
/// How much the server may grow from then on: half of what keeping it all would take.
const GROWTH_KIB_MAX: u64 = 8 * 1024;
/// No message takes longer to its sender and to a neighbour. A server that waited for the process would take the ten
/// seconds that a slow client gets.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(5);
/// Between two messages while the process's time runs out.
const PAUSE: Duration = Duration::from_millis(50);

/// P10, B82, B87.
#[tokio::test]
async fn a_process_that_is_stopped_is_cut_and_holds_nobody_up_and_then_reads_what_it_missed() {
    let store = TestDatabase::sqlite();
    let mut server = Server::new(&store.url);
    server.set("ONESCRIBE__LIMITS__OUTBOUND_BYTES", "262144");
    let url = server.start().await;
    let rooms = make_rooms(&url, 1, 3).await;
    let mut held = read_all(&url, &rooms).await;
    let mut traffic = Traffic::start(&url, &rooms).await;
    let mut process = Process::start(&url, 2).await;
    for _ in 0..BEFORE {
        traffic.say(LARGE).await;
        held.push(process.push().await.expect("it prints what it is pushed"));
    }

    process.signal(Signal::STOP);
    for _ in 0..FILL {
        traffic.say(LARGE).await;
    }
    // By now the caches of the server are full as well.
    let memory = server.memory_kib();
    patiently("the end of the stopped process's connection", async {
        while process.is_served() {
            traffic.say(LARGE).await;
            let grown = server.memory_kib().saturating_sub(memory);
            assert!(grown < GROWTH_KIB_MAX, "the server grew by {grown} KiB");
            sleep(PAUSE).await;
        }
    })
    .await;
    assert!(traffic.slowest < DELAY_MAX, "a message took {:?}", traffic.slowest);

    process.signal(Signal::CONT);
    while let Some(push) = process.push().await {
        held.push(push);
    }
    let back = Client::connect(&url, Login::new(2, "watcher")).await;
    let last = held.last().expect("it was pushed something").seq;
    let missed = Rest::new(&url, 2).history_after(&rooms[0], last).await;
    assert!(!missed.is_empty(), "it was pushed everything although it did not read");
    held.extend(missed.iter().map(Seen::of));
    traffic.say(1).await;
    back.until("a push to the new connection", |log| log.pushes > 0).await;
    let pushed = back.with_log(|log| Connection::new(2, "back", Vec::new(), &log.frames));
    held.extend(pushed.pushes().cloned());
    traffic.assert_kept(held, read_all(&url, &rooms).await);
    server.assert_no_panic();
}

/// A sender and a neighbour of whoever is in trouble.
pub(crate) struct Traffic {
    sender: Client,
    live: Receiver,
    room: String,
    posted: Vec<Posted>,
    pub(crate) slowest: Duration,
}

impl Traffic {
    pub(crate) async fn start(url: &str, rooms: &Rooms) -> Self {
        let mut live = Receiver::new(3, rooms);
        live.connect(url).await;
        Self {
            sender: Client::connect(url, Login::new(1, "sender")).await,
            live,
            room: rooms[0].clone(),
            posted: Vec::new(),
            slowest: Duration::ZERO,
        }
    }

    /// One message, until its sender has the ack and the neighbour the push.
    pub(crate) async fn say(&mut self, size: usize) {
        let (key, text) = (format!("key {}", self.posted.len()), "x".repeat(size));
        let begin = Instant::now();
        let frame = self.sender.send(&self.room, &key, &text).await;
        self.sender.until("an ack", |log| log.reply(frame).is_some()).await;
        let seq = self
            .sender
            .with_log(|log| log.reply(frame).and_then(|ack| ack["seq"].as_u64()));
        let head = BTreeMap::from([(self.room.clone(), seq.expect("an ack"))]);
        self.live.until(&head).await;
        self.slowest = self.slowest.max(begin.elapsed());
        self.posted.push(Posted {
            frame,
            conversation: self.room.clone(),
            key,
            text,
        });
    }

    fn assert_kept(mut self, held: Vec<Seen>, stored: Vec<Seen>) {
        self.live.leave();
        let posted = self.posted;
        let sent = self
            .sender
            .with_log(|log| Connection::new(1, "sender", posted, &log.frames));
        let stopped = Copy {
            name: "stopped".to_owned(),
            messages: held,
        };
        History {
            connections: vec![sent, self.live.record[0].clone()],
            copies: vec![stopped, self.live.copy()],
            stored,
            ..History::default()
        }
        .assert_kept();
    }
}

/// A process of its own that receives: the example.
struct Process {
    child: Child,
    printed: Lines<BufReader<ChildStdout>>,
    /// Its address and the server's, as the kernel writes them.
    connection: (String, String),
}

impl Process {
    /// Starts it and waits for the welcome.
    async fn start(url: &str, user: u64) -> Self {
        let mut child = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/watch.py"))
            .args([&user_token(user), "watcher", url.trim_start_matches("http://")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python3 is installed");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut process = Self {
            child,
            printed: BufReader::new(stdout).lines(),
            connection: (String::new(), String::new()),
        };
        let welcome = process.frame().await.expect("a welcome");
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        process.connection = process.find_connection();
        process
    }

    /// The next frame that it prints; `None` at its end.
    async fn frame(&mut self) -> Option<Value> {
        let line = patiently("a line of the process", self.printed.next_line()).await;
        line.unwrap().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// The next message that it prints.
    async fn push(&mut self) -> Option<Seen> {
        loop {
            let frame = self.frame().await?;
            if frame["type"] == "message.new" {
                return Some(Seen::of(&frame["message"]));
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id()).unwrap(), signal).unwrap();
    }

    fn id(&self) -> i32 {
        self.child.id().and_then(|id| id.try_into().ok()).expect("it runs")
    }

    fn find_connection(&self) -> (String, String) {
        let sockets: Vec<String> = fs::read_dir(format!("/proc/{}/fd", self.id()))
            .unwrap()
            .filter_map(|open| fs::read_link(open.unwrap().path()).ok()?.to_str().map(str::to_owned))
            .collect();
        let mine = connections().into_iter().find(|connection| {
            let inode = format!("socket:[{}]", connection[9]);
            sockets.contains(&inode)
        });
        let mine = mine.expect("it has a connection");
        (mine[1].clone(), mine[2].clone())
    }

    /// Does the server still hold its end of the connection? The process cannot tell while it is stopped.
    fn is_served(&self) -> bool {
        const ESTABLISHED: &str = "01";
        let (here, there) = &self.connection;
        connections()
            .iter()
            .any(|of| of[1] == *there && of[2] == *here && of[3] == ESTABLISHED)
    }
}

/// The words of the kernel's table: number, here, there, state, …, inode.
fn connections() -> Vec<Vec<String>> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    table.lines().skip(1).map(words).collect()
}
