//! `/admin/v1/announcements` and `/admin/v1/jobs`

use actix_web::http::StatusCode;
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use super::caller::Operator;
use super::query::{Query, job_id};
use super::reply::{json, ok};
use super::{Problem, Rest, cursor};
use crate::protocol::announcements::{Job, announcement};
use crate::protocol::fields::Fields;
use crate::protocol::rest::List;
use crate::transport::limits::{AUDIENCE_BODY_BYTES_MAX, body};

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(web::resource("/admin/v1/announcements").post(announce))
        .service(web::resource("/admin/v1/jobs").get(list))
        .service(web::resource("/admin/v1/jobs/{job_id}").get(get));
}

/// `POST /admin/v1/announcements {audience: "ALL" | [principal], text, payload?, client_request_id}`: 202 with the job that tells
/// it, 200 with the same job for the same request. `ALL` are the users who are known at that moment, disabled ones included;
/// agents are told where they are named.
async fn announce(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let bytes_max = rest.limits.frame_bytes.max(AUDIENCE_BODY_BYTES_MAX);
    let text = body(request.headers(), payload, bytes_max).await?;
    let asked = announcement(&Fields::of_body(&text)?, rest.limits.content_bytes)?;
    let (job, is_new) = rest.announcements.announce(asked).await?;
    let status = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    json(status, &Job::from(&job))
}

/// `GET /admin/v1/jobs?limit=&cursor=`, the newest first.
async fn list(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let before = query.text("cursor").map(cursor::jobs).transpose()?;
    let page = rest.announcements.jobs(before, limit).await?;
    ok(&List {
        items: page.items.iter().map(Job::from).collect(),
        next_cursor: page.next.map(cursor::of_jobs),
    })
}

/// `GET /admin/v1/jobs/{job_id}`: `done` of `total` receivers have been dealt with.
async fn get(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    ok(&Job::from(&rest.announcements.job(job_id(&request)?).await?))
}
