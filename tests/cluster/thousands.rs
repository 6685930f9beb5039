//! Thousands of clients that come at once, stop reading at once, and come back at once; and meanwhile somebody talks.

use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::stopped_process::{DELAY_MAX, Traffic};
use crate::support::client::{BROKEN, Client, Login};
use crate::support::database::TestDatabase;
use crate::support::light::{Light, Refusal};
use crate::support::patiently;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::workload::make_rooms;

/// How many, unless the environment asks for another number; fewer where descriptors are short.
const CLIENTS: u64 = 2_000;
const CLIENTS_VARIABLE: &str = "ONESCRIBE_TEST_CLIENTS";
/// The first of them; user 1 talks, 2 and 3 listen.
const FIRST: u64 = 10;
/// Of the server, which has the same limit as we and needs two for each, and some for those that it turns away.
const DESCRIPTORS_EACH: u64 = 3;
const DESCRIPTORS_BESIDES: u64 = 500;
/// Members of one group: a frame waits for so many at once.
const GROUP: usize = 100;
const LARGE: usize = 60_000;
/// Large messages to each group: far more than the kernel takes, but not as much as one client may let wait.
const ROUNDS: usize = 20;
/// What may wait for all together.
const TOTAL_BYTES: u64 = 8 << 20;
/// What the server has in hand for a client that does not read: a large frame that is being written, and its buffers.
const IN_HAND_KIB: u64 = 160;
/// What the server takes besides for passing on large messages.
const BESIDES_KIB: u64 = 48 * 1024;
/// So many look whether they were cut: all of them would have to read hundreds of megabytes first.
const SAMPLE: usize = 100;
/// Some of them have read what the kernel had for them by then.
const READ_OUT: Duration = Duration::from_secs(10);
/// No message takes longer, though all of the storm runs on the machine that sends it.
const STORM_DELAY_MAX: Duration = Duration::from_secs(15);
/// Before one who was too slow to ask comes again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long a storm may take: the allowance of the address lets ten times as many in.
const STORM: Duration = Duration::from_mins(2);

/// B87, B91: what waits for all together is bounded, all are cut, and the one who talks does not notice. The storms
/// are turned away with a hint, and whoever waits as told comes in.
#[tokio::test]
async fn b87_b91_thousands_that_stop_reading_are_cut_within_a_bound_and_come_back_without_holding_anybody_up() {
    let clients = raise_descriptors();
    let store = TestDatabase::sqlite();
    let mut server = Server::new(&store.url);
    server.set("ONESCRIBE__LIMITS__OUTBOUND_TOTAL_BYTES", &TOTAL_BYTES.to_string());
    server.set("ONESCRIBE__LIMITS__CONNECTS_PER_SECOND", "200");
    server.set("ONESCRIBE__LIMITS__CONNECTS_BURST", "300");
    // A slow machine is no news here.
    server.set("ONESCRIBE__SERVER__HELLO_TIMEOUT_SECS", "60");
    server.set("ONESCRIBE__SERVER__REQUEST_TIMEOUT_SECS", "60");
    let url = server.start().await;
    let rooms = make_rooms(&url, 1, 3).await;
    let mut traffic = Traffic::start(&url, &rooms).await;
    let users: Vec<u64> = (FIRST..FIRST + clients).collect();
    let talker = Client::connect(&url, Login::new(1, "talker")).await;
    let owner = Rest::new(&url, 1);
    let groups = users.chunks(GROUP).map(|members| owner.group("many", members.to_vec()));
    let groups = join_all(groups).await;

    let (stuck, refused) = storm(&url, &users, &mut traffic).await;
    println!("{clients} clients came, {refused} times one was told to come later");
    assert!(refused > 0, "a storm that is not turned away proves nothing");

    let before = server.memory_kib();
    let mut most = before;
    for round in 0..ROUNDS {
        for group in &groups {
            talker.send(group, &format!("key {round}"), &"x".repeat(LARGE)).await;
        }
        let acks = (round + 1) * groups.len();
        talker.until("the acks of large messages", |log| log.acks >= acks).await;
        traffic.say(100).await;
        most = most.max(server.memory_kib());
    }
    patiently("many of them to be cut", async {
        while times_cut(&server.log()) * 4 < clients {
            traffic.say(100).await;
            most = most.max(server.memory_kib());
        }
    })
    .await;
    let bound = TOTAL_BYTES / 1024 + clients * IN_HAND_KIB + BESIDES_KIB;
    println!("the server grew by {} KiB of {bound}", most - before);
    assert!(most - before < bound, "the server grew by {} KiB", most - before);
    println!("{} were cut", times_cut(&server.log()));
    let reading = |mut client: Light| async move { timeout(READ_OUT, client.closed()).await.ok() };
    let every = stuck.len().div_ceil(SAMPLE);
    let ends = stuck
        .into_iter()
        .step_by(every)
        .map(reading)
        .collect::<JoinSet<_>>()
        .join_all()
        .await;
    let over = ends.iter().flatten();
    assert!(over.clone().count() > 0, "nobody sees that it was cut");
    assert!(
        over.clone().all(|code| matches!(*code, 4008 | BROKEN)),
        "{:?}",
        over.collect::<Vec<_>>()
    );

    let (back, refused) = storm(&url, &users, &mut traffic).await;
    println!(
        "{} clients are back, {refused} times one was told to come later",
        back.len()
    );
    println!("no message took longer than {:?}", traffic.slowest);
    assert!(
        traffic.slowest < STORM_DELAY_MAX,
        "a message took {:?}",
        traffic.slowest
    );
    server.assert_no_panic();
}

