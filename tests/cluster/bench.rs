//! `onescribe bench` against a running server: what it proves, what it says when something is wrong.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::process::Child;

use super::support::database::TestDatabase;
use super::support::patiently;
use super::support::server::Server;

/// So many stored messages, and a run is well under way: the three groups have one each to begin with.
const UNDER_WAY: i64 = 60;
const LINES: usize = 500;

async fn server() -> (Server, TestDatabase, TempDir) {
    let store = TestDatabase::sqlite();
    let mut server = Server::new(&store.url);
    server.start().await;
    (server, store, tempfile::tempdir().unwrap())
}

/// Waits until messages are sent, however busy this machine is.
async fn under_way(store: &TestDatabase) {
    let mut connection = SqliteConnection::connect(&store.url).await.unwrap();
    let sent = async {
        loop {
            let count = sqlx::query_scalar("SELECT count(*) FROM im_message").fetch_one(&mut connection);
            let count: i64 = count.await.unwrap();
            if count >= UNDER_WAY {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    patiently("messages of the load", sent).await;
    connection.close().await.unwrap();
}

/// Starts a small run; its report will be in `folder`.
fn start(server: &Server, folder: &Path, url: &str, more: &[&str]) -> Child {
    let json = folder.join("report.json");
    let small = "bench --conversations 3 --members 4 --senders 6 --url".split(' ');
    let small = small.chain([url, "--json", json.to_str().unwrap()]);
    let arguments: Vec<&str> = small.chain(more.iter().copied()).collect();
    let mut command = server.command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

async fn ended(child: Child) -> Output {
    patiently("the end of the load", child.wait_with_output())
        .await
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).unwrap()
}

/// Everything was delivered; whether the figures count depends on what else this machine does.
fn assert_proved(folder: &Path, done: &Output) -> Value {
    let (said, report) = (text(&done.stdout), report(folder));
    let saturated = !report["load"]["saturated"].is_null();
    assert_eq!(
        done.status.code(),
        Some(if saturated { 2 } else { 0 }),
        "{said}{}",
        text(&done.stderr)
    );
    assert_eq!(said.contains("GENERATOR SATURATED"), saturated, "{said}");
    assert!(
        said.contains("each message at every receiver exactly once and in order"),
        "{said}"
    );
    let check = &report["delivery_check"];
    for finding in ["lost", "doubled", "reordered", "stored_twice", "mixed_up"] {
        assert_eq!(check[finding], 0, "{finding}: {said}");
    }
    assert!(check["acked"].as_u64().unwrap() > 0, "{said}");
    report
}

#[tokio::test]
async fn a_run_proves_that_every_device_got_everything_and_writes_its_reports() {
    let (server, _store, folder) = server().await;
    let html = folder.path().join("report.html");
    let timing = "--devices 2 --window 4 --duration 1500ms --warmup 300ms --html".split(' ');
    let more: Vec<&str> = timing.chain(html.to_str()).collect();
    let done = ended(start(&server, folder.path(), server.url(), &more)).await;
    let report = assert_proved(folder.path(), &done);
    let (acked, delivered) = (
        &report["delivery_check"]["acked"],
        &report["delivery_check"]["delivered"],
    );
    assert_eq!(
        delivered.as_u64().unwrap(),
        7 * acked.as_u64().unwrap(),
        "8 devices in a group, 1 of them sends"
    );
    assert_eq!(
        report["server"]["pid"].as_u64().unwrap(),
        u64::try_from(server.pid().as_raw_nonzero().get()).unwrap()
    );
    assert!(report["server"]["rss_bytes_max"].as_u64().unwrap() > 1 << 20);
    for latency in ["ack", "delivery", "last_delivery"] {
        let (p50, p99) = (
            report[latency]["p50_ms"].as_f64().unwrap(),
            report[latency]["p99_ms"].as_f64().unwrap(),
        );
        assert!(0.0 < p50 && p50 <= p99, "{latency}");
    }
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.matches("<svg").count() >= 6, "a chart each");
    for foreign in ["<script", "src=", "href=", "@import", "url("] {
        assert!(
            !page.contains(foreign),
            "the page needs nothing from elsewhere: {foreign}"
        );
    }
    server.assert_store_in_order().await;
}

#[tokio::test]
async fn at_a_fixed_rate_as_much_is_sent_as_was_planned_with_the_words_of_a_file() {
    let (server, _store, folder) = server().await;
    let lines = folder.path().join("lines.jsonl");
    let line = |n| {
        format!(
            "{{\"room\":\"r\",\"at\":\"2026-11-29T12:00:00Z\",\"author\":\"a\",\"text\":\"line {n} 你好\"}}
"
        )
    };
    std::fs::write(&lines, (0..LINES).map(line).collect::<String>()).unwrap();
    let timing = "--rate 100 --duration 1s --warmup 500ms --replay".split(' ');
    let more: Vec<&str> = timing.chain(lines.to_str()).collect();
    let done = ended(start(&server, folder.path(), server.url(), &more)).await;
    let report = assert_proved(folder.path(), &done);
    assert_eq!(report["plan"]["contents"], LINES);
    let acked = report["delivery_check"]["acked"].as_u64().unwrap();
    assert!(
        (140..=200).contains(&acked),
        "100 a second for 1.5 s, and what the last look took: {acked}"
    );
    assert_eq!(
        report["ack"]["count"], 100,
        "what was planned in the counted second, no more and no less"
    );
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_costs_reconnects_and_no_message() {
    let (mut server, store, folder) = server().await;
    let url = server.url().to_owned();
    server.set("ONESCRIBE__SERVER__LISTEN", url.trim_start_matches("http://"));
    let bench = start(
        &server,
        folder.path(),
        &url,
        &["--window", "8", "--duration", "4s", "--warmup", "0s"],
    );
    under_way(&store).await;
    server.kill().await;
    server.start().await;
    let report = assert_proved(folder.path(), &ended(bench).await);
    assert!(
        report["trouble"]["reconnects"].as_u64().unwrap() >= 12,
        "{}",
        report["trouble"]
    );
}

#[tokio::test]
async fn a_server_that_is_gone_for_good_ends_the_run_with_what_was_measured() {
    let (mut server, store, folder) = server().await;
    let bench = start(
        &server,
        folder.path(),
        server.url(),
        &["--duration", "10m", "--warmup", "0s", "--reconnect-for", "1s"],
    );
    under_way(&store).await;
    server.kill().await;
    let done = ended(bench).await;
    let said = text(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(
        said.contains("ENDED EARLY: the server is gone") && said.contains("connection refused"),
        "{said}"
    );
    assert!(report(folder.path())["acked"].as_u64().unwrap() > 0, "{said}");
}

#[tokio::test]
async fn a_load_that_was_itself_held_up_says_that_its_figures_do_not_count() {
    let (server, store, folder) = server().await;
    let bench = start(
        &server,
        folder.path(),
        server.url(),
        &["--duration", "3s", "--warmup", "0s"],
    );
    under_way(&store).await;
    signal(&bench, Signal::STOP);
    tokio::time::sleep(Duration::from_millis(500)).await;
    signal(&bench, Signal::CONT);
    let done = ended(bench).await;
    let said = text(&done.stdout);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(
        said.contains("GENERATOR SATURATED: its own loop was") && said.contains("do not count"),
        "{said}"
    );
    assert_proved(folder.path(), &done);
}

#[tokio::test]
async fn who_interrupts_a_run_gets_the_report_of_what_was_measured() {
    let (server, store, folder) = server().await;
    let bench = start(
        &server,
        folder.path(),
        server.url(),
        &["--duration", "10m", "--warmup", "0s"],
    );
    under_way(&store).await;
    signal(&bench, Signal::INT);
    let done = ended(bench).await;
    assert!(text(&done.stdout).contains("stopped before the planned end"));
    assert_eq!(assert_proved(folder.path(), &done)["ended"]["how"], "interrupted");
}

#[tokio::test]
async fn what_cannot_be_done_is_said_with_what_to_do() {
    let (server, _store, folder) = server().await;
    let wrong = "another-secret-0123456789abcdef0123456789";
    for (url, more, hint) in [
        (
            "http://127.0.0.1:1",
            &[][..],
            "does the server run, and is --url right?",
        ),
        ("https://127.0.0.1:1", &[], "speaks no TLS"),
        (server.url(), &["--secret", wrong], "auth.hs256_secret"),
        (server.url(), &["--api-key", wrong], "the groups cannot be made"),
        (server.url(), &["--users", "3"], "--users must be at least --members"),
        (server.url(), &["--duration", "soon"], "like 500ms, 10s or 5m"),
        (server.url(), &["--rate", "0"], "--rate must be 1"),
        (server.url(), &["--users-named", "7"], "--users-named"),
        (server.url(), &["--also-pid", "4194304"], "there is no process 4194304"),
        (
            server.url(),
            &["--replay", "nothing.jsonl"],
            "cannot read nothing.jsonl",
        ),
    ] {
        let done = ended(start(&server, folder.path(), url, more)).await;
        let said = text(&done.stderr);
        assert!(
            !done.status.success() && done.stdout.is_empty() && said.contains(hint),
            "{more:?}: {said}"
        );
    }
}
