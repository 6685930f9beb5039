//! `/v1/messages/{message_id}/forward`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::message_id;
use super::reply::{created, json};
use super::{Caller, Problem, Rest};
use crate::protocol::fields::Fields;
use crate::protocol::rest::{self, Copy, Refusal};
use crate::protocol::view;
use crate::service::Forwarded;
use crate::transport::limits::body;

/// `POST …/forward`: 201 where a copy was made, 200 where there was nothing new.
pub(super) async fn forward(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = message_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let (to, key) = rest::forward(&Fields::of_body(&text)?)?;
    let done = rest.messages.forward(origin, id, &to, &key).await?;
    let new = |one: &Forwarded| one.outcome.as_ref().is_ok_and(|sent| !sent.duplicate);
    let items = done.iter().map(copy).collect();
    json(created(done.iter().any(new)), &rest::Forwarded { items })
}

fn copy(one: &Forwarded) -> Copy<'_> {
    let error = one.outcome.as_ref().err().map(|error| Refusal {
        code: error.code,
        detail: &error.detail,
        retryable: error.code.retryable(),
        original: error.extra.original.as_deref().map(view::Message::from),
        retry_after_ms: error.extra.retry_after_ms,
    });
    Copy {
        conversation_id: one.conversation_id,
        message: one.outcome.as_ref().ok().map(|sent| view::Message::from(&sent.message)),
        error,
    }
}
