//! Numbers of several rounds: the median and how far the rounds lay apart.

use std::fmt;

/// Median, smallest and largest of some rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// All zero when there were no rounds.
    pub(crate) fn of(rounds: &[f64]) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) && middle > 0 {
            f64::midpoint(at(middle - 1), at(middle))
        } else {
            at(middle)
        };
        Self {
            median,
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}–{}]", short(self.median), short(self.min), short(self.max))
    }
}

/// Three or more digits, with commas: `0.52`, `73.1`, `12,345`.
pub(crate) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => return with_commas(&format!("{value:.0}")),
    };
    format!("{value:.decimals$}")
}

fn with_commas(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left.is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Counts below 2^53 are exact as floats; a benchmark counts no further.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are below 2^53"
)]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}
