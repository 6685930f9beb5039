//! Sessions without a socket, for the tests of delivery.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use actix::{Actor, Context, Handler};

use crate::delivery::outbox::{Bounds, Outbox};
use crate::delivery::session::{Introduced, Refused, Session};
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

pub(crate) fn take(outbox: &Outbox) -> Vec<String> {
    let mut found = Vec::new();
    let cx = TaskContext::from_waker(Waker::noop());
    while let Poll::Ready(Some(chunk)) = outbox.poll_chunk(&cx) {
        found.extend(decode(&chunk));
    }
    found
}

/// What a client reads: texts as they are, a close as its code.
pub(crate) fn decode(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        let (length, rest) = match second {
            126 => (
                usize::from(u16::from_be_bytes(rest[..2].try_into().unwrap())),
                &rest[2..],
            ),
            127 => (
                u64::from_be_bytes(rest[..8].try_into().unwrap()).try_into().unwrap(),
                &rest[8..],
            ),
            short => (usize::from(*short), rest),
        };
        let payload = &rest[..length];
        frames.push(match first {
            0x81 => String::from_utf8(payload.to_vec()).unwrap(),
            0x88 => u16::from_be_bytes(payload[..2].try_into().unwrap()).to_string(),
            0x89 => "ping".to_owned(),
            0x8A => format!("pong {}", String::from_utf8_lossy(payload)),
            other => panic!("no such frame: {other}"),
        });
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty(), "half a frame");
    frames
}
