//! What the log of events, webhooks and pushes read does not grow with their tables: everything that the relay asks of a
//! store is asked beside many rows, with plans made on empty tables and with plans made on full ones, and the databases
//! tell what they have read (SQLite, which counts nothing, how it would read).

use std::collections::BTreeMap;
use std::time::Duration;

use onescribe::domain::{ConversationId, EventNo, MessageId, Principal, Seq, Timestamp, Touch, Webhook};
use onescribe::storage::sql::{OpenOptions, open};
use onescribe::storage::{Missable, PushPlacement, Store, Stretch};
use sqlx::{Connection, QueryBuilder, Row, Sqlite, SqliteConnection};

use super::builder::{Held, NOW, send};
use super::database::TestDatabase;
use super::events::{SINCE, plan};
use super::hooks::{delivery, holder, made};
use super::queries::Queries;
use super::raw::{execute, select};

const ANNA: Principal = Principal::user(1);
/// Rows of each table.
const ROWS: i64 = 20_000;
/// Messages and members of the one large conversation.
const LARGE: i64 = 5_000;
/// The ids of the many conversations, and of their messages, are so far apart.
const STEP: i64 = 1_000;
/// What is asked for at once, and how much of a table may be read for everything together.
const LIMIT: u32 = 20;
const READ_MAX: i64 = 4_000;
/// PostgreSQL plans a statement that it keeps five times for the values at hand, and then, if that looks as good, for all.
const TILL_PLANS_STAY: usize = 7;
/// As long as PostgreSQL has not looked at a full table (autovacuum does within a minute), it takes those of one webhook for
/// so few that it sorts them all.
const SORTED_TILL_ANALYZED: &str = "im_delivery";
/// Few rows, whatever happens.
const SMALL: [&str; 2] = ["im_event_log", "im_webhook"];
/// How SQLite may read a whole table: a few rows of it from one end, or a table that is small.
const SQLITE_MAY_SCAN: [&str; 2] = [
    "SELECT event_no, placed_at FROM im_event ORDER BY event_no LIMIT",
    "FROM im_webhook",
];
/// Between two looks whether the sessions of a store have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn at(offset: i64) -> Timestamp {
    Timestamp::from_millis(NOW + offset)
}

/// What everything is about.
struct Scene {
    room: ConversationId,
    message: MessageId,
    webhook: Webhook,
}

impl Scene {
    async fn new(store: &dyn Store) -> Self {
        let mut room = Held::group(&mut *store.writer(), ANNA, &[]).await;
        room.commit(&mut *store.writer(), &[send(ANNA, "a", "x")]).await;
        let message = store.messages_after(room.id, Seq::new(1), 1).await.unwrap().remove(0);
        room.touch(store, ANNA, message.message_id, Touch::Delete).await;
        made(store, "other").await;
        Self {
            room: room.id,
            message: message.message_id,
            webhook: made(store, "one").await,
        }
    }

    /// One of the many.
    fn nth(&self, n: i64) -> ConversationId {
        ConversationId::new(self.room.get() + n * STEP).unwrap()
    }

    /// Everything that the relay asks; what has to be placed is from the conversation `from` on.
    async fn ask(&self, store: &dyn Store, from: i64) {
        self.place(store, from).await;
        self.look_for_absent(store).await;
        self.deliver(store).await;
        store.forget_events(at(ROWS), LIMIT).await.unwrap();
        store.forget_deliveries(at(ROWS), LIMIT).await.unwrap();
        store.audited_events(EventNo::new(9_000), LIMIT).await.unwrap();
        store.audited_cursors(Some(self.nth(9_000)), LIMIT).await.unwrap();
    }

    async fn place(&self, store: &dyn Store, from: i64) {
        store.log_state().await.unwrap();
        store.wake_log(SINCE).await.unwrap();
        store.feed_asked(at(0)).await.unwrap();
        store.rest_log(at(0)).await.unwrap();
        let some: Vec<ConversationId> = (from..from + 10).map(|n| self.nth(n)).collect();
        // In the period of the rows, and in one that begins in the middle of the conversations.
        for since in [SINCE, at(2)] {
            store.lags_of(&some, since).await.unwrap();
            store.lags(Some(self.nth(from)), LIMIT, since).await.unwrap();
        }
        let lags = store
            .lags_of(&[some.as_slice(), &[self.room]].concat(), SINCE)
            .await
            .unwrap();
        store.unplaced(&lags, LIMIT).await.unwrap();
        let placements = plan(store, &some, Some(at(0))).await;
        store.placer().place(&placements, &[], at(ROWS)).await.unwrap();
        store.oldest_event().await.unwrap();
        let events = store.events_after(EventNo::new(9_000), LIMIT).await.unwrap();
        let messages: Vec<MessageId> = events.iter().filter_map(|event| event.notice.message_id).collect();
        store.messages_of(&messages).await.unwrap();
        let stretches: Vec<Stretch> = lags
            .iter()
            .map(|lag| Stretch {
                conversation_id: lag.conversation_id,
                after: lag.from.1,
                up_to: lag.head.1,
            })
            .collect();
        store.log(&stretches, Principal::SYSTEM).await.unwrap();
    }

