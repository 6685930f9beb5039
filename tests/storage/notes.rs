//! What users are told in their INBOX, contacts and blocks: rows of their own, written with commits of an INBOX.

use onescribe::domain::{
    ActionType, ChangeSeq, ChangeType, Command, Conclusion, ConversationId, CreationKey, Event, Kind, Message,
    MessageId, Notification, NotificationAnswer, NotificationKey, NotificationKind, NotificationState, Notify, Outcome,
    Personal, Principal, ProfilePatch, Seq, Ties, Timestamp, Touch,
};
use onescribe::storage::{CommitError, DueNotification, Store};

use super::builder::{Held, NOW, create, next_id, origin};
use super::own::{ANNA, BEN, Inbox, set};
use super::suite::Fixture;

const CARL: Principal = Principal::user(3);
/// Same number, other kind.
const BOT: Principal = Principal::agent(3);

fn ask(from: Principal, due: i64) -> Command {
    Command::Notify(Notify {
        to: BEN,
        kind: NotificationKind::FriendRequest,
        from,
        key: NotificationKey::friend_request(from),
        ask_again_ms: 0,
        text: Some("Ä, it's me 🎉".to_owned()),
        conversation_id: None,
        payload: None,
        expires_at: Some(Timestamp::from_millis(due)),
    })
}

fn invite(from: Principal, group: i64) -> Command {
    let group = ConversationId::new(group).unwrap();
    Command::Notify(Notify {
        to: BEN,
        kind: NotificationKind::GroupInvite,
        from,
        key: NotificationKey::invite(from, group),
        ask_again_ms: 0,
        text: None,
        conversation_id: Some(group),
        payload: None,
        expires_at: Some(Timestamp::from_millis(NOW * 2)),
    })
}

fn told(outcome: &Outcome) -> Notification {
    match outcome {
        Outcome::Notified(note) | Outcome::Noted(note, _) => Notification::clone(note),
        other => panic!("{other:?}"),
    }
}

fn answer(note: &Notification, answer: NotificationAnswer) -> Personal {
    Personal::Answer {
        notification_id: note.notification_id,
        answer,
    }
}

fn block(principal: Principal, blocked: bool) -> Personal {
    Personal::Block { principal, blocked }
}

fn ids(notes: &[Notification]) -> Vec<i64> {
    notes.iter().map(|note| note.notification_id.get()).collect()
}

async fn list(store: &dyn Store, state: Option<NotificationState>) -> Vec<Notification> {
    store.notifications(BEN, state, None, 10).await.unwrap()
}

async fn messages(store: &dyn Store, inbox: &Inbox) -> Vec<Message> {
    store.messages_after(inbox.id(), Seq::ZERO, 100).await.unwrap()
}

pub(crate) async fn a_notification_comes_back_as_it_is_and_so_does_its_message(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let asked = inbox.gets(store, &[ask(ANNA, NOW * 2), ask(BOT, NOW * 2)]).await;
    let (first, second) = (told(&asked[0]), told(&asked[1]));
    for note in [&first, &second] {
        let id = note.notification_id;
        assert_eq!(store.notification(id).await.unwrap().as_ref(), Some(note));
        assert_eq!(store.message(id).await.unwrap().unwrap().content, note.content());
        let key = NotificationKey::friend_request(note.from);
        assert_eq!(store.notification_by_key(BEN, &key).await.unwrap().as_ref(), Some(note));
        assert_eq!(store.notification_by_key(ANNA, &key).await.unwrap(), None);
    }
    let done = inbox.does(store, &[answer(&first, NotificationAnswer::Decline)]).await;
    let declined = told(&done[0]);
    assert_eq!(
        store.notification(first.notification_id).await.unwrap().as_ref(),
        Some(&declined)
    );
    let message = store.message(first.notification_id).await.unwrap().unwrap();
    assert_eq!((message.content, message.change_seq.get()), (declined.content(), 1));
    let changes = store.changes_after(inbox.id(), ChangeSeq::ZERO, 10).await.unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].change_type, ChangeType::NotificationUpdated);
    assert_eq!(changes[0].payload.as_ref(), Some(&declined.content()));
    // The key is free again, byte for byte that one.
    let again = inbox.gets(store, &[ask(ANNA, NOW * 2)]).await;
    assert!(matches!(again[0], Outcome::Notified(_)));
    let rows = store.notifications_after(Some(first.notification_id), 1).await.unwrap();
    assert_eq!(ids(&rows), [second.notification_id.get()]);
    let of = store
        .notifications_of(&[second.notification_id, MessageId::new(next_id()).unwrap()])
        .await
        .unwrap();
    assert_eq!(of, [second]);
}

