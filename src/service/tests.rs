//! What the use cases do when writers and stores misbehave. Their good days are tested through the doors (`tests/api`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::*;
use crate::clock::ManualClock;
use crate::conversation::{Answer, CommandError, ReplyTo};
use crate::domain::snowflake::{EPOCH_MS, Snowflake};
use crate::domain::{
    Adding, ClientMessageId, Code, Command, Content, ConversationId, DeviceId, DomainError, ExternalId,
    HistoryVisibility, MessageId, MessageType, Name, Origin, Outcome, Posting, Principal, PrincipalStatus,
    PrincipalType, Profile, ProfilePatch, Send, Seq, Subject, Timestamp, chain,
};
use crate::ids::Ids;
use crate::routing::Bus;
use crate::storage::memory::{Fault, Faults, MemoryStore};
use crate::storage::{Commit, PrincipalStore, StoreResult};

/// What a writer does with a command.
enum Act {
    Answer(Answer),
    /// It dies before it answers.
    Die,
    /// It never answers.
    Silence,
}

#[derive(Default)]
struct ScriptedBus {
    script: Mutex<VecDeque<Act>>,
    asked: Mutex<Vec<Command>>,
    silent: Mutex<Vec<oneshot::Sender<Answer>>>,
}

impl ScriptedBus {
    fn new(script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self {
            script: Mutex::new(script.into_iter().collect()),
            ..Self::default()
        })
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Bus for ScriptedBus {
    fn dispatch(&self, _: ConversationId, command: Command, reply: ReplyTo) {
        self.asked.lock().unwrap().push(command);
        let ReplyTo::Caller(reply) = reply else {
            panic!("a use case waits for its answer itself");
        };
        match self.script.lock().unwrap().pop_front().expect("nothing more is asked") {
            Act::Answer(answer) => reply.send(answer).unwrap(),
            Act::Die => drop(reply),
            Act::Silence => self.silent.lock().unwrap().push(reply),
        }
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(EPOCH_MS + 1)))
}

fn ids() -> Arc<Ids> {
    let flake = Snowflake::new(0, Timestamp::from_millis(0)).unwrap();
    Arc::new(Ids::new(clock(), flake, Timestamp::from_millis(i64::MAX)))
}

fn room() -> ConversationId {
    ConversationId::new(7).unwrap()
}

fn origin() -> Origin {
    Origin {
        principal: Principal::user(1),
        device: None,
    }
}

fn send() -> Send {
    let content = Content::trusted("{\"text\":\"x\"}");
    Send {
        origin: origin(),
        client_message_id: ClientMessageId::parse("k").unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: None,
        expected_last_seq: None,
    }
}

fn messages(bus: &Arc<ScriptedBus>) -> Messages {
    Messages::new(
        Arc::new(MemoryStore::new()),
        Arc::<ScriptedBus>::clone(bus),
        Arc::new(ManualClock::default()),
        120,
    )
}

fn conversations(bus: &Arc<ScriptedBus>, store: MemoryStore) -> Conversations {
    let store = Arc::new(store);
    let principals = Principals::new(Arc::<MemoryStore>::clone(&store), ids(), clock(), true);
    Conversations::new(store, Arc::<ScriptedBus>::clone(bus), ids(), Arc::new(principals))
}

fn refused() -> Act {
    Act::Answer(Err(CommandError::Refused(DomainError::NotAMember)))
}

#[tokio::test]
async fn a_send_whose_writer_dies_is_asked_again_with_the_same_key() {
    let bus = ScriptedBus::new([Act::Die, Act::Die, refused()]);
    let error = messages(&bus).send(room(), send()).await.unwrap_err();
    assert_eq!(error.code, Code::NotAMember, "the third writer has answered");
    let asked = bus.asked.lock().unwrap();
    let same = |command: &Command| matches!(command, Command::Send(again) if again.client_message_id == send().client_message_id);
    assert!(asked.len() == 3 && asked.iter().all(same));
}

