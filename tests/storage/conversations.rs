//! Conversations, members and their read positions.

use onescribe::domain::{
    ChangeSeq, ChangeType, Command, CountNo, Kind, MessageType, Principal, Role, Seq, Status, Timestamp,
};
use onescribe::storage::{ListPosition, MemberPosition};

use super::builder::{Held, create, header, origin, send};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);
const CARLA: Principal = Principal::user(3);

fn add(actor: Principal, members: &[Principal]) -> Command {
    Command::AddMembers {
        origin: origin(actor),
        members: members.to_vec(),
    }
}

fn remove(actor: Principal, target: Principal) -> Command {
    Command::RemoveMember {
        origin: origin(actor),
        target,
    }
}

async fn read_position(fixture: &Fixture, held: &Held, viewer: Principal) -> (i64, i64) {
    let seen = fixture.store.seen(held.id, viewer).await.unwrap().unwrap();
    let membership = seen.membership.unwrap();
    (membership.last_read_seq.get(), membership.last_read_count_no.get())
}

pub(crate) async fn sending_moves_the_senders_read_position_forward_only(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN, CARLA]).await;
    assert_eq!(read_position(fixture, &held, ANNA).await, (1, 0));
    let sends = [
        send(ANNA, "1", "x"),
        send(BEN, "2", "x"),
        send(ANNA, "3", "x"),
        send(BEN, "4", "x"),
    ];
    held.commit(&mut *writer, &sends).await;
    assert_eq!(read_position(fixture, &held, ANNA).await, (4, 3));
    assert_eq!(read_position(fixture, &held, BEN).await, (5, 4));
    assert_eq!(read_position(fixture, &held, CARLA).await, (1, 0));
    held.commit(&mut *writer, &[send(CARLA, "5", "x")]).await;
    assert_eq!(read_position(fixture, &held, ANNA).await, (4, 3));
    assert_eq!(read_position(fixture, &held, CARLA).await, (6, 5));
}

pub(crate) async fn who_joins_has_nothing_unread(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    held.commit(&mut *writer, &[send(ANNA, "1", "x"), send(ANNA, "2", "x")])
        .await;
    held.commit(&mut *writer, &[add(ANNA, &[BEN]), send(ANNA, "3", "x")])
        .await;
    let seen = fixture.store.seen(held.id, BEN).await.unwrap().unwrap();
    let membership = seen.membership.unwrap();
    assert_eq!(membership.member.joined_seq, Seq::new(4));
    assert_eq!(
        (membership.last_read_seq, membership.last_read_count_no),
        (Seq::new(4), CountNo::new(2))
    );
    assert_eq!(seen.head.last_count_no, CountNo::new(3), "one of them is unread");
    let mut direct = Held::new();
    direct
        .commit(&mut *writer, &[create(Kind::Direct, ANNA, &[BEN], None)])
        .await;
    assert_eq!(read_position(fixture, &direct, BEN).await, (0, 0));
}

pub(crate) async fn who_left_is_no_member_and_may_come_back(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    held.commit(&mut *writer, &[send(BEN, "1", "x"), remove(BEN, BEN)])
        .await;
    assert!(store.seen(held.id, BEN).await.unwrap().unwrap().membership.is_none());
    assert_eq!(store.access(held.id, BEN).await.unwrap().unwrap().1, None);
    assert!(store.ids_of(BEN).await.unwrap().is_empty());
    assert!(store.list(BEN, None, 10).await.unwrap().is_empty());
    assert_eq!(store.members(held.id, None, 10).await.unwrap().len(), 1);
    assert!(store.load(held.id).await.unwrap().unwrap().members.get(BEN).is_none());

    held.commit(&mut *writer, &[send(ANNA, "2", "x"), add(ANNA, &[BEN])])
        .await;
    let membership = store.seen(held.id, BEN).await.unwrap().unwrap().membership.unwrap();
    assert_eq!(Some(membership.member), held.state.as_ref().unwrap().members.get(BEN));
    assert_eq!(
        (membership.last_read_seq, membership.last_read_count_no),
        (Seq::new(5), CountNo::new(2))
    );
    assert_eq!(store.ids_of(BEN).await.unwrap(), vec![held.id]);
    // All within one batch: the last word counts.
    let back_and_forth = [
        remove(ANNA, BEN),
        add(ANNA, &[BEN]),
        remove(BEN, BEN),
        add(ANNA, &[BEN]),
    ];
    held.commit(&mut *writer, &back_and_forth).await;
    assert_eq!(
        store.load(held.id).await.unwrap().unwrap().members,
        held.state.as_ref().unwrap().members
    );
}

pub(crate) async fn when_somebody_last_joined_is_known_also_of_former_members(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let joined = async |held: &Held| fixture.store.last_joined(held.id, BEN).await.unwrap();
    let in_it = |held: &Held| held.state.as_ref().unwrap().members.get(BEN).unwrap().joined_at;
    let founded = in_it(&held);
    held.commit(&mut *writer, &[remove(ANNA, BEN)]).await;
    assert_eq!(joined(&held).await, Some(founded));
    held.now += 1_000;
    held.commit(&mut *writer, &[add(ANNA, &[BEN])]).await;
    let again = in_it(&held);
    assert!(again > founded);
    assert_eq!(joined(&held).await, Some(again));
    assert_eq!(fixture.store.last_joined(held.id, CARLA).await.unwrap(), None);
}

