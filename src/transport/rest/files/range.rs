//! Which part of a file is asked for.

use std::ops::Range;

use actix_web::HttpRequest;
use actix_web::http::header::{self, Header as _, IF_RANGE, IfNoneMatch};

/// What a request wants of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// These bytes, which are inside it.
    Part(Range<u64>),
    /// Bytes that it does not have.
    Nothing,
}

/// Does the caller have these bytes already (`If-None-Match`)?
pub(super) fn is_known(request: &HttpRequest, etag: &str) -> bool {
    match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|tag| same(tag, etag)),
        Err(_) => false,
    }
}

fn same(tag: &header::EntityTag, etag: &str) -> bool {
    etag.trim_matches('"') == tag.tag()
}

/// `Range`, and `If-Range` with a tag. Several ranges, other units and what cannot be read ask for everything, as
/// RFC 9110 allows.
pub(super) fn wanted(request: &HttpRequest, size: u64, etag: &str) -> Wanted {
    let condition = request.headers().get(IF_RANGE);
    if condition.is_some_and(|tag| tag.as_bytes() != etag.as_bytes()) {
        return Wanted::Whole;
    }
    let Ok(header::Range::Bytes(ranges)) = header::Range::parse(request) else {
        return Wanted::Whole;
    };
    let [range] = ranges.as_slice() else {
        return Wanted::Whole;
    };
    match range.to_satisfiable_range(size) {
        Some((first, last)) => Wanted::Part(first..last.saturating_add(1)),
        None => Wanted::Nothing,
    }
}
