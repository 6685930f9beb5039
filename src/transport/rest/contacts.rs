//! `/v1/contacts` and `/v1/me/blocks`

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};

use super::query::{Query, principal};
use super::reply::{Done, ok};
use super::{Caller, Problem, Rest, cursor};
use crate::protocol::notifications::{Block, Contact};
use crate::protocol::rest::List;

const NOBODY: &str = "no such user or agent";

/// `GET /v1/contacts?limit=&cursor=`, by type and id.
pub(super) async fn list(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let after = query.text("cursor").map(cursor::contacts).transpose()?;
    let page = rest.contacts.list(caller.principal, after, limit).await?;
    ok(&List {
        items: page.items.iter().map(Contact::from).collect(),
        next_cursor: page.next.map(cursor::of_contacts),
    })
}

/// `DELETE /v1/contacts/{type}/{id}`: for both; who is none is none afterwards.
pub(super) async fn end(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let who = principal(&request, NOBODY)?;
    let origin = caller.origin(&request)?;
    rest.contacts.end(origin, who).await?;
    ok(&Done {})
}

/// `GET /v1/me/blocks?limit=&cursor=`, by type and id.
pub(super) async fn blocks(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let after = query.text("cursor").map(cursor::blocks).transpose()?;
    let page = rest.contacts.blocks(caller.principal, after, limit).await?;
    ok(&List {
        items: page.items.iter().map(Block::from).collect(),
        next_cursor: page.next.map(cursor::of_blocks),
    })
}

/// `PUT /v1/me/blocks/{type}/{id}`
pub(super) async fn block(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let who = principal(&request, NOBODY)?;
    let origin = caller.origin(&request)?;
    rest.contacts.block(origin, who).await?;
    ok(&Done {})
}

/// `DELETE /v1/me/blocks/{type}/{id}`
pub(super) async fn unblock(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let who = principal(&request, NOBODY)?;
    let origin = caller.origin(&request)?;
    rest.contacts.unblock(origin, who).await?;
    ok(&Done {})
}
