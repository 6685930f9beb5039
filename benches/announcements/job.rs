//! The job that tells everybody, watched until it ends.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::process::{ADMIN_KEY, Server};
use crate::spread::float;

/// Between two looks at the job and at the memory of the server.
const LOOK: Duration = Duration::from_millis(250);
/// How long it may stand still.
const PATIENCE: Duration = Duration::from_mins(1);

/// It runs.
pub(crate) struct Job {
    watching: JoinHandle<Result<Told>>,
}

/// It has ended well.
pub(crate) struct Told {
    pub(crate) receivers: usize,
    pub(crate) seconds: f64,
    /// Resident memory of the server before it, in KiB …
    pub(crate) kib_before: usize,
    /// … and at most while it ran.
    pub(crate) kib_most: usize,
}

impl Job {
    /// Announces to all.
    pub(crate) async fn announce(server: &Server, progress: ProgressBar) -> Result<Self> {
        let (client, pid) = (Client::new(), server.pid());
        let kib_before = resident(pid)?;
        let body = json!({"audience": "ALL", "text": "Maintenance at noon", "payload": {"minutes": 10},
            "client_request_id": "the bench"});
        let url = format!("http://{}/admin/v1", server.address);
        let request = client
            .post(format!("{url}/announcements"))
            .bearer_auth(ADMIN_KEY)
            .json(&body);
        let began = Instant::now();
        let job: Value = request.send().await?.error_for_status()?.json().await?;
        let id = job.get("job_id").and_then(Value::as_str).context("a job has an id")?;
        let path = format!("{url}/jobs/{id}");
        let watching = tokio::spawn(async move {
            let (mut kib_most, mut last) = (kib_before, (0, Instant::now()));
            loop {
                let answer = client.get(&path).bearer_auth(ADMIN_KEY).send().await?;
                let job: Value = answer.error_for_status()?.json().await?;
                kib_most = kib_most.max(resident(pid)?);
                let number = |name| job.get(name).and_then(Value::as_u64).context("a job counts");
                let (done, total) = (number("done")?, number("total")?);
                progress.set_length(total);
                progress.set_position(done);
                if done > last.0 {
                    last = (done, Instant::now());
                }
                ensure!(last.1.elapsed() < PATIENCE, "the job stands still: {job}");
                match job.get("state").and_then(Value::as_str) {
                    Some("RUNNING") => sleep(LOOK).await,
                    Some("DONE") => {
                        let seconds = float(usize::try_from(began.elapsed().as_micros())?) / 1e6;
                        ensure!(done == total, "not all were told: {job}");
                        return Ok(Told {
                            receivers: usize::try_from(done)?,
                            seconds,
                            kib_before,
                            kib_most,
                        });
                    }
                    _ => bail!("the job has failed: {job}"),
                }
            }
        });
        Ok(Self { watching })
    }

    /// Nobody is told any more.
    pub(crate) fn is_over(&self) -> bool {
        self.watching.is_finished()
    }

    pub(crate) async fn end(self) -> Result<Told> {
        self.watching.await.context("whoever watched the job panicked")?
    }
}

/// VmRSS in KiB.
fn resident(pid: u32) -> Result<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no VmRSS")?.parse()?)
}
