//! What users do with messages for themselves: listed while they may see them, and kept.

use onescribe::domain::{
    Action, ActionType, Command, HeaderPatch, HistoryVisibility, MessageId, Personal, Principal, Seq, Touch,
};
use onescribe::storage::ActionPosition;

use super::builder::{Held, origin, send};
use super::own::{ANNA, BEN, Inbox, clear, four, remove, set, unset};
use super::suite::Fixture;

pub(crate) async fn actions_are_listed_by_type_the_newest_message_first(fixture: &Fixture) {
    let store = &*fixture.store;
    let (_, messages) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    let acts: Vec<Personal> = messages
        .iter()
        .map(|message| set(message, ActionType::Favorite))
        .chain([
            set(&messages[2], ActionType::Delete),
            unset(&messages[2], ActionType::Favorite),
        ])
        .collect();
    inbox.does(store, &acts).await;
    let ids = |found: Vec<Action>| -> Vec<(ActionType, MessageId)> {
        found
            .iter()
            .map(|action| (action.action_type, action.message_id))
            .collect()
    };
    let favorite = |at: usize| (ActionType::Favorite, messages[at].message_id);
    let all = ids(store.actions(BEN, None, None, 10).await.unwrap());
    assert_eq!(
        all,
        [
            (ActionType::Delete, messages[2].message_id),
            favorite(3),
            favorite(1),
            favorite(0)
        ]
    );
    let after = ActionPosition {
        action_type: ActionType::Favorite,
        message_id: messages[3].message_id,
    };
    let page = store
        .actions(BEN, Some(ActionType::Favorite), Some(after), 1)
        .await
        .unwrap();
    assert_eq!(ids(page), [favorite(1)]);
    assert_eq!(store.actions(ANNA, None, None, 10).await.unwrap(), vec![]);
    let kept = store.actionable(messages[2].message_id, BEN).await.unwrap().unwrap();
    assert_eq!(
        kept.action(ActionType::Favorite).map(|action| action.active),
        Some(false)
    );
    assert!(kept.counts && kept.visible);
}

pub(crate) async fn actions_on_what_may_not_be_seen_are_kept_and_not_listed(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut room, messages) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    let favorites: Vec<Personal> = messages
        .iter()
        .map(|message| set(message, ActionType::Favorite))
        .collect();
    inbox.does(store, &favorites).await;
    let listed = async || {
        let found = store.actions(BEN, None, None, 10).await.unwrap();
        let listed = found.iter().map(|action| (action.action_type, action.seq.get()));
        listed.collect::<Vec<_>>()
    };
    let favorite = |seq: i64| (ActionType::Favorite, seq);
    assert_eq!(listed().await, [favorite(5), favorite(4), favorite(3), favorite(2)]);
    room.touch(store, ANNA, messages[1].message_id, Touch::Delete).await;
    let hides = [clear(&room, 2), set(&messages[3], ActionType::Delete)];
    inbox.does(store, &hides).await;
    assert_eq!(listed().await, [(ActionType::Delete, 5), favorite(4)]);
    let known = async |at: usize, who| store.actionable(messages[at].message_id, who).await.unwrap().unwrap();
    for (at, visible, counts) in [(0, false, true), (1, false, false), (2, true, true), (3, true, true)] {
        let found = known(at, BEN).await;
        assert_eq!((found.visible, found.counts), (visible, counts), "{at}");
        assert!(found.action(ActionType::Favorite).is_some_and(|action| action.active));
    }
    inbox.does(store, &[unset(&messages[1], ActionType::Favorite)]).await;
    room.commit(&mut *store.writer(), &[remove(BEN)]).await;
    assert_eq!(listed().await, []);
    assert!(!known(2, BEN).await.visible && known(2, ANNA).await.visible);
    let stranger = known(2, Principal::user(99)).await;
    assert!(!stranger.visible && stranger.actions.is_empty());
    inbox.does(store, &[unset(&messages[2], ActionType::Favorite)]).await;
    let back = Command::AddMembers {
        origin: origin(ANNA),
        members: vec![BEN],
    };
    room.commit(&mut *store.writer(), &[back]).await;
    assert_eq!(listed().await, [(ActionType::Delete, 5)], "taken back while away");
    inbox.does(store, &[unset(&messages[3], ActionType::Delete)]).await;
    assert_eq!(listed().await, [favorite(5)], "kept while deleted");
}

pub(crate) async fn in_a_group_that_hides_its_past_actions_of_an_earlier_membership_are_not_listed(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut room = Held::group(&mut *store.writer(), ANNA, &[BEN]).await;
    let patch = HeaderPatch {
        history_visibility: Some(HistoryVisibility::Joined),
        ..HeaderPatch::default()
    };
    let update = Command::Update {
        origin: origin(ANNA),
        patch,
    };
    room.commit(&mut *store.writer(), &[update, send(ANNA, "one", "x")])
        .await;
    let last = store.messages_after(room.id, Seq::new(1), 10).await.unwrap();
    let last = last.last().unwrap();
    let mut inbox = Inbox::of(store, BEN).await;
    inbox.does(store, &[set(last, ActionType::Favorite)]).await;
    assert_eq!(store.actions(BEN, None, None, 10).await.unwrap().len(), 1);
    let back = Command::AddMembers {
        origin: origin(ANNA),
        members: vec![BEN],
    };
    room.commit(&mut *store.writer(), &[remove(BEN), back]).await;
    assert_eq!(store.actions(BEN, None, None, 10).await.unwrap(), []);
    assert!(!store.actionable(last.message_id, BEN).await.unwrap().unwrap().visible);
}
