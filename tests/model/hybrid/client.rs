//! A small client: what it has fetched, and what it makes of what it is told afterwards.

use std::collections::{BTreeMap, BTreeSet};

use onescribe::domain::{ChangeSeq, ConversationId, DeviceId, Kind, Seq};
use onescribe::protocol::notifications::Notification;
use onescribe::protocol::view;
use onescribe::service::{DeviceCursor, HistoryQuery, Seen, SyncEntry, SyncQuery};
use serde_json::{Value, json};

use super::super::model::User;
use super::super::stack::{Stack, principal};
use super::super::steps::value;

/// More than any case has.
const ALL: u32 = 200;

/// What a client holds of one conversation.
#[derive(Clone, Debug, Default, PartialEq)]
struct Room {
    /// As it is listed.
    header: Value,
    messages: BTreeMap<i64, Value>,
    /// By their principal.
    members: BTreeMap<String, Value>,
}

/// What a client holds of its user's world.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    user: User,
    rooms: BTreeMap<String, Room>,
    /// By type and message: what its user has set for themselves.
    actions: BTreeMap<(String, String), Value>,
    /// What it has to fetch: it was told that it is there, or that something came back, and not what.
    unknown: BTreeSet<String>,
    /// It was told of an act in its INBOX, and has none.
    lacks_inbox: bool,
    /// Something was cleared, and it cannot know what it has set on what it does not hold.
    lacks_actions: bool,
    /// The types of the changes that it was told of.
    pub(crate) told: BTreeSet<String>,
}

impl Client {
    /// Fetches everything.
    pub(crate) async fn fetch(stack: &Stack, user: User) -> Self {
        let mut client = Self {
            user,
            rooms: BTreeMap::new(),
            actions: BTreeMap::new(),
            unknown: BTreeSet::new(),
            lacks_inbox: false,
            lacks_actions: false,
            told: BTreeSet::new(),
        };
        for seen in client.list(stack).await {
            client.fetch_room(stack, &seen).await;
        }
        client.fetch_actions(stack).await;
        client
    }

    async fn fetch_actions(&mut self, stack: &Stack) {
        let page = stack
            .inbox
            .actions(principal(self.user), None, None, ALL)
            .await
            .unwrap();
        self.actions.clear();
        for action in page.items.iter().map(|action| value(&view::Action::from(action))) {
            self.actions.insert(key_of(&action), action);
        }
    }

    async fn list(&self, stack: &Stack) -> Vec<Seen> {
        stack
            .conversations
            .list(principal(self.user), None, ALL)
            .await
            .unwrap()
            .items
    }

    async fn fetch_room(&mut self, stack: &Stack, seen: &Seen) {
        let (user, id) = (principal(self.user), seen.header.conversation_id);
        let query = HistoryQuery {
            conversation_id: id,
            before_seq: None,
            after_seq: None,
            limit: ALL,
        };
        let history = stack.messages.history(user, query).await.unwrap();
        let members = stack.conversations.members(user, id, None, ALL).await.unwrap();
        let messages = history.items.iter().map(|marked| value(&view::Message::from(marked)));
        let members = members.items.iter().map(|member| value(&view::Member::from(member)));
        let room = Room {
            header: header(seen),
            messages: messages.map(|message| (number(&message, "seq"), message)).collect(),
            members: members
                .map(|member| (member["principal"].to_string(), member))
                .collect(),
        };
        let pins = stack.messages.pins(user, id, None, ALL).await.unwrap();
        let pins: BTreeSet<i64> = pins.items.iter().map(|pin| pin.message.seq.get()).collect();
        let pinned = room.messages.iter().filter(|(_, message)| message["pinned"] == true);
        assert_eq!(pins, pinned.map(|(seq, _)| *seq).collect(), "what is pinned in {id}");
        if seen.header.kind == Kind::Inbox {
            let listed = stack.notifications.list(user, None, None, ALL).await.unwrap().items;
            let listed: Vec<Value> = listed
                .iter()
                .rev()
                .map(|note| value(&Notification::from(note)))
                .collect();
            let told = room
                .messages
                .values()
                .filter(|message| message["message_type"] == "NOTIFICATION");
            assert!(
                listed.iter().eq(told.map(|message| &message["content"])),
                "{listed:?} in {id}"
            );
        }
        self.rooms.insert(id.to_string(), room);
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.rooms.contains_key(id)
    }

