//! The log of events for other systems: each event gets one place, in the order of its conversation and in commit order.

use std::sync::atomic::{AtomicUsize, Ordering};

use onescribe::domain::{
    ChangeSeq, Command, Content, ConversationId, DeviceId, EventNo, NoticeType, PlacedNotice, Principal,
    PrincipalStatus, ProfilePatch, Seq, Timestamp, Touch, notice,
};
use onescribe::storage::{
    DeviceCursor, EventCursor, Lag, Missable, Placement, Placer, PushDue, PushPlacement, Store, Unplaced,
};

use super::builder::{Held, NOW, next_id, origin, send};
use super::own::{Inbox, mute, read};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);
/// Events are wanted from here on.
pub(crate) const SINCE: Timestamp = Timestamp::from_millis(NOW);

fn at(offset: i64) -> Timestamp {
    Timestamp::from_millis(NOW + offset)
}

/// What a relay would place.
fn placement(lag: &Lag, found: &Unplaced, push_at: Option<Timestamp>) -> Placement {
    let cut = found.messages.last().map_or(lag.from.0, |line| line.seq) < lag.head.0;
    let lines = (found.messages.as_slice(), cut);
    let told = notice::told(lag.conversation_id, lag.kind, lag.from, lines, &found.changes);
    Placement {
        conversation_id: lag.conversation_id,
        expected: lag.row,
        cursor: EventCursor {
            seq: told.seq,
            change_seq: told.change_seq,
            active_since: SINCE,
        },
        notices: told.notices,
        push: told.push.zip(push_at).map(|((first, last), at)| (first, last, at)),
    }
}

/// Reads what these conversations have to tell.
pub(crate) async fn plan(store: &dyn Store, ids: &[ConversationId], push_at: Option<Timestamp>) -> Vec<Placement> {
    let lags = store.lags_of(ids, SINCE).await.unwrap();
    let found = store.unplaced(&lags, 500).await.unwrap();
    let all = lags.iter().zip(&found);
    all.map(|(lag, found)| placement(lag, found, push_at)).collect()
}

/// Places everything that these conversations have to tell.
pub(crate) async fn place(store: &dyn Store, placer: &mut dyn Placer, ids: &[ConversationId]) {
    let placements = plan(store, ids, None).await;
    let placed = placer.place(&placements, &[], at(50)).await.unwrap();
    assert_eq!(placed.moved, 0);
}

async fn log(store: &dyn Store) -> Vec<PlacedNotice> {
    store.events_after(EventNo::ZERO, 10_000).await.unwrap()
}

fn words(events: &[PlacedNotice]) -> Vec<String> {
    let word = |placed: &PlacedNotice| {
        let (seq, change_seq) = (placed.notice.seq, placed.notice.change_seq);
        let number = seq.map_or_else(|| format!("c{}", change_seq.unwrap()), |seq| format!("m{seq}"));
        format!("{} {} {number}", placed.event_no, placed.notice.notice_type.as_str())
    };
    events.iter().map(word).collect()
}

fn edit(text: &str) -> Touch {
    Touch::Edit(Content::trusted(&format!("{{\"text\":\"{text}\"}}")))
}

pub(crate) async fn what_a_conversation_tells_gets_places_in_its_order_and_once(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut writer, mut placer) = (store.writer(), store.placer());
    let mut room = Held::group(&mut *writer, ANNA, &[BEN]).await;
    room.commit(&mut *writer, &[send(ANNA, "a", "one"), send(BEN, "b", "two")])
        .await;
    place(store, &mut *placer, &[room.id]).await;
    let two = store.messages_after(room.id, Seq::new(2), 1).await.unwrap().remove(0);
    room.touch(store, BEN, two.message_id, edit("zwei")).await;
    let leave = Command::RemoveMember {
        origin: origin(BEN),
        target: BEN,
    };
    room.commit(&mut *writer, &[leave]).await;
    place(store, &mut *placer, &[room.id]).await;
    assert_eq!(plan(store, &[room.id], None).await.len(), 0, "nothing is left");
    let events = log(store).await;
    let expected = [
        "1 message.created m1",
        "2 message.created m2",
        "3 message.created m3",
        "4 message.edited c1",
        "5 message.created m4",
        "6 member.removed c2",
    ];
    assert_eq!(words(&events), expected);
    assert_eq!(events[3].notice.message_id, Some(two.message_id));
    assert_eq!(
        (events[3].placed_at, events[3].notice.conversation_id),
        (at(50), room.id)
    );
    assert_eq!(store.log_state().await.unwrap().newest, EventNo::new(6));
    assert_eq!(store.events_after(EventNo::new(2), 2).await.unwrap(), events[2..4]);
}

