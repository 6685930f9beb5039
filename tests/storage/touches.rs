//! Messages that change after they were sent.

use onescribe::domain::{ChangeSeq, ChangeType, Content, Message, MessageStatus, Principal, Seq, Timestamp, Touch};

use super::builder::{Held, send};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);

/// A group of ANNA and BEN with three messages of ANNA's (seqs 2 to 4).
async fn three(fixture: &Fixture) -> (Held, Vec<Message>) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let sends = ["one", "two", "three"].map(|words| send(ANNA, words, words));
    held.commit(&mut *writer, &sends).await;
    let messages = fixture.store.messages_after(held.id, Seq::new(1), 10).await.unwrap();
    (held, messages)
}

fn edit(text: &str) -> Touch {
    Touch::Edit(Content::trusted(&serde_json::json!({ "text": text }).to_string()))
}

fn recall() -> Touch {
    Touch::Recall {
        received_at: Timestamp::default(),
        window_ms: 0,
    }
}

pub(crate) async fn an_edit_is_stored_with_its_change_and_nothing_else_moves(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let store = fixture.store.as_ref();
    held.touch(store, ANNA, messages[0].message_id, edit("uno 🎉")).await;
    let stored = store.message(messages[0].message_id).await.unwrap().unwrap();
    assert_eq!(stored.content.as_str(), "{\"text\":\"uno 🎉\"}");
    assert_eq!(
        (stored.status, stored.change_seq),
        (MessageStatus::Edited, ChangeSeq::new(1))
    );
    assert_eq!(stored.edited_at, Some(Timestamp::from_millis(held.now)));
    let as_before = Message {
        content: messages[0].content.clone(),
        status: MessageStatus::Normal,
        edited_at: None,
        change_seq: ChangeSeq::ZERO,
        ..stored
    };
    assert_eq!(as_before, messages[0]);
    let changes = store.changes_after(held.id, ChangeSeq::ZERO, 10).await.unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].change_type, changes[0].message_id),
        (ChangeType::Edited, Some(messages[0].message_id))
    );
    assert_eq!((changes[0].actor, changes[0].payload.clone()), (ANNA, None));
    let loaded = store.load(held.id).await.unwrap().unwrap();
    assert_eq!(
        loaded.head,
        held.state.as_ref().unwrap().head,
        "a writer that loads anew is where this one is"
    );
}

pub(crate) async fn b58_recalled_words_are_in_no_column_of_the_store(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let store = fixture.store.as_ref();
    held.touch(store, ANNA, messages[1].message_id, edit("two again")).await;
    held.touch(store, ANNA, messages[1].message_id, recall()).await;
    let told = format!(
        "{:?} {:?} {:?}",
        store.messages_after(held.id, Seq::ZERO, 10).await.unwrap(),
        store.changes_after(held.id, ChangeSeq::ZERO, 10).await.unwrap(),
        store.seen(held.id, BEN).await.unwrap()
    );
    assert!(!told.contains("\\\"two"), "{told}");
    let recalled = store.message(messages[1].message_id).await.unwrap().unwrap();
    assert_eq!(
        (recalled.status, recalled.content_hash),
        (MessageStatus::Recalled, messages[1].content_hash)
    );
}

pub(crate) async fn b59_the_newest_that_stands_is_the_last_message(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let store = fixture.store.as_ref();
    held.touch(store, ANNA, messages[1].message_id, recall()).await;
    held.touch(store, ANNA, messages[2].message_id, recall()).await;
    let seen = store.seen(held.id, BEN).await.unwrap().unwrap();
    assert_eq!(seen.last_message.map(|last| last.message.seq), Some(messages[0].seq));
    assert_eq!(seen.head.last_seq, messages[2].seq, "never goes back");
    let listed = store.list(BEN, None, 10).await.unwrap();
    let listed = listed
        .iter()
        .find(|seen| seen.header.conversation_id == held.id)
        .unwrap();
    assert_eq!(
        listed.last_message.as_ref().map(|last| last.message.seq),
        Some(messages[0].seq)
    );
}

pub(crate) async fn what_stands_is_found_below_a_hundred_that_do_not(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let sends: Vec<_> = (2..=105).map(|n| send(ANNA, &format!("{n}"), "x")).collect();
    held.commit(&mut *writer, &sends).await;
    let messages = store.messages_after(held.id, Seq::ZERO, 200).await.unwrap();
    for message in &messages[3..103] {
        held.touch(store, ANNA, message.message_id, recall()).await;
    }
    for (at, below) in [(103, 3), (3, 3), (2, 2), (1, 1), (0, 0), (104, 104)] {
        let found = store
            .touchable(held.id, messages[at].message_id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.standing_below, Seq::new(below), "below seq {}", at + 1);
    }
}

pub(crate) async fn b76_what_is_gone_is_taken_off_unread_once(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let store = fixture.store.as_ref();
    let unread = async |viewer| store.seen(held.id, viewer).await.unwrap().unwrap().unread_count;
    assert_eq!((unread(BEN).await, unread(ANNA).await), (3, 0));
    held.touch(store, ANNA, messages[1].message_id, recall()).await;
    let unread = async |viewer| store.seen(held.id, viewer).await.unwrap().unwrap().unread_count;
    assert_eq!(unread(BEN).await, 2);
    held.touch(store, ANNA, messages[1].message_id, Touch::Delete).await;
    let mut writer = store.writer();
    held.commit(&mut *writer, &[send(BEN, "mine", "mine"), send(ANNA, "four", "four")])
        .await;
    let unread = async |viewer| store.seen(held.id, viewer).await.unwrap().unwrap().unread_count;
    assert_eq!(
        (unread(BEN).await, unread(ANNA).await),
        (1, 0),
        "own words were never unread"
    );
}

pub(crate) async fn a_message_of_another_conversation_cannot_be_touched(fixture: &Fixture) {
    let (one, messages) = three(fixture).await;
    let (other, _) = three(fixture).await;
    let store = fixture.store.as_ref();
    assert!(store.touchable(one.id, messages[0].message_id).await.unwrap().is_some());
    assert_eq!(store.touchable(other.id, messages[0].message_id).await.unwrap(), None);
    let newest = store.touchable(one.id, messages[2].message_id).await.unwrap().unwrap();
    assert_eq!(
        (newest.standing_below, newest.hidden_for),
        (messages[1].seq, Vec::new())
    );
}
