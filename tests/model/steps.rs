//! What can happen in one step, to the server and to the model alike. Whether it is allowed is asked of the model first.

use onescribe::domain::{
    Adding, ClientMessageId, Content, Emoji, HistoryVisibility, MessageStatus, MessageType, NewConversation, Origin,
    Posting, Role, Send, Touch, chain,
};
use onescribe::protocol::view;
use onescribe::service::{ServiceError, Touched};
use serde_json::Value;

use super::model::{Room, User, WINDOW_SECS};
use super::stack::{origin, principal, subject};
use super::walk::{Place, Sent, USERS, Walk};

/// So many conversations that can be written to; when there are fewer, some are made.
const PLACES: usize = 6;

impl Walk {
    /// One step; answers the place that it was about.
    pub(crate) async fn step(&mut self) -> Option<usize> {
        if self.places.iter().filter(|place| place.room.open).count() < PLACES && self.chance.one_in(5) {
            return self.create().await;
        }
        match self.chance.below(100) {
            0..20 => self.come_or_go().await,
            20 if self.chance.one_in(5) => self.restart().await,
            _ if self.places.is_empty() => {}
            choice => return Some(self.act(choice).await),
        }
        None
    }

    async fn come_or_go(&mut self) {
        let device = self.chance.below(self.devices.len());
        if self.devices[device].session.is_some() && self.chance.one_in(2) {
            self.devices[device].disconnect(&self.stack);
        } else {
            self.devices[device].connect(&self.stack).await;
        }
    }

    async fn act(&mut self, choice: usize) -> usize {
        let (place, user) = (self.chance.below(self.places.len()), self.chance.below(USERS));
        let acting = user * 3 + self.chance.below(3);
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
            _ => self.dissolve(place, user, acting).await,
        }
        place
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

    async fn create(&mut self) -> Option<usize> {
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
        let made = self
            .stack
            .conversations
            .create(origin(creator, "nowhere"), new)
            .await
            .unwrap();
        let id = made.seen.header.conversation_id;
        let known = self.places.iter().position(|place| place.id == id);
        assert_eq!(known.is_none(), made.created);
        if known.is_none() {
            let room = Room::new(!direct, joined_only && !direct, &founders, self.now());
            self.places.push(Place {
                id,
                room,
                sent: Vec::new(),
            });
        }
        Some(known.unwrap_or(self.places.len() - 1))
    }

    fn text(&mut self) -> String {
        match self.chance.below(10) {
            0 => format!("hello @{}", self.chance.below(USERS)),
            1 => "hello @all".to_owned(),
            _ => format!("text {}", self.chance.below(1_000)),
        }
    }

    async fn send(&mut self, place: usize, user: User, acting: usize) {
        let (text, key) = (self.text(), format!("key-{}", self.now()));
        let command = send(self.origin(acting), &key, &text);
        let now = self.now();
        let Place { id, room, sent } = &mut self.places[place];
        let answer = self.stack.messages.send(*id, command).await;
        if !(room.open && room.has(user, room.post)) {
            refused(answer);
            return;
        }
        let answer = answer.unwrap();
        room.say(user, &text, now);
        let message = &answer.message.message;
        assert_eq!((message.seq.get(), answer.duplicate), (room.head(), false));
        sent.push(Sent {
            user,
            key,
            text,
            seq: message.seq.get(),
            id: message.message_id,
        });
        if self.devices[acting].session.is_some() {
            self.devices[acting].take(&super::device::shown(&answer.message));
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
        let answer = self.stack.messages.send(*id, command).await.unwrap();
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
        let same = said.text == text;
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
        self.stack.messages.touch(self.origin(acting), sent.id, touch).await
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
        assert_eq!(answer.change.is_none(), same, "{answer:?}");
        self.places[place].room.changes += i64::from(!same);
        let device = &mut self.devices[acting];
        if device.session.is_none() {
            return;
        }
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

/// Refused for good, and not by a mistake of the server.
pub(crate) fn refused<T>(answer: Result<T, ServiceError>) {
    let error = answer.map(drop).expect_err("the model refuses this");
    assert!(
        !matches!(error.code.as_str(), "internal" | "unavailable" | "overloaded"),
        "{error}"
    );
}

/// With mentions where the text has some.
fn content(text: &str) -> Content {
    let mut json = serde_json::json!({ "text": text });
    if text.contains("@all") {
        json["mention_all"] = true.into();
    } else if let Some((before, user)) = text.split_once('@') {
        let user: User = user.parse().unwrap();
        let (offset, id) = (before.len(), principal(user).id.to_string());
        json["mentions"] = serde_json::json!([{"user_id": id, "offset": offset, "length": 2}]);
    }
    Content::trusted(&json.to_string())
}

fn send(origin: Origin, key: &str, text: &str) -> Send {
    let content = content(text);
    Send {
        origin,
        client_message_id: ClientMessageId::parse(key).unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: None,
        expected_last_seq: None,
    }
}
