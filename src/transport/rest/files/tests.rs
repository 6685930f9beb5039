//! Heads of answers, and which part of a file is asked for.

use actix_web::HttpRequest;
use actix_web::http::header::{ContentDisposition, HeaderValue, IF_NONE_MATCH, IF_RANGE, RANGE};
use actix_web::test::TestRequest;

use super::disposition::disposition;
use super::range::{Wanted, is_known, wanted};

const ETAG: &str = "\"abc\"";

fn asking(headers: &[(actix_web::http::header::HeaderName, &'static str)]) -> HttpRequest {
    let request = TestRequest::get();
    let add = |request: TestRequest, (name, value): &(_, &'static str)| request.insert_header((name, *value));
    headers.iter().fold(request, add).to_http_request()
}

fn part(range: &'static str, size: u64) -> Wanted {
    wanted(&asking(&[(RANGE, range)]), size, ETAG)
}

#[test]
fn one_range_is_given_and_everything_else_asks_for_the_whole() {
    assert_eq!(part("bytes=0-0", 10), Wanted::Part(0..1));
    assert_eq!(part("bytes=2-", 10), Wanted::Part(2..10));
    assert_eq!(part("bytes=-3", 10), Wanted::Part(7..10));
    assert_eq!(part("bytes=-30", 10), Wanted::Part(0..10));
    assert_eq!(part("bytes=5-999999999999", 10), Wanted::Part(5..10));
    assert_eq!(part("bytes=10-", 10), Wanted::Nothing);
    assert_eq!(part("bytes=-0", 10), Wanted::Nothing);
    assert_eq!(part("bytes=0-", 0), Wanted::Nothing);
    for whole in [
        "bytes=0-1,3-4",
        "lines=1-2",
        "bytes=x-y",
        "bytes",
        "bytes=99999999999999999999-",
    ] {
        assert_eq!(part(whole, 10), Wanted::Whole, "{whole}");
    }
    assert_eq!(wanted(&asking(&[]), 10, ETAG), Wanted::Whole);
}

#[test]
fn a_part_of_other_bytes_is_never_given() {
    let of = |tag| wanted(&asking(&[(RANGE, "bytes=1-2"), (IF_RANGE, tag)]), 10, ETAG);
    assert_eq!(of(ETAG), Wanted::Part(1..3));
    assert_eq!(of("\"other\""), Wanted::Whole);
    assert_eq!(of("W/\"abc\""), Wanted::Whole, "a weak tag does not do for parts");
    assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Wanted::Whole);
}

#[test]
fn bytes_that_are_known_are_not_sent_again() {
    for (tags, known) in [
        (ETAG, true),
        ("W/\"abc\"", true),
        ("\"x\", \"abc\"", true),
        ("*", true),
        ("\"x\"", false),
        ("abc", false),
    ] {
        assert_eq!(is_known(&asking(&[(IF_NONE_MATCH, tags)]), ETAG), known, "{tags}");
    }
}

#[test]
fn no_name_breaks_out_of_its_header() {
    assert_eq!(disposition("a b.txt", false), "attachment; filename=\"a b.txt\"");
    assert_eq!(
        disposition("报告.pdf", true),
        "inline; filename=\"__.pdf\"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf"
    );
    for hostile in [
        "a\"; x=\"y",
        "a\\\"b",
        "100%22.txt",
        "a;b=c,d",
        "'--'",
        "a\u{7f}\u{80}é",
    ] {
        let text = disposition(hostile, false);
        assert!(text.is_ascii() && !text.contains(['\r', '\n']), "{text}");
        let read = ContentDisposition::from_raw(&HeaderValue::from_str(&text).unwrap()).unwrap();
        assert!(read.is_attachment() && read.parameters.len() <= 2, "{text}");
        let name = match read.get_filename_ext() {
            Some(extended) => String::from_utf8(extended.value.clone()).unwrap(),
            None => read.get_filename().unwrap().to_owned(),
        };
        assert_eq!(name, hostile, "{text}");
    }
}
