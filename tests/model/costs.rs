//! INV-COST-1: what a send, a read, a list and a sync cost the database, by its own count of rows, is the same in a group
//! of 3 as in one of 100, and after 20 messages as after 400.

use std::sync::Arc;

use onescribe::clock::ManualClock;
use onescribe::storage::sql::{OpenOptions, open};
use sqlx::{Connection as _, PgConnection};

use super::acts::{Act, Groups};
use super::database::TestDatabase;
use super::stack::{self, Stack};

/// Acts of each kind that are counted.
const ACTS: usize = 20;
/// The large world may cost so many rows more for an act: a page of an index that was split.
const ROWS_MORE: usize = 1;

/// A store with groups of one size.
struct World {
    database: TestDatabase,
    clock: Arc<ManualClock>,
    groups: Groups,
}

impl World {
    /// `None` where there is no PostgreSQL: it alone counts rows in every process.
    async fn new(members: usize, messages: usize) -> Option<Self> {
        let (database, clock) = (TestDatabase::postgres().await?, stack::clock());
        let (_, name) = database.url.rsplit_once('/').unwrap();
        // A small table is read as a whole, whatever could be looked up in it.
        tell(&database, &format!("ALTER DATABASE {name} SET enable_seqscan = off")).await;
        let store = open(&database.url, OpenOptions::default()).await.unwrap();
        let groups = Groups::new(&Stack::start(&store, &clock).await, members, messages).await;
        store.close().await;
        Some(Self {
            database,
            clock,
            groups,
        })
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
        let behind = self.groups.behind_by_one(&stack).await;
        for n in 0..acts {
            self.groups.act(&stack, act, n, &behind).await;
        }
        drop(stack);
        store.close().await;
        self.rows().await - before
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

async fn tell(database: &TestDatabase, statement: &str) {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let mut query = sqlx::QueryBuilder::<sqlx::Postgres>::new(statement);
    query.build().execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
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
