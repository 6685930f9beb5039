//! Reminders in a room, on a clock that is moved by hand.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::clock::ManualClock;
use crate::conversation::ReplyTo;
use crate::domain::{
    ActionType, Adding, ClientMessageId, Command, Content, Context, Conversation, ConversationId, Create, Draft, Event,
    Facts, HistoryVisibility, Kind, Message, MessageId, MessageType, Origin, Posting, Send, Seq, Touch, chain,
};
use crate::routing::Bus;
use crate::storage::memory::{Fault, Faults, MemoryStore};
use crate::storage::{Commit, MessageStore as _, PersonalStore as _};

const ANN: Principal = Principal::user(1);
const BOB: Principal = Principal::user(2);
const ROOM: ConversationId = ConversationId::new(7).unwrap();

struct NoBus;

impl Bus for NoBus {
    fn dispatch(&self, _: ConversationId, _: Command, _: ReplyTo) {
        panic!("nothing is asked of a writer")
    }
}

/// The calls of the store that still fail, once so many have been answered.
struct Outage {
    answered: AtomicI64,
    failing: AtomicI64,
}

impl Faults for Outage {
    fn on_commit(&self, _: &Commit) -> Fault {
        Fault::None
    }

    /// So that two who ask at the same time take turns.
    fn polls_to_wait(&self) -> u32 {
        1
    }

    fn is_down(&self) -> bool {
        self.answered.fetch_sub(1, Ordering::SeqCst) <= 0 && self.failing.fetch_sub(1, Ordering::SeqCst) > 0
    }
}

/// A room with messages, and what was told.
struct World {
    store: MemoryStore,
    clock: Arc<ManualClock>,
    room: Option<Conversation>,
    next_id: i64,
    told: Mutex<Vec<String>>,
    is_here: bool,
}

impl World {
    fn new(store: MemoryStore) -> Self {
        let clock = Arc::new(ManualClock::default());
        let told = Mutex::default();
        Self {
            store,
            clock,
            room: None,
            next_id: 100,
            told,
            is_here: true,
        }
    }

    /// Decides and stores.
    async fn commit(&mut self, id: ConversationId, commands: &[Command], facts: &Facts, more: Vec<Event>) {
        let base = self.room.clone().filter(|_| id == ROOM);
        let mut draft = Draft::new(id, base.as_ref());
        let mut next_id = || {
            self.next_id += 1;
            Ok(MessageId::new(self.next_id).unwrap())
        };
        let mut context = Context {
            now: Timestamp::default(),
            next_id: &mut next_id,
            facts,
        };
        for command in commands {
            draft.decide(command, &mut context).unwrap();
        }
        let batch = draft.finish().unwrap();
        let commit = Commit {
            conversation_id: id,
            expected: base.as_ref().map(|base| base.head.counters()),
            events: batch.events.into_iter().chain(more).collect(),
            header: batch.header,
            head: batch.head,
            member_count: batch.member_count,
        };
        assert_eq!(
            self.store.writer().commit(std::slice::from_ref(&commit)).await,
            [Ok(())]
        );
        for event in commit.events.iter().filter(|_| id == ROOM) {
            Conversation::apply(&mut self.room, event);
        }
    }

    /// BOB wants to be reminded of these seqs at these times.
    async fn reminds(&mut self, reminders: &[(&Message, i64)]) {
        let set = |(message, due): &(&Message, i64)| Event::ActionChanged {
            principal: BOB,
            action: Action {
                action_type: ActionType::Reminder,
                message_id: message.message_id,
                conversation_id: ROOM,
                seq: message.seq,
                active: true,
                remind_at: Some(Timestamp::from_millis(*due)),
                payload: None,
                updated_at: Timestamp::default(),
            },
        };
        let events = reminders.iter().map(set).collect();
        let inbox = ConversationId::new(8).unwrap();
        let create = create(Kind::Inbox, BOB, &[]);
        self.commit(inbox, &[create], &Facts::default(), events).await;
    }

