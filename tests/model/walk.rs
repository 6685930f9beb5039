//! A walk: one step after another, and after each of them everything that anybody sees is compared with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onescribe::clock::ManualClock;
use onescribe::domain::{
    Action, ActionType, ConversationId, Kind, Marked, MessageId, MessageStatus, Role, Tally, Timestamp,
};
use onescribe::service::{HistoryQuery, Seen};
use onescribe::storage::Store;
use onescribe::storage::memory::MemoryStore;
use onescribe::storage::sql::{OpenOptions, open};
use serde_json::Value;

use super::database::TestDatabase;
use super::device::{Device, shown};
use super::model::{Line, Room, User};
use super::saying::upload_all;
use super::stack::{Stack, clock, principal};
use super::steps::index;
use super::trouble::Trouble;

pub(crate) const USERS: usize = 5;
const DEVICES: usize = 3;
/// Everything is compared so often; in between what the step was about.
const WHOLE_EVERY: usize = 100;
/// So much of a history is compared after each step.
const TAIL: u32 = 10;
/// The walk that is taken when no other is asked for.
const FIRST_SEED: u64 = 1;
/// Steps of a walk in memory.
const STEPS: usize = 10_000;
/// Steps of a walk on a database.
const STEPS_ON_DATABASE: usize = 400;

/// What a walk must not leave out by chance; before `TROUBLE` stands what only a store in memory can be told to do, or what
/// a short walk seldom comes to.
const HAPPENS: &[&str] = &[
    "a commit failed",
    "a commit was lost",
    "a commit came late",
    "an answer was lost",
    "a file of another was shown",
    "a message was forwarded",
    "a reminder was set or taken back",
    "somebody was reminded",
    "receipts were told",
    "a file was refused",
];
const TROUBLE: usize = 5;

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
    /// What each user sees in their list, since the last step that was about it.
    rows: [Option<Row>; USERS],
}

/// `(id, last_seq, last_change_seq, last)`, `(unread, mentions, read, role)`, `(cleared, pinned, muted, marked)`
type Row = (
    (ConversationId, i64, i64, Option<i64>),
    (u64, u64, i64, Role),
    (i64, bool, bool, bool),
);

impl Place {
    pub(crate) fn new(id: ConversationId, room: Room) -> Self {
        let (sent, rows) = (Vec::new(), std::array::from_fn(|_| None));
        Self { id, room, sent, rows }
    }

    fn derive(&mut self) {
        let Self { id, room, .. } = self;
        self.rows = std::array::from_fn(|user| {
            let own = room.members.get(&user)?;
            Some((
                (*id, room.head(), room.changes, room.last(user)),
                (room.unread(user), room.mentions(user), own.read, own.role),
                (own.cleared, own.pinned, own.muted, own.marked),
            ))
        });
    }
}

pub(crate) struct Walk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) stack: Stack,
    pub(crate) chance: Chance,
    pub(crate) devices: Vec<Device>,
    pub(crate) places: Vec<Place>,
    /// How many changes each user's INBOX has.
    pub(crate) inboxes: [i64; USERS],
    pub(crate) trouble: Arc<Trouble>,
    /// The places that the present step is about.
    pub(crate) touched: Vec<usize>,
    /// What must not be left out by chance, and how often it was.
    pub(crate) happened: BTreeMap<&'static str, usize>,
}

