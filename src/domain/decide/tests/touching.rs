//! Edit, recall, delete for everyone.

use super::*;
use crate::domain::decide::Touchable;
use crate::domain::{Annotated, ChangeType, MessageStatus, Touch};

const WINDOW_MS: i64 = 120_000;

impl World {
    /// The store has this message as it is.
    fn shows(&mut self, message: &Arc<Message>, standing_below: i64) {
        let touchable = Touchable {
            annotated: Annotated::plain(Arc::clone(message)),
            hidden_for: Vec::new(),
            standing_below: Seq::new(standing_below),
            pins: 0,
        };
        let facts = &mut self.facts.messages;
        facts.insert(message.message_id, Some(touchable));
    }

    fn touched(&mut self, command: &Command) -> Arc<Message> {
        match self.does(command) {
            Ok(Outcome::Touched(about, Some(change))) => {
                let message = Arc::clone(&about.message);
                assert_eq!(message.change_seq, change.change_seq);
                assert_eq!(self.state().head.last_change_seq, change.change_seq);
                message
            }
            other => panic!("{command:?} led to {other:?}"),
        }
    }
}

fn touch(actor: Principal, message: &Message, touch: Touch) -> Command {
    Command::Touch {
        origin: by(actor),
        message_id: message.message_id,
        touch,
    }
}

fn edit(actor: Principal, message: &Message, text: &str) -> Command {
    let content = Content::compact(&format!("{{\"text\":\"{text}\"}}"), 1_000).unwrap();
    touch(actor, message, Touch::Edit(content))
}

fn recall(actor: Principal, message: &Message, after_ms: i64) -> Command {
    let received_at = Timestamp::from_millis(message.sent_at.millis() + after_ms);
    let window_ms = WINDOW_MS;
    touch(actor, message, Touch::Recall { received_at, window_ms })
}

fn delete(actor: Principal, message: &Message) -> Command {
    touch(actor, message, Touch::Delete)
}

#[test]
fn b65_an_edit_changes_the_words_and_neither_place_nor_fingerprint() {
    let mut world = World::group(&[BOB]);
    let first = world.sent(&send(BOB, "k"));
    world.shows(&first, 1);
    let edited = world.touched(&edit(BOB, &first, "other"));
    assert_eq!(
        (edited.status, edited.content.as_str()),
        (MessageStatus::Edited, "{\"text\":\"other\"}")
    );
    assert_eq!(
        (edited.seq, edited.sent_at, edited.count_no),
        (first.seq, first.sent_at, first.count_no)
    );
    assert_eq!(
        (edited.content_hash, edited.chain_hash),
        (first.content_hash, first.chain_hash)
    );
    assert!(edited.edited_at.is_some());
    world.shows(&edited, 1);
    assert!(
        matches!(world.does(&edit(BOB, &edited, "other")), Ok(Outcome::Touched(_, None))),
        "the same words again"
    );
    assert!(
        matches!(world.does(&send(BOB, "k")), Ok(Outcome::Duplicate(_))),
        "the key still names what was first sent"
    );
}

#[test]
fn only_the_sender_edits_and_the_type_keeps_its_rules() {
    let mut world = World::group(&[BOB]);
    let message = world.sent(&send(BOB, "k"));
    world.shows(&message, 1);
    assert!(matches!(
        world.refusal(&edit(ANN, &message, "x")),
        DomainError::Forbidden(_)
    ));
    assert!(matches!(
        world.refusal(&edit(STRANGER, &message, "x")),
        DomainError::NotFound(_)
    ));
    assert!(matches!(
        world.refusal(&edit(BOB, &message, "")),
        DomainError::Invalid(_)
    ));
}

