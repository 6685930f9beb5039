//! `/healthz` and `/readyz`, for load balancers: no token.

use actix_web::HttpResponse;
use actix_web::web::{self, ServiceConfig};

use super::{Problem, Rest};

/// The routes.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(web::resource("/healthz").get(alive).head(alive))
        .service(web::resource("/readyz").get(ready).head(ready));
}

/// The process answers.
async fn alive() -> HttpResponse {
    HttpResponse::Ok().body("ok")
}

/// The process should be given work: the store answers, nobody has asked it to stop.
async fn ready(rest: web::Data<Rest>) -> Result<HttpResponse, Problem> {
    rest.health.ready().await?;
    Ok(HttpResponse::Ok().body("ready"))
}
