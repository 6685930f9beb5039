//! The REST door: one file per resource, each handler only extract -> service -> respond.
//!
//! Never here: a rule, or a check of rights; those are asked of `service`, and there of the writer.
//! Order of refusal: the token first ([`Caller`] is extracted before the body is read), then syntax, then the rest.

mod actions;
mod admin;
mod announcements;
mod caller;
mod contacts;
mod conversations;
mod cursor;
mod events;
mod files;
mod forward;
mod health;
mod marks;
mod me;
mod members;
mod messages;
mod notifications;
mod own;
mod problem;
mod query;
mod reply;
mod sync;
mod users;
mod webhooks;

use std::sync::Arc;

use actix_web::web::{self, ServiceConfig};

pub use caller::{Caller, bearer};
pub(super) use conversations::as_member;
pub use problem::{Problem, problems};

use super::limits::Limits;
use super::rates::Rates;
use crate::auth::{Authenticator, OperatorKey, Signer};
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::domain::Code;
use crate::relay::{Feed, Webhooks};
use crate::service::{
    Announcements, Contacts, Conversations, Devices, Files, Health, Inbox, Messages, Notifications, Principals,
    ServiceError, Sync, Users,
};

/// What the REST door needs; `app` makes one and shares it with all workers.
pub struct Rest {
    /// Checks tokens.
    pub authenticator: Arc<Authenticator>,
    /// By which tokens expire.
    pub clock: Arc<dyn Clock>,
    /// Who is who.
    pub principals: Arc<Principals>,
    /// Makes and finds conversations.
    pub conversations: Arc<Conversations>,
    /// Sends and reads.
    pub messages: Arc<Messages>,
    /// Devices and what they acknowledged.
    pub devices: Arc<Devices>,
    /// What users do for themselves.
    pub inbox: Arc<Inbox>,
    /// Friend requests, invitations, and what becomes of them.
    pub notifications: Arc<Notifications>,
    /// What is said to many at once.
    pub announcements: Arc<Announcements>,
    /// Contacts and blocks.
    pub contacts: Arc<Contacts>,
    /// Uploads and downloads.
    pub files: Arc<Files>,
    /// Catching up.
    pub sync: Arc<Sync>,
    /// For load balancers.
    pub health: Arc<Health>,
    /// Who is how to be shown, and who may use the server.
    pub users: Arc<Users>,
    /// Tells who is connected.
    pub delivery: Arc<Delivery>,
    /// Events for back ends to read.
    pub feed: Feed,
    /// Who is called when something happens.
    pub webhooks: Webhooks,
    /// Makes tokens for the operator; none where only public keys are configured.
    pub signer: Option<Signer>,
    /// Opens what only the operator may do.
    pub operator_key: OperatorKey,
    /// Bounds before parsing.
    pub limits: Limits,
    /// How often a principal may ask.
    pub rates: Arc<Rates>,
}

/// The routes. Wrap the app in [`problems`], so that every refusal is a problem document.
pub fn routes(rest: Arc<Rest>) -> impl FnOnce(&mut ServiceConfig) + Clone {
    move |config| {
        config
            .app_data(web::Data::from(rest))
            .configure(health::routes)
            .service(
                web::resource("/v1/conversations")
                    .get(conversations::list)
                    .post(conversations::create),
            )
            .service(
                web::resource("/v1/conversations/{conversation_id}")
                    .get(conversations::get)
                    .patch(conversations::update)
                    .delete(conversations::dissolve),
            )
            .service(
                web::resource("/v1/conversations/{conversation_id}/members")
                    .get(members::list)
                    .post(members::add),
            )
            .service(
                web::resource("/v1/conversations/{conversation_id}/members/{type}/{id}")
                    .delete(members::remove)
                    .patch(members::set_role),
            )
            .service(
                web::resource("/v1/conversations/{conversation_id}/messages")
                    .get(messages::history)
                    .post(messages::send),
            )
            .service(
                web::resource("/v1/messages/{message_id}")
                    .get(messages::get)
                    .patch(messages::edit)
                    .delete(messages::delete),
            )
            .service(web::resource("/v1/messages/{message_id}/recall").post(messages::recall))
            .service(
                web::resource("/v1/messages/{message_id}/reactions/{emoji}")
                    .put(marks::react)
                    .delete(marks::unreact),
            )
            .service(
                web::resource("/v1/messages/{message_id}/pin")
                    .put(marks::pin)
                    .delete(marks::unpin),
            )
            .service(web::resource("/v1/messages/{message_id}/forward").post(forward::forward))
            .service(web::resource("/v1/conversations/{conversation_id}/pins").get(marks::pins))
            .service(web::resource("/v1/conversations/{conversation_id}/me").put(own::settings_of))
            .service(web::resource("/v1/conversations/{conversation_id}/clear").post(own::clear))
            .service(web::resource("/v1/conversations/{conversation_id}/read").post(own::read))
            .service(web::resource("/v1/conversations/{conversation_id}/receipts").get(own::receipts))
            .service(
                web::resource("/v1/messages/{message_id}/actions/{action_type}")
                    .put(actions::set)
                    .delete(actions::unset),
            )
            .service(web::resource("/v1/me/actions").get(actions::list))
            .service(web::resource("/v1/me/acks").post(me::acknowledge))
            .service(web::resource("/v1/me/devices").get(me::devices))
            .service(web::resource("/v1/me/devices/{device_id}").delete(me::forget_device))
            .service(web::resource("/v1/me/unread").get(me::unread))
            .service(web::resource(["/v1/sync", "/v1/syncMessages"]).post(sync::sync))
            .configure(among_people)
            .configure(files::routes)
            .configure(admin::routes)
            .default_service(web::to(nowhere));
    }
}

/// What people have to do with each other outside conversations.
fn among_people(config: &mut ServiceConfig) {
    config
        .service(web::resource("/v1/me").get(users::own).patch(users::change_own))
        .service(web::resource("/v1/users/{type}/{id}").get(users::get))
        .service(web::resource("/v1/contacts/requests").post(notifications::request))
        .service(web::resource("/v1/contacts").get(contacts::list))
        .service(web::resource("/v1/contacts/{type}/{id}").delete(contacts::end))
        .service(web::resource("/v1/me/blocks").get(contacts::blocks))
        .service(
            web::resource("/v1/me/blocks/{type}/{id}")
                .put(contacts::block)
                .delete(contacts::unblock),
        )
        .service(web::resource("/v1/conversations/{conversation_id}/invites").post(notifications::invite))
        .service(web::resource("/v1/notifications").get(notifications::list))
        .service(web::resource("/v1/notifications/{notification_id}/accept").post(notifications::accept))
        .service(web::resource("/v1/notifications/{notification_id}/decline").post(notifications::decline))
        .service(web::resource("/v1/notifications/{notification_id}/read").post(notifications::read));
}

async fn nowhere() -> Result<&'static str, Problem> {
    Err(ServiceError::new(Code::NotFound, "there is nothing at this path").into())
}
