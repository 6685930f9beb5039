//! A walk: one step after another, and after each of them everything that anybody sees is compared with the model.

use std::sync::Arc;

use onescribe::clock::ManualClock;
use onescribe::domain::{ConversationId, Kind, Marked, MessageId, Tally};
use onescribe::service::{HistoryQuery, Seen};
use onescribe::storage::Store;
use onescribe::storage::memory::MemoryStore;
use onescribe::storage::sql::{OpenOptions, open};
use serde_json::Value;

use super::database::TestDatabase;
use super::device::{Device, shown};
use super::model::{Line, Room, User};
use super::stack::{Stack, clock, principal};

pub(crate) const USERS: usize = 5;
const DEVICES: usize = 3;
/// Everything is compared so often; in between what the step was about.
const WHOLE_EVERY: usize = 100;
/// So much of a history is compared after each step.
const TAIL: u32 = 30;
/// Walks in memory: several, since a conversation in which everything has happened tells nothing new.
const SEEDS: u64 = 10;
/// Steps of a walk in memory.
const STEPS: usize = 1_000;
/// Steps of a walk on a database.
const STEPS_ON_DATABASE: usize = 300;

/// Chance with a seed (splitmix64).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// A message of a user's, as its sender remembers it.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) user: User,
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) seq: i64,
    pub(crate) id: MessageId,
}

/// A conversation: its id, what the model says of it, and what was sent there.
pub(crate) struct Place {
    pub(crate) id: ConversationId,
    pub(crate) room: Room,
    pub(crate) sent: Vec<Sent>,
}

pub(crate) struct Walk {
    store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) stack: Stack,
    pub(crate) chance: Chance,
    pub(crate) devices: Vec<Device>,
    pub(crate) places: Vec<Place>,
    /// How many changes each user's INBOX has.
    pub(crate) inboxes: [i64; USERS],
}

impl Walk {
    async fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        let clock = clock();
        let stack = Stack::start(&store, &clock).await;
        let devices = (0..USERS * DEVICES).map(|n| Device::new(n / DEVICES, n % DEVICES));
        Self {
            stack,
            store,
            clock,
            chance: Chance(seed),
            devices: devices.collect(),
            places: Vec::new(),
            inboxes: [0; USERS],
        }
    }

    async fn run(&mut self, steps: usize) {
        for at in 0..steps {
            self.clock.advance(1_000);
            let touched = self.step().await;
            for device in &mut self.devices {
                device.settle(&self.stack).await;
            }
            if at % WHOLE_EVERY == 0 || at + 1 == steps {
                for place in 0..self.places.len() {
                    self.compare(place, 200).await;
                }
                self.compare_lists().await;
            } else if let Some(place) = touched {
                self.compare(place, TAIL).await;
                self.compare_lists().await;
            }
        }
        for device in 0..self.devices.len() {
            self.devices[device].connect(&self.stack).await;
        }
        for place in 0..self.places.len() {
            self.compare(place, 200).await;
        }
    }

    /// The server ends and another begins on what is stored; every connection is gone.
    pub(crate) async fn restart(&mut self) {
        for device in &mut self.devices {
            device.disconnect(&self.stack);
        }
        self.stack = Stack::start(&self.store, &self.clock).await;
    }

    /// The newest of what each user sees, with what each of their connected devices holds.
    async fn compare(&self, place: usize, tail: u32) {
        let Place { id, room, .. } = &self.places[place];
        for user in 0..USERS {
            let query = HistoryQuery {
                conversation_id: *id,
                before_seq: None,
                after_seq: None,
                limit: tail,
            };
            let history = self.stack.messages.history(principal(user), query).await;
            if !room.members.contains_key(&user) {
                assert!(history.is_err(), "user {user} is not in {id}");
                continue;
            }
            let history = history.unwrap().items;
            let found: Vec<Line> = history.iter().map(line).collect();
            let expected = room.history(user);
            let newest = expected
                .len()
                .saturating_sub(found.len().max(usize::try_from(tail).unwrap()));
            assert_eq!(found, expected[newest..], "history of user {user} in {id}");
            let fresh: Vec<Value> = history.iter().map(shown).collect();
            for device in self
                .devices
                .iter()
                .filter(|device| device.user == user && device.session.is_some())
            {
                let Some(copy) = device.copies.get(id) else {
                    assert!(
                        expected.is_empty() && room.changes == 0,
                        "{} of user {user} lacks {id}",
                        device.name
                    );
                    continue;
                };
                let held: Vec<Value> = copy.messages.values().cloned().collect();
                assert_eq!(held.len(), expected.len(), "{} of user {user} in {id}", device.name);
                assert_eq!(held[newest..], fresh, "{} of user {user} in {id}", device.name);
            }
        }
    }

    /// What each user sees in their list: order, counts, last message, settings.
    async fn compare_lists(&self) {
        for user in 0..USERS {
            let list = self.stack.conversations.list(principal(user), None, 200).await.unwrap();
            let is_inbox = |seen: &&Seen| seen.header.kind == Kind::Inbox;
            let inbox = list.items.iter().find(is_inbox);
            let changes = inbox.map_or(0, |inbox| inbox.head.last_change_seq.get());
            assert_eq!(changes, self.inboxes[user], "the inbox of user {user}");
            let found: Vec<_> = list
                .items
                .iter()
                .filter(|seen| !is_inbox(seen))
                .map(|seen| {
                    let own = seen.membership.unwrap();
                    let last = seen.last_message.as_ref().map(|last| last.message.seq.get());
                    (
                        (
                            seen.header.conversation_id,
                            seen.head.last_seq.get(),
                            seen.head.last_change_seq.get(),
                            last,
                        ),
                        (
                            seen.unread_count,
                            seen.mention_count,
                            own.last_read_seq.get(),
                            own.member.role,
                        ),
                        (own.cleared_seq.get(), own.pinned, own.muted, own.marked_unread),
                    )
                })
                .collect();
            let mut mine: Vec<&Place> = self
                .places
                .iter()
                .filter(|place| place.room.members.contains_key(&user))
                .collect();
            mine.sort_by_key(|place| {
                let own = &place.room.members[&user];
                std::cmp::Reverse((own.pinned, place.room.active, place.id))
            });
            let expected: Vec<_> = mine
                .iter()
                .map(|Place { id, room, .. }| {
                    let own = &room.members[&user];
                    (
                        (*id, room.head(), room.changes, room.last(user)),
                        (room.unread(user), room.mentions(user), own.read, own.role),
                        (own.cleared, own.pinned, own.muted, own.marked),
                    )
                })
                .collect();
            assert_eq!(
                found, expected,
                "list of user {user}: (id, last_seq, last_change_seq, last), (unread, mentions, read, role), settings"
            );
            let unread = self.stack.sync.unread(principal(user)).await.unwrap();
            let of_all = mine.iter().filter(|place| !place.room.members[&user].muted);
            assert_eq!(
                unread.total,
                of_all.map(|place| place.room.unread(user)).sum::<u64>(),
                "total of user {user}"
            );
        }
    }
}

