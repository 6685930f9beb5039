//! `/v1/me`

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use super::query::{Query, device_id};
use super::reply::{Done, ok};
use super::{Caller, Problem, Rest, cursor};
use crate::protocol::fields::Fields;
use crate::protocol::rest::{List, acknowledgement};
use crate::protocol::sync::{Device, Unread, UnreadTotal};
use crate::service::DeviceCursor;
use crate::transport::limits::body;

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

/// `GET /v1/me/devices?limit=&cursor=`: ordered by name.
pub(super) async fn devices(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let query = Query::of(&request)?;
    let limit = query.list_limit()?;
    let after = query.text("cursor").map(cursor::devices).transpose()?;
    let page = rest.devices.list(caller.principal, after.as_ref(), limit).await?;
    let now = rest.clock.now();
    let devices = page.items.iter().map(|device| {
        let online = rest.delivery.is_connected(caller.principal, &device.device_id);
        Device {
            device_id: device.device_id.as_str(),
            platform: device.platform.as_deref(),
            online,
            last_seen_at: if online { now } else { device.last_seen_at },
        }
    });
    ok(&List {
        items: devices.collect(),
        next_cursor: page.next.as_ref().map(cursor::of_devices),
    })
}

/// `DELETE /v1/me/devices/{device_id}`
pub(super) async fn forget_device(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let device = device_id(&request).await?;
    // Its connection first, or what that acknowledges would be kept.
    rest.delivery.kick(caller.principal, &device);
    rest.devices.forget(caller.principal, &device).await?;
    ok(&Done {})
}

/// `GET /v1/me/unread`
pub(super) async fn unread(rest: Data<Rest>, caller: Caller) -> Result<HttpResponse, Problem> {
    let unread = rest.sync.unread(caller.principal).await?;
    let conversations = unread.conversations.iter().map(|one| Unread {
        conversation_id: one.conversation_id.get(),
        unread_count: one.unread_count,
        mention_count: one.mention_count,
        muted: one.muted,
    });
    ok(&UnreadTotal {
        total: unread.total,
        conversations: conversations.collect(),
    })
}
