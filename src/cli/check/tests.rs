//! Damages a store on purpose, each way once, and sees the finding.

use std::path::Path;
use std::sync::Arc;

use indicatif::ProgressBar;
use sqlx::{Connection as _, QueryBuilder, Sqlite, SqliteConnection};

use super::{Report, check};
use crate::app::{self, Core, NewConversation, NoDelivery};
use crate::config::{Config, SecretString};
use crate::domain::{
    Adding, BlobId, ClientMessageId, Command, Content, ConversationId, Create, CreationKey, Emoji, EventNo, FileId,
    HistoryVisibility, Kind, MessageType, NoticeSet, NotificationAnswer, NotificationKey, NotificationKind, Notify,
    Origin, Outcome, Personal, Posting, Principal, Send, Timestamp, Touch, Webhook, WebhookId, WebhookName, chain,
    notice,
};
use crate::storage::{EventCursor, FinishedFile, Lag, NewBlob, NewFile, Placement, Store, Unplaced};

/// More than one page.
const MESSAGES: usize = 600;
/// Sent at once; one of each such number quotes the last message before.
const AT_ONCE: usize = 50;
/// The one that shows a file.
const SHOWS_FILE: usize = 300;

fn config(file: &Path) -> Config {
    let mut config = Config::default();
    config.database.url = SecretString::from(format!("sqlite://{}", file.display()));
    config
}

async fn open(file: &Path) -> Arc<dyn Store> {
    app::open(&config(file).database, true).await.unwrap()
}

fn origin(id: i64) -> Origin {
    Origin {
        principal: Principal::user(id),
        device: None,
    }
}

fn text(sender: i64, key: usize, quoted: Option<crate::domain::MessageId>) -> Command {
    let file = if key == SHOWS_FILE {
        ",\"attachments\":[{\"file_id\":\"1\"}]"
    } else {
        ""
    };
    let content = Content::trusted(&format!("{{\"text\":\"message {key}\"{file}}}"));
    Command::Send(Send {
        origin: origin(sender),
        client_message_id: ClientMessageId::parse(&key.to_string()).unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: quoted,
        expected_last_seq: None,
    })
}

async fn group(core: &Core, title: &str) -> ConversationId {
    let new = NewConversation::Group {
        title: title.to_owned(),
        members: vec![Principal::user(2).into()],
        client_request_id: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    };
    let made = core.conversations.create(origin(1), new).await.unwrap();
    made.seen.header.conversation_id
}

/// A file of user 1.
async fn upload(store: &dyn Store) {
    let (created_at, blob_id) = (Timestamp::default(), BlobId::new(1).unwrap());
    let file_id = FileId::new(1).unwrap();
    let blob = NewBlob {
        blob_id,
        object_key: "key".to_owned(),
        size_bytes: 1,
        created_at,
    };
    store.add_blob(&blob).await.unwrap();
    let media_type = "text/plain".to_owned();
    let file = NewFile {
        file_id,
        uploader: Principal::user(1),
        name: "name".to_owned(),
        media_type: media_type.clone(),
        blob_id,
        created_at,
    };
    store.add_file(&file).await.unwrap();
    let sha256 = chain::content_hash("bytes");
    store.settle_blob(blob_id, sha256, 1, created_at).await.unwrap();
    let finished = FinishedFile {
        file_id,
        media_type,
        blob_id,
        dimensions: None,
        thumbnail: None,
    };
    assert!(store.finish_file(&finished).await.unwrap());
}

