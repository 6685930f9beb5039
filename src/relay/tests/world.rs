//! Rooms in memory, a relay beside them, and a receiver that answers as it is told; time goes by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::clock::Clock;
use crate::domain::snowflake::Snowflake;
use crate::domain::{
    Adding, ClientMessageId, Command, Content, Context, Conversation, ConversationId, Create, Draft, Facts,
    HistoryVisibility, InvalidField, Kind, Message, MessageId, MessageType, NoticeSet, NoticeType, Origin, Posting,
    Principal, Send, Timestamp, Touch, WebhookName, chain,
};
use crate::ids::Ids;
use crate::protocol::events::Event;
use crate::relay::{Answer, Call, Hints, Options, Parts, Post, Relay, WebhookPatch};
use crate::storage::memory::MemoryStore;
use crate::storage::{Commit, MessageStore as _, Store as _};

pub(super) const ANN: Principal = Principal::user(1);
pub(super) const BOB: Principal = Principal::user(2);
pub(super) const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// 2026-01-01, in milliseconds.
const BASE: i64 = 1_767_225_600_000;

/// Goes on with the time of the tests.
pub(super) struct Stopwatch(Instant);

impl Clock for Stopwatch {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(BASE).plus(self.0.elapsed())
    }
}

/// A call that came, and when.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) call: Call,
    pub(super) after: Duration,
    pub(super) taken: bool,
}

impl Came {
    pub(super) fn body(&self) -> serde_json::Value {
        serde_json::from_str(&self.call.body).unwrap()
    }

    pub(super) fn conversation(&self) -> String {
        self.body()["data"]["conversation_id"].as_str().unwrap().to_owned()
    }

    /// `message.created 3`
    pub(super) fn words(&self) -> String {
        let body = self.body();
        let (seq, number) = (&body["data"]["message"]["seq"], &body["data"]["change"]["change_seq"]);
        let number = if number.is_null() { seq } else { number };
        format!("{} {number}", body["type"].as_str().unwrap())
    }
}

/// What a receiver does with a call: an answer after some time.
pub(super) type Manners = Box<dyn Fn(&Came, usize) -> (Answer, Duration) + std::marker::Send + Sync>;

/// A receiver.
pub(super) struct Receiver {
    started: Instant,
    manners: Manners,
    came: Mutex<Vec<Came>>,
    /// Calls under way.
    open: Mutex<Vec<String>>,
}

/// As a call ends that is answered too late or not at all.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn taken() -> (Answer, Duration) {
    (Answer::Taken, Duration::from_millis(5))
}

pub(super) fn refused(why: &str) -> (Answer, Duration) {
    let why = why.to_owned();
    let answer = Answer::Failed { why, retry_after: None };
    (answer, Duration::from_millis(5))
}

impl Receiver {
    /// The caller was killed: its calls are no longer under way.
    pub(super) fn forget_open(&self) {
        self.open.lock().unwrap().clear();
    }
}

#[async_trait]
impl Post for Receiver {
    async fn post(&self, call: &Call) -> Answer {
        let came = Came {
            call: call.clone(),
            after: self.started.elapsed(),
            taken: false,
        };
        let id = call.webhook_id.clone();
        let place = {
            let mut all = self.came.lock().unwrap();
            let mut open = self.open.lock().unwrap();
            assert!(!open.contains(&id), "{id} is called twice at the same time");
            open.push(id.clone());
            all.push(came.clone());
            all.len() - 1
        };
        let (answer, wait) = (self.manners)(&came, place);
        sleep(wait.min(TIMEOUT)).await;
        self.open.lock().unwrap().retain(|open| *open != id);
        if wait > TIMEOUT {
            let why = "no answer in time (webhooks.timeout_secs)".to_owned();
            return Answer::Failed { why, retry_after: None };
        }
        self.came.lock().unwrap()[place].taken = answer == Answer::Taken;
        answer
    }

    async fn check(&self, _: &str) -> Result<(), InvalidField> {
        Ok(())
    }
}

