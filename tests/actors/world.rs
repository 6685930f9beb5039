//! A node without sockets: registry, lanes and a publisher that writes down what it is given.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Arbiter, System};
use onescribe::clock::ManualClock;
use onescribe::conversation::{
    Answer, CommandError, Committed, Committer, Lane, Parts, Publisher, ReplyTo, SessionReply, Step, run_lane,
};
use onescribe::domain::snowflake::{EPOCH_MS, Snowflake};
use onescribe::domain::{
    Adding, ClientMessageId, Command, Content, ConversationId, Create, Event, HistoryVisibility, Kind, MessageType,
    Origin, Outcome, Posting, Principal, Send, Timestamp, chain,
};
use onescribe::ids::Ids;
use onescribe::routing::{Bus, Registry};
use onescribe::storage::memory::{Fault, Faults, MemoryStore};
use onescribe::storage::{Commit, Store};
use tokio::sync::oneshot;

/// How long an idle actor lives in these tests.
pub(crate) const IDLE: Duration = Duration::from_mins(5);
pub(crate) const ROOM: ConversationId = ConversationId::new(1).unwrap();
pub(crate) const OTHER_ROOM: ConversationId = ConversationId::new(2).unwrap();

/// Runs a test on one actix system with a clock that only moves when nothing else can.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    System::with_tokio_rt(runtime).block_on(test);
}

/// What was published, in order.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) steps: Mutex<Vec<(ConversationId, Step)>>,
    /// Publishing a commit of these panics once.
    pub(crate) panics: Mutex<HashSet<ConversationId>>,
}

impl Publisher for Journal {
    fn committed(&self, committed: Committed) {
        let panics = self.panics.lock().unwrap().remove(&committed.conversation_id);
        assert!(!panics, "this test wants the actor to panic");
        let steps = committed
            .steps
            .into_iter()
            .map(|step| (committed.conversation_id, step));
        self.steps.lock().unwrap().extend(steps);
    }

    fn answer(&self, to: SessionReply, answer: Answer) {
        self.steps.lock().unwrap().push((ROOM, Step::Answer(to, answer)));
    }
}

impl Journal {
    /// The seqs that were pushed in a conversation, in order.
    pub(crate) fn seqs(&self, id: ConversationId) -> Vec<i64> {
        let pushed = |(room, step): &(ConversationId, Step)| match step {
            Step::Event(Event::MessageSent { message, .. }) if *room == id => Some(message.seq.get()),
            _ => None,
        };
        self.steps.lock().unwrap().iter().filter_map(pushed).collect()
    }
}

/// The n-th commit (from 1) meets this fault.
pub(crate) struct FaultAt(pub(crate) usize, pub(crate) Fault, pub(crate) AtomicUsize);

impl FaultAt {
    pub(crate) fn new(at: usize, fault: Fault) -> Arc<Self> {
        Arc::new(Self(at, fault, AtomicUsize::new(0)))
    }
}

impl Faults for FaultAt {
    fn on_commit(&self, _: &Commit) -> Fault {
        if self.2.fetch_add(1, Ordering::SeqCst) + 1 == self.0 {
            self.1
        } else {
            Fault::None
        }
    }
}

pub(crate) struct Node {
    pub(crate) registry: Arc<Registry>,
    pub(crate) journal: Arc<Journal>,
    /// Lanes that nobody serves yet.
    pub(crate) asleep: Vec<Lane>,
    pub(crate) committer: Committer,
    pub(crate) store: Arc<dyn Store>,
}

impl Node {
    /// A node whose lanes run.
    pub(crate) fn start(store: &MemoryStore, worker: u16) -> Self {
        let mut node = Self::with_sleeping_lanes(store, worker);
        node.wake_lanes();
        node
    }

