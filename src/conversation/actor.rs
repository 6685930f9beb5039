//! The actor: a mailbox in front of a [`ConversationWriter`]. One commit is under way at a time; whatever arrives
//! meanwhile is the next batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, ArbiterHandle, AsyncContext, Context, Handler, Message, WrapFuture,
};
use tokio::time::Instant;

use super::batch::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX, weight};
use super::messages::CommandError;
use super::pending::Pending;
use super::writer::{ConversationWriter, Parts};
use crate::domain::ConversationId;

/// The most commands that a mailbox holds before `overloaded` is answered.
pub const MAILBOX_MAX: usize = 4_096;
/// The most commands that wait for the commit under way.
pub const PENDING_COMMANDS_MAX: usize = 4_096;
/// The most bytes of content that wait for the commit under way.
pub const PENDING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long an actor that has left the registry still serves whoever had its address already.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long an actor stays that was only told something in passing: of 100,000 INBOXes that get an announcement, only those
/// that are used besides stay in memory.
const PASSING_IDLE: Duration = FAREWELL;
/// How long to wait before a state that could not be loaded is loaded again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

/// Asks the writer for something. It is answered always, also when the actor dies with it in its mailbox.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Do(pub Pending);

/// Called once, when the actor is about to stop: its address must not be given out any more.
pub type Leave = Box<dyn FnOnce(ConversationId) + Send>;

/// The owner of one conversation.
pub struct ConversationActor {
    id: ConversationId,
    /// Away while a batch is under way.
    writer: Option<ConversationWriter>,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    idle_after: Duration,
    used_at: Instant,
    /// Everything so far was told in passing.
    in_passing: bool,
    leave: Option<Leave>,
}

impl ConversationActor {
    /// Stops by itself when nothing was asked for `idle_after`.
    #[must_use]
    pub fn new(id: ConversationId, parts: Arc<Parts>, idle_after: Duration, leave: Leave) -> Self {
        Self {
            id,
            writer: Some(ConversationWriter::new(id, parts)),
            pending: VecDeque::new(),
            pending_bytes: 0,
            idle_after,
            used_at: Instant::now(),
            in_passing: true,
            leave: Some(leave),
        }
    }

    /// Starts it on an arbiter; the address may be used at once. (actix's own start gives a mailbox of 16 until the
    /// actor has run for the first time, too small for a burst that finds its conversation asleep.)
    pub fn start_on(self, arbiter: &ArbiterHandle) -> Addr<Self> {
        let (sender, receiver) = actix::dev::channel::channel(MAILBOX_MAX);
        // An arbiter that has stopped drops the receiver: then the address is closed.
        arbiter.spawn_fn(move || drop(Context::with_receiver(receiver).run(self)));
        Addr::new(sender)
    }

    /// Starts the next batch unless one is under way.
    fn work(&mut self, ctx: &mut Context<Self>) {
        if self.pending.is_empty() {
            return;
        }
        let Some(writer) = self.writer.take() else { return };
        let batch = self.next_batch();
        self.serve(writer, batch, ctx);
    }

    fn next_batch(&mut self) -> Vec<Pending> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.pending.front() {
            let weight = weight(&next.command);
            // One command always fits, however large.
            if batch.len() == BATCH_COMMANDS_MAX || (bytes + weight > BATCH_BYTES_MAX && !batch.is_empty()) {
                break;
            }
            bytes += weight;
            batch.extend(self.pending.pop_front());
        }
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
        batch
    }

    fn serve(&mut self, mut writer: ConversationWriter, batch: Vec<Pending>, ctx: &mut Context<Self>) {
        self.used_at = Instant::now();
        let serve = async move {
            writer.serve(batch).await;
            writer
        };
        ctx.spawn(serve.into_actor(self).map(|writer, actor, ctx| {
            let (gone, reload) = (writer.is_empty(), writer.must_reload());
            actor.writer = Some(writer);
            if !actor.pending.is_empty() {
                actor.work(ctx);
            } else if gone {
                actor.say_farewell(ctx);
            } else if reload {
                ctx.run_later(RELOAD_PAUSE, Self::reload);
            }
        }));
    }

    fn reload(&mut self, ctx: &mut Context<Self>) {
        if let Some(writer) = self.writer.take_if(|writer| writer.must_reload()) {
            self.serve(writer, Vec::new(), ctx);
        }
    }

    fn watch_idleness(&mut self, ctx: &mut Context<Self>) {
        let busy = self.writer.as_ref().is_none_or(ConversationWriter::must_reload);
        let idle_after = if self.in_passing {
            self.idle_after.min(PASSING_IDLE)
        } else {
            self.idle_after
        };
        let left = idle_after.saturating_sub(self.used_at.elapsed());
        if !busy && left.is_zero() {
            self.say_farewell(ctx);
        } else {
            ctx.run_later(left.max(FAREWELL), Self::watch_idleness);
        }
    }

    /// Leaves the registry first and stops a little later: nobody's command is dropped.
    fn say_farewell(&mut self, ctx: &mut Context<Self>) {
        if let Some(leave) = self.leave.take() {
            leave(self.id);
            ctx.run_later(FAREWELL, Self::stop_when_done);
        }
    }

    fn stop_when_done(&mut self, ctx: &mut Context<Self>) {
        if self.writer.is_some() && self.pending.is_empty() {
            ctx.stop();
        } else {
            ctx.run_later(FAREWELL, Self::stop_when_done);
        }
    }
}

impl Actor for ConversationActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_later(PASSING_IDLE, Self::watch_idleness);
    }
}

impl Handler<Do> for ConversationActor {
    type Result = ();

    fn handle(&mut self, Do(pending): Do, ctx: &mut Context<Self>) {
        let bytes = self.pending_bytes + weight(&pending.command);
        if self.pending.len() >= PENDING_COMMANDS_MAX || bytes > PENDING_BYTES_MAX {
            return pending.answer(Err(CommandError::Overloaded));
        }
        self.pending_bytes = bytes;
        self.in_passing &= pending.command.is_in_passing();
        self.pending.push_back(pending);
        self.work(ctx);
    }
}