pub(crate) async fn notifications_are_listed_newest_first_by_state_without_what_is_hidden(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let asked = inbox
        .gets(store, &[ask(ANNA, NOW), ask(CARL, NOW), ask(BOT, NOW)])
        .await;
    let notes: Vec<Notification> = asked.iter().map(told).collect();
    let [one, two, three] = [0, 1, 2].map(|at| notes[at].notification_id);
    assert_eq!(ids(&list(store, None).await), [three.get(), two.get(), one.get()]);
    let page = store.notifications(BEN, None, Some(three), 1).await.unwrap();
    assert_eq!(ids(&page), [two.get()]);
    assert_eq!(store.notifications(ANNA, None, None, 10).await.unwrap(), []);
    let decline = answer(&notes[1], NotificationAnswer::Decline);
    // Its time has not passed as the INBOX counts it.
    inbox.at(NOW - 10);
    inbox.does(store, &[decline]).await;
    assert_eq!(ids(&list(store, Some(NotificationState::Declined)).await), [two.get()]);
    assert_eq!(
        ids(&list(store, Some(NotificationState::Pending)).await),
        [three.get(), one.get()]
    );
    let told = messages(store, &inbox).await;
    inbox.does(store, &[set(&told[2], ActionType::Delete)]).await;
    assert_eq!(ids(&list(store, None).await), [two.get(), one.get()], "deleted for me");
    let clear = Personal::Clear {
        conversation_id: inbox.id(),
        up_to_seq: Seq::new(1),
    };
    inbox.does(store, &[clear]).await;
    assert_eq!(ids(&list(store, None).await), [two.get()], "cleared away");
}

pub(crate) async fn what_is_due_is_found_until_it_is_done(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let asked = inbox
        .gets(
            store,
            &[ask(ANNA, NOW + 900), ask(CARL, NOW + 800), ask(BOT, NOW + 700)],
        )
        .await;
    let [anna, carl, bot] = [0, 1, 2].map(|at| told(&asked[at]));
    let due = async |at: i64, after: Option<DueNotification>| {
        let found = store
            .notifications_due(Timestamp::from_millis(NOW + at), after, 1)
            .await
            .unwrap();
        found.into_iter().next()
    };
    assert_eq!(due(699, None).await, None);
    let (mut found, mut after) = (Vec::new(), None);
    while let Some(note) = due(900, after).await {
        after = DueNotification::of(&note);
        found.push(note);
    }
    assert_eq!(
        found,
        [bot.clone(), carl.clone(), anna.clone()],
        "the earliest first, page by page"
    );
    inbox.does(store, &[answer(&anna, NotificationAnswer::Accept)]).await;
    inbox.at(NOW + 1_000);
    let expire = |note: &Notification| Command::Conclude(Conclusion::Expire(note.notification_id));
    inbox.gets(store, &[expire(&carl), expire(&bot)]).await;
    assert_eq!(due(10_000, None).await, None, "accepted: somebody is carrying it out");
    let unfinished = due(60_000, None).await.unwrap();
    assert!(unfinished.is_unfinished() && unfinished.notification_id == anna.notification_id);
    // A device reads it in this moment, on what was known before.
    store.finish_notification(anna.notification_id).await.unwrap();
    store.finish_notification(anna.notification_id).await.unwrap();
    assert_eq!(due(60_000, None).await, None);
    assert_eq!(
        store.notification(carl.notification_id).await.unwrap().unwrap().state,
        NotificationState::Expired
    );
}