/// Two groups with messages, quotes and changes, made by the writers themselves.
async fn fill(file: &Path) -> [ConversationId; 2] {
    let store = open(file).await;
    upload(store.as_ref()).await;
    let core = Core::start(&config(file), store, Arc::new(NoDelivery)).await.unwrap();
    let (one, two) = (group(&core, "one").await, group(&core, "two").await);
    let mut last = None;
    for first in (0..MESSAGES).step_by(AT_ONCE) {
        let commands = (first..first + AT_ONCE).map(|key| {
            let sender = 1 + i64::try_from(key % 2).unwrap();
            text(sender, key, last.filter(|_| key == first))
        });
        let answers: Vec<_> = commands.map(|command| core.ask(one, command)).collect();
        for answer in answers {
            if let Outcome::Sent(message) = answer.await.unwrap().unwrap() {
                last = Some(message.message_id);
            }
        }
    }
    core.ask(two, text(1, 0, None)).await.unwrap().unwrap();
    for id in [3, 4, 5] {
        core.conversations
            .add_members(origin(1), one, &[Principal::user(id).into()])
            .await
            .unwrap();
    }
    let marked = last.unwrap();
    let emoji = Emoji::parse("ok").unwrap();
    for touch in [Touch::React { emoji, added: true }, Touch::Pin(true)] {
        let (origin, message_id) = (origin(1), marked);
        let command = Command::Touch {
            origin,
            message_id,
            touch,
        };
        core.ask(one, command).await.unwrap().unwrap();
    }
    core.stop().await;
    let store = open(file).await;
    place(store.as_ref(), &[one, two]).await;
    add_webhook(store.as_ref()).await;
    store.close().await;
    [one, two]
}

/// Everything gets its place in the log of events, as the relay gives it.
async fn place(store: &dyn Store, ids: &[ConversationId]) {
    let since = Timestamp::from_millis(1);
    store.wake_log(since).await.unwrap();
    let lags = store.lags_of(ids, since).await.unwrap();
    let found = store.unplaced(&lags, 10_000).await.unwrap();
    let placement = |(lag, found): (&Lag, &Unplaced)| {
        let lines = (found.messages.as_slice(), false);
        let told = notice::told(lag.conversation_id, lag.kind, lag.from, lines, &found.changes);
        Placement {
            conversation_id: lag.conversation_id,
            expected: lag.row,
            cursor: EventCursor {
                seq: told.seq,
                change_seq: told.change_seq,
                active_since: since,
            },
            notices: told.notices,
            push: None,
        }
    };
    let placements: Vec<Placement> = lags.iter().zip(&found).map(placement).collect();
    let now = Timestamp::from_millis(2);
    assert_eq!(store.placer().place(&placements, &[], now).await.unwrap().moved, 0);
}

async fn add_webhook(store: &dyn Store) {
    let webhook = Webhook {
        webhook_id: WebhookId::new(1).unwrap(),
        name: WebhookName::parse("one").unwrap(),
        url: "https://receiver/".to_owned(),
        notices: NoticeSet::default(),
        secrets: Vec::new(),
        event_no: EventNo::new(3),
        version: 1,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    };
    assert!(store.add_webhook(&webhook).await.unwrap());
}

async fn report(file: &Path) -> Report {
    check(open(file).await.as_ref(), &ProgressBar::hidden()).await.unwrap()
}

