//! A device that follows the rules of the contract and knows nothing but what it was told: its copy must be what a fresh
//! read shows. On one connection it insists on rows of numbers without a hole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onescribe::delivery::session::Session;
use onescribe::domain::{ChangeSeq, ConversationId, DeviceId, Kind, Marked, Seq};
use onescribe::protocol::view;
use onescribe::service::{DeviceCursor, HistoryQuery, SyncEntry, SyncQuery};
use serde_json::Value;

use super::frames;
use super::model::User;
use super::stack::{Stack, principal};

/// What a device holds of one conversation.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    seq: i64,
    change_seq: i64,
    pub(crate) messages: BTreeMap<i64, Value>,
    /// It has to be fetched anew.
    stale: bool,
    /// The head of the changes when it was fetched from the beginning: what was visible then is here.
    fetched_at: i64,
}

pub(crate) struct Device {
    pub(crate) user: User,
    pub(crate) name: String,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) copies: BTreeMap<ConversationId, Copy>,
    /// The user's INBOX, when it is known.
    pub(crate) inbox: Option<ConversationId>,
    /// Of an act of its own it does not know what has become, or of a change not in which INBOX: it asks.
    pub(crate) lost: bool,
    /// It leaves its cursors to the server.
    pub(crate) acknowledges: bool,
    /// What it has left there last, and the furthest that it ever was.
    left: Vec<DeviceCursor>,
    pub(crate) furthest: BTreeMap<ConversationId, Seq>,
    /// The messages that it was reminded of, as they were shown.
    pub(crate) reminded: Vec<Value>,
    pings: u64,
}

pub(crate) fn shown(marked: &Marked) -> Value {
    serde_json::to_value(view::Message::from(marked)).unwrap()
}

impl Device {
    pub(crate) fn new(user: User, number: usize) -> Self {
        Self {
            user,
            name: format!("device-{number}"),
            session: None,
            inbox: None,
            lost: false,
            copies: BTreeMap::new(),
            acknowledges: number == 2,
            left: Vec::new(),
            furthest: BTreeMap::new(),
            reminded: Vec::new(),
            pings: 0,
        }
    }

    pub(crate) async fn connect(&mut self, stack: &Stack) {
        if let Some(earlier) = self.session.take() {
            stack.disconnect(&earlier);
        }
        self.session = Some(stack.connect(self.user, &self.name).await);
        self.sync(stack).await;
    }

    pub(crate) fn disconnect(&mut self, stack: &Stack) {
        if let Some(session) = self.session.take() {
            stack.disconnect(&session);
        }
    }

    /// Reads everything that was pushed so far, and fetches what a push said has to be fetched.
    pub(crate) async fn settle(&mut self, stack: &Stack) {
        for frame in self.frames(stack).await {
            self.fold(&frame);
        }
        if self.lost || self.copies.values().any(|copy| copy.stale) {
            self.sync(stack).await;
        } else {
            self.acknowledge(stack).await;
        }
    }