#[test]
fn b60_a_recall_is_final_against_edits_of_the_same_batch() {
    let mut world = World::group(&[BOB]);
    let message = world.sent(&send(BOB, "k"));
    world.shows(&message, 1);
    let (outcomes, batch) = world.do_all(&[
        edit(BOB, &message, "second"),
        recall(BOB, &message, 10),
        edit(BOB, &message, "third"),
        recall(BOB, &message, 20),
    ]);
    assert!(
        matches!(&outcomes[1], Ok(Outcome::Touched(now, Some(_))) if now.message.status == MessageStatus::Recalled)
    );
    assert_eq!(outcomes[2], Err(Refusal::Rejected(DomainError::Recalled)));
    assert!(
        matches!(&outcomes[3], Ok(Outcome::Touched(_, None))),
        "a repeat changes nothing"
    );
    let changes = batch.unwrap().events.into_iter().filter_map(|event| match event {
        Event::Changed { change, .. } => Some((change.change_seq.get(), change.change_type)),
        _ => None,
    });
    assert_eq!(
        changes.collect::<Vec<_>>(),
        [(1, ChangeType::Edited), (2, ChangeType::Recalled)]
    );
}

#[test]
fn b64_the_window_is_judged_by_the_time_of_receipt_and_managers_have_none() {
    let mut world = World::group(&[BOB]);
    let messages: Vec<_> = ["a", "b", "c"].map(|key| world.sent(&send(BOB, key))).into();
    for message in &messages {
        world.shows(message, 1);
    }
    world.now += 3_600_000; // it waited long, but was received in time
    world.touched(&recall(BOB, &messages[0], WINDOW_MS));
    let late = world.refusal(&recall(BOB, &messages[1], WINDOW_MS + 1));
    assert_eq!(late, DomainError::RecallTooLate { window_secs: 120 });
    let recalled = world.touched(&recall(ANN, &messages[1], 10 * WINDOW_MS));
    assert_eq!(
        recalled.content.as_str(),
        "{\"recalled\":true,\"recalled_by\":{\"type\":\"USER\",\"id\":\"1\"}}"
    );
    let other = world.sent(&send(ANN, "d"));
    world.shows(&other, 4);
    assert!(matches!(
        world.refusal(&recall(BOB, &other, 1)),
        DomainError::Forbidden(_)
    ));
}

#[test]
fn deleting_for_everyone_is_for_managers_and_the_admin_key_and_is_final() {
    let mut world = World::group(&[BOB]);
    let message = world.sent(&send(BOB, "k"));
    world.shows(&message, 1);
    assert!(matches!(
        world.refusal(&delete(BOB, &message)),
        DomainError::Forbidden(_)
    ));
    let recalled = world.touched(&recall(BOB, &message, 1));
    world.shows(&recalled, 1);
    let deleted = world.touched(&delete(ANN, &recalled));
    assert_eq!(
        (deleted.status, deleted.content.as_str()),
        (MessageStatus::Deleted, "{\"deleted\":true}")
    );
    world.shows(&deleted, 1);
    world.shows(&deleted, 1);
    for again in [
        delete(ANN, &deleted),
        recall(ANN, &deleted, 1),
        delete(Principal::SYSTEM, &deleted),
    ] {
        assert!(matches!(world.refusal(&again), DomainError::NotFound(_)));
    }
    let other = world.sent(&send(BOB, "l"));
    world.shows(&other, 1);
    assert_eq!(
        world.touched(&delete(Principal::SYSTEM, &other)).status,
        MessageStatus::Deleted
    );
}

#[test]
fn in_a_dissolved_group_the_operator_still_takes_words_away_and_nobody_else_does() {
    let mut world = World::group(&[BOB]);
    let message = world.sent(&send(BOB, "k"));
    world.does(&Command::Dissolve { origin: by(ANN) }).unwrap();
    world.shows(&message, 1);
    for act in [
        delete(ANN, &message),
        recall(BOB, &message, 1),
        edit(BOB, &message, "x"),
    ] {
        assert_eq!(world.refusal(&act), DomainError::Closed);
    }
    let deleted = world.touched(&delete(Principal::SYSTEM, &message));
    assert_eq!(deleted.status, MessageStatus::Deleted);
}

