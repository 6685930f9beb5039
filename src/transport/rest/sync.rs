//! `/v1/sync`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::reply::ok;
use super::{Caller, Problem, Rest};
use crate::protocol::fields::Fields;
use crate::protocol::sync::Ask;
use crate::transport::catching_up::{SYNC_BODY_BYTES_MAX, answer, query};
use crate::transport::limits::{ANSWER_BYTES_MAX, body};

/// `POST /v1/sync`: what a device has missed.
pub(super) async fn sync(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let text = body(request.headers(), payload, SYNC_BODY_BYTES_MAX).await?;
    let ask = Ask::read(&Fields::of_body(&text)?)?;
    let page = rest
        .sync
        .sync(caller.principal, query(ask, None, ANSWER_BYTES_MAX)?)
        .await?;
    ok(&answer(&page)?)
}
