//! What a device that was away is told is read in a few statements; each of them is held to the plain meaning here.

use onescribe::domain::{ChangeSeq, ChangeType, Command, Content, DeviceId, Kind, Principal, Seq, Timestamp, Touch};
use onescribe::storage::{Outline, Stretch, Window};

use super::builder::{Held, NOW, conversation_id, create, next_id, origin, send};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(901);
const BEN: Principal = Principal::user(902);
const CARL: Principal = Principal::user(903);

/// A user that no other test has.
fn somebody() -> Principal {
    Principal::user(next_id())
}

async fn group_with(fixture: &Fixture, members: &[Principal], messages: usize) -> Held {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, members).await;
    let sends: Vec<Command> = (0..messages)
        .map(|n| send(ANNA, &format!("k{n}"), &"x".repeat(n + 1)))
        .collect();
    if !sends.is_empty() {
        held.commit(&mut *writer, &sends).await;
    }
    held
}

pub(crate) async fn standings_are_of_present_memberships_only(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let viewer = somebody();
    let mine = group_with(fixture, &[viewer], 2).await;
    let mut left = group_with(fixture, &[viewer], 0).await;
    group_with(fixture, &[BEN], 1).await;
    let leave = Command::RemoveMember {
        origin: origin(viewer),
        target: viewer,
    };
    left.commit(&mut *store.writer(), &[leave]).await;
    let standings = store.standings(viewer).await.unwrap();
    let head = mine.state.as_ref().unwrap().head;
    assert_eq!(standings.len(), 1);
    assert_eq!(standings[0].conversation_id, mine.id);
    assert_eq!(
        (
            standings[0].last_seq,
            standings[0].last_change_seq,
            standings[0].last_activity_at
        ),
        (head.last_seq, head.last_change_seq, head.last_activity_at)
    );
}

pub(crate) async fn many_conversations_are_seen_at_once_as_one_by_one(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let viewer = somebody();
    let mut ids = vec![conversation_id()]; // which does not exist
    for messages in 0..5 {
        ids.push(group_with(fixture, &[viewer], messages).await.id);
    }
    ids.push(group_with(fixture, &[BEN], 1).await.id);
    let mut seen = store.seen_of(&ids, viewer).await.unwrap();
    seen.sort_by_key(|seen| seen.header.conversation_id);
    let mut single = Vec::new();
    for id in &ids[1..] {
        single.push(store.seen(*id, viewer).await.unwrap().unwrap());
    }
    single.sort_by_key(|seen| seen.header.conversation_id);
    assert_eq!(format!("{seen:?}"), format!("{single:?}"));
}

pub(crate) async fn outlines_are_the_newest_of_each_window_without_what_is_deleted(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let mut held: Vec<Held> = Vec::new();
    for _ in 0..3 {
        held.push(group_with(fixture, &[BEN], 9).await); // seqs 2 to 10
    }
    let stored = store.messages_after(held[0].id, Seq::ZERO, 20).await.unwrap();
    held[0].touch(store, ANNA, stored[7].message_id, Touch::Delete).await; // seq 8
    let window = |at: usize, after: i64, up_to: i64, limit: u32| Window {
        conversation_id: held[at].id,
        after: Seq::new(after),
        up_to: Seq::new(up_to),
        limit,
    };
    let windows = [
        window(2, 0, 10, 2),
        window(0, 5, 10, 3),
        window(1, 3, 5, 200),
        window(1, 9, 9, 5),
    ];
    let found = store.outlines(&windows, BEN).await.unwrap();
    let of = |at: usize| {
        let own = found.iter().filter(|outline| outline.conversation_id == held[at].id);
        own.map(|outline| outline.seq.get()).collect::<Vec<_>>()
    };
    assert_eq!((of(0), of(1), of(2)), (vec![10, 9, 7], vec![5, 4], vec![10, 9]));
    let nine = Outline {
        conversation_id: held[0].id,
        seq: Seq::new(9),
        message_id: stored[8].message_id,
        content_bytes: stored[8].content.as_str().len(),
    };
    assert!(found.contains(&nine), "{found:?}");
    assert!(store.outlines(&[], BEN).await.unwrap().is_empty());
}