pub(crate) async fn what_was_carried_out_in_the_meantime_is_not_due_again(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let asked = inbox.gets(store, &[ask(ANNA, NOW * 2), ask(CARL, NOW * 2)]).await;
    let (read, done) = (told(&asked[0]), told(&asked[1]));
    let accept = answer(&done, NotificationAnswer::Accept);
    inbox.does(store, &[accept]).await;
    // Decided before it was done, stored after that.
    let late = Notification {
        read_at: Some(Timestamp::from_millis(7)),
        ..store.notification(done.notification_id).await.unwrap().unwrap()
    };
    let mut commit = inbox
        .does_later(store, &[answer(&read, NotificationAnswer::Read)])
        .await;
    commit.events.push(Event::NotificationChanged {
        notification: std::sync::Arc::new(late),
    });
    store.finish_notification(done.notification_id).await.unwrap();
    assert_eq!(store.writer().commit(&[commit]).await, vec![Ok(())]);
    let kept = store.notification(done.notification_id).await.unwrap().unwrap();
    assert_eq!((kept.read_at.unwrap().millis(), kept.due_at), (7, None));
}

pub(crate) async fn what_ends_in_the_commit_that_brings_it_is_stored_as_it_ended(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let blocking = Command::Personal {
        origin: origin(BEN),
        act: block(ANNA, true),
    };
    let asked = inbox.gets(store, &[ask(ANNA, NOW * 2), blocking]).await;
    let id = told(&asked[0]).notification_id;
    let note = store.notification(id).await.unwrap().unwrap();
    let message = store.message(id).await.unwrap().unwrap();
    assert_eq!(note.state, NotificationState::Declined);
    assert_eq!((message.content, message.change_seq.get()), (note.content(), 1));
}

pub(crate) async fn what_is_deleted_for_everyone_leaves_no_word_of_its_notification(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let asked = inbox.gets(store, &[ask(ANNA, NOW * 2)]).await;
    let note = told(&asked[0]);
    inbox.does(store, &[answer(&note, NotificationAnswer::Read)]).await;
    let delete = Command::Touch {
        origin: origin(Principal::SYSTEM),
        message_id: note.notification_id,
        touch: Touch::Delete,
    };
    // Also what this very commit says of it.
    let decline = Command::Personal {
        origin: origin(BEN),
        act: answer(&note, NotificationAnswer::Decline),
    };
    inbox.gets(store, &[decline, delete]).await;
    assert_eq!(store.notification(note.notification_id).await.unwrap(), None);
    assert_eq!(list(store, None).await, []);
    let changes = store.changes_after(inbox.id(), ChangeSeq::ZERO, 10).await.unwrap();
    assert_eq!(changes.len(), 3);
    assert!(changes.iter().all(|change| change.payload.is_none()), "{changes:?}");
}

pub(crate) async fn contacts_are_of_both_and_listed_by_type_and_id(fixture: &Fixture) {
    let store = &*fixture.store;
    let named = [ANNA, CARL, BOT];
    store.provision(&named, Timestamp::from_millis(NOW)).await.unwrap();
    let patch = ProfilePatch {
        display_name: Some(Some("Anna".to_owned())),
        ..ProfilePatch::default()
    };
    store
        .update_profile(ANNA, &patch, Timestamp::from_millis(NOW))
        .await
        .unwrap();
    let mut inbox = Inbox::of(store, BEN).await;
    for other in named {
        let asked = inbox.gets(store, &[ask(other, NOW * 2)]).await;
        inbox
            .does(store, &[answer(&told(&asked[0]), NotificationAnswer::Accept)])
            .await;
    }
    let names = async |after: Option<Principal>, limit: u32| {
        let found = store.contacts(BEN, after, limit).await.unwrap();
        found
            .into_iter()
            .map(|contact| (contact.principal, contact.display_name))
            .collect::<Vec<_>>()
    };
    let anna = (ANNA, Some("Anna".to_owned()));
    assert_eq!(names(None, 10).await, [anna.clone(), (CARL, None), (BOT, None)]);
    assert_eq!(names(None, 1).await, [anna]);
    assert_eq!(names(Some(ANNA), 1).await, [(CARL, None)]);
    assert_eq!(store.contacts(BOT, None, 10).await.unwrap()[0].principal, BEN);
    let ties = store.ties(BEN, BOT).await.unwrap();
    assert!(ties.contact.is_some() && ties == store.ties(BOT, BEN).await.unwrap());
    // Being told again changes nothing; an end is an end for both.
    inbox
        .does(
            store,
            &[
                Personal::EndContact { principal: BOT },
                Personal::EndContact { principal: BOT },
            ],
        )
        .await;
    assert_eq!(store.ties(BEN, BOT).await.unwrap(), Ties::default());
    assert_eq!(store.contacts(BOT, None, 10).await.unwrap(), []);
    assert_eq!(names(Some(CARL), 10).await, []);
}