    /// A push, or what a reply tells the acting device instead of one.
    pub(crate) fn hear(&mut self, frame: &Value) {
        match frame["type"].as_str().unwrap() {
            "message.new" => self.take(&frame["message"]),
            "conversation.joined" => {
                let (id, header) = (text(&frame["conversation"], "conversation_id"), &frame["conversation"]);
                self.rooms.entry(id.clone()).or_default().header = header.clone();
                // What was said before is no news.
                self.unknown.insert(id);
            }
            "conversation.left" => drop(self.rooms.remove(&text(frame, "conversation_id"))),
            "read.updated" if frame.get("change_seq").is_some() => self.hear_of_read(frame),
            "read.updated" | "reminder.fired" | "" => {}
            _ => self.hear_of_change(&frame["change"]),
        }
    }

    fn take(&mut self, message: &Value) {
        let (me, id) = (
            value(&view::Principal::from(principal(self.user))),
            text(message, "conversation_id"),
        );
        let room = self
            .rooms
            .get_mut(&id)
            .expect("a message of a conversation that one is in");
        let seq = number(message, "seq");
        if self.unknown.contains(&id) && room.header["last_seq"].as_i64() >= Some(seq) {
            return; // who joins is told how it is after the whole commit
        }
        assert_eq!(room.header["last_seq"], seq - 1, "a hole or a double: {message}");
        room.header["last_seq"] = seq.into();
        if message["sender"] == me {
            room.header["me"]["last_read_seq"] = seq.into();
            room.header["me"]["marked_unread"] = false.into();
        }
        room.keep(message);
    }

    fn hear_of_read(&mut self, frame: &Value) {
        self.told.insert("READ".to_owned());
        let Some(inbox) = self.rooms.values_mut().find(|room| room.header["kind"] == "INBOX") else {
            self.lacks_inbox = true;
            return self.read(frame);
        };
        assert_eq!(
            inbox.header["last_change_seq"],
            number(frame, "change_seq") - 1,
            "{frame}"
        );
        inbox.header["last_change_seq"] = frame["change_seq"].clone();
        self.read(frame);
        let room = &self.rooms[&text(frame, "conversation_id")];
        assert_eq!(frame["unread_count"], room.unread(self.user).0, "{frame}");
    }

    fn read(&mut self, read: &Value) {
        if let Some(room) = self.rooms.get_mut(&text(read, "conversation_id")) {
            room.header["me"]["last_read_seq"] = read["last_read_seq"].clone();
            room.header["me"]["marked_unread"] = false.into();
        }
    }

    fn hear_of_change(&mut self, change: &Value) {
        let id = text(change, "conversation_id");
        let Some(room) = self.rooms.get_mut(&id) else {
            self.lacks_inbox = true;
            return self.apply(change);
        };
        let seq = number(change, "change_seq");
        if self.unknown.contains(&id) && room.header["last_change_seq"].as_i64() >= Some(seq) {
            return;
        }
        assert_eq!(room.header["last_change_seq"], seq - 1, "a hole or a double: {change}");
        room.header["last_change_seq"] = seq.into();
        self.apply(change);
    }

    /// What a change means, from wherever one has it.
    fn apply(&mut self, change: &Value) {
        let (kind, payload) = (text(change, "change_type"), &change["payload"]);
        if let Some(room) = self.rooms.get_mut(&text(change, "conversation_id")) {
            room.apply(&kind, change, &value(&view::Principal::from(principal(self.user))));
            if payload.get("history_visibility").is_some() {
                self.unknown.insert(text(change, "conversation_id"));
            }
        }
        match kind.as_str() {
            "READ" => self.read(payload),
            "SETTINGS_UPDATED" => {
                if let Some(room) = self.rooms.get_mut(&text(payload, "conversation_id")) {
                    for field in ["muted", "pinned", "marked_unread", "cleared_seq"] {
                        room.header["me"][field] = payload[field].clone();
                    }
                    let cleared = number(payload, "cleared_seq");
                    self.lacks_actions |= cleared > 0;
                    room.messages.retain(|seq, _| *seq > cleared);
                }
            }
            "ACTION_SET" | "ACTION_CLEARED" => self.act(&kind, payload),
            _ => {}
        }
        self.told.insert(kind);
    }

