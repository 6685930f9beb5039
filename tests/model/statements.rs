//! INV-COST-1, counted in statements: a send, a read, a list and a sync are the same few statements in a group of 3 as in
//! one of 100, and after 20 messages as after 400. A number that changes here is a decision, not an accident.

use std::collections::BTreeMap;

use onescribe::storage::sql::{OpenOptions, open};

use super::acts::{Act, Groups};
use super::database::TestDatabase;
use super::queries::Queries;
use super::saying::upload_all;
use super::stack::{self, Stack};

/// Acts of each kind that are counted.
const ACTS: usize = 20;

/// How many statements an act is on one database.
struct Expected {
    send: usize,
    file: usize,
    read: usize,
    list: usize,
    sync: usize,
}

/// A send: BEGIN, the head, the message, the sender's read position, COMMIT. A read asks for the membership, the INBOX, the
/// place and what is unread there, and commits. A sync asks for cursors, heads, messages and changes, and what it shows. A
/// send with a file asks for the file, and keeps one reference more.
const SQLITE: Expected = Expected {
    send: 5,
    file: 7,
    read: 10,
    list: 1,
    sync: 5,
};
/// A send is one statement, and so its own transaction.
const POSTGRES: Expected = Expected { send: 1, ..SQLITE };
const MYSQL: Expected = SQLITE;

async fn count(queries: &Queries, database: &TestDatabase, members: usize, messages: usize, expected: &Expected) {
    let options = OpenOptions {
        log_statements: true,
        ..OpenOptions::default()
    };
    let (store, clock) = (open(&database.url, options).await.unwrap(), stack::clock());
    upload_all(store.as_ref()).await;
    let stack = Stack::start(&store, &clock).await;
    let mut groups = Groups::new(&stack, members, messages).await;
    let behind = groups.behind_by_one(&stack).await;
    for (act, expected) in [
        (Act::List, expected.list),
        (Act::Sync, expected.sync),
        (Act::Read, expected.read),
        (Act::Send, expected.send),
        (Act::SendFile, expected.file),
    ] {
        // The first of each kind makes the INBOX, and loads what its writer goes on to know.
        for n in 0..super::acts::GROUPS {
            groups.act(&stack, act, n, &behind).await;
        }
        queries.heard().await;
        queries.clear();
        for n in super::acts::GROUPS..super::acts::GROUPS + ACTS {
            groups.act(&stack, act, n, &behind).await;
        }
        let seen = queries.heard().await;
        let (scheme, _) = database.url.split_once(':').unwrap();
        let mut tally: BTreeMap<&String, usize> = BTreeMap::new();
        for statement in &seen {
            *tally.entry(&statement.summary).or_default() += 1;
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
    let queries = Queries::listen();
    actix::System::new().block_on(async {
        for (members, messages) in [(3, 20), (100, 400)] {
            let database = TestDatabase::sqlite();
            count(&queries, &database, members, messages, &SQLITE).await;
            if let Some(database) = TestDatabase::postgres().await {
                count(&queries, &database, members, messages, &POSTGRES).await;
            }
            if let Some(database) = TestDatabase::mysql().await {
                count(&queries, &database, members, messages, &MYSQL).await;
            }
        }
    });
}