pub(crate) async fn a_block_is_known_to_whoever_loads_the_direct(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut direct = Held::new();
    let key = Some(CreationKey::direct(ANNA, BEN));
    direct
        .commit(&mut *store.writer(), &[create(Kind::Direct, ANNA, &[BEN], key)])
        .await;
    let id = direct.id;
    let loaded = async || store.load(id).await.unwrap().unwrap().blockers;
    assert_eq!(loaded().await, []);
    let mut inbox = Inbox::of(store, BEN).await;
    inbox
        .does(store, &[block(ANNA, true), block(BOT, true), block(ANNA, true)])
        .await;
    assert_eq!(store.ties(ANNA, BEN).await.unwrap().blockers, [(BEN, false)]);
    assert_eq!(loaded().await, [BEN]);
    let blocks: Vec<Principal> = store
        .blocks(BEN, None, 10)
        .await
        .unwrap()
        .iter()
        .map(|block| block.principal)
        .collect();
    assert_eq!(blocks, [ANNA, BOT]);
    assert_eq!(store.blocks(BEN, Some(ANNA), 10).await.unwrap().len(), 1);
    assert_eq!(store.blocks(ANNA, None, 10).await.unwrap(), []);
    for (who, is) in [(ANNA, true), (BEN, false)] {
        assert_eq!(store.is_blocked_in(direct.id, who).await.unwrap(), is, "{who}");
    }
    // The other one is not told how far who they blocked has read.
    assert_eq!(
        store.position(direct.id, ANNA, Seq::ZERO).await.unwrap().unwrap().peer,
        None
    );
    assert_eq!(
        store.position(direct.id, BEN, Seq::ZERO).await.unwrap().unwrap().peer,
        None
    );
    direct.heed_blocks(store, (ANNA, BEN)).await;
    assert_eq!(store.ties(ANNA, BEN).await.unwrap().blockers, [(BEN, true)]);
    inbox.does(store, &[block(ANNA, false)]).await;
    assert_eq!(store.ties(ANNA, BEN).await.unwrap(), Ties::default());
    assert_eq!(loaded().await, []);
    assert_eq!(
        store.position(direct.id, ANNA, Seq::ZERO).await.unwrap().unwrap().peer,
        Some(BEN)
    );
}

pub(crate) async fn two_who_accept_each_other_at_once_never_wait_in_a_circle(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut rounds = Vec::new();
    for round in 0..10 {
        let (one, other) = (Principal::user(100 + round), Principal::user(200 + round));
        for (owner, from) in [(one, other), (other, one)] {
            let mut inbox = Inbox::of(store, owner).await;
            let asked = inbox.gets(store, &[ask(from, NOW * 2)]).await;
            let accept = answer(&told(&asked[0]), NotificationAnswer::Accept);
            rounds.push(async move { inbox.does(store, &[accept]).await });
        }
    }
    futures_util::future::join_all(rounds).await;
    for round in 0..10 {
        let ties = store
            .ties(Principal::user(100 + round), Principal::user(200 + round))
            .await
            .unwrap();
        assert!(ties.contact.is_some());
    }
}

pub(crate) async fn a_second_pending_one_with_the_same_key_is_fenced(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    // Decided on what was not there yet: nothing of it may be stored beside the first.
    let late = inbox.gets_later(store, &[ask(ANNA, NOW * 2)]).await;
    inbox.gets(store, &[ask(ANNA, NOW * 2)]).await;
    let results = store.writer().commit(std::slice::from_ref(&late)).await;
    assert!(results[0].is_err(), "{results:?}");
    assert_eq!(list(store, None).await.len(), 1);
}