pub(crate) async fn the_owner_who_leaves_hands_over(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    held.commit(&mut *writer, &[remove(ANNA, ANNA)]).await;
    let loaded = store.load(held.id).await.unwrap().unwrap();
    assert_eq!(loaded.header.owner, Some(BEN));
    assert_eq!(loaded.members.get(BEN).unwrap().role, Role::Owner);
    held.commit(&mut *writer, &[remove(BEN, BEN)]).await;
    let (stored, _) = store.access(held.id, BEN).await.unwrap().unwrap();
    assert_eq!((stored.status, stored.owner), (Status::Dissolved, None));
    assert_eq!(&stored, &*header(&held));
    assert_eq!(store.seen(held.id, ANNA).await.unwrap().unwrap().member_count, 0);
}

pub(crate) async fn a_conversation_is_seen_as_its_viewer_sees_it(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    held.commit(&mut *writer, &[send(BEN, "1", "newest")]).await;
    let seen = store.seen(held.id, ANNA).await.unwrap().unwrap();
    assert_eq!(&seen.header, &*header(&held));
    assert_eq!(seen.head, held.state.as_ref().unwrap().head);
    assert_eq!(seen.member_count, 2);
    let membership = seen.membership.unwrap();
    assert_eq!(membership.member.role, Role::Owner);
    assert!(!membership.muted && !membership.pinned && !membership.marked_unread);
    let last = seen.last_message.unwrap();
    assert_eq!(
        (last.message.seq, last.message.message_type),
        (Seq::new(2), MessageType::Text)
    );
    let stranger = store.seen(held.id, CARLA).await.unwrap().unwrap();
    assert!(stranger.membership.is_none());
    assert!(
        store
            .seen(super::builder::conversation_id(), ANNA)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        store
            .access(super::builder::conversation_id(), ANNA)
            .await
            .unwrap()
            .is_none()
    );
    let (_, member) = store.access(held.id, BEN).await.unwrap().unwrap();
    assert_eq!(
        member.map(|own| own.member),
        held.state.as_ref().unwrap().members.get(BEN)
    );
}

pub(crate) async fn the_list_goes_by_latest_activity_page_by_page(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut all = Vec::new();
    for number in 0..7 {
        let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
        // Two of them at the same millisecond: the higher id comes first.
        held.now += 10 * (number / 2);
        held.commit(&mut *writer, &[send(ANNA, "k", "x")]).await;
        all.push((held.state.as_ref().unwrap().head.last_activity_at, held.id));
    }
    Held::group(&mut *writer, CARLA, &[]).await;
    all.sort_unstable();
    all.reverse();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(BEN, after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(ListPosition {
            pinned: last.membership.unwrap().pinned,
            last_activity_at: last.head.last_activity_at,
            conversation_id: last.header.conversation_id,
        });
        listed.extend(
            page.iter()
                .map(|seen| (seen.head.last_activity_at, seen.header.conversation_id)),
        );
    }
    assert_eq!(listed, all);
    assert_eq!(store.list(ANNA, None, 100).await.unwrap().len(), 7);
}

pub(crate) async fn the_member_list_goes_by_joining_page_by_page(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, BEN, &[ANNA, Principal::agent(1)]).await;
    held.commit(&mut *writer, &[add(BEN, &[Principal::user(50), Principal::user(7)])])
        .await;
    held.commit(&mut *writer, &[add(BEN, &[CARLA])]).await;
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = store.members(held.id, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(MemberPosition {
            joined_seq: last.joined_seq,
            principal: last.principal,
        });
        listed.extend(page.iter().map(|member| member.principal));
    }
    let expected = [
        ANNA,
        BEN,
        Principal::agent(1),
        Principal::user(7),
        Principal::user(50),
        CARLA,
    ];
    assert_eq!(listed, expected);
}

pub(crate) async fn changes_are_numbered_and_read_in_order(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    held.commit(&mut *writer, &[add(ANNA, &[BEN]), add(ANNA, &[CARLA])])
        .await;
    held.commit(&mut *writer, &[remove(ANNA, BEN)]).await;
    let changes = store.changes_after(held.id, ChangeSeq::ZERO, 10).await.unwrap();
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change.change_seq.get(), change.change_type))
        .collect();
    let (added, removed) = (ChangeType::MemberAdded, ChangeType::MemberRemoved);
    assert_eq!(told, vec![(1, added), (2, added), (3, removed)]);
    assert_eq!(changes[0].actor, ANNA);
    assert_eq!(
        changes[2].payload.as_ref().unwrap().as_str(),
        r#"{"members":[{"type":"USER","id":"2"}],"reason":"REMOVED"}"#
    );
    assert!(changes[2].changed_at > Timestamp::default());
    assert_eq!(
        store.changes_after(held.id, ChangeSeq::new(1), 1).await.unwrap(),
        changes[1..2]
    );
}

pub(crate) async fn the_ledger_tells_the_stored_counters(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let mut held = Held::group(&mut *writer, ANNA, &[BEN, CARLA]).await;
        held.commit(&mut *writer, &[send(BEN, "k", "x"), remove(ANNA, CARLA)])
            .await;
        let ledger = store.ledger(held.id).await.unwrap().unwrap();
        assert_eq!(ledger.head, held.state.as_ref().unwrap().head);
        assert_eq!(&ledger.header, &*header(&held));
        assert_eq!(
            (ledger.member_count, ledger.member_rows, ledger.highest_read_seq),
            (2, 2, Seq::new(2))
        );
        ids.push(held.id);
    }
    assert_eq!(store.conversation_ids(None, 3).await.unwrap(), ids[..3]);
    assert_eq!(store.conversation_ids(Some(ids[2]), 3).await.unwrap(), ids[3..]);
    assert!(store.ledger(super::builder::conversation_id()).await.unwrap().is_none());
}
