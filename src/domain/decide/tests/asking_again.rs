//! Who asks the same again: what stands, what makes room, what a block ends.

use super::notifying::{ASK_AGAIN_MS, Box, answer, ask, block, invite};
use super::*;
use crate::domain::notification::ENDED_AT_ONCE_MAX;
use crate::domain::{Conclusion, NotificationAnswer, NotificationKey, NotificationState};

fn state(inbox: &Box, id: MessageId) -> NotificationState {
    inbox.0.facts.notifications[&id].as_ref().unwrap().state
}

#[test]
fn a_pending_one_that_its_user_cannot_see_makes_room_for_another() {
    for asking in [ask(BOB), invite(BOB, 9)] {
        let mut inbox = Box::new();
        let hidden = inbox.note(asking.clone()).0.notification_id;
        assert_eq!(inbox.note(asking.clone()).0.notification_id, hidden, "while it is seen");
        inbox.is_hidden(hidden);
        let (outcomes, told) = inbox.all(&[asking.clone(), asking]);
        let [Ok(Outcome::Notified(new)), Ok(Outcome::Noted(same, None))] = outcomes.as_slice() else {
            panic!("{outcomes:?}");
        };
        assert!(new.notification_id == same.notification_id && new.notification_id != hidden);
        assert_eq!(told[0], "notification EXPIRED", "in the same act: {told:?}");
        assert_eq!(state(&inbox, hidden), NotificationState::Expired);
    }
}

#[test]
fn a_no_is_the_answer_for_a_while_and_then_the_same_may_be_asked_again() {
    for asking in [ask(BOB), invite(BOB, 9)] {
        let mut inbox = Box::new();
        let id = inbox.note(asking.clone()).0.notification_id;
        inbox.0.now = START + 100;
        inbox.note(answer(id, NotificationAnswer::Decline));
        inbox.0.now = START + 100 + ASK_AGAIN_MS - 1;
        let (no, new, changed) = inbox.note(asking.clone());
        assert_eq!((no.notification_id, no.state), (id, NotificationState::Declined));
        assert!(!new && !changed, "nothing reaches the receiver");
        // Another one asks, and the same one into another group.
        assert!(inbox.note(ask(CY)).1 && inbox.note(invite(BOB, 10)).1);
        inbox.0.now = START + 100 + ASK_AGAIN_MS;
        let (second, new, _) = inbox.note(asking);
        assert!(new && second.notification_id != id);
        assert_eq!(state(&inbox, id), NotificationState::Declined, "it stays what it was");
        assert_eq!(inbox.0.facts.notifications[&id].as_ref().unwrap().key, None);
    }
}

#[test]
fn a_no_is_no_request_that_could_be_taken_back_or_become_true() {
    let mut inbox = Box::new();
    let id = inbox.note(ask(BOB)).0.notification_id;
    inbox.note(answer(id, NotificationAnswer::Decline));
    for conclusion in [Conclusion::Withdrawn { from: BOB }, Conclusion::Mirrored { from: BOB }] {
        assert_eq!(inbox.one(Command::Conclude(conclusion)), Ok(Outcome::Changed(None)));
    }
    assert_eq!(state(&inbox, id), NotificationState::Declined);
}

#[test]
fn the_first_thing_that_somebody_is_told_makes_their_inbox() {
    let mut world = World::empty();
    let pending = (ANN, NotificationKey::friend_request(BOB));
    world.facts.keyed.insert(pending, None);
    let (outcomes, batch) = world.do_all(&[ask(BOB), ask(BOB)]);
    assert!(matches!(
        outcomes[..],
        [Ok(Outcome::Notified(_)), Ok(Outcome::Noted(_, None))]
    ));
    let events = batch.unwrap().events;
    assert!(matches!(&events[0], Event::Created { header, .. } if header.kind == Kind::Inbox));
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(world.state().members.get(ANN).is_some());
    // Nobody who is refused leaves an INBOX behind.
    let mut world = World::empty();
    let ties = world.facts.ties.get_mut(&(ANN, BOB)).unwrap();
    ties.blockers = vec![(ANN, true)];
    assert!(matches!(world.refusal(&ask(BOB)), DomainError::Forbidden(_)));
    assert!(world.state.is_none());
}

#[test]
fn a_block_ends_invitations_as_it_ends_requests() {
    let mut inbox = Box::new();
    let asked = [ask(BOB), invite(BOB, 8), invite(BOB, 9), invite(CY, 9)];
    let ids = asked.map(|asking| inbox.note(asking).0.notification_id);
    let (_, told) = inbox.all(&[block(BOB, true)]);
    let ended = told.iter().filter(|line| *line == "notification DECLINED").count();
    assert_eq!(ended, 3, "{told:?}");
    assert_eq!(state(&inbox, ids[3]), NotificationState::Pending, "of somebody else");
    // What the blocker has asked is taken back where it stands.
    let mut inbox = Box::new();
    let ids = [ask(BOB), invite(BOB, 9)].map(|asking| inbox.note(asking).0.notification_id);
    let withdrawn = Command::Conclude(Conclusion::Withdrawn { from: BOB });
    inbox.one(withdrawn).unwrap();
    assert_eq!(ids.map(|id| state(&inbox, id)), [NotificationState::Expired; 2]);
}

#[test]
fn a_block_ends_so_many_in_one_commit_and_the_rest_when_it_is_asked_again() {
    let mut inbox = Box::new();
    let groups = i64::try_from(ENDED_AT_ONCE_MAX).unwrap() + 10;
    let invitations: Vec<Command> = (1..=groups).map(|group| invite(BOB, group)).collect();
    inbox.all(&invitations);
    let request = inbox.note(ask(BOB)).0.notification_id;
    let ended = |inbox: &mut Box| {
        let (_, told) = inbox.all(&[block(BOB, true)]);
        told.iter().filter(|line| *line == "notification DECLINED").count()
    };
    assert_eq!(ended(&mut inbox), ENDED_AT_ONCE_MAX);
    assert_eq!(state(&inbox, request), NotificationState::Declined, "the request first");
    assert_eq!((ended(&mut inbox), ended(&mut inbox)), (11, 0));
    assert_eq!(inbox.one(block(BOB, true)), Ok(Outcome::Changed(None)));
}

#[test]
fn what_a_block_has_not_come_to_yet_is_not_accepted() {
    let mut inbox = Box::new();
    let id = inbox.note(invite(BOB, 9)).0.notification_id;
    let ties = inbox.0.facts.ties.get_mut(&(ANN, BOB)).unwrap();
    ties.blockers = vec![(BOB, true)];
    let (late, ..) = inbox.note(answer(id, NotificationAnswer::Accept));
    assert_eq!(late.state, NotificationState::Expired);
}
