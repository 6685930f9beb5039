//! Which session of this arbiter listens to which conversation. No actor, no wait: a structure that can be tested.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::outbox::Outbox;
use super::super::session::Session;
use super::outgoing::Outgoing;
use crate::domain::{ConversationId, Principal};

/// A session, and what it listens to.
pub(super) struct Seat {
    pub(super) session: Arc<Session>,
    pub(super) pinged_at: Instant,
    /// What it listens to, with its place in [`Roster::listening`].
    conversations: HashMap<ConversationId, usize>,
    /// `Some` until its memberships have been read: nothing is pushed before `welcome`.
    loading: Option<Loading>,
}

struct Loading {
    welcome: Bytes,
    /// Joins (`true`) and leaves since the registration; the last of a conversation counts more than what was read.
    moves: HashMap<ConversationId, bool>,
}

/// What a push needs of a session. They lie side by side: most of what a push to many costs is waiting for memory.
pub(super) struct Listener {
    pub(super) id: u64,
    pub(super) principal: Principal,
    pub(super) outbox: Arc<Outbox>,
}

/// The sessions of one hub.
#[derive(Default)]
pub(super) struct Roster {
    seats: HashMap<u64, Seat>,
    by_principal: HashMap<Principal, Vec<u64>>,
    by_conversation: HashMap<ConversationId, Vec<Listener>>,
}

impl Roster {
    /// Takes a session in. Membership changes reach it from now on, pushes when it is [`Roster::loaded`].
    pub(super) fn add(&mut self, session: Arc<Session>, welcome: Bytes) {
        let (id, principal) = (session.id(), session.principal());
        let seat = Seat {
            session,
            pinged_at: Instant::now(),
            conversations: HashMap::new(),
            loading: Some(Loading {
                welcome,
                moves: HashMap::new(),
            }),
        };
        self.seats.insert(id, seat);
        self.by_principal.entry(principal).or_default().push(id);
    }