/// Everything.
pub(super) struct World {
    pub(super) store: MemoryStore,
    pub(super) clock: Arc<Stopwatch>,
    pub(super) receiver: Arc<Receiver>,
    pub(super) hints: Arc<Hints>,
    rooms: Mutex<HashMap<ConversationId, Option<Conversation>>>,
    next_id: Mutex<i64>,
}

pub(super) const OPTIONS: Options = Options {
    keep: Duration::from_hours(24),
    push_after: Duration::from_secs(30),
    attempts_max: 16,
    call_timeout: TIMEOUT,
    secret_overlap: Duration::from_hours(1),
    delivered_keep: Duration::from_hours(12),
};

fn origin(principal: Principal) -> Origin {
    Origin {
        principal,
        device: None,
    }
}

impl World {
    pub(super) fn new(
        manners: impl Fn(&Came, usize) -> (Answer, Duration) + std::marker::Send + Sync + 'static,
    ) -> Self {
        let receiver = Receiver {
            started: Instant::now(),
            manners: Box::new(manners),
            came: Mutex::default(),
            open: Mutex::default(),
        };
        Self {
            store: MemoryStore::new(),
            clock: Arc::new(Stopwatch(Instant::now())),
            receiver: Arc::new(receiver),
            hints: Arc::default(),
            rooms: Mutex::default(),
            next_id: Mutex::new(100),
        }
    }

    /// A process with this name.
    pub(super) fn relay(&self, holder: &str, options: Options) -> Relay {
        let until = Timestamp::from_millis(i64::MAX);
        let clock = Arc::<Stopwatch>::clone(&self.clock);
        let ids = Ids::new(clock, Snowflake::new(7, Timestamp::default()).unwrap(), until);
        let parts = Parts {
            store: Arc::new(self.store.clone()),
            clock: Arc::<Stopwatch>::clone(&self.clock),
            ids: Arc::new(ids),
            hints: Arc::clone(&self.hints),
            post: Arc::<Receiver>::clone(&self.receiver),
            holder: holder.to_owned(),
        };
        Relay::new(parts, options)
    }

    /// Runs one relay while something happens.
    pub(super) async fn while_running<T>(&self, options: Options, happens: impl AsyncFnOnce(&Relay) -> T) -> T {
        let relay = self.relay("one", options);
        let (stop, stopping) = watch::channel(false);
        let happens = async {
            let result = happens(&relay).await;
            stop.send_replace(true);
            result
        };
        tokio::join!(relay.run(stopping), happens).1
    }

    /// Everything that came, in order.
    pub(super) fn came(&self) -> Vec<Came> {
        self.receiver.came.lock().unwrap().clone()
    }

    /// What was taken of one conversation, each event once, in the order of the first time.
    pub(super) fn taken_of(&self, room: ConversationId) -> Vec<String> {
        let mut seen: Vec<(String, String)> = Vec::new();
        for came in self
            .came()
            .iter()
            .filter(|came| came.taken && came.conversation() == room.to_string())
        {
            let id = came.call.webhook_id.clone();
            if !seen.iter().any(|(other, _)| *other == id) {
                seen.push((id, came.words()));
            }
        }
        seen.into_iter().map(|(_, words)| words).collect()
    }

    fn id(&self) -> i64 {
        let mut next_id = self.next_id.lock().unwrap();
        *next_id += 1;
        *next_id
    }

    async fn commit(&self, id: ConversationId, command: Command, facts: &Facts) {
        let base = self.rooms.lock().unwrap().get(&id).cloned().flatten();
        let mut draft = Draft::new(id, base.as_ref());
        let mut next_id = || Ok(MessageId::new(self.id()).unwrap());
        let mut context = Context {
            now: self.clock.now(),
            next_id: &mut next_id,
            facts,
        };
        draft.decide(&command, &mut context).unwrap();
        let batch = draft.finish().unwrap();
        let commit = Commit {
            conversation_id: id,
            expected: base.as_ref().map(|base| base.head.counters()),
            events: batch.events,
            header: batch.header,
            head: batch.head,
            member_count: batch.member_count,
        };
        let stored = self.store.writer().commit(std::slice::from_ref(&commit)).await;
        assert_eq!(stored, [Ok(())]);
        let mut rooms = self.rooms.lock().unwrap();
        let state = rooms.entry(id).or_default();
        for event in &commit.events {
            Conversation::apply(state, event);
        }
        drop(rooms);
        self.hints.add(id);
    }

