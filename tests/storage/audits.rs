//! What `check` reads of the log of events: each with what it leads to.

use onescribe::domain::{ChangeSeq, ChangeType, EventNo, Principal, Seq, Touch};
use onescribe::storage::{AuditedCursor, EventCursor};

use super::builder::{Held, send};
use super::events::{SINCE, place};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);

pub(crate) async fn events_are_audited_with_the_message_the_change_and_the_cursor(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut writer, mut placer) = (store.writer(), store.placer());
    let mut rooms = Vec::new();
    for _ in 0..3 {
        let mut room = Held::group(&mut *writer, ANNA, &[]).await;
        room.commit(&mut *writer, &[send(ANNA, "a", "x")]).await;
        let sent = store.messages_after(room.id, Seq::new(1), 1).await.unwrap().remove(0);
        room.touch(store, ANNA, sent.message_id, Touch::Delete).await;
        rooms.push((room, sent.message_id));
    }
    // Of the last one nothing is placed; the first one goes on.
    let ids: Vec<_> = rooms.iter().map(|(room, _)| room.id).collect();
    place(store, &mut *placer, &ids[..2]).await;
    rooms[0].0.commit(&mut *writer, &[send(ANNA, "b", "x")]).await;
    let audited = store.audited_events(EventNo::ZERO, 100).await.unwrap();
    let placed: Vec<_> = audited.iter().map(|audited| audited.placed.clone()).collect();
    assert_eq!(placed, store.events_after(EventNo::ZERO, 100).await.unwrap());
    let cursor = EventCursor {
        seq: Seq::new(2),
        change_seq: ChangeSeq::new(1),
        active_since: SINCE,
    };
    assert!(audited.iter().all(|audited| audited.cursor == Some(cursor)));
    let (id, message) = (ids[0], rooms[0].1);
    let own = audited
        .iter()
        .filter(|audited| audited.placed.notice.conversation_id == id);
    let leads: Vec<_> = own.map(|audited| (audited.message, audited.change)).collect();
    let second = Some((id, Seq::new(2)));
    let expected = [
        (Some((id, Seq::new(1))), None),
        (second, None),
        (second, Some((ChangeType::Deleted, Some(message)))),
    ];
    assert_eq!(leads, expected);
    assert_eq!(store.audited_events(EventNo::new(2), 2).await.unwrap(), audited[2..4]);

    let rows = |head: i64, at: usize| AuditedCursor {
        conversation_id: ids[at],
        cursor,
        head: Some((Seq::new(head), ChangeSeq::new(1))),
    };
    let expected = [rows(3, 0), rows(2, 1)];
    assert_eq!(store.audited_cursors(None, 9).await.unwrap(), expected);
    assert_eq!(store.audited_cursors(None, 1).await.unwrap(), expected[..1]);
    assert_eq!(store.audited_cursors(Some(ids[0]), 9).await.unwrap(), expected[1..]);
}
