//! Times as the wire and stored JSON write them: RFC 3339, UTC, milliseconds.

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use super::ids::Timestamp;

const RFC_3339_MILLIS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// `2026-11-29T12:00:00.123Z`
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let nanos = i128::from(at.millis()) * 1_000_000;
    let moment = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    moment.format(RFC_3339_MILLIS).unwrap_or_default()
}

/// Reads any RFC 3339 time; `None` for anything else.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(moment.unix_timestamp_nanos() / 1_000_000)
        .ok()
        .map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_z() {
        for (millis, text) in [
            (1_795_953_600_123, "2026-11-29T12:00:00.123Z"),
            (0, "1970-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_millis(millis)), text);
            assert_eq!(parse_rfc3339(text), Some(Timestamp::from_millis(millis)));
        }
        assert_eq!(
            parse_rfc3339("2026-11-29T13:00:00+01:00"),
            Some(Timestamp::from_millis(1_795_953_600_000))
        );
        assert_eq!(parse_rfc3339("tomorrow"), None);
    }
}