    async fn frames(&mut self, stack: &Stack) -> Vec<Value> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        self.pings += 1;
        frames::read(stack, session, self.pings).await
    }

    fn fold(&mut self, frame: &Value) {
        match frame["type"].as_str().unwrap_or_default() {
            "message.new" => self.take(&frame["message"]),
            "conversation.joined" => {
                let id = id_of(&frame["conversation"]);
                let copy = Copy {
                    stale: true,
                    ..Copy::default()
                };
                assert!(self.copies.insert(id, copy).is_none(), "joined twice: {frame}");
            }
            "conversation.left" => {
                self.copies.remove(&id_of(frame)).expect("left what one was in");
            }
            "reminder.fired" => self.reminded.push(frame["message"].clone()),
            "welcome" | "" => {}
            "inbox.changed" => {
                let id = id_of(&frame["change"]);
                assert!(self.inbox.is_none_or(|inbox| inbox == id), "a second inbox: {frame}");
                self.lost |= self.inbox.is_none();
                if !self.lost {
                    self.change(&frame["change"]);
                }
            }
            "read.updated" => self.read(frame["change_seq"].as_i64()),
            _ if frame.get("change").is_some() => self.change(&frame["change"]),
            other => panic!("{other}: {frame}"),
        }
    }

    /// The user has read, here or on another device: a change of their INBOX. Of others there is no number.
    pub(crate) fn read(&mut self, change_seq: Option<i64>) {
        let inbox = self.inbox.filter(|_| !self.lost);
        match (change_seq, inbox.and_then(|inbox| self.copies.get_mut(&inbox))) {
            (Some(change_seq), Some(copy)) => {
                assert_eq!(change_seq, copy.change_seq + 1, "a hole or a double in the inbox");
                copy.change_seq = change_seq;
            }
            (Some(_), None) => self.lost = true,
            (None, _) => {}
        }
    }

    /// A message that came by a push, or in the reply to this device's own send.
    pub(crate) fn take(&mut self, message: &Value) {
        // A conversation in which nothing was is not told by sync: it is at (0, 0).
        let copy = self.copies.entry(id_of(message)).or_default();
        if copy.stale {
            return;
        }
        let seq = message["seq"].as_i64().unwrap();
        assert_eq!(seq, copy.seq + 1, "a hole or a double: {message}");
        copy.seq = seq;
        copy.messages.insert(seq, message.clone());
    }

    /// A change that came by a push, or in the reply to this device's own act.
    pub(crate) fn change(&mut self, change: &Value) {
        let copy = self.copies.entry(id_of(change)).or_default();
        if copy.stale {
            return;
        }
        assert_eq!(
            change["change_seq"],
            copy.change_seq + 1,
            "a hole or a double: {change}"
        );
        copy.change_seq += 1;
        copy.apply(change);
        self.personal(change);
    }

    /// What one's own act in the INBOX means for another conversation.
    fn personal(&mut self, change: &Value) {
        let payload = &change["payload"];
        let about = payload["conversation_id"].as_str().and_then(ConversationId::parse);
        let Some(copy) = about.and_then(|id| self.copies.get_mut(&id)) else {
            return;
        };
        match (change["change_type"].as_str().unwrap(), payload["action_type"].as_str()) {
            ("SETTINGS_UPDATED", _) => {
                let cleared = payload["cleared_seq"].as_i64().unwrap();
                copy.messages.retain(|seq, _| *seq > cleared);
            }
            ("ACTION_SET", Some("DELETE")) => {
                copy.messages
                    .retain(|_, message| message["message_id"] != payload["message_id"]);
            }
            ("ACTION_CLEARED", Some("DELETE")) => copy.stale = true,
            _ => {}
        }
    }

    /// A message as the reply to this device's own act shows it, which changed nothing.
    pub(crate) fn keep(&mut self, message: &Value) {
        if let Some(copy) = self.copies.get_mut(&id_of(message)) {
            copy.keep(message);
        }
    }

    pub(crate) async fn sync(&mut self, stack: &Stack) {
        self.lost = false;
        self.left.clear();
        // Who leaves the cursors to the server tells it first how far it has come.
        self.acknowledge(stack).await;
        // Who fetches something anew has to say so.
        let mut anew = self.copies.values().any(|copy| copy.stale);
        for copy in self.copies.values_mut().filter(|copy| copy.stale) {
            *copy = Copy::default();
        }
        loop {
            let page = stack.sync.sync(principal(self.user), self.query(anew)).await.unwrap();
            for id in &page.removed {
                self.copies.remove(id);
            }
            for entry in &page.entries {
                self.entry(stack, entry).await;
            }
            let stale: BTreeSet<ConversationId> = self
                .copies
                .iter()
                .filter(|(_, copy)| copy.stale)
                .map(|(id, _)| *id)
                .collect();
            anew |= !stale.is_empty();
            for id in &stale {
                self.copies.insert(*id, Copy::default());
            }
            self.acknowledge(stack).await;
            if !page.has_more && stale.is_empty() {
                return;
            }
        }
    }

    fn query(&self, anew: bool) -> SyncQuery {
        SyncQuery {
            device: DeviceId::parse(&self.name).unwrap(),
            store_epoch: Some("epoch".to_owned()),
            cursors: (!self.acknowledges || anew).then(|| self.cursors()),
            message_limit: 7,
            conversation_limit: 3,
            bytes_max: 20_000,
        }
    }

    fn cursors(&self) -> Vec<DeviceCursor> {
        let cursor = |(id, copy): (&ConversationId, &Copy)| DeviceCursor {
            conversation_id: *id,
            seq: Seq::new(copy.seq),
            change_seq: ChangeSeq::new(copy.change_seq),
        };
        self.copies.iter().map(cursor).collect()
    }

    async fn acknowledge(&mut self, stack: &Stack) {
        let cursors = self.cursors();
        if !self.acknowledges || cursors == self.left {
            return;
        }
        let device = DeviceId::parse(&self.name).unwrap();
        let devices = &stack.devices;
        devices
            .acknowledge(principal(self.user), &device, &cursors)
            .await
            .unwrap();
        for cursor in &cursors {
            let furthest = self.furthest.entry(cursor.conversation_id).or_default();
            *furthest = cursor.seq.max(*furthest);
        }
        self.left = cursors;
    }

    /// Has it acknowledged the message at `seq`, in the membership that it knows of?
    pub(crate) fn has_acknowledged(&self, id: ConversationId, seq: Seq) -> bool {
        self.left
            .iter()
            .any(|left| left.conversation_id == id && left.seq >= seq)
    }

    async fn entry(&mut self, stack: &Stack, entry: &SyncEntry) {
        let id = entry.seen.header.conversation_id;
        if entry.history_reset {
            self.copies.remove(&id);
        }
        if entry.seen.header.kind == Kind::Inbox {
            self.inbox = Some(id);
        }
        let mut own = Vec::new();
        let copy = self.copies.entry(id).or_default();
        let was = (copy.seq, copy.change_seq);
        let next = (entry.next.0.get(), entry.next.1.get());
        assert!(next.0 >= was.0 && next.1 >= was.1 && next != was, "{was:?} to {next:?}");
        if was == (0, 0) {
            copy.fetched_at = entry.seen.head.last_change_seq.get();
        }
        for marked in &entry.messages {
            assert!(marked.message.seq.get() > was.0, "told twice: {marked:?}");
            copy.messages.insert(marked.message.seq.get(), shown(marked));
        }
        if let Some((after, before)) = entry.missing {
            fill(stack, self.user, id, copy, after, before).await;
        }
        copy.seq = next.0;
        for change in &entry.changes {
            let view = match (&change.hidden, &change.message) {
                (true, _) => view::Change::hidden(&change.change),
                (false, message) => view::Change::new(&change.change, message.as_ref().map(view::Message::from)),
            };
            let view = serde_json::to_value(view).unwrap();
            assert_eq!(
                view["change_seq"],
                copy.change_seq + 1,
                "a hole or a double of {}: {was:?} {next:?} reset {} {view}",
                self.name,
                entry.history_reset
            );
            copy.change_seq += 1;
            copy.apply(&view);
            own.push(view);
        }
        assert_eq!(copy.change_seq, next.1);
        for change in &own {
            self.personal(change);
        }
    }
}

