//! Bounds that hold before anything is parsed.

use std::time::Duration;

use actix_web::http::header::{CONTENT_LENGTH, HeaderMap};
use actix_web::web::Payload;
use futures_util::StreamExt;

use crate::domain::{Code, InvalidField};
use crate::service::ServiceError;

/// The largest body that names members: 1,000 of them with external ids of 128 characters.
pub const MEMBERS_BODY_BYTES_MAX: usize = 1024 * 1024;

/// The largest body that names the audience of an announcement: 10,000 principals with external ids of 128 characters.
pub const AUDIENCE_BODY_BYTES_MAX: usize = 10 * MEMBERS_BODY_BYTES_MAX;

/// About so large is a REST answer with messages at the most, but for one message and one change that always have room:
/// the rest is on the next page.
pub(super) const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a body may take to arrive after its head.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Content of one message, in compact form (`limits.content_bytes`).
    pub content_bytes: usize,
    /// A WebSocket frame and a REST body (`limits.frame_bytes`).
    pub frame_bytes: usize,
}

/// Reads a whole body as text, never more than `bytes_max` of it.
///
/// # Errors
/// `payload_too_large`; `invalid_request` when it is not UTF-8, breaks off or takes too long.
pub async fn body(headers: &HeaderMap, payload: Payload, bytes_max: usize) -> Result<String, ServiceError> {
    if declared(headers).is_some_and(|length| length > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let bytes = tokio::time::timeout(BODY_TIMEOUT, collect(payload, bytes_max)).await;
    let bytes = bytes.map_err(|_| InvalidField::new("body", "did not arrive in time"))??;
    String::from_utf8(bytes).map_err(|_| InvalidField::new("body", "must be UTF-8").into())
}

async fn collect(mut payload: Payload, bytes_max: usize) -> Result<Vec<u8>, ServiceError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| InvalidField::new("body", "broke off before its end"))?;
        if bytes.len() + chunk.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn too_large(bytes_max: usize) -> ServiceError {
    let detail = format!("the body must not have more than {bytes_max} bytes");
    ServiceError::new(Code::PayloadTooLarge, detail)
}

/// The length of a body by its own account.
pub(super) fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use actix_web::FromRequest;
    use actix_web::error::PayloadError;
    use actix_web::test::TestRequest;
    use actix_web::web::Bytes;

    use super::*;

    /// With its length in the head, or without as a chunked body has none.
    async fn read(body: &'static [u8], max: usize, declared: bool) -> Result<String, Code> {
        let (request, mut payload) = TestRequest::post().set_payload(body).to_http_parts();
        let payload = Payload::from_request(&request, &mut payload).await.unwrap();
        let mut headers = HeaderMap::new();
        if declared {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        let text = super::body(&headers, payload, max).await;
        text.map_err(|error| error.code)
    }

    #[actix_web::test]
    async fn a_body_of_the_limit_is_read_and_one_byte_more_is_not() {
        for declared in [true, false] {
            assert_eq!(read(b"12345", 5, declared).await.as_deref(), Ok("12345"));
            assert_eq!(read(b"123456", 5, declared).await, Err(Code::PayloadTooLarge));
            assert_eq!(read(b"", 5, declared).await.as_deref(), Ok(""));
        }
    }

    #[actix_web::test]
    async fn bytes_that_are_no_text_are_an_invalid_request() {
        for bad in [&b"{\"text\":\"\xff\"}"[..], b"\xc3\x28", b"\xed\xa0\x80"] {
            assert_eq!(read(bad, 100, true).await, Err(Code::InvalidRequest), "{bad:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_body_for_ever() {
        let silent = futures_util::stream::pending::<Result<Bytes, PayloadError>>();
        let mut payload = actix_web::dev::Payload::Stream {
            payload: silent.boxed_local(),
        };
        let request = TestRequest::post().to_http_request();
        let payload = Payload::from_request(&request, &mut payload).await.unwrap();
        let started = tokio::time::Instant::now();
        let refusal = super::body(&HeaderMap::new(), payload, 100).await.unwrap_err();
        assert_eq!((refusal.code, started.elapsed()), (Code::InvalidRequest, BODY_TIMEOUT));
    }
}
