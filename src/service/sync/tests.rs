//! How much is asked of the store, and what becomes of an answer that has no room.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::clock::ManualClock;
use crate::domain::{
    Adding, Batch, ClientMessageId, Command, Content, Context, Create, Draft, Facts, HistoryVisibility, Kind,
    MessageId, MessageType, Origin, Posting, Send, chain,
};
use crate::storage::memory::{Fault, Faults, MemoryStore};
use crate::storage::{Commit, DeviceStore};

const VIEWER: Principal = Principal::user(1);
const OTHER: Principal = Principal::user(2);

/// Counts what is asked of a store.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Faults for Counter {
    fn on_commit(&self, _: &Commit) -> Fault {
        Fault::None
    }

    fn is_down(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst);
        false
    }
}

struct World {
    store: MemoryStore,
    counter: Arc<Counter>,
    sync: Sync,
    next: i64,
}

impl World {
    async fn new() -> Self {
        let counter = Arc::new(Counter::default());
        let store = MemoryStore::with_faults(Arc::<Counter>::clone(&counter));
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1)));
        let shared = Arc::new(store.clone());
        let devices = Devices::new(
            Arc::<MemoryStore>::clone(&shared),
            Arc::<ManualClock>::clone(&clock),
            100,
        );
        let epoch = Epoch::read(
            Arc::<MemoryStore>::clone(&shared),
            Arc::<ManualClock>::clone(&clock),
            "epoch",
        );
        let epoch = Arc::new(epoch.await.unwrap());
        Self {
            store,
            counter,
            sync: Sync::new(shared, clock, Arc::new(devices), epoch),
            next: 1,
        }
    }

    fn id(&mut self) -> i64 {
        self.next += 1;
        self.next
    }

    /// A group with `members` more members and so many messages.
    async fn room(&mut self, members: i64, messages: usize, text: &str) -> ConversationId {
        let id = ConversationId::new(self.id()).unwrap();
        let origin = |principal| Origin {
            principal,
            device: None,
        };
        let mut draft = Draft::new(id, None);
        let mut commands = vec![Command::Create(Create {
            origin: origin(OTHER),
            kind: Kind::Group,
            title: Some("room".to_owned()),
            members: std::iter::once(VIEWER)
                .chain((0..members).map(|n| Principal::user(n + 10)))
                .collect(),
            creation_key: None,
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        })];
        let content = Content::trusted(&format!("{{\"text\":\"{text}\"}}"));
        commands.extend((0..messages).map(|n| {
            Command::Send(Send {
                origin: origin(OTHER),
                client_message_id: ClientMessageId::parse(&format!("k{n}")).unwrap(),
                message_type: MessageType::Text,
                content_hash: chain::content_hash(content.as_str()),
                content: content.clone(),
                quoted_message_id: None,
                expected_last_seq: None,
            })
        }));
        let facts = Facts {
            keys: commands
                .iter()
                .filter_map(|command| match command {
                    Command::Send(send) => Some(((OTHER, send.client_message_id.clone()), None)),
                    _ => None,
                })
                .collect(),
            ..Facts::default()
        };
        let now = Timestamp::from_millis(self.next);
        let mut next_id = || Ok(MessageId::new(self.id()).unwrap());
        for command in &commands {
            let mut context = Context {
                now,
                next_id: &mut next_id,
                facts: &facts,
            };
            draft.decide(command, &mut context).unwrap();
        }
        let Batch {
            events,
            header,
            head,
            member_count,
        } = draft.finish().unwrap();
        let commit = Commit {
            conversation_id: id,
            expected: None,
            events,
            header,
            head,
            member_count,
        };
        assert_eq!(self.store.observer().writer().commit(&[commit]).await, [Ok(())]);
        id
    }

    /// One request, and how much it asked of the store.
    async fn ask(&self, query: SyncQuery) -> (SyncPage, usize) {
        let before = self.counter.0.load(Ordering::SeqCst);
        let page = self.sync.sync(VIEWER, query).await.unwrap();
        (page, self.counter.0.load(Ordering::SeqCst) - before)
    }
}

fn query(cursors: &BTreeMap<ConversationId, DeviceCursor>) -> SyncQuery {
    SyncQuery {
        device: DeviceId::parse("phone").unwrap(),
        store_epoch: None,
        cursors: Some(cursors.values().copied().collect()),
        message_limit: 50,
        conversation_limit: 100,
        bytes_max: 100_000_000,
    }
}

fn advance(cursors: &mut BTreeMap<ConversationId, DeviceCursor>, page: &SyncPage) {
    for entry in &page.entries {
        let conversation_id = entry.seen.header.conversation_id;
        let (seq, change_seq) = entry.next;
        let cursor = DeviceCursor {
            conversation_id,
            seq,
            change_seq,
        };
        cursors.insert(conversation_id, cursor);
    }
}

/// Device noticed (once), cursors, standings, seen, outlines, messages.
const ASKED_MAX: usize = 6;