    fn act(&mut self, kind: &str, action: &Value) {
        let deletes = action["action_type"] == "DELETE";
        if kind == "ACTION_SET" {
            self.actions.insert(key_of(action), action.clone());
        } else {
            self.actions.remove(&key_of(action));
        }
        if deletes && kind == "ACTION_CLEARED" {
            self.unknown.insert(text(action, "conversation_id"));
        } else if let Some(room) = self.rooms.get_mut(&text(action, "conversation_id")).filter(|_| deletes) {
            room.messages
                .retain(|_, message| message["message_id"] != action["message_id"]);
        }
    }

    /// Asks what it has missed, from where it is.
    pub(crate) async fn sync(&mut self, stack: &Stack) {
        loop {
            let cursor = |(id, room): (&String, &Room)| DeviceCursor {
                conversation_id: ConversationId::parse(id).unwrap(),
                seq: Seq::new(number(&room.header, "last_seq")),
                change_seq: ChangeSeq::new(number(&room.header, "last_change_seq")),
            };
            let query = SyncQuery {
                device: DeviceId::parse("away").unwrap(),
                store_epoch: Some("epoch".to_owned()),
                cursors: Some(self.rooms.iter().map(cursor).collect()),
                message_limit: 50,
                conversation_limit: 2,
                bytes_max: 1 << 20,
            };
            let page = stack.sync.sync(principal(self.user), query).await.unwrap();
            for id in &page.removed {
                self.rooms.remove(&id.to_string());
            }
            for entry in &page.entries {
                self.catch_up(entry);
            }
            if !page.has_more {
                return;
            }
        }
    }

    fn catch_up(&mut self, entry: &SyncEntry) {
        let id = entry.seen.header.conversation_id.to_string();
        assert!(entry.missing.is_none() && !entry.history_reset, "{entry:?}");
        let is_new = !self.rooms.contains_key(&id);
        let room = self.rooms.entry(id.clone()).or_default();
        if is_new {
            // Who has been in it from the beginning was told by no change.
            self.unknown.insert(id);
        }
        for marked in &entry.messages {
            room.keep(&value(&view::Message::from(marked)));
        }
        for change in &entry.changes {
            let message = change.message.as_ref().map(view::Message::from);
            let view = if change.hidden {
                view::Change::hidden(&change.change)
            } else {
                view::Change::new(&change.change, message)
            };
            self.apply(&value(&view));
        }
        // Last: it is how things are after all of them.
        let room = self
            .rooms
            .entry(entry.seen.header.conversation_id.to_string())
            .or_default();
        room.header = header(&entry.seen);
        assert_eq!(room.header["last_change_seq"], entry.next.1.get());
    }

    /// Fetches what it was not told.
    pub(crate) async fn fill(&mut self, stack: &Stack) {
        if std::mem::take(&mut self.lacks_actions) {
            self.fetch_actions(stack).await;
        }
        let (unknown, lacks_inbox) = (std::mem::take(&mut self.unknown), std::mem::take(&mut self.lacks_inbox));
        for seen in self.list(stack).await {
            let id = seen.header.conversation_id.to_string();
            let is_inbox = header(&seen)["kind"] == "INBOX";
            if (is_inbox && lacks_inbox) || unknown.contains(&id) {
                let told = self.rooms.get(&id).map(|room| room.header.clone());
                self.fetch_room(stack, &seen).await;
                if let (Some(told), Some(room)) = (told, self.rooms.get_mut(&id)) {
                    // Of a conversation itself it was told everything.
                    room.header = told;
                }
            }
        }
    }

    /// Counts for itself what the server counts for whoever asks.
    pub(crate) fn count(&mut self) {
        for room in self.rooms.values_mut() {
            let (unread, mentions) = room.unread(self.user);
            let standing = |message: &&Value| message["status"] != "RECALLED";
            let last = room.messages.values().rev().find(standing);
            room.header["last_message"] = last.cloned().unwrap_or_default();
            room.header["member_count"] = room.members.len().into();
            room.header["me"]["unread_count"] = unread.into();
            room.header["me"]["mention_count"] = mentions.into();
        }
    }

