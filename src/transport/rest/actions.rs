//! `/v1/messages/{message_id}/actions/{action_type}` and `/v1/me/actions`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::{Query, action, action_type, message_id};
use super::reply::ok;
use super::{Caller, Problem, Rest, cursor};
use crate::domain::Personal;
use crate::protocol::fields::Fields;
use crate::protocol::rest::{self, List};
use crate::protocol::view;
use crate::transport::limits::body;

/// What no body says.
const NOTHING: &str = "{}";

/// `PUT …/actions/{action_type} {remind_at?, payload?}`; without a body nothing is kept with it.
pub(super) async fn set(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = message_id(&request)?;
    let kind = action_type(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let text = if text.is_empty() { NOTHING } else { &text };
    let act = rest::action(&Fields::of_body(text)?, id, kind)?;
    ok(&view::Action::from(&rest.inbox.act(origin, act).await?))
}

/// `DELETE …/actions/{action_type}`: taken back, and kept as INACTIVE. Works for whatever one has set, also on a message that
/// one may not see any more.
pub(super) async fn unset(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let act = Personal::Unset {
        message_id: message_id(&request)?,
        action_type: action_type(&request)?,
    };
    let origin = caller.origin(&request)?;
    ok(&view::Action::from(&rest.inbox.act(origin, act).await?))
}

/// `GET /v1/me/actions?action_type=&limit=&cursor=`: the active ones on messages that the caller may see, by type,
/// then the newest message first.
pub(super) async fn list(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let kind = query.text("action_type").map(action).transpose()?;
    let after = query.text("cursor").map(cursor::actions).transpose()?;
    let page = rest.inbox.actions(caller.principal, kind, after, limit).await?;
    ok(&List {
        items: page.items.iter().map(view::Action::from).collect(),
        next_cursor: page.next.as_ref().map(cursor::of_actions),
    })
}
