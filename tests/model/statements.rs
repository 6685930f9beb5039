//! INV-COST-1, counted in statements: a send, a read, a list and a sync are the same few statements in a group of 3 as in
//! one of 100, and after 20 messages as after 400. A number that changes here is a decision, not an accident.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onescribe::storage::sql::{OpenOptions, open};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::acts::{Act, Groups};
use super::database::TestDatabase;
use super::stack::{self, Stack};

/// Acts of each kind that are counted.
const ACTS: usize = 20;
/// SQLite says that a statement has ended a little after its last row has come.
const AFTER_THE_LAST: Duration = Duration::from_millis(100);

/// How many statements an act is on one database.
struct Expected {
    send: usize,
    read: usize,
    list: usize,
    sync: usize,
}

/// A send: BEGIN, the head, the message, the sender's read position, COMMIT. A read asks for the membership, the INBOX, the
/// place and what is unread there, and commits. A sync asks for cursors, heads, messages and changes, and what it shows.
const SQLITE: Expected = Expected {
    send: 5,
    read: 10,
    list: 1,
    sync: 5,
};
/// A send is one statement, and so its own transaction.
const POSTGRES: Expected = Expected { send: 1, ..SQLITE };
const MYSQL: Expected = SQLITE;

/// Counts the statements of every store that was opened to tell of them.
#[derive(Clone, Default)]
struct Counter(Arc<Mutex<Vec<String>>>);

impl Counter {
    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    async fn statements(&self) -> Vec<String> {
        loop {
            let seen = self.0.lock().unwrap().clone();
            tokio::time::sleep(AFTER_THE_LAST).await;
            if seen.len() == self.0.lock().unwrap().len() {
                return seen;
            }
        }
    }
}

/// The first words of a statement.
struct Summary(String);

impl Visit for Summary {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "summary" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut summary = Summary(String::new());
        event.record(&mut summary);
        // What a new connection is told first is no part of an act.
        let first = summary.0.split(' ').next().unwrap_or_default().to_uppercase();
        if !["SET", "PRAGMA"].contains(&first.as_str()) {
            self.0.lock().unwrap().push(summary.0);
        }
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn count(counter: &Counter, database: &TestDatabase, members: usize, messages: usize, expected: &Expected) {
    let options = OpenOptions {
        log_statements: true,
        ..OpenOptions::default()
    };
    let (store, clock) = (open(&database.url, options).await.unwrap(), stack::clock());
    let stack = Stack::start(&store, &clock).await;
    let mut groups = Groups::new(&stack, members, messages).await;
    let behind = groups.behind_by_one(&stack).await;
    for (act, expected) in [
        (Act::List, expected.list),
        (Act::Sync, expected.sync),
        (Act::Read, expected.read),
        (Act::Send, expected.send),
    ] {
        // The first of each kind makes the INBOX, and loads what its writer goes on to know.
        for n in 0..super::acts::GROUPS {
            groups.act(&stack, act, n, &behind).await;
        }
        counter.statements().await;
        counter.clear();
        for n in super::acts::GROUPS..super::acts::GROUPS + ACTS {
            groups.act(&stack, act, n, &behind).await;
        }
        let seen = counter.statements().await;
        let (scheme, _) = database.url.split_once(':').unwrap();
        let mut tally: BTreeMap<&String, usize> = BTreeMap::new();
        for statement in &seen {
            *tally.entry(statement).or_default() += 1;
        }
        println!("{scheme}, {members} members: {act:?} {tally:?}");
        assert_eq!(
            seen.len(),
            ACTS * expected,
            "{scheme}, {members} members, {messages} messages: {act:?} is {expected} statements, {ACTS} are {tally:?}"
        );
    }
    store.close().await;
}

#[test]
fn an_act_is_the_same_statements_in_a_large_group_with_a_long_history() {
    let counter = Counter::default();
    tracing::subscriber::set_global_default(counter.clone()).expect("no other test listens");
    actix::System::new().block_on(async {
        for (members, messages) in [(3, 20), (100, 400)] {
            let database = TestDatabase::sqlite();
            count(&counter, &database, members, messages, &SQLITE).await;
            if let Some(database) = TestDatabase::postgres().await {
                count(&counter, &database, members, messages, &POSTGRES).await;
            }
            if let Some(database) = TestDatabase::mysql().await {
                count(&counter, &database, members, messages, &MYSQL).await;
            }
        }
    });
}
