//! Every refusal as the contract's problem document, whoever makes it: a use case, the router, the HTTP library.

use std::fmt;

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
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
    /// Where HTTP has a closer word than the table (405): it is the title, too.
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
            StatusCode::RANGE_NOT_SATISFIABLE => (Code::InvalidRequest, "the file does not have these bytes"),
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
            title: self
                .status
                .and_then(|status| status.canonical_reason())
                .unwrap_or_else(|| code.title()),
            status: status.as_u16(),
            code: *code,
            detail,
            retryable: code.retryable(),
            original: extra.original.as_deref().map(view::Message::from),
            last_seq: extra.last_seq.map(crate::domain::Seq::get),
            oldest: extra.events.as_ref().map(|events| events.0.get()),
            newest: extra.events.as_ref().map(|events| events.1.get()),
            retry_after_ms: extra.retry_after_ms,
            trace_id: self.trace_id.as_deref().filter(|_| *code == Code::Internal),
        };
        let mut response = HttpResponseBuilder::new(status);
        response.insert_header((CONTENT_TYPE, PROBLEM_JSON));
        if status == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
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
    // What the document says itself is not said twice.
    let own = refusal.headers().clone();
    for (name, value) in response.headers().iter().filter(|(name, _)| !own.contains_key(*name)) {
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

#[cfg(test)]
mod tests {
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, call_service, init_service, read_body};
    use actix_web::{App, web};
    use tracing_actix_web::TracingLogger;

    use super::*;

    async fn broken(id: RequestId) -> Result<HttpResponse, Problem> {
        assert!(!id.is_nil());
        Err(ServiceError::internal(&"SELECT secret FROM message").into())
    }

    async fn nobody() -> Result<HttpResponse, Problem> {
        Err(ServiceError::new(Code::Unauthenticated, "no token").into())
    }

    async fn busy() -> Result<HttpResponse, Problem> {
        Err(ServiceError::new(Code::Overloaded, "too much is waiting here").into())
    }

    async fn answer(path: &str) -> (StatusCode, Option<String>, serde_json::Value) {
        let app = App::new()
            .wrap(from_fn(problems))
            .wrap(TracingLogger::default())
            .route("/broken", web::get().to(broken))
            .route("/busy", web::get().to(busy))
            .route("/nobody", web::get().to(nobody))
            .route(
                "/number/{number}",
                web::get().to(|_: web::Path<u8>| async { "a number" }),
            );
        let app = init_service(app).await;
        let response = call_service(&app, TestRequest::get().uri(path).to_request()).await;
        for (name, _) in response.headers() {
            assert_eq!(response.headers().get_all(name).count(), 1, "{name} is said once");
        }
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .map(|value| value.to_str().unwrap().to_owned());
        assert!(is_problem(&response), "{path}");
        let status = response.status();
        (
            status,
            retry_after,
            serde_json::from_slice(&read_body(response).await).unwrap(),
        )
    }

    #[actix_web::test]
    async fn an_internal_error_carries_the_id_of_its_request_and_no_inside_words() {
        let (status, _, body) = answer("/broken").await;
        assert_eq!((status.as_u16(), &body["code"]), (500, &"internal".into()));
        assert_eq!(body["trace_id"].as_str().map(str::len), Some(36), "{body}");
        assert!(!body.to_string().contains("SELECT"), "{body}");
    }

    #[actix_web::test]
    async fn who_should_come_again_is_told_when() {
        let (status, retry_after, body) = answer("/busy").await;
        assert_eq!((status.as_u16(), retry_after.as_deref()), (503, Some("1")));
        assert_eq!(
            (&body["retryable"], &body["retry_after_ms"]),
            (&true.into(), &1_000.into())
        );
        assert!(body.get("trace_id").is_none() && body.get("original").is_none());
    }

    #[actix_web::test]
    async fn who_has_no_token_is_told_once_which_kind_there_is() {
        let (status, _, body) = answer("/nobody").await;
        assert_eq!((status.as_u16(), &body["code"]), (401, &"unauthenticated".into()));
    }

    #[actix_web::test]
    async fn what_the_http_library_refuses_has_the_same_form() {
        let (status, _, body) = answer("/nowhere").await;
        assert_eq!((status.as_u16(), &body["code"]), (404, &"not_found".into()));
        let (status, _, body) = answer("/number/many").await;
        assert_eq!((status.as_u16(), &body["code"]), (404, &"not_found".into()));
    }
}
