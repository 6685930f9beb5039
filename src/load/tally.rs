//! What is counted and timed while a run goes on: totals, and one line for every second.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::process::Sample;

/// Three significant digits: a value is right to a thousandth.
const DIGITS: u8 = 3;
/// The longest latency that is told apart, in microseconds: an hour.
const LATENCY_MICROS_MAX: u64 = 3_600_000_000;
/// Sorts of answers and closes that are counted apart.
const SORTS_MAX: usize = 64;

/// Counts below 2^53 are exact as floats; a run counts no further.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts of a run are below 2^53"
)]
#[must_use]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// Latencies in microseconds: of the present second, and of the whole counted time.
#[derive(Debug)]
pub(super) struct Latency {
    second: Histogram<u64>,
    total: Histogram<u64>,
}

impl Latency {
    fn new() -> Result<Self, hdrhistogram::CreationError> {
        let total = Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, DIGITS)?;
        Ok(Self {
            second: total.clone(),
            total,
        })
    }

    fn record(&mut self, micros: u64) {
        self.second.saturating_record(micros);
    }

    /// Ends the second: gives its percentiles in milliseconds.
    fn tick(&mut self) -> Percentiles {
        let percentiles = Percentiles::of(&self.second);
        // The two have the same bounds, so they can be added.
        self.total.add(&self.second).ok();
        self.second.reset();
        percentiles
    }
}

/// Milliseconds; 0 where nothing was timed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Percentiles {
    /// How many were timed.
    pub count: u64,
    /// Half of them were faster.
    pub p50_ms: f64,
    /// 90 of 100 were faster.
    pub p90_ms: f64,
    /// 99 of 100 were faster.
    pub p99_ms: f64,
    /// 999 of 1,000 were faster.
    pub p999_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// Microseconds as milliseconds.
pub(super) fn millis(micros: u64) -> f64 {
    float(micros) / 1e3
}

impl Percentiles {
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| millis(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: millis(histogram.max()),
        }
    }
}

/// What one second brought.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Second {
    /// Seconds since the counted time began, at the end of this one.
    pub at_s: f64,
    /// It was before the counted time.
    pub warm_up: bool,
    /// How long it was: the last one may be shorter.
    pub length_s: f64,
    /// Sends that went out (retries too).
    pub sent: u64,
    /// Sends that were acknowledged for the first time.
    pub acked: u64,
    /// Messages that reached a receiver.
    pub delivered: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Connections that were made again.
    pub reconnects: u64,
    /// Connections that are up at its end.
    pub online: u64,
    /// Planned send to acknowledgement.
    pub ack: Percentiles,
    /// Planned send to each receiver.
    pub delivery: Percentiles,
    /// Planned send to the last receiver.
    pub last_delivery: Percentiles,
    /// The longest that the load's own loop was late.
    pub load_late_ms: f64,
    /// Cores that the load itself took.
    pub load_cores: f64,
    /// Cores that the server took, where it is on this machine.
    pub server_cores: Option<f64>,
    /// Resident memory of the server.
    pub server_rss_bytes: Option<u64>,
    /// Cores that the processes of `--also-pid` took, with their children.
    pub also_cores: Option<f64>,
}

/// What is counted since the run began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) acked: u64,
    pub(super) delivered: u64,
    pub(super) errors: u64,
    pub(super) reconnects: u64,
}

/// All counts and times of a run.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// Acknowledgements that said `duplicate`: the answer to an earlier try had been lost.
    pub(super) duplicates: u64,
    /// Error answers by code, closes and failed connections by their names.
    pub(super) sorts: BTreeMap<String, u64>,
    /// Messages that the server refused for good, the first ones in words.
    pub(super) refused: u64,
    pub(super) first_refused: Vec<String>,
    pub(super) ack: Latency,
    pub(super) delivery: Latency,
    pub(super) last_delivery: Latency,
    /// How late a planned send went out though nothing but the load itself held it up.
    pub(super) slip: Latency,
    /// How late the load's loop answered its clock.
    pub(super) late: Latency,
    /// Microseconds since the run began: what is planned in here is timed.
    timed: (u64, u64),
    last: (Counts, Option<Sample>, u64),
}

