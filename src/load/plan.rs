//! What a run is to do, checked before anything is made.

use std::time::Duration;

use super::shape::Shape;
use super::words::Words;

/// The largest `--window`.
pub(super) const WINDOW_MAX: u32 = 65_536;
/// The largest `--rate`, in sends a second.
pub(super) const RATE_MAX: u32 = 1_000_000;
/// The longest `--warmup` and `--duration`.
pub(super) const DURATION_MAX: Duration = Duration::from_hours(24);
/// The shortest `--duration`.
pub(super) const DURATION_MIN: Duration = Duration::from_millis(100);
/// The longest `--drain` and `--reconnect-for`.
pub(super) const WAIT_MAX: Duration = Duration::from_mins(10);

/// When the next message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each sender keeps so many messages unanswered.
    Closed {
        /// Messages of one sender in one conversation that are not acknowledged yet.
        window: u32,
    },
    /// So many a second over all senders, whatever the server does. Latency counts from the planned time.
    Open {
        /// Sends a second.
        per_second: u32,
    },
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the server is: `http://HOST:PORT` or `ws://HOST:PORT`.
    pub url: String,
    /// How many of everything.
    pub shape: Shape,
    /// When messages are sent.
    pub pace: Pace,
    /// Runs before anything is timed.
    pub warm_up: Duration,
    /// The counted time.
    pub duration: Duration,
    /// How long the last answers and deliveries may take afterwards.
    pub drain_max: Duration,
    /// With no connection at all for so long the server is taken for gone.
    pub reconnect_for: Duration,
    /// What is said.
    pub words: Words,
    /// The external ids of the users are this and a number.
    pub user_prefix: String,
    /// Opens `/admin/v1` to make the groups; without it their first senders make them.
    pub api_key: Option<String>,
    /// The server's process; none: looked for by the port it listens on, if it is on this machine.
    pub pid: Option<u32>,
    /// More processes whose CPU belongs to the server's work, with their children (a database).
    pub also_pids: Vec<u32>,
}

/// A plan that cannot be run: says what to change.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(super) String);

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `HOST:PORT`
    pub(super) host: String,
    /// What stands before `/v1`, without a slash at the end.
    pub(super) path: String,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, PlanError> {
        let bad = |why: &str| {
            PlanError(format!(
                "--url {url}: {why}, like http://127.0.0.1:8080 or ws://10.0.0.5:8080"
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("must be a URL"))?;
        match scheme {
            "http" | "ws" => {}
            "https" | "wss" => {
                return Err(bad(
                    "the load speaks no TLS (it would measure the cipher): name the server behind the proxy, or a tunnel to it",
                ));
            }
            _ => return Err(bad("must begin with http:// or ws://")),
        }
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || host.contains('@') || path.contains(['?', '#']) {
            return Err(bad("must be only a host, a port and perhaps a path"));
        }
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let path = path
            .trim_end_matches('/')
            .trim_end_matches("v1/ws")
            .trim_end_matches('/');
        Ok(Self {
            host: if has_port {
                host.to_owned()
            } else {
                format!("{host}:80")
            },
            path: if path.is_empty() {
                String::new()
            } else {
                format!("/{path}")
            },
        })
    }
}

impl Plan {
    pub(super) fn check(&self) -> Result<Target, PlanError> {
        self.shape.check()?;
        let bad = |what: String| Err(PlanError(what));
        match self.pace {
            Pace::Closed { window } if window == 0 || window > WINDOW_MAX => {
                return bad(format!("--window must be 1 to {WINDOW_MAX}"));
            }
            Pace::Open { per_second } if per_second == 0 || per_second > RATE_MAX => {
                return bad(format!("--rate must be 1 to {RATE_MAX} a second"));
            }
            _ => {}
        }
        if self.duration < DURATION_MIN || self.duration > DURATION_MAX || self.warm_up > DURATION_MAX {
            return bad("--duration must be 100ms to 24h, and --warmup at most 24h".to_owned());
        }
        if self.drain_max > WAIT_MAX || self.reconnect_for > WAIT_MAX {
            return bad("--drain and --reconnect-for must be at most 10m".to_owned());
        }
        // A decimal id would name somebody else's user.
        if self.user_prefix.chars().all(|c| c.is_ascii_digit()) || self.user_prefix.chars().count() > 64 {
            return bad("--users-named must be 1 to 64 characters and not a number: it begins external ids".to_owned());
        }
        for pid in self.pid.iter().chain(&self.also_pids) {
            if !super::process::exists(*pid) {
                return bad(format!("there is no process {pid} on this machine (--pid, --also-pid)"));
            }
        }
        let (files, needed) = (
            super::process::open_files_max(),
            u64::from(self.shape.connections()) + FILES_BESIDE,
        );
        if files < needed {
            return bad(format!(
                "{needed} open files are needed and {files} are allowed: run `ulimit -n {needed}` before, or take fewer --connections"
            ));
        }
        Target::parse(&self.url)
    }
}

/// Open files besides the connections.
const FILES_BESIDE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_either_scheme_with_or_without_the_path_of_the_door() {
        for (url, host, path) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080", ""),
            ("ws://im.example.org:81/v1/ws", "im.example.org:81", ""),
            ("http://[::1]:8080/", "[::1]:8080", ""),
            ("http://im.example.org/chat/", "im.example.org:80", "/chat"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.host.as_str(), target.path.as_str()), (host, path), "{url}");
        }
        for (url, hint) in [
            ("localhost:8080", "must be a URL"),
            ("wss://im.example.org", "speaks no TLS"),
            ("ftp://x", "must begin"),
            ("http://", "only a host"),
            ("http://a@b:1", "only a host"),
        ] {
            let said = Target::parse(url).unwrap_err().to_string();
            assert!(said.contains(hint) && said.contains(url), "{said}");
        }
    }
}
