//! What a person sees meanwhile, on a terminal.

use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::table::{count, ms};
use crate::load::{Listener, Plan, Second};

/// How often the elapsed time is drawn.
const TICK: Duration = Duration::from_millis(200);

pub(super) struct Progress {
    bar: ProgressBar,
    warm_up_s: f64,
    total_s: f64,
}

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            warm_up_s: plan.warm_up.as_secs_f64(),
            total_s: (plan.warm_up + plan.duration).as_secs_f64(),
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn step(&self, what: &str, made: u32, of: u32) {
        self.bar.set_length(u64::from(of));
        self.bar.set_position(u64::from(made));
        self.bar.set_message(format!(
            "{what} {}/{}",
            HumanCount(u64::from(made)),
            HumanCount(u64::from(of))
        ));
    }
}

impl Listener for Progress {
    fn groups(&self, made: u32, of: u32) {
        self.step("groups", made, of);
    }

    fn connections(&self, made: u32, of: u32) {
        self.step("connections", made, of);
    }

    fn second(&self, second: &Second) {
        let millis = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default().as_millis();
        self.bar.set_length(u64::try_from(millis(self.total_s)).unwrap_or(1));
        self.bar
            .set_position(u64::try_from(millis(self.warm_up_s + second.at_s)).unwrap_or_default());
        let per_second = |number: f64| count(number / second.length_s.max(0.001));
        let warm_up = if second.warm_up { "warm-up  " } else { "" };
        let trouble = second.errors + second.reconnects;
        let trouble = if trouble == 0 {
            String::new()
        } else {
            format!("  {} errors, {} reconnects", second.errors, second.reconnects)
        };
        self.bar.set_message(format!(
            "{warm_up}{} acked/s  {} delivered/s  ack p50 {} p99 {} ms{trouble}",
            per_second(crate::load::float(second.acked)),
            per_second(crate::load::float(second.delivered)),
            ms(second.ack.p50_ms),
            ms(second.ack.p99_ms),
        ));
    }

    fn draining(&self, unsettled: usize) {
        self.bar
            .set_message(format!("waiting for the last {unsettled} answers and deliveries"));
    }
}
