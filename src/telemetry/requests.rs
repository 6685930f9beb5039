//! One span per HTTP request; everything that happens inside it carries the request's id.

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use tracing::{Span, debug, field, info_span, warn};
use tracing_actix_web::{RequestId, RootSpanBuilder};

use actix_web::HttpMessage as _;

/// Says which request a line belongs to: id, method, path. No query and no header, since both may hold secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestSpan;

impl RootSpanBuilder for RequestSpan {
    fn on_request_start(request: &ServiceRequest) -> Span {
        let request_id = request.extensions().get::<RequestId>().copied();
        info_span!(
            "request",
            request_id = request_id.map(field::display),
            method = %request.method(),
            path = request.path(),
        )
    }

    fn on_request_end<B: MessageBody>(_: Span, outcome: &Result<ServiceResponse<B>, Error>) {
        let status = match outcome {
            Ok(response) => response.status(),
            Err(error) => error.as_response_error().status_code(),
        };
        if status.is_server_error() {
            warn!(status = status.as_u16(), "answered");
        } else {
            debug!(status = status.as_u16(), "answered");
        }
    }
}
