//! When a connection is read on. What it asks for must fit into what may wait for it; until then the rest of what it
//! says waits in its socket. Refusing one of a row of frames would let those behind it pass.

use std::sync::Arc;
use std::time::Duration;

use actix::{AsyncContext, Context};
use tokio::time::Instant;

use super::SessionActor;
use crate::delivery::session::{SENDS_WAITING_MAX, Session};
use crate::domain::{DomainError, Principal};
use crate::protocol::frame::{Frame, History};
use crate::protocol::sync::Ask;
use crate::service::ServiceError;

/// How long a connection that is not read is left alone before it is looked at again …
const PAUSE: Duration = Duration::from_millis(5);
/// … twice as long each time, but never longer than this.
const PAUSE_MAX: Duration = Duration::from_millis(80);
/// So many refusals by a rate limit in a row, and a connection is not read until it may ask again.
const REFUSALS_MAX: u32 = 64;
/// An answer that is looked up may have at least so much, or a quarter of the outbound queue where that is less.
const LOOK_UP_BYTES_MIN: usize = 64 * 1024;

/// Something whose answer may be large.
pub(super) enum LookUp {
    History(History),
    Sync(Ask),
}

/// What keeps a connection from being read.
#[derive(Default)]
pub(super) struct Pace {
    held: bool,
    pause: Duration,
    /// An answer that does not fit yet.
    later: Option<(u64, LookUp)>,
    /// Bytes that answers under way may come to.
    pub(super) promised: usize,
    refusals: u32,
    /// Who floods is not read before.
    until: Option<Instant>,
}

impl SessionActor {
    /// Counts a frame against its principal's allowance.
    pub(super) fn admit(
        &mut self,
        frame: &Result<Frame<'_>, DomainError>,
        principal: Principal,
    ) -> Result<(), ServiceError> {
        let rates = &self.door.rates;
        let admitted = match frame {
            Ok(Frame::Acknowledge(_) | Frame::Ping | Frame::Auth { .. } | Frame::Typing { .. }) => {
                rates.quiet(principal)
            }
            _ => rates.request(principal),
        };
        if admitted.is_ok() {
            self.pace.refusals = 0;
        }
        admitted
    }

    /// Refuses a frame of somebody who says too much. A refusal costs little, but not nothing.
    pub(super) fn slow_down(&mut self, id: Option<u64>, error: ServiceError, ctx: &mut Context<Self>) {
        self.pace.refusals += 1;
        if self.pace.refusals >= REFUSALS_MAX {
            let wait = Duration::from_millis(error.extra.retry_after_ms.unwrap_or_default());
            self.pace.until = Some(Instant::now() + wait);
            self.hold(ctx);
        }
        self.refuse(id, error);
    }

    /// Looks something up, or does so later when what waits for the client leaves no room for the answer.
    pub(super) fn look_up(&mut self, id: u64, ask: LookUp, session: &Arc<Session>, ctx: &mut Context<Self>) {
        let Some(bytes_max) = self.room() else {
            self.pace.later = Some((id, ask));
            return self.hold(ctx);
        };
        match ask {
            LookUp::History(history) => self.history(id, history, bytes_max, session, ctx),
            LookUp::Sync(ask) => self.sync(id, ask, bytes_max, session, ctx),
        }
    }

    /// How large an answer may be: answers take half of what may wait, pushes have the other half, and one answer takes
    /// no more than half of what is left to answers.
    fn room(&self) -> Option<usize> {
        let bound = self.door.delivery.outbound_bytes();
        let least = LOOK_UP_BYTES_MIN.min(bound / 4);
        let left = (bound / 2).saturating_sub(self.outbox.bytes() + self.pace.promised);
        (left >= least).then(|| (left / 2).max(least))
    }

    /// While too many sends wait nothing more is read.
    pub(super) fn pause_when_full(&mut self, ctx: &mut Context<Self>) {
        if self.session().is_some_and(|session| session.is_full()) {
            self.hold(ctx);
        }
    }

    fn hold(&mut self, ctx: &mut Context<Self>) {
        self.gate.shut();
        if !self.pace.held {
            self.pace.held = true;
            self.pace.pause = (self.pace.pause * 2).clamp(PAUSE, PAUSE_MAX);
            ctx.run_later(self.pace.pause, Self::go_on);
        }
    }

    fn go_on(&mut self, ctx: &mut Context<Self>) {
        self.pace.held = false;
        let Some(session) = self.session().map(Arc::clone) else {
            return self.gate.open();
        };
        if let Some((id, ask)) = self.pace.later.take() {
            self.look_up(id, ask, &session, ctx);
        }
        let flooding = self.pace.until.is_some_and(|until| until > Instant::now());
        if flooding || session.waiting() > SENDS_WAITING_MAX / 2 {
            self.hold(ctx);
        }
        if !self.pace.held {
            self.pace.pause = Duration::ZERO;
            self.gate.open();
        }
    }
}
