//! One actor per connection: what the client says becomes calls of the service layer. What it is told does not pass
//! through here, but for the replies that nothing has to be in order with.

mod pace;
mod requests;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, StreamHandler, WrapFuture,
};
use serde::Serialize;
use tokio::time::Instant;

use self::pace::{LookUp, Pace};
use super::Door;
use super::greeting::{Greeting, Place};
use super::inbound::{Gate, Heard};
use crate::auth::{AuthError, Claims};
use crate::delivery::HubHandle;
use crate::delivery::outbox::Outbox;
use crate::delivery::session::{Asked, Refused, SENDS_WAITING_MAX, Sending, Session, Waiting};
use crate::delivery::wire::{self, Close};
use crate::domain::{Code, DomainError, InvalidField, Origin, Send, Timestamp, Touch};
use crate::protocol::frame::{self, Frame, Hello, Incoming};
use crate::protocol::rest::SendMessage;
use crate::protocol::{reply, view};
use crate::service::ServiceError;

/// The most requests of one connection that wait for the store; beyond it `overloaded` is answered.
pub(super) const REQUESTS_MAX: usize = 32;
/// So many frames in a row that cannot be understood end the connection.
const VIOLATIONS_MAX: u32 = 20;
/// Timers are set for at most so long, and then again: a token may live for years.
const TIMER_MAX: Duration = Duration::from_hours(24);

enum Phase {
    /// Nothing was said.
    Silent,
    /// The hello is being looked at.
    Greeting,
    /// Welcomed.
    Open(Place),
    /// Being closed: nothing that comes is heard any more.
    Over,
}

/// The inbound half of a connection.
pub(super) struct SessionActor {
    id: u64,
    door: Arc<Door>,
    hub: HubHandle,
    outbox: Arc<Outbox>,
    gate: Rc<Gate>,
    /// Of the upgrade's bearer header.
    bearer: Option<Claims>,
    phase: Phase,
    expires_at: Timestamp,
    expiry: Option<SpawnHandle>,
    violations: u32,
    requests: usize,
    pace: Pace,
}

impl SessionActor {
    pub(super) fn new(
        id: u64,
        door: Arc<Door>,
        hub: HubHandle,
        outbox: Arc<Outbox>,
        gate: Rc<Gate>,
        bearer: Option<Claims>,
    ) -> Self {
        Self {
            id,
            door,
            hub,
            outbox,
            gate,
            bearer,
            phase: Phase::Silent,
            expires_at: Timestamp::default(),
            expiry: None,
            violations: 0,
            requests: 0,
            pace: Pace::default(),
        }
    }

    fn session(&self) -> Option<&Arc<Session>> {
        match &self.phase {
            Phase::Open(place) => Some(&place.session),
            _ => None,
        }
    }

    fn reply<T: Serialize>(&self, reply: &T) {
        self.outbox.push(wire::text(reply), Instant::now());
    }

    fn refuse(&mut self, reply_to: Option<u64>, error: impl Into<ServiceError>) {
        let error = error.into();
        self.reply(&reply::Error {
            retry_after_ms: error.extra.retry_after_ms,
            original: error.extra.original.as_deref().map(view::Message::from),
            last_seq: error.extra.last_seq.map(crate::domain::Seq::get),
            ..reply::Error::new(reply_to, error.code, &error.detail)
        });
        if error.code == Code::InvalidRequest {
            self.violations += 1;
            if self.violations >= VIOLATIONS_MAX {
                self.outbox.close(Close::Violation);
            }
        }
    }

    fn text(&mut self, text: &str, ctx: &mut Context<Self>) {
        if !self.outbox.is_open() {
            return;
        }
        if let Some(session) = self.session() {
            session.heard();
        }
        let Incoming { id, frame } = frame::parse(text, self.door.limits.content_bytes);
        match (&self.phase, frame) {
            (Phase::Silent, frame) => self.first(id, frame, ctx),
            (Phase::Open(place), frame) => {
                let session = Arc::clone(&place.session);
                match (self.admit(&frame, session.principal()), frame) {
                    (Ok(()), Ok(frame)) => self.frame(id.unwrap_or_default(), frame, &session, ctx),
                    (Ok(()), Err(error)) => self.refuse(id, error),
                    // The first thing that is shed; nobody misses it.
                    (Err(_), Ok(Frame::Typing { .. })) => {}
                    (Err(error), _) => self.slow_down(id, error, ctx),
                }
            }
            // The gate is shut while a hello is looked at, and nothing is heard at the end.
            (Phase::Greeting | Phase::Over, _) => {}
        }
    }