    async fn look_for_absent(&self, store: &dyn Store) {
        let due = store.pushes_due(at(ROWS), LIMIT).await.unwrap();
        let looked: Vec<PushPlacement> = due
            .iter()
            .map(|due| PushPlacement {
                due: *due,
                notices: Vec::new(),
                told: due.last,
                again_at: at(0),
            })
            .collect();
        store.placer().place(&[], &looked, at(ROWS)).await.unwrap();
        let range = (Seq::new(LARGE / 2), Seq::new(LARGE));
        store.missable(self.room, range, at(ROWS)).await.unwrap();
        let message = Missable {
            seq: Seq::new(2),
            message_id: self.message,
        };
        for after in [None, Some(Principal::user(LARGE)), Some(Principal::user(2 * LARGE))] {
            store.absent(self.room, message, after, LIMIT).await.unwrap();
        }
        let some: Vec<Principal> = (100..120).map(|n| Principal::user(ROWS + n)).collect();
        store.unread_totals(&some).await.unwrap();
    }

    async fn deliver(&self, store: &dyn Store) {
        let (id, name) = (self.webhook.webhook_id, &self.webhook.name);
        let me = holder(&self.webhook, "me");
        store.webhooks().await.unwrap();
        let now = store.webhook(name).await.unwrap().unwrap();
        assert!(store.lease_webhook(me, at(0), at(1)).await.unwrap());
        let new: Vec<_> = (9_000..9_020).map(|event_no| delivery(event_no, 1)).collect();
        assert!(store.hand_over(me, &now, &new, EventNo::new(9_020)).await.unwrap());
        let pending = store
            .pending(id, EventNo::new(9_000), EventNo::new(12_000), LIMIT)
            .await
            .unwrap();
        let first: Vec<EventNo> = pending.iter().map(|delivery| delivery.event_no).collect();
        store.delivered(me, &first[1..], at(0)).await.unwrap();
        store.failed(me, &pending[0]).await.unwrap();
        for state in [None, Some(pending[0].state)] {
            let before = Some(EventNo::new(12_000));
            store.deliveries(id, state, before, LIMIT).await.unwrap();
        }
        assert!(store.redeliver(id, first[0], at(0)).await.unwrap());
        store.replay_webhook(id, EventNo::new(8_000)).await.unwrap();
        store.release_webhook(me).await.unwrap();
    }
}

/// `FROM` that: the numbers from 1 on.
fn series(url: &str, last: i64) -> String {
    match url.split_once(':').unwrap().0 {
        "postgres" => format!("generate_series(1, {last}) AS s(g)"),
        "mysql" => format!("(SELECT seq AS g FROM seq_1_to_{last}) AS s"),
        _ => format!(
            "(WITH RECURSIVE n(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM n WHERE g < {last}) SELECT g FROM n) AS s"
        ),
    }
}

/// Many conversations like the scene's, and many messages and members in that one.
fn copies(scene: &Scene, many: &str, near: &str) -> [String; 6] {
    let of_room = format!("conversation_id = {}", scene.room);
    let copy = |table: &str, columns: &str, values: &str, series: &str, which: &str| {
        format!("INSERT INTO {table} ({columns}) SELECT {values} FROM {table} CROSS JOIN {series} WHERE {which}")
    };
    let far = |columns: &str| {
        let moved = |column: &str| match column {
            "conversation_id" | "message_id" => format!("{column} + g * {STEP}"),
            "principal_id" => format!("{ROWS} + g"),
            same => same.to_owned(),
        };
        columns.split(", ").map(moved).collect::<Vec<_>>().join(", ")
    };
    let conversation = "conversation_id, kind, title, owner_type, owner_id, history_visibility, posting, adding, status, \
                        created_at, updated_at, last_seq, last_change_seq, last_count_no, chain_hash, last_message_seq, \
                        last_activity_at, member_count";
    let message = "message_id, conversation_id, seq, sender_type, sender_id, message_type, content, status, sent_at, \
                   change_seq, count_no, content_hash, chain_hash";
    let change = "conversation_id, change_seq, change_type, message_id, actor_type, actor_id, changed_at";
    let member = "conversation_id, principal_type, principal_id, status, role, joined_seq, joined_at, cleared_seq, \
                  last_read_seq, last_read_count_no, cleared_count_no, marked_unread, muted, pinned";
    let later = message
        .replace("message_id,", &format!("message_id + {} + g,", (ROWS + 1) * STEP))
        .replace(" seq,", " seq + g,");
    let others = member.replace("principal_id", "1 + g").replace("last_read_seq", "0");
    [
        copy("im_conversation", conversation, &far(conversation), many, &of_room),
        copy("im_message", message, &far(message), many, &of_room),
        copy("im_message", message, &later, near, &format!("{of_room} AND seq = 2")),
        copy("im_change", change, &far(change), many, &of_room),
        copy("im_member", member, &far(member), many, &of_room),
        copy("im_member", member, &others, near, &of_room),
    ]
}