async fn damage(file: &Path, statements: &str) {
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", file.display()))
        .await
        .unwrap();
    QueryBuilder::<Sqlite>::new(statements)
        .build()
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// SQLite cannot drop a constraint of a table: the table is made anew without it.
const WITHOUT_KEYS: &str = "CREATE TABLE copy AS SELECT * FROM im_message; DROP TABLE im_message; \
                            ALTER TABLE copy RENAME TO im_message; ";

/// What is done to rows of members, and what is found then.
fn of_members(in_one: &str) -> Vec<(String, &'static str)> {
    let damage = |set: &str, id: i64| format!("UPDATE im_member SET {set} {in_one} AND principal_id = {id}");
    vec![
        (damage("last_read_seq = 9999", 2), "read up to 9999"),
        (damage("cleared_seq = 9999", 2), "cleared up to 9999"),
        (damage("last_read_count_no = 7", 2), "1 members have other"),
        (damage("cleared_count_no = 7", 1), "1 members have other"),
    ]
}

/// What is done to events of conversation `one`, and what is found then.
fn of_events(one: ConversationId, two: ConversationId) -> Vec<(String, &'static str)> {
    let in_one = format!("WHERE conversation_id = {one}");
    let event = |set: &str, seq: i64| format!("UPDATE im_event SET {set} {in_one} AND seq = {seq}");
    let cursor = |set: &str| format!("UPDATE im_event_cursor SET {set} {in_one}");
    let nothing = "is about nothing that is there";
    let swap = format!(
        "UPDATE im_event SET event_no = -1 {in_one} AND seq = 40; UPDATE im_event SET event_no = 40 {in_one} AND seq = 41; \
         UPDATE im_event SET event_no = 41 WHERE event_no = -1"
    );
    vec![
        (event("message_id = 7", 40), nothing),
        (
            event(
                &format!("message_id = (SELECT MIN(message_id) FROM im_message WHERE conversation_id = {two})"),
                40,
            ),
            nothing,
        ),
        (event("seq = 41", 40), nothing),
        (event("notice_type = 8", 40), nothing),
        (event("notice_type = 2", 40), nothing),
        (
            format!("UPDATE im_event SET change_seq = 99 {in_one} AND change_seq = 2"),
            nothing,
        ),
        (
            format!("UPDATE im_event SET notice_type = 6 {in_one} AND change_seq = 2"),
            nothing,
        ),
        (swap, "seq 40: event 41 follows that of seq 41"),
        (cursor("seq = 9999"), "its events are placed up to message 9999"),
        (
            cursor("change_seq = 9999"),
            "its events are placed up to message 604 and change 9999",
        ),
        (
            cursor("seq = 500"),
            "seq 501: event 501 is beyond what is placed: message 500",
        ),
        (
            cursor("change_seq = 1"),
            "is beyond what is placed: message 604, change 1",
        ),
        (
            format!("DELETE FROM im_event_cursor {in_one}"),
            "is of a conversation none of whose events has its place",
        ),
        (
            format!(
                "INSERT INTO im_message SELECT message_id + 1, conversation_id, 605, sender_type, sender_id, NULL, \
                     message_type, content, quoted_message_id, status, sent_at, edited_at, change_seq, count_no, \
                     content_hash, chain_hash FROM im_message {in_one} AND seq = 604; \
                     UPDATE im_conversation SET last_seq = 605 {in_one}; {}",
                cursor("seq = 605")
            ),
            "seq 605: has no event, although those up to 605 have their place",
        ),
    ]
}

/// What is done to the log of events as a whole.
fn of_the_log() -> Vec<(String, &'static str)> {
    vec![
        (
            "DELETE FROM im_event WHERE event_no = 300".to_owned(),
            "event 300 is missing; the next one there is 301",
        ),
        (
            "DELETE FROM im_event WHERE event_no > 600".to_owned(),
            "event 601 is missing; the newest is 609",
        ),
        (
            "UPDATE im_event_log SET newest = 608".to_owned(),
            "event 609 stands above the newest place 608",
        ),
        (
            "UPDATE im_webhook SET event_no = 999".to_owned(),
            "the webhook one is at event 999",
        ),
    ]
}

/// What is done to references to files, and what is found then.
fn of_files(one: ConversationId, in_one: &str) -> Vec<(String, &'static str)> {
    let kept =
        format!("INSERT INTO im_file_ref SELECT message_id, 1, {one}, seq FROM im_message {in_one} AND seq = 40");
    vec![
        (
            "DELETE FROM im_file_ref".to_owned(),
            "seq 302: shows file 1, which is not kept for it",
        ),
        ("UPDATE im_file_ref SET seq = 7".to_owned(), "seq 7: a file is kept for"),
        (kept, "seq 40: a file is kept for"),
    ]
}

#[test]
fn every_kind_of_damage_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    actix_rt::System::new().block_on(async {
        let [one, two] = fill(&whole).await;
        let Report { findings, counts, .. } = report(&whole).await;
        assert_eq!(findings, []);
        assert_eq!((counts.conversations, counts.messages), (2, 2 + 600 + 1 + 3));
        assert_eq!((counts.changes, counts.members, counts.quotes), (5, 7, 11));
        assert_eq!((counts.reacted, counts.references, counts.events), (1, 1, 606 + 3));

        let in_one = format!("WHERE conversation_id = {one}");
        let cases: &[(String, &str)] = &[
            (format!("DELETE FROM im_message {in_one} AND seq = 500"), "seq 500: is missing"),
            (format!("DELETE FROM im_message {in_one} AND seq > 600"), "seq 601: is missing; the head is 604"),
            (format!("DELETE FROM im_message {in_one}"), "seq 1: is missing"),
            (format!("UPDATE im_conversation SET last_seq = 603 {in_one}"), "seq 604: stands above the head"),
            (format!("UPDATE im_message SET count_no = 7 {in_one} AND seq = 501"), "seq 501: has count_no 7"),
            (format!("UPDATE im_conversation SET last_count_no = 7 {in_one}"), "its last_count_no is 7 instead of 600"),
            (format!("UPDATE im_conversation SET last_message_seq = 7 {in_one}"), "its last_message_seq is 7"),
            (format!("UPDATE im_conversation SET last_activity_at = 7 {in_one}"), "its last_activity_at"),
            (format!("UPDATE im_conversation SET chain_hash = zeroblob(32) {in_one}"), "its chain_hash is not that"),
            (format!("UPDATE im_conversation SET member_count = 7 {in_one}"), "its member_count is 7, but 5 are in it"),
            (format!("UPDATE im_conversation SET owner_type = NULL, owner_id = NULL {in_one}"), "without an owner"),
            (format!("UPDATE im_message SET chain_hash = zeroblob(32) {in_one} AND seq = 9"), "seq 9: its chain_hash"),
            (format!("UPDATE im_message SET sender_id = 2 {in_one} AND seq = 2"), "seq 2: its chain_hash"),
            (
                format!("UPDATE im_message SET content = '{{\"text\":\"forged\"}}' {in_one} AND seq = 590"),
                "seq 590: has other words",
            ),
            (
                format!("UPDATE im_message SET quoted_message_id = (SELECT MIN(message_id) FROM im_message WHERE conversation_id = {two}) {in_one} AND seq = 40"),
                "seq 40: quotes",
            ),
            (format!("UPDATE im_message SET change_seq = 9 {in_one} AND seq = 40"), "seq 40: names change 9"),
            (format!("DELETE FROM im_change {in_one} AND change_seq = 2"), "change 2 is missing"),
            (format!("DELETE FROM im_change {in_one} AND change_seq = 5"), "change 5 is missing; the last one is 5"),
            (
                format!("INSERT INTO im_reaction SELECT message_id, X'61', 1, 1, {one}, 0 FROM im_message {in_one} AND seq = 40"),
                "seq 40: reactions stand on",
            ),
            (format!("INSERT INTO im_reaction VALUES (7, X'61', 1, 1, {one}, 0)"), "reactions stand on a message 7"),
            (
                format!("INSERT INTO im_pin SELECT {one}, message_id, 1, 1, 0 FROM im_message {in_one} AND seq = 40"),
                "seq 40: a pin stands on",
            ),
            (format!("INSERT INTO im_pin VALUES ({one}, 7, 1, 1, 0)"), "a pin stands on a message 7"),
            (format!("INSERT INTO im_mention VALUES ({one}, 1, 2, 999)"), "seq 999: mentions stand for"),
            (
                format!("{WITHOUT_KEYS} UPDATE im_message SET client_message_id = CAST('0' AS BLOB) {in_one} AND seq = 4"),
                "seq 4: has the key of seq 2 as well",
            ),
            (
                format!("{WITHOUT_KEYS} INSERT INTO im_message SELECT * FROM im_message {in_one} AND seq = 7"),
                "seq 8: is missing; the next one there is 7",
            ),
        ];
        let (of_events, of_the_log) = (of_events(one, two), of_the_log());
        let others = [of_members(&in_one), of_files(one, &in_one)].concat();
        let at_home = cases.iter().chain(&others).chain(&of_events);
        let at_home = at_home.map(|case| (case, format!("conversation {one}")));
        let in_the_log = of_the_log.iter().map(|case| (case, String::new()));
        for (number, ((statements, expected), place)) in at_home.chain(in_the_log).enumerate() {
            let file = folder.path().join(format!("damaged-{number}.db"));
            // Not a copy of the file: a part of the store may still be in the log beside it.
            damage(&whole, &format!("VACUUM INTO '{}'", file.display())).await;
            damage(&file, statements).await;
            let report = report(&file).await;
            let named: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            assert!(named.iter().any(|finding| finding.contains(expected)), "{statements}\n{named:#?}");
            assert!(named.iter().all(|finding| finding.starts_with(&place)), "{statements}\n{named:#?}");
        }
    });
}

