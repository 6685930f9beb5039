//! What the statements of the write path read, by the database's own count: a plan that was made on empty tables stays
//! while they grow.

use onescribe::domain::Principal;
use onescribe::storage::sql::{OpenOptions, migrate, open};

use super::builder::{Held, send};
use super::database::TestDatabase;
use super::raw::{execute, select};

const ANNA: Principal = Principal::user(1);
/// The conversations of one sender.
const CONVERSATIONS: usize = 60;
/// Rows of `im_member` that one send may read: its sender's, and some day an older version of it.
const ROWS_MAX: usize = 2;

/// The planner, which sees no difference on empty tables, takes either index: one by principal without the
/// conversation would lead every send through all conversations of its sender.
#[tokio::test]
async fn on_postgres_a_send_reads_one_member_however_many_conversations_its_sender_has() {
    let Some(database) = TestDatabase::postgres().await else {
        return;
    };
    let (_, name) = database.url.rsplit_once('/').expect("the name of a database");
    migrate(&database.url).await.unwrap();
    for setting in [
        &format!("ALTER DATABASE {name} SET plan_cache_mode = force_generic_plan"),
        // Fresh statistics would bring a new plan.
        "ALTER TABLE im_member SET (autovacuum_enabled = FALSE)",
    ] {
        execute(&database.url, setting).await;
    }
    let one = OpenOptions {
        connections: 1,
        ..OpenOptions::default()
    };
    let store = open(&database.url, one).await.unwrap();
    let mut writer = store.writer();
    let mut all = Vec::new();
    for _ in 0..CONVERSATIONS {
        let mut held = Held::group(&mut *writer, ANNA, &[]).await;
        held.commit(&mut *writer, &[send(ANNA, "1", "x")]).await;
        all.push(held);
    }
    for held in &mut all {
        held.commit(&mut *writer, &[send(ANNA, "2", "x")]).await;
    }
    drop(writer);
    // A session that ends has told what it read.
    store.close().await;
    let counts = "SELECT indexrelname::text, idx_tup_read::text FROM pg_stat_user_indexes WHERE relname = 'im_member'
                  UNION ALL
                  SELECT 'none', seq_tup_read::text FROM pg_stat_user_tables WHERE relname = 'im_member'";
    let read = select(&database.url, counts, 2).await;
    let rows: usize = read.iter().map(|row| row[1].parse::<usize>().unwrap()).sum();
    let sends = 2 * CONVERSATIONS;
    assert!(rows >= sends, "the counts are not there yet: {read:?}");
    assert!(rows <= sends * ROWS_MAX, "{rows} rows read for {sends} sends: {read:?}");
}
