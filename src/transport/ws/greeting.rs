//! Hello: from a token to a session that has its place in the hub.

use std::sync::Arc;

use actix::Recipient;

use super::Door;
use crate::auth::Claims;
use crate::delivery::outbox::Outbox;
use crate::delivery::session::{Introduced, Refused, Session};
use crate::delivery::wire::Close;
use crate::delivery::{HubHandle, wire};
use crate::domain::{Code, DeviceId, Principal};
use crate::protocol::reply::Welcome;
use crate::service::ServiceError;

/// So many hellos are looked up at once. After a restart everybody comes back (B91), and what the clients that are in do
/// must not stand in line at the store behind all of them.
pub(super) const GREETINGS_MAX: usize = 4;

/// A session's place in its hub. Leaving is dropping it, whatever ended the session.
pub(super) struct Place {
    pub(super) session: Arc<Session>,
    hub: HubHandle,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hub.unregister(&self.session);
    }
}

/// What a hello needs to become a session.
pub(super) struct Greeting {
    pub(super) id: u64,
    pub(super) hub: HubHandle,
    pub(super) outbox: Arc<Outbox>,
    pub(super) refusals: Recipient<Refused>,
    pub(super) claims: Claims,
    pub(super) frame: u64,
    pub(super) device: DeviceId,
    pub(super) platform: Option<String>,
}

impl Greeting {
    /// Finds the principal, notes the device, takes a place, and queues `welcome`.
    pub(super) async fn greet(self, door: Arc<Door>) -> Result<Place, ServiceError> {
        let turn = door.greetings.0.acquire().await;
        let principal = door.principals.resolve(&self.claims.subject).await?;
        door.rates.request(principal)?;
        door.devices
            .touch(principal, &self.device, self.platform.as_deref())
            .await?;
        let epoch = door.epoch.current().await;
        drop(turn);
        let welcome = wire::text(&self.welcome(&door, principal, epoch));
        let place = Place {
            session: Arc::new(Session::new(Introduced {
                id: self.id,
                hub: self.hub.index(),
                principal,
                device: self.device,
                outbox: self.outbox,
                refusals: self.refusals,
            })),
            hub: self.hub,
        };
        if !place.hub.register(Arc::clone(&place.session), welcome).await {
            return Err(ServiceError::new(
                Code::Unavailable,
                "the store did not answer; come back in a moment",
            ));
        }
        // Disabled while it was greeted: whoever did it may not have seen this session yet.
        if door.principals.admit(principal).await.is_err() {
            place.session.outbox().close(Close::Kicked);
        }
        Ok(place)
    }

    fn welcome(&self, door: &Door, principal: Principal, store_epoch: String) -> Welcome<'_> {
        Welcome {
            reply_to: self.frame,
            session_id: uuid::Uuid::now_v7().to_string(),
            principal: principal.into(),
            device_id: self.device.as_str(),
            server_time: door.clock.now(),
            store_epoch,
            heartbeat_secs: door.heartbeat.as_secs(),
            limits: door.limits,
        }
    }
}