/// The INBOX of somebody who was asked and has said no.
async fn told(file: &Path) -> ConversationId {
    let core = Core::start(&config(file), open(file).await, Arc::new(NoDelivery))
        .await
        .unwrap();
    let (inbox, from) = (core.ids.conversation_id().unwrap(), Principal::user(2));
    let create = Create {
        origin: origin(1),
        kind: Kind::Inbox,
        title: None,
        members: Vec::new(),
        creation_key: Some(CreationKey::inbox(Principal::user(1))),
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    };
    core.ask(inbox, Command::Create(create)).await.unwrap().unwrap();
    let notify = Notify {
        to: Principal::user(1),
        kind: NotificationKind::FriendRequest,
        from,
        key: NotificationKey::friend_request(from),
        ask_again_ms: 0,
        text: Some("hello".to_owned()),
        conversation_id: None,
        payload: None,
        expires_at: None,
    };
    let Outcome::Notified(note) = core.ask(inbox, Command::Notify(notify)).await.unwrap().unwrap() else {
        panic!("nobody was told");
    };
    let act = Personal::Answer {
        notification_id: note.notification_id,
        answer: NotificationAnswer::Decline,
    };
    let origin = origin(1);
    core.ask(inbox, Command::Personal { origin, act })
        .await
        .unwrap()
        .unwrap();
    core.stop().await;
    inbox
}