#[tokio::test]
async fn a_send_whose_writers_all_die_is_unknown_and_may_be_tried_again() {
    let bus = ScriptedBus::new([Act::Die, Act::Die, Act::Die]);
    let error = messages(&bus).send(room(), send()).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.detail.contains("same client_message_id") && error.extra.retry_after_ms.is_some());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_writer_for_ever() {
    let bus = ScriptedBus::new([Act::Silence]);
    let started = tokio::time::Instant::now();
    let error = messages(&bus).send(room(), send()).await.unwrap_err();
    assert_eq!((error.code, started.elapsed()), (Code::Unavailable, REPLY_TIMEOUT));
    assert_eq!(
        bus.asked(),
        1,
        "it may still be carried out, so it is the client who asks again"
    );
}

#[tokio::test]
async fn what_has_no_key_is_not_asked_twice() {
    let bus = ScriptedBus::new([Act::Die, Act::Die]);
    let conversations = conversations(&bus, MemoryStore::new());
    let error = conversations
        .remove_member(origin(), room(), Principal::user(2))
        .await
        .unwrap_err();
    assert_eq!((error.code, bus.asked()), (Code::Unavailable, 1));
    let group = NewConversation::Group {
        title: "x".to_owned(),
        members: Vec::new(),
        client_request_id: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    };
    let error = conversations.create(origin(), group).await.unwrap_err();
    assert_eq!((error.code, bus.asked()), (Code::Unavailable, 2));
    assert!(
        !error.detail.contains("client_message_id"),
        "there is none: {}",
        error.detail
    );
}