    /// The memberships were read: welcomes the session and subscribes it, less what it left and with what it joined
    /// meanwhile. `false` = it is gone.
    pub(super) fn loaded(&mut self, id: u64, read: Vec<ConversationId>) -> bool {
        let Some(seat) = self.seats.get_mut(&id) else {
            return false;
        };
        let Some(loading) = seat.loading.take() else {
            return true;
        };
        let moves = loading.moves;
        let stayed = read
            .into_iter()
            .filter(|conversation| !moves.contains_key(conversation));
        let joined = moves
            .iter()
            .filter(|(_, joined)| **joined)
            .map(|(conversation, _)| *conversation);
        seat.session.outbox().push(loading.welcome, Instant::now());
        for conversation in stayed.chain(joined) {
            listen(&mut self.by_conversation, seat, conversation);
        }
        true
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, id: u64) -> Option<Arc<Session>> {
        let seat = self.seats.remove(&id)?;
        for (conversation, at) in seat.conversations {
            self.unlisten(conversation, at);
        }
        let principal = seat.session.principal();
        if let Some(ids) = self.by_principal.get_mut(&principal) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_principal.remove(&principal);
            }
        }
        Some(seat.session)
    }

    /// Takes out whoever sits at `at`; the last one takes the place.
    fn unlisten(&mut self, conversation: ConversationId, at: usize) {
        let Some(listening) = self.by_conversation.get_mut(&conversation) else {
            return;
        };
        if at < listening.len() {
            listening.swap_remove(at);
        }
        if listening.is_empty() {
            self.by_conversation.remove(&conversation);
        } else if let Some(moved) = listening.get(at)
            && let Some(seat) = self.seats.get_mut(&moved.id)
        {
            seat.conversations.insert(conversation, at);
        }
    }

    /// Gives a frame to the sessions of a principal that are welcomed.
    pub(super) fn tell(&self, principal: Principal, frame: &Bytes, now: Instant, out: &mut Outgoing) {
        let ids = self.by_principal.get(&principal).map_or(&[][..], Vec::as_slice);
        let seats = ids.iter().filter_map(|id| self.seats.get(id));
        for seat in seats.filter(|seat| seat.loading.is_none()) {
            out.give(seat.session.outbox(), frame.clone(), now);
        }
    }

    /// Tells the principal's sessions that they joined (in silence, if there is no frame), and subscribes them to what
    /// follows.
    pub(super) fn join(
        &mut self,
        conversation: ConversationId,
        principal: Principal,
        frame: Option<&Bytes>,
        now: Instant,
        out: &mut Outgoing,
    ) {
        let ids = self.by_principal.get(&principal).map_or(&[][..], Vec::as_slice);
        for id in ids {
            let Some(seat) = self.seats.get_mut(id) else { continue };
            if let Some(loading) = &mut seat.loading {
                loading.moves.insert(conversation, true);
                continue;
            }
            if let Some(frame) = frame {
                out.give(seat.session.outbox(), frame.clone(), now);
            }
            listen(&mut self.by_conversation, seat, conversation);
        }
    }

    /// Tells the principal's sessions that they left: the last thing that they get of the conversation (B96).
    pub(super) fn leave(
        &mut self,
        conversation: ConversationId,
        principal: Principal,
        frame: &Bytes,
        now: Instant,
        out: &mut Outgoing,
    ) {
        let ids = self.by_principal.get(&principal).cloned().unwrap_or_default();
        for id in ids {
            let Some(seat) = self.seats.get_mut(&id) else { continue };
            if let Some(loading) = &mut seat.loading {
                loading.moves.insert(conversation, false);
                continue;
            }
            out.give(seat.session.outbox(), frame.clone(), now);
            if let Some(at) = seat.conversations.remove(&conversation) {
                self.unlisten(conversation, at);
            }
        }
    }

    /// Who listens to a conversation here.
    pub(super) fn listening(&self, conversation: ConversationId) -> &[Listener] {
        self.by_conversation.get(&conversation).map_or(&[], Vec::as_slice)
    }

    /// The sessions of a principal that listen to a conversation here.
    pub(super) fn of(&self, principal: Principal, conversation: ConversationId) -> impl Iterator<Item = &Arc<Session>> {
        let ids = self.by_principal.get(&principal).map_or(&[][..], Vec::as_slice);
        let seats = ids.iter().filter_map(|id| self.seats.get(id));
        let listening = seats.filter(move |seat| seat.conversations.contains_key(&conversation));
        listening.map(|seat| &seat.session)
    }

    /// Does this session listen to this conversation, that is: is it a member's?
    pub(super) fn listens(&self, id: u64, conversation: ConversationId) -> bool {
        let seat = self.seats.get(&id);
        seat.is_some_and(|seat| seat.conversations.contains_key(&conversation))
    }

    /// One session.
    pub(super) fn session(&self, id: u64) -> Option<&Arc<Session>> {
        self.seats.get(&id).map(|seat| &seat.session)
    }

    /// All sessions that have been welcomed.
    pub(super) fn welcomed(&mut self) -> impl Iterator<Item = &mut Seat> {
        self.seats.values_mut().filter(|seat| seat.loading.is_none())
    }

    /// All sessions.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.seats.values().map(|seat| &seat.session)
    }
}

