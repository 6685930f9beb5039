//! The hub's mailbox: registrations, fans, answers and pings of the sessions of one arbiter, in order of arrival.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, ContextFutureSpawner, Handler, Message, WrapFuture};
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::fan::{Fan, Hidden, Item};
use super::super::session::{Asked, Refused, Sending, Session};
use super::super::shared::{HubLoad, Shared};
use super::super::wire::{self, Close};
use super::roster::Roster;
use crate::conversation::{Answer, CommandError, SessionReply};
use crate::domain::{ConversationId, KeyRecord, Outcome};
use crate::protocol::reply::{Pong, Push, Read, Sent, Touched};
use crate::protocol::view;

/// The most that may wait for a hub. Beyond it something is lost to its sessions, so all of them are cut with 4008.
pub const HUB_MAILBOX_MAX: usize = 16_384;
/// After so many pushes a hub lets the connections write.
const TURN_PUSHES_MAX: usize = 4_096;
/// How often the hub looks for silent and stuck sessions, unless the heartbeat asks for more.
const TICK_MAX: Duration = Duration::from_secs(1);
/// How often a sender's typing is passed on.
const TYPING_EVERY: Duration = Duration::from_secs(1);

/// The sessions of one arbiter.
pub struct Hub {
    index: usize,
    shared: Arc<Shared>,
    load: Arc<HubLoad>,
    overruns_seen: u64,
    roster: Roster,
    turn_bytes: usize,
    turn_pushes: usize,
}

impl Hub {
    /// Starts a hub on the present arbiter; the address may be used at once.
    pub(in super::super) fn start_here(index: usize, shared: Arc<Shared>, load: Arc<HubLoad>) -> Addr<Self> {
        let (sender, receiver) = actix::dev::channel::channel(HUB_MAILBOX_MAX);
        let hub = Self {
            index,
            shared,
            load,
            overruns_seen: 0,
            roster: Roster::default(),
            turn_bytes: 0,
            turn_pushes: 0,
        };
        drop(Context::with_receiver(receiver).run(hub));
        Addr::new(sender)
    }

    /// Something for this hub found its mailbox full: whoever sat here missed it, and has to sync.
    fn look_for_overruns(&mut self) {
        let overruns = self.load.overruns();
        if overruns != self.overruns_seen {
            self.overruns_seen = overruns;
            tracing::warn!(
                hub = self.index,
                "too much was waiting: every session of this hub is cut and will sync"
            );
            self.roster
                .all()
                .for_each(|session| session.outbox().close(Close::Slow));
        }
    }

    /// After a long turn the connections of this arbiter may write before it goes on.
    fn end_turn(&mut self, ctx: &mut Context<Self>) {
        if self.turn_bytes >= self.shared.options.turn_bytes() || self.turn_pushes >= TURN_PUSHES_MAX {
            (self.turn_bytes, self.turn_pushes) = (0, 0);
            tokio::task::yield_now().into_actor(self).wait(ctx);
        }
    }

    fn deliver(&mut self, conversation: ConversationId, item: &Item, now: Instant) {
        self.turn_bytes += item.bytes();
        match item {
            Item::Push {
                frame,
                spare,
                hidden,
                reacted,
            } => {
                let listening = self.roster.listening(conversation);
                self.turn_pushes += listening.len();
                for session in listening {
                    let principal = session.principal();
                    let blind = |hidden: &&Hidden| hidden.from.binary_search(&principal).is_ok();
                    let frame = match hidden.as_ref().filter(blind) {
                        Some(hidden) => &hidden.frame,
                        None if reacted.is_empty() => frame,
                        None => reacted.get(&principal).unwrap_or(frame),
                    };
                    if !spare.as_ref().is_some_and(|spare| session.is(spare)) {
                        session.outbox().push(frame.clone(), now);
                    }
                }
            }
            Item::Typing { frame, spare } => {
                for session in self.roster.listening(conversation) {
                    if !session.is(spare) {
                        session.outbox().push_sheddable(frame.clone(), now);
                    }
                }
            }
            Item::Join { principal, frame } => self.roster.join(conversation, *principal, frame.as_ref(), now),
            Item::Own { principal, frame } => self.roster.tell(*principal, frame, now),
            Item::Leave { principal, frame } => self.roster.leave(conversation, *principal, frame, now),
            Item::Reply { to, answer } => {
                if to.hub == self.index {
                    self.answer(*to, answer.clone(), now);
                }
            }
        }
    }