/// What the relay keeps of those.
fn kept(url: &str, scene: &Scene, many: &str) -> [String; 6] {
    let (room, message, id) = (scene.room, scene.message, scene.webhook.webhook_id.get());
    let (far_room, far_message) = (format!("{room} + g * {STEP}"), format!("{message} + g * {STEP}"));
    let plain = |table: &str, columns: &str, values: String| {
        format!("INSERT INTO {table} ({columns}) SELECT {values} FROM {many}")
    };
    [
        plain(
            "im_event_cursor",
            "conversation_id, seq, change_seq, active_since",
            format!("{far_room}, 1, 0, {NOW}"),
        ),
        plain(
            "im_push",
            "conversation_id, told_seq, last_seq, due_at",
            format!("{far_room}, 0, 1, {NOW} - g"),
        ),
        plain(
            "im_event",
            "event_no, notice_type, conversation_id, seq, message_id, placed_at",
            format!("g, 1, {far_room}, 1, {far_message}, {NOW}"),
        ),
        plain(
            "im_delivery",
            "webhook_id, event_no, conversation_id, state, attempts, next_attempt_at, created_at, finished_at",
            format!("{id}, g, {far_room}, 1 + g % 3, 0, 0, 0, {NOW}"),
        ),
        plain(
            "im_device_cursor",
            "principal_type, principal_id, conversation_id, device_id, seq, change_seq, updated_at",
            format!("1, g, {room}, {}, 1, 0, 0", text_bytes(url)),
        ),
        plain(
            "im_user_action",
            "principal_type, principal_id, action_type, message_id, conversation_id, seq, status, created_at, updated_at",
            format!("1, g, 1, {far_message}, {far_room}, 1, 1, 0, 0"),
        ),
    ]
}

/// Fills the tables.
async fn fill(url: &str, scene: &Scene) {
    let (many, near) = (series(url, ROWS), series(url, LARGE));
    execute(url, "DELETE FROM im_delivery").await;
    for statement in copies(scene, &many, &near).iter().chain(&kept(url, scene, &many)) {
        execute(url, statement).await;
    }
    for statement in [
        format!("UPDATE im_event_log SET newest = {ROWS}, active_since = {NOW}"),
        format!(
            "UPDATE im_conversation SET last_seq = {LARGE} WHERE conversation_id = {}",
            scene.room
        ),
    ] {
        execute(url, &statement).await;
    }
}

fn text_bytes(url: &str) -> &'static str {
    match url.split_once(':').unwrap().0 {
        "postgres" => "convert_to('phone', 'UTF8')",
        "mysql" => "CAST('phone' AS BINARY)",
        _ => "CAST('phone' AS BLOB)",
    }
}

/// Rows, and entries of indexes, that were read of each table so far, by all sessions but the `open` ones that go on.
async fn counts(url: &str, open: usize) -> BTreeMap<String, i64> {
    let statement = if url.starts_with("postgres") {
        // A session that ends has told what it read.
        let sessions = "SELECT COUNT(*)::text FROM pg_stat_activity WHERE datname = current_database()
                        AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        while select(url, sessions, 1).await[0][0].parse::<usize>().unwrap() > open {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        "SELECT t.relname::text, (COALESCE(t.seq_tup_read, 0) + COALESCE((SELECT SUM(i.idx_tup_read)
         FROM pg_stat_user_indexes i WHERE i.relid = t.relid), 0))::bigint::text FROM pg_stat_user_tables t"
    } else {
        "SELECT CONVERT(TABLE_NAME USING utf8mb4), CAST(ROWS_READ AS CHAR(20)) FROM information_schema.TABLE_STATISTICS
         WHERE TABLE_SCHEMA = DATABASE()"
    };
    let rows = select(url, statement, 2).await;
    rows.into_iter()
        .map(|row| (row[0].clone(), row[1].parse().unwrap()))
        .collect()
}

