//! Connections that break, go silent, or are given up, between the program and a database server.

use std::sync::Arc;
use std::time::Duration;

use onescribe::domain::{Principal, Seq};
use onescribe::storage::sql::{OpenOptions, open};
use onescribe::storage::{CommitError, PageQuery, Store};

use super::builder::{Held, commit_one, group, send};
use super::database::TestDatabase;
use super::proxy::{Cut, Flow, Proxy};
use super::raw::select;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);

/// One store goes through the proxy, the other does not.
struct Cable {
    database: TestDatabase,
    proxy: Proxy,
    through: Arc<dyn Store>,
    direct: Arc<dyn Store>,
}

impl Cable {
    async fn new(database: TestDatabase) -> Self {
        let proxy = Proxy::start(&database.address(), b"COMMIT").await;
        let address = ([127, 0, 0, 1], proxy.port()).into();
        let through = open(&database.through(address), OpenOptions::default()).await.unwrap();
        let direct = open(&database.url, OpenOptions::default()).await.unwrap();
        Self {
            database,
            proxy,
            through,
            direct,
        }
    }
}

async fn last_seq(store: &dyn Store, held: &Held) -> i64 {
    store.load(held.id).await.unwrap().unwrap().head.last_seq.get()
}

/// B06: the trap of the single writer.
async fn b06_a_connection_cut_right_after_the_commit_is_unknown(database: TestDatabase) {
    let cable = Cable::new(database).await;
    let mut writer = cable.through.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    // The proxy cuts where it sees this word. PostgreSQL stores plain sends by one statement, so the text has it.
    let is_postgres = cable.database.url.starts_with("postgres");
    let commit = held.decide(&[send(ANNA, "k", if is_postgres { "COMMIT" } else { "text" })]);
    cable.proxy.cut_commits([Cut::After]);
    assert_eq!(commit_one(&mut *writer, &commit).await, Err(CommitError::Unknown));
    assert_eq!(last_seq(&*cable.direct, &held).await, 2, "it is stored");
    held.apply(&commit);
    // The lane connects again by itself.
    held.commit(&mut *writer, &[send(ANNA, "next", "x")]).await;
    assert_eq!(last_seq(&*cable.direct, &held).await, 3);
}

/// The same for what needs a transaction of several statements.
async fn a_cut_at_the_commit_of_a_creation_is_unknown_wherever_it_is_cut(database: TestDatabase) {
    let cable = Cable::new(database).await;
    let mut writer = cable.through.writer();
    for (cut, is_stored) in [(Cut::After, true), (Cut::Before, false)] {
        let held = Held::new();
        cable.proxy.cut_commits([cut]);
        let commit = held.decide(&[group(ANNA, &[BEN])]);
        assert_eq!(
            commit_one(&mut *writer, &commit).await,
            Err(CommitError::Unknown),
            "{cut:?}"
        );
        assert_eq!(
            cable.direct.load(held.id).await.unwrap().is_some(),
            is_stored,
            "{cut:?}"
        );
        let again = commit_one(&mut *writer, &commit).await;
        assert_eq!(
            again,
            if is_stored { Err(CommitError::Exists) } else { Ok(()) },
            "{cut:?}"
        );
    }
}

async fn without_a_database_a_commit_fails_and_later_ones_succeed(database: TestDatabase) {
    let cable = Cable::new(database).await;
    let mut writer = cable.through.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    cable.proxy.set(Flow::Refusing);
    let commit = held.decide(&[send(ANNA, "k", "x")]);
    // The first finds a broken connection, the second finds none.
    let first = commit_one(&mut *writer, &commit).await;
    assert!(
        matches!(first, Err(CommitError::Unknown | CommitError::Failed)),
        "{first:?}"
    );
    assert_eq!(commit_one(&mut *writer, &commit).await, Err(CommitError::Failed));
    cable.proxy.set(Flow::Open);
    held.commit(&mut *writer, &[send(ANNA, "k", "x")]).await;
    assert_eq!(last_seq(&*cable.through, &held).await, 2);
}

async fn a_silent_database_is_given_up_within_a_bound(database: TestDatabase) {
    let cable = Cable::new(database).await;
    let mut writer = cable.through.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    cable.through.ping().await.unwrap();
    let commit = held.decide(&[send(ANNA, "k", "x")]);
    cable.proxy.set(Flow::Silent);
    // Nothing happens but time: it is passed at once.
    tokio::time::pause();
    let outcome = commit_one(&mut *writer, &commit).await;
    assert!(
        matches!(outcome, Err(CommitError::Unknown | CommitError::Failed)),
        "{outcome:?}"
    );
    assert!(cable.through.ping().await.is_err());
    tokio::time::resume();
    cable.proxy.set(Flow::Open);
    let stored = last_seq(&*cable.direct, &held).await;
    if stored == 2 {
        held.apply(&commit);
    }
    held.commit(&mut *writer, &[send(ANNA, "next", "x")]).await;
}

/// B19: sqlx can hand back a connection with an open transaction when `begin` is cancelled. We have none to cancel.
async fn b19_cancelled_requests_leave_no_transaction_open(database: TestDatabase) {
    let store = open(&database.url, OpenOptions::default()).await.unwrap();
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let query = PageQuery {
        conversation_id: held.id,
        viewer: ANNA,
        after: Seq::ZERO,
        before: None,
        oldest_first: true,
        limit: 50,
    };
    for round in 0..300_u64 {
        let patience = Duration::from_micros(round * 7);
        let given_up = tokio::time::timeout(patience, async {
            store.page(query).await.ok();
            store.setting_or(&format!("setting {round}"), "x").await.ok();
            store.load(query.conversation_id).await.ok();
        });
        given_up.await.ok();
    }
    let open_transactions = if database.url.starts_with("postgres") {
        "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    } else {
        "SELECT CAST(t.trx_id AS CHAR) FROM information_schema.innodb_trx t
         JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()
         AND p.command = 'Sleep'"
    };
    assert_eq!(
        select(&database.url, open_transactions, 1).await,
        Vec::<Vec<String>>::new()
    );
    held.commit(&mut *writer, &[send(ANNA, "k", "x")]).await;
    let other = open(&database.url, OpenOptions::default()).await.unwrap();
    assert_eq!(last_seq(&*other, &held).await, 2);
    for _ in 0..20 {
        assert_eq!(
            store.page(query).await.unwrap().len(),
            2,
            "every connection of the pool sees it"
        );
    }
    // More commands than connections at once, none cancelled: all are served.
    let all = (0..50).map(|_| store.page(query));
    assert!(futures_util::future::join_all(all).await.iter().all(Result::is_ok));
}

macro_rules! on_servers {
    ($($name:ident),+ $(,)?) => {
        mod postgres { $(
            #[tokio::test]
            async fn $name() {
                if let Some(database) = crate::database::TestDatabase::postgres().await {
                    super::$name(database).await;
                }
            }
        )+ }
        mod mysql { $(
            #[tokio::test]
            async fn $name() {
                if let Some(database) = crate::database::TestDatabase::mysql().await {
                    super::$name(database).await;
                }
            }
        )+ }
    };
}

on_servers!(
    b06_a_connection_cut_right_after_the_commit_is_unknown,
    a_cut_at_the_commit_of_a_creation_is_unknown_wherever_it_is_cut,
    without_a_database_a_commit_fails_and_later_ones_succeed,
    a_silent_database_is_given_up_within_a_bound,
    b19_cancelled_requests_leave_no_transaction_open,
);
