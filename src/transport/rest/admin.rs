//! `/admin/v1`: what only the operator may do. Every handler takes an [`Operator`] first.

use actix_web::http::StatusCode;
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use super::caller::Operator;
use super::conversations::as_member;
use super::messages::{sending, sent, touched};
use super::query::{Query, conversation_id, message_id, user};
use super::reply::{created, json, ok};
use super::{Problem, Rest};
use crate::domain::{Code, Origin, Principal, PrincipalType, Timestamp, Touch};
use crate::protocol::admin::{self, NewToken, Sender, Stats, Token, User};
use crate::protocol::fields::Fields;
use crate::protocol::rest::{SendMessage, new_conversation};
use crate::service::ServiceError;
use crate::transport::limits::{MEMBERS_BODY_BYTES_MAX, body};

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(web::resource("/admin/v1/users/{id}").get(get_user).put(put_user))
        .service(web::resource("/admin/v1/tokens").post(make_token))
        .service(web::resource("/admin/v1/conversations").post(make_conversation))
        .service(web::resource("/admin/v1/conversations/{conversation_id}/messages").post(send))
        .service(web::resource("/admin/v1/messages/{message_id}").delete(delete_message))
        .configure(super::webhooks::routes)
        .configure(super::announcements::routes)
        .service(web::resource("/admin/v1/events").get(super::events::events))
        .service(web::resource("/admin/v1/stats").get(stats));
}

/// `DELETE /admin/v1/messages/{message_id}`: as `DELETE /v1/messages/{message_id}` with the same key.
async fn delete_message(rest: Data<Rest>, operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    touched(&rest, operator.0, message_id(&request)?, Touch::Delete).await
}

/// `GET /admin/v1/users/{id}?type=`
async fn get_user(rest: Data<Rest>, _operator: Operator, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let who = named(&request)?;
    ok(&User::from(&rest.users.get(who).await?))
}

/// `PUT /admin/v1/users/{id}?type= {display_name, avatar_url, external_id, status}`: makes or changes one.
async fn put_user(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let who = named(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let patch = admin::user(&Fields::of_body(&text)?)?;
    ok(&User::from(&rest.users.put(who, &patch).await?))
}

/// The USER with the `{id}` of the path; `?type=AGENT` names the agent with that number.
fn named(request: &HttpRequest) -> Result<Principal, ServiceError> {
    const TYPE: &str = "type: must be USER or AGENT";
    let kind = match Query::of(request)?.text("type") {
        None => PrincipalType::User,
        Some(word) => PrincipalType::parse(word)
            .filter(|kind| *kind != PrincipalType::System)
            .ok_or_else(|| ServiceError::new(Code::InvalidRequest, TYPE))?,
    };
    Ok(user(request, kind)?)
}

/// `POST /admin/v1/tokens {sub, typ, ttl_secs}`
async fn make_token(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let asked = NewToken::read(&Fields::of_body(&text)?)?;
    let signer = rest.signer.as_ref().ok_or_else(|| {
        let detail = "this server checks tokens with public keys only; whoever has the private key makes them";
        ServiceError::new(Code::Forbidden, detail)
    })?;
    let ttl_ms = i64::try_from(asked.ttl.as_millis()).unwrap_or(i64::MAX);
    let until = rest.clock.now().millis().saturating_add(ttl_ms);
    // A token's own clock has seconds.
    let expires_at = Timestamp::from_millis(until - until.rem_euclid(1_000));
    let token = signer.token(&asked.sub, asked.kind, expires_at);
    let token = token.map_err(|error| ServiceError::internal(&error))?;
    let body = Token {
        token: &token,
        expires_at,
    };
    json(StatusCode::CREATED, &body)
}

/// `POST /admin/v1/conversations`: as `POST /v1/conversations`, in the name of `owner`.
async fn make_conversation(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let text = body(request.headers(), payload, MEMBERS_BODY_BYTES_MAX).await?;
    let fields = Fields::of_body(&text)?;
    let (owner, new) = (admin::owner(&fields)?, new_conversation(&fields)?);
    let principal = rest.principals.resolve_one(&owner).await?;
    let origin = Origin {
        principal,
        device: None,
    };
    let made = rest.conversations.create(origin, new).await?;
    json(created(made.created), &as_member(&made.seen)?)
}

/// `POST /admin/v1/conversations/{conversation_id}/messages`: as `POST /v1/…`, in the name of `sender`.
async fn send(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = conversation_id(&request)?;
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let fields = Fields::of_body(&text)?;
    let (sender, asked) = (
        admin::sender(&fields)?,
        SendMessage::read(&fields, rest.limits.content_bytes)?,
    );
    let principal = match sender {
        Sender::System => Principal::SYSTEM,
        Sender::Somebody(subject) => rest.principals.resolve_one(&subject).await?,
    };
    let origin = Origin {
        principal,
        device: None,
    };
    sent(&rest.messages.send_for(id, sending(origin, asked)).await?)
}

/// `GET /admin/v1/stats`
async fn stats(rest: Data<Rest>, _operator: Operator) -> Result<HttpResponse, Problem> {
    let totals = rest.users.totals().await?;
    ok(&Stats {
        version: env!("CARGO_PKG_VERSION"),
        server_time: rest.clock.now(),
        sessions: rest.delivery.online(),
        conversations: totals.conversations,
        principals: totals.principals,
    })
}
