//! The database goes away under load and comes back: retryable errors, then recovery without a restart of ours.

use std::time::Duration;

use reqwest::Method;
use tokio::time::{Instant, sleep};

use crate::history::Answer;
use crate::instance::Instance;
use crate::stores::Kind;
use crate::support::patiently;
use crate::support::proxy::Flow;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::workload::Crowd;

/// How long the database is away.
const OUTAGE: Duration = Duration::from_secs(10);
/// How long the network swallows packets before the connections break, and then refuses new ones.
const SILENCE: Duration = Duration::from_secs(2);
const REFUSAL: Duration = Duration::from_secs(8);
/// Between two looks at something that has no event.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_postgres_out_of_reach_for_ten_seconds_costs_errors_and_nothing_else() {
    out_of_reach(Kind::Postgres, 11).await;
}

#[tokio::test]
async fn a_mysql_out_of_reach_for_ten_seconds_costs_errors_and_nothing_else() {
    out_of_reach(Kind::MySql, 12).await;
}

/// The network between the server and its database first swallows everything and then breaks.
async fn out_of_reach(kind: Kind, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let (proxy, through_proxy) = kind.behind_proxy(&store).await;
    let mut server = Server::new(&through_proxy);
    let url = server.start().await;
    let mut crowd = ready_crowd(&url, seed).await;
    let network = async {
        proxy.set(Flow::Silent);
        sleep(SILENCE).await;
        proxy.set(Flow::Refusing);
        sleep(REFUSAL).await;
        proxy.set(Flow::Open);
    };
    Box::pin(survive(&mut crowd, &mut server, network)).await;
}

#[tokio::test]
async fn a_postgres_that_is_stopped_for_ten_seconds_costs_errors_and_nothing_else() {
    stopped(Kind::Postgres, 13).await;
}

#[tokio::test]
async fn a_mysql_that_is_stopped_for_ten_seconds_costs_errors_and_nothing_else() {
    stopped(Kind::MySql, 14).await;
}

/// The database server itself is stopped in the middle of its work and started again.
async fn stopped(kind: Kind, seed: u64) {
    let Some(mut database) = Instance::start(kind).await else {
        return;
    };
    let mut server = Server::new(&database.url());
    let url = server.start().await;
    let mut crowd = ready_crowd(&url, seed).await;
    let stop = async {
        database.stop_at_once().await;
        sleep(OUTAGE).await;
        database.start_again().await;
    };
    Box::pin(survive(&mut crowd, &mut server, stop)).await;
    database.stop_at_once().await;
}

async fn ready_crowd(url: &str, seed: u64) -> Crowd {
    let mut crowd = Crowd::gather(url, seed, 4, 10, 2).await;
    crowd.connect_senders(url).await;
    crowd.connect_receivers(url).await;
    crowd.turn(5).await;
    crowd
}

/// Sends all the time while `outage` happens; afterwards everything is as if it had not happened.
async fn survive(crowd: &mut Crowd, server: &mut Server, outage: impl Future<Output = ()>) {
    let url = server.url().to_owned();
    let health = Rest::new(&url, 1);
    let begin = Instant::now();
    let mut turns = 0;
    let load = async {
        while begin.elapsed() < OUTAGE {
            crowd.turn(1).await;
            turns += 1;
            sleep(LOOK_AGAIN).await;
        }
    };
    tokio::join!(outage, load, until_ready(&health, false));
    until_ready(&health, true).await;
    crowd.settle().await;
    crowd.turn(1).await;
    assert!(
        crowd.senders.iter().all(|sender| sender.open().next().is_none()),
        "it has not recovered"
    );
    assert!(server.alive(), "it ended");
    let history = crowd.history(&url).await;
    history.assert_kept();
    assert!(
        crowd.receivers.iter().all(|receiver| receiver.record.len() == 1),
        "a receiver lost its connection"
    );
    let attempts = history.connections.iter().flat_map(|connection| &connection.attempts);
    let refused = attempts
        .filter(|attempt| matches!(attempt.answer, Answer::Refused { .. }))
        .count();
    assert!(refused > 0, "the outage was not noticed in {turns} turns");
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

/// `/readyz` follows the store.
async fn until_ready(health: &Rest, ready: bool) {
    patiently(&format!("readyz to say {ready}"), async {
        while health.call(Method::GET, "/readyz", None).await.unwrap().0.is_success() != ready {
            sleep(LOOK_AGAIN).await;
        }
    })
    .await;
}