    fn answer(&mut self, to: SessionReply, answer: Answer, now: Instant) {
        let Some(session) = self.roster.session(to.session) else {
            return;
        };
        let Some(waiting) = session.answered(to.frame) else {
            return;
        };
        let reply_to = waiting.frame;
        let reply = match (&waiting.asked, answer) {
            (Asked::Send(send), Ok(Outcome::Sent(message))) => {
                wire::text(&sent(reply_to, send, &message.record(), false))
            }
            (Asked::Send(send), Ok(Outcome::Duplicate(first))) => wire::text(&sent(reply_to, send, &first, true)),
            (Asked::Touch, Ok(Outcome::Touched(about, change))) => {
                let marks = about.marks_for(session.principal());
                let message = || view::Message::new(&about.message, &marks);
                let change = change.as_deref();
                wire::text(&Touched {
                    reply_to,
                    message: message(),
                    change: change.map(|change| view::Change::new(change, Some(message()))),
                })
            }
            (
                Asked::Read,
                Ok(Outcome::Read {
                    last_read_seq,
                    unread_count,
                    change,
                }),
            ) => wire::text(&Read {
                reply_to,
                last_read_seq: last_read_seq.get(),
                unread_count,
                change_seq: change.map(|change| change.change_seq.get()),
            }),
            // No answer to what was asked: the client asks again.
            (_, Ok(_)) => {
                let error = CommandError::Unavailable;
                return session.refuse(Refused { frame: reply_to, error });
            }
            (_, Err(error)) => return session.refuse(Refused { frame: reply_to, error }),
        };
        session.outbox().push(reply, now);
    }

    fn tick(&mut self, _ctx: &mut Context<Self>) {
        self.look_for_overruns();
        self.sweep();
        let (heartbeat, now) = (self.shared.options.heartbeat, Instant::now());
        for seat in self.roster.welcomed() {
            let outbox = seat.session.outbox();
            if seat.session.silent_for(now) >= heartbeat * 2 {
                outbox.close(Close::Silent);
            } else if outbox.is_stale(now) {
                outbox.close(Close::Slow);
            } else if now.duration_since(seat.pinged_at) >= heartbeat {
                seat.pinged_at = now;
                outbox.push(wire::ping(), now);
            }
        }
        if self.index == 0 {
            self.shared
                .typing
                .retain(|_, at| now.duration_since(*at) < TYPING_EVERY);
        }
    }

    /// Takes out the sessions that have ended.
    fn sweep(&mut self) {
        for id in self.load.departed() {
            if let Some(session) = self.roster.remove(id) {
                self.forget(&session);
            }
        }
    }

    fn forget(&self, session: &Session) {
        self.load.leave();
        self.shared.sessions.leave(session);
    }
}

impl Drop for Hub {
    /// A panic, or the end of the process: nobody would tell these sessions anything any more.
    fn drop(&mut self) {
        for session in self.roster.all() {
            session.outbox().close(Close::TryAgainLater);
            self.forget(session);
        }
    }
}

fn sent<'a>(reply_to: u64, send: &'a Sending, first: &KeyRecord, duplicate: bool) -> Sent<'a> {
    Sent {
        reply_to,
        message_id: first.message_id.get(),
        conversation_id: send.conversation_id.get(),
        seq: first.seq.get(),
        sent_at: first.sent_at,
        client_message_id: send.client_message_id.as_str(),
        duplicate,
    }
}

impl Actor for Hub {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let tick = TICK_MAX.min(self.shared.options.heartbeat / 4);
        ctx.run_interval(tick.max(Duration::from_millis(1)), Self::tick);
    }
}

/// A piece of a commit.
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Deliver(pub(in super::super) Arc<Fan>);

impl Handler<Deliver> for Hub {
    type Result = ();

    fn handle(&mut self, Deliver(fan): Deliver, ctx: &mut Context<Self>) {
        self.look_for_overruns();
        let now = Instant::now();
        for item in &fan.items {
            self.deliver(fan.conversation_id, item, now);
        }
        self.end_turn(ctx);
    }
}