fn line(marked: &Marked) -> Line {
    let tally = |tally: &Tally| (tally.emoji.to_string(), (tally.count, tally.me));
    let tallies = marked.marks.reactions.iter().map(tally).collect();
    let (message, pinned) = (&marked.message, marked.marks.pinned);
    let words = words(message.content.as_str());
    (message.seq.get(), message.status, words, tallies, pinned)
}

/// The words of a content: its text, its event, or that it was recalled.
fn words(content: &str) -> String {
    let content: Value = serde_json::from_str(content).unwrap();
    let words = content["text"].as_str().or(content["event"].as_str());
    words.unwrap_or("recalled").to_owned()
}

/// Where a walk is kept.
#[derive(Clone, Copy)]
enum On {
    Memory,
    Sqlite,
    Postgres,
    Mysql,
}

impl On {
    /// `None` where there is no such server. The database lives as long as what is answered.
    async fn store(self) -> Option<(Arc<dyn Store>, Option<TestDatabase>)> {
        let database = match self {
            Self::Memory => return Some((Arc::new(MemoryStore::new()), None)),
            Self::Sqlite => TestDatabase::sqlite(),
            Self::Postgres => TestDatabase::postgres().await?,
            Self::Mysql => TestDatabase::mysql().await?,
        };
        let store = open(&database.url, OpenOptions::default()).await.unwrap();
        Some((store, Some(database)))
    }
}

/// Walks; a seed that fails is named.
fn walk(on: On, seed: u64, steps: usize) {
    struct Named(u64);
    impl Drop for Named {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("this was ONESCRIBE_MODEL_SEED={}", self.0);
            }
        }
    }
    let _named = Named(seed);
    actix::System::new().block_on(async move {
        if let Some((store, _database)) = on.store().await {
            Walk::new(Arc::clone(&store), seed).await.run(steps).await;
            store.close().await;
        }
    });
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    match number("ONESCRIBE_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("ONESCRIBE_MODEL_SEEDS").unwrap_or(count),
    }
}

#[test]
fn b71_every_user_and_every_device_sees_what_the_model_says() {
    for seed in seeds(SEEDS) {
        walk(On::Memory, seed, STEPS);
    }
}

#[test]
fn b71_the_same_on_sqlite() {
    seeds(1).for_each(|seed| walk(On::Sqlite, seed, STEPS_ON_DATABASE));
}

#[test]
fn b71_the_same_on_postgresql() {
    seeds(1).for_each(|seed| walk(On::Postgres, seed, STEPS_ON_DATABASE));
}

#[test]
fn b71_the_same_on_mysql() {
    seeds(1).for_each(|seed| walk(On::Mysql, seed, STEPS_ON_DATABASE));
}
