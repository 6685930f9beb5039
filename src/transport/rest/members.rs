//! `/v1/conversations/{conversation_id}/members`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::{Query, conversation_id, principal};
use super::reply::ok;
use super::{Caller, Problem, Rest, cursor};
use crate::protocol::fields::Fields;
use crate::protocol::rest::{List, MembersChanged, members, role};
use crate::protocol::view;
use crate::service;
use crate::transport::limits::{MEMBERS_BODY_BYTES_MAX, body};

const NO_SUCH_MEMBER: &str = "no such member";

/// `GET …/members?limit=&cursor=`, in order of joining.
pub(super) async fn list(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let after = query.text("cursor").map(|text| cursor::members(id, text)).transpose()?;
    let page = rest.conversations.members(caller.principal, id, after, limit).await?;
    ok(&List {
        items: page.items.iter().map(view::Member::from).collect(),
        next_cursor: page.next.as_ref().map(|position| cursor::of_members(id, position)),
    })
}

/// `POST …/members {members: [principal]}`
pub(super) async fn add(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, MEMBERS_BODY_BYTES_MAX).await?;
    let named = members(&Fields::of_body(&text)?)?;
    changed(&rest.conversations.add_members(origin, id, &named).await?)
}

/// `DELETE …/members/{type}/{id}`; oneself = leaving.
pub(super) async fn remove(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let target = principal(&request, NO_SUCH_MEMBER)?;
    let origin = caller.origin(&request)?;
    changed(&rest.conversations.remove_member(origin, id, target).await?)
}

/// `PATCH …/members/{type}/{id} {role}`; OWNER hands the group over.
pub(super) async fn set_role(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let target = principal(&request, NO_SUCH_MEMBER)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let role = role(&Fields::of_body(&text)?)?;
    changed(&rest.conversations.set_role(origin, id, target, role).await?)
}

fn changed(changed: &service::MembersChanged) -> Result<HttpResponse, Problem> {
    ok(&MembersChanged {
        change: changed.change.as_deref().map(view::Change::from),
        members: changed.members.iter().copied().map(view::Principal::from).collect(),
    })
}