impl Tally {
    pub(super) fn new(timed: (u64, u64)) -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            counts: Counts::default(),
            duplicates: 0,
            sorts: BTreeMap::new(),
            refused: 0,
            first_refused: Vec::new(),
            ack: Latency::new()?,
            delivery: Latency::new()?,
            last_delivery: Latency::new()?,
            slip: Latency::new()?,
            late: Latency::new()?,
            timed,
            last: (Counts::default(), None, 0),
        })
    }

    const fn is_timed(&self, planned: u64) -> bool {
        self.timed.0 <= planned && planned < self.timed.1
    }

    pub(super) fn acked(&mut self, now: u64, planned: u64) {
        self.counts.acked += 1;
        if self.is_timed(planned) {
            self.ack.record(now.saturating_sub(planned));
        }
    }

    pub(super) fn delivered(&mut self, now: u64, planned: Option<u64>) {
        self.counts.delivered += 1;
        if let Some(planned) = planned.filter(|planned| self.is_timed(*planned)) {
            self.delivery.record(now.saturating_sub(planned));
        }
    }

    pub(super) fn delivered_to_all(&mut self, now: u64, planned: u64) {
        if self.is_timed(planned) {
            self.last_delivery.record(now.saturating_sub(planned));
        }
    }

    pub(super) fn slipped(&mut self, now: u64, planned: u64) {
        if self.is_timed(planned) {
            self.slip.record(now.saturating_sub(planned));
        }
    }

    pub(super) fn late(&mut self, now: u64, due: u64) {
        if self.is_timed(due) {
            self.late.record(now.saturating_sub(due));
        }
    }

    /// Something that went wrong, by its name.
    pub(super) fn sort(&mut self, name: &str) {
        if let Some(count) = self.sorts.get_mut(name) {
            *count += 1;
        } else {
            let name = if self.sorts.len() < SORTS_MAX { name } else { "other" };
            *self.sorts.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Ends a second; `now` in microseconds since the run began.
    pub(super) fn tick(&mut self, now: u64, warm_up: bool, online: u64, sample: Sample) -> Second {
        let (before, old, since) = std::mem::replace(&mut self.last, (self.counts, Some(sample), now));
        let length_s = float(now.saturating_sub(since).max(1)) / 1e6;
        let counts = self.counts;
        let cores = |of: fn(&Sample) -> Option<f64>| Some((of(&sample)? - of(old.as_ref()?)?).max(0.0) / length_s);
        Second {
            at_s: (float(now) - float(self.timed.0)) / 1e6,
            warm_up,
            length_s,
            sent: counts.sent - before.sent,
            acked: counts.acked - before.acked,
            delivered: counts.delivered - before.delivered,
            errors: counts.errors - before.errors,
            reconnects: counts.reconnects - before.reconnects,
            online,
            ack: self.ack.tick(),
            delivery: self.delivery.tick(),
            last_delivery: self.last_delivery.tick(),
            load_late_ms: {
                let slip = self.slip.tick();
                self.late.tick().max_ms.max(slip.max_ms)
            },
            load_cores: cores(|sample| Some(sample.load_cpu_s)).unwrap_or_default(),
            server_cores: cores(|sample| sample.server_cpu_s),
            server_rss_bytes: sample.server_rss_bytes,
            also_cores: cores(|sample| sample.also_cpu_s),
        }
    }
}

impl Latency {
    /// Percentiles of the whole counted time, what is still open included.
    pub(super) fn percentiles(&mut self) -> Percentiles {
        self.tick();
        Percentiles::of(&self.total)
    }

    /// `(share, milliseconds)` from the fastest to the slowest, finer towards the end.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        const STEPS_PER_HALVING: u32 = 5;
        let points = self.total.iter_quantiles(STEPS_PER_HALVING);
        points
            .map(|point| (point.quantile(), millis(point.value_iterated_to())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_outside_the_counted_time_is_counted_and_not_timed() {
        let mut tally = Tally::new((1_000_000, 2_000_000)).unwrap();
        for (now, planned) in [
            (10, 5),
            (1_100_000, 999_999),
            (1_003_000, 1_000_000),
            (9_000_000, 1_999_999),
            (2_000_001, 2_000_000),
        ] {
            tally.acked(now, planned);
        }
        assert_eq!(tally.counts.acked, 5);
        let ack = tally.ack.percentiles();
        assert_eq!(
            (ack.count, ack.max_ms > 7_000.0),
            (2, true),
            "the late answer to the last one is timed"
        );
    }

    #[test]
    fn a_second_tells_what_it_brought_alone() {
        let mut tally = Tally::new((0, 10_000_000)).unwrap();
        let sample = |cpu| Sample {
            load_cpu_s: cpu,
            server_cpu_s: Some(2.0 * cpu),
            ..Sample::default()
        };
        tally.tick(0, false, 3, sample(1.0));
        tally.acked(1_000, 0);
        tally.tick(1_000_000, false, 3, sample(1.5));
        tally.acked(1_500_000, 1_400_000);
        let second = tally.tick(1_500_000, false, 3, sample(1.75));
        assert_eq!((second.acked, second.ack.count), (1, 1));
        assert!((second.length_s - 0.5).abs() < 1e-9 && (second.at_s - 1.5).abs() < 1e-9);
        assert!((second.load_cores - 0.5).abs() < 1e-9 && (second.server_cores.unwrap() - 1.0).abs() < 1e-9);
        assert!((second.ack.p50_ms - 100.0).abs() < 0.2, "{:?}", second.ack);
        assert_eq!(tally.ack.percentiles().count, 2);
    }

    #[test]
    fn sorts_of_trouble_have_a_bound() {
        let mut tally = Tally::new((0, 1)).unwrap();
        (0..200).for_each(|n| tally.sort(&format!("code {n}")));
        assert_eq!(
            (tally.sorts.len(), tally.sorts.values().sum::<u64>()),
            (SORTS_MAX + 1, 200)
        );
    }
}
