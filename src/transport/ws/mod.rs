//! The WebSocket door: the upgrade, frames in, and one actor per connection that turns them into calls of `service`.
//!
//! Never here: a rule, a right, a push (those come from `delivery` and never pass through an actor's mailbox).
//! Invariants: a frame is bounded before it is collected; sends are handed on in the order in which they came.

mod actor;
mod body;
mod greeting;
mod inbound;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

pub use upgrade::remember_socket;

use actix_web::web::{self, Data, ServiceConfig};
use ipnet::IpNet;
use tokio::sync::Semaphore;

use crate::auth::Authenticator;
use crate::clock::Clock;
use crate::delivery::{Delivery, HubHandle};
use crate::protocol::reply;
use crate::service::{Devices, Epoch, Inbox, Messages, Principals, Sync};
use crate::transport::rates::Rates;

/// What the WebSocket door needs; `app` makes one and shares it with all workers.
pub struct Door {
    /// Checks tokens.
    pub authenticator: Arc<Authenticator>,
    /// By which tokens expire.
    pub clock: Arc<dyn Clock>,
    /// Who is who.
    pub principals: Arc<Principals>,
    /// Sends and reads.
    pub messages: Arc<Messages>,
    /// Devices and what they acknowledged.
    pub devices: Arc<Devices>,
    /// What users do for themselves.
    pub inbox: Arc<Inbox>,
    /// Catching up.
    pub sync: Arc<Sync>,
    /// What was committed.
    pub delivery: Arc<Delivery>,
    /// How long a client may take to say hello.
    pub hello_timeout: Duration,
    /// How often the server pings.
    pub heartbeat: Duration,
    /// Told to clients, and kept to.
    pub limits: reply::Limits,
    /// Who is being greeted.
    pub greetings: Greetings,
    /// How often a principal may ask and an address may connect.
    pub rates: Arc<Rates>,
    /// Whose word counts on where a client comes from.
    pub trusted_proxies: Vec<IpNet>,
    /// Told to clients: another one means another store.
    pub epoch: Arc<Epoch>,
}

/// Lets a few hellos at once to the store.
pub struct Greetings(Semaphore);

impl Default for Greetings {
    fn default() -> Self {
        Self(Semaphore::new(greeting::GREETINGS_MAX))
    }
}

/// The route. `hub` is the one of the worker on whose thread the app is made: [`Delivery::start_hub`]. The server needs
/// [`remember_socket`] as its `on_connect`: frames are written with the handle that it keeps.
pub fn routes(door: Arc<Door>, hub: HubHandle) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        let resource = web::resource("/v1/ws")
            .app_data(Data::from(door))
            .app_data(Data::new(hub));
        config.service(resource.get(upgrade::upgrade));
    }
}
