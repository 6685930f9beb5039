//! The process under test: start, stop, kill, freeze, and what it logged.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::tokens::SECRET;
use super::{PATIENCE, patiently};

/// What the tests of this project configure, if a test does not say otherwise.
const SETTINGS: [(&str, &str); 4] = [
    ("ONESCRIBE__SERVER__LISTEN", "127.0.0.1:0"),
    ("ONESCRIBE__AUTH__HS256_SECRET", SECRET),
    // The tests send bursts from one address.
    ("ONESCRIBE__LIMITS__REQUESTS_PER_SECOND", "0"),
    ("ONESCRIBE__LIMITS__CONNECTS_PER_SECOND", "0"),
];
/// How many lines of its log a failing test shows.
const LOG_SHOWN: usize = 30;
const READY: &str = "listening on ";

/// A server process; it is killed when this is dropped. The settings stay, so it can be started again.
#[derive(Debug)]
pub(crate) struct Server {
    settings: Vec<(String, String)>,
    wrapper: Vec<String>,
    folder: TempDir,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    url: String,
    // Kept open: a server whose stdout is closed would die of it.
    _stdout: Lines<BufReader<ChildStdout>>,
}

/// A test that fails shows what the server said last.
impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(LOG_SHOWN)..).unwrap_or_default();
            println!(
                "the server logged {} lines; the last:\n{}",
                lines.len(),
                last.join("\n")
            );
        }
    }
}

impl Server {
    /// A server that is not started yet, on the database at `database_url`.
    pub(crate) fn new(database_url: &str) -> Self {
        let mut server = Self {
            settings: SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
            wrapper: Vec::new(),
            folder: tempfile::tempdir().unwrap(),
            running: None,
        };
        server.set("ONESCRIBE__DATABASE__URL", database_url);
        server
    }

    /// Changes a setting for the next start.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.settings.push((key.to_owned(), value.to_owned()));
    }

    /// Starts the binary through another command, which gets it as its last arguments.
    pub(crate) fn wrap(&mut self, command: &[&str]) {
        self.wrapper = command.iter().map(|&word| word.to_owned()).collect();
    }

    /// Starts it and waits until it says where it listens.
    pub(crate) async fn start(&mut self) -> String {
        assert!(self.running.is_none(), "it runs already");
        let mut child = self.command(&["serve"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let url = loop {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
            let Ok(Ok(Some(line))) = line else {
                panic!("the server did not say where it listens; it logged:\n{}", self.log());
            };
            if let Some(url) = line.strip_prefix(READY) {
                break url.trim_end_matches('/').to_owned();
            }
        };
        self.running = Some(Running {
            child,
            url: url.clone(),
            _stdout: lines,
        });
        url
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.running().url
    }

    /// The process id.
    pub(crate) fn pid(&self) -> Pid {
        let id = self.running().child.id().expect("it has not been waited for");
        Pid::from_raw(i32::try_from(id).unwrap()).expect("a process id is not 0")
    }

    /// The memory that it has at the moment.
    pub(crate) fn memory_kib(&self) -> u64 {
        memory_kib(self.pid())
    }

    /// Runs another command of the binary on the same store with the same settings; gives status and output.
    pub(crate) async fn run(&self, arguments: &[&str]) -> (ExitStatus, String) {
        let output = self.command(arguments).stderr(Stdio::piped()).output();
        let output = patiently(&format!("the end of onescribe {arguments:?}"), output)
            .await
            .unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status, said.concat())
    }

    /// `onescribe check` must find the store in order.
    pub(crate) async fn assert_store_in_order(&self) {
        let (status, said) = self.run(&["check"]).await;
        assert!(status.success(), "check has findings:\n{said}");
    }

    /// `kill -9`, and waits for the end.
    pub(crate) async fn kill(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.child.kill().await.unwrap();
        self.assert_no_panic();
    }

    /// SIGTERM without waiting.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops it where it stands (SIGSTOP).
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("it runs");
        let status = patiently("the end of the server", running.child.wait()).await.unwrap();
        self.assert_no_panic();
        status
    }

    /// Does it still run?
    pub(crate) fn alive(&mut self) -> bool {
        self.running
            .as_mut()
            .is_some_and(|running| running.child.try_wait().unwrap().is_none())
    }

    /// Everything that it wrote to stderr, over all its starts.
    pub(crate) fn log(&self) -> String {
        std::fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// No part of it may have panicked.
    pub(crate) fn assert_no_panic(&self) {
        let log = self.log();
        let lines: Vec<&str> = log
            .lines()
            .skip_while(|line| !line.contains("panicked at"))
            .take(20)
            .collect();
        assert!(lines.is_empty(), "the server panicked:\n{}", lines.join("\n"));
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("stderr.log")
    }

    /// Another command of the binary on the same store with the same settings, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let words = self
            .wrapper
            .iter()
            .map(String::as_str)
            .chain([env!("CARGO_BIN_EXE_onescribe")]);
        let words: Vec<&str> = words.chain(arguments.iter().copied()).collect();
        let (program, rest) = words.split_first().expect("the binary at least");
        let log: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())
            .unwrap();
        let mut command = Command::new(program);
        command
            .args(rest)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("ONESCRIBE__")) {
            command.env_remove(key);
        }
        command.envs(self.settings.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// The memory that a process has at the moment.
pub(crate) fn memory_kib(process: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse().ok()).expect("a number of KiB")
}
