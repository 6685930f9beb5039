//! What a user does for themselves in one step.

use onescribe::domain::{ActionType, MessageStatus, Personal, Seq, Timestamp};
use onescribe::service::ServiceError;

use super::model::{Reminder, User};
use super::stack::principal;
use super::steps::{asked, index, refused};
use super::walk::{Place, Walk};

impl Walk {
    /// The INBOX's answer to an act of its owner's: so many changes more.
    pub(crate) fn personal<T>(
        &mut self,
        user: User,
        answer: Result<T, ServiceError>,
        allowed: bool,
        changes: bool,
    ) -> Option<T> {
        if !allowed {
            refused(answer);
            return None;
        }
        self.inboxes[user] += i64::from(changes);
        Some(answer.unwrap_or_else(|error| panic!("{error}")))
    }

    pub(crate) async fn read(&mut self, place: usize, user: User, acting: usize) {
        let Place { id, room, .. } = &self.places[place];
        let seq = i64::try_from(self.chance.below(room.said.len() + 3)).unwrap();
        let origin = self.origin(acting);
        let answer = asked(async || self.stack.inbox.read(origin.clone(), *id, Seq::new(seq)).await).await;
        let (seq, own) = (seq.min(room.head()), room.members.get(&user).cloned());
        let moves = own
            .as_ref()
            .is_some_and(|own| seq > own.read || (seq == own.read && own.marked));
        let answer = self.personal(user, answer, own.is_some(), moves);
        if let Some(own) = self.places[place].room.members.get_mut(&user).filter(|_| moves) {
            (own.read, own.marked) = (seq, false);
        }
        if let Some(answer) = answer {
            let room = &self.places[place].room;
            let expected = (room.members[&user].read, room.unread(user));
            assert_eq!((answer.last_read_seq.get(), answer.unread_count), expected);
            if self.learns(acting) {
                self.devices[acting].read(answer.change_seq);
            }
        }
    }

    pub(crate) async fn settings(&mut self, place: usize, user: User, acting: usize) {
        let (which, to) = (self.chance.below(3), self.chance.one_in(2));
        let Place { id, room, .. } = &self.places[place];
        let act = Personal::Settings {
            conversation_id: *id,
            muted: Some(to).filter(|_| which == 0),
            pinned: Some(to).filter(|_| which == 1),
            marked_unread: Some(to).filter(|_| which == 2),
        };
        let origin = self.origin(acting);
        let answer = asked(async || self.stack.inbox.set(origin.clone(), *id, act.clone()).await).await;
        let after = room.members.get(&user).cloned().map(|mut own| {
            *[&mut own.muted, &mut own.pinned, &mut own.marked][which] = to;
            own
        });
        let changes = after.as_ref().is_some_and(|own| {
            let before = &room.members[&user];
            (own.muted, own.pinned, own.marked) != (before.muted, before.pinned, before.marked)
        });
        self.personal(user, answer, after.is_some(), changes);
        if let Some(own) = after {
            self.places[place].room.members.insert(user, own);
        }
    }

    pub(crate) async fn clear(&mut self, place: usize, user: User, acting: usize) {
        let Place { id, room, .. } = &self.places[place];
        let seq = i64::try_from(self.chance.below(room.said.len() + 2)).unwrap();
        let (conversation_id, up_to_seq) = (*id, Seq::new(seq));
        let act = Personal::Clear {
            conversation_id,
            up_to_seq,
        };
        let origin = self.origin(acting);
        let answer = asked(async || self.stack.inbox.set(origin.clone(), *id, act.clone()).await).await;
        let (seq, own) = (seq.min(room.head()), room.members.get(&user).cloned());
        let changes = own.as_ref().is_some_and(|own| seq > own.cleared);
        self.personal(user, answer, own.is_some(), changes);
        if let Some(own) = self.places[place].room.members.get_mut(&user).filter(|_| changes) {
            own.cleared = seq;
        }
    }

