//! SIGTERM under load (B18): readiness first, every accepted send answered, a good-bye, exit 0 in time.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use tokio::time::Instant;

use crate::history::Answer;
use crate::stores::Kind;
use crate::support::client::Client;
use crate::support::rest::Rest;
use crate::support::server::Server;
use crate::workload::{Crowd, Receiver};

/// What the server is given to finish.
const SHUTDOWN: Duration = Duration::from_secs(10);
/// More than any sender gets answered before the end.
const MESSAGES: usize = 100_000;
/// The signal comes when so many sends of one sender are acked.
const ACKED: usize = 20;

#[tokio::test]
async fn b18_a_shutdown_under_load_loses_nothing_on_sqlite() {
    shutdown(Kind::Sqlite, 31).await;
}

#[tokio::test]
async fn b18_a_shutdown_under_load_loses_nothing_on_postgres() {
    shutdown(Kind::Postgres, 32).await;
}

async fn shutdown(kind: Kind, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut server = Server::new(&store.url);
    server.set("ONESCRIBE__SERVER__SHUTDOWN_SECS", &SHUTDOWN.as_secs().to_string());
    let url = server.start().await;
    let mut crowd = Crowd::gather(&url, seed, 4, 8, 2).await;
    crowd.connect_senders(&url).await;
    crowd.connect_receivers(&url).await;
    let mut witness = crowd.senders[0].line().watch();
    let health = Rest::new(&url, 1);
    let (readiness, _) = health.call(Method::GET, "/readyz", None).await.unwrap();
    assert_eq!(readiness.as_u16(), 200);
    let receivers: Vec<&Client> = crowd.receivers.iter().map(Receiver::line).collect();
    let codes = join_all(receivers.iter().map(|line| line.closed()));
    let end = async {
        witness.wait_for(|log| log.acks >= ACKED).await.map(drop).ok();
        server.terminate();
        let begin = Instant::now();
        let (first_refusal, status) = tokio::join!(first_refusal(&health), server.ended());
        assert!(
            begin.elapsed() < SHUTDOWN + Duration::from_secs(1),
            "it took {:?}",
            begin.elapsed()
        );
        assert_eq!(status.code(), Some(0), "{status}");
        assert_eq!(first_refusal, Some(503), "readiness turns red before the door closes");
    };
    let senders = join_all(crowd.senders.iter_mut().map(|sender| sender.turn(MESSAGES)));
    let (codes, (), _) = tokio::join!(codes, end, senders);
    assert!(
        codes.iter().all(|code| *code == 1012),
        "the receivers' close codes: {codes:?}"
    );
    for sender in &crowd.senders {
        assert_eq!(sender.line().closed().await, 1012, "sender {}", sender.user);
        let byes = sender
            .line()
            .with_log(|log| log.frames.iter().filter(|frame| frame["type"] == "bye").count());
        assert_eq!(byes, 1, "sender {}", sender.user);
    }

    let url = server.start().await;
    crowd.connect_senders(&url).await;
    crowd.connect_receivers(&url).await;
    assert_every_accepted_send_is_answered(&crowd);
    crowd.settle().await;
    crowd.history(&url).await.assert_kept();
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

/// What the server has read of a connection it answers; so only the last sends of one may be without an answer.
fn assert_every_accepted_send_is_answered(crowd: &Crowd) {
    for connection in crowd.senders.iter().flat_map(|sender| &sender.record) {
        let unanswered = |answer: &Answer| *answer == Answer::Unknown;
        let first = connection
            .attempts
            .iter()
            .position(|attempt| unanswered(&attempt.answer));
        let late = connection.attempts.iter().skip(first.unwrap_or(usize::MAX));
        let answered: Vec<_> = late.filter(|attempt| !unanswered(&attempt.answer)).collect();
        assert!(
            answered.is_empty(),
            "{}: without an answer, though later ones have one: {answered:?}",
            connection.name
        );
    }
}

/// Asks for readiness until it is not 200: the status, or `None` when the door was closed already.
async fn first_refusal(health: &Rest) -> Option<u16> {
    loop {
        match health.call(Method::GET, "/readyz", None).await {
            Ok((status, _)) if status.is_success() => {}
            Ok((status, _)) => return Some(status.as_u16()),
            Err(_) => return None,
        }
    }
}