/// The answer to a send, outside a commit.
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Answered(pub(in super::super) SessionReply, pub(in super::super) Answer);

impl Handler<Answered> for Hub {
    type Result = ();

    fn handle(&mut self, Answered(to, answer): Answered, _ctx: &mut Context<Self>) {
        self.look_for_overruns();
        self.answer(to, answer, Instant::now());
    }
}

/// A session is here: its memberships are read, then it is welcomed and gets what happens from then on.
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Register {
    pub(in super::super) session: Arc<Session>,
    /// The finished `welcome`.
    pub(in super::super) welcome: Bytes,
    /// Told `true` when the welcome is queued, `false` when the store did not answer.
    pub(in super::super) ready: oneshot::Sender<bool>,
    /// As counted before this message was sent.
    pub(in super::super) overruns: u64,
}

impl Handler<Register> for Hub {
    type Result = ();

    fn handle(&mut self, register: Register, ctx: &mut Context<Self>) {
        self.look_for_overruns();
        let (id, principal) = (register.session.id(), register.session.principal());
        if register.ready.is_closed() {
            // It ended while this message waited; its end may have been seen already.
            return self.forget(&register.session);
        }
        if register.overruns != self.overruns_seen {
            // What was lost while this message waited may have been for this session.
            register.session.outbox().close(Close::Slow);
        }
        self.roster.add(register.session, register.welcome);
        let shared = Arc::clone(&self.shared);
        let ready = register.ready;
        let load = async move {
            // After a restart everybody comes back at once (B91).
            let _permit = shared.loads.acquire().await;
            shared.store.ids_of(principal).await
        };
        let loaded = load.into_actor(self).map(move |read, hub, _ctx| {
            let welcomed = match read {
                Ok(read) => hub.roster.loaded(id, read),
                Err(error) => {
                    tracing::warn!(%error, "the memberships of a session could not be read");
                    false
                }
            };
            // A session that is gone does not wait any more.
            ready.send(welcomed).ok();
        });
        ctx.spawn(loaded);
    }
}

/// Sessions have ended: see [`HubLoad`].
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Sweep;

impl Handler<Sweep> for Hub {
    type Result = ();

    fn handle(&mut self, _sweep: Sweep, _ctx: &mut Context<Self>) {
        self.sweep();
    }
}

/// A session asks whether we are there: a barrier behind everything that was queued before.
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Ping {
    /// Which session.
    pub(in super::super) session: u64,
    /// The frame's `id`.
    pub(in super::super) frame: u64,
}

impl Handler<Ping> for Hub {
    type Result = ();

    fn handle(&mut self, ping: Ping, _ctx: &mut Context<Self>) {
        self.look_for_overruns();
        if let Some(session) = self.roster.session(ping.session) {
            let answer = Pong {
                reply_to: ping.frame,
                server_time: self.shared.clock.now(),
            };
            session.outbox().push(wire::text(&answer), Instant::now());
        }
    }
}

/// Somebody is writing. Dropped in silence unless the session is a member's, and after the first in a second.
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Typing {
    /// Which session.
    pub(in super::super) session: u64,
    /// Where.
    pub(in super::super) conversation_id: ConversationId,
}

impl Handler<Typing> for Hub {
    type Result = ();

    fn handle(&mut self, typing: Typing, _ctx: &mut Context<Self>) {
        let conversation_id = typing.conversation_id;
        if !self.roster.listens(typing.session, conversation_id) {
            return;
        }
        let Some(session) = self.roster.session(typing.session) else {
            return;
        };
        let principal = session.principal();
        if !self.shared.may_type(principal, conversation_id, TYPING_EVERY) {
            return;
        }
        let item = Item::Typing {
            frame: wire::text(&Push::Typing {
                conversation_id: conversation_id.get(),
                principal: principal.into(),
            }),
            spare: (principal, session.device().clone()),
        };
        let items = vec![item];
        self.shared.spread_sheddable(&Arc::new(Fan { conversation_id, items }));
    }
}

/// For tests.
#[cfg(test)]
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Panic;

#[cfg(test)]
impl Handler<Panic> for Hub {
    type Result = ();

    fn handle(&mut self, _panic: Panic, _ctx: &mut Context<Self>) {
        panic!("on purpose");
    }
}
