//! A database that answers nothing for a while, under more load than can be kept waiting: refusals that say when to come
//! again, a bound on memory, and then everything is as if nothing had been.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::stores::Kind;
use crate::support::client::{Client, Login};
use crate::support::proxy::Flow;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::workload::make_rooms;

/// How long it answers nothing, unless the environment says otherwise.
const STALL: Duration = Duration::from_secs(6);
const STALL_VARIABLE: &str = "ONESCRIBE_TEST_STALL_SECS";
const SENDERS: usize = 8;
/// Sends of one sender that are unanswered at once.
const WINDOW: usize = 100;
/// Messages of one sender that are not acked at once, those that were refused included.
const OPEN: usize = 200;
const TEXT: usize = 4_000;
/// What may wait: less than the windows of all senders come to (3 MB).
const BACKLOG: &str = "1048576";
/// How much the server may grow while nothing moves. What waits takes 1 MiB; refusals go out all the time.
const GROWTH_KIB_MAX: u64 = 32 * 1024;
/// The first refusal does not wait for a commit to time out.
const EARLY: Duration = Duration::from_secs(4);
/// How long it may take until all is acked when the database answers again.
const SETTLED: Duration = Duration::from_mins(1);
/// Between two attempts of what was refused.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_postgres_that_answers_nothing_under_full_load_costs_early_refusals_and_a_bounded_backlog() {
    stall(Kind::Postgres).await;
}

#[tokio::test]
async fn a_mysql_that_answers_nothing_under_full_load_costs_early_refusals_and_a_bounded_backlog() {
    stall(Kind::MySql).await;
}

async fn stall(kind: Kind) {
    let Some(store) = kind.fresh().await else { return };
    let (proxy, through_proxy) = kind.behind_proxy(&store).await;
    let mut server = Server::new(&through_proxy);
    server.set("ONESCRIBE__LIMITS__BACKLOG_BYTES", BACKLOG);
    let url = server.start().await;
    let rooms = make_rooms(&url, SENDERS, 2).await;
    let mut senders: Vec<Sender> = join_all(rooms.iter().map(|room| Sender::start(&url, room))).await;
    // A little of everything first: what it takes once is not growth.
    join_all(senders.iter_mut().map(|sender| sender.turn(WINDOW))).await;

    let stall = std::env::var(STALL_VARIABLE).ok().and_then(|text| text.parse().ok());
    let stall = stall.map_or(STALL, Duration::from_secs);
    let before = server.memory_kib();
    proxy.set(Flow::Silent);
    let begin = Instant::now();
    let mut most = before;
    let (mut first_refusal, mut refused) = (None, 0);
    while begin.elapsed() < stall {
        for sender in &mut senders {
            sender.post(WINDOW).await;
        }
        sleep(RETRY_PAUSE).await;
        for sender in &mut senders {
            let refusals = sender.take();
            if refusals > 0 {
                first_refusal.get_or_insert_with(|| begin.elapsed());
            }
            refused += refusals;
        }
        most = most.max(server.memory_kib());
    }
    proxy.set(Flow::Open);
    println!(
        "{refused} refusals, the first after {first_refusal:?}; the server grew by {} KiB",
        most - before
    );
    assert!(
        first_refusal.is_some_and(|first| first < EARLY),
        "the first refusal came after {first_refusal:?}"
    );
    assert!(
        most - before < GROWTH_KIB_MAX,
        "the server grew by {} KiB",
        most - before
    );

    join_all(senders.iter_mut().map(Sender::settle)).await;
    for sender in &senders {
        sender.assert_kept(&url).await;
    }
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

/// One who sends to a room of its own, as many at once as it likes.
struct Sender {
    line: Client,
    room: String,
    /// Keys that were not acked yet.
    open: BTreeSet<usize>,
    /// Frames that wait, with their keys.
    waiting: BTreeMap<u64, usize>,
    acked: BTreeMap<usize, u64>,
    next: usize,
}

impl Sender {
    async fn start(url: &str, room: &str) -> Self {
        Self {
            line: Client::connect(url, Login::new(1, room)).await,
            room: room.to_owned(),
            open: BTreeSet::new(),
            waiting: BTreeMap::new(),
            acked: BTreeMap::new(),
            next: 0,
        }
    }

    /// Sends up to `window` that wait: new ones, and what was refused again.
    async fn post(&mut self, window: usize) {
        while self.waiting.len() < window && self.open.len() < OPEN {
            let key = self.next;
            self.next += 1;
            self.open.insert(key);
            self.post_again(key).await;
        }
        self.post_refused(window).await;
    }

    async fn post_refused(&mut self, window: usize) {
        let waiting: BTreeSet<usize> = self.waiting.values().copied().collect();
        let again = self
            .open
            .difference(&waiting)
            .take(window.saturating_sub(waiting.len()));
        for key in again.copied().collect::<Vec<_>>() {
            self.post_again(key).await;
        }
    }

    async fn post_again(&mut self, key: usize) {
        let text = "x".repeat(TEXT);
        let frame = self.line.send(&self.room, &key.to_string(), &text).await;
        self.waiting.insert(frame, key);
    }

    /// Takes the answers that are here; how many of them are refusals. Each of those says when to come again.
    fn take(&mut self) -> usize {
        let Self {
            line,
            open,
            waiting,
            acked,
            ..
        } = self;
        let mut refused = 0;
        line.with_log(|log| {
            assert_eq!(log.closed, None, "a sender lost its connection");
            waiting.retain(|frame, key| {
                let Some(reply) = log.reply(*frame) else { return true };
                if reply["type"] == "message.sent" {
                    open.remove(key);
                    let seq = reply["seq"].as_u64().unwrap();
                    assert_eq!(*acked.entry(*key).or_insert(seq), seq, "one key, one seq");
                } else {
                    refused += 1;
                    assert_refused(reply);
                }
                false
            });
        });
        refused
    }

    async fn turn(&mut self, window: usize) {
        self.post(window).await;
        self.settle().await;
    }

    /// Sends everything again, with the same keys, until it is acked.
    async fn settle(&mut self) {
        let begin = Instant::now();
        loop {
            self.take();
            if self.open.is_empty() {
                return;
            }
            assert!(begin.elapsed() < SETTLED, "{} are not acked", self.open.len());
            self.post_refused(WINDOW).await;
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Everything is there once, under the number that was told.
    async fn assert_kept(&self, url: &str) {
        let stored = Rest::new(url, 1).history_after(&self.room, 0).await;
        let found: BTreeMap<usize, u64> = stored
            .iter()
            .filter_map(|message| {
                Some((
                    message["client_message_id"].as_str()?.parse().ok()?,
                    message["seq"].as_u64()?,
                ))
            })
            .collect();
        assert_eq!(found, self.acked);
        let seqs: Vec<u64> = stored.iter().filter_map(|message| message["seq"].as_u64()).collect();
        assert!(
            seqs.iter().copied().eq(1..=u64::try_from(seqs.len()).unwrap()),
            "numbers without holes"
        );
    }
}

fn assert_refused(reply: &Value) {
    let code = reply["code"].as_str().unwrap_or_default();
    assert!(matches!(code, "overloaded" | "unavailable"), "{reply}");
    assert!(
        reply["retry_after_ms"].as_u64() > Some(0),
        "it does not say when to come again: {reply}"
    );
}