#[test]
fn a_notification_and_its_message_are_held_to_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    actix_rt::System::new().block_on(async {
        let inbox = told(&whole).await;
        let report_of_whole = report(&whole).await;
        assert_eq!(report_of_whole.findings, []);
        assert_eq!(report_of_whole.counts.notifications, 1);
        let cases = [
            (
                "DELETE FROM im_notification",
                "seq 1: tells a notification that is not there",
            ),
            (
                "UPDATE im_notification SET state = 2",
                "seq 1: says something else than the row",
            ),
            (
                "UPDATE im_notification SET inbox_id = 7",
                "seq 1: tells a notification that is not there",
            ),
            (
                "UPDATE im_notification SET body = 'x'",
                "seq 1: its notification is another than its content_hash says",
            ),
            (
                "INSERT INTO im_notification SELECT 7, inbox_id, owner_type, owner_id, kind, from_type, from_id, body,
                 conversation_id, payload, state, NULL, read_at, created_at, updated_at, due_at
                 FROM im_notification",
                "notification 7 is told by no message",
            ),
        ];
        for (number, (statements, expected)) in cases.iter().enumerate() {
            let file = folder.path().join(format!("damaged-{number}.db"));
            damage(&whole, &format!("VACUUM INTO '{}'", file.display())).await;
            damage(&file, statements).await;
            let report = report(&file).await;
            let named: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            let expected = format!("conversation {inbox} {expected}").replace(" notification 7", ": notification 7");
            let found = named.iter().any(|finding| finding.starts_with(&expected));
            assert!(found, "{statements}\n{named:#?}");
        }
    });
}
