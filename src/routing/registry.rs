//! conversation -> the running actor, started on the arbiter that a stable hash names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::dev::SendError;
use actix::{Addr, ArbiterHandle};
use dashmap::DashMap;

use super::bus::Bus;
use super::owner::arbiter_of;
use crate::conversation::{BACKLOG_BYTES, Backlog, CommandError, ConversationActor, Do, Parts, Pending, ReplyTo};
use crate::domain::{Command, ConversationId};

/// How often a command is handed to a fresh actor because the one before had just stopped.
const STARTS_MAX: usize = 3;

struct Entry {
    /// Tells this actor from a later one of the same conversation.
    start: u64,
    address: Addr<ConversationActor>,
}

/// The actors of this node. A closed address is replaced, so a panic costs one actor its state and nothing else.
pub struct Registry {
    entries: Arc<DashMap<ConversationId, Entry>>,
    starts: AtomicU64,
    arbiters: Vec<ArbiterHandle>,
    parts: Arc<Parts>,
    idle_after: Duration,
    backlog: Arc<Backlog>,
}

impl Registry {
    /// Actors run on `arbiters` and stop when nothing was asked for `idle_after`.
    #[must_use]
    pub fn new(arbiters: Vec<ArbiterHandle>, parts: Arc<Parts>, idle_after: Duration) -> Self {
        Self {
            entries: Arc::default(),
            starts: AtomicU64::new(0),
            arbiters,
            parts,
            idle_after,
            backlog: Backlog::new(BACKLOG_BYTES),
        }
    }

    /// With another bound on what may wait for all actors together.
    #[must_use]
    pub fn bounded(mut self, backlog_bytes: usize) -> Self {
        self.backlog = Backlog::new(backlog_bytes);
        self
    }

    /// How many conversations are in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// None are in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The running actor; `None` only when there is no arbiter to start one on.
    fn address(&self, id: ConversationId) -> Option<Addr<ConversationActor>> {
        if let Some(entry) = self.entries.get(&id)
            && entry.address.connected()
        {
            return Some(entry.address.clone());
        }
        let arbiter = self.arbiters.get(arbiter_of(id, self.arbiters.len()))?;
        // The entry stays locked while the actor starts: two callers at once start one.
        let mut entry = self.entries.entry(id).or_insert_with(|| self.start(id, arbiter));
        if !entry.address.connected() {
            *entry = self.start(id, arbiter);
        }
        Some(entry.address.clone())
    }

    fn start(&self, id: ConversationId, arbiter: &ArbiterHandle) -> Entry {
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let entries = Arc::clone(&self.entries);
        let leave = Box::new(move |id| drop(entries.remove_if(&id, |_, entry| entry.start == start)));
        let actor = ConversationActor::new(id, Arc::clone(&self.parts), self.idle_after, leave);
        Entry {
            start,
            address: actor.start_on(arbiter),
        }
    }
}

/// The bus of a cluster of one: every conversation is owned here.
impl Bus for Registry {
    fn dispatch(&self, conversation_id: ConversationId, command: Command, reply: ReplyTo) {
        let room = self.backlog.admit(&command);
        let pending = Pending::new(command, reply, Arc::clone(&self.parts.publisher));
        let Some(room) = room else {
            return pending.answer(Err(CommandError::Overloaded));
        };
        let mut message = Do(pending.with(room));
        for _ in 0..STARTS_MAX {
            let Some(address) = self.address(conversation_id) else {
                break;
            };
            match address.try_send(message) {
                Ok(()) => return,
                Err(SendError::Full(refused)) => return refused.0.answer(Err(CommandError::Overloaded)),
                Err(SendError::Closed(refused)) => message = refused,
            }
        }
        message.0.answer(Err(CommandError::Unavailable));
    }
}