    fn first(&mut self, id: Option<u64>, frame: Result<Frame<'_>, DomainError>, ctx: &mut Context<Self>) {
        let verified = match frame {
            Ok(Frame::Hello(hello)) => self.verify(hello.token.as_deref()).map(|claims| (hello, claims)),
            // A hello, but not a good one.
            Err(DomainError::Invalid(invalid)) if matches!(invalid.field, "device_id" | "platform") => {
                Err(invalid.into())
            }
            _ => Err(ServiceError::new(
                Code::Unauthenticated,
                "the first frame must be a hello with a token",
            )),
        };
        match verified {
            Ok((hello, claims)) => self.greet(id.unwrap_or_default(), hello, claims, ctx),
            Err(error) => self.turn_away(id, error),
        }
    }

    fn turn_away(&mut self, reply_to: Option<u64>, error: ServiceError) {
        let reason = if error.code.retryable() {
            Close::TryAgainLater
        } else {
            Close::NoHello
        };
        self.phase = Phase::Over;
        self.refuse(reply_to, error);
        self.outbox.close(reason);
    }

    fn verify(&self, token: Option<&str>) -> Result<Claims, ServiceError> {
        let claims = match (token, &self.bearer) {
            (Some(token), _) => self.door.authenticator.verify(token, self.door.clock.now()),
            (None, Some(claims)) => Ok(claims.clone()),
            (None, None) => Err(AuthError::Missing),
        };
        claims.map_err(|error| ServiceError::new(Code::Unauthenticated, error.to_string()))
    }

    fn greet(&mut self, frame: u64, hello: Hello<'_>, claims: Claims, ctx: &mut Context<Self>) {
        self.phase = Phase::Greeting;
        self.gate.shut();
        self.expires_at = claims.expires_at;
        let greeting = Greeting {
            id: self.id,
            hub: self.hub.clone(),
            outbox: Arc::clone(&self.outbox),
            refusals: ctx.address().recipient(),
            claims,
            frame,
            device: hello.device_id,
            platform: hello.platform.map(std::borrow::Cow::into_owned),
        };
        let greeted = greeting.greet(Arc::clone(&self.door)).into_actor(self);
        ctx.spawn(greeted.map(move |place, actor, ctx| {
            match place {
                Ok(place) => {
                    actor.phase = Phase::Open(place);
                    actor.watch_expiry(ctx);
                }
                Err(error) => actor.turn_away(Some(frame), error),
            }
            actor.gate.open();
        }));
    }

    fn frame(&mut self, id: u64, frame: Frame<'_>, session: &Arc<Session>, ctx: &mut Context<Self>) {
        if let Frame::Acknowledge(acks) = &frame
            && acks.len() > self.door.limits.acks_per_frame
        {
            return self.refuse(
                Some(id),
                InvalidField::new("acks", "has more entries than limits.acks_per_frame"),
            );
        }
        if let Frame::Hello(_) = frame {
            return self.refuse(
                Some(id),
                InvalidField::new("type", "hello was said already; auth renews the token"),
            );
        }
        self.violations = 0;
        match frame {
            Frame::Hello(_) => {}
            Frame::Auth { token } => self.renew(id, &token, session, ctx),
            Frame::Send {
                conversation_id,
                message,
            } => {
                self.send(id, conversation_id, *message, session);
                self.pause_when_full(ctx);
            }
            Frame::Edit { message_id, content } => self.touch(id, message_id, Touch::Edit(content), session, ctx),
            Frame::Recall { message_id } => {
                let touch = self.door.messages.recall_now();
                self.touch(id, message_id, touch, session, ctx);
            }
            Frame::Acknowledge(acks) => self.acknowledge(id, acks, session, ctx),
            Frame::Read { conversation_id, seq } => self.read(id, conversation_id, seq, session, ctx),
            Frame::History(history) => self.look_up(id, LookUp::History(history), session, ctx),
            Frame::Sync(ask) => self.look_up(id, LookUp::Sync(ask), session, ctx),
            Frame::Ping => {
                if !self.hub.ping(self.id, id) {
                    self.refuse(Some(id), overloaded());
                }
            }
            Frame::Typing { conversation_id } => {
                if let Some(conversation_id) = conversation_id {
                    self.hub.typing(self.id, conversation_id);
                }
            }
        }
    }

