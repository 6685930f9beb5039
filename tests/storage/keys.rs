//! Keys are compared byte for byte, and words come back byte for byte, on every database (B31).

use std::collections::HashSet;

use onescribe::domain::{
    ClientRequestId, CreationKey, DeviceId, ExternalId, Kind, Principal, PrincipalType, Seq, Timestamp,
};
use onescribe::storage::{CommitError, DeviceCursor};

use super::builder::{Held, NOW, commit_one, create, key, send, send_raw};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);

/// What common collations take for equal, or change: case, trailing and leading blanks, accents in both spellings,
/// emoji, wide letters, the letters that fold into several, what LIKE and escapes know.
const LOOKALIKES: [&str; 22] = [
    "abc",
    "ABC",
    "Abc",
    "abc ",
    "abc  ",
    " abc",
    "äbc",
    "a\u{308}bc",
    "àbc",
    "😀",
    "😃",
    "👍",
    "👍🏽",
    "straße",
    "strasse",
    "ａｂｃ",
    "ﬁ",
    "fi",
    "a%c",
    "a_c",
    "a\\c",
    "a'c",
];

pub(crate) async fn b31_client_keys_are_compared_as_bytes(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    for text in LOOKALIKES {
        held.commit(&mut *writer, &[send(ANNA, text, text)]).await;
    }
    let asked: Vec<_> = LOOKALIKES.iter().map(|text| (ANNA, key(text))).collect();
    let found = fixture.store.keys(held.id, &asked).await.unwrap();
    assert_eq!(found.len(), LOOKALIKES.len());
    for ((sender, used), record) in found {
        let message = fixture.store.message(record.message_id).await.unwrap().unwrap();
        assert_eq!((sender, Some(used.clone())), (ANNA, message.client_message_id));
        assert_eq!(
            message.content.as_str(),
            serde_json::json!({ "text": used.as_str() }).to_string()
        );
    }
    assert!(
        fixture
            .store
            .keys(held.id, &[(ANNA, key("aBC"))])
            .await
            .unwrap()
            .is_empty()
    );
    held.forget_keys();
    let again = held.decide(&[send(ANNA, "abc ", "again")]);
    assert_eq!(commit_one(&mut *writer, &again).await, Err(CommitError::KeyTaken));
}

pub(crate) async fn b31_creation_keys_are_compared_as_bytes(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut ids = HashSet::new();
    for text in LOOKALIKES {
        let creation_key = CreationKey::request(ANNA, &ClientRequestId::parse(text).unwrap());
        let mut held = Held::new();
        held.commit(
            &mut *writer,
            &[create(Kind::Group, ANNA, &[], Some(creation_key.clone()))],
        )
        .await;
        assert_eq!(
            fixture.store.by_creation_key(&creation_key).await.unwrap(),
            Some(held.id)
        );
        assert!(ids.insert(held.id));
    }
}

pub(crate) async fn b31_external_ids_are_compared_as_bytes(fixture: &Fixture) {
    let store = &*fixture.store;
    for (number, text) in (1..).zip(LOOKALIKES) {
        let external_id = ExternalId::parse(text).unwrap();
        assert_eq!(
            store.by_external_id(PrincipalType::User, &external_id).await.unwrap(),
            None,
            "{text:?}"
        );
        let user = Principal::user(number);
        assert_eq!(
            store
                .adopt_external_id(user, &external_id, Timestamp::from_millis(NOW))
                .await
                .unwrap(),
            user
        );
        assert_eq!(
            store.by_external_id(PrincipalType::User, &external_id).await.unwrap(),
            Some(user)
        );
        assert_eq!(
            store.by_external_id(PrincipalType::Agent, &external_id).await.unwrap(),
            None
        );
    }
}

pub(crate) async fn b31_devices_and_settings_are_compared_as_bytes(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let held = Held::group(&mut *writer, ANNA, &[]).await;
    let now = Timestamp::from_millis(NOW);
    let upper = DeviceId::parse("PHONE").unwrap();
    let lower = DeviceId::parse("phone").unwrap();
    store.touch_device(ANNA, &upper, None, now).await.unwrap();
    store.touch_device(ANNA, &lower, None, now).await.unwrap();
    let ack = DeviceCursor {
        conversation_id: held.id,
        seq: Seq::new(1),
        change_seq: onescribe::domain::ChangeSeq::ZERO,
    };
    store.acknowledge(ANNA, &lower, &[ack], now).await.unwrap();
    assert!(store.cursors(ANNA, &upper).await.unwrap().is_empty());
    assert_eq!(store.cursors(ANNA, &lower).await.unwrap(), vec![ack]);
    for text in LOOKALIKES {
        assert_eq!(store.setting_or(text, text).await.unwrap(), text);
    }
}

pub(crate) async fn a_key_belongs_to_one_sender_and_one_conversation(fixture: &Fixture) {
    let agent = Principal::agent(1);
    let mut writer = fixture.store.writer();
    for _ in 0..2 {
        let mut held = Held::group(&mut *writer, ANNA, &[BEN, agent]).await;
        held.commit(
            &mut *writer,
            &[send(ANNA, "k", "a"), send(BEN, "k", "b"), send(agent, "k", "c")],
        )
        .await;
        let found = fixture
            .store
            .keys(held.id, &[(BEN, key("k")), (agent, key("other"))])
            .await
            .unwrap();
        assert_eq!(
            found.iter().map(|(_, record)| record.seq).collect::<Vec<_>>(),
            vec![Seq::new(3)]
        );
    }
}

pub(crate) async fn many_keys_are_found_at_once(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    let sends: Vec<_> = (0..450).map(|n| send(ANNA, &format!("k{n}"), "text")).collect();
    held.commit(&mut *writer, &sends).await;
    let asked: Vec<_> = (200..900).map(|n| (ANNA, key(&format!("k{n}")))).collect();
    assert_eq!(fixture.store.keys(held.id, &asked).await.unwrap().len(), 250);
    assert!(fixture.store.keys(held.id, &[]).await.unwrap().is_empty());
}

pub(crate) async fn b104_content_comes_back_byte_for_byte(fixture: &Fixture) {
    let contents = [
        r#"{"text":"a","z":1,"a":2,"z":3,"nested":{"b":[1,2],"a":{}}}"#.to_owned(),
        r#"{"text":"n","numbers":[1e400,-0,0.10,1E+2,12345678901234567890,1.0,100000000000000000000000]}"#.to_owned(),
        r#"{"text":"\"quoted\" \\ back\\slash / 'single' \n\t\b\f\r\u0001\u001f"}"#.to_owned(),
        "{\"text\":\"😀👩‍👩‍👧‍👦 𝕏 中文 ﷽ \u{2028}\u{2029}\u{200b}\u{feff} é e\u{301} \u{10ffff}\"}".to_owned(),
        r#"{"text":"  leading and trailing  ","empty":"","null":null,"yes":true,"":0}"#.to_owned(),
        r#"{"text":"?1 $1 :name @x -- ; /* */ %s {} ''"}"#.to_owned(),
        format!("{{\"text\":\"{}\"}}", "长".repeat(100_000)),
    ];
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    let sends: Vec<_> = (0..)
        .zip(&contents)
        .map(|(n, raw)| send_raw(ANNA, &format!("k{n}"), raw))
        .collect();
    held.commit(&mut *writer, &sends).await;
    let stored = fixture.store.messages_after(held.id, Seq::new(1), 100).await.unwrap();
    for (message, raw) in stored.iter().zip(&contents) {
        assert_eq!(message.content.as_str(), raw);
    }
    assert_eq!(stored.len(), contents.len());
}