async fn fill(stack: &Stack, user: User, id: ConversationId, copy: &mut Copy, after: Seq, before: Seq) {
    let mut after = after;
    loop {
        let query = HistoryQuery {
            conversation_id: id,
            before_seq: Some(before),
            after_seq: Some(after),
            limit: 50,
        };
        let page = stack.messages.history(principal(user), query).await.unwrap();
        for marked in &page.items {
            after = marked.message.seq;
            let earlier = copy.messages.insert(after.get(), shown(marked));
            assert!(earlier.is_none(), "told by sync and named as missing: {marked:?}");
        }
        if !page.has_more {
            return;
        }
    }
}

impl Copy {
    fn keep(&mut self, message: &Value) {
        let seq = message["seq"].as_i64().unwrap();
        if message["status"] == "DELETED" {
            self.messages.remove(&seq);
        } else if seq <= self.seq {
            let held = self.messages.get(&seq).and_then(|held| held["change_seq"].as_i64());
            if message["change_seq"].as_i64() >= held {
                self.messages.insert(seq, message.clone());
            }
        }
    }

    fn apply(&mut self, change: &Value) {
        if let Some(message) = change.get("message") {
            self.keep(message);
        }
        // What one may see is another matter from here on.
        let later = change["change_seq"].as_i64() > Some(self.fetched_at);
        self.stale |= later && change["payload"].get("history_visibility").is_some();
    }
}

fn id_of(value: &Value) -> ConversationId {
    let id = value["conversation_id"].as_str().and_then(ConversationId::parse);
    id.unwrap_or_else(|| panic!("no conversation_id in {value}"))
}