/// What was read too much of.
fn judge(when: &str, before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> Vec<String> {
    let read: BTreeMap<&String, i64> = after
        .iter()
        .map(|(table, count)| (table, count - before.get(table).copied().unwrap_or_default()))
        .filter(|(table, count)| *count > 0 && !SMALL.contains(&table.as_str()))
        .collect();
    println!("{when}: {read:?}");
    let deliveries = read
        .iter()
        .find(|(table, _)| **table == "im_delivery")
        .map_or(0, |(_, count)| *count);
    assert!(
        deliveries >= i64::from(LIMIT),
        "{when}: the counts are not there yet: {read:?}"
    );
    let much = read.iter().filter(|(_, count)| **count > READ_MAX);
    much.map(|(table, count)| format!("{when} {count} rows of {table}"))
        .collect()
}

/// Asks everything three times: on tables that are as good as empty, once they are full, and by a new session when the
/// database has looked at them.
async fn ask_beside_many_rows(url: &str, analyze: &str) {
    let options = OpenOptions {
        connections: 1,
        ..OpenOptions::default()
    };
    let store = open(url, options).await.unwrap();
    let scene = Scene::new(&*store).await;
    for _ in 0..TILL_PLANS_STAY {
        scene.ask(&*store, 100).await;
    }
    fill(url, &scene).await;
    let filled = counts(url, 1).await;
    scene.ask(&*store, 100).await;
    store.close().await;
    let mut much = judge("with plans of empty tables", &filled, &counts(url, 0).await);
    much.retain(|one| !one.ends_with(SORTED_TILL_ANALYZED));
    execute(url, analyze).await;
    let analyzed = counts(url, 0).await;
    let store = open(url, options).await.unwrap();
    scene.ask(&*store, 200).await;
    store.close().await;
    much.extend(judge("with plans of full tables", &analyzed, &counts(url, 0).await));
    assert_eq!(much, Vec::<String>::new(), "there are {ROWS} rows and more");
}

#[tokio::test]
async fn on_postgres_the_relay_reads_a_few_rows_however_many_there_are() {
    let Some(database) = TestDatabase::postgres().await else {
        return;
    };
    ask_beside_many_rows(&database.url, "ANALYZE").await;
}

#[tokio::test]
async fn on_mysql_the_relay_reads_a_few_rows_however_many_there_are() {
    let Some(database) = TestDatabase::mysql().await else {
        return;
    };
    execute(&database.url, "SET GLOBAL userstat = 1").await;
    let tables = "im_conversation, im_message, im_change, im_member, im_event, im_event_cursor, im_push, im_delivery";
    ask_beside_many_rows(&database.url, &format!("ANALYZE TABLE {tables}")).await;
}

/// How SQLite reads for this statement, step by step.
async fn steps(connection: &mut SqliteConnection, statement: &str) -> Vec<String> {
    let mut explain = QueryBuilder::<Sqlite>::new("EXPLAIN QUERY PLAN ");
    explain.push(statement);
    let rows = explain.build().fetch_all(connection).await.unwrap();
    rows.iter().map(|row| row.get("detail")).collect()
}

#[tokio::test]
async fn on_sqlite_the_relay_scans_no_large_table() {
    let database = TestDatabase::sqlite();
    let queries = Queries::listen();
    let options = OpenOptions {
        connections: 1,
        log_statements: true,
        ..OpenOptions::default()
    };
    let store = open(&database.url, options).await.unwrap();
    let scene = Scene::new(&*store).await;
    fill(&database.url, &scene).await;
    queries.heard().await;
    queries.clear();
    scene.ask(&*store, 100).await;
    let mut asked: Vec<String> = queries.heard().await.into_iter().map(|query| query.text).collect();
    store.close().await;
    asked.sort_unstable();
    asked.dedup();
    let asked: Vec<String> = asked.into_iter().filter(|text| text.contains("im_")).collect();
    assert!(asked.len() > 30, "{asked:#?}");
    let mut connection = SqliteConnection::connect(&database.url).await.unwrap();
    for look in ["SELECT 1", "ANALYZE"] {
        QueryBuilder::<Sqlite>::new(look)
            .build()
            .execute(&mut connection)
            .await
            .unwrap();
        for statement in &asked {
            let may_scan = SQLITE_MAY_SCAN.iter().any(|part| statement.contains(part));
            let steps = steps(&mut connection, statement).await;
            let scans: Vec<_> = steps
                .iter()
                .filter(|step| step.starts_with("SCAN im_") || step.contains("AUTOMATIC"))
                .collect();
            assert!(may_scan || scans.is_empty(), "after {look}: {statement}\n{steps:#?}");
        }
    }
    connection.close().await.unwrap();
}
