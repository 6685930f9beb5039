//! One open line of one device: who is on it, its outbox, and the sends that wait for their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::{Message, Recipient};
use tokio::time::Instant;

use super::outbox::Outbox;
use crate::conversation::{CommandError, SessionReply};
use crate::domain::{ClientMessageId, ConversationId, DeviceId, Principal};

/// The most sends of one session that may wait for their answers; beyond it `overloaded` is answered.
pub const SENDS_WAITING_MAX: usize = 1_024;

/// A frame that waits for its conversation's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The frame's `id`.
    pub frame: u64,
    /// What it asked for.
    pub asked: Asked,
}

/// What a waiting frame asked for: what its reply has to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `message.send`
    Send(Sending),
    /// `message.edit` or `message.recall`
    Touch,
    /// `read`
    Read,
}

/// A send that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Where.
    pub conversation_id: ConversationId,
    /// The key.
    pub client_message_id: ClientMessageId,
}

/// A send that was refused: the session's actor finds the words.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Refused {
    /// The frame's `id`.
    pub frame: u64,
    /// Why.
    pub error: CommandError,
}

/// What is known of a session when it has said hello.
pub struct Introduced {
    /// Unique in this process; a later session has a higher number.
    pub id: u64,
    /// The hub of its arbiter.
    pub hub: usize,
    /// The token's principal.
    pub principal: Principal,
    /// The client's name for the machine.
    pub device: DeviceId,
    /// The way out.
    pub outbox: Arc<Outbox>,
    /// Its actor.
    pub refusals: Recipient<Refused>,
}

/// A connection that has said hello. Shared by its actor, its hub and the directory.
pub struct Session {
    who: Introduced,
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// Sends whose refusal is being put into words: they count as waiting, or a client that is refused over and over
    /// could make its actor look up more and more.
    refusing: AtomicUsize,
    tickets: AtomicU64,
    since: Instant,
    heard_ms: AtomicU64,
    /// It has had its `welcome`: from here on it is told of what happens.
    welcomed: AtomicBool,
}

impl Session {
    /// Nothing waits, and it was heard just now.
    #[must_use]
    pub fn new(who: Introduced) -> Self {
        Self {
            who,
            waiting: Mutex::default(),
            refusing: AtomicUsize::new(0),
            tickets: AtomicU64::new(0),
            since: Instant::now(),
            heard_ms: AtomicU64::new(0),
            welcomed: AtomicBool::new(false),
        }
    }

    /// Notes that it was welcomed; `true` = it was already.
    pub(super) fn welcome(&self) -> bool {
        self.welcomed.swap(true, Ordering::SeqCst)
    }

    /// Was it welcomed?
    pub(super) fn is_welcomed(&self) -> bool {
        self.welcomed.load(Ordering::SeqCst)
    }

    /// Unique in this process; a later session has a higher number.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.who.id
    }

    /// Who is on the line.
    #[must_use]
    pub const fn principal(&self) -> Principal {
        self.who.principal
    }

    /// On which machine.
    #[must_use]
    pub const fn device(&self) -> &DeviceId {
        &self.who.device
    }

    /// The way out.
    #[must_use]
    pub const fn outbox(&self) -> &Arc<Outbox> {
        &self.who.outbox
    }

    #[cfg(test)]
    pub(crate) fn shared_outbox(&self) -> Arc<Outbox> {
        Arc::clone(&self.who.outbox)
    }

    /// Is this the device that is spared a push?
    #[must_use]
    pub fn is(&self, device: &(Principal, DeviceId)) -> bool {
        self.who.principal == device.0 && self.who.device == device.1
    }

    /// Remembers a send until its answer comes; `None` when too many wait.
    pub fn await_answer(&self, send: Waiting) -> Option<SessionReply> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() + self.refusing.load(Ordering::SeqCst) >= SENDS_WAITING_MAX {
            return None;
        }
        // Not the frame's own id: a client may use one twice.
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        waiting.insert(ticket, send);
        Some(SessionReply {
            hub: self.who.hub,
            session: self.who.id,
            frame: ticket,
        })
    }

    /// The send that this answer is for.
    pub fn answered(&self, ticket: u64) -> Option<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&ticket)
    }

    /// One send more would be refused.
    pub fn is_full(&self) -> bool {
        self.waiting() + self.refusing.load(Ordering::SeqCst) >= SENDS_WAITING_MAX
    }

    /// How many sends wait.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Hands a refusal to the session's actor, which calls [`Session::refused`] when it has replied. Its mailbox holds
    /// as many as can wait, so it is full only when the actor is gone.
    pub fn refuse(&self, refused: Refused) {
        self.refusing.fetch_add(1, Ordering::SeqCst);
        if self.who.refusals.try_send(refused).is_err() {
            tracing::debug!(session = self.who.id, "a refusal came after its session had ended");
        }
    }

    /// A refusal has been given to the client.
    pub fn refused(&self) {
        self.refusing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Something came from the client.
    pub fn heard(&self) {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard_ms.store(elapsed, Ordering::Relaxed);
    }

    /// For how long nothing has come.
    #[must_use]
    pub fn silent_for(&self, now: Instant) -> Duration {
        let heard = self.since + Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
        now.duration_since(heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::tests::support::session;

    #[actix::test]
    async fn b85_sends_that_are_being_refused_count_as_waiting() {
        let session = session(1, Principal::user(1), "phone");
        let send = || Waiting {
            frame: 1,
            asked: Asked::Send(Sending {
                conversation_id: ConversationId::new(7).unwrap(),
                client_message_id: ClientMessageId::parse("k").unwrap(),
            }),
        };
        for _ in 0..SENDS_WAITING_MAX {
            let ticket = session.await_answer(send()).unwrap().frame;
            let frame = session.answered(ticket).unwrap().frame;
            session.refuse(Refused {
                frame,
                error: CommandError::Unavailable,
            });
        }
        assert_eq!((session.waiting(), session.await_answer(send())), (0, None));
        session.refused();
        assert!(session.await_answer(send()).is_some());
    }
}
