//! `/admin/v1/webhooks`: who is called when something happens, and what became of the calls.

use actix_web::http::StatusCode;
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::caller::Operator;
use super::query::{Query, delivery, webhook, webhook_to_make};
use super::reply::{created, json, ok};
use super::{Problem, Rest, cursor};
use crate::domain::EventNo;
use crate::protocol::fields::{Fields, required};
use crate::protocol::rest::List;
use crate::protocol::webhooks::{Delivery, Webhook, WebhookFields, delivery_state};
use crate::relay::WebhookPatch;
use crate::transport::limits::body;

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(web::resource("/admin/v1/webhooks").get(list))
        .service(
            web::resource("/admin/v1/webhooks/{name}")
                .get(get)
                .put(put)
                .delete(remove),
        )
        .service(web::resource("/admin/v1/webhooks/{name}/deliveries").get(deliveries))
        .service(web::resource("/admin/v1/webhooks/{name}/deliveries/{delivery_id}/redeliver").post(redeliver))
        .service(web::resource("/admin/v1/webhooks/{name}/replay").post(replay));
}

#[derive(Serialize)]
struct Done {}

/// `GET /admin/v1/webhooks?limit=&cursor=`: by name.
async fn list(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = usize::try_from(query.list_limit()?).unwrap_or(usize::MAX);
    let after = query.text("cursor").map(cursor::webhooks).transpose()?;
    let mut found = rest.webhooks.list().await?;
    found.retain(|webhook| Some(&webhook.name) > after.as_ref());
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    ok(&List {
        items: found.iter().map(Webhook::from).collect(),
        next_cursor: last.map(|last| cursor::of_webhooks(&last.name)),
    })
}

/// `GET /admin/v1/webhooks/{name}`
async fn get(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    ok(&Webhook::from(&rest.webhooks.get(&webhook(&request)?).await?))
}

/// `PUT /admin/v1/webhooks/{name} {url, secret, events}`: makes or changes one. A new one needs `url` and `secret` and is
/// called with what happens from then on; a new secret signs beside the former one for `webhooks.secret_overlap_secs`.
async fn put(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let name = webhook_to_make(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let fields = WebhookFields::read(&Fields::of_body(&text)?)?;
    let patch = WebhookPatch {
        url: fields.url,
        secret: fields.secret,
        notices: fields.events,
    };
    let (made, is_new) = rest.webhooks.put(&name, &patch).await?;
    json(created(is_new), &Webhook::from(&made))
}

/// `DELETE /admin/v1/webhooks/{name}`
async fn remove(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    rest.webhooks.remove(&webhook(&request)?).await?;
    ok(&Done {})
}

/// `GET /admin/v1/webhooks/{name}/deliveries?state=&limit=&cursor=`: the newest first.
async fn deliveries(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let (name, query) = (webhook(&request)?, Query::of(&request)?);
    let state = query.text("state").map(delivery_state).transpose()?;
    let before = query
        .text("cursor")
        .map(|text| cursor::deliveries(&name, text))
        .transpose()?;
    let limit = query.list_limit()?;
    let one_more = limit.saturating_add(1);
    let mut found = rest.webhooks.deliveries(&name, state, before, one_more).await?;
    let more = found.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let last = found.last().filter(|_| more);
    let next_cursor = last.map(|last| cursor::of_deliveries(&name, last.event_no));
    ok(&List {
        items: found.iter().map(Delivery::from).collect(),
        next_cursor,
    })
}

/// `POST /admin/v1/webhooks/{name}/deliveries/{delivery_id}/redeliver`: tries it again, whatever became of it.
async fn redeliver(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let (name, event_no) = (webhook(&request)?, delivery(&request)?);
    let found = rest.webhooks.redeliver(&name, event_no).await?;
    json(StatusCode::ACCEPTED, &Delivery::from(&found))
}

/// `POST /admin/v1/webhooks/{name}/replay {after}`: delivers everything after an event again, with the same ids.
async fn replay(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let name = webhook(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let after = required("after", Fields::of_body(&text)?.number("after")?)?;
    let found = rest.webhooks.replay(&name, EventNo::new(after)).await?;
    json(StatusCode::ACCEPTED, &Webhook::from(&found))
}
