//! `/healthz` and `/readyz`, for load balancers: no token.

use actix_web::{HttpResponse, web};

use super::{Problem, Rest};

/// The process answers.
pub(super) async fn alive() -> HttpResponse {
    HttpResponse::Ok().body("ok")
}

/// The process should be given work: the store answers, nobody has asked it to stop.
pub(super) async fn ready(rest: web::Data<Rest>) -> Result<HttpResponse, Problem> {
    rest.health.ready().await?;
    Ok(HttpResponse::Ok().body("ready"))
}