pub(crate) async fn what_another_process_has_placed_is_not_placed_again(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut room = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let other = Held::group(&mut *writer, ANNA, &[]).await;
    let ids = [room.id, other.id];
    let (mine, theirs) = (plan(store, &ids, None).await, plan(store, &[room.id], None).await);
    assert_eq!(store.placer().place(&theirs, &[], at(1)).await.unwrap().moved, 0);
    let placed = store.placer().place(&mine, &[], at(2)).await.unwrap();
    assert_eq!(
        (placed.moved, placed.newest),
        (1, EventNo::new(2)),
        "its neighbour is placed"
    );
    // The same again, when there is a row and when there is more to tell.
    room.commit(&mut *writer, &[send(ANNA, "a", "one")]).await;
    let again = plan(store, &ids, None).await;
    assert_eq!(again.len(), 1);
    for moved in [0, 1] {
        assert_eq!(store.placer().place(&again, &[], at(3)).await.unwrap().moved, moved);
    }
    assert_eq!(log(store).await.len(), 3);
}

pub(crate) async fn b46_a_reader_beside_many_placers_never_skips_an_event(fixture: &Fixture) {
    const PLACERS: usize = 6;
    const ROUNDS: usize = 12;
    let store = &*fixture.store;
    let mut rooms = Vec::new();
    for _ in 0..PLACERS {
        rooms.push(Held::group(&mut *store.writer(), ANNA, &[BEN]).await);
    }
    let ids: Vec<ConversationId> = rooms.iter().map(|room| room.id).collect();
    let working = AtomicUsize::new(PLACERS);
    let places = rooms.iter_mut().map(|room| async {
        let (mut writer, mut placer) = (store.writer(), store.placer());
        for round in 0..ROUNDS {
            room.commit(&mut *writer, &[send(ANNA, &format!("{round}"), "x")]).await;
            // Each places what it finds anywhere: they get into each other's way.
            let plan = plan(store, &ids, None).await;
            placer.place(&plan, &[], at(50)).await.unwrap();
        }
        working.fetch_sub(1, Ordering::SeqCst);
    });
    let reading = async {
        let mut read: Vec<PlacedNotice> = Vec::new();
        loop {
            let done = working.load(Ordering::SeqCst) == 0;
            let after = read.last().map_or(EventNo::ZERO, |last| last.event_no);
            let page = store.events_after(after, 7).await.unwrap();
            if done && page.is_empty() {
                return read;
            }
            read.extend(page);
            tokio::task::yield_now().await;
        }
    };
    let (_, read) = tokio::join!(futures_util::future::join_all(places), reading);
    let left = plan(store, &ids, None).await;
    store.placer().place(&left, &[], at(60)).await.unwrap();
    let all = log(store).await;
    assert_eq!(read, all[..read.len()], "what was read is the log as it is");
    let numbers: Vec<i64> = all.iter().map(|event| event.event_no.get()).collect();
    assert_eq!(numbers, (1..).take(all.len()).collect::<Vec<i64>>());
    for id in ids {
        let own = all.iter().filter(|event| event.notice.conversation_id == id);
        let seqs: Vec<i64> = own.map(|event| event.notice.seq.unwrap().get()).collect();
        let expected = i64::try_from(ROUNDS).unwrap() + 1;
        assert_eq!(seqs, (1..=expected).collect::<Vec<i64>>());
    }
}

