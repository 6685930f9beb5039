//! `/v1/conversations/{conversation_id}/me`, `…/clear`, `…/read`, `…/receipts`: one's own view of a conversation.

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::{Query, conversation_id};
use super::reply::ok;
use super::{Caller, Problem, Rest};
use crate::domain::{DomainError, InvalidField};
use crate::protocol::fields::{Fields, required};
use crate::protocol::frame::seq;
use crate::protocol::rest::{Read, Receipts, clearing, settings};
use crate::protocol::view;
use crate::service::Seen;
use crate::transport::limits::body;

/// `PUT …/me {muted?, pinned?, marked_unread?}` → the `me` object.
pub(super) async fn settings_of(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let act = settings(&Fields::of_body(&text)?, id)?;
    me(&rest.inbox.set(origin, id, act).await?)
}

/// `POST …/clear {up_to_seq}`: hides history from the caller alone → the `me` object.
pub(super) async fn clear(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let act = clearing(&Fields::of_body(&text)?, id)?;
    me(&rest.inbox.set(origin, id, act).await?)
}

/// `POST …/read {seq}`
pub(super) async fn read(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let seq = seq(&Fields::of_body(&text)?)?;
    let read = rest.inbox.read(origin, id, seq).await?;
    ok(&Read {
        last_read_seq: read.last_read_seq.get(),
        unread_count: read.unread_count,
        change_seq: read.change_seq,
    })
}

/// `GET …/receipts?seq=`
pub(super) async fn receipts(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let seq: Result<_, InvalidField> = required("seq", Query::of(&request)?.seq("seq")?);
    let receipts = rest.inbox.receipts(caller.principal, id, seq?).await?;
    let list = |principals: Vec<crate::domain::Principal>| principals.into_iter().map(view::Principal::from).collect();
    ok(&Receipts {
        read: list(receipts.read),
        delivered: list(receipts.delivered),
        pending: list(receipts.pending),
    })
}

fn me(seen: &Seen) -> Result<HttpResponse, Problem> {
    let own = seen.membership.as_ref().ok_or(DomainError::NotAMember)?;
    ok(&view::Me::new(own, seen.unread_count, seen.mention_count))
}