#[tokio::test]
async fn b50_five_thousand_conversations_come_in_bounded_requests_whatever_their_members_and_history() {
    let mut world = World::new().await;
    for n in 0..5_000_usize {
        let large = n % 1_000 == 0;
        let (members, messages) = if large { (300, 500) } else { (0, n % 4) };
        world.room(members, messages, "x").await;
    }
    let mut cursors = BTreeMap::new();
    let (mut requests, mut told) = (0, 0);
    loop {
        let (page, asked) = world.ask(query(&cursors)).await;
        assert!(asked <= ASKED_MAX, "{asked} calls of the store for one page");
        assert!(page.entries.len() <= 100);
        advance(&mut cursors, &page);
        requests += 1;
        told += page.entries.len();
        if !page.has_more {
            break;
        }
    }
    assert_eq!((requests, told), (50, 5_000));
    let (page, asked) = world.ask(query(&cursors)).await;
    assert!(
        page.entries.is_empty() && asked <= 2,
        "{asked} calls where nothing is new"
    );
}

#[tokio::test]
async fn pages_of_much_history_are_looked_through_in_steps_and_not_beyond_what_has_room() {
    let mut world = World::new().await;
    for _ in 0..60 {
        world.room(0, 250, "x").await;
    }
    let mut wide = query(&BTreeMap::new());
    wide.message_limit = 200;
    let (page, asked) = world.ask(wide.clone()).await;
    assert_eq!(page.entries.len(), 60);
    // 60 times 201 rows in steps of at most 4,000.
    assert_eq!(asked, ASKED_MAX + 3);
    wide.bytes_max = 1_000_000;
    let (page, asked) = world.ask(wide).await;
    assert!(page.has_more && page.entries.len() < 5, "{}", page.entries.len());
    assert!(asked <= ASKED_MAX, "{asked}: what has no room is not looked for");
}

#[tokio::test]
async fn an_answer_always_gets_on_however_little_room_it_has() {
    let mut world = World::new().await;
    for _ in 0..3 {
        world.room(0, 4, &"long ".repeat(100)).await;
    }
    let mut cursors = BTreeMap::new();
    for left in (0..3).rev() {
        let mut narrow = query(&cursors);
        narrow.bytes_max = 1;
        let (page, _) = world.ask(narrow).await;
        assert_eq!((page.entries.len(), page.has_more), (1, left > 0));
        let entry = &page.entries[0];
        assert_eq!(entry.messages.len(), 1);
        assert_eq!(entry.missing, Some((Seq::ZERO, Seq::new(5))), "the rest is named");
        advance(&mut cursors, &page);
    }
}

#[tokio::test]
async fn b51_a_device_is_told_the_same_however_long_it_was_away() {
    let mut world = World::new().await;
    let room = world.room(0, 120, "x").await;
    let ago = |seq: i64| {
        let cursor = DeviceCursor {
            conversation_id: room,
            seq: Seq::new(seq),
            change_seq: ChangeSeq::ZERO,
        };
        query(&BTreeMap::from([(room, cursor)]))
    };
    // Away for a second, a minute, 40 days: only the number tells.
    for (seq, first, missing) in [(120, 121, false), (100, 101, false), (0, 72, true)] {
        let (page, _) = world.ask(ago(seq)).await;
        let entry = &page.entries[0];
        let seqs: Vec<i64> = entry.messages.iter().map(|marked| marked.message.seq.get()).collect();
        assert_eq!(seqs, (first..=121).collect::<Vec<_>>());
        assert_eq!(entry.missing.is_some(), missing);
        assert_eq!(entry.next.0, Seq::new(121));
    }
    let (page, _) = world.ask(ago(121)).await;
    assert!(page.entries.is_empty());
}

#[tokio::test]
async fn a_cursor_beyond_the_head_and_another_epoch_are_never_passed_over_in_silence() {
    let mut world = World::new().await;
    let room = world.room(0, 1, "x").await;
    let mut beyond = query(&BTreeMap::new());
    beyond.cursors = Some(vec![DeviceCursor {
        conversation_id: room,
        seq: Seq::new(3),
        change_seq: ChangeSeq::ZERO,
    }]);
    let (page, _) = world.ask(beyond.clone()).await;
    assert!(page.entries[0].history_reset);
    assert_eq!(page.entries[0].messages.len(), 2, "it begins anew");
    beyond.store_epoch = Some("another".to_owned());
    let error = world.sync.sync(VIEWER, beyond.clone()).await.unwrap_err();
    assert_eq!(error.code, Code::HistoryReset);
    beyond.store_epoch = Some("epoch".to_owned());
    world.sync.sync(VIEWER, beyond).await.unwrap();
}

#[tokio::test]
async fn a_device_that_asks_again_and_again_is_noted_once() {
    let world = World::new().await;
    for _ in 0..3 {
        world.ask(query(&BTreeMap::new())).await;
    }
    assert_eq!(world.store.devices(VIEWER, None, 9).await.unwrap().len(), 1);
    let (_, asked) = world.ask(query(&BTreeMap::new())).await;
    assert_eq!(asked, 2, "cursors and standings");
}
