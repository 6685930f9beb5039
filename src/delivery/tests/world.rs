//! A room, its members, a hub, and a store that knows who is where.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::support::{BOUNDS, session, texts};
use crate::clock::ManualClock;
use crate::conversation::{Committed, Publisher, SessionReply, Step};
use crate::delivery::session::Session;
use crate::delivery::{Delivery, HubHandle, Options, wire};
use crate::domain::{
    Adding, ClientMessageId, Command, Content, Context, Conversation, ConversationId, Create, CreationKey, DeviceId,
    Draft, Event, Facts, Header, HistoryVisibility, Kind, Member, Membership, MessageId, MessageType, Origin, Posting,
    Principal, Send, Seq, Timestamp, chain,
};
use crate::storage::{ConversationStore, ListPosition, MemberPosition, Seen, StoreError, StoreResult};

pub(super) const ANN: Principal = Principal::user(1);
pub(super) const BOB: Principal = Principal::user(2);
pub(super) const CY: Principal = Principal::user(3);
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);

/// Knows who is where, and answers when it is let.
pub(super) struct Memberships {
    pub(super) of: Mutex<HashMap<Principal, Vec<ConversationId>>>,
    pub(super) answers: Semaphore,
}

#[async_trait]
impl ConversationStore for Memberships {
    async fn ids_of(&self, principal: Principal) -> StoreResult<Vec<ConversationId>> {
        let found = self.of.lock().unwrap().get(&principal).cloned();
        self.answers.acquire().await.unwrap().forget();
        found.ok_or(StoreError::Unavailable("no such principal".to_owned()))
    }
    async fn is_blocked_in(&self, _: ConversationId, _: Principal) -> StoreResult<bool> {
        Ok(false)
    }
    async fn load(&self, _: ConversationId) -> StoreResult<Option<Conversation>> {
        panic!("not asked for")
    }
    async fn by_creation_key(&self, _: &CreationKey) -> StoreResult<Option<ConversationId>> {
        panic!("not asked for")
    }
    async fn seen(&self, _: ConversationId, _: Principal) -> StoreResult<Option<Seen>> {
        panic!("not asked for")
    }
    async fn list(&self, _: Principal, _: Option<ListPosition>, _: u32) -> StoreResult<Vec<Seen>> {
        panic!("not asked for")
    }
    async fn members(&self, _: ConversationId, _: Option<MemberPosition>, _: u32) -> StoreResult<Vec<Member>> {
        panic!("not asked for")
    }
    async fn cleared(&self, _: ConversationId, _: &[Principal]) -> StoreResult<HashMap<Principal, Seq>> {
        panic!("not asked for")
    }
    async fn last_joined(&self, _: ConversationId, _: Principal) -> StoreResult<Option<Timestamp>> {
        panic!("not asked for")
    }
    async fn access(&self, _: ConversationId, _: Principal) -> StoreResult<Option<(Header, Option<Membership>)>> {
        panic!("not asked for")
    }
}

pub(super) struct World {
    pub(super) store: Arc<Memberships>,
    pub(super) delivery: Arc<Delivery>,
    pub(super) hub: HubHandle,
    pub(super) room: ConversationId,
    pub(super) state: Option<Conversation>,
    pub(super) next_id: i64,
}

impl World {
    /// A room of Ann (its owner) and Bob; the store answers at once.
    pub(super) fn new() -> Self {
        let room = ConversationId::new(7).unwrap();
        let store = Arc::new(Memberships {
            of: Mutex::new(HashMap::from([(ANN, vec![room]), (BOB, vec![room]), (CY, vec![])])),
            answers: Semaphore::new(1000),
        });
        let options = Options {
            bounds: BOUNDS,
            bytes_total: usize::MAX,
            heartbeat: HEARTBEAT,
        };
        let delivery = Arc::new(Delivery::new(store.clone(), Arc::new(ManualClock::default()), options));
        let hub = delivery.start_hub();
        let mut world = Self {
            store,
            delivery,
            hub,
            room,
            state: None,
            next_id: 100,
        };
        let create = Create {
            origin: origin(ANN, None),
            kind: Kind::Group,
            title: Some("room".to_owned()),
            members: vec![BOB],
            creation_key: None,
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        };
        world.decide(vec![(Command::Create(create), None)]);
        world
    }