pub(crate) async fn a_log_is_read_in_stretches_with_what_each_change_is_about(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let mut held = group_with(fixture, &[BEN], 3).await;
    let other = group_with(fixture, &[BEN], 1).await;
    let stored = store.messages_after(held.id, Seq::ZERO, 20).await.unwrap();
    for words in ["one", "two", "a longer text"] {
        let content = Content::trusted(&format!("{{\"text\":\"{words}\"}}"));
        held.touch(store, ANNA, stored[1].message_id, Touch::Edit(content))
            .await;
    }
    let add = Command::AddMembers {
        origin: origin(ANNA),
        members: vec![CARL],
    };
    held.commit(&mut *store.writer(), &[add]).await;
    let stretch = |held: &Held, after: i64, up_to: i64| Stretch {
        conversation_id: held.id,
        after: ChangeSeq::new(after),
        up_to: ChangeSeq::new(up_to),
    };
    let log = store
        .log(&[stretch(&other, 0, 9), stretch(&held, 1, 4)], BEN)
        .await
        .unwrap();
    let found: Vec<_> = log
        .iter()
        .map(|logged| {
            (
                logged.change.change_seq.get(),
                logged.change.change_type,
                logged.about.map(|about| about.seq.get()),
            )
        })
        .collect();
    let expected = [
        (2, ChangeType::Edited, Some(2)),
        (3, ChangeType::Edited, Some(2)),
        (4, ChangeType::MemberAdded, None),
    ];
    assert_eq!(found, expected);
    let about = log[0].about.unwrap();
    assert_eq!(
        about.content_bytes,
        "{\"text\":\"a longer text\"}".len(),
        "as it is now"
    );
    assert!(!about.deleted_by_viewer);
    assert_eq!(
        log[2].change,
        store.changes_after(held.id, ChangeSeq::new(3), 1).await.unwrap()[0]
    );
}

pub(crate) async fn hundreds_of_conversations_are_read_together(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let mut writer = store.writer();
    let viewer = somebody();
    let held: Vec<Held> = (0..250).map(|_| Held::new()).collect();
    let commits: Vec<_> = held
        .iter()
        .map(|one| one.decide(&[create(Kind::Group, ANNA, &[viewer], None), send(ANNA, "k", "x")]))
        .collect();
    assert!(writer.commit(&commits).await.iter().all(Result::is_ok));
    assert_eq!(store.standings(viewer).await.unwrap().len(), 250);
    let ids: Vec<_> = held.iter().map(|one| one.id).collect();
    assert_eq!(store.seen_of(&ids, viewer).await.unwrap().len(), 250);
    let windows: Vec<_> = ids
        .iter()
        .map(|id| Window {
            conversation_id: *id,
            after: Seq::ZERO,
            up_to: Seq::new(2),
            limit: 200,
        })
        .collect();
    let outlines = store.outlines(&windows, viewer).await.unwrap();
    assert_eq!(outlines.len(), 500);
    let stretches: Vec<_> = ids
        .iter()
        .map(|id| Stretch {
            conversation_id: *id,
            after: ChangeSeq::ZERO,
            up_to: ChangeSeq::new(100),
        })
        .collect();
    assert!(store.log(&stretches, viewer).await.unwrap().is_empty());
    let messages: Vec<_> = outlines
        .iter()
        .map(|outline| outline.message_id)
        .chain([onescribe::domain::MessageId::new(next_id()).unwrap()])
        .collect();
    assert_eq!(store.messages_of(&messages).await.unwrap().len(), 500);
}

