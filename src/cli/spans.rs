//! Spans of time as people write them: `500ms`, `90s`, `15m`, `1h`, `30d`.

use std::time::Duration;

/// A whole number with a unit; without one it is seconds.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let secs = match text.get(digits.len()..)? {
        "ms" => return Some(Duration::from_millis(number)),
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    Some(Duration::from_secs(number.saturating_mul(secs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_whole_number_with_a_unit() {
        for (text, millis) in [
            ("0", 0),
            ("250ms", 250),
            ("2s", 2_000),
            ("3", 3_000),
            ("1m", 60_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "s", "1w", "-1s", "1.5s", "1h30m", "1 s", "99999999999999999999s"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
