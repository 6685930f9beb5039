//! What is done to a database behind the store's back, and what the store says then.

use onescribe::domain::snowflake::time_of;
use onescribe::domain::{Command, Content, Principal, Seq, Timestamp, Touch};
use onescribe::storage::{PageQuery, StoreError};
use sqlx::{Connection, MySql, Postgres, QueryBuilder, Row, Sqlite};

use super::builder::{Held, NOW, origin, send, send_raw};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);

/// Runs a statement on a connection of its own.
pub(crate) async fn execute(url: &str, statement: &str) {
    select(url, statement, 0).await;
}

/// The rows of a query whose columns are all texts.
pub(crate) async fn select(url: &str, statement: &str, columns: usize) -> Vec<Vec<String>> {
    macro_rules! on {
        ($db:ty) => {{
            let mut connection = <$db as sqlx::Database>::Connection::connect(url).await.unwrap();
            let rows = QueryBuilder::<$db>::new(statement)
                .build()
                .fetch_all(&mut connection)
                .await
                .unwrap();
            connection.close().await.unwrap();
            rows.iter()
                .map(|row| (0..columns).map(|at| row.get::<String, _>(at)).collect())
                .collect()
        }};
    }
    match url.split_once("://").unwrap().0 {
        "postgres" => on!(Postgres),
        "mysql" => on!(MySql),
        _ => on!(Sqlite),
    }
}

fn url(fixture: &Fixture) -> &str {
    &fixture.database.as_ref().unwrap().url
}

async fn visible(fixture: &Fixture, held: &Held, viewer: Principal, limit: u32) -> Vec<i64> {
    let query = PageQuery {
        conversation_id: held.id,
        viewer,
        after: Seq::ZERO,
        before: None,
        oldest_first: false,
        limit,
    };
    fixture
        .store
        .page(query)
        .await
        .unwrap()
        .iter()
        .map(|item| item.message.seq.get())
        .collect()
}

pub(crate) async fn pages_leave_out_what_is_deleted_for_all_or_by_the_viewer(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let sends: Vec<_> = (2..=8).map(|n| send(ANNA, &format!("{n}"), "x")).collect();
    held.commit(&mut *writer, &sends).await;
    let messages = store.messages_after(held.id, Seq::ZERO, 10).await.unwrap();
    let (id, by_ben, not_any_more) = (held.id, messages[5].message_id, messages[6].message_id);
    execute(
        url(fixture),
        &format!("UPDATE im_message SET status = 4 WHERE conversation_id = {id} AND seq = 4"),
    )
    .await;
    for (message, status, action) in [(by_ben, 1, 1), (not_any_more, 2, 1), (messages[1].message_id, 1, 2)] {
        let insert = format!(
            "INSERT INTO im_user_action (principal_type, principal_id, action_type, message_id, conversation_id, seq,
             status, created_at, updated_at) VALUES (1, 2, {action}, {message}, {id}, 1, {status}, 0, 0)"
        );
        execute(url(fixture), &insert).await;
    }
    assert_eq!(visible(fixture, &held, ANNA, 10).await, [1, 2, 3, 5, 6, 7, 8]);
    assert_eq!(visible(fixture, &held, BEN, 10).await, [1, 2, 3, 5, 7, 8]);
    assert_eq!(
        visible(fixture, &held, BEN, 3).await,
        [5, 7, 8],
        "pages are filled all the same"
    );
    assert!(store.hidden(by_ben, BEN).await.unwrap());
    assert!(!store.hidden(by_ben, ANNA).await.unwrap() && !store.hidden(not_any_more, BEN).await.unwrap());
    assert!(store.quotable(id, by_ben, BEN).await.unwrap().unwrap().gone);
    assert!(
        store
            .quotable(id, messages[3].message_id, ANNA)
            .await
            .unwrap()
            .unwrap()
            .gone
    );
    assert!(!store.quotable(id, by_ben, ANNA).await.unwrap().unwrap().gone);
}

