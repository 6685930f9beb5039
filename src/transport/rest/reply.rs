//! Answers as JSON.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_TYPE;
use serde::Serialize;

use super::Problem;
use crate::service::ServiceError;

/// Done, and there is nothing more to say: `{}`.
#[derive(Serialize)]
pub(super) struct Done {}

/// A JSON body with this status.
///
/// # Errors
/// `internal`, should a body ever not be writable.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Result<HttpResponse, Problem> {
    let text = serde_json::to_string(body).map_err(|error| ServiceError::internal(&error))?;
    Ok(HttpResponse::build(status)
        .insert_header((CONTENT_TYPE, "application/json"))
        .body(text))
}

/// A JSON body with 200.
///
/// # Errors
/// As [`json`].
pub(super) fn ok(body: &impl Serialize) -> Result<HttpResponse, Problem> {
    json(StatusCode::OK, body)
}

/// 201 for what is new, 200 for what was there.
pub(super) const fn created(new: bool) -> StatusCode {
    if new { StatusCode::CREATED } else { StatusCode::OK }
}
