//! Friend requests, invitations and announcements in an INBOX, from PENDING to their end.

use super::*;
use crate::domain::decide::{Fact, Touchable};
use crate::domain::notification::{CARRY_OUT_AFTER_MS, ENDED_AT_ONCE_MAX};
use crate::domain::{
    Annotated, Conclusion, Notification, NotificationAnswer, NotificationKey, NotificationKind, NotificationState,
    Notify, Personal, Touch,
};

/// When requests expire, after [`START`].
const EXPIRES: i64 = 1_000;
/// How long a no stands.
pub(super) const ASK_AGAIN_MS: i64 = 500;

/// The INBOX of ANN, beside a store that keeps what was decided.
pub(super) struct Box(pub(super) World);

impl Box {
    pub(super) fn new() -> Self {
        let mut world = World::empty();
        world.does(&create(Kind::Inbox, &[])).unwrap();
        Self(world)
    }

    /// Decides a batch with what the store says, and lets it keep what comes of it.
    pub(super) fn all(&mut self, commands: &[Command]) -> (Vec<Result<Outcome, DomainError>>, Vec<String>) {
        let before = self.0.state.clone();
        loop {
            let ids = self.0.ids_given;
            let (outcomes, batch) = self.0.do_all(commands);
            let needs = outcomes.iter().filter_map(|outcome| match outcome {
                Err(Refusal::Needs(fact)) => Some(fact.clone()),
                _ => None,
            });
            let needs: Vec<Fact> = needs.collect();
            if needs.is_empty() {
                let batch_told = told(batch.as_ref());
                for event in batch.iter().flat_map(|batch| &batch.events) {
                    self.keep(event);
                }
                let outcomes = outcomes.into_iter().map(|outcome| {
                    outcome.map_err(|refusal| match refusal {
                        Refusal::Rejected(error) => error,
                        Refusal::Needs(fact) => panic!("{fact:?}"),
                    })
                });
                return (outcomes.collect(), batch_told);
            }
            (self.0.state, self.0.ids_given) = (before.clone(), ids);
            for need in needs {
                match need {
                    Fact::Keyed(owner, key) => drop(self.0.facts.keyed.insert((owner, key), None)),
                    Fact::PendingFrom(owner, from) => {
                        let all = self.0.facts.notifications.values().flatten();
                        let open = all.filter(|note| note.from == from && note.state == NotificationState::Pending);
                        let mut open: Vec<Notification> = open.cloned().collect();
                        open.sort_by_key(|note| (note.kind.code(), note.notification_id));
                        open.truncate(ENDED_AT_ONCE_MAX);
                        self.0.facts.pending_from.insert((owner, from), open);
                    }
                    Fact::Notification(id) => drop(self.0.facts.notifications.insert(id, None)),
                    Fact::Message(id) => drop(self.0.facts.messages.insert(id, None)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn keep(&mut self, event: &Event) {
        let facts = &mut self.0.facts;
        match event {
            Event::MessageSent { message, .. } | Event::MessageChanged { message, .. } => {
                let kept = facts.messages.get(&message.message_id).cloned().flatten();
                let touchable = Touchable {
                    annotated: Annotated::plain(Arc::clone(message)),
                    hidden_for: kept.map(|kept| kept.hidden_for).unwrap_or_default(),
                    standing_below: Seq::ZERO,
                    pins: 0,
                };
                facts.messages.insert(message.message_id, Some(touchable));
            }
            Event::Notified { notification } | Event::NotificationChanged { notification } => {
                let note = Notification::clone(notification);
                facts
                    .keyed
                    .retain(|_, keyed| keyed.as_ref().map(|one| one.notification_id) != Some(note.notification_id));
                if let Some(key) = note.key.clone() {
                    facts.keyed.insert((note.owner, key), Some(note.clone()));
                }
                facts.pending_from.clear();
                facts.notifications.insert(note.notification_id, Some(note));
            }
            Event::ContactMade {
                one, other, request, ..
            } => {
                facts
                    .ties
                    .entry((*one.min(other), *one.max(other)))
                    .or_default()
                    .contact = Some(*request);
            }
            Event::ContactEnded { one, other } => {
                facts
                    .ties
                    .entry((*one.min(other), *one.max(other)))
                    .or_default()
                    .contact = None;
            }
            Event::BlockChanged {
                owner, other, blocked, ..
            } => {
                let ties = facts.ties.entry((*owner.min(other), *owner.max(other))).or_default();
                ties.blockers.retain(|(blocker, _)| blocker != owner);
                ties.blockers.extend(blocked.then_some((*owner, false)));
            }
            _ => {}
        }
    }

    pub(super) fn one(&mut self, command: Command) -> Result<Outcome, DomainError> {
        self.all(&[command]).0.remove(0)
    }

    /// The notification that a command led to, whether it is new, and whether anything has changed.
    pub(super) fn note(&mut self, command: Command) -> (Arc<Notification>, bool, bool) {
        match self.one(command) {
            Ok(Outcome::Notified(note)) => (note, true, true),
            Ok(Outcome::Noted(note, change)) => (note, false, change.is_some()),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn is_hidden(&mut self, id: MessageId) {
        let kept = self.0.facts.messages.get_mut(&id).unwrap().as_mut().unwrap();
        kept.hidden_for = vec![ANN];
    }
}

pub(super) fn ask(from: Principal) -> Command {
    Command::Notify(Notify {
        to: ANN,
        kind: NotificationKind::FriendRequest,
        from,
        key: NotificationKey::friend_request(from),
        ask_again_ms: ASK_AGAIN_MS,
        text: Some("it's me".to_owned()),
        conversation_id: None,
        payload: None,
        expires_at: Some(Timestamp::from_millis(START + EXPIRES)),
    })
}

pub(super) fn invite(from: Principal, group: i64) -> Command {
    let group = ConversationId::new(group).unwrap();
    Command::Notify(Notify {
        to: ANN,
        kind: NotificationKind::GroupInvite,
        from,
        key: NotificationKey::invite(from, group),
        ask_again_ms: ASK_AGAIN_MS,
        text: None,
        conversation_id: Some(group),
        payload: None,
        expires_at: Some(Timestamp::from_millis(START + EXPIRES)),
    })
}

fn announce(number: i64) -> Command {
    Command::Notify(Notify {
        to: ANN,
        kind: NotificationKind::Announcement,
        from: Principal::SYSTEM,
        key: NotificationKey::announcement(number),
        ask_again_ms: ASK_AGAIN_MS,
        text: Some("maintenance".to_owned()),
        conversation_id: None,
        payload: Some(Content::trusted("{\"at\":12}")),
        expires_at: None,
    })
}

pub(super) fn answer(id: MessageId, answer: NotificationAnswer) -> Command {
    let act = Personal::Answer {
        notification_id: id,
        answer,
    };
    Command::Personal { origin: by(ANN), act }
}

pub(super) fn block(other: Principal, blocked: bool) -> Command {
    let act = Personal::Block {
        principal: other,
        blocked,
    };
    Command::Personal { origin: by(ANN), act }
}

#[test]
fn a_request_is_one_message_and_the_same_one_while_it_is_pending() {
    let mut inbox = Box::new();
    let (outcomes, told) = inbox.all(&[ask(BOB), ask(BOB), ask(CY)]);
    let ids: Vec<MessageId> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(Outcome::Notified(note) | Outcome::Noted(note, None)) => note.notification_id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(ids[0] == ids[1] && ids[0] != ids[2], "also in one batch: {ids:?}");
    assert_eq!(told.len(), 4, "a message and a row each: {told:?}");
    let (again, new, changed) = inbox.note(ask(BOB));
    assert_eq!((again.notification_id, new, changed), (ids[0], false, false));
    let state = inbox.0.state();
    assert_eq!(
        (state.head.last_seq.get(), state.head.last_count_no.get()),
        (2, 0),
        "never unread"
    );
}

#[test]
fn the_message_says_what_the_notification_is_and_its_hash_what_it_was_at_first() {
    let mut inbox = Box::new();
    let (note, ..) = inbox.note(ask(BOB));
    let id = note.notification_id;
    let (declined, ..) = inbox.note(answer(id, NotificationAnswer::Decline));
    let message = &inbox.0.facts.messages[&id].as_ref().unwrap().annotated.message;
    assert_eq!(message.content, declined.content());
    assert_eq!(message.content_hash, content_hash(note.content().as_str()));
    assert_eq!(declined.first_content(), note.content());
    assert_eq!(message.change_seq.get(), 1);
    assert!(declined.read_at.is_some(), "who answers has read it");
}

#[test]
fn b120_of_two_answers_at_once_the_first_stands() {
    use NotificationAnswer::{Accept, Decline};
    for (first, second, state) in [
        (Accept, Decline, NotificationState::Accepted),
        (Decline, Accept, NotificationState::Declined),
    ] {
        let mut inbox = Box::new();
        let id = inbox.note(ask(BOB)).0.notification_id;
        let (outcomes, told) = inbox.all(&[answer(id, first), answer(id, second), answer(id, first)]);
        let states = outcomes.iter().map(|outcome| match outcome {
            Ok(Outcome::Noted(note, change)) => (note.state, change.is_some()),
            other => panic!("{other:?}"),
        });
        let states: Vec<_> = states.collect();
        assert_eq!(states, [(state, true), (state, false), (state, false)]);
        let changes = told.iter().filter(|line| line.starts_with("changed")).count();
        assert_eq!(changes, 1, "{told:?}");
    }
}

#[test]
fn accepting_makes_contacts_at_once_and_leaves_the_rest_due() {
    let mut inbox = Box::new();
    let id = inbox.note(ask(BOB)).0.notification_id;
    inbox.0.now = START + 10;
    let (outcomes, told) = inbox.all(&[answer(id, NotificationAnswer::Accept)]);
    let Ok(Outcome::Noted(note, _)) = &outcomes[0] else {
        panic!("{outcomes:?}")
    };
    assert!(note.is_unfinished());
    assert_eq!(note.due_at.unwrap().millis(), START + 10 + CARRY_OUT_AFTER_MS);
    assert!(
        told[0].starts_with("contact") && told[1] == "notification ACCEPTED",
        "{told:?}"
    );
    let (again, new, changed) = inbox.note(ask(BOB));
    assert_eq!(
        (again.notification_id, new, changed),
        (id, false, false),
        "the one that made them so"
    );
}

#[test]
fn an_announcement_can_only_be_read_and_is_told_once_for_ever() {
    let mut inbox = Box::new();
    let (note, ..) = inbox.note(announce(7));
    let id = note.notification_id;
    for wrong in [NotificationAnswer::Accept, NotificationAnswer::Decline] {
        assert!(matches!(inbox.one(answer(id, wrong)), Err(DomainError::Invalid(_))));
    }
    let (read, _, changed) = inbox.note(answer(id, NotificationAnswer::Read));
    assert!(changed && read.read_at.is_some() && read.state == NotificationState::Pending);
    let (_, _, changed) = inbox.note(answer(id, NotificationAnswer::Read));
    assert!(!changed, "read once");
    inbox.0.now = START + 1_000_000_000;
    assert_eq!(inbox.note(announce(7)).0.notification_id, id);
    assert!(inbox.note(announce(8)).1);
    let content: serde_json::Value = serde_json::from_str(read.content().as_str()).unwrap();
    assert_eq!(content["payload"]["at"], 12);
}

#[test]
fn what_is_not_ones_own_or_hidden_is_not_there() {
    let mut inbox = Box::new();
    let id = inbox.note(ask(BOB)).0.notification_id;
    let not_found = |answered: Result<Outcome, DomainError>| assert!(matches!(answered, Err(DomainError::NotFound(_))));
    not_found(inbox.one(answer(message_id(5), NotificationAnswer::Read)));
    inbox.is_hidden(id);
    not_found(inbox.one(answer(id, NotificationAnswer::Accept)));
    let mut foreign = inbox.0.facts.notifications[&id].clone().unwrap();
    foreign.owner = BOB;
    inbox.0.facts.notifications.insert(id, Some(foreign));
    not_found(inbox.one(answer(id, NotificationAnswer::Accept)));
}

#[test]
fn its_time_passes_whether_somebody_says_so_or_not() {
    let mut inbox = Box::new();
    let id = inbox.note(ask(BOB)).0.notification_id;
    let expire = |id| Command::Conclude(Conclusion::Expire(id));
    assert_eq!(inbox.one(expire(id)), Ok(Outcome::Changed(None)), "not yet");
    inbox.0.now = START + EXPIRES;
    let (late, _, changed) = inbox.note(answer(id, NotificationAnswer::Accept));
    assert_eq!((late.state, changed), (NotificationState::Expired, true));
    assert_eq!(inbox.one(expire(id)), Ok(Outcome::Changed(None)), "once");
    // One that nobody has swept yet does not stand in the way of the next.
    inbox.0.now = START;
    let old = inbox.note(invite(BOB, 9)).0.notification_id;
    inbox.0.now = START + EXPIRES;
    let (new, is_new, _) = inbox.note(invite(BOB, 9));
    assert!(is_new && new.notification_id != old);
    let kept = inbox.0.facts.notifications[&old].as_ref().unwrap();
    assert_eq!(kept.state, NotificationState::Expired);
}

#[test]
fn what_cannot_be_carried_out_is_expired_but_what_is_done_stays_accepted() {
    let mut inbox = Box::new();
    let id = inbox.note(invite(BOB, 9)).0.notification_id;
    inbox.note(answer(id, NotificationAnswer::Accept));
    let lapse = Command::Conclude(Conclusion::Lapse(id));
    assert!(matches!(inbox.one(lapse.clone()), Ok(Outcome::Changed(Some(_)))));
    assert_eq!(
        inbox.0.facts.notifications[&id].as_ref().unwrap().state,
        NotificationState::Expired
    );
    let id = inbox.note(invite(CY, 9)).0.notification_id;
    inbox.note(answer(id, NotificationAnswer::Accept));
    let done = inbox.0.facts.notifications.get_mut(&id).unwrap().as_mut().unwrap();
    done.due_at = None;
    let lapse = Command::Conclude(Conclusion::Lapse(id));
    assert_eq!(inbox.one(lapse), Ok(Outcome::Changed(None)));
}

#[test]
fn a_block_declines_the_pending_request_and_ends_the_contact() {
    let mut inbox = Box::new();
    let id = inbox.note(ask(BOB)).0.notification_id;
    let (_, told) = inbox.all(&[block(BOB, true)]);
    assert_eq!(
        inbox.0.facts.notifications[&id].as_ref().unwrap().state,
        NotificationState::Declined
    );
    assert!(told.last().unwrap().ends_with("HIDDEN "), "{told:?}");
    assert!(matches!(inbox.one(ask(BOB)), Err(DomainError::Forbidden(_))));
    assert!(matches!(inbox.one(invite(BOB, 9)), Err(DomainError::Forbidden(_))));
    assert_eq!(inbox.one(block(BOB, true)), Ok(Outcome::Changed(None)), "once");
    inbox.one(block(BOB, false)).unwrap();
    let id = inbox.note(ask(BOB)).0.notification_id;
    inbox.note(answer(id, NotificationAnswer::Accept));
    let (_, told) = inbox.all(&[block(BOB, true)]);
    assert_eq!(told[0], format!("no contact {ANN} {BOB}"));
    assert!(matches!(inbox.one(block(ANN, true)), Err(DomainError::Invalid(_))));
}

#[test]
fn a_request_that_is_blocked_in_the_batch_that_brings_it_ends_there() {
    let mut inbox = Box::new();
    let (outcomes, told) = inbox.all(&[ask(BOB), block(BOB, true), ask(BOB)]);
    assert!(matches!(outcomes[0], Ok(Outcome::Notified(_))));
    assert!(matches!(outcomes[2], Err(DomainError::Forbidden(_))));
    assert!(told.contains(&"notification DECLINED".to_owned()), "{told:?}");
}

#[test]
fn who_blocks_takes_back_what_they_asked_and_who_was_accepted_has_accepted() {
    let mut inbox = Box::new();
    let id = inbox.note(ask(BOB)).0.notification_id;
    inbox
        .one(Command::Conclude(Conclusion::Withdrawn { from: BOB }))
        .unwrap();
    assert_eq!(
        inbox.0.facts.notifications[&id].as_ref().unwrap().state,
        NotificationState::Expired
    );
    let id = inbox.note(ask(CY)).0.notification_id;
    inbox.one(Command::Conclude(Conclusion::Mirrored { from: CY })).unwrap();
    let mirrored = inbox.0.facts.notifications[&id].as_ref().unwrap();
    assert_eq!(
        (mirrored.state, mirrored.is_unfinished()),
        (NotificationState::Accepted, false)
    );
    // They had been accepted in the very moment of the block.
    let id = inbox.note(ask(BOB)).0.notification_id;
    inbox.note(answer(id, NotificationAnswer::Accept));
    let (_, told) = inbox.all(&[Command::Conclude(Conclusion::Withdrawn { from: BOB })]);
    assert_eq!(told[0], format!("no contact {ANN} {BOB}"));
}

#[test]
fn what_the_operator_deletes_takes_its_notification_with_it() {
    let mut inbox = Box::new();
    let id = inbox.note(ask(BOB)).0.notification_id;
    let delete = Command::Touch {
        origin: Origin {
            principal: Principal::SYSTEM,
            device: None,
        },
        message_id: id,
        touch: Touch::Delete,
    };
    let (outcomes, _) = inbox.all(&[delete, answer(id, NotificationAnswer::Accept), ask(BOB)]);
    assert!(matches!(outcomes[1], Err(DomainError::NotFound(_))));
    assert!(matches!(outcomes[2], Ok(Outcome::Notified(_))), "another one");
}

#[test]
fn only_an_inbox_is_told_something() {
    let mut world = World::group(&[BOB]);
    assert!(matches!(world.refusal(&ask(CY)), DomainError::Forbidden(_)));
    let expire = Command::Conclude(Conclusion::Expire(message_id(5)));
    assert!(matches!(world.refusal(&expire), DomainError::Forbidden(_)));
}
