//! `/v1/conversations`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::{Query, conversation_id};
use super::reply::{created, json, ok};
use super::{Caller, Problem, Rest, cursor};
use crate::domain::DomainError;
use crate::protocol::fields::Fields;
use crate::protocol::rest::{ConversationChanged, List, header_patch, new_conversation};
use crate::protocol::view;
use crate::service::{self, Seen};
use crate::transport::limits::{MEMBERS_BODY_BYTES_MAX, body};

/// `POST /v1/conversations`: 201 for a new one, 200 for the one that was there.
pub(super) async fn create(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, MEMBERS_BODY_BYTES_MAX).await?;
    let new = new_conversation(&Fields::of_body(&text)?)?;
    let made = rest.conversations.create(origin, new).await?;
    json(created(made.created), &as_member(&made.seen)?)
}

/// `GET /v1/conversations?limit=&cursor=`
pub(super) async fn list(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let after = query.text("cursor").map(cursor::list).transpose()?;
    let page = rest.conversations.list(caller.principal, after, limit).await?;
    ok(&List {
        items: page.items.iter().map(as_member).collect::<Result<Vec<_>, _>>()?,
        next_cursor: page.next.as_ref().map(cursor::of_list),
    })
}

/// `GET /v1/conversations/{conversation_id}`
pub(super) async fn get(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let seen = rest.conversations.get(caller.principal, id).await?;
    ok(&as_member(&seen)?)
}

/// `PATCH /v1/conversations/{conversation_id}`: title, picture, settings.
pub(super) async fn update(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let patch = header_patch(&Fields::of_body(&text)?)?;
    changed(&rest.conversations.update(origin, id, patch).await?)
}

/// `DELETE /v1/conversations/{conversation_id}`: the end of a group.
pub(super) async fn dissolve(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    changed(&rest.conversations.dissolve(origin, id).await?)
}

fn changed(changed: &service::ConversationChanged) -> Result<HttpResponse, Problem> {
    ok(&ConversationChanged {
        conversation: as_member(&changed.seen)?,
        change: changed.change.as_deref().map(view::Change::from),
    })
}

/// As its viewer sees it, who must be a member.
pub(in crate::transport) fn as_member(seen: &Seen) -> Result<view::Conversation<'_>, DomainError> {
    let own = seen.membership.as_ref().ok_or(DomainError::NotAMember)?;
    let last = seen.last_message.as_ref().map(view::Message::from);
    Ok(view::Conversation::new(
        &seen.header,
        &seen.head,
        seen.member_count,
        view::Me::new(own, seen.unread_count, seen.mention_count),
        last,
    ))
}
