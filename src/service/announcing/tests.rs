//! Announcements to INBOXes whose writers are not always there.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::clock::ManualClock;
use crate::conversation::{Answer, CommandError, ReplyTo};
use crate::domain::snowflake::{EPOCH_MS, Snowflake};
use crate::domain::{
    ClientRequestId, Command, ConversationId, MessageId, Name, NewAnnouncement, Notification, NotificationKey,
    NotificationState, Outcome, PrincipalType, Subject,
};
use crate::ids::Ids;
use crate::routing::Bus;
use crate::service::notifications::{NotificationParts, Terms};
use crate::service::{Announcements, Conversations, Inbox, Principals};
use crate::storage::memory::MemoryStore;
use crate::storage::{JobStore as _, PrincipalStore as _};

const TERMS: Terms = Terms {
    expire: Duration::from_hours(720),
    ask_again: Duration::ZERO,
};

/// INBOXes without a store: who has been told what.
#[derive(Default)]
struct Writers {
    told: Mutex<Vec<(Principal, NotificationKey)>>,
    /// These cannot be reached as long as they stand here, or for ever.
    away: Mutex<BTreeSet<Principal>>,
    /// These make a mistake.
    broken: Mutex<BTreeSet<Principal>>,
}

impl Writers {
    fn answer(&self, id: ConversationId, command: &Command) -> Answer {
        match command {
            Command::Notify(notify) => {
                let owner = notify.to;
                if self.away.lock().unwrap().contains(&owner) {
                    return Err(CommandError::Overloaded);
                }
                if self.broken.lock().unwrap().contains(&owner) {
                    return Ok(Outcome::Created);
                }
                self.told.lock().unwrap().push((owner, notify.key.clone()));
                Ok(Outcome::Notified(Arc::new(notification(id, owner, notify))))
            }
            other => panic!("{other:?} is not asked"),
        }
    }

    /// In order; who was told twice stands there twice.
    fn told(&self) -> Vec<Principal> {
        let mut told: Vec<Principal> = self.told.lock().unwrap().iter().map(|(who, _)| *who).collect();
        told.sort_unstable();
        told
    }
}

impl Bus for Writers {
    fn dispatch(&self, id: ConversationId, command: Command, reply: ReplyTo) {
        let ReplyTo::Caller(caller) = reply else {
            panic!("whoever announces waits for the answer");
        };
        caller.send(self.answer(id, &command)).ok(); // whoever stopped does not wait
    }
}

fn notification(inbox_id: ConversationId, owner: Principal, notify: &Notify) -> Notification {
    Notification {
        notification_id: MessageId::new(1).unwrap(),
        inbox_id,
        owner,
        kind: notify.kind,
        from: notify.from,
        text: notify.text.clone(),
        conversation_id: None,
        payload: notify.payload.clone(),
        state: NotificationState::Pending,
        key: Some(notify.key.clone()),
        read_at: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        due_at: None,
    }
}

struct World {
    store: MemoryStore,
    clock: Arc<ManualClock>,
    writers: Arc<Writers>,
    announcements: Announcements,
    added: Arc<Bell>,
}

