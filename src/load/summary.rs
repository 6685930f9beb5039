//! What a run gave. Its fields are the names of the JSON report: a name once given is not changed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ledger::Findings;
use super::tally::{Percentiles, Second};

/// The load's own loop may be so late in 1 of 100 cases; later, and the times are those of the load and not of the server.
pub(super) const LATE_P99_MS_MAX: f64 = 10.0;
/// A planned send may go out so much too late in 1 of 100 cases.
pub(super) const SLIP_P99_MS_MAX: f64 = 5.0;
/// The load has one thread; above this share of it, it may well be what is slow.
pub(super) const LOAD_CORES_MAX: f64 = 0.9;

/// The report of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Of this report's names; grows when one is added.
    pub format: u32,
    /// Where the server was.
    pub url: String,
    /// What was asked for.
    pub plan: PlanSummary,
    /// How it ended.
    pub ended: Ended,
    /// Seconds that were counted.
    pub counted_s: f64,
    /// Acknowledged sends in them.
    pub acked: u64,
    /// The same a second.
    pub acked_per_s: f64,
    /// Messages that reached a receiver in them.
    pub delivered: u64,
    /// The same a second.
    pub delivered_per_s: f64,
    /// Planned send to acknowledgement, of what was planned in the counted time.
    pub ack: Percentiles,
    /// Planned send to each receiver.
    pub delivery: Percentiles,
    /// Planned send to the last receiver.
    pub last_delivery: Percentiles,
    /// Latency by percentile.
    pub curves: Curves,
    /// What went wrong and was tried again, and what was refused: of the whole run, warm-up included.
    pub trouble: Trouble,
    /// The proof of delivery: of the whole run, warm-up included.
    pub delivery_check: DeliveryCheck,
    /// The load itself.
    pub load: Load,
    /// The server, where it is on this machine.
    pub server: Option<Server>,
    /// Second by second, warm-up included.
    pub seconds: Vec<Second>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct PlanSummary {
    /// Groups.
    pub conversations: u32,
    /// Members of each.
    pub members: u32,
    /// All users.
    pub users: u32,
    /// Members who sent.
    pub senders: u32,
    /// Connections.
    pub connections: u32,
    /// Devices of each user.
    pub devices: u32,
    /// Closed loop: unanswered messages of each sender.
    pub window: Option<u32>,
    /// Open loop: sends a second.
    pub rate_per_s: Option<u32>,
    /// Seconds before anything was counted.
    pub warm_up_s: f64,
    /// Seconds that were to be counted.
    pub duration_s: f64,
    /// Different contents.
    pub contents: usize,
    /// Bytes of their JSON, on average.
    pub mean_content_bytes: usize,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "how", content = "why")]
pub enum Ended {
    /// As planned.
    Complete,
    /// Somebody asked to stop.
    Interrupted,
    /// It could not go on.
    GaveUp(String),
}

/// `(share of the messages, milliseconds)`.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// Planned send to acknowledgement.
    pub ack: Vec<(f64, f64)>,
    /// Planned send to each receiver.
    pub delivery: Vec<(f64, f64)>,
    /// Planned send to the last receiver.
    pub last_delivery: Vec<(f64, f64)>,
}

/// What did not go smoothly.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trouble {
    /// Error codes, closes and failed connections, with their numbers.
    pub by_sort: BTreeMap<String, u64>,
    /// Connections that were made again.
    pub reconnects: u64,
    /// Retries that were answered with the first acknowledgement.
    pub duplicates: u64,
    /// Messages that were refused for good.
    pub refused: u64,
    /// The first of them.
    pub first_refused: Vec<String>,
    /// Sends without an answer at the end.
    pub unanswered: u64,
    /// Planned sends that were never sent, because the server was so far behind.
    pub never_sent: u64,
}

/// Whether everybody got everything.
#[derive(Clone, Debug, Serialize)]
pub struct DeliveryCheck {
    /// Acknowledged messages over all.
    pub acked: u64,
    /// Deliveries over all.
    pub delivered: u64,
    /// What was wrong.
    #[serde(flatten)]
    pub findings: Findings,
}

/// How the load fared.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// Cores it took on average.
    pub cores: f64,
    /// How late its loop answered its clock.
    pub late: Percentiles,
    /// How late planned sends went out.
    pub slip: Percentiles,
    /// Why the figures do not count: it was itself what was slow.
    pub saturated: Option<String>,
}

/// What the server took.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// Its process.
    pub pid: u32,
    /// Cores it took on average.
    pub cores: f64,
    /// Microseconds of CPU for one acknowledged message.
    pub cpu_us_per_acked: f64,
    /// Microseconds of CPU for one delivery.
    pub cpu_us_per_delivery: f64,
    /// Cores of the processes of `--also-pid`.
    pub also_cores: Option<f64>,
    /// Their microseconds for one acknowledged message.
    pub also_cpu_us_per_acked: Option<f64>,
    /// Resident memory when the counting began.
    pub rss_bytes_first: u64,
    /// The most of it.
    pub rss_bytes_max: u64,
}

/// What to make of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figures stand.
    Good,
    /// Messages were lost, doubled or in disorder, sends were refused or not answered, or the run could not end.
    Bad,
    /// The load was itself saturated: the figures do not count.
    Saturated,
}

impl Load {
    /// Says why the load was too slow, if it was.
    pub(super) fn judge(cores: f64, late: Percentiles, slip: Percentiles) -> Self {
        let saturated = if slip.p99_ms > SLIP_P99_MS_MAX {
            let p99 = slip.p99_ms;
            Some(format!(
                "planned sends went out {p99:.1} ms late at p99 (bound {SLIP_P99_MS_MAX} ms)"
            ))
        } else if late.p99_ms > LATE_P99_MS_MAX {
            let p99 = late.p99_ms;
            Some(format!(
                "its own loop was {p99:.1} ms late at p99 (bound {LATE_P99_MS_MAX} ms)"
            ))
        } else if cores > LOAD_CORES_MAX {
            Some(format!(
                "it took {cores:.2} of the one core that it can use (bound {LOAD_CORES_MAX})"
            ))
        } else {
            None
        };
        Self {
            cores,
            late,
            slip,
            saturated,
        }
    }
}

impl Summary {
    /// A bad run is bad whatever the load did.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let trouble = &self.trouble;
        let is_whole = trouble.refused + trouble.unanswered + trouble.never_sent == 0;
        if self.delivery_check.findings.total() > 0 || !is_whole || matches!(self.ended, Ended::GaveUp(_)) {
            Verdict::Bad
        } else if self.load.saturated.is_some() {
            Verdict::Saturated
        } else {
            Verdict::Good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_was_too_slow_says_what_was_slow() {
        let p99 = |p99_ms| Percentiles {
            p99_ms,
            ..Percentiles::default()
        };
        assert_eq!(Load::judge(0.5, p99(9.0), p99(4.0)).saturated, None);
        for (load, word) in [
            (Load::judge(0.5, p99(0.0), p99(5.1)), "planned sends"),
            (Load::judge(0.5, p99(10.1), p99(0.0)), "its own loop"),
            (Load::judge(0.91, p99(0.0), p99(0.0)), "of the one core"),
        ] {
            assert!(load.saturated.unwrap().contains(word));
        }
    }
}
