//! The server under load: the release binary on a database of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

/// Signs the tokens of this benchmark.
pub(crate) const SECRET: &str = "a-secret-of-the-benchmark-and-of-nothing-else";
/// Calls the admin endpoints.
pub(crate) const ADMIN_KEY: &str = "the admin key of the benchmarks";
/// Another binary than the one that cargo built.
const BINARY_VARIABLE: &str = "ONESCRIBE_BENCH_BINARY";
const READY: &str = "listening on http://";

/// A running server; it is killed when this is dropped.
pub(crate) struct Server {
    child: Child,
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
    // Kept open: the server writes to it.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts it and waits until it listens. Everything as shipped but the limits per principal and per address,
    /// since all load comes from one address, and that events may be told on this machine.
    pub(crate) fn start(database_url: &str) -> Result<Self> {
        let binary = std::env::var(BINARY_VARIABLE).unwrap_or_else(|_| env!("CARGO_BIN_EXE_onescribe").to_owned());
        let mut child = Command::new(binary)
            .arg("serve")
            .env("ONESCRIBE__SERVER__LISTEN", "127.0.0.1:0")
            .env("ONESCRIBE__DATABASE__URL", database_url)
            .env("ONESCRIBE__AUTH__HS256_SECRET", SECRET)
            .env("ONESCRIBE__ADMIN__API_KEY", ADMIN_KEY)
            // Receivers of events are on this machine, too.
            .env("ONESCRIBE__WEBHOOKS__ALLOW_PRIVATE_ADDRESSES", "true")
            .env("ONESCRIBE__LIMITS__REQUESTS_PER_SECOND", "0")
            .env("ONESCRIBE__LIMITS__CONNECTS_PER_SECOND", "0")
            .stdout(Stdio::piped())
            .spawn()
            .context("the server cannot be started")?;
        let mut stdout = BufReader::new(child.stdout.take().context("stdout is piped")?);
        let mut line = String::new();
        loop {
            line.clear();
            if stdout.read_line(&mut line)? == 0 {
                child.kill()?;
                anyhow::bail!("the server ended before it listened");
            }
            if let Some(address) = line.trim_end().strip_prefix(READY) {
                let address = address.trim_end_matches('/').to_owned();
                return Ok(Self {
                    child,
                    address,
                    _stdout: stdout,
                });
            }
        }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
