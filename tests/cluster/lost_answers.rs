//! The database commits and the connection breaks before its answer (B06): the single writer's own trap.

use serde_json::Value;

use crate::history::Rule;
use crate::stores::Kind;
use crate::support::client::{Client, Login};
use crate::support::patiently;
use crate::support::proxy::Cut;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::workload::Crowd;

/// Every way to lose a commit, with good ones between.
const CUTS: [Cut; 10] = [
    Cut::After,
    Cut::No,
    Cut::Before,
    Cut::Late,
    Cut::After,
    Cut::After,
    Cut::No,
    Cut::During,
    Cut::Late,
    Cut::Before,
];
/// How often [`CUTS`] is gone through.
const ROUNDS: usize = 3;

#[tokio::test]
async fn b06_no_conversation_is_stuck_when_answers_to_commits_are_lost_on_postgres() {
    many_lost_answers(Kind::Postgres, 5).await;
}

#[tokio::test]
async fn b06_no_conversation_is_stuck_when_answers_to_commits_are_lost_on_mysql() {
    many_lost_answers(Kind::MySql, 6).await;
}

/// Receivers stay connected all the time: they see every message exactly once, also those whose commit nobody heard of.
async fn many_lost_answers(kind: Kind, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let (proxy, through_proxy) = kind.behind_proxy(&store).await;
    let mut server = Server::new(&through_proxy);
    let url = server.start().await;
    let mut crowd = Crowd::gather(&url, seed, 3, 8, 2).await;
    crowd.connect_senders(&url).await;
    crowd.connect_receivers(&url).await;
    proxy.cut_commits(CUTS.repeat(ROUNDS));
    patiently("all the cuts to be met", async {
        while proxy.cuts_left() > 0 {
            crowd.turn(2).await;
        }
    })
    .await;
    crowd.settle().await;
    // Whatever happened before: now a send goes through at the first attempt.
    crowd.turn(1).await;
    assert!(
        crowd.senders.iter().all(|sender| sender.open().next().is_none()),
        "a conversation is stuck"
    );
    assert_eq!(
        proxy.cuts_done(),
        CUTS.iter().filter(|cut| **cut != Cut::No).count() * ROUNDS
    );
    let history = crowd.history(&url).await;
    history.assert_kept();
    assert!(
        crowd.receivers.iter().all(|receiver| receiver.record.len() == 1),
        "a receiver lost its connection"
    );
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

#[tokio::test]
async fn b06_a_commit_without_an_answer_is_found_by_its_key_on_postgres() {
    one_lost_answer(Kind::Postgres).await;
}

#[tokio::test]
async fn b06_a_commit_without_an_answer_is_found_by_its_key_on_mysql() {
    one_lost_answer(Kind::MySql).await;
}

async fn one_lost_answer(kind: Kind) {
    let Some(store) = kind.fresh().await else { return };
    let (proxy, through_proxy) = kind.behind_proxy(&store).await;
    let mut server = Server::new(&through_proxy);
    let url = server.start().await;
    let ann = Rest::new(&url, 1);
    let room = ann.group("room", [2]).await;
    let bob = Client::connect(&url, Login::new(2, "phone")).await;
    proxy.cut_commits([Cut::After]);

    let (status, first) = ann.send(&room, "the key", "said once").await.unwrap();
    assert!(
        status.is_success() || first["retryable"] == true,
        "neither stored nor to be tried again: {status} {first}"
    );
    assert_eq!(
        proxy.cuts_done(),
        1,
        "the commit of the message was not the one that was cut"
    );
    let (status, next) = ann.send(&room, "another key", "next").await.unwrap();
    assert_eq!(
        (status.as_u16(), &next["message"]["seq"]),
        (201, &Value::from(3)),
        "the next send succeeds: {next}"
    );
    let (status, again) = ann.send(&room, "the key", "said once").await.unwrap();
    assert_eq!(status.as_u16(), 200, "the message was stored: {again}");
    assert_eq!(
        (&again["duplicate"], &again["message"]["seq"]),
        (&Value::from(true), &Value::from(2))
    );
    if first["message"].is_object() {
        assert_eq!(
            first["message"]["message_id"],
            again["message"]["message_id"],
            "{:?}",
            Rule::SameAnswer
        );
    }

    bob.until("both messages", |log| log.pushes >= 2).await;
    bob.settle().await;
    let seqs = bob.with_log(|log| {
        let pushes = log.frames.iter().filter(|frame| frame["type"] == "message.new");
        pushes
            .filter_map(|frame| frame["message"]["seq"].as_u64())
            .collect::<Vec<_>>()
    });
    assert_eq!(seqs, [2, 3], "each exactly once and in order");
}