    /// A node whose commits do not get anywhere until [`Node::wake_lanes`].
    pub(crate) fn with_sleeping_lanes(store: &MemoryStore, worker: u16) -> Self {
        let store: Arc<dyn Store> = Arc::new(store.clone());
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(EPOCH_MS + 1_000_000)));
        let flake = Snowflake::new(worker, Timestamp::default()).unwrap();
        let ids = Arc::new(Ids::new(
            Arc::<ManualClock>::clone(&clock),
            flake,
            Timestamp::from_millis(i64::MAX),
        ));
        let (committer, asleep) = Committer::new(2);
        let journal = Arc::new(Journal::default());
        let parts = Arc::new(Parts {
            store: Arc::clone(&store),
            committer: committer.clone(),
            ids,
            clock: Arc::<ManualClock>::clone(&clock),
            publisher: Arc::<Journal>::clone(&journal),
        });
        let registry = Arc::new(Registry::new(vec![Arbiter::current()], parts, IDLE));
        Self {
            registry,
            journal,
            asleep,
            committer,
            store,
        }
    }

    pub(crate) fn wake_lanes(&mut self) {
        for lane in self.asleep.drain(..) {
            let store = Arc::clone(&self.store);
            actix::spawn(run_lane(lane, move || store.writer()));
        }
    }

    pub(crate) fn post(&self, id: ConversationId, command: Command) -> oneshot::Receiver<Answer> {
        let (caller, answer) = oneshot::channel();
        self.registry.dispatch(id, command, ReplyTo::Caller(caller));
        answer
    }

    /// A closed channel (the actor is gone) is an unknown outcome.
    pub(crate) async fn ask(&self, id: ConversationId, command: Command) -> Answer {
        self.post(id, command).await.unwrap_or(Err(CommandError::Unavailable))
    }

    /// Makes a group of `members`, the first of which owns it.
    pub(crate) async fn group(&self, id: ConversationId, members: &[Principal]) {
        assert_eq!(self.ask(id, create(members)).await, Ok(Outcome::Created));
    }

    /// Sends until there is an answer that says stored; returns (message id, seq).
    pub(crate) async fn insist(&self, id: ConversationId, sender: Principal, key: &str) -> (i64, i64) {
        for _ in 0..100 {
            match self.ask(id, send(sender, key, key)).await {
                Ok(Outcome::Sent(message)) => return (message.message_id.get(), message.seq.get()),
                Ok(Outcome::Duplicate(record)) => return (record.message_id.get(), record.seq.get()),
                Err(CommandError::Unavailable | CommandError::Overloaded) => {}
                other => panic!("{key}: {other:?}"),
            }
        }
        panic!("{key}: never stored");
    }

    /// The stored seqs and keys.
    pub(crate) async fn stored(&self, id: ConversationId) -> Vec<(i64, Option<String>)> {
        let messages = self
            .store
            .messages_after(id, onescribe::domain::Seq::ZERO, 100_000)
            .await
            .unwrap();
        messages
            .iter()
            .map(|m| {
                (
                    m.seq.get(),
                    m.client_message_id.as_ref().map(|key| key.as_str().to_owned()),
                )
            })
            .collect()
    }
}

pub(crate) fn origin(principal: Principal) -> Origin {
    Origin {
        principal,
        device: None,
    }
}

pub(crate) fn send(sender: Principal, key: &str, text: &str) -> Command {
    let content = format!("{{\"text\":\"{text}\"}}");
    Command::Send(Send {
        origin: origin(sender),
        client_message_id: ClientMessageId::parse(key).unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(&content),
        content: Content::trusted(&content),
        quoted_message_id: None,
        expected_last_seq: None,
    })
}

/// 1, 2, 3 … up to the last.
pub(crate) fn is_contiguous(seqs: impl IntoIterator<Item = i64>) -> bool {
    seqs.into_iter().zip(1..).all(|(seq, expected)| seq == expected)
}

/// Makes a group of `members`, the first of which owns it.
pub(crate) fn create(members: &[Principal]) -> Command {
    Command::Create(Create {
        origin: origin(members[0]),
        kind: Kind::Group,
        title: Some("room".into()),
        members: members.to_vec(),
        creation_key: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    })
}