impl World {
    fn new() -> Self {
        let (store, writers) = (MemoryStore::new(), Arc::<Writers>::default());
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(EPOCH_MS + 1)));
        let added = Arc::<Bell>::default();
        let announcements = Announcements::new(
            Arc::new(store.clone()),
            Arc::<ManualClock>::clone(&clock),
            ids(&clock),
            principals(&store, &clock),
            Arc::clone(&added),
        );
        Self {
            store,
            clock,
            writers,
            announcements,
            added,
        }
    }

    /// A process.
    fn teller(&self, holder: &str) -> Announcing {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        let bus: Arc<dyn Bus> = Arc::<Writers>::clone(&self.writers);
        let (ids, principals) = (ids(&self.clock), principals(&self.store, &self.clock));
        let conversations = Conversations::new(
            Arc::clone(&store),
            Arc::clone(&bus),
            Arc::clone(&ids),
            Arc::clone(&principals),
        );
        let parts = NotificationParts {
            store: Arc::clone(&store),
            bus: Arc::clone(&bus),
            clock: Arc::<ManualClock>::clone(&self.clock),
            principals,
            conversations: Arc::new(conversations),
            inbox: Arc::new(Inbox::new(Arc::clone(&store), bus, ids)),
        };
        Announcing::new(
            store,
            Arc::<ManualClock>::clone(&self.clock),
            Arc::new(Notifications::new(parts, TERMS)),
            Arc::clone(&self.added),
            holder.to_owned(),
        )
    }

    /// An announcement to the users 1 to `last`, or to all.
    async fn announce(&self, key: &str, last: Option<i64>) -> Job {
        let subject = |id| Subject {
            kind: PrincipalType::User,
            name: Name::Id(id),
        };
        let new = NewAnnouncement {
            audience: last.map(|last| (1..=last).map(subject).collect()),
            text: "maintenance".to_owned(),
            payload: None,
            client_request_id: ClientRequestId::parse(key).unwrap(),
        };
        self.announcements.announce(new).await.unwrap().0
    }

    async fn job(&self, job: &Job) -> (JobState, u64, u64, u64) {
        let job = self.announcements.job(job.job_id).await.unwrap();
        (job.state, job.done, job.total, job.missed)
    }

    async fn until_done(&self, job: &Job) {
        while self.job(job).await.0 == JobState::Running {
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn ids(clock: &Arc<ManualClock>) -> Arc<Ids> {
    use std::sync::atomic::{AtomicU16, Ordering};
    static WORKERS: AtomicU16 = AtomicU16::new(0);
    let worker = WORKERS.fetch_add(1, Ordering::Relaxed) % 1_024;
    let flake = Snowflake::new(worker, Timestamp::from_millis(0)).unwrap();
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    Arc::new(Ids::new(clock, flake, Timestamp::from_millis(i64::MAX)))
}

fn principals(store: &MemoryStore, clock: &Arc<ManualClock>) -> Arc<Principals> {
    let store = Arc::new(store.clone());
    let principals = Principals::new(store, ids(clock), Arc::<ManualClock>::clone(clock), true);
    Arc::new(principals)
}

fn users(ids: impl IntoIterator<Item = i64>) -> Vec<Principal> {
    ids.into_iter().map(Principal::user).collect()
}

async fn never() {
    std::future::pending::<()>().await;
}

#[tokio::test(start_paused = true)]
async fn all_who_were_known_are_told_once_and_who_comes_later_is_not() {
    let world = World::new();
    let now = world.clock.now();
    world.store.provision(&users(1..=250), now).await.unwrap();
    world.store.provision(&[Principal::agent(7)], now).await.unwrap();
    let job = world.announce("k", None).await;
    assert_eq!(job.total, 250);
    let later = now.plus(Duration::from_millis(1));
    world.store.provision(&users([100_000]), later).await.unwrap();
    let teller = world.teller("one");
    tokio::select! {
        () = teller.watch(never()) => {}
        () = world.until_done(&job) => {}
    }
    assert_eq!(world.job(&job).await, (JobState::Done, 250, 250, 0));
    assert_eq!(world.writers.told(), users(1..=250));
}

#[tokio::test(start_paused = true)]
async fn what_stands_in_the_way_of_one_holds_up_those_behind_and_nobody_is_passed_over() {
    let world = World::new();
    let job = world.announce("k", Some(150)).await;
    world.writers.away.lock().unwrap().insert(Principal::user(42));
    let teller = world.teller("one");
    let comes_back = async {
        sleep(Duration::from_mins(1)).await;
        let (state, done, ..) = world.job(&job).await;
        assert_eq!((state, done), (JobState::Running, 41));
        let tried = world.writers.told().len();
        assert!(tried < 150, "{tried} tries in a minute that led to nothing");
        world.writers.away.lock().unwrap().clear();
        world.until_done(&job).await;
    };
    tokio::select! {
        () = teller.watch(never()) => {}
        () = comes_back => {}
    }
    assert_eq!(world.job(&job).await, (JobState::Done, 150, 150, 0));
    let told: BTreeSet<_> = world.writers.told().into_iter().collect();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), users(1..=150));
    let keys: BTreeSet<_> = world
        .writers
        .told
        .lock()
        .unwrap()
        .iter()
        .map(|(_, key)| key.clone())
        .collect();
    assert_eq!(keys.len(), 1, "told again it is the same");
}

#[tokio::test(start_paused = true)]
async fn who_can_never_be_told_is_passed_over_and_counted() {
    let world = World::new();
    let job = world.announce("k", Some(150)).await;
    world.writers.broken.lock().unwrap().insert(Principal::user(42));
    let teller = world.teller("one");
    tokio::select! {
        () = teller.watch(never()) => {}
        () = world.until_done(&job) => {}
    }
    assert_eq!(world.job(&job).await, (JobState::Done, 150, 150, 1));
    assert_eq!(world.writers.told(), users((1..=150).filter(|id| *id != 42)));
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_one_tells_and_the_other_goes_on_when_the_lease_has_run_out() {
    let world = World::new();
    let job = world.announce("k", Some(5)).await;
    // A process that died in its work.
    let (dead, now) = (
        JobHolder {
            job_id: job.job_id,
            holder: "dead",
        },
        world.clock.now(),
    );
    world.store.take_job(dead, now, now.plus(LEASE)).await.unwrap().unwrap();
    let teller = world.teller("other");
    let looks_on = async {
        sleep(Duration::from_secs(10)).await;
        assert_eq!(world.writers.told(), [], "another process has it");
        world.clock.advance(i64::try_from(LEASE.as_millis()).unwrap());
        world.until_done(&job).await;
    };
    tokio::select! {
        () = teller.watch(never()) => {}
        () = looks_on => {}
    }
    assert_eq!(world.writers.told(), users(1..=5));
    assert!(
        !world.store.end_job(dead, JobState::Failed, now).await.unwrap(),
        "it is not theirs any more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stops_leaves_the_rest_to_others_at_once() {
    let world = World::new();
    let job = world.announce("k", Some(150)).await;
    world.writers.away.lock().unwrap().insert(Principal::user(120));
    let stop = sleep(Duration::from_secs(5));
    world.teller("one").watch(stop).await;
    assert_eq!(world.job(&job).await, (JobState::Running, 119, 150, 0));
    world.writers.away.lock().unwrap().clear();
    // The clock stands still: no lease runs out.
    let teller = world.teller("other");
    tokio::select! {
        () = teller.watch(never()) => {}
        () = world.until_done(&job) => {}
    }
    assert_eq!(world.job(&job).await, (JobState::Done, 150, 150, 0));
}

#[tokio::test(start_paused = true)]
async fn a_short_announcement_does_not_wait_behind_a_long_one() {
    let world = World::new();
    let long = world.announce("long", Some(2_000)).await;
    let short = world.announce("short", Some(1)).await;
    let teller = world.teller("one");
    tokio::select! {
        () = teller.watch(never()) => {}
        () = async { while world.job(&short).await.0 == JobState::Running { tokio::task::yield_now().await; } } => {}
    }
    let (state, done, ..) = world.job(&long).await;
    assert!(state == JobState::Running && done <= 300, "{done}");
}
