//! Times as the wire and stored JSON write them: RFC 3339, UTC, milliseconds.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::ids::Timestamp;

/// `2026-11-29T12:00:00.123Z`
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    // Nobody lives outside of these years.
    let moment = OffsetDateTime::from_unix_timestamp(at.millis().div_euclid(1_000));
    let moment = moment.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let year = u32::try_from(moment.year()).unwrap_or_default();
    // By hand, since every push has one: a format description is walked through piece by piece.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let millis = u32::try_from(at.millis().rem_euclid(1_000)).unwrap_or_default();
    let (hour, minute, second) = moment.to_hms();
    for (end, mut number) in [
        (4, year),
        (7, u32::from(u8::from(moment.month()))),
        (10, u32::from(moment.day())),
        (13, u32::from(hour)),
        (16, u32::from(minute)),
        (19, u32::from(second)),
        (23, millis),
    ] {
        for digit in text
            .iter_mut()
            .take(end)
            .rev()
            .take_while(|digit| digit.is_ascii_digit())
        {
            *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
        }
    }
    std::str::from_utf8(&text).unwrap_or_default().to_owned()
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
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_009, "2000-02-29T00:00:00.009Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_millis(millis)), text);
            assert_eq!(parse_rfc3339(text), Some(Timestamp::from_millis(millis)));
        }
        for millis in (-62_135_596_800_000_i64..253_402_300_800_000).step_by(31_556_951_777) {
            let at = Timestamp::from_millis(millis);
            assert_eq!(parse_rfc3339(&rfc3339(at)), Some(at), "{millis}");
        }
        assert_eq!(
            parse_rfc3339("2026-11-29T13:00:00+01:00"),
            Some(Timestamp::from_millis(1_795_953_600_000))
        );
        assert_eq!(parse_rfc3339("tomorrow"), None);
    }
}
