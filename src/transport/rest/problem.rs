//! Every refusal as the contract's problem document, whoever makes it: a use case, the router, the HTTP library.

use std::fmt;

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpResponse, HttpResponseBuilder, ResponseError};
use tracing_actix_web::RequestId;

use crate::domain::Code;
use crate::protocol::{rest, view};
use crate::service::ServiceError;

const PROBLEM_JSON: &str = "application/problem+json";

/// A refusal on its way out.
#[derive(Clone)]
pub struct Problem {
    error: ServiceError,
    /// Where HTTP has a closer word than the table (405).
    status: Option<StatusCode>,
    trace_id: Option<String>,
}

impl Problem {
    fn status(&self) -> StatusCode {
        let of_code = || StatusCode::from_u16(self.error.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.status.unwrap_or_else(of_code)
    }

    /// For an answer of the HTTP library, which knows no codes.
    fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => (Code::NotFound, "there is nothing at this path"),
            StatusCode::METHOD_NOT_ALLOWED => (Code::InvalidRequest, "this path does not answer this method"),
            StatusCode::PAYLOAD_TOO_LARGE => (Code::PayloadTooLarge, "the request is too large"),
            status if status.is_client_error() => (Code::InvalidRequest, "the request cannot be understood"),
            _ => {
                let error = ServiceError::internal(&format!("the HTTP library answered {status}"));
                return error.into();
            }
        };
        Self {
            error: ServiceError::new(code, detail),
            status: Some(status),
            trace_id: None,
        }
    }
}

impl<E: Into<ServiceError>> From<E> for Problem {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            status: None,
            trace_id: None,
        }
    }
}

// Only what a log may hold: not the words of `original`.
impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Problem({})", self.error)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.status()
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        let ServiceError { code, detail, extra } = &self.error;
        let status = self.status();
        let document = rest::Problem {
            kind: "about:blank",
            title: code.title(),
            status: status.as_u16(),
            code: *code,
            detail,
            retryable: code.retryable(),
            original: extra.original.as_deref().map(view::Message::from),
            last_seq: extra.last_seq.map(crate::domain::Seq::get),
            retry_after_ms: extra.retry_after_ms,
            trace_id: self.trace_id.as_deref().filter(|_| *code == Code::Internal),
        };
        let mut response = HttpResponseBuilder::new(status);
        response.insert_header((CONTENT_TYPE, PROBLEM_JSON));
        if let Some(after_ms) = extra.retry_after_ms {
            response.insert_header((RETRY_AFTER, after_ms.div_ceil(1_000).to_string()));
        }
        response.body(serde_json::to_string(&document).unwrap_or_default())
    }
}

/// Middleware: turns whatever was refused below it into a problem document, and gives internal errors the id of the
/// request, by which they are found in the log.
///
/// # Errors
/// What was refused before routing, as a [`Problem`].
pub async fn problems<B: MessageBody>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let trace_id = request.extensions().get::<RequestId>().map(ToString::to_string);
    let response = match next.call(request).await {
        Ok(response) => response,
        Err(error) => return Err(problem(&error, error.as_response_error().status_code(), trace_id).into()),
    };
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) {
        return Ok(response.map_into_left_body());
    }
    let mut refusal = match response.response().error() {
        Some(error) => problem(error, status, trace_id),
        None if is_problem(&response) => return Ok(response.map_into_left_body()),
        None => Problem {
            trace_id,
            ..Problem::of_status(status)
        },
    }
    .error_response();
    for (name, value) in response.headers().iter().filter(|(name, _)| *name != CONTENT_TYPE) {
        refusal.headers_mut().append(name.clone(), value.clone());
    }
    let (request, _) = response.into_parts();
    Ok(ServiceResponse::new(request, refusal.map_into_right_body()))
}

fn problem(error: &Error, status: StatusCode, trace_id: Option<String>) -> Problem {
    let problem = error.as_error::<Problem>().cloned();
    Problem {
        trace_id,
        ..problem.unwrap_or_else(|| Problem::of_status(status))
    }
}

fn is_problem<B>(response: &ServiceResponse<B>) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes() == PROBLEM_JSON.as_bytes())
}
