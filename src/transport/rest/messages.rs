//! `/v1/conversations/{conversation_id}/messages` and `/v1/messages/{message_id}`

use actix_web::web::{Data, Payload};
use actix_web::{FromRequest, HttpRequest, HttpResponse};

use super::caller::operator;
use super::query::{Query, conversation_id, message_id};
use super::reply::{created, json, ok};
use super::{Caller, Problem, Rest};
use crate::domain::{MessageId, Origin, Send, Touch};
use crate::protocol::fields::{Fields, limit};
use crate::protocol::frame::{HISTORY_LIMIT_DEFAULT, HISTORY_LIMIT_MAX, edited};
use crate::protocol::rest::{History, SendMessage, Sent, Touched};
use crate::protocol::view;
use crate::service::HistoryQuery;
use crate::transport::limits::{ANSWER_BYTES_MAX, body};

/// `POST …/messages`: 201 for a new message, 200 for a repeat of its key.
pub(super) async fn send(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let asked = SendMessage::read(&Fields::of_body(&text)?, rest.limits.content_bytes)?;
    sent(&rest.messages.send(id, sending(origin, asked)).await?)
}

/// What is asked for, in the name of `origin`.
pub(super) fn sending(origin: Origin, asked: SendMessage) -> Send {
    Send {
        origin,
        client_message_id: asked.client_message_id,
        message_type: asked.message_type,
        content: asked.content,
        content_hash: asked.content_hash,
        quoted_message_id: asked.quoted_message_id,
        expected_last_seq: asked.expected_last_seq,
    }
}

pub(super) fn sent(done: &crate::service::Sent) -> Result<HttpResponse, Problem> {
    let body = Sent {
        message: view::Message::from(&done.message),
        duplicate: done.duplicate,
    };
    json(created(!done.duplicate), &body)
}

/// `GET …/messages?before_seq=&after_seq=&limit=`
pub(super) async fn history(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let conversation_id = conversation_id(&request)?;
    let query = Query::of(&request)?;
    let query = HistoryQuery {
        conversation_id,
        before_seq: query.seq("before_seq")?,
        after_seq: query.seq("after_seq")?,
        limit: limit(query.number("limit")?, HISTORY_LIMIT_DEFAULT, HISTORY_LIMIT_MAX)?,
    };
    let page = rest.messages.history(caller.principal, query).await?;
    let page = page.within(ANSWER_BYTES_MAX, query.after_seq.is_some());
    ok(&History {
        items: page.items.iter().map(view::Message::from).collect(),
        has_more: page.has_more,
    })
}

/// `PATCH /v1/messages/{message_id}`: other words.
pub(super) async fn edit(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = message_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let content = edited(&Fields::of_body(&text)?, rest.limits.content_bytes)?;
    touched(&rest, origin, id, Touch::Edit(content)).await
}

/// `POST /v1/messages/{message_id}/recall`: taken back. A body is not looked at.
pub(super) async fn recall(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = message_id(&request)?;
    let origin = caller.origin(&request)?;
    touched(&rest, origin, id, rest.messages.recall_now()).await
}

/// `DELETE /v1/messages/{message_id}`: removed for everyone, by an admin of the group or by the admin key.
pub(super) async fn delete(rest: Data<Rest>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let origin = match operator(&request, &rest.operator_key) {
        Some(operator) => operator,
        None => Caller::extract(&request).await?.origin(&request)?,
    };
    touched(&rest, origin, message_id(&request)?, Touch::Delete).await
}

/// Does something to a message, and shows what became of it as the caller sees it.
pub(super) async fn touched(rest: &Rest, origin: Origin, id: MessageId, touch: Touch) -> Result<HttpResponse, Problem> {
    let viewer = origin.principal;
    let done = rest.messages.touch(origin, id, touch).await?;
    let marks = done.message.marks_for(viewer);
    let message = || view::Message::new(&done.message.message, &marks);
    let change = done.change.as_deref();
    ok(&Touched {
        message: message(),
        change: change.map(|change| view::Change::new(change, Some(message()))),
    })
}

/// `GET /v1/messages/{message_id}`
pub(super) async fn get(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let id = message_id(&request)?;
    let message = rest.messages.get(caller.principal, id).await?;
    ok(&view::Message::from(&message))
}
