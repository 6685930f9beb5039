//! Sessions without a socket, for the tests of delivery.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use actix::{Actor, Context, Handler};
use actix_http::ws::Frame;
use actix_web::body::MessageBody;

use super::outbox::{Bounds, Outbox, OutboxBody};
use super::session::{Introduced, Refused, Session};
use super::wire::tests::decode;
use crate::domain::{DeviceId, Principal};

/// Plenty.
pub(crate) const BOUNDS: Bounds = Bounds {
    bytes: 1 << 20,
    age: Duration::from_secs(30),
};

struct Deaf;

impl Actor for Deaf {
    type Context = Context<Self>;
}

impl Handler<Refused> for Deaf {
    type Result = ();

    fn handle(&mut self, _refused: Refused, _ctx: &mut Context<Self>) {}
}

pub(crate) fn device(name: &str) -> DeviceId {
    DeviceId::parse(name).unwrap()
}

/// A session of hub 0 that nobody reads but [`texts`].
pub(crate) fn session(id: u64, principal: Principal, name: &str) -> Arc<Session> {
    session_with(id, principal, name, BOUNDS)
}

pub(crate) fn session_with(id: u64, principal: Principal, name: &str, bounds: Bounds) -> Arc<Session> {
    Arc::new(Session::new(Introduced {
        id,
        hub: 0,
        principal,
        device: device(name),
        outbox: Arc::new(Outbox::new(bounds, None)),
        refusals: Deaf.start().recipient(),
    }))
}

/// What waits for the session: texts as JSON, a close as its code.
pub(crate) fn texts(session: &Session) -> Vec<String> {
    take(&session.shared_outbox())
}

pub(crate) fn take(outbox: &Arc<Outbox>) -> Vec<String> {
    // Not dropped: that would end the connection.
    let mut body = std::mem::ManuallyDrop::new(OutboxBody::new(Arc::clone(outbox)));
    let mut found = Vec::new();
    let mut cx = TaskContext::from_waker(Waker::noop());
    while let Poll::Ready(Some(chunk)) = Pin::new(&mut *body).poll_next(&mut cx) {
        found.extend(decode(&chunk.unwrap()).into_iter().map(|frame| match frame {
            Frame::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            Frame::Close(Some(reason)) => u16::from(reason.code).to_string(),
            other => format!("{other:?}"),
        }));
    }
    found
}
