//! What a user does for themselves in one step.

use onescribe::domain::{ActionType, MessageStatus, Personal, Seq};
use onescribe::service::ServiceError;

use super::model::User;
use super::steps::{index, refused};
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
        let answer = self.stack.inbox.read(self.origin(acting), *id, Seq::new(seq)).await;
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
            if self.devices[acting].session.is_some() {
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
        let answer = self.stack.inbox.set(self.origin(acting), *id, act).await;
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
        let answer = self.stack.inbox.set(self.origin(acting), *id, act).await;
        let (seq, own) = (seq.min(room.head()), room.members.get(&user).cloned());
        let changes = own.as_ref().is_some_and(|own| seq > own.cleared);
        self.personal(user, answer, own.is_some(), changes);
        if let Some(own) = self.places[place].room.members.get_mut(&user).filter(|_| changes) {
            own.cleared = seq;
        }
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
        let answer = self.stack.inbox.act(self.origin(acting), act).await;
        let room = &self.places[place].room;
        let said = &room.said[index(sent.seq)];
        let there = room.members.contains_key(&user) && said.status != MessageStatus::Deleted;
        let allowed = there && (room.reaches(user, sent.seq) || (take_back && said.ever_deleted_for.contains(&user)));
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