    /// A group of ANN and others.
    pub(super) async fn room(&self, members: &[Principal]) -> ConversationId {
        let id = ConversationId::new(self.id()).unwrap();
        let create = Command::Create(Create {
            origin: origin(ANN),
            kind: Kind::Group,
            title: None,
            members: members.to_vec(),
            creation_key: None,
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        });
        self.commit(id, create, &Facts::default()).await;
        id
    }

    /// Somebody says something; answers the message.
    pub(super) async fn say(&self, room: ConversationId, sender: Principal, words: &str) -> Message {
        let client_message_id = ClientMessageId::parse(&format!("key {}", self.id())).unwrap();
        let mut facts = Facts::default();
        facts.keys.insert((sender, client_message_id.clone()), None);
        let content = format!("{{\"text\":\"{words}\"}}");
        let send = Command::Send(Send {
            origin: origin(sender),
            client_message_id,
            message_type: MessageType::Text,
            content: Content::trusted(&content),
            content_hash: chain::content_hash(&content),
            quoted_message_id: None,
            expected_last_seq: None,
        });
        self.commit(room, send, &facts).await;
        let head = self.rooms.lock().unwrap()[&room].as_ref().unwrap().head.last_seq;
        let before = crate::domain::Seq::new(head.get() - 1);
        self.store.messages_after(room, before, 1).await.unwrap().remove(0)
    }

    /// Somebody does something with a message.
    pub(super) async fn touch(&self, message: &Message, actor: Principal, touch: Touch) {
        let (room, message_id) = (message.conversation_id, message.message_id);
        let mut facts = Facts::default();
        let found = self.store.touchable(room, message_id).await.unwrap();
        facts.messages.insert(message_id, found);
        let origin = origin(actor);
        let touch = Command::Touch {
            origin,
            message_id,
            touch,
        };
        self.commit(room, touch, &facts).await;
    }

    pub(super) async fn recall(&self, message: &Message) {
        let touch = Touch::Recall {
            received_at: self.clock.now(),
            window_ms: i64::MAX,
        };
        self.touch(message, message.sender, touch).await;
    }
}

/// Everything but pushes goes to a webhook called `one`.
pub(super) async fn hook(relay: &Relay) -> WebhookName {
    let wanted = NoticeType::ALL
        .into_iter()
        .filter(|kind| *kind != NoticeType::PushRequired);
    hook_for(relay, &wanted.collect::<Vec<_>>()).await
}

/// These go to a webhook called `one`.
pub(super) async fn hook_for(relay: &Relay, wanted: &[NoticeType]) -> WebhookName {
    let name = WebhookName::parse("one").unwrap();
    let patch = WebhookPatch {
        url: Some("https://receiver/hook".to_owned()),
        secret: Some(SECRET.to_owned()),
        notices: Some(NoticeSet::of(wanted)),
    };
    assert!(relay.webhooks().put(&name, &patch).await.unwrap().1);
    // What is of the same moment may be told.
    sleep(Duration::from_millis(2)).await;
    name
}

/// `message.created 3`, as the feed tells it.
pub(super) fn words(present: &crate::domain::PresentNotice) -> String {
    let json = serde_json::to_string(&Event::from(present)).unwrap();
    let call = Call {
        url: String::new(),
        webhook_id: String::new(),
        timestamp: 0,
        signatures: String::new(),
        body: json,
    };
    let came = Came {
        call,
        after: Duration::ZERO,
        taken: true,
    };
    came.words()
}
