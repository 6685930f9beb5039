//! `/v1/me` as a profile, and `/v1/users/{type}/{id}`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::principal;
use super::reply::ok;
use super::{Caller, Problem, Rest};
use crate::protocol::admin::own_profile;
use crate::protocol::fields::Fields;
use crate::protocol::view;
use crate::transport::limits::body;

/// `GET /v1/me`
pub(super) async fn own(rest: Data<Rest>, caller: Caller) -> Result<HttpResponse, Problem> {
    let profile = rest.users.get(caller.principal).await?;
    ok(&view::Profile::from(&profile))
}

/// `PATCH /v1/me {display_name, avatar_url}`
pub(super) async fn change_own(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let patch = own_profile(&Fields::of_body(&text)?)?;
    let profile = rest.users.update(caller.principal, &patch).await?;
    ok(&view::Profile::from(&profile))
}

/// `GET /v1/users/{type}/{id}`
pub(super) async fn get(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let who = principal(&request, "no such user or agent")?;
    let profile = rest.users.see(caller.principal, who).await?;
    ok(&view::Profile::from(&profile))
}