fn listen(by_conversation: &mut HashMap<ConversationId, Vec<Listener>>, seat: &mut Seat, conversation: ConversationId) {
    let Entry::Vacant(place) = seat.conversations.entry(conversation) else {
        return;
    };
    let listening = by_conversation.entry(conversation).or_default();
    place.insert(listening.len());
    listening.push(Listener {
        id: seat.session.id(),
        principal: seat.session.principal(),
        outbox: Arc::clone(seat.session.outbox()),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::tests::support::{session, texts};
    use crate::delivery::wire;

    fn conversation(id: i64) -> ConversationId {
        ConversationId::new(id).unwrap()
    }

    fn word(text: &str) -> Bytes {
        wire::text(&text)
    }

    fn seated(roster: &mut Roster, id: u64) -> Arc<Session> {
        let one = session(id, Principal::user(1), &format!("d{id}"));
        roster.add(Arc::clone(&one), word("welcome"));
        one
    }

    #[actix::test]
    async fn a_join_or_leave_while_the_memberships_are_read_counts_more_than_what_was_read() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        let out = &mut Outgoing::default();
        let one = seated(&mut roster, 1);
        roster.join(conversation(1), one.principal(), Some(&word("joined")), now, out);
        roster.leave(conversation(2), one.principal(), &word("left"), now, out);
        roster.leave(conversation(3), one.principal(), &word("left"), now, out);
        roster.join(conversation(3), one.principal(), Some(&word("joined")), now, out);
        assert!(roster.listening(conversation(1)).is_empty(), "nothing before welcome");
        assert!(roster.loaded(1, vec![conversation(2), conversation(3), conversation(4)]));
        let listens: Vec<bool> = (1..=4).map(|id| roster.listens(1, conversation(id))).collect();
        assert_eq!(listens, [true, false, true, true]);
        assert_eq!(texts(&one), ["\"welcome\""]);
    }

    #[actix::test]
    async fn an_inbox_is_joined_in_silence_and_own_frames_reach_those_who_are_welcomed() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        let out = &mut Outgoing::default();
        let one = seated(&mut roster, 1);
        roster.tell(one.principal(), &word("too early"), now, out);
        roster.loaded(1, vec![]);
        roster.join(conversation(9), one.principal(), None, now, out);
        assert!(roster.listens(1, conversation(9)));
        roster.tell(one.principal(), &word("own"), now, out);
        roster.tell(Principal::user(2), &word("of another"), now, out);
        assert_eq!(texts(&one), ["\"welcome\"", "\"own\""]);
    }

    #[actix::test]
    async fn joining_twice_subscribes_once() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        let out = &mut Outgoing::default();
        let one = seated(&mut roster, 1);
        roster.loaded(1, vec![conversation(1)]);
        roster.join(conversation(1), one.principal(), Some(&word("joined")), now, out);
        assert_eq!(roster.listening(conversation(1)).len(), 1);
        roster.leave(conversation(1), one.principal(), &word("left"), now, out);
        assert!(roster.listening(conversation(1)).is_empty());
        assert_eq!(texts(&one), ["\"welcome\"", "\"joined\"", "\"left\""]);
    }

    #[actix::test]
    async fn whoever_leaves_a_conversation_leaves_the_others_their_places() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        let out = &mut Outgoing::default();
        let all: Vec<_> = (1..=4)
            .map(|id| session(id, Principal::user(i64::try_from(id).unwrap()), "d"))
            .collect();
        for one in &all {
            roster.add(Arc::clone(one), word("welcome"));
            roster.loaded(one.id(), vec![conversation(1), conversation(2)]);
        }
        let here = |roster: &Roster, id| {
            let mut here: Vec<u64> = roster.listening(conversation(id)).iter().map(|one| one.id).collect();
            here.sort_unstable();
            here
        };
        roster.leave(conversation(1), Principal::user(1), &word("left"), now, out);
        assert_eq!((here(&roster, 1), here(&roster, 2)), (vec![2, 3, 4], vec![1, 2, 3, 4]));
        roster.remove(4);
        assert_eq!((here(&roster, 1), here(&roster, 2)), (vec![2, 3], vec![1, 2, 3]));
        roster.leave(conversation(1), Principal::user(2), &word("left"), now, out);
        roster.remove(3);
        assert_eq!((here(&roster, 1), here(&roster, 2)), (vec![], vec![1, 2]));
    }

    #[actix::test]
    async fn nothing_is_left_of_a_session_that_is_gone() {
        let mut roster = Roster::default();
        seated(&mut roster, 1);
        seated(&mut roster, 2);
        roster.loaded(1, vec![conversation(1)]);
        roster.loaded(2, vec![conversation(1)]);
        assert!(roster.remove(1).is_some() && roster.remove(1).is_none());
        assert_eq!(roster.listening(conversation(1)).len(), 1);
        roster.remove(2);
        assert!(!roster.loaded(2, vec![conversation(1)]));
        let empty = roster.seats.is_empty() && roster.by_principal.is_empty() && roster.by_conversation.is_empty();
        assert!(empty);
    }
}
