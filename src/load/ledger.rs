//! The proof of delivery: every message at every receiver exactly once, in the order of its conversation.
//!
//! A receiver keeps one [`Row`] a conversation: numbers without holes. A conversation keeps what not everybody has seen
//! yet, with the key under which it was seen first: so two receivers cannot see two messages under one number. A sender
//! keeps one row of the numbers of its own messages: so a retry cannot be stored twice. What is settled is forgotten;
//! memory does not grow with the number of messages.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

use super::key::Key;
use super::row::{Arrival, Row};

/// Messages of one conversation that may wait for their last receiver before the oldest is no longer waited for.
const WAITING_MAX: usize = 131_072;
/// Offenders that are named.
const NAMED_MAX: usize = 20;

/// How somebody learned of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It was pushed, or the server took it from this very connection: both come once and in order.
    Live,
    /// It was asked for after a break, or it is the answer to a retry: it may be known already.
    Asked,
}

/// What an arrival was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// This receiver did not have it yet.
    pub(super) fresh: bool,
    /// Now every receiver has it.
    pub(super) by_all: bool,
}

/// A receiver in a conversation: the connection and its place among that connection's conversations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) connection: usize,
    pub(super) place: usize,
}

/// What was found to be wrong, and the first offenders.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// Messages that somebody else has and that a receiver never got.
    pub lost: u64,
    /// Messages that came twice on one connection.
    pub doubled: u64,
    /// Messages that came after a later one.
    pub reordered: u64,
    /// Messages of one `client_message_id` with two seqs.
    pub stored_twice: u64,
    /// Seqs under which two receivers saw two messages.
    pub mixed_up: u64,
    /// The first of them, in words.
    pub first_offenders: Vec<String>,
}

impl Findings {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.lost + self.doubled + self.reordered + self.stored_twice + self.mixed_up
    }

    fn name(&mut self, offender: impl fmt::Display) {
        if self.first_offenders.len() < NAMED_MAX {
            self.first_offenders.push(offender.to_string());
        }
    }
}

#[derive(Debug)]
struct Conversation {
    id: i64,
    receivers: u32,
    /// Everybody has what is below, or it is no longer waited for.
    base: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    seen: Seen,
    receivers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    ByNobody,
    Ours { sender: u32, number: u64 },
    Foreign,
}

#[derive(Debug)]
struct Chair {
    conversation: usize,
    row: Row,
    /// Numbers up to here were asked for: they may be pushed as well.
    asked_to: u64,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    conversations: Vec<Conversation>,
    connections: Vec<(String, Vec<Chair>)>,
    /// With the connection that sends.
    senders: Vec<(usize, Row)>,
    unsettled: usize,
    findings: Findings,
}

impl Ledger {
    /// A conversation whose newest seq is `head`; answers its index.
    pub(super) fn add_conversation(&mut self, id: i64, head: u64) -> usize {
        self.conversations.push(Conversation {
            id,
            receivers: 0,
            base: head + 1,
            waiting: VecDeque::new(),
        });
        self.conversations.len() - 1
    }

    /// A receiver, with the indexes of its conversations.
    pub(super) fn add_connection(&mut self, name: String, conversations: &[usize]) {
        let mut chairs = Vec::with_capacity(conversations.len());
        for index in conversations {
            if let Some(conversation) = self.conversations.get_mut(*index) {
                conversation.receivers += 1;
                chairs.push(Chair {
                    conversation: *index,
                    row: Row::new(conversation.base),
                    asked_to: 0,
                });
            }
        }
        self.connections.push((name, chairs));
    }

    /// A sender on that connection.
    pub(super) fn add_sender(&mut self, connection: usize) {
        self.senders.push((connection, Row::new(0)));
    }