pub(crate) async fn a_page_is_filled_beyond_hundreds_that_the_viewer_has_deleted(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let sends: Vec<_> = (2..=300).map(|n| send(ANNA, &format!("{n}"), "x")).collect();
    held.commit(&mut *writer, &sends).await;
    let hide = format!(
        "INSERT INTO im_user_action (principal_type, principal_id, action_type, message_id, conversation_id, seq,
         status, created_at, updated_at) SELECT 1, 2, 1, message_id, conversation_id, seq, 1, 0, 0 FROM im_message
         WHERE conversation_id = {} AND seq > 5 AND seq < 297",
        held.id
    );
    execute(url(fixture), &hide).await;
    let pages = [
        (false, 0, Some(298)),
        (true, 3, None),
        (false, 0, None),
        (true, 296, None),
        (true, 0, Some(i64::MAX)),
    ];
    let mut found = Vec::new();
    for (oldest_first, after, before) in pages {
        let query = PageQuery {
            conversation_id: held.id,
            viewer: BEN,
            after: Seq::new(after),
            before: before.map(Seq::new),
            oldest_first,
            limit: 4,
        };
        let page = fixture.store.page(query).await.unwrap();
        found.push(page.iter().map(|item| item.message.seq.get()).collect::<Vec<_>>());
    }
    let expected = [
        [3, 4, 5, 297],
        [4, 5, 297, 298],
        [297, 298, 299, 300],
        [297, 298, 299, 300],
        [1, 2, 3, 4],
    ];
    assert_eq!(found, expected);
}