pub(crate) async fn what_was_there_before_events_were_wanted_is_not_told(fixture: &Fixture) {
    let store = &*fixture.store;
    assert_eq!(store.log_state().await.unwrap().active_since, None);
    store.wake_log(SINCE).await.unwrap();
    store.wake_log(at(99)).await.unwrap();
    assert_eq!(store.log_state().await.unwrap().active_since, Some(SINCE));
    let mut writer = store.writer();
    let mut room = Held::new();
    room.now = NOW - 1_000;
    room.commit(&mut *writer, &[super::builder::group(ANNA, &[BEN])]).await;
    let old: Vec<Command> = (0..200).map(|n| send(ANNA, &format!("old{n}"), "x")).collect();
    room.commit(&mut *writer, &old).await;
    let message = store.messages_after(room.id, Seq::new(1), 1).await.unwrap().remove(0);
    room.touch(store, ANNA, message.message_id, edit("before")).await;
    assert_eq!(store.lags_of(&[room.id], SINCE).await.unwrap(), []);
    room.now = NOW;
    let new: Vec<Command> = (0..150).map(|n| send(ANNA, &format!("new{n}"), "x")).collect();
    room.commit(&mut *writer, &new).await;
    room.touch(store, ANNA, message.message_id, edit("after")).await;
    let lag = store.lags_of(&[room.id], SINCE).await.unwrap().remove(0);
    assert_eq!((lag.row, lag.from), (None, (Seq::new(201), ChangeSeq::new(1))));
    assert_eq!(lag.head, (Seq::new(351), ChangeSeq::new(2)));
    place(store, &mut *store.placer(), &[room.id]).await;
    assert_eq!(log(store).await.len(), 151);
    // In another period the row says nothing: what came in between is not told either.
    room.commit(&mut *writer, &[send(ANNA, "between", "x")]).await;
    let later = at(room.now - NOW + 1);
    assert_eq!(store.lags_of(&[room.id], later).await.unwrap(), []);
    assert_eq!(store.lags_of(&[room.id], SINCE).await.unwrap().len(), 1);
}

pub(crate) async fn a_walk_finds_every_conversation_that_lags(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut rooms = Vec::new();
    for _ in 0..5 {
        rooms.push(Held::group(&mut *store.writer(), ANNA, &[]).await.id);
    }
    place(store, &mut *store.placer(), &[rooms[1], rooms[3]]).await;
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page = store.lags(after, 2, SINCE).await.unwrap();
        found.extend(page.lags.iter().map(|lag| lag.conversation_id));
        after = page.last;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, [rooms[0], rooms[2], rooms[4]]);
}

pub(crate) async fn a_long_log_is_placed_in_pieces(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut writer, mut placer) = (store.writer(), store.placer());
    let mut room = Held::group(&mut *writer, ANNA, &[]).await;
    let sends: Vec<Command> = (0..24).map(|n| send(ANNA, &format!("{n}"), "x")).collect();
    room.commit(&mut *writer, &sends).await;
    let last = store.messages_after(room.id, Seq::new(24), 1).await.unwrap().remove(0);
    room.touch(store, ANNA, last.message_id, edit("y")).await;
    loop {
        let lags = store.lags_of(&[room.id], SINCE).await.unwrap();
        let Some(lag) = lags.first() else { break };
        let found = store.unplaced(&lags, 10).await.unwrap().remove(0);
        assert!(found.messages.len() <= 10);
        placer.place(&[placement(lag, &found, None)], &[], at(1)).await.unwrap();
    }
    let events = log(store).await;
    assert_eq!(events.len(), 26);
    assert_eq!(events[25].notice.notice_type, NoticeType::MessageEdited);
}