    /// Messages that not everybody has seen yet.
    pub(super) const fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// What a receiver that comes back has to ask for: everything after this seq.
    pub(super) fn asks_after(&self, seat: Seat) -> u64 {
        let chair = self.chair(seat);
        chair.map_or(0, |chair| chair.row.first_missing().saturating_sub(1))
    }

    /// A receiver has got a message.
    pub(super) fn arrive(&mut self, seat: Seat, seq: u64, key: Option<Key>, way: Way) -> Arrived {
        let Some((name, chairs)) = self.connections.get_mut(seat.connection) else {
            return Arrived::default();
        };
        let Some(chair) = chairs.get_mut(seat.place) else {
            return Arrived::default();
        };
        let Some(conversation) = self.conversations.get_mut(chair.conversation) else {
            return Arrived::default();
        };
        let arrival = chair.row.take(seq);
        let id = conversation.id;
        let place = format_args!("conversation {id} seq {seq}");
        match (way, arrival) {
            (Way::Asked, _) => chair.asked_to = chair.asked_to.max(seq),
            (Way::Live, Arrival::Again) if seq > chair.asked_to => {
                self.findings.doubled += 1;
                self.findings.name(format_args!("{place} came twice to {name}"));
            }
            (Way::Live, Arrival::Late) => {
                self.findings.reordered += 1;
                self.findings
                    .name(format_args!("{place} came to {name} after a later one"));
            }
            (Way::Live, _) => {}
        }
        let fresh = matches!(arrival, Arrival::Next | Arrival::Skips(_) | Arrival::Late);
        let seen = key.map_or(Seen::Foreign, |key| Seen::Ours {
            sender: key.sender,
            number: key.number,
        });
        let before = conversation.waiting.len();
        let (by_all, verdict) = conversation.mark(seq, seen, fresh);
        self.unsettled = (self.unsettled + conversation.waiting.len()).saturating_sub(before);
        match verdict {
            Verdict::First => self.first_seen(seat, seq, key),
            Verdict::Other => {
                self.findings.mixed_up += 1;
                self.findings
                    .name(format_args!("{place}: {name} saw another message than the others"));
            }
            Verdict::Same => {}
        }
        Arrived { fresh, by_all }
    }

    /// The first sight of a message of ours: its sender's numbers tell whether it is stored for the second time.
    fn first_seen(&mut self, seat: Seat, seq: u64, key: Option<Key>) {
        let row = key.and_then(|key| Some((key, self.senders.get_mut(usize::try_from(key.sender).ok()?)?)));
        let Some((key, (_, row))) = row else { return };
        if row.take(key.number) == Arrival::Again {
            let id = self
                .chair(seat)
                .and_then(|chair| self.conversations.get(chair.conversation));
            let id = id.map_or(0, |conversation| conversation.id);
            self.findings.stored_twice += 1;
            self.findings.name(format_args!(
                "conversation {id} seq {seq} is {key}, which has another seq already"
            ));
        }
    }

    fn chair(&self, seat: Seat) -> Option<&Chair> {
        self.connections.get(seat.connection)?.1.get(seat.place)
    }

    /// A connection broke off: holes that it had are losses, and no reading afterwards heals them.
    pub(super) fn broke_off(&mut self, connection: usize) {
        self.count_lost(connection, |_, chair| chair.row.next());
    }

    /// The end: what anybody has, everybody must have.
    pub(super) fn close(mut self) -> Findings {
        for connection in 0..self.connections.len() {
            self.count_lost(connection, |conversation, _| conversation.head());
        }
        self.findings
    }

