//! INV-COST-1: what a send, a read, a list and a sync cost the database, by its own count of rows, is the same in a group
//! of 3 as in one of 100, and after 20 messages as after 400.

use std::sync::Arc;

use futures_util::future::join_all;
use onescribe::clock::ManualClock;
use onescribe::domain::{
    Adding, ChangeSeq, ClientMessageId, Content, ConversationId, DeviceId, HistoryVisibility, MessageType,
    NewConversation, Posting, Send, Seq, chain,
};
use onescribe::service::{DeviceCursor, SyncQuery};
use onescribe::storage::sql::{OpenOptions, open};
use sqlx::{Connection as _, PgConnection};

use super::database::TestDatabase;
use super::stack::{self, Stack, origin, principal, subject};

/// Groups of the user whose list is read.
const GROUPS: usize = 5;
/// Acts of each kind that are counted.
const ACTS: usize = 20;
/// The large world may cost so many rows more for an act: a page of an index that was split.
const ROWS_MORE: usize = 1;
/// Users of the model are counted from 0: the sender, and the reader.
const SENDER: usize = 0;
const READER: usize = 1;

#[derive(Clone, Copy, Debug)]
enum Act {
    Send,
    Read,
    List,
    Sync,
}

/// A store with groups of one size.
struct World {
    database: TestDatabase,
    clock: Arc<ManualClock>,
    groups: Vec<ConversationId>,
    messages: usize,
}

fn send(number: usize) -> Send {
    let content = Content::trusted("{\"text\":\"hello\"}");
    Send {
        origin: origin(SENDER, "d"),
        client_message_id: ClientMessageId::parse(&format!("k{number}")).unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: None,
        expected_last_seq: None,
    }
}

impl World {
    /// `None` where there is no PostgreSQL: it alone counts rows in every process.
    async fn new(members: usize, messages: usize) -> Option<Self> {
        let database = TestDatabase::postgres().await?;
        let mut world = Self {
            database,
            clock: stack::clock(),
            groups: Vec::new(),
            messages,
        };
        let (_, name) = world.database.url.rsplit_once('/').unwrap();
        // A small table is read as a whole, whatever could be looked up in it.
        world
            .tell(&format!("ALTER DATABASE {name} SET enable_seqscan = off"))
            .await;
        let store = open(&world.database.url, OpenOptions::default()).await.unwrap();
        let stack = Stack::start(&store, &world.clock).await;
        for _ in 0..GROUPS {
            let new = NewConversation::Group {
                title: "room".to_owned(),
                members: (0..members).map(subject).collect(),
                client_request_id: None,
                history_visibility: HistoryVisibility::Shared,
                posting: Posting::All,
                adding: Adding::All,
            };
            let made = stack.conversations.create(origin(SENDER, "d"), new).await.unwrap();
            let id = made.seen.header.conversation_id;
            join_all((0..messages).map(|n| stack.messages.send(id, send(n)))).await;
            world.groups.push(id);
        }
        store.close().await;
        Some(world)
    }

    async fn tell(&self, statement: &str) {
        let mut connection = PgConnection::connect(&self.database.url).await.unwrap();
        let mut query = sqlx::QueryBuilder::<sqlx::Postgres>::new(statement);
        query.build().execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Rows read and written so far. A session tells what it did when it ends, so all others are ended.
    async fn rows(&self) -> usize {
        let mut connection = PgConnection::connect(&self.database.url).await.unwrap();
        let others = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
        while sqlx::query_scalar::<_, i64>(others)
            .fetch_one(&mut connection)
            .await
            .unwrap()
            > 0
        {
            tokio::task::yield_now().await;
        }
        let rows: i64 = sqlx::query_scalar(
            "SELECT ((SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes)
             + (SELECT SUM(seq_tup_read + n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables))::BIGINT",
        )
        .fetch_one(&mut connection)
        .await
        .unwrap();
        connection.close().await.unwrap();
        usize::try_from(rows).unwrap()
    }

    /// Rows of one run of a server that does so many acts.
    async fn run(&mut self, act: Act, acts: usize) -> usize {
        let before = self.rows().await;
        self.clock.advance(60_000);
        let store = open(&self.database.url, OpenOptions::default()).await.unwrap();
        let stack = Stack::start(&store, &self.clock).await;
        for n in 0..acts {
            let group = self.groups[n % GROUPS];
            match act {
                Act::Send => {
                    self.messages += 1;
                    stack
                        .messages
                        .send(group, send(1_000_000 + self.messages))
                        .await
                        .unwrap();
                }
                Act::Read => {
                    // Each moves the position.
                    let seq = Seq::new(i64::try_from(2 + n / GROUPS).unwrap());
                    stack.inbox.read(origin(READER, "d"), group, seq).await.unwrap();
                }
                Act::List => {
                    let list = stack.conversations.list(principal(READER), None, 20).await.unwrap();
                    assert!(list.items.len() >= GROUPS);
                }
                Act::Sync => {
                    let page = stack
                        .sync
                        .sync(principal(READER), self.behind_by_one(&stack).await)
                        .await
                        .unwrap();
                    assert_eq!(
                        page.entries.iter().map(|entry| entry.messages.len()).sum::<usize>(),
                        GROUPS
                    );
                }
            }
        }
        drop(stack);
        store.close().await;
        self.rows().await - before
    }

    async fn behind_by_one(&self, stack: &Stack) -> SyncQuery {
        let list = stack.conversations.list(principal(READER), None, 20).await.unwrap();
        let cursors = list.items.iter().map(|seen| DeviceCursor {
            conversation_id: seen.header.conversation_id,
            seq: Seq::new((seen.head.last_seq.get() - 1).max(0)),
            change_seq: ChangeSeq::new(seen.head.last_change_seq.get()),
        });
        SyncQuery {
            device: DeviceId::parse("d").unwrap(),
            store_epoch: None,
            cursors: Some(cursors.collect()),
            message_limit: 50,
            conversation_limit: 100,
            bytes_max: 1 << 20,
        }
    }

    /// Rows that [`ACTS`] further acts cost: what a start costs is taken off.
    async fn cost(&mut self, act: Act) -> usize {
        let few = self.run(act, ACTS).await;
        // The same positions are read again by the longer run, which moves nothing there.
        let base = if matches!(act, Act::Read) {
            self.run(act, ACTS).await
        } else {
            few
        };
        self.run(act, ACTS * 2).await.saturating_sub(base)
    }
}

#[test]
fn an_act_costs_the_same_in_a_large_group_with_a_long_history() {
    actix::System::new().block_on(async {
        let Some(mut small) = World::new(3, 20).await else {
            return;
        };
        let mut large = World::new(100, 400).await.unwrap();
        for act in [Act::Send, Act::List, Act::Sync, Act::Read] {
            let (one, other) = (small.cost(act).await, large.cost(act).await);
            println!("{act:?}: {one} rows for {ACTS} acts in the small world, {other} in the large one");
            assert!(
                one > 0 && other <= one + ACTS * ROWS_MORE,
                "{act:?}: {one} rows, and {other} in the large world"
            );
        }
    });
}
