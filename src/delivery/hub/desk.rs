//! What a commit means for the sessions of one hub. No actor, no wait: a structure that can be tested.

#[cfg(test)]
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::super::fan::{Fan, Hidden, Item};
use super::super::outbox::CHUNK_BYTES_MAX;
use super::super::session::Refused;
#[cfg(test)]
use super::super::session::Session;
use super::outgoing::{Outgoing, WRITES_AT_ONCE};
use super::replies;
use super::roster::Roster;
use crate::conversation::{Answer, SessionReply};
use crate::domain::{ConversationId, Principal};

/// The sessions of a hub, and what they have to write.
pub(in super::super) struct Desk {
    index: usize,
    pub(super) roster: Roster,
    pub(super) outgoing: Outgoing,
}

impl Desk {
    /// `index` is the hub's number.
    pub(in super::super) fn new(index: usize) -> Self {
        Self {
            index,
            roster: Roster::default(),
            outgoing: Outgoing::default(),
        }
    }

    /// Hands out a piece of a commit; pieces of it that are the same for most go in one.
    pub(in super::super) fn deliver(&mut self, fan: &Fan, now: Instant) {
        let mut items = fan.items.as_slice();
        while let Some(first) = items.first() {
            let (run, rest) = items.split_at(run(items));
            items = rest;
            self.outgoing.count(run.iter().map(Item::bytes).sum());
            match run {
                [_] if !is_plain(first) => self.one(fan.conversation_id, first, now),
                run => self.run(fan.conversation_id, run, now),
            }
        }
    }

    #[cfg(test)]
    pub(in super::super) fn seat(&mut self, session: &Arc<Session>, listens_to: ConversationId) {
        self.roster.add(Arc::clone(session), Bytes::new());
        self.roster.loaded(session.id(), vec![listens_to]);
    }

    #[cfg(test)]
    pub(in super::super) fn write(&mut self) {
        while !self.outgoing.write() {}
    }

    fn one(&mut self, conversation: ConversationId, item: &Item, now: Instant) {
        let Self { roster, outgoing, .. } = self;
        match item {
            Item::Push {
                frame,
                spare,
                hidden,
                reacted,
            } => {
                for listener in roster.listening(conversation) {
                    let principal = listener.principal;
                    let blind = |hidden: &&Hidden| hidden.from.binary_search(&principal).is_ok();
                    let frame = match hidden.as_ref().filter(blind) {
                        Some(hidden) => &hidden.frame,
                        None => reacted.get(&principal).unwrap_or_else(|| frame.get()),
                    };
                    let session = || roster.session(listener.id);
                    let spared =
                        |spare: &(Principal, _)| spare.0 == principal && session().is_some_and(|own| own.is(spare));
                    if !spare.as_ref().is_some_and(spared) {
                        outgoing.give(&listener.outbox, frame.clone(), now);
                    }
                }
            }
            Item::Typing { frame, spare } => {
                for listener in roster.listening(conversation) {
                    let session = || roster.session(listener.id);
                    let spared = listener.principal == spare.0 && session().is_some_and(|own| own.is(spare));
                    if !spared && !listener.outbox.is_busy() {
                        outgoing.give(&listener.outbox, frame.clone(), now);
                    }
                }
            }
            Item::Join { principal, frame } => roster.join(conversation, *principal, frame.as_ref(), now, outgoing),
            Item::Own { principal, frame } => roster.tell(*principal, frame, now, outgoing),
            Item::Leave { principal, frame } => roster.leave(conversation, *principal, frame, now, outgoing),
            Item::Reply { to, answer } => self.answer(*to, answer, now),
        }
    }

    /// Pushes that are the same for all but the devices that sent, and the answers to those: everybody else gets them in
    /// one piece. Those who wait for an answer come first, so that it does not take longer the more members are here.
    fn run(&mut self, conversation: ConversationId, run: &[Item], now: Instant) {
        let apart = self.apart(run);
        for item in run {
            match item {
                Item::Push { frame, spare, .. } => {
                    for principal in &apart {
                        for session in self.roster.of(*principal, conversation) {
                            if !spare.as_ref().is_some_and(|spare| session.is(spare)) {
                                self.outgoing.give(session.outbox(), frame.get().clone(), now);
                            }
                        }
                    }
                }
                Item::Reply { to, answer } => self.answer(*to, answer, now),
                _ => {}
            }
        }
        let listening = self.roster.listening(conversation);
        if listening.len() > WRITES_AT_ONCE {
            self.outgoing.write_first();
        }
        let mut merged = None;
        for listener in listening {
            if apart.binary_search(&listener.principal).is_err() {
                let frame = merged.get_or_insert_with(|| merge(run));
                self.outgoing.give(&listener.outbox, frame.clone(), now);
            }
        }
    }

    /// Whose sessions get something else than all others, in order.
    fn apart(&self, run: &[Item]) -> Vec<Principal> {
        let principals = run.iter().filter_map(|item| match item {
            Item::Push { spare, .. } => spare.as_ref().map(|spare| spare.0),
            Item::Reply { to, .. } if to.hub == self.index => {
                self.roster.session(to.session).map(|session| session.principal())
            }
            _ => None,
        });
        let mut apart: Vec<_> = principals.collect();
        apart.sort_unstable();
        apart.dedup();
        apart
    }

    /// Answers a session of this hub.
    pub(super) fn answer(&mut self, to: SessionReply, answer: &Answer, now: Instant) {
        if to.hub != self.index {
            return;
        }
        let Some(session) = self.roster.session(to.session) else {
            return;
        };
        let Some(waiting) = session.answered(to.frame) else {
            return;
        };
        match replies::reply(&waiting, session.principal(), answer) {
            Ok(reply) => self.outgoing.give_first(session.outbox(), reply, now),
            Err(error) => session.refuse(Refused {
                frame: waiting.frame,
                error,
            }),
        }
    }
}

/// Nobody but the device that sent gets anything else.
fn is_plain(item: &Item) -> bool {
    match item {
        Item::Push { hidden, reacted, .. } => hidden.is_none() && reacted.is_empty(),
        Item::Reply { .. } => true,
        _ => false,
    }
}

/// How many of the items go together; at least one.
fn run(items: &[Item]) -> usize {
    let mut bytes = 0;
    let fits = |item: &&Item| {
        bytes += item.bytes();
        is_plain(item) && bytes <= CHUNK_BYTES_MAX
    };
    items.iter().take_while(fits).count().max(1)
}

/// The pushes of a run in one piece, a hub's own: threads that count the users of the same bytes wait for each other.
fn merge(run: &[Item]) -> Bytes {
    let mut merged = BytesMut::new();
    for item in run {
        if let Item::Push { frame, .. } = item {
            merged.extend_from_slice(frame.get());
        }
    }
    merged.freeze()
}
