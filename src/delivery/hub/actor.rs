//! The hub's mailbox: registrations, fans, answers and pings of the sessions of one arbiter, in order of arrival.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use actix::{Actor, ActorFuture, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, WrapFuture};
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::super::fan::{Fan, Item};
use super::super::session::Session;
use super::super::shared::{HubLoad, Shared, TypingTurn};
use super::super::wire::{self, Close};
use super::desk::Desk;
use super::rest::Rest;
use crate::conversation::{Answer, SessionReply};
use crate::domain::ConversationId;
use crate::protocol::reply::{Pong, Push};

/// The most that may wait for a hub. Beyond it something is lost to its sessions, so all of them are cut with 4008.
pub const HUB_MAILBOX_MAX: usize = 16_384;
/// How often the hub looks for silent and stuck sessions, unless the heartbeat asks for more.
const TICK_MAX: Duration = Duration::from_secs(1);
/// For so long after somebody has written it is remembered whether they may reach anybody there.
const TYPING_KNOWN: Duration = Duration::from_mins(1);
/// How often a sender's typing is passed on.
const TYPING_EVERY: Duration = Duration::from_secs(1);

/// The sessions of one arbiter.
pub struct Hub {
    index: usize,
    shared: Arc<Shared>,
    load: Arc<HubLoad>,
    overruns_seen: u64,
    desk: Desk,
    turn: Turn,
    rest: Rest,
}

/// What becomes of what was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing waits to be written.
    Idle,
    /// It is written in a moment, with what comes until then.
    Resting,
    /// It is being written.
    Writing,
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
            desk: Desk::new(index),
            turn: Turn::Idle,
            rest: Rest::default(),
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
            self.desk
                .roster
                .all()
                .for_each(|session| session.outbox().close(Close::Slow));
        }
    }

    /// Lets the sessions write: when the mailbox is empty, or before anything else if much was handed out. Who waits for
    /// an answer never has to wait for a rest.
    fn let_write(&mut self, ctx: &mut Context<Self>) {
        if self.desk.outgoing.is_full(self.shared.options.turn_bytes()) {
            // What a socket did not take at once is written by its connection, which needs its turn for that.
            let written = Writing.then(|(), hub: &mut Self, _: &mut Context<Self>| yield_now().into_actor(hub));
            return ctx.wait(written);
        }
        match self.turn {
            Turn::Idle if !self.desk.outgoing.is_empty() => match self.rest.left(Instant::now()) {
                Some(left) => {
                    self.turn = Turn::Resting;
                    self.desk.outgoing.write_first();
                    ctx.run_later(left, Self::start_writing);
                }
                None => self.start_writing(ctx),
            },
            Turn::Resting => self.desk.outgoing.write_first(),
            Turn::Idle | Turn::Writing => {}
        }
    }

    fn start_writing(&mut self, ctx: &mut Context<Self>) {
        self.turn = Turn::Writing;
        ctx.spawn(Writing.map(|(), hub: &mut Self, _| hub.turn = Turn::Idle));
    }

    fn tick(&mut self, _ctx: &mut Context<Self>) {
        self.look_for_overruns();
        self.sweep();
        let (heartbeat, now) = (self.shared.options.heartbeat, Instant::now());
        for seat in self.desk.roster.welcomed() {
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
                .retain(|_, state| now.duration_since(state.at) < TYPING_KNOWN);
        }
    }

    /// Takes out the sessions that have ended.
    fn sweep(&mut self) {
        for id in self.load.departed() {
            if let Some(session) = self.desk.roster.remove(id) {
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
        for session in self.desk.roster.all() {
            session.outbox().close(Close::TryAgainLater);
            self.forget(session);
        }
    }
}

/// Lets the sessions write what they were handed, some at a time so that the others of this arbiter come in between.
struct Writing;

impl ActorFuture<Hub> for Writing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, hub: &mut Hub, _ctx: &mut Context<Hub>, task: &mut TaskContext<'_>) -> Poll<()> {
        let from = Instant::now();
        let done = hub.desk.outgoing.write();
        let now = Instant::now();
        hub.rest.wrote(now.duration_since(from), now);
        if done {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
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
        self.desk.deliver(&fan, Instant::now());
        self.let_write(ctx);
    }
}

/// The answer to a send, outside a commit.
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Answered(pub(in super::super) SessionReply, pub(in super::super) Answer);

impl Handler<Answered> for Hub {
    type Result = ();

    fn handle(&mut self, Answered(to, answer): Answered, ctx: &mut Context<Self>) {
        self.look_for_overruns();
        self.desk.answer(to, &answer, Instant::now());
        self.let_write(ctx);
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
        self.desk.roster.add(register.session, register.welcome);
        let shared = Arc::clone(&self.shared);
        let ready = register.ready;
        let load = async move {
            // After a restart everybody comes back at once (B91).
            let _permit = shared.loads.acquire().await;
            shared.store.ids_of(principal).await
        };
        let loaded = load.into_actor(self).map(move |read, hub, _ctx| {
            let welcomed = match read {
                Ok(read) => {
                    let welcomed = hub.desk.roster.loaded(id, read);
                    if let Some(session) = hub.desk.roster.session(id) {
                        hub.shared.sessions.welcome(session);
                    }
                    welcomed
                }
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

    fn handle(&mut self, ping: Ping, ctx: &mut Context<Self>) {
        self.look_for_overruns();
        let Desk { roster, outgoing, .. } = &mut self.desk;
        if let Some(session) = roster.session(ping.session) {
            let answer = Pong {
                reply_to: ping.frame,
                server_time: self.shared.clock.now(),
            };
            outgoing.give(session.outbox(), wire::text(&answer), Instant::now());
        }
        self.let_write(ctx);
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

    fn handle(&mut self, typing: Typing, ctx: &mut Context<Self>) {
        let conversation_id = typing.conversation_id;
        if !self.desk.roster.listens(typing.session, conversation_id) {
            return;
        }
        let Some(session) = self.desk.roster.session(typing.session) else {
            return;
        };
        let principal = session.principal();
        let turn = self.shared.may_type(principal, conversation_id, TYPING_EVERY);
        let fan = Arc::new(typing_of(session, conversation_id));
        match turn {
            TypingTurn::Allowed => self.shared.spread_sheddable(&fan),
            // They learn nothing of it.
            TypingTurn::Dropped => {}
            TypingTurn::Unknown => {
                let shared = Arc::clone(&self.shared);
                let look = async move {
                    // Where the store does not answer, nobody misses it.
                    let Ok(blocked) = shared.store.is_blocked_in(conversation_id, principal).await else {
                        return;
                    };
                    if shared.learn_typing(principal, conversation_id, !blocked) && !blocked {
                        shared.spread_sheddable(&fan);
                    }
                };
                ctx.spawn(look.into_actor(self));
            }
        }
    }
}

fn typing_of(session: &Session, conversation_id: ConversationId) -> Fan {
    let principal = session.principal();
    Fan {
        conversation_id,
        items: vec![Item::Typing {
            frame: wire::text(&Push::Typing {
                conversation_id: conversation_id.get(),
                principal: principal.into(),
            }),
            spare: (principal, session.device().clone()),
        }],
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

/// For tests: as if it had written for very long.
#[cfg(test)]
#[derive(Message)]
#[rtype(result = "()")]
pub(in super::super) struct Tire;

#[cfg(test)]
impl Handler<Tire> for Hub {
    type Result = ();

    fn handle(&mut self, _tire: Tire, _ctx: &mut Context<Self>) {
        self.rest.wrote(TICK_MAX, Instant::now());
    }
}
