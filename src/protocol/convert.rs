//! Between the domain and the wire: ids as decimal strings, times as RFC 3339, content passed through.

use std::fmt::Display;

use serde::Serializer;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::domain::Timestamp;

const RFC_3339_MILLIS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// `2026-11-29T12:00:00.123Z`
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let nanos = i128::from(at.millis()) * 1_000_000;
    let moment = OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    moment.format(RFC_3339_MILLIS).unwrap_or_default()
}

/// Stored content is JSON that was checked before it was stored.
#[must_use]
pub fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap_or(RawValue::NULL)
}

pub(super) fn decimal<S: Serializer>(id: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

pub(super) fn optional_decimal<S: Serializer>(id: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => serializer.collect_str(id),
        None => serializer.serialize_none(),
    }
}

pub(super) fn display<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*at))
}

pub(super) fn optional_time<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => time(at, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_z() {
        assert_eq!(
            rfc3339(Timestamp::from_millis(1_795_953_600_123)),
            "2026-11-29T12:00:00.123Z"
        );
        assert_eq!(rfc3339(Timestamp::from_millis(0)), "1970-01-01T00:00:00.000Z");
    }
}