    fn count_lost(&mut self, connection: usize, end: impl Fn(&Conversation, &Chair) -> u64) {
        let Some((name, chairs)) = self.connections.get_mut(connection) else {
            return;
        };
        for chair in chairs {
            let Some(conversation) = self.conversations.get(chair.conversation) else {
                continue;
            };
            let (missing, holes) = chair.row.missing_below(end(conversation, chair));
            // While the answer to a message of one's own is awaited, that is no loss.
            let awaited = |seq: &u64| conversation.is_from(*seq, connection, &self.senders);
            let (own, others): (Vec<u64>, Vec<u64>) = holes.into_iter().flatten().partition(awaited);
            let lost = missing - u64::try_from(own.len()).unwrap_or_default();
            if lost > 0 {
                let (id, first) = (conversation.id, others.first().copied().unwrap_or_default());
                self.findings.lost += lost;
                self.findings.name(format_args!(
                    "{lost} messages of conversation {id} never came to {name}, the first of them seq {first}"
                ));
                chair.row.write_off(&others);
            }
        }
    }
}

enum Verdict {
    First,
    Same,
    Other,
}

impl Conversation {
    /// The seq after the newest that anybody has seen.
    fn head(&self) -> u64 {
        self.base + u64::try_from(self.waiting.len()).unwrap_or_default()
    }

    fn index(&self, seq: u64) -> Option<usize> {
        usize::try_from(seq.checked_sub(self.base)?).ok()
    }

