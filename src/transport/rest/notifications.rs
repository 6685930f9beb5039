//! `/v1/notifications`, and how they come about: `/v1/contacts/requests`, `/v1/conversations/{conversation_id}/invites`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::{Query, conversation_id, notification_id};
use super::reply::{created, json, ok};
use super::{Caller, Problem, Rest, cursor};
use crate::domain::NotificationAnswer;
use crate::protocol::fields::Fields;
use crate::protocol::notifications::{Invited, Notification, friend_request, invited, state};
use crate::protocol::rest::List;
use crate::transport::limits::body;

/// `POST /v1/contacts/requests {to, text?}`: 201 for a new one, 200 for the one that is pending or has made them contacts.
pub(super) async fn request(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let (to, words) = friend_request(&Fields::of_body(&text)?)?;
    let asked = rest.notifications.request(origin, &to, words).await?;
    let seen = Notification::seen_by(caller.principal, &asked.notification);
    json(created(asked.created), &seen)
}

/// `POST /v1/conversations/{conversation_id}/invites {to: [principal]}`
pub(super) async fn invite(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let origin = caller.origin(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let named = invited(&Fields::of_body(&text)?)?;
    let notes = rest.notifications.invite(origin, id, &named).await?;
    ok(&Invited {
        items: notes
            .iter()
            .map(|note| Notification::seen_by(caller.principal, note))
            .collect(),
    })
}

/// `GET /v1/notifications?state=&limit=&cursor=`, the newest first.
pub(super) async fn list(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let state = query.text("state").map(state).transpose()?;
    let before = query.text("cursor").map(cursor::notifications).transpose()?;
    let page = rest.notifications.list(caller.principal, state, before, limit).await?;
    ok(&List {
        items: page.items.iter().map(Notification::from).collect(),
        next_cursor: page.next.map(cursor::of_notifications),
    })
}

/// `POST /v1/notifications/{notification_id}/accept`
pub(super) async fn accept(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    answer(&rest, caller, &request, NotificationAnswer::Accept).await
}

/// `POST /v1/notifications/{notification_id}/decline`
pub(super) async fn decline(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    answer(&rest, caller, &request, NotificationAnswer::Decline).await
}

/// `POST /v1/notifications/{notification_id}/read`
pub(super) async fn read(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    answer(&rest, caller, &request, NotificationAnswer::Read).await
}

async fn answer(
    rest: &Rest,
    caller: Caller,
    request: &HttpRequest,
    answer: NotificationAnswer,
) -> Result<HttpResponse, Problem> {
    let id = notification_id(request)?;
    let origin = caller.origin(request)?;
    let note = rest.notifications.answer(origin, id, answer).await?;
    ok(&Notification::from(&note))
}