    fn reminders(&self) -> Reminders {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.clock);
        let messages = Messages::new(Arc::clone(&store), Arc::new(NoBus), Arc::clone(&clock), 120);
        Reminders::new(store, Arc::new(messages), clock)
    }

    /// A process that watches until it is to stop.
    async fn process(&self, stop: impl Future<Output = ()>) {
        let tell = |due: &Reminder| {
            let words = due.message.message.content.as_str();
            self.told.lock().unwrap().push(format!("{} {words}", due.principal));
        };
        self.reminders().watch(|_| self.is_here, tell, stop).await;
    }

    /// What is told while the clock goes on by so much and then stands.
    async fn after(&self, millis: i64) -> Vec<String> {
        self.clock.advance(millis);
        self.process(sleep(EVERY * 8)).await;
        self.told()
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// A process that dies so long after it began to watch.
    async fn killed_after(&self, time: Duration) {
        let watching = self.process(std::future::pending());
        tokio::time::timeout(time, watching).await.unwrap_err();
    }
}

fn origin(principal: Principal) -> Origin {
    Origin {
        principal,
        device: None,
    }
}

fn create(kind: Kind, owner: Principal, members: &[Principal]) -> Command {
    Command::Create(Create {
        origin: origin(owner),
        kind,
        title: None,
        members: members.to_vec(),
        creation_key: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    })
}

async fn world(store: MemoryStore, words: &[&str]) -> (World, Vec<Message>) {
    let mut world = World::new(store);
    let mut facts = Facts::default();
    let mut commands = vec![create(Kind::Group, ANN, &[BOB])];
    for word in words {
        let client_message_id = ClientMessageId::parse(word).unwrap();
        facts.keys.insert((ANN, client_message_id.clone()), None);
        commands.push(Command::Send(Send {
            origin: origin(ANN),
            client_message_id,
            message_type: MessageType::Text,
            content: Content::trusted(&format!("\"{word}\"")),
            content_hash: chain::content_hash(word),
            quoted_message_id: None,
            expected_last_seq: None,
        }));
    }
    world.commit(ROOM, &commands, &facts, Vec::new()).await;
    let messages = world
        .store
        .observer()
        .messages_after(ROOM, Seq::new(1), 10)
        .await
        .unwrap();
    (world, messages)
}