#[test]
fn in_a_direct_only_the_sender_recalls_and_nobody_deletes() {
    let mut world = World::empty();
    world.does(&create(Kind::Direct, &[BOB])).unwrap();
    let message = world.sent(&send(ANN, "k"));
    for who in [ANN, BOB] {
        world.shows(&message, 0);
        assert!(matches!(
            world.refusal(&delete(who, &message)),
            DomainError::Forbidden(_)
        ));
    }
    assert!(matches!(
        world.refusal(&recall(BOB, &message, 1)),
        DomainError::Forbidden(_)
    ));
    world.touched(&recall(ANN, &message, 1));
}

#[test]
fn system_messages_stay_as_they_are() {
    let mut world = World::group(&[BOB]);
    let (_, batch) = world.do_all(&[add(ANN, &[CY])]);
    let system = batch.unwrap().events.into_iter().find_map(|event| match event {
        Event::MessageSent { message, .. } => Some(message),
        _ => None,
    });
    let system = system.unwrap();
    world.shows(&system, 1);
    for command in [edit(ANN, &system, "x"), recall(ANN, &system, 1), delete(ANN, &system)] {
        assert!(matches!(world.refusal(&command), DomainError::Forbidden(_)));
    }
}

#[test]
fn b59_the_newest_that_stands_moves_back_also_within_one_batch() {
    let mut world = World::group(&[BOB]);
    let one = world.sent(&send(ANN, "1"));
    let two = world.sent(&send(ANN, "2"));
    world.shows(&one, 1);
    world.shows(&two, 2);
    assert_eq!(world.state().head.last_message_seq, two.seq);
    // The older one first: it is still standing in what the store says of the newer.
    world.do_all(&[recall(ANN, &one, 1), recall(ANN, &two, 1)]);
    assert_eq!(world.state().head.last_message_seq, Seq::new(1));
    assert_eq!(world.state().head.last_seq, two.seq, "never goes back");
}

#[test]
fn who_joined_too_late_to_see_a_message_learns_only_that_something_changed() {
    let mut world = World::empty();
    let mut creation = creation(Kind::Group, &[BOB]);
    creation.history_visibility = HistoryVisibility::Joined;
    world.does(&Command::Create(creation)).unwrap();
    let old = world.sent(&send(ANN, "old"));
    world.does(&add(ANN, &[CY])).unwrap();
    world.shows(&old, 1);
    assert!(matches!(world.refusal(&recall(CY, &old, 1)), DomainError::NotFound(_)));
    let (_, batch) = world.do_all(&[edit(ANN, &old, "new words")]);
    let blind = batch.unwrap().events.into_iter().find_map(|event| match event {
        Event::Changed { hidden_from, .. } => Some(hidden_from),
        _ => None,
    });
    assert_eq!(blind, Some(vec![CY]));
}

#[test]
fn who_hides_a_message_from_themselves_cannot_touch_it_and_learns_only_that_something_changed() {
    let mut world = World::group(&[BOB, CY]);
    let message = world.sent(&send(ANN, "k"));
    let hidden = Touchable {
        annotated: Annotated::plain(Arc::clone(&message)),
        hidden_for: vec![CY, BOB],
        standing_below: Seq::new(1),
        pins: 0,
    };
    world.facts.messages.insert(message.message_id, Some(hidden));
    assert!(matches!(
        world.refusal(&recall(BOB, &message, 1)),
        DomainError::NotFound(_)
    ));
    let (_, batch) = world.do_all(&[edit(ANN, &message, "new words"), recall(ANN, &message, 1)]);
    let blind = batch.unwrap().events.into_iter().filter_map(|event| match event {
        Event::Changed { hidden_from, .. } => Some(hidden_from),
        _ => None,
    });
    assert_eq!(blind.collect::<Vec<_>>(), [vec![BOB, CY], vec![BOB, CY]]);
}

#[test]
fn a_message_is_looked_up_before_it_is_touched() {
    let mut world = World::group(&[BOB]);
    let message = world.sent(&send(BOB, "k"));
    let needs = world.does(&recall(BOB, &message, 1));
    assert!(matches!(needs, Err(Refusal::Needs(crate::domain::Fact::Message(id))) if id == message.message_id));
}
