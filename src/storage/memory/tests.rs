//! What the faults do; the store itself is held to the contract in `tests/storage`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::domain::{
    Adding, Batch, Command, Context, ConversationId, Create, Draft, Facts, HistoryVisibility, Kind, MessageId, Origin,
    Posting, Principal, Timestamp,
};
use crate::storage::{ConversationStore as _, SettingStore as _};

const ROOM: ConversationId = ConversationId::new(7).unwrap();

/// One fault per commit, then none.
struct Script {
    faults: Mutex<VecDeque<Fault>>,
    down: AtomicBool,
}

impl Faults for Script {
    fn on_commit(&self, _: &Commit) -> Fault {
        self.faults.lock().unwrap().pop_front().unwrap_or(Fault::None)
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }
}

fn store(faults: &[Fault]) -> (MemoryStore, Arc<Script>) {
    let script = Arc::new(Script {
        faults: Mutex::new(faults.iter().copied().collect()),
        down: AtomicBool::new(false),
    });
    (MemoryStore::with_faults(Arc::<Script>::clone(&script)), script)
}

fn creation() -> Commit {
    let create = Command::Create(Create {
        origin: Origin {
            principal: Principal::user(1),
            device: None,
        },
        kind: Kind::Group,
        title: Some("room".to_owned()),
        members: vec![Principal::user(2)],
        creation_key: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::All,
    });
    let mut draft = Draft::new(ROOM, None);
    let mut next_id = || Ok(MessageId::new(1).unwrap());
    let mut context = Context {
        now: Timestamp::from_millis(1),
        next_id: &mut next_id,
        facts: &Facts::default(),
    };
    draft.decide(&create, &mut context).unwrap();
    let Batch {
        events,
        header,
        head,
        member_count,
    } = draft.finish().unwrap();
    Commit {
        conversation_id: ROOM,
        expected: None,
        events,
        header,
        head,
        member_count,
    }
}

/// The answer to one commit, and whether it is stored then.
async fn commit(store: &MemoryStore) -> (CommitResult, bool) {
    let result = store.writer().commit(&[creation()]).await.remove(0);
    (result, is_stored(store).await)
}

async fn is_stored(store: &MemoryStore) -> bool {
    store.observer().load(ROOM).await.unwrap().is_some()
}

#[tokio::test]
async fn each_fault_stores_and_answers_what_its_name_says() {
    for (fault, expected) in [
        (Fault::None, (Ok(()), true)),
        (Fault::FailBefore, (Err(CommitError::Failed), false)),
        (Fault::UnknownStored, (Err(CommitError::Unknown), true)),
        (Fault::UnknownNotStored, (Err(CommitError::Unknown), false)),
        (Fault::UnknownStoredLater(3), (Err(CommitError::Unknown), false)),
    ] {
        let (store, _) = store(&[fault]);
        assert_eq!(commit(&store).await, expected, "{fault:?}");
    }
}

#[tokio::test]
async fn a_late_commit_lands_after_so_many_calls_and_not_by_being_watched() {
    let (store, _) = store(&[Fault::UnknownStoredLater(2)]);
    commit(&store).await.0.unwrap_err();
    for _ in 0..5 {
        assert!(!is_stored(&store).await);
    }
    store.ping().await.unwrap();
    assert!(!is_stored(&store).await);
    store.ping().await.unwrap();
    assert!(is_stored(&store).await);
}

#[tokio::test]
async fn a_late_commit_whose_counters_have_moved_is_dropped() {
    let (store, _) = store(&[Fault::UnknownStoredLater(100)]);
    commit(&store).await.0.unwrap_err();
    assert_eq!(commit(&store).await, (Ok(()), true));
    store.land_all();
    let members = store.members(ROOM, None, 10).await.unwrap();
    assert_eq!(members.len(), 2);
}

#[tokio::test]
async fn a_database_that_is_down_answers_no_read() {
    let (store, script) = store(&[]);
    script.down.store(true, Ordering::SeqCst);
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
    script.down.store(false, Ordering::SeqCst);
    store.ping().await.unwrap();
}