pub(crate) async fn a_pending_one_that_was_cleared_or_deleted_makes_room_for_another(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let state = async |note: &Notification| store.notification(note.notification_id).await.unwrap().unwrap().state;
    let first = told(&inbox.gets(store, &[ask(ANNA, NOW * 2)]).await[0]);
    let clear = Personal::Clear {
        conversation_id: inbox.id(),
        up_to_seq: Seq::new(1),
    };
    inbox.does(store, &[clear]).await;
    let again = inbox.gets(store, &[ask(ANNA, NOW * 2)]).await;
    let second = told(&again[0]);
    assert!(matches!(again[0], Outcome::Notified(_)) && second.notification_id != first.notification_id);
    assert_eq!(state(&first).await, NotificationState::Expired);
    let deleted = store.message(second.notification_id).await.unwrap().unwrap();
    inbox.does(store, &[set(&deleted, ActionType::Delete)]).await;
    let third = told(&inbox.gets(store, &[ask(ANNA, NOW * 2)]).await[0]);
    assert_eq!(state(&second).await, NotificationState::Expired);
    assert_eq!(ids(&list(store, None).await), [third.notification_id.get()]);
    // Its message says so, too.
    let message = store.message(first.notification_id).await.unwrap().unwrap();
    let row = store.notification(first.notification_id).await.unwrap().unwrap();
    assert_eq!(message.content, row.content());
}

pub(crate) async fn a_no_keeps_its_key_until_the_same_is_asked_again(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let first = told(&inbox.gets(store, &[ask(ANNA, NOW * 2)]).await[0]);
    let declined = told(&inbox.does(store, &[answer(&first, NotificationAnswer::Decline)]).await[0]);
    let key = NotificationKey::friend_request(ANNA);
    assert_eq!(
        store.notification_by_key(BEN, &key).await.unwrap(),
        Some(declined.clone())
    );
    let second = told(&inbox.gets(store, &[ask(ANNA, NOW * 2)]).await[0]);
    assert_eq!(
        store.notification_by_key(BEN, &key).await.unwrap(),
        Some(second.clone())
    );
    let released = store.notification(first.notification_id).await.unwrap().unwrap();
    assert_eq!(released, Notification { key: None, ..declined });
    assert_eq!(ids(&list(store, None).await).len(), 2);
}

pub(crate) async fn what_is_pending_from_somebody_comes_request_first_and_bounded(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::of(store, BEN).await;
    let asked = [
        invite(ANNA, 8),
        invite(ANNA, 9),
        invite(CARL, 9),
        ask(BOT, NOW * 2),
        ask(ANNA, NOW * 2),
        invite(ANNA, 7),
    ];
    let asked = inbox.gets(store, &asked).await;
    let notes: Vec<i64> = asked.iter().map(|one| told(one).notification_id.get()).collect();
    let decline = answer(&told(&asked[1]), NotificationAnswer::Decline);
    inbox.does(store, &[decline]).await;
    let from = async |from, limit| ids(&store.pending_from(BEN, from, limit).await.unwrap());
    assert_eq!(from(ANNA, 10).await, [notes[4], notes[0], notes[5]]);
    assert_eq!(from(ANNA, 2).await, [notes[4], notes[0]]);
    assert_eq!(from(CARL, 10).await, [notes[2]]);
    assert_eq!(store.pending_from(ANNA, BEN, 10).await.unwrap(), []);
    inbox.does(store, &[block(ANNA, true)]).await;
    assert_eq!(from(ANNA, 10).await, [0; 0]);
    assert_eq!(list(store, Some(NotificationState::Declined)).await.len(), 4);
}

pub(crate) async fn an_inbox_is_made_by_the_commit_of_its_first_notification(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut inbox = Inbox::unmade(BEN);
    let note = told(&inbox.gets(store, &[ask(ANNA, NOW * 2)]).await[0]);
    let found = store.by_creation_key(&CreationKey::inbox(BEN)).await.unwrap();
    assert_eq!(found, Some(inbox.id()));
    assert_eq!(ids(&list(store, None).await), [note.notification_id.get()]);
    let loaded = store.load(inbox.id()).await.unwrap().unwrap();
    assert_eq!((loaded.header.kind, loaded.head.last_seq.get()), (Kind::Inbox, 1));
    // Another process had no INBOX of theirs before it, either: nothing of it is stored.
    let mut late = Inbox::unmade(BEN);
    let commit = late.gets_later(store, &[ask(CARL, NOW * 2)]).await;
    let results = store.writer().commit(std::slice::from_ref(&commit)).await;
    assert_eq!(results, vec![Err(CommitError::Exists)]);
    assert_eq!(list(store, None).await.len(), 1);
}
