//! `/v1/me`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::reply::ok;
use super::{Caller, Problem, Rest};
use crate::protocol::fields::Fields;
use crate::protocol::rest::acknowledgement;
use crate::service::DeviceCursor;
use crate::transport::limits::body;

#[derive(Serialize)]
struct Done {}

/// `POST /v1/me/acks {device_id, acks}`
pub(super) async fn acknowledge(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let (device, acks) = acknowledgement(&Fields::of_body(&text)?)?;
    let cursors: Vec<DeviceCursor> = acks
        .iter()
        .map(|ack| DeviceCursor {
            conversation_id: ack.conversation_id,
            seq: ack.seq,
            change_seq: ack.change_seq,
        })
        .collect();
    rest.devices.acknowledge(caller.principal, &device, &cursors).await?;
    ok(&Done {})
}