    /// Everything that its user can look at.
    pub(crate) fn world(&self) -> Value {
        let rooms = self.rooms.iter().map(|(id, room)| {
            let messages: Vec<&Value> = room.messages.values().collect();
            let members: Vec<&Value> = room.members.values().collect();
            let world = json!({"conversation": room.header, "messages": messages, "members": members});
            (id.clone(), world)
        });
        let rooms: serde_json::Map<_, _> = rooms.collect();
        // Listed is what is on a message that can be shown; of one that is deleted for oneself only that.
        let is_shown = |action: &&Value| {
            let room = self.rooms.get(&text(action, "conversation_id"));
            let is_held = |room: &Room| {
                let mut messages = room.messages.values();
                messages.any(|message| message["message_id"] == action["message_id"])
            };
            room.is_some_and(|room| action["action_type"] == "DELETE" || is_held(room))
        };
        let actions: Vec<&Value> = self.actions.values().filter(is_shown).collect();
        json!({"rooms": rooms, "actions": actions})
    }
}

impl Room {
    fn keep(&mut self, message: &Value) {
        if message["content"]["event"] == "member_added" {
            for member in message["content"]["members"].as_array().unwrap() {
                let joined = json!({
                    "principal": member, "role": "MEMBER", "joined_seq": message["seq"], "joined_at": message["sent_at"],
                });
                self.members.insert(member.to_string(), joined);
            }
        }
        if message["status"] == "DELETED" {
            self.messages.remove(&number(message, "seq"));
        } else {
            self.messages.insert(number(message, "seq"), message.clone());
        }
    }

    fn apply(&mut self, kind: &str, change: &Value, me: &Value) {
        let payload = &change["payload"];
        if let Some(message) = change.get("message") {
            self.keep(message);
        }
        match kind {
            "MEMBER_REMOVED" => {
                for member in payload["members"].as_array().unwrap() {
                    self.members.remove(&member.to_string());
                }
            }
            "MEMBER_UPDATED" => {
                let (who, role) = (&payload["principal"], &payload["role"]);
                self.members.get_mut(&who.to_string()).expect("a member")["role"] = role.clone();
                if who == me {
                    self.header["me"]["role"] = role.clone();
                }
                if role == "OWNER" {
                    self.header["owner"] = who.clone();
                    self.header["updated_at"] = change["changed_at"].clone();
                }
            }
            "CONVERSATION_UPDATED" => {
                for (field, new) in payload.as_object().unwrap() {
                    self.header[field] = new.clone();
                }
                self.header["updated_at"] = change["changed_at"].clone();
            }
            _ => {}
        }
    }

    /// What its user has not read, and how much of it mentions them.
    fn unread(&self, user: User) -> (usize, usize) {
        let (me, id) = (
            value(&view::Principal::from(principal(user))),
            principal(user).id.to_string(),
        );
        let read = number(&self.header["me"], "last_read_seq");
        let news = self.messages.range(read + 1..).map(|(_, message)| message);
        let news = news.filter(|message| message["sender"] != me && message["sender"]["type"] != "SYSTEM");
        let news: Vec<&Value> = news.filter(|message| message["status"] != "RECALLED").collect();
        let named = |message: &&&Value| {
            let content = &message["content"];
            let mut mentions = content["mentions"].as_array().into_iter().flatten();
            content["mention_all"] == true || mentions.any(|mention| mention["user_id"] == id)
        };
        (news.len(), news.iter().filter(named).count())
    }
}

/// As a list shows it; what a client counts by itself it must count right.
fn header(seen: &Seen) -> Value {
    let own = seen.membership.as_ref().unwrap();
    let me = view::Me::new(own, seen.unread_count, seen.mention_count);
    let last = seen.last_message.as_ref().map(view::Message::from);
    value(&view::Conversation::new(
        &seen.header,
        &seen.head,
        seen.member_count,
        me,
        last,
    ))
}

fn key_of(action: &Value) -> (String, String) {
    (text(action, "action_type"), text(action, "message_id"))
}

fn text(value: &Value, field: &str) -> String {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {value}"))
        .to_owned()
}

fn number(value: &Value, field: &str) -> i64 {
    value[field].as_i64().unwrap_or_else(|| panic!("no {field} in {value}"))
}
