//! The bar of the long commands. It draws on stderr, and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// `length` things of the name `what`, with rate and remaining time.
pub(super) fn bar(length: u64, what: &str) -> ProgressBar {
    let template = format!("{{bar:30}} {{human_pos}}/{{human_len}} {what}  {{per_sec}}  {{eta}} left  {{msg}}");
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}
