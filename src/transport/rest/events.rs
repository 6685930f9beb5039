//! `/admin/v1/events`: the feed of events for back ends.

use std::time::Duration;

use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};

use super::caller::Operator;
use super::query::Query;
use super::reply::ok;
use super::{Problem, Rest};
use crate::domain::EventNo;
use crate::protocol::events::{Feed, feed_limit};

/// `GET /admin/v1/events?after=&limit=&wait_secs=`: what happened after an event, in the order in which it was committed.
/// `after` 0 or absent: from the oldest event that is kept (`events.keep_secs`). With `wait_secs` (at most 60) an answer
/// without events comes only when the time is up.
pub(super) async fn events(
    rest: Data<Rest>,
    _operator: Operator,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let after = EventNo::new(query.number("after")?.unwrap_or_default());
    let limit = feed_limit(query.number("limit")?)?;
    let wait = query.number("wait_secs")?.and_then(|secs| u64::try_from(secs).ok());
    let wait = Duration::from_secs(wait.unwrap_or_default());
    let page = rest.feed.page(after, limit, wait).await?;
    ok(&Feed::new(&page.items, page.next_after, page.newest))
}