    /// One receiver more has seen this seq.
    fn mark(&mut self, seq: u64, seen: Seen, fresh: bool) -> (bool, Verdict) {
        let fresh_entry = Waiting {
            seen: Seen::ByNobody,
            receivers: self.receivers,
        };
        while seq >= self.head() && (seq - self.head() < u64::try_from(WAITING_MAX).unwrap_or_default()) {
            self.waiting.push_back(fresh_entry);
        }
        let entry = self.index(seq).and_then(|index| self.waiting.get_mut(index));
        let Some(entry) = entry else {
            return (false, Verdict::Same);
        };
        let verdict = match entry.seen {
            Seen::ByNobody => {
                entry.seen = seen;
                Verdict::First
            }
            before if before == seen => Verdict::Same,
            _ => Verdict::Other,
        };
        if fresh {
            entry.receivers = entry.receivers.saturating_sub(1);
        }
        let by_all = fresh && entry.receivers == 0;
        while self.waiting.front().is_some_and(|first| first.receivers == 0) || self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
            self.base += 1;
        }
        (by_all, verdict)
    }

    fn is_from(&self, seq: u64, connection: usize, senders: &[(usize, Row)]) -> bool {
        let entry = self.index(seq).and_then(|index| self.waiting.get(index));
        let Some(Seen::Ours { sender, .. }) = entry.map(|entry| entry.seen) else {
            return false;
        };
        let sender = usize::try_from(sender).ok().and_then(|sender| senders.get(sender));
        sender.is_some_and(|(of, _)| *of == connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: u64 = 1;

    /// One conversation, three receivers; the first of them sends.
    struct World(Ledger);

    fn world() -> World {
        let mut ledger = Ledger::default();
        let conversation = ledger.add_conversation(77, HEAD);
        for name in ["ann", "bob", "eve"] {
            ledger.add_connection(name.to_owned(), &[conversation]);
        }
        ledger.add_sender(0);
        World(ledger)
    }

    fn key(number: u64) -> Key {
        Key {
            run: 1,
            sender: 0,
            number,
            planned: 0,
        }
    }

    impl World {
        /// `who` gets seq, which carries the sender's message `number`.
        fn live(&mut self, who: usize, seq: u64, number: u64) -> Arrived {
            self.arrive(who, seq, number, Way::Live)
        }

        fn arrive(&mut self, who: usize, seq: u64, number: u64, way: Way) -> Arrived {
            let seat = Seat {
                connection: who,
                place: 0,
            };
            self.0.arrive(seat, seq, Some(key(number)), way)
        }

        fn findings(self) -> [u64; 5] {
            let found = self.0.close();
            assert_eq!(found.total() > 0, !found.first_offenders.is_empty());
            [
                found.lost,
                found.doubled,
                found.reordered,
                found.stored_twice,
                found.mixed_up,
            ]
        }
    }

    #[test]
    fn what_comes_once_and_in_order_leaves_nothing_behind() {
        let mut world = world();
        for n in 0..10_000 {
            let seq = HEAD + 1 + n;
            let last = [0, 1, 2].map(|who| world.live(who, seq, n).by_all);
            assert_eq!(last, [false, false, true]);
            assert_eq!(world.0.unsettled(), 0);
        }
        assert_eq!(world.findings(), [0; 5]);
    }

    #[test]
    fn a_receiver_that_loses_one_in_the_middle_or_at_the_end_is_seen() {
        for lost in [5, 9] {
            let mut world = world();
            for n in 0..10 {
                for who in [0, 1, 2] {
                    if (who, n) != (1, lost) {
                        world.live(who, HEAD + 1 + n, n);
                    }
                }
            }
            assert_eq!(world.findings(), [1, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn a_receiver_that_gets_one_twice_is_seen_also_when_everybody_has_it() {
        let mut world = world();
        for n in 0..3 {
            for who in [0, 1, 2] {
                world.live(who, HEAD + 1 + n, n);
            }
        }
        assert!(!world.live(2, HEAD + 1, 0).fresh);
        assert_eq!(world.findings(), [0, 1, 0, 0, 0]);
    }

    #[test]
    fn two_that_are_swapped_are_seen_and_not_taken_for_a_loss() {
        let mut world = world();
        for who in [0, 1, 2] {
            for n in if who == 1 { [1, 0, 2] } else { [0, 1, 2] } {
                world.live(who, HEAD + 1 + n, n);
            }
        }
        assert_eq!(world.findings(), [0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_retry_that_is_stored_as_a_second_message_is_seen() {
        let mut world = world();
        for who in [0, 1, 2] {
            world.live(who, HEAD + 1, 0);
            world.live(who, HEAD + 2, 0);
        }
        assert_eq!(world.findings(), [0, 0, 0, 1, 0]);
    }

    #[test]
    fn two_messages_under_one_number_are_seen() {
        let mut world = world();
        for (who, number) in [(0, 0), (1, 0), (2, 1)] {
            world.live(who, HEAD + 1, number);
        }
        assert_eq!(world.findings(), [0, 0, 0, 0, 1]);
    }

    #[test]
    fn who_comes_back_asks_for_the_rest_and_an_overlap_is_no_double() {
        let mut world = world();
        for n in 0..5 {
            world.live(0, HEAD + 1 + n, n);
            world.live(1, HEAD + 1 + n, n);
        }
        world.live(2, HEAD + 1, 0);
        world.0.broke_off(2);
        world.live(2, HEAD + 5, 4); // pushes begin again
        let eve = Seat {
            connection: 2,
            place: 0,
        };
        assert_eq!(world.0.asks_after(eve), HEAD + 1);
        for n in 1..6 {
            world.arrive(2, HEAD + 1 + n, n, Way::Asked);
        }
        for who in [0, 1, 2] {
            world.live(who, HEAD + 6, 5); // it was read and is pushed all the same
        }
        assert_eq!(world.findings(), [0; 5]);
    }

    #[test]
    fn a_loss_before_a_break_is_not_healed_by_reading_afterwards() {
        let mut world = world();
        for who in [0, 1, 2] {
            for n in (0..3).filter(|n| (who, *n) != (2, 1)) {
                world.live(who, HEAD + 1 + n, n);
            }
        }
        world.0.broke_off(2);
        world.arrive(2, HEAD + 2, 1, Way::Asked);
        assert_eq!(world.findings(), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn an_own_message_whose_answer_is_missing_is_no_loss() {
        let mut world = world();
        for n in 0..2 {
            world.live(1, HEAD + 1 + n, n);
            world.live(2, HEAD + 1 + n, n);
        }
        world.live(0, HEAD + 2, 1);
        assert_eq!(world.0.unsettled(), 2);
        assert_eq!(world.findings(), [0; 5]);
    }
}