#[tokio::test(start_paused = true)]
async fn b115_each_is_told_once_when_it_is_due_and_late_rather_than_never() {
    let (mut world, messages) = world(MemoryStore::new(), &["one", "two", "three"]).await;
    world
        .reminds(&[(&messages[0], 2_000), (&messages[1], 1_000), (&messages[2], 9_000)])
        .await;
    assert_eq!(world.after(999).await, Vec::<String>::new());
    assert_eq!(world.after(1).await, ["USER:2 \"two\""]);
    // Nobody watched for an hour.
    assert_eq!(world.after(3_600_000).await, ["USER:2 \"one\"", "USER:2 \"three\""]);
    assert_eq!(world.after(3_600_000).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn b115_whoever_was_away_when_it_was_due_is_told_when_they_come() {
    let (mut world, messages) = world(MemoryStore::new(), &["one", "two"]).await;
    world.reminds(&[(&messages[0], 1_000), (&messages[1], 2_000)]).await;
    world.is_here = false;
    assert_eq!(world.after(5_000).await, Vec::<String>::new());
    world.is_here = true;
    assert_eq!(world.after(5_000).await, ["USER:2 \"one\"", "USER:2 \"two\""]);
    assert_eq!(world.after(5_000).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn of_what_was_recalled_the_words_are_not_told_and_of_what_is_not_theirs_nothing() {
    let (mut world, messages) = world(MemoryStore::new(), &["one", "two"]).await;
    world.reminds(&[(&messages[0], 1), (&messages[1], 2)]).await;
    let found = world.store.touchable(ROOM, messages[0].message_id).await.unwrap();
    let mut facts = Facts::default();
    facts.messages.insert(messages[0].message_id, found);
    let recall = Command::Touch {
        origin: origin(ANN),
        message_id: messages[0].message_id,
        touch: Touch::Recall {
            received_at: Timestamp::default(),
            window_ms: 0,
        },
    };
    world.commit(ROOM, &[recall], &facts, Vec::new()).await;
    let told = world.after(1).await;
    assert!(
        told.len() == 1 && told[0].contains("recalled") && !told[0].contains("one"),
        "{told:?}"
    );
    let remove = Command::RemoveMember {
        origin: origin(ANN),
        target: BOB,
    };
    world.commit(ROOM, &[remove], &Facts::default(), Vec::new()).await;
    assert_eq!(world.after(1).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn b115_of_a_reminder_with_which_a_process_died_others_tell_when_its_claim_has_run_out() {
    let (mut world, messages) = world(MemoryStore::new(), &["one", "two"]).await;
    world.reminds(&[(&messages[0], 1_000), (&messages[1], 1_001)]).await;
    world.clock.advance(1_001);
    let due = world.store.due_reminders(world.clock.now(), None, 1).await.unwrap();
    let until = Timestamp::from_millis(world.clock.now().millis() + CLAIM_MS);
    assert!(world.store.claim_reminder(&due[0], until).await.unwrap());
    assert_eq!(world.after(0).await, ["USER:2 \"two\""]);
    assert_eq!(world.after(CLAIM_MS - 1).await, Vec::<String>::new());
    assert_eq!(world.after(1).await, ["USER:2 \"one\""]);
    assert_eq!(world.after(CLAIM_MS).await, Vec::<String>::new());
    let kept = world
        .store
        .actionable(messages[0].message_id, BOB)
        .await
        .unwrap()
        .unwrap();
    let kept = kept.action(ActionType::Reminder).unwrap().remind_at;
    assert_eq!(kept, Some(Timestamp::from_millis(1_000)), "as it was set");
}

#[tokio::test(start_paused = true)]
async fn b115_what_may_still_be_in_a_process_when_it_dies_is_told_again_and_what_has_left_it_is_not() {
    for (lived, told_again) in [(ON_ITS_WAY / 2, true), (ON_ITS_WAY * 2, false)] {
        let (mut world, messages) = world(MemoryStore::new(), &["one"]).await;
        world.reminds(&[(&messages[0], 0)]).await;
        world.killed_after(lived).await;
        assert_eq!(world.told(), ["USER:2 \"one\""]);
        assert_eq!(!world.after(CLAIM_MS).await.is_empty(), told_again, "lived {lived:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn b115_what_was_told_is_settled_before_a_process_stops() {
    let (mut world, messages) = world(MemoryStore::new(), &["one"]).await;
    world.reminds(&[(&messages[0], 0)]).await;
    world.process(std::future::ready(())).await;
    assert_eq!(world.told(), ["USER:2 \"one\""]);
    assert_eq!(world.after(CLAIM_MS).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn b115_of_two_processes_that_watch_one_tells() {
    let store = MemoryStore::with_faults(Arc::new(Outage {
        answered: AtomicI64::new(i64::MAX),
        failing: AtomicI64::new(0),
    }));
    let (mut world, messages) = world(store, &["one", "two", "three"]).await;
    world
        .reminds(&[(&messages[0], 0), (&messages[1], 0), (&messages[2], CLAIM_MS)])
        .await;
    for told in [2, 1, 0] {
        let both = [(); 2].map(|()| world.process(sleep(EVERY * 8)));
        futures_util::future::join_all(both).await;
        assert_eq!(world.told().len(), told);
        world.clock.advance(CLAIM_MS);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_when_the_store_went_away_is_told_when_it_is_back() {
    let outage = Arc::new(Outage {
        answered: AtomicI64::new(i64::MAX),
        failing: AtomicI64::new(3),
    });
    let store = MemoryStore::with_faults(Arc::<Outage>::clone(&outage));
    let (mut world, messages) = world(store, &["one"]).await;
    world.reminds(&[(&messages[0], 1)]).await;
    outage.answered.store(3, Ordering::SeqCst); // two looks and the claim, and nothing after them
    assert_eq!(world.after(1).await, Vec::<String>::new());
    assert_eq!(world.after(CLAIM_MS).await, ["USER:2 \"one\""]);
}

#[tokio::test(start_paused = true)]
async fn what_was_told_when_the_store_went_away_is_settled_when_it_is_back_and_not_told_again() {
    let outage = Arc::new(Outage {
        answered: AtomicI64::new(i64::MAX),
        failing: AtomicI64::new(3),
    });
    let store = MemoryStore::with_faults(Arc::<Outage>::clone(&outage));
    let (mut world, messages) = world(store, &["one"]).await;
    world.reminds(&[(&messages[0], 0)]).await;
    outage.answered.store(6, Ordering::SeqCst); // two looks, the claim, three about the message
    let later = async {
        sleep(EVERY).await;
        world.clock.advance(CLAIM_MS * 2);
    };
    tokio::join!(world.process(sleep(EVERY * 8)), later);
    assert_eq!(world.told(), ["USER:2 \"one\""]);
    assert_eq!(world.after(CLAIM_MS).await, Vec::<String>::new());
}