    /// What the writer would publish.
    pub(super) fn decide(&mut self, commands: Vec<(Command, Option<SessionReply>)>) -> Committed {
        let (base, mut next_id) = (self.state.clone(), self.next_id);
        let mut draft = Draft::new(self.room, base.as_ref());
        let mut answers = Vec::new();
        let mut next = || {
            next_id += 1;
            Ok(MessageId::new(next_id).unwrap())
        };
        for (command, reply) in commands {
            let facts = Facts::default();
            let mut context = Context {
                now: Timestamp::default(),
                next_id: &mut next,
                facts: &facts,
            };
            let outcome = draft.decide(&command, &mut context).unwrap();
            answers.extend(reply.map(|to| (to, outcome)));
        }
        let batch = draft.finish().unwrap();
        self.next_id = next_id;
        let mut answers = answers.into_iter();
        let mut steps = Vec::new();
        for event in batch.events {
            let sent = matches!(event, Event::MessageSent { ref device, .. } if device.is_some());
            Conversation::apply(&mut self.state, &event);
            steps.push(Step::Event(event));
            if sent {
                steps.extend(answers.next().map(|(to, outcome)| Step::Answer(to, Ok(outcome))));
            }
        }
        let (header, head, member_count) = (batch.header, batch.head, batch.member_count);
        Committed {
            conversation_id: self.room,
            header,
            head,
            member_count,
            cleared: HashMap::new(),
            steps,
        }
    }

    pub(super) fn commit(&mut self, commands: Vec<Command>) {
        let committed = self.decide(commands.into_iter().map(|command| (command, None)).collect());
        self.delivery.committed(committed);
    }

    pub(super) async fn online(&self, id: u64, principal: Principal, name: &str) -> Arc<Session> {
        let session = session(id, principal, name);
        assert!(self.hub.register(session.clone(), wire::text(&"welcome")).await);
        assert_eq!(texts(&session), ["\"welcome\""]);
        session
    }

    /// Whatever was queued for the session before, in short.
    pub(super) async fn heard(&self, session: &Session) -> Vec<String> {
        assert!(self.hub.ping(session.id(), 0));
        settle().await;
        let mut words: Vec<String> = texts(session).iter().map(|text| short(text)).collect();
        if words.last().is_some_and(|last| last == "pong") {
            words.pop();
        }
        words
    }
}

pub(super) async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// `message.new 3 hi`
pub(super) fn short(json: &str) -> String {
    let Ok(Value::Object(frame)) = serde_json::from_str::<Value>(json) else {
        return json.to_owned();
    };
    let kind = frame["type"].as_str().unwrap();
    match kind {
        "message.new" => {
            let content = &frame["message"]["content"];
            let words = content["text"].as_str().or(content["event"].as_str()).unwrap();
            format!("new {} {words}", frame["message"]["seq"])
        }
        "message.sent" => format!("sent {} {}", frame["seq"], frame["client_message_id"].as_str().unwrap()),
        "conversation.changed" => format!("changed {}", frame["change"]["change_type"].as_str().unwrap()),
        "conversation.left" => format!("left {}", frame["reason"].as_str().unwrap()),
        "conversation.joined" => {
            let last = &frame["conversation"]["last_message"]["content"];
            format!(
                "joined {}",
                last["event"].as_str().or(last["text"].as_str()).unwrap_or("-")
            )
        }
        kind => kind.to_owned(),
    }
}

pub(super) fn origin(principal: Principal, device: Option<&str>) -> Origin {
    Origin {
        principal,
        device: device.map(|name| DeviceId::parse(name).unwrap()),
    }
}

pub(super) fn say(principal: Principal, name: &str, words: &str) -> Command {
    let content = Content::trusted(&format!("{{\"text\":\"{words}\"}}"));
    Command::Send(Send {
        origin: origin(principal, Some(name)),
        client_message_id: ClientMessageId::parse(words).unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: None,
        expected_last_seq: None,
    })
}

pub(super) fn say_long(principal: Principal, n: usize, words: &str) -> Command {
    let Command::Send(send) = say(principal, "x", words.get(..100).unwrap_or(words)) else {
        panic!()
    };
    let content = Content::trusted(&format!("{{\"text\":\"{words}\"}}"));
    let client_message_id = ClientMessageId::parse(&format!("long {n}")).unwrap();
    Command::Send(Send {
        content_hash: chain::content_hash(content.as_str()),
        content,
        client_message_id,
        ..send
    })
}

pub(super) fn add(principal: Principal) -> Command {
    Command::AddMembers {
        origin: origin(ANN, None),
        members: vec![principal],
    }
}

pub(super) fn remove(principal: Principal) -> Command {
    Command::RemoveMember {
        origin: origin(ANN, None),
        target: principal,
    }
}
