//! The bar of the long commands. It draws on stderr, and only on a terminal.

use std::fmt;
use std::time::Duration;

use indicatif::{HumanCount, HumanFloatCount, ProgressBar, ProgressState, ProgressStyle};

/// `length` things of the name `what`, with rate and remaining time.
pub(super) fn bar(length: u64, what: &str) -> ProgressBar {
    let template = format!("{{bar:30}} {{human_pos}}/{{human_len}} {what}  {{rate}}  {{eta}} left  {{msg}}");
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(&template) {
        // A bar that cannot be written is not worth an error.
        let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
            write!(out, "{}/s", HumanFloatCount(state.per_sec().round())).ok();
        };
        bar.set_style(style.with_key("rate", rate));
    }
    bar
}

/// What a second brought, for the last line.
pub(super) fn rate(count: u64, elapsed: Duration) -> String {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let per_second = count.saturating_mul(1_000) / millis;
    format!("{:.1} s ({}/s)", elapsed.as_secs_f64(), HumanCount(per_second))
}