#[tokio::test]
async fn the_words_of_a_writer_become_codes() {
    let last_seq = Seq::new(9);
    for (error, code) in [
        (CommandError::Overloaded, Code::Overloaded),
        (CommandError::Unavailable, Code::Unavailable),
        (DomainError::Closed.into(), Code::ConversationClosed),
        (
            DomainError::PreconditionFailed { last_seq }.into(),
            Code::PreconditionFailed,
        ),
        (
            DomainError::ClockMovedBackwards { by_ms: 6 }.into(),
            Code::ClockMovedBackwards,
        ),
    ] {
        let bus = ScriptedBus::new([Act::Answer(Err(error))]);
        let error = messages(&bus).send(room(), send()).await.unwrap_err();
        assert_eq!(error.code, code);
        assert_eq!(error.extra.retry_after_ms.is_some(), code.retryable());
        assert_eq!(
            error.extra.last_seq,
            (code == Code::PreconditionFailed).then_some(last_seq)
        );
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_is_an_internal_error_without_inside_words() {
    let original = MessageId::new(5).unwrap();
    let bus = ScriptedBus::new([
        Act::Answer(Ok(Outcome::Created)),
        Act::Answer(Err(DomainError::KeyReused { original }.into())),
    ]);
    let messages = messages(&bus);
    for _ in 0..2 {
        let error = messages.send(room(), send()).await.unwrap_err();
        assert_eq!(error.code, Code::Internal);
        assert!(
            !error.detail.contains("Created") && !error.detail.contains('5'),
            "{}",
            error.detail
        );
    }
}

/// Counts what is asked of a store.
struct Counting {
    store: MemoryStore,
    provisioned: AtomicUsize,
    looked_up: AtomicUsize,
    profiles: AtomicUsize,
}

impl Counting {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(),
            provisioned: AtomicUsize::new(0),
            looked_up: AtomicUsize::new(0),
            profiles: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl PrincipalStore for Counting {
    async fn provision(&self, principals: &[Principal], now: Timestamp) -> StoreResult<()> {
        assert!(
            principals.windows(2).all(|pair| pair[0] < pair[1]),
            "in order, each once: {principals:?}"
        );
        self.provisioned.fetch_add(1, Ordering::SeqCst);
        self.store.provision(principals, now).await
    }

    async fn known(&self, principals: &[Principal]) -> StoreResult<Vec<Principal>> {
        self.store.known(principals).await
    }

    async fn by_external_id(&self, kind: PrincipalType, external_id: &ExternalId) -> StoreResult<Option<Principal>> {
        self.looked_up.fetch_add(1, Ordering::SeqCst);
        // Others run between the look-up and the adoption.
        let found = self.store.by_external_id(kind, external_id).await;
        tokio::task::yield_now().await;
        found
    }

    async fn adopt_external_id(
        &self,
        principal: Principal,
        external_id: &ExternalId,
        now: Timestamp,
    ) -> StoreResult<Principal> {
        self.store.adopt_external_id(principal, external_id, now).await
    }

    async fn profile(&self, principal: Principal) -> StoreResult<Option<Profile>> {
        self.profiles.fetch_add(1, Ordering::SeqCst);
        let found = self.store.profile(principal).await;
        tokio::task::yield_now().await;
        found
    }

    async fn update_profile(&self, principal: Principal, patch: &ProfilePatch, now: Timestamp) -> StoreResult<bool> {
        self.store.update_profile(principal, patch, now).await
    }

    async fn share_conversation(&self, one: Principal, other: Principal) -> StoreResult<bool> {
        self.store.share_conversation(one, other).await
    }
}

fn user(name: &str) -> Subject {
    Subject {
        kind: PrincipalType::User,
        name: Name::parse(name).unwrap(),
    }
}

#[tokio::test]
async fn a_principal_is_made_at_first_sight_and_remembered() {
    let store = Counting::new();
    let principals = Principals::new(Arc::<Counting>::clone(&store), ids(), clock(), true);
    for _ in 0..3 {
        assert_eq!(principals.resolve(&user("7")).await.unwrap(), Principal::user(7));
    }
    assert_eq!(store.provisioned.load(Ordering::SeqCst), 1);
    assert_eq!(store.profiles.load(Ordering::SeqCst), 1, "its status is read once");
    let named = [user("9"), user("7"), user("8"), user("9")];
    let found = principals.resolve_named(&named).await.unwrap();
    assert_eq!(found, [Principal::user(9), Principal::user(7), Principal::user(8)]);
    assert_eq!(store.provisioned.load(Ordering::SeqCst), 2, "all that are new at once");
}

#[tokio::test]
async fn a_hundred_who_bring_an_external_id_at_once_are_one_principal() {
    let store = Counting::new();
    let principals = Principals::new(Arc::<Counting>::clone(&store), ids(), clock(), true);
    let ann = user("ann@example.org");
    let found = join_all((0..100).map(|_| principals.resolve(&ann))).await;
    let first = found[0].clone().unwrap();
    assert!(found.iter().all(|one| one.as_ref().unwrap() == &first));
    let looked_up = store.looked_up.load(Ordering::SeqCst);
    assert_eq!(principals.resolve(&ann).await.unwrap(), first);
    assert_eq!(store.looked_up.load(Ordering::SeqCst), looked_up, "remembered");
    assert_eq!(store.store.known(&[first]).await.unwrap(), [first], "has a row");
}

#[tokio::test]
async fn without_auto_provisioning_only_the_known_are_let_in() {
    let store = Counting::new();
    let principals = Principals::new(Arc::<Counting>::clone(&store), ids(), clock(), false);
    for stranger in [user("7"), user("ann")] {
        let error = principals.resolve(&stranger).await.unwrap_err();
        assert_eq!(error.code, Code::Unauthenticated);
        let error = principals.resolve_named(&[stranger]).await.unwrap_err();
        assert_eq!(error.code, Code::NotFound);
    }
    let now = Timestamp::from_millis(0);
    store.store.provision(&[Principal::user(7)], now).await.unwrap();
    assert_eq!(
        principals.resolve(&user("7")).await.unwrap(),
        Principal::user(7),
        "a no is not remembered"
    );
    assert_eq!(store.provisioned.load(Ordering::SeqCst), 0);
}

fn status(status: PrincipalStatus) -> ProfilePatch {
    ProfilePatch {
        status: Some(status),
        ..ProfilePatch::default()
    }
}

#[tokio::test]
async fn b114_a_disabled_principal_is_turned_away_at_once_and_may_come_back() {
    let store = Counting::new();
    let principals = Arc::new(Principals::new(Arc::<Counting>::clone(&store), ids(), clock(), true));
    let sent_away = Arc::new(Mutex::new(Vec::new()));
    let (told, shared) = (Arc::clone(&sent_away), Arc::new(store.store.clone()));
    let users = Users::new(
        shared,
        clock(),
        Arc::clone(&principals),
        Box::new(move |principal| told.lock().unwrap().push(principal)),
    );
    let seven = principals.resolve(&user("7")).await.unwrap();
    users.update(seven, &status(PrincipalStatus::Disabled)).await.unwrap();
    let error = principals.resolve(&user("7")).await.unwrap_err();
    assert_eq!(error.code, Code::Unauthenticated);
    assert_eq!(*sent_away.lock().unwrap(), [seven]);
    assert_eq!(
        principals.resolve_named(&[user("7")]).await.unwrap(),
        [seven],
        "may still be named"
    );
    users.update(seven, &status(PrincipalStatus::Active)).await.unwrap();
    principals.resolve(&user("7")).await.unwrap();
    assert_eq!(store.profiles.load(Ordering::SeqCst), 1, "no request reads it again");
}

#[tokio::test]
async fn a_status_that_was_read_before_it_changed_does_not_outlive_the_change() {
    let store = Counting::new();
    let principals = Arc::new(Principals::new(Arc::<Counting>::clone(&store), ids(), clock(), true));
    let users = Users::new(
        Arc::new(store.store.clone()),
        clock(),
        Arc::clone(&principals),
        Box::new(|_| {}),
    );
    store
        .store
        .provision(&[Principal::user(7)], Timestamp::from_millis(0))
        .await
        .unwrap();
    // The first reads ACTIVE and waits; meanwhile the principal is disabled.
    let (seven, disabled) = (user("7"), status(PrincipalStatus::Disabled));
    let (slow, done) = tokio::join!(principals.resolve(&seven), users.update(Principal::user(7), &disabled));
    done.unwrap();
    assert_eq!(slow.unwrap_err().code, Code::Unauthenticated);
    assert!(principals.admit(Principal::user(7)).await.is_err());
}

#[derive(Default)]
struct Down(AtomicBool);

impl Faults for Down {
    fn on_commit(&self, _: &Commit) -> Fault {
        Fault::None
    }

    fn is_down(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_unavailable_and_its_words_stay_inside() {
    let down = Arc::new(Down::default());
    let store = MemoryStore::with_faults(Arc::<Down>::clone(&down));
    let health = Health::new(Arc::new(store.clone()));
    health.ready().await.unwrap();
    down.0.store(true, Ordering::SeqCst);
    assert_eq!(health.ready().await.unwrap_err().code, Code::Unavailable);
    let bus = ScriptedBus::new([]);
    let error = conversations(&bus, store)
        .get(Principal::user(1), room())
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(!error.detail.contains("simulated"), "{}", error.detail);
}

#[tokio::test]
async fn b18_a_server_that_is_draining_is_not_ready() {
    let health = Health::new(Arc::new(MemoryStore::new()));
    health.ready().await.unwrap();
    health.begin_draining();
    assert_eq!(health.ready().await.unwrap_err().code, Code::Unavailable);
}

#[tokio::test]
async fn more_acknowledgements_than_allowed_are_refused() {
    let devices = Devices::new(Arc::new(MemoryStore::new()), clock(), 2);
    let device = DeviceId::parse("phone").unwrap();
    let ack = DeviceCursor {
        conversation_id: room(),
        seq: Seq::new(1),
        change_seq: crate::domain::ChangeSeq::ZERO,
    };
    devices
        .acknowledge(Principal::user(1), &device, &[ack; 2])
        .await
        .unwrap();
    let error = devices
        .acknowledge(Principal::user(1), &device, &[ack; 3])
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::InvalidRequest);
}
