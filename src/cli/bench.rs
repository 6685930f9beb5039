//! `onescribe bench`: loads a running server over real WebSockets, times it, and proves that everybody got everything.
//!
//! 0 = good, 1 = messages were lost, doubled or in disorder, or the run could not be done, 2 = the load itself was too
//! slow, so that the figures do not count.

mod charts;
mod page;
mod progress;
mod replay;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::value_parser;

use super::signals::Signals;
use super::spans;
use crate::app::{self, Signer};
use crate::config::Config;
use crate::domain::PrincipalType;
use crate::load::{self, Pace, Plan, Shape, Verdict, Words};

/// How much longer than the run a token lives.
const TOKEN_SPARE: Duration = Duration::from_hours(1);
/// The largest text that `--size` makes.
const SIZE_MAX: u32 = 1 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Who is where: --conversations groups are made for this run, with --members each. Without --users everybody is in one
group. The first --senders members, dealt to the groups in turn, send; everybody who is connected receives.
Limits of the server under test are part of what is measured: set limits.requests_per_second and
limits.connects_per_second of it to 0 to measure without them.

  onescribe bench                                                      # our own server in this folder, closed loop
  onescribe bench --rate 2000 --duration 60s --html report.html        # open loop: what users would feel at 2,000/s
  onescribe bench --conversations 1 --members 1000 --senders 1 --window 16
  onescribe bench --url ws://10.0.0.5:8080 --secret \"$SECRET\" --replay chat.jsonl

Exit code: 0 good; 1 a message was lost, doubled or in disorder, or it could not be done; 2 the load itself was too slow.")]
pub(super) struct Arguments {
    /// The server: http://HOST:PORT or ws://HOST:PORT [default: where server.listen says]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// auth.hs256_secret of the server [default: of the configuration, else the one that the store keeps]
    #[arg(long, value_name = "SECRET")]
    secret: Option<String>,
    /// admin.api_key of the server, to make the groups [default: their first senders make them]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Groups
    #[arg(long, value_name = "N", default_value_t = 100)]
    conversations: u32,
    /// Members of each group
    #[arg(long, value_name = "N", default_value_t = 10)]
    members: u32,
    /// All users [default: everybody is in one group only]
    #[arg(long, value_name = "N")]
    users: Option<u32>,
    /// Members who send, over all groups [default: one in each group]
    #[arg(long, value_name = "N")]
    senders: Option<u32>,
    /// Connections, senders first; the other members stay offline [default: everybody with every device]
    #[arg(long, value_name = "N")]
    connections: Option<u32>,
    /// Devices of each user
    #[arg(long, value_name = "N", default_value_t = 1)]
    devices: u32,
    /// Bytes of each text
    #[arg(long, value_name = "BYTES", default_value_t = 110, value_parser = value_parser!(u32).range(1..=i64::from(SIZE_MAX)))]
    size: u32,
    /// Words and sizes from the JSON Lines of `onescribe import`, the first 100,000 of them
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    replay: Option<PathBuf>,
    /// Open loop: sends a second over all senders; latency counts from the planned time
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Closed loop: unanswered messages of each sender
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "rate")]
    window: u32,
    /// The counted time: 500ms, 10s, 5m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    duration: Duration,
    /// Runs before anything is counted
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span)]
    warmup: Duration,
    /// How long the last answers and deliveries may take afterwards
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = span)]
    drain: Duration,
    /// With no connection at all for so long, the server is taken for gone
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    reconnect_for: Duration,
    /// The users' external ids are this and a number
    #[arg(long, value_name = "PREFIX", default_value = "load-")]
    users_named: String,
    /// The process of the server, for CPU and memory [default: who listens there, if it is on this machine]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// One more process whose CPU counts, with its children: the database's
    #[arg(long, value_name = "PID")]
    also_pid: Vec<u32>,
    /// Chooses the words
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) async fn run(config: Config, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch()?;
    let plan = arguments.plan(&config)?;
    for file in [&arguments.json, &arguments.html].into_iter().flatten() {
        // Better now than after an hour.
        std::fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let signer = signer(&config, arguments.secret).await?;
    let ttl = plan.warm_up + plan.duration + TOKEN_SPARE;
    let token = |user: &str| {
        let token = signer.token(user, PrincipalType::User, ttl);
        token.map_err(|error| format!("{error:#}"))
    };
    let progress = progress::Progress::new(&plan);
    let done = load::run(&plan, &token, &progress, async || signals.next().await).await;
    progress.clear();
    let summary = done?;
    table::print(&summary);
    if let Some(file) = &arguments.json {
        write(file, serde_json::to_string_pretty(&summary)?)?;
    }
    if let Some(file) = &arguments.html {
        write(file, page::page(&summary)?)?;
    }
    Ok(match summary.verdict() {
        Verdict::Good => ExitCode::SUCCESS,
        Verdict::Bad => ExitCode::FAILURE,
        Verdict::Saturated => ExitCode::from(2),
    })
}

fn write(file: &Path, text: String) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    println!("written: {}", file.display());
    Ok(())
}

/// Tokens that the server takes: by the given secret, the configured one, or the one that the store keeps.
async fn signer(config: &Config, secret: Option<String>) -> anyhow::Result<Signer> {
    if let Some(signer) = app::signer_with(secret, &config.auth) {
        return Ok(signer);
    }
    let store = app::open(&config.database, config.database.auto_migrate).await?;
    let signer = app::signer(&config.auth, store.as_ref()).await;
    store.close().await;
    signer
}

impl Arguments {
    fn plan(&self, config: &Config) -> anyhow::Result<Plan> {
        let url = self
            .url
            .clone()
            .unwrap_or_else(|| format!("http://{}", config.server.listen));
        if self.url.is_none() && url.ends_with(":0") {
            bail!("--url is missing: server.listen takes any free port, so only the server's own words say which");
        }
        let words = match &self.replay {
            Some(file) => replay::words(file, config.limits.content_bytes)?,
            None => Words::of_size(usize::try_from(self.size)?, self.seed),
        };
        Ok(Plan {
            url,
            shape: Shape {
                conversations: self.conversations,
                members: self.members,
                users: self.users,
                senders: self.senders,
                connections: self.connections,
                devices: self.devices,
            },
            pace: match self.rate {
                Some(per_second) => Pace::Open { per_second },
                None => Pace::Closed { window: self.window },
            },
            warm_up: self.warmup,
            duration: self.duration,
            drain_max: self.drain,
            reconnect_for: self.reconnect_for,
            words,
            user_prefix: self.users_named.clone(),
            api_key: self.api_key.clone(),
            pid: self.pid,
            also_pids: self.also_pid.clone(),
        })
    }
}

fn span(text: &str) -> Result<Duration, &'static str> {
    spans::parse(text).ok_or("must be a number of ms, s, m or h, like 500ms, 10s or 5m")
}