/// Principal type and id, with the seq, of every mention of a conversation.
async fn mentions(fixture: &Fixture, held: &Held) -> Vec<String> {
    let columns = "CAST(principal_type AS CHAR(20)), CAST(principal_id AS CHAR(20)), CAST(seq AS CHAR(20))";
    let order = "ORDER BY seq, principal_type, principal_id";
    let statement = format!(
        "SELECT {columns} FROM im_mention WHERE conversation_id = {} {order}",
        held.id
    );
    let rows = select(url(fixture), &statement, 3).await;
    let words = |row: Vec<String>| {
        row.iter()
            .map(|word| word.trim().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    rows.into_iter().map(words).collect()
}

pub(crate) async fn b63_mentions_are_rows_of_the_present_text(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let members: Vec<Principal> = (2..=300).map(Principal::user).chain([Principal::agent(2)]).collect();
    let mut held = Held::group(&mut *writer, ANNA, &members).await;
    let text = |ids: std::ops::RangeInclusive<i64>, all: bool| {
        let one = |id: i64| serde_json::json!({"user_id": id.to_string(), "offset": 0, "length": 1});
        let list: Vec<_> = ids.map(one).collect();
        serde_json::json!({"text": "@", "mentions": list, "mention_all": all}).to_string()
    };
    let agent = "{\"text\":\"@\",\"mentions\":[{\"agent_id\":\"2\",\"offset\":0,\"length\":1}]}";
    let sends = [
        send(ANNA, "2", "plain"),
        send_raw(ANNA, "3", &text(2..=2, false)),
        send_raw(ANNA, "4", agent),
        send_raw(ANNA, "5", &text(2..=2, true)),
    ];
    held.commit(&mut *writer, &sends).await;
    assert_eq!(mentions(fixture, &held).await, ["1 2 3", "2 2 4", "0 0 5"]);
    let messages = store.messages_after(held.id, Seq::new(2), 10).await.unwrap();
    let edit = |content: &str| Touch::Edit(Content::trusted(content));
    let first = messages[0].message_id;
    held.touch(store, ANNA, first, edit(&text(1..=350, false))).await;
    assert_eq!(mentions(fixture, &held).await.len(), 299 + 2);
    held.touch(store, ANNA, first, edit(&text(3..=3, false))).await;
    held.touch(store, ANNA, messages[1].message_id, edit("{\"text\":\"nobody\"}"))
        .await;
    assert_eq!(mentions(fixture, &held).await, ["1 3 3", "0 0 5"]);
    let (received_at, window_ms) = (Timestamp::default(), 0);
    held.touch(store, ANNA, first, Touch::Recall { received_at, window_ms })
        .await;
    held.touch(store, ANNA, messages[2].message_id, Touch::Delete).await;
    assert!(mentions(fixture, &held).await.is_empty());
}

pub(crate) async fn who_comes_back_keeps_what_was_cleared(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    held.commit(&mut *writer, &[send(BEN, "1", "x")]).await;
    let settings = format!(
        "UPDATE im_member SET cleared_seq = 2, cleared_count_no = 1, muted = TRUE, pinned = TRUE, marked_unread = TRUE
         WHERE conversation_id = {} AND principal_id = 2",
        held.id
    );
    execute(url(fixture), &settings).await;
    assert!(
        store
            .seen(held.id, BEN)
            .await
            .unwrap()
            .unwrap()
            .membership
            .unwrap()
            .marked_unread
    );
    assert!(store.list(BEN, None, 1).await.unwrap()[0].membership.unwrap().pinned);
    held.state = store.load(held.id).await.unwrap();
    held.commit(&mut *writer, &[send(BEN, "2", "x")]).await;
    let membership = store.seen(held.id, BEN).await.unwrap().unwrap().membership.unwrap();
    assert!(
        !membership.marked_unread && membership.muted && membership.pinned,
        "sending clears the mark alone"
    );

    let gone = Command::RemoveMember {
        origin: origin(BEN),
        target: BEN,
    };
    held.commit(&mut *writer, &[gone]).await;
    let loaded = store.load(held.id).await.unwrap().unwrap();
    assert!(loaded.members.get(BEN).is_none());
    held.state = Some(loaded);
    held.commit(
        &mut *writer,
        &[Command::AddMembers {
            origin: origin(ANNA),
            members: vec![BEN],
        }],
    )
    .await;
    let membership = store.seen(held.id, BEN).await.unwrap().unwrap().membership.unwrap();
    assert_eq!(
        (membership.cleared_seq, membership.cleared_count_no.get()),
        (Seq::new(2), 1)
    );
    assert!(!membership.marked_unread && !membership.muted && !membership.pinned);
}

pub(crate) async fn b09_a_claim_looks_at_the_ids_that_are_stored(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    held.commit(&mut *writer, &[send(ANNA, "k", "x")]).await;
    let newest = store.messages_after(held.id, Seq::new(1), 1).await.unwrap()[0].message_id;
    // As after a crash, and with a clock that has gone back an hour.
    let now = Timestamp::from_millis(NOW - 3_600_000);
    let lease = store
        .claim_worker("node", now, Timestamp::from_millis(NOW))
        .await
        .unwrap();
    assert_eq!(lease.not_before, time_of(newest.get()));
}

pub(crate) async fn a_store_whose_counter_and_messages_differ_is_not_loaded(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    held.commit(&mut *writer, &[send(ANNA, "k", "x")]).await;
    let id = held.id;
    execute(
        url(fixture),
        &format!("DELETE FROM im_message WHERE conversation_id = {id} AND seq = 2"),
    )
    .await;
    assert!(matches!(fixture.store.load(id).await, Err(StoreError::Inconsistent(_))));
}

pub(crate) async fn durability_is_told_by_the_database(fixture: &Fixture) {
    let durability = fixture.store.durability().await.unwrap();
    assert!(durability.weaker.is_empty(), "{durability:?}");
    let word = match url(fixture).split_once("://").unwrap().0 {
        "postgres" => "synchronous_commit = on",
        "mysql" => "innodb_flush_log_at_trx_commit = 1",
        _ => "synchronous = FULL",
    };
    assert!(durability.summary.contains(word), "{durability:?}");
}