    /// Hands the send on before the next frame is looked at, so that pipelined sends keep their order.
    fn send(
        &mut self,
        id: u64,
        conversation_id: crate::domain::ConversationId,
        message: SendMessage,
        session: &Session,
    ) {
        if self.door.delivery.is_closing() {
            let error = ServiceError::new(
                Code::Unavailable,
                "the server restarts; send it again with the same key",
            );
            return self.refuse(Some(id), error);
        }
        let waiting = Waiting {
            frame: id,
            asked: Asked::Send(Sending {
                conversation_id,
                client_message_id: message.client_message_id.clone(),
            }),
        };
        let Some(reply) = session.await_answer(waiting) else {
            return self.refuse(Some(id), overloaded());
        };
        let send = Send {
            origin: origin(session),
            client_message_id: message.client_message_id,
            message_type: message.message_type,
            content: message.content,
            content_hash: message.content_hash,
            quoted_message_id: message.quoted_message_id,
            expected_last_seq: message.expected_last_seq,
        };
        self.door.messages.dispatch(conversation_id, send, reply);
    }

    fn watch_expiry(&mut self, ctx: &mut Context<Self>) {
        if let Some(earlier) = self.expiry.take() {
            ctx.cancel_future(earlier);
        }
        let left = self.expires_at.millis() - self.door.clock.now().millis();
        if left <= 0 {
            return self.outbox.close(Close::Expired);
        }
        let left = Duration::from_millis(u64::try_from(left).unwrap_or_default()).min(TIMER_MAX);
        self.expiry = Some(ctx.run_later(left, Self::watch_expiry));
    }

    fn watch_hello(&mut self, _ctx: &mut Context<Self>) {
        match self.phase {
            Phase::Silent => self.outbox.close(Close::NoHello),
            Phase::Greeting => self.outbox.close(Close::TryAgainLater),
            Phase::Open(_) | Phase::Over => {}
        }
    }
}

fn origin(session: &Session) -> Origin {
    Origin {
        principal: session.principal(),
        device: Some(session.device().clone()),
    }
}

fn overloaded() -> ServiceError {
    ServiceError::new(
        Code::Overloaded,
        "too much of this connection is waiting; go on when some of it is answered",
    )
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(SENDS_WAITING_MAX);
        ctx.run_later(self.door.hello_timeout, Self::watch_hello);
        let outbox = Arc::clone(&self.outbox);
        let end = async move {
            if let Some(grace) = outbox.closing().await
                && tokio::time::timeout(grace, outbox.over()).await.is_err()
            {
                outbox.cut();
            }
        };
        ctx.spawn(end.into_actor(self).map(|(), _, ctx| ctx.stop()));
    }
}

impl Drop for SessionActor {
    /// Also when it panicked.
    fn drop(&mut self) {
        self.outbox.end();
        self.door.delivery.closed(self.id);
    }
}

impl StreamHandler<Result<Heard, Close>> for SessionActor {
    fn handle(&mut self, heard: Result<Heard, Close>, ctx: &mut Context<Self>) {
        match heard {
            Ok(Heard::Text(text)) => self.text(&text, ctx),
            Ok(Heard::Ping(payload)) => {
                if let Some(session) = self.session() {
                    session.heard();
                }
                self.outbox.push(wire::pong(&payload), Instant::now());
            }
            Ok(Heard::Pong) => {
                if let Some(session) = self.session() {
                    session.heard();
                }
            }
            Ok(Heard::Close(code)) => {
                self.phase = Phase::Over;
                self.outbox.peer_closed(code);
            }
            Err(reason) => self.outbox.close(reason),
        }
    }

    fn finished(&mut self, _ctx: &mut Context<Self>) {
        // The client is gone. The actor stays until the writer has noticed, or is cut.
        self.phase = Phase::Over;
        self.outbox.end();
    }
}

impl Handler<Refused> for SessionActor {
    type Result = ();

    fn handle(&mut self, Refused { frame, error }: Refused, ctx: &mut Context<Self>) {
        let Some(viewer) = self.session().map(|session| session.principal()) else {
            return;
        };
        let door = Arc::clone(&self.door);
        let words = async move { door.messages.refusal(viewer, error).await };
        let refused = words.into_actor(self);
        ctx.spawn(refused.map(move |error, actor: &mut Self, _| {
            actor.refuse(Some(frame), error);
            if let Some(session) = actor.session() {
                session.refused();
            }
        }));
    }
}