pub(crate) async fn the_oldest_events_are_forgotten_a_few_at_a_time(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut room = Held::group(&mut *writer, ANNA, &[]).await;
    for n in 0..5 {
        room.commit(&mut *writer, &[send(ANNA, &format!("{n}"), "x")]).await;
        let plan = plan(store, &[room.id], None).await;
        store.placer().place(&plan, &[], at(n * 10)).await.unwrap();
    }
    assert_eq!(store.oldest_event().await.unwrap(), Some(EventNo::new(1)));
    assert_eq!(store.forget_events(at(0), 100).await.unwrap(), 0);
    assert_eq!(store.forget_events(at(30), 3).await.unwrap(), 3);
    assert_eq!(store.forget_events(at(30), 100).await.unwrap(), 1);
    assert_eq!(store.oldest_event().await.unwrap(), Some(EventNo::new(5)));
    assert_eq!(store.forget_events(at(999), 100).await.unwrap(), 2);
    assert_eq!(store.oldest_event().await.unwrap(), None);
    room.commit(&mut *writer, &[send(ANNA, "z", "x")]).await;
    place(store, &mut *store.placer(), &[room.id]).await;
    assert_eq!(
        words(&log(store).await),
        ["7 message.created m7"],
        "no place is given twice"
    );
}

pub(crate) async fn a_log_that_nobody_reads_rests(fixture: &Fixture) {
    let store = &*fixture.store;
    store.wake_log(at(0)).await.unwrap();
    store.feed_asked(at(10)).await.unwrap();
    store.rest_log(at(10)).await.unwrap();
    let state = store.log_state().await.unwrap();
    assert_eq!((state.active_since, state.feed_asked_at), (Some(at(0)), at(10)));
    store.rest_log(at(11)).await.unwrap();
    assert_eq!(store.log_state().await.unwrap().active_since, None);
    store.wake_log(at(12)).await.unwrap();
    assert_eq!(store.log_state().await.unwrap().active_since, Some(at(12)));
}

pub(crate) async fn a_message_waits_to_be_looked_for_and_is_looked_for_once(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut writer, mut placer) = (store.writer(), store.placer());
    let mut room = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let placements = plan(store, &[room.id], Some(at(100))).await;
    placer.place(&placements, &[], at(0)).await.unwrap();
    assert_eq!(store.pushes_due(at(999), 9).await.unwrap(), [], "what the server says");
    for (n, due) in [(2, 100), (3, 150)] {
        room.commit(&mut *writer, &[send(ANNA, &format!("{n}"), "x")]).await;
        let placements = plan(store, &[room.id], Some(at(due))).await;
        placer.place(&placements, &[], at(0)).await.unwrap();
    }
    assert_eq!(store.pushes_due(at(99), 9).await.unwrap(), []);
    let due = PushDue {
        conversation_id: room.id,
        told: Seq::new(1),
        last: Seq::new(3),
        due_at: at(100),
    };
    assert_eq!(store.pushes_due(at(100), 9).await.unwrap(), [due]);
    let looked = |told, again| PushPlacement {
        due,
        notices: Vec::new(),
        told: Seq::new(told),
        again_at: at(again),
    };
    assert_eq!(placer.place(&[], &[looked(2, 200)], at(0)).await.unwrap().moved, 0);
    assert_eq!(
        placer.place(&[], &[looked(2, 300)], at(0)).await.unwrap().moved,
        1,
        "once"
    );
    assert_eq!(store.pushes_due(at(199), 9).await.unwrap(), []);
    let rest = store.pushes_due(at(200), 9).await.unwrap().remove(0);
    assert_eq!((rest.told, rest.last), (Seq::new(2), Seq::new(3)));
    let done = PushPlacement {
        due: rest,
        ..looked(3, 400)
    };
    assert_eq!(placer.place(&[], &[done], at(0)).await.unwrap().moved, 0);
    assert_eq!(store.pushes_due(at(999), 9).await.unwrap(), []);
}