/// How many the server says it has cut.
fn times_cut(log: &str) -> u64 {
    let counts = log
        .split("cut=")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next());
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
}

/// Everybody comes at once, and again when told to; and somebody talks until all are in. Gives the clients, and how
/// often one was turned away.
async fn storm(url: &str, users: &[u64], traffic: &mut Traffic) -> (Vec<Light>, usize) {
    // A task each: as parts of one task they would be polled by thousands for each that has something to do.
    let mut coming: JoinSet<(Light, usize)> = users.iter().map(|user| come(url.to_owned(), *user)).collect();
    let until = Instant::now() + STORM;
    let (mut clients, mut refused) = (Vec::new(), 0);
    while clients.len() < users.len() {
        assert!(
            Instant::now() < until,
            "only {} of {} were let in",
            clients.len(),
            users.len()
        );
        traffic.say(100).await;
        while let Some(come) = coming.try_join_next() {
            let (client, times) = come.unwrap();
            clients.push(client);
            refused += times;
        }
    }
    (clients, refused)
}

async fn come(url: String, user: u64) -> (Light, usize) {
    let mut refused = 0;
    loop {
        match Light::connect(&url, user).await {
            Ok(client) => return (client, refused),
            Err(Refusal::Status(429, Some(after))) => {
                refused += 1;
                sleep(Duration::from_secs(after)).await;
            }
            // So many at once are slow to say what they want, and a server does not wait for that for ever: 408, 1013.
            Err(Refusal::Status(408 | 503, _) | Refusal::Broken) => sleep(RETRY_PAUSE).await,
            Err(other) => panic!("{user}: {other:?}"),
        }
    }
}

fn raise_descriptors() -> u64 {
    let wanted = std::env::var(CLIENTS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let wanted: u64 = wanted.unwrap_or(CLIENTS);
    let most = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let possible = most.map_or(u64::MAX, |most| {
        most.saturating_sub(DESCRIPTORS_BESIDES) / DESCRIPTORS_EACH
    });
    if possible < wanted {
        eprintln!("only {possible} clients instead of {wanted}: descriptors are short (ulimit -n)");
    }
    possible.min(wanted)
}

/// B82: it reads, but so slowly that it might as well not.
#[tokio::test]
async fn b82_one_who_reads_a_byte_a_second_in_a_group_of_a_hundred_holds_nobody_up() {
    let store = TestDatabase::sqlite();
    let mut server = Server::new(&store.url);
    server.set("ONESCRIBE__LIMITS__OUTBOUND_BYTES", "131072");
    let url = server.start().await;
    let rooms = make_rooms(&url, 1, 100).await;
    let mut traffic = Traffic::start(&url, &rooms).await;
    let mut slow = Light::connect(&url, 50).await.unwrap();
    let begin = Instant::now();
    let sipping = async {
        while begin.elapsed() < Duration::from_secs(3) && slow.sip().await {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let talking = async {
        for _ in 0..30 {
            traffic.say(30_000).await;
        }
    };
    tokio::join!(sipping, talking);
    assert!(traffic.slowest < DELAY_MAX, "a message took {:?}", traffic.slowest);
    assert!(matches!(slow.closed().await, 4008 | BROKEN));
    server.assert_no_panic();
}
