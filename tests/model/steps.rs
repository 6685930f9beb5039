//! What can happen in one step, to the server and to the model alike. Whether it is allowed is asked of the model first.

use std::collections::BTreeSet;
use std::time::Duration;

use onescribe::domain::{
    Adding, ClientMessageId, Code, ConversationId, Emoji, HistoryVisibility, MessageStatus, NewConversation, Origin,
    Posting, Role, Touch,
};
use onescribe::protocol::view;
use onescribe::service::{Forwarded, Sent as Answer, ServiceError, Touched};
use onescribe::storage::memory::Fault;
use serde_json::Value;

use super::model::{Room, User, WINDOW_SECS};
use super::saying::{content, send};
use super::stack::{origin, principal, subject};
use super::walk::{Place, Sent, USERS, Walk};

/// So many conversations that can be written to; when there are fewer, some are made.
const PLACES: usize = 6;
/// After so many steps one more is made: one in which everything has happened tells nothing new.
const FRESH_EVERY: usize = 200;
/// So soon everybody is told of what has come late.
const FOUND_WITHIN: Duration = Duration::from_secs(3);
/// So often somebody asks again who was told that the outcome is unknown.
const ASKED_MAX: usize = 5;

impl Walk {
    /// One step; the places that it was about stand in `touched` afterwards.
    pub(crate) async fn step(&mut self) {
        self.touched.clear();
        let few = self.places.iter().filter(|place| place.room.open).count() < PLACES;
        if self.chance.one_in(if few { 5 } else { FRESH_EVERY }) {
            self.trouble_with(false);
            self.create().await;
            self.endure(None).await;
            return;
        }
        match self.chance.below(120) {
            0..20 => self.come_or_go().await,
            20 if self.chance.one_in(5) => self.restart().await,
            _ if self.places.is_empty() => {}
            115.. => self.look_for_reminders().await,
            choice => self.act(choice).await,
        }
    }

    async fn come_or_go(&mut self) {
        let device = self.chance.below(self.devices.len());
        if self.devices[device].session.is_some() && self.chance.one_in(2) {
            self.devices[device].disconnect(&self.stack);
        } else {
            self.devices[device].connect(&self.stack).await;
        }
    }

    async fn act(&mut self, choice: usize) {
        let (place, user) = (self.some_place(), self.chance.below(USERS));
        let acting = user * 3 + self.chance.below(3);
        self.touched.push(place);
        // To ask again for a deletion, or for something in a group, may be refused when it has happened.
        self.trouble_with(!(75..100).contains(&choice));
        match choice {
            21..27 => self.read(place, user, acting).await,
            27..31 => self.settings(place, user, acting).await,
            31..33 => self.clear(place, user, acting).await,
            33..39 => self.delete_for_me(place, user, acting).await,
            39..44 => self.react(place, user, acting).await,
            44..46 => self.pin(place, user, acting).await,
            ..55 => self.send(place, user, acting).await,
            55..60 => self.repeat(place).await,
            60..70 => self.edit(place, user, acting).await,
            70..75 => self.recall(place, user, acting).await,
            75..79 => self.delete(place, user, acting).await,
            79..85 => self.add(place, user, acting).await,
            85..88 => self.remove(place, user, acting).await,
            88..91 => self.leave(place, user, acting).await,
            91..95 => self.give_role(place, user, acting).await,
            95..99 => self.update(place, user, acting).await,
            99 => self.dissolve(place, user, acting).await,
            100..103 => self.forward(place, user, acting).await,
            103..106 => self.receipts(place, user).await,
            _ => self.remind_me(place, user, acting).await,
        }
        self.endure(Some(acting)).await;
    }

    /// Most often one of the newest: in an old one most things have happened.
    fn some_place(&mut self) -> usize {
        let count = self.places.len();
        let among = if self.chance.one_in(8) {
            count
        } else {
            count.min(PLACES * 2)
        };
        count - 1 - self.chance.below(among)
    }

    /// From time to time something goes wrong with the next commit. `may_be_late`: it can be asked for twice.
    fn trouble_with(&mut self, may_be_late: bool) {
        if self.chance.below(6) > 0 {
            return;
        }
        let later = u32::try_from(1 + self.chance.below(6)).unwrap();
        let fault = match self.chance.below(4) {
            0 => Fault::FailBefore,
            1 => Fault::UnknownStored,
            2 if may_be_late => Fault::UnknownStoredLater(later),
            _ => Fault::UnknownNotStored,
        };
        self.trouble.plan(fault);
    }