pub(crate) async fn absent_is_who_has_neither_read_nor_acknowledged_and_wants_to_know(fixture: &Fixture) {
    let store = &*fixture.store;
    let members: Vec<Principal> = (0..8).map(|_| Principal::user(next_id())).collect();
    let [muted, reader, acked, disabled, left, early, away, bot] = members[..] else {
        panic!()
    };
    let bot = Principal::agent(bot.id);
    let mut writer = store.writer();
    let mut room = Held::group(
        &mut *writer,
        ANNA,
        &[muted, reader, acked, disabled, left, early, away, bot],
    )
    .await;
    room.commit(&mut *writer, &[send(ANNA, "a", "x"), send(ANNA, "b", "y")])
        .await;
    let leave = Command::RemoveMember {
        origin: origin(left),
        target: left,
    };
    room.commit(&mut *writer, &[leave]).await;
    Inbox::of(store, muted).await.does(store, &[mute(&room)]).await;
    Inbox::of(store, reader).await.does(store, &[read(&room, 3)]).await;
    acknowledge(store, room.id, acked, 3).await;
    acknowledge(store, room.id, early, 2).await;
    disable(store, disabled).await;
    let newest = store
        .missable(room.id, (Seq::ZERO, Seq::new(4)), at(9_999))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(newest.seq, Seq::new(3));
    let absent = |message: Missable, after, limit| store.absent(room.id, message, after, limit);
    assert_eq!(absent(newest, None, 9).await.unwrap(), [early, away, bot]);
    assert_eq!(absent(newest, None, 2).await.unwrap(), [early, away]);
    assert_eq!(absent(newest, Some(early), 9).await.unwrap(), [away, bot]);
    let older = store
        .missable(room.id, (Seq::ZERO, Seq::new(2)), at(9_999))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (older.seq, absent(older, None, 9).await.unwrap()),
        (Seq::new(2), vec![away, bot])
    );
    assert_eq!(
        store
            .missable(room.id, (Seq::new(3), Seq::new(4)), at(9_999))
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        store.missable(room.id, (Seq::ZERO, Seq::new(4)), at(0)).await.unwrap(),
        None,
        "too young"
    );
    room.touch(store, ANNA, newest.message_id, recall()).await;
    let stands = store
        .missable(room.id, (Seq::ZERO, Seq::new(4)), at(9_999))
        .await
        .unwrap();
    assert_eq!(stands, Some(older));
}

async fn acknowledge(store: &dyn Store, conversation_id: ConversationId, who: Principal, seq: i64) {
    let device = DeviceId::parse("phone").unwrap();
    let ack = DeviceCursor {
        conversation_id,
        seq: Seq::new(seq),
        change_seq: ChangeSeq::ZERO,
    };
    store.acknowledge(who, &device, &[ack], at(1)).await.unwrap();
}

async fn disable(store: &dyn Store, disabled: Principal) {
    let patch = ProfilePatch {
        status: Some(PrincipalStatus::Disabled),
        ..ProfilePatch::default()
    };
    store.provision(&[disabled], at(0)).await.unwrap();
    assert!(store.update_profile(disabled, &patch, at(1)).await.unwrap());
}

fn recall() -> Touch {
    Touch::Recall {
        received_at: at(0),
        window_ms: 999_999_999,
    }
}

pub(crate) async fn b80_unread_totals_are_those_of_the_list(fixture: &Fixture) {
    let store = &*fixture.store;
    let (one, two, bot) = (
        Principal::user(next_id()),
        Principal::user(next_id()),
        Principal::agent(next_id()),
    );
    let mut writer = store.writer();
    let mut rooms = Vec::new();
    for n in 1..4 {
        let mut room = Held::group(&mut *writer, ANNA, &[one, two, bot]).await;
        let sends: Vec<Command> = (0..n).map(|n| send(ANNA, &format!("{n}"), "x")).collect();
        room.commit(&mut *writer, &sends).await;
        rooms.push(room);
    }
    Inbox::of(store, two)
        .await
        .does(store, &[mute(&rooms[2]), read(&rooms[1], 2)])
        .await;
    Inbox::of(store, bot)
        .await
        .does(store, &[read(&rooms[0], 9), read(&rooms[1], 9), read(&rooms[2], 9)])
        .await;
    let mut totals = store.unread_totals(&[one, two, bot]).await.unwrap();
    totals.sort_unstable();
    assert_eq!(totals, [(one, 6), (two, 2)]);
    for (who, total) in totals {
        let listed = store.unread(who).await.unwrap();
        let listed = listed.iter().filter(|unread| !unread.muted);
        assert_eq!(listed.map(|unread| unread.unread_count).sum::<u64>(), total);
    }
}
