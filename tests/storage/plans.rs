//! What the statements of the write path read, by the database's own count: a plan that was made on empty tables stays
//! while they grow.

use std::sync::Arc;

use onescribe::domain::{FileId, Principal};
use onescribe::storage::Store;
use onescribe::storage::sql::{OpenOptions, migrate, open};

use super::builder::{Held, send};
use super::database::TestDatabase;
use super::raw::{execute, select};

const ANNA: Principal = Principal::user(1);
/// The conversations of one sender.
const CONVERSATIONS: usize = 60;
/// Rows of `im_member` that one send may read: its sender's, and some day an older version of it.
const ROWS_MAX: usize = 2;
/// The messages that refer to one file, and how often it is asked who may read it.
const REFERENCES: usize = 20_000;
const ASKED: usize = 20;

/// A store with one connection for reads, whose plans are made once, and never again when the tables have grown.
async fn with_old_plans(tables: &[&str]) -> Option<(TestDatabase, Arc<dyn Store>)> {
    let database = TestDatabase::postgres().await?;
    let (_, name) = database.url.rsplit_once('/').expect("the name of a database");
    migrate(&database.url).await.unwrap();
    let generic = format!("ALTER DATABASE {name} SET plan_cache_mode = force_generic_plan");
    execute(&database.url, &generic).await;
    for table in tables {
        // Fresh statistics would bring a new plan.
        let setting = format!("ALTER TABLE {table} SET (autovacuum_enabled = FALSE)");
        execute(&database.url, &setting).await;
    }
    let one = OpenOptions {
        connections: 1,
        ..OpenOptions::default()
    };
    let store = open(&database.url, one).await.unwrap();
    Some((database, store))
}

/// Rows of a table that were read so far, by index or not, and how many by which.
async fn rows_read(database: &TestDatabase, table: &str) -> (usize, Vec<Vec<String>>) {
    let counts = format!(
        "SELECT indexrelname::text, idx_tup_read::text FROM pg_stat_user_indexes WHERE relname = '{table}'
         UNION ALL SELECT 'none', seq_tup_read::text FROM pg_stat_user_tables WHERE relname = '{table}'"
    );
    let read = select(&database.url, &counts, 2).await;
    let rows = read.iter().map(|row| row[1].parse::<usize>().unwrap()).sum();
    (rows, read)
}

/// The planner, which sees no difference on empty tables, takes either index: one by principal without the
/// conversation would lead every send through all conversations of its sender.
#[tokio::test]
async fn on_postgres_a_send_reads_one_member_however_many_conversations_its_sender_has() {
    let Some((database, store)) = with_old_plans(&["im_member"]).await else {
        return;
    };
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
    let (rows, read) = rows_read(&database, "im_member").await;
    let sends = 2 * CONVERSATIONS;
    assert!(rows >= sends, "the counts are not there yet: {read:?}");
    assert!(rows <= sends * ROWS_MAX, "{rows} rows read for {sends} sends: {read:?}");
}

/// A file that stands in thousands of messages of others, and one that stands nowhere.
#[tokio::test]
async fn on_postgres_who_may_read_a_file_costs_the_same_however_often_it_was_sent() {
    let Some((database, store)) = with_old_plans(&["im_member", "im_file_ref"]).await else {
        return;
    };
    let ben = Principal::user(2);
    let mut writer = store.writer();
    for _ in 0..CONVERSATIONS {
        Held::group(&mut *writer, ANNA, &[ben]).await;
    }
    drop(writer);
    let upload = "WITH blob AS (INSERT INTO im_blob (blob_id, object_key, size_bytes, created_at) VALUES (1, 'a', 1, 0)
                  RETURNING blob_id) INSERT INTO im_file (file_id, uploader_type, uploader_id, name, media_type, state,
                  blob_id, created_at) SELECT 1, 1, 1, 'a', 'a/a', 2, blob_id, 0 FROM blob";
    let refer = format!(
        "INSERT INTO im_file_ref (message_id, file_id, conversation_id, seq)
         SELECT n, 1, n % 100 + 1, n FROM generate_series(1, {REFERENCES}) n"
    );
    execute(&database.url, upload).await;
    // As if it were sent once, so that the plans are of that time.
    assert!(
        store
            .shared_with(&[FileId::new(1).unwrap()], ben)
            .await
            .unwrap()
            .is_empty()
    );
    execute(&database.url, &refer).await;
    for _ in 0..ASKED {
        let shared = store.shared_with(&[FileId::new(1).unwrap()], ben).await.unwrap();
        assert!(shared.is_empty());
    }
    // A session that ends has told what it read.
    store.close().await;
    let (references, read) = rows_read(&database, "im_file_ref").await;
    assert!(references >= ASKED, "the counts are not there yet: {read:?}");
    assert!(
        references <= ASKED * 2 * CONVERSATIONS,
        "{references} references read: {read:?}"
    );
    let (members, read) = rows_read(&database, "im_member").await;
    assert!(members <= ASKED * 4 * CONVERSATIONS, "{members} members read: {read:?}");
}
