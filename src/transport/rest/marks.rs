//! `/v1/messages/{message_id}/reactions/{emoji}`, `/v1/messages/{message_id}/pin` and
//! `/v1/conversations/{conversation_id}/pins`

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};

use super::messages::touched;
use super::query::{Query, conversation_id, emoji, message_id};
use super::reply::ok;
use super::{Caller, Problem, Rest, cursor};
use crate::domain::Touch;
use crate::protocol::rest::List;
use crate::protocol::view;

/// `PUT …/reactions/{emoji}`: given; a repeat changes nothing. A body is not looked at.
pub(super) async fn react(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    reacted(&rest, caller, &request, true).await
}

/// `DELETE …/reactions/{emoji}`: taken back.
pub(super) async fn unreact(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    reacted(&rest, caller, &request, false).await
}

async fn reacted(rest: &Rest, caller: Caller, request: &HttpRequest, added: bool) -> Result<HttpResponse, Problem> {
    let id = message_id(request)?;
    let origin = caller.origin(request)?;
    let emoji = emoji(request)?;
    touched(rest, origin, id, Touch::React { emoji, added }).await
}

/// `PUT /v1/messages/{message_id}/pin`. A body is not looked at.
pub(super) async fn pin(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    touched(&rest, caller.origin(&request)?, message_id(&request)?, Touch::Pin(true)).await
}

/// `DELETE /v1/messages/{message_id}/pin`
pub(super) async fn unpin(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    touched(
        &rest,
        caller.origin(&request)?,
        message_id(&request)?,
        Touch::Pin(false),
    )
    .await
}

/// `GET /v1/conversations/{conversation_id}/pins?limit=&cursor=`: messages, the newest pin first.
pub(super) async fn pins(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let after = query
        .text("cursor")
        .map(|cursor| cursor::pins(id, cursor))
        .transpose()?;
    let page = rest.messages.pins(caller.principal, id, after, limit).await?;
    ok(&List {
        items: page.items.iter().map(view::Message::from).collect::<Vec<_>>(),
        next_cursor: page.next.as_ref().map(|next| cursor::of_pins(id, next)),
    })
}