pub(crate) async fn unread_counts_are_those_of_the_list(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let viewer = somebody();
    group_with(fixture, &[viewer], 0).await;
    for messages in [3, 1] {
        group_with(fixture, &[viewer], messages).await;
    }
    let mut read = group_with(fixture, &[viewer], 2).await;
    read.commit(&mut *store.writer(), &[send(viewer, "mine", "x")]).await;
    let listed = store.list(viewer, None, 100).await.unwrap();
    let mut expected: Vec<_> = listed
        .iter()
        .filter(|seen| seen.unread_count > 0)
        .map(|seen| (seen.header.conversation_id, seen.unread_count))
        .collect();
    let unread = store.unread(viewer).await.unwrap();
    let mut found: Vec<_> = unread
        .iter()
        .map(|one| (one.conversation_id, one.unread_count))
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!((found.len(), &found), (2, &expected));
    assert!(unread.iter().all(|one| !one.muted));
}

pub(crate) async fn devices_are_listed_by_name_and_forgotten_with_their_cursors(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let viewer = somebody();
    let held = group_with(fixture, &[viewer], 1).await;
    let [phone, desk] = ["phone", "desk"].map(|name| DeviceId::parse(name).unwrap());
    let at = |n: i64| Timestamp::from_millis(NOW + n);
    store.touch_device(viewer, &phone, Some("ios"), at(1)).await.unwrap();
    store.touch_device(viewer, &desk, None, at(2)).await.unwrap();
    let names = async |limit, after: Option<&DeviceId>| {
        let devices = store.devices(viewer, after, limit).await.unwrap();
        devices
            .iter()
            .map(|one| (one.device_id.to_string(), one.last_seen_at.millis() - NOW))
            .collect::<Vec<_>>()
    };
    let own = |name: &str, at| (name.to_owned(), at);
    assert_eq!(names(9, None).await, [own("desk", 2), own("phone", 1)]);
    store.touch_device(viewer, &phone, None, at(3)).await.unwrap();
    assert_eq!(names(1, None).await, [own("desk", 2)]);
    assert_eq!(names(1, Some(&desk)).await, [own("phone", 3)]);
    assert_eq!(names(1, Some(&phone)).await, []);
    let platforms = store.devices(viewer, Some(&desk), 1).await.unwrap();
    assert_eq!(platforms[0].platform.as_deref(), Some("ios"));
    let ack = onescribe::storage::DeviceCursor {
        conversation_id: held.id,
        seq: Seq::new(1),
        change_seq: ChangeSeq::ZERO,
    };
    for device in [&phone, &desk] {
        store.acknowledge(viewer, device, &[ack], at(4)).await.unwrap();
    }
    store
        .reset_cursors(viewer, &phone, &[held.id, conversation_id()], at(5))
        .await
        .unwrap();
    assert_eq!(
        store.cursors(viewer, &phone).await.unwrap()[0].seq,
        Seq::ZERO,
        "the row stays"
    );
    assert_eq!(store.cursors(viewer, &desk).await.unwrap(), [ack]);
    store.reset_cursors(viewer, &phone, &[], at(5)).await.unwrap();
    assert!(store.forget_device(viewer, &phone).await.unwrap());
    assert_eq!(names(9, None).await, [own("desk", 2)]);
    assert!(store.cursors(viewer, &phone).await.unwrap().is_empty());
    assert_eq!(store.cursors(viewer, &desk).await.unwrap(), [ack]);
    assert!(
        !store.forget_device(viewer, &phone).await.unwrap(),
        "it is not known any more"
    );
}

pub(crate) async fn a_setting_gets_another_value_where_it_has_one(fixture: &Fixture) {
    let store = fixture.store.as_ref();
    let name = format!("name-{}", next_id());
    store.set_setting(&name, "lost").await.unwrap();
    assert_eq!(store.setting(&name).await.unwrap(), None);
    store.setting_or(&name, "first").await.unwrap();
    store.set_setting(&name, "second").await.unwrap();
    assert_eq!(store.setting(&name).await.unwrap().as_deref(), Some("second"));
}