impl Walk {
    async fn new(store: Arc<dyn Store>, trouble: Arc<Trouble>, seed: u64) -> Self {
        let clock = clock();
        upload_all(store.as_ref()).await;
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
            trouble,
            touched: Vec::new(),
            happened: BTreeMap::new(),
        }
    }

    async fn run(&mut self, steps: usize) {
        for at in 0..steps {
            self.clock.advance(1_000);
            self.step().await;
            for device in &mut self.devices {
                device.settle(&self.stack).await;
            }
            if at % WHOLE_EVERY == 0 {
                self.compare_whole().await;
                continue;
            }
            let touched = std::mem::take(&mut self.touched);
            for place in &touched {
                self.places[*place].derive();
                self.compare(*place, TAIL).await;
            }
            if !touched.is_empty() {
                self.compare_lists().await;
            }
        }
        self.compare_whole().await;
    }

    /// Everybody is here, and nothing that was to be told is left.
    async fn come_home(&mut self) {
        for device in 0..self.devices.len() {
            self.devices[device].connect(&self.stack).await;
        }
        self.clock.advance(3_600_000);
        self.look_for_reminders().await;
        self.compare_whole().await;
    }

    async fn compare_whole(&mut self) {
        for place in 0..self.places.len() {
            self.places[place].derive();
            self.compare(place, 200).await;
        }
        self.compare_lists().await;
        self.compare_actions().await;
        self.compare_files().await;
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
            let expected = room.visible(user);
            let newest = expected
                .len()
                .saturating_sub(found.len().max(usize::try_from(tail).unwrap()));
            let lines: Vec<Line> = expected[newest..]
                .iter()
                .map(|(seq, said)| said.line(*seq, user))
                .collect();
            assert_eq!(found, lines, "history of user {user} in {id}");
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
                assert_eq!(
                    copy.messages.len(),
                    expected.len(),
                    "{} of user {user} in {id}",
                    device.name
                );
                let held: Vec<&Value> = copy.messages.values().skip(newest).collect();
                assert_eq!(
                    held,
                    fresh.iter().collect::<Vec<_>>(),
                    "{} of user {user} in {id}",
                    device.name
                );
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
            let mut mine: Vec<(&Place, &Row)> = self
                .places
                .iter()
                .filter_map(|place| Some((place, place.rows[user].as_ref()?)))
                .collect();
            mine.sort_by_key(|(place, (_, _, (_, pinned, ..)))| {
                std::cmp::Reverse((*pinned, place.room.active, place.id))
            });
            let expected: Vec<&Row> = mine.iter().map(|(_, row)| *row).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "list of user {user}");
            let unread = self.stack.sync.unread(principal(user)).await.unwrap();
            let of_all = expected.iter().filter(|(_, _, (_, _, muted, _))| !muted);
            assert_eq!(
                unread.total,
                of_all.map(|(_, (unread, ..), _)| unread).sum::<u64>(),
                "total of user {user}"
            );
        }
    }

    /// What each user has deleted for themselves or wants to be reminded of.
    async fn compare_actions(&self) {
        for user in 0..USERS {
            let page = self
                .stack
                .inbox
                .actions(principal(user), None, None, 10_000)
                .await
                .unwrap();
            let action = |action: &Action| (action.action_type, action.message_id, action.remind_at);
            let found: BTreeSet<_> = page.items.iter().map(action).collect();
            let mut expected = BTreeSet::new();
            for Place { room, sent, .. } in &self.places {
                for sent in sent {
                    let said = &room.said[index(sent.seq)];
                    if !room.reaches(user, sent.seq) || said.status == MessageStatus::Deleted {
                        continue; // listed is what is on a message that could be shown
                    }
                    if said.deleted_for.contains(&user) {
                        expected.insert((ActionType::Delete, sent.id, None));
                    }
                    let reminder = said.reminders.get(&user).filter(|one| one.active);
                    if let Some(reminder) = reminder.filter(|_| room.sees(user, sent.seq)) {
                        let due = Timestamp::from_millis(reminder.due);
                        expected.insert((ActionType::Reminder, sent.id, Some(due)));
                    }
                }
            }
            assert_eq!(found, expected, "actions of user {user}");
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
pub(crate) enum On {
    Memory,
    Sqlite,
    Postgres,
    Mysql,
}

impl On {
    /// In memory nothing waits for anything outside, so time may stand still until everybody waits for it.
    pub(crate) fn system(self) -> actix::SystemRunner {
        let paused = matches!(self, Self::Memory);
        actix::System::with_tokio_rt(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().start_paused(paused);
            runtime.build().unwrap()
        })
    }

    /// `None` where there is no such server. The database lives as long as what is answered.
    pub(crate) async fn store(self, trouble: &Arc<Trouble>) -> Option<(Arc<dyn Store>, Option<TestDatabase>)> {
        let database = match self {
            Self::Memory => return Some((Arc::new(MemoryStore::with_faults(trouble.clone())), None)),
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
    on.system().block_on(async move {
        let trouble = Arc::new(Trouble::default());
        let Some((store, _database)) = on.store(&trouble).await else {
            return;
        };
        let mut walk = Walk::new(Arc::clone(&store), trouble, seed).await;
        walk.run(steps).await;
        walk.come_home().await;
        store.close().await;
        println!(
            "seed {seed}, {steps} steps, {} conversations: {:?}",
            walk.places.len(),
            walk.happened
        );
        let left_out = |what: &&&str| !walk.happened.contains_key(**what);
        let must = if matches!(on, On::Memory) {
            HAPPENS
        } else {
            &HAPPENS[TROUBLE..]
        };
        let left_out: Vec<_> = must.iter().filter(left_out).collect();
        // A short walk may leave something out by chance, but for the one that every run of the tests takes.
        let may_not = steps >= STEPS || (seed == FIRST_SEED && steps >= STEPS_ON_DATABASE);
        assert!(!may_not || left_out.is_empty(), "it never happened: {left_out:?}");
    });
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn seeds() -> std::ops::Range<u64> {
    match number("ONESCRIBE_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => FIRST_SEED..FIRST_SEED + number("ONESCRIBE_MODEL_SEEDS").unwrap_or(1),
    }
}

fn steps(count: usize) -> usize {
    number("ONESCRIBE_MODEL_STEPS").map_or(count, |steps| usize::try_from(steps).unwrap())
}

#[test]
fn b71_every_user_and_every_device_sees_what_the_model_says() {
    seeds().for_each(|seed| walk(On::Memory, seed, steps(STEPS)));
}

#[test]
fn b71_the_same_on_sqlite() {
    seeds().for_each(|seed| walk(On::Sqlite, seed, steps(STEPS_ON_DATABASE)));
}

#[test]
fn b71_the_same_on_postgresql() {
    seeds().for_each(|seed| walk(On::Postgres, seed, steps(STEPS_ON_DATABASE)));
}

#[test]
fn b71_the_same_on_mysql() {
    seeds().for_each(|seed| walk(On::Mysql, seed, steps(STEPS_ON_DATABASE)));
}