    pub(crate) async fn remind_me(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let (message_id, action_type) = (sent.id, ActionType::Reminder);
        let take_back = self.chance.one_in(4);
        let due = self.now() + i64::try_from(self.chance.below(40)).unwrap() * 1_000;
        let act = if take_back {
            Personal::Unset {
                message_id,
                action_type,
            }
        } else {
            Personal::Set {
                message_id,
                action_type,
                remind_at: Some(Timestamp::from_millis(due)),
                payload: None,
            }
        };
        let origin = self.origin(acting);
        let answer = asked(async || self.stack.inbox.act(origin.clone(), act.clone()).await).await;
        let room = &self.places[place].room;
        let said = &room.said[index(sent.seq)];
        let before = said.reminders.get(&user);
        // What one has set one can always take back.
        let allowed = room.sees(user, sent.seq) || (take_back && before.is_some());
        let was = before.is_some_and(|one| one.active && (take_back || one.due == due));
        let changes = allowed && was == take_back;
        self.personal(user, answer, allowed, changes);
        if changes {
            let reminders = &mut self.places[place].room.said[index(sent.seq)].reminders;
            let due = if take_back { reminders[&user].due } else { due };
            let reminder = Reminder {
                due,
                active: !take_back,
                fired: false,
            };
            reminders.insert(user, reminder);
            self.happened("a reminder was set or taken back");
        }
    }

    /// How far a message has come: who has read it is known exactly; whom it has reached, to their devices.
    pub(crate) async fn receipts(&mut self, place: usize, user: User) {
        let Place { id, room, .. } = &self.places[place];
        if room.said.is_empty() {
            return;
        }
        let seq = 1 + i64::try_from(self.chance.below(room.said.len())).unwrap();
        let (id, place) = (*id, place);
        let answer = self.stack.inbox.receipts(principal(user), id, Seq::new(seq)).await;
        let room = &self.places[place].room;
        if !(room.members.contains_key(&user) && room.sees(user, seq)) {
            refused(answer);
            return;
        }
        let (read, not) = room.readers(seq);
        let mut answer = answer.unwrap();
        assert_eq!(answer.read, read.into_iter().map(principal).collect::<Vec<_>>());
        for user in &not {
            let mine = self
                .devices
                .iter()
                .filter(|device| device.user == *user && device.acknowledges);
            let reached: Vec<_> = mine.collect();
            let surely = reached.iter().any(|device| device.has_acknowledged(id, Seq::new(seq)));
            let perhaps = reached
                .iter()
                .any(|device| device.furthest.get(&id) >= Some(&Seq::new(seq)));
            let told = answer.delivered.contains(&principal(*user));
            assert!(told || !surely, "seq {seq} of {id} has reached user {user}");
            assert!(perhaps || !told, "seq {seq} of {id} has not reached user {user}");
        }
        let mut rest = answer.delivered.clone();
        rest.append(&mut answer.pending);
        rest.sort_unstable();
        let mut not: Vec<_> = not.into_iter().map(principal).collect();
        not.sort_unstable();
        assert_eq!(rest, not, "each in one list");
        self.happened("receipts were told");
    }

    pub(crate) async fn delete_for_me(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let (message_id, action_type) = (sent.id, ActionType::Delete);
        let take_back = self.chance.one_in(3);
        let act = if take_back {
            Personal::Unset {
                message_id,
                action_type,
            }
        } else {
            let (remind_at, payload) = (None, None);
            Personal::Set {
                message_id,
                action_type,
                remind_at,
                payload,
            }
        };
        let origin = self.origin(acting);
        let answer = asked(async || self.stack.inbox.act(origin.clone(), act.clone()).await).await;
        let room = &self.places[place].room;
        let said = &room.said[index(sent.seq)];
        let shown = room.reaches(user, sent.seq) && said.status != MessageStatus::Deleted;
        let allowed = shown || (take_back && said.ever_deleted_for.contains(&user));
        let changes = allowed && said.deleted_for.contains(&user) == take_back;
        self.personal(user, answer, allowed, changes);
        if changes {
            let said = &mut self.places[place].room.said[index(sent.seq)];
            said.ever_deleted_for.insert(user);
            if !said.deleted_for.remove(&user) {
                said.deleted_for.insert(user);
            }
        }
    }
}