    /// What has gone wrong is over. A device whose own act came late was told of it in no order: it asks.
    async fn endure(&mut self, acting: Option<usize>) {
        let late = self.trouble.is_late();
        match self.trouble.end() {
            None => {}
            Some(Fault::FailBefore) => self.happened("a commit failed"),
            Some(Fault::UnknownStored) => self.happened("an answer was lost"),
            Some(Fault::UnknownStoredLater(_)) => self.happened("a commit came late"),
            Some(_) => self.happened("a commit was lost"),
        }
        if late {
            // What has come late is found when it is looked for again.
            tokio::time::sleep(FOUND_WITHIN).await;
            if let Some(acting) = acting {
                self.devices[acting].lost = true;
            }
        }
    }

    /// Does the acting device learn from the reply what it is spared by the push?
    pub(crate) fn learns(&self, acting: usize) -> bool {
        self.devices[acting].session.is_some() && !self.trouble.is_late()
    }

    pub(crate) fn happened(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    pub(crate) fn now(&self) -> i64 {
        use onescribe::clock::Clock as _;
        self.clock.now().millis()
    }

    /// As whom a device acts: one that is not connected has no name on REST.
    pub(crate) fn origin(&self, acting: usize) -> Origin {
        let device = &self.devices[acting];
        let named = origin(device.user, &device.name);
        match device.session {
            Some(_) => named,
            None => Origin { device: None, ..named },
        }
    }

    async fn create(&mut self) {
        let creator = self.chance.below(USERS);
        let others: Vec<User> = (0..USERS)
            .filter(|user| *user != creator && self.chance.one_in(2))
            .collect();
        let direct = self.chance.one_in(4);
        let joined_only = self.chance.one_in(2);
        let (new, founders) = if direct {
            let other = self.chance.below(USERS);
            let founders = if other == creator {
                vec![creator]
            } else {
                vec![creator, other]
            };
            (NewConversation::Direct { member: subject(other) }, founders)
        } else {
            let visibility = if joined_only {
                HistoryVisibility::Joined
            } else {
                HistoryVisibility::Shared
            };
            let new = NewConversation::Group {
                title: "room".to_owned(),
                members: others.iter().map(|user| subject(*user)).collect(),
                client_request_id: None,
                history_visibility: visibility,
                posting: Posting::All,
                adding: Adding::Admins,
            };
            (new, std::iter::once(creator).chain(others).collect())
        };
        let create = async || {
            self.stack
                .conversations
                .create(origin(creator, "nowhere"), new.clone())
                .await
        };
        let made = asked(create).await.unwrap();
        let id = made.seen.header.conversation_id;
        let known = self.places.iter().position(|place| place.id == id);
        assert_eq!(known.is_none(), made.created);
        if known.is_none() {
            let room = Room::new(!direct, joined_only && !direct, &founders, self.now());
            self.places.push(Place::new(id, room));
        }
        self.touched.push(known.unwrap_or(self.places.len() - 1));
    }

    async fn send(&mut self, place: usize, user: User, acting: usize) {
        let (text, key) = (self.text(), format!("key-{}", self.now()));
        let command = send(self.origin(acting), &key, &text);
        let Place { id, room, .. } = &self.places[place];
        let answer = asked(async || self.stack.messages.send(*id, command.clone()).await).await;
        let allowed = room.open && room.has(user, room.post);
        if !(self.may_show(user, &text, "") && allowed) {
            refused(answer);
            return;
        }
        self.said(place, user, acting, &key, &text, &answer.unwrap());
    }

    /// A message has been stored.
    fn said(&mut self, place: usize, user: User, acting: usize, key: &str, text: &str, answer: &Answer) {
        let now = self.now();
        let Place { room, sent, .. } = &mut self.places[place];
        room.say(user, text, now);
        let message = &answer.message.message;
        assert_eq!(message.seq.get(), room.head());
        assert!(!answer.duplicate || self.trouble.has_struck(), "{message:?}");
        sent.push(Sent {
            user,
            key: key.to_owned(),
            text: text.to_owned(),
            seq: message.seq.get(),
            id: message.message_id,
        });
        if self.learns(acting) {
            self.devices[acting].take(&super::device::shown(&answer.message));
        }
    }

    /// Into the place itself and another one; each of them judges for itself.
    async fn forward(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let to = BTreeSet::from([place, self.some_place()]);
        self.touched.extend(&to);
        let ids: Vec<ConversationId> = to.iter().map(|place| self.places[*place].id).collect();
        let key = ClientMessageId::parse(&format!("key-{}", self.now())).unwrap();
        let origin = self.origin(acting);
        let forward = async || {
            let copies = self.stack.messages.forward(origin.clone(), sent.id, &ids, &key).await?;
            let unknown = |copy: &Forwarded| matches!(&copy.outcome, Err(error) if error.code == Code::Unavailable);
            match copies.iter().find(|copy| unknown(copy)) {
                Some(Forwarded {
                    outcome: Err(error), ..
                }) => Err(error.clone()),
                _ => Ok(copies),
            }
        };
        let answer = asked(forward).await;
        let room = &self.places[place].room;
        let said = &room.said[index(sent.seq)];
        if !room.sees(user, sent.seq) || said.status == MessageStatus::Recalled {
            refused(answer);
            return;
        }
        let (text, copies) = (said.text.clone(), answer.unwrap());
        let places: Vec<ConversationId> = copies.iter().map(|copy| copy.conversation_id).collect();
        assert_eq!(places, ids, "an answer for each");
        for (place, copy) in to.into_iter().zip(copies) {
            let room = &self.places[place].room;
            if room.open && room.has(user, room.post) {
                self.said(place, user, acting, key.as_str(), &text, &copy.outcome.unwrap());
                self.happened("a message was forwarded");
            } else {
                refused(copy.outcome);
            }
        }
    }

    /// The answer to an earlier send was lost: it is sent again, whatever has become of the message and of its sender.
    async fn repeat(&mut self, place: usize) {
        let Place { id, sent, .. } = &self.places[place];
        if sent.is_empty() {
            return;
        }
        let earlier = sent[self.chance.below(sent.len())].clone();
        let command = send(origin(earlier.user, "nowhere"), &earlier.key, &earlier.text);
        let answer = asked(async || self.stack.messages.send(*id, command.clone()).await)
            .await
            .unwrap();
        let message = &answer.message.message;
        assert!(answer.duplicate);
        assert_eq!((message.message_id, message.seq.get()), (earlier.id, earlier.seq));
    }

    /// A message that somebody sent, most often a late one.
    pub(crate) fn some_message(&mut self, place: usize) -> Option<Sent> {
        let count = self.places[place].sent.len();
        if count == 0 {
            return None;
        }
        let back = if self.chance.one_in(4) { count } else { count.min(8) };
        let at = count - 1 - self.chance.below(back);
        Some(self.places[place].sent[at].clone())
    }

    async fn edit(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let text = self.text();
        let touch = Touch::Edit(content(&text));
        let answer = self.touch(&sent, acting, touch).await;
        let room = &mut self.places[place].room;
        let said = &room.said[index(sent.seq)];
        let allowed =
            room.open && room.sees(user, sent.seq) && sent.user == user && said.status != MessageStatus::Recalled;
        let (same, before) = (said.text == text, said.text.clone());
        let allowed = allowed && self.may_show(user, &text, &before);
        self.touched(place, &sent, acting, answer, allowed, same);
        if allowed && !same {
            let said = &mut self.places[place].room.said[index(sent.seq)];
            (said.text, said.status) = (text, MessageStatus::Edited);
        }
    }

    async fn recall(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let now = self.now();
        let touch = self.stack.messages.recall_now();
        let answer = self.touch(&sent, acting, touch).await;
        let room = &self.places[place].room;
        let said = &room.said[index(sent.seq)];
        let manages = room.group && room.has(user, Role::Admin);
        let in_time = now - said.at <= i64::try_from(WINDOW_SECS).unwrap() * 1_000;
        let done = said.status == MessageStatus::Recalled;
        let by = manages || (sent.user == user && (in_time || done));
        let allowed = room.open && room.sees(user, sent.seq) && by;
        self.touched(place, &sent, acting, answer, allowed, done);
        if allowed {
            self.places[place].room.said[index(sent.seq)].take_away(MessageStatus::Recalled);
        }
    }

    async fn delete(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let answer = self.touch(&sent, acting, Touch::Delete).await;
        let room = &self.places[place].room;
        let allowed = room.open && room.sees(user, sent.seq) && room.group && room.has(user, Role::Admin);
        self.touched(place, &sent, acting, answer, allowed, false);
        if allowed {
            self.places[place].room.said[index(sent.seq)].take_away(MessageStatus::Deleted);
        }
    }

    async fn react(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let (emoji, added) = (["+1", "🎉", "👍"][self.chance.below(3)], !self.chance.one_in(3));
        let touch = Touch::React {
            emoji: Emoji::parse(emoji).unwrap(),
            added,
        };
        let answer = self.touch(&sent, acting, touch).await;
        let room = &self.places[place].room;
        let said = &room.said[index(sent.seq)];
        let allowed = room.open && room.sees(user, sent.seq) && said.status != MessageStatus::Recalled;
        let given = (emoji.to_owned(), user);
        let same = said.reactions.contains(&given) == added;
        self.touched(place, &sent, acting, answer, allowed, same);
        if allowed && !same {
            let reactions = &mut self.places[place].room.said[index(sent.seq)].reactions;
            if !reactions.remove(&given) {
                reactions.insert(given);
            }
        }
    }

    async fn pin(&mut self, place: usize, user: User, acting: usize) {
        let Some(sent) = self.some_message(place) else {
            return;
        };
        let pinned = self.chance.one_in(2);
        let answer = self.touch(&sent, acting, Touch::Pin(pinned)).await;
        let room = &self.places[place].room;
        let said = &room.said[index(sent.seq)];
        let least = if room.group { Role::Admin } else { Role::Member };
        let may = room.open && room.has(user, least) && room.sees(user, sent.seq);
        let allowed = may && said.status != MessageStatus::Recalled;
        let same = said.pinned == pinned;
        self.touched(place, &sent, acting, answer, allowed, same);
        if allowed && !same {
            self.places[place].room.said[index(sent.seq)].pinned = pinned;
        }
    }

    async fn touch(&self, sent: &Sent, acting: usize, touch: Touch) -> Result<Touched, ServiceError> {
        let origin = self.origin(acting);
        asked(async || self.stack.messages.touch(origin.clone(), sent.id, touch.clone()).await).await
    }

    /// An act on a message has been answered. `same`: nothing had to change.
    fn touched(
        &mut self,
        place: usize,
        sent: &Sent,
        acting: usize,
        answer: Result<Touched, ServiceError>,
        allowed: bool,
        same: bool,
    ) {
        if !allowed {
            refused(answer);
            return;
        }
        let answer = answer.unwrap_or_else(|error| panic!("{error} of {} {}", sent.id, sent.text));
        // Who asks again for what has come late finds it done.
        assert!(answer.change.is_none() == same || self.trouble.is_late(), "{answer:?}");
        self.places[place].room.changes += i64::from(!same);
        if !self.learns(acting) {
            return;
        }
        let device = &mut self.devices[acting];
        let marks = answer.message.marks_for(principal(device.user));
        let message = || view::Message::new(&answer.message.message, &marks);
        match &answer.change {
            Some(change) => device.change(&value(&view::Change::new(change, Some(message())))),
            None => device.keep(&value(&message())),
        }
    }
}

pub(crate) fn index(seq: i64) -> usize {
    usize::try_from(seq - 1).unwrap()
}

pub(crate) fn value(view: &impl serde::Serialize) -> Value {
    serde_json::to_value(view).unwrap()
}

/// Asks again as long as the outcome is unknown, as the contract tells clients to.
pub(crate) async fn asked<T>(ask: impl AsyncFn() -> Result<T, ServiceError>) -> Result<T, ServiceError> {
    for _ in 1..ASKED_MAX {
        match ask().await {
            Err(error) if error.code == Code::Unavailable => {}
            answer => return answer,
        }
    }
    ask().await
}

/// Refused for good, and not by a mistake of the server.
pub(crate) fn refused<T>(answer: Result<T, ServiceError>) {
    let error = answer.map(drop).expect_err("the model refuses this");
    assert!(
        !matches!(error.code.as_str(), "internal" | "unavailable" | "overloaded"),
        "{error}"
    );
}
