//! The commands as an operator meets them: the built binary, its exit codes, what it says and where.
#![cfg(test)]

mod export;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use sqlx::{Connection as _, SqliteConnection};

const LINES: usize = 4_000;
/// Of the write-ahead log of SQLite: more than the tables alone take.
const WRITTEN_BYTES: u64 = 700_000;

/// A command in a folder of its own, with nothing of the environment that could configure it.
fn onescribe(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onescribe"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("ONESCRIBE__")) {
        command.env_remove(key);
    }
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    onescribe(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn write_lines(folder: &Path) {
    let mut lines = String::new();
    for n in 0..LINES {
        let (room, author, reply) = (n % 2, n % 9, n % 100 == 99);
        writeln!(
            lines,
            "{{\"room\":\"r{room}\",\"at\":\"2026-11-29T12:00:00Z\",\"author\":\"u{author}\",\"thread_reply\":{reply},\"text\":\"line {n} 你好\"}}"
        )
        .unwrap();
    }
    std::fs::write(folder.join("lines.jsonl"), lines).unwrap();
}

/// `4,000` before ` already there` and the like.
fn number_before(output: &str, words: &str) -> usize {
    let before = output.split(words).next().unwrap();
    let number = before.rsplit(' ').next().unwrap().replace(',', "");
    number
        .parse()
        .unwrap_or_else(|_| panic!("no number before {words:?} in {output}"))
}

#[test]
fn an_import_that_is_interrupted_goes_on_where_it_stopped_and_check_finds_the_store_in_order() {
    let folder = tempfile::tempdir().unwrap();
    write_lines(folder.path());
    let mut first = onescribe(folder.path(), &["import", "lines.jsonl"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // When so much is written, some lines are stored; mostly not all of them.
    let log = folder.path().join("onescribe.db-wal");
    while !std::fs::metadata(&log).is_ok_and(|log| log.len() > WRITTEN_BYTES) && first.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = rustix::process::Pid::from_raw(first.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).ok();
    let first = first.wait_with_output().unwrap();
    let said = text(&first.stdout);
    let sent = number_before(&said, " sent");
    println!("interrupted after {sent} lines");
    assert_eq!(first.status.success(), sent == LINES, "{said}");

    let second = run(folder.path(), &["import", "lines.jsonl"]);
    let said = text(&second.stdout);
    assert!(second.status.success(), "{said}{}", text(&second.stderr));
    assert_eq!(
        (number_before(&said, " already there"), number_before(&said, " sent")),
        (sent, LINES - sent)
    );

    let check = run(folder.path(), &["check"]);
    let said = text(&check.stdout);
    assert!(check.status.success(), "{said}");
    assert_eq!(
        number_before(&said, " messages"),
        LINES + 2,
        "and the first one of each group"
    );
}

#[tokio::test]
async fn check_exits_with_1_on_a_finding_and_names_the_place() {
    let folder = tempfile::tempdir().unwrap();
    write_lines(folder.path());
    assert!(run(folder.path(), &["import", "lines.jsonl"]).status.success());
    let url = format!("sqlite://{}", folder.path().join("onescribe.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("DELETE FROM im_message WHERE seq = 777")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let check = run(folder.path(), &["check"]);
    let said = text(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert_eq!(said.matches(" seq 777: is missing").count(), 2, "{said}");
}

#[test]
fn every_error_of_the_configuration_is_said_at_once_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("config.toml"),
        "[limits]\ncontent_bytes = \"many\"\nno_such_key = 1\n",
    )
    .unwrap();
    let done = onescribe(folder.path(), &["--listen", "nowhere"])
        .env("ONESCRIBE__NONSENSE__KEY", "1")
        .output()
        .unwrap();
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1));
    for key in [
        "limits.content_bytes",
        "limits.no_such_key",
        "nonsense.key",
        "server.listen",
    ] {
        assert!(said.contains(key), "{key} is missing in {said}");
    }
    assert!(done.stdout.is_empty() && !folder.path().join("onescribe.db").exists());
}

#[test]
fn a_database_that_cannot_be_reached_is_named_without_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let (postgres, mysql) = (
        "postgres://me:hunter2@127.0.0.1:1/name",
        "mysql://me:hunter2@127.0.0.1:1/name",
    );
    for (command, url, code) in [("serve", postgres, 1), ("migrate", mysql, 1), ("check", postgres, 2)] {
        let done = run(folder.path(), &[command, "--database-url", url]);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{command}");
        assert!(
            said.contains("127.0.0.1:1/name") && said.contains("refused") && !said.contains("hunter2"),
            "{command}: {said}"
        );
    }
}

#[test]
fn the_token_command_prints_a_token_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [["--user", "1001"], ["--user", "ann@example.org"]] {
        let done = run(folder.path(), &[&["token"], &arguments[..]].concat());
        let said = text(&done.stdout);
        assert!(
            done.status.success() && done.stderr.is_empty(),
            "{}",
            text(&done.stderr)
        );
        assert!(
            said.ends_with('\n') && said.trim().split('.').count() == 3 && said.lines().count() == 1,
            "{said}"
        );
    }
    let wrong = run(folder.path(), &["token", "--user", "1001", "--ttl", "soon"]);
    assert!(text(&wrong.stderr).contains("90s, 15m, 1h or 30d"));
}

#[test]
fn a_machine_without_certificates_has_a_server_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut server = onescribe(folder.path(), &["serve", "--listen", "127.0.0.1:0"])
        .env("SSL_CERT_FILE", "/nowhere")
        .env("SSL_CERT_DIR", "/nowhere")
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut said = String::new();
    let read = BufReader::new(server.stdout.take().unwrap()).read_line(&mut said);
    server.kill().unwrap();
    server.wait().unwrap();
    read.unwrap();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(said.starts_with("listening on "), "{log}");
    assert!(
        log.contains("ca-certificates"),
        "and it says what cannot be done: {log}"
    );
}
