//! Delivery as a whole: a real hub, commits as the domain makes them, sessions without sockets.

pub(crate) mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::outbox::Bounds;
use super::session::{Session, Waiting};
use super::{Delivery, HubHandle, Options, wire};
use crate::clock::ManualClock;
use crate::conversation::{Committed, Publisher, SessionReply, Step};
use crate::domain::{
    Adding, ClientMessageId, Command, Content, Context, Conversation, ConversationId, Create, CreationKey, DeviceId,
    Draft, Event, Facts, Header, HistoryVisibility, Kind, Member, MessageId, MessageType, Origin, Outcome, Posting,
    Principal, Send, Timestamp, chain,
};
use crate::storage::{ConversationStore, ListPosition, MemberPosition, Seen, StoreError, StoreResult};
use support::{BOUNDS, device, session, session_with, texts};

const ANN: Principal = Principal::user(1);
const BOB: Principal = Principal::user(2);
const CY: Principal = Principal::user(3);
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Knows who is where, and answers when it is let.
struct Memberships {
    of: Mutex<HashMap<Principal, Vec<ConversationId>>>,
    answers: Semaphore,
}

#[async_trait]
impl ConversationStore for Memberships {
    async fn ids_of(&self, principal: Principal) -> StoreResult<Vec<ConversationId>> {
        let found = self.of.lock().unwrap().get(&principal).cloned();
        self.answers.acquire().await.unwrap().forget();
        found.ok_or(StoreError::Unavailable("no such principal".to_owned()))
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
    async fn access(&self, _: ConversationId, _: Principal) -> StoreResult<Option<(Header, Option<Member>)>> {
        panic!("not asked for")
    }
}

struct World {
    store: Arc<Memberships>,
    delivery: Arc<Delivery>,
    hub: HubHandle,
    room: ConversationId,
    state: Option<Conversation>,
    next_id: i64,
}

impl World {
    /// A room of Ann (its owner) and Bob; the store answers at once.
    fn new() -> Self {
        let room = ConversationId::new(7).unwrap();
        let store = Arc::new(Memberships {
            of: Mutex::new(HashMap::from([(ANN, vec![room]), (BOB, vec![room]), (CY, vec![])])),
            answers: Semaphore::new(1000),
        });
        let options = Options {
            bounds: BOUNDS,
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
    fn decide(&mut self, commands: Vec<(Command, Option<SessionReply>)>) -> Committed {
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
            steps,
        }
    }

    fn commit(&mut self, commands: Vec<Command>) {
        let committed = self.decide(commands.into_iter().map(|command| (command, None)).collect());
        self.delivery.committed(committed);
    }

    async fn online(&self, id: u64, principal: Principal, name: &str) -> Arc<Session> {
        let session = session(id, principal, name);
        assert!(self.hub.register(session.clone(), wire::text(&"welcome")).await);
        assert_eq!(texts(&session), ["\"welcome\""]);
        session
    }

    /// Whatever was queued for the session before, in short.
    async fn heard(&self, session: &Session) -> Vec<String> {
        assert!(self.hub.ping(session.id(), 0));
        settle().await;
        let mut words: Vec<String> = texts(session).iter().map(|text| short(text)).collect();
        if words.last().is_some_and(|last| last == "pong") {
            words.pop();
        }
        words
    }
}

async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// `message.new 3 hi`
fn short(json: &str) -> String {
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

fn origin(principal: Principal, device: Option<&str>) -> Origin {
    Origin {
        principal,
        device: device.map(|name| DeviceId::parse(name).unwrap()),
    }
}

fn say(principal: Principal, name: &str, words: &str) -> Command {
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

fn say_long(principal: Principal, n: usize, words: &str) -> Command {
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

fn add(principal: Principal) -> Command {
    Command::AddMembers {
        origin: origin(ANN, None),
        members: vec![principal],
    }
}

fn remove(principal: Principal) -> Command {
    Command::RemoveMember {
        origin: origin(ANN, None),
        target: principal,
    }
}

#[actix::test]
async fn b43_the_sending_device_gets_the_ack_where_its_message_stands_and_no_echo() {
    let mut world = World::new();
    let (phone, desk) = (world.online(1, ANN, "phone").await, world.online(2, ANN, "desk").await);
    let peer = world.online(3, BOB, "phone").await;
    let waiting = Waiting {
        frame: 9,
        conversation_id: world.room,
        client_message_id: ClientMessageId::parse("two").unwrap(),
    };
    let reply = phone.await_answer(waiting).unwrap();
    let committed = world.decide(vec![
        (say(BOB, "phone", "one"), None),
        (say(ANN, "phone", "two"), None),
        (say(BOB, "phone", "three"), None),
    ]);
    // The answers stand behind their messages.
    let mut steps = committed.steps.clone();
    let Step::Event(Event::MessageSent { message, .. }) = steps[1].clone() else {
        panic!()
    };
    steps.insert(2, Step::Answer(reply, Ok(Outcome::Sent(message))));
    world.delivery.committed(Committed { steps, ..committed });
    assert_eq!(world.heard(&phone).await, ["new 2 one", "sent 3 two", "new 4 three"]);
    assert_eq!(world.heard(&desk).await, ["new 2 one", "new 3 two", "new 4 three"]);
    assert_eq!(world.heard(&peer).await, ["new 3 two"]);
    assert_eq!(phone.waiting(), 0);
}

#[actix::test]
async fn b98_who_is_added_is_told_before_anything_else_of_the_conversation() {
    let mut world = World::new();
    let (bob, cy) = (world.online(1, BOB, "d").await, world.online(2, CY, "d").await);
    world.commit(vec![say(ANN, "d", "before"), add(CY), say(ANN, "d", "after")]);
    let expected = [
        "joined after",
        "changed MEMBER_ADDED",
        "new 3 member_added",
        "new 4 after",
    ];
    assert_eq!(world.heard(&cy).await, expected);
    let expected = [
        "new 2 before",
        "changed MEMBER_ADDED",
        "new 3 member_added",
        "new 4 after",
    ];
    assert_eq!(world.heard(&bob).await, expected);
}

#[actix::test]
async fn b96_nothing_that_follows_a_removal_reaches_the_removed() {
    let mut world = World::new();
    let (ann, bob) = (world.online(1, ANN, "d").await, world.online(2, BOB, "d").await);
    let cy = world.online(3, CY, "d").await;
    world.commit(vec![say(ANN, "d", "before"), remove(BOB), say(ANN, "x", "after")]);
    world.commit(vec![say(ANN, "x", "later")]);
    assert_eq!(world.heard(&bob).await, ["new 2 before", "left REMOVED"]);
    let expected = [
        "changed MEMBER_REMOVED",
        "new 3 member_removed",
        "new 4 after",
        "new 5 later",
    ];
    assert_eq!(world.heard(&ann).await, expected);
    // Within one commit, too: the words after it are not in the preview either.
    world.commit(vec![add(CY), remove(CY), say(ANN, "x", "secret")]);
    let heard = world.heard(&cy).await;
    assert_eq!(heard.first().map(String::as_str), Some("joined member_added"));
    assert_eq!(heard.last().map(String::as_str), Some("left REMOVED"));
    assert!(!heard.iter().any(|words| words.contains("secret")));
}

#[actix::test]
async fn a_commit_while_the_memberships_are_read_is_neither_lost_nor_pushed_before_welcome() {
    let mut world = World::new();
    world.store.answers.forget_permits(1000);
    let (bob, cy, hub) = (session(1, BOB, "d"), session(2, CY, "d"), world.hub.clone());
    let welcome = || wire::text(&"welcome");
    let both = async {
        tokio::join!(
            hub.register(bob.clone(), welcome()),
            hub.register(cy.clone(), welcome())
        )
    };
    let mut both = Box::pin(both);
    tokio::select! { _ = &mut both => panic!("too early"), () = settle() => {} }
    // The store has been asked, its answer is under way.
    world.commit(vec![add(CY), remove(BOB), say(ANN, "x", "early")]);
    settle().await;
    assert!(
        texts(&bob).is_empty() && texts(&cy).is_empty(),
        "nothing before welcome"
    );
    world.store.answers.add_permits(1000);
    assert_eq!(both.await, (true, true));
    assert_eq!(world.heard(&bob).await, ["\"welcome\""]);
    assert_eq!(world.heard(&cy).await, ["\"welcome\""]);
    world.commit(vec![say(ANN, "x", "later")]);
    assert!(world.heard(&bob).await.is_empty(), "removed meanwhile");
    assert_eq!(world.heard(&cy).await, ["new 5 later"], "added meanwhile");
}

#[actix::test]
async fn a_session_is_turned_away_when_the_store_does_not_answer() {
    let world = World::new();
    let stranger = session(1, Principal::user(99), "d");
    assert!(!world.hub.register(stranger.clone(), wire::text(&"welcome")).await);
    assert!(texts(&stranger).is_empty());
    world.hub.unregister(&stranger);
    settle().await;
    assert_eq!(world.delivery.online(), 0);
}

#[actix::test]
async fn a_session_that_has_ended_gets_nothing_and_costs_nothing() {
    let mut world = World::new();
    let (bob, desk) = (world.online(1, BOB, "d").await, world.online(2, BOB, "desk").await);
    world.hub.unregister(&bob);
    settle().await;
    world.commit(vec![say(ANN, "x", "hi")]);
    assert_eq!(world.heard(&desk).await, ["new 2 hi"]);
    assert!(texts(&bob).is_empty());
    assert_eq!(world.delivery.online(), 1);
}

#[actix::test]
async fn b85_a_hub_that_cannot_keep_up_cuts_its_sessions_instead_of_growing() {
    let mut world = World::new();
    let bob = world.online(1, BOB, "d").await;
    let committed = world.decide(vec![(say(ANN, "x", "hi"), None)]);
    // Without a pause: the hub does not run meanwhile.
    for _ in 0..super::hub::HUB_MAILBOX_MAX + 10 {
        world.delivery.committed(committed.clone());
    }
    settle().await;
    assert_eq!(texts(&bob).last().map(String::as_str), Some("4008"));
    world.hub.unregister(&bob);
    // Whoever comes afterwards is not cut.
    let again = world.online(2, BOB, "d").await;
    world.delivery.committed(committed);
    assert_eq!(world.heard(&again).await, ["new 2 hi"]);
}

#[actix::test]
async fn b87_a_slow_session_is_cut_and_the_others_get_everything() {
    let mut world = World::new();
    let bounds = Bounds { bytes: 2000, ..BOUNDS };
    let slow = session_with(1, BOB, "slow", bounds);
    assert!(world.hub.register(slow.clone(), wire::text(&"welcome")).await);
    let free = world.online(2, BOB, "free").await;
    for n in 0..20 {
        world.commit(vec![say(ANN, "x", &format!("{n}"))]);
    }
    assert_eq!(world.heard(&free).await.len(), 20);
    assert_eq!(texts(&slow), ["4008"]);
}

#[actix::test]
async fn b90_a_silent_session_is_closed_and_a_living_one_is_pinged() {
    tokio::time::pause();
    let world = World::new();
    let (alive, dead) = (world.online(1, ANN, "d").await, world.online(2, BOB, "d").await);
    let (mut to_alive, mut to_dead) = (Vec::new(), Vec::new());
    for _ in 0..61 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        alive.heard();
        // Both are read, but one of them answers nothing.
        to_alive.extend(texts(&alive));
        to_dead.extend(texts(&dead));
    }
    assert_eq!(to_alive, ["ping", "ping"]);
    assert_eq!(to_dead, ["ping", "1001"]);
}

#[actix::test]
async fn typing_reaches_the_other_devices_of_members_once_a_second() {
    tokio::time::pause();
    let world = World::new();
    let (phone, desk) = (world.online(1, ANN, "phone").await, world.online(2, ANN, "desk").await);
    let (bob, cy) = (world.online(3, BOB, "d").await, world.online(4, CY, "d").await);
    for _ in 0..5 {
        world.hub.typing(phone.id(), world.room);
        world.hub.typing(cy.id(), world.room);
    }
    settle().await;
    assert_eq!(world.heard(&bob).await, ["typing"]);
    assert_eq!(world.heard(&desk).await, ["typing"]);
    assert!(world.heard(&phone).await.is_empty() && world.heard(&cy).await.is_empty());
    tokio::time::sleep(Duration::from_millis(1001)).await;
    world.hub.typing(desk.id(), world.room);
    settle().await;
    assert_eq!(world.heard(&bob).await, ["typing"]);
}

#[actix::test]
async fn b93_a_replaced_session_is_told_at_once_whatever_waits_for_it() {
    let mut world = World::new();
    let old = world.online(1, BOB, "phone").await;
    world.commit(vec![say(ANN, "x", "hi")]);
    let new = world.online(2, BOB, "phone").await;
    assert_eq!(texts(&old), ["4009"]);
    world.hub.unregister(&old);
    settle().await;
    world.commit(vec![say(ANN, "x", "again")]);
    assert_eq!(world.heard(&new).await, ["new 3 again"]);
}

#[actix::test]
async fn b18_a_shutdown_says_bye_with_spread_out_times_to_every_connection() {
    tokio::time::pause();
    let world = World::new();
    let outboxes: Vec<_> = (0..3).map(|_| world.delivery.open(None).1).collect();
    world.delivery.shut_down(Duration::from_secs(1)).await;
    let mut waits: Vec<u64> = outboxes
        .iter()
        .map(|outbox| {
            let bytes = support::take(outbox);
            let bye: Value = serde_json::from_str(&bytes[0]).unwrap();
            assert_eq!((bye["type"].as_str(), bytes[1].as_str()), (Some("bye"), "1012"));
            bye["reconnect_after_ms"].as_u64().unwrap()
        })
        .collect();
    waits.sort_unstable();
    assert_eq!(waits, [500, 505, 510]);
    assert!(!world.delivery.open(None).1.is_open(), "nobody comes in any more");
}

#[actix::test]
async fn a_kicked_device_is_cut_and_the_others_of_its_owner_are_not() {
    let world = World::new();
    let (phone, desk) = (world.online(1, BOB, "phone").await, world.online(2, BOB, "desk").await);
    world.delivery.kick(BOB, &device("phone"));
    assert_eq!(texts(&phone), ["4010"]);
    assert!(desk.outbox().is_open());
}

#[actix::test]
async fn a_hub_that_panics_ends_its_sessions_and_the_next_one_to_come_finds_a_new_one() {
    let mut world = World::new();
    let old = world.online(1, BOB, "phone").await;
    world.hub.panic();
    settle().await;
    assert_eq!(texts(&old), ["1013"]);
    world.hub.unregister(&old);
    let new = world.online(2, BOB, "phone").await;
    world.commit(vec![say(ANN, "x", "hi")]);
    assert_eq!(world.heard(&new).await, ["new 2 hi"]);
    assert_eq!(world.delivery.online(), 1);
}

#[actix::test]
async fn b87_a_burst_is_handed_over_in_turns_so_that_a_client_that_reads_is_not_taken_for_a_slow_one() {
    let mut world = World::new();
    let reader = world.online(1, BOB, "d").await;
    let words = "x".repeat(60_000);
    for n in 0..40 {
        world.commit(vec![say(ANN, "x", &format!("{n}")), say_long(ANN, n, &words)]);
    }
    // A connection is written to whenever its task gets its turn.
    let mut heard = 0;
    for _ in 0..200 {
        heard += texts(&reader).len();
        tokio::task::yield_now().await;
    }
    assert_eq!(heard, 80);
    assert!(reader.outbox().is_open());
}
