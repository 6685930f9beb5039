//! Blocks in a DIRECT, invitations into a GROUP.

use super::*;
use crate::domain::decide::{Fact, Touchable};
use crate::domain::{Annotated, Emoji, Touch};

/// The DIRECT of ANN and BOB.
fn direct() -> World {
    let mut world = World::empty();
    world.does(&create(Kind::Direct, &[BOB])).unwrap();
    world
}

impl World {
    /// The store says that these have blocked the other, and whether the writer has heeded it.
    fn blocked_by(&mut self, blockers: &[(Principal, bool)]) {
        let ties = Ties {
            contact: None,
            blockers: blockers.to_vec(),
        };
        self.facts.ties.insert((ANN, BOB), ties);
    }
}

#[test]
fn two_of_whom_one_has_blocked_the_other_get_no_direct() {
    for blocker in [ANN, BOB] {
        let mut world = World::empty();
        world.blocked_by(&[(blocker, false)]);
        assert!(matches!(
            world.refusal(&create(Kind::Direct, &[BOB])),
            DomainError::Forbidden(_)
        ));
        assert!(
            world.does(&create(Kind::Group, &[BOB])).is_ok(),
            "groups are not concerned"
        );
    }
    let mut notes = World::empty();
    notes.facts.ties.clear();
    assert!(notes.does(&create(Kind::Direct, &[])).is_ok(), "with oneself");
}

#[test]
fn after_a_block_was_heeded_the_blocked_gets_no_number_and_the_blocker_does() {
    let mut world = direct();
    world.knows_key_is_new(ANN, "a");
    world.knows_key_is_new(BOB, "b");
    world.blocked_by(&[(BOB, false)]);
    world.sent(&send(ANN, "before"));
    let heeded = world.does(&Command::HeedBlocks).unwrap();
    assert!(
        matches!(heeded, Outcome::Changed(Some(_))),
        "a number fences who does not know"
    );
    assert!(matches!(world.refusal(&send(ANN, "a")), DomainError::Forbidden(_)));
    world.sent(&send(BOB, "b"));
    world.blocked_by(&[(BOB, true)]);
    assert_eq!(world.does(&Command::HeedBlocks), Ok(Outcome::Changed(None)), "once");
    // A writer that has loaded it knows of it; whether others do is not known before it was heeded.
    world.blocked_by(&[(BOB, false)]);
    assert!(matches!(
        world.does(&Command::HeedBlocks),
        Ok(Outcome::Changed(Some(_)))
    ));
    world.blocked_by(&[]);
    assert!(matches!(
        world.does(&Command::HeedBlocks),
        Ok(Outcome::Changed(Some(_)))
    ));
    world.sent(&send(ANN, "after"));
}

#[test]
fn a_send_behind_the_block_in_one_batch_is_refused() {
    let mut world = direct();
    world.blocked_by(&[(BOB, false)]);
    world.knows_key_is_new(ANN, "a");
    let (outcomes, _) = world.do_all(&[Command::HeedBlocks, send(ANN, "a")]);
    assert!(matches!(outcomes[1], Err(Refusal::Rejected(DomainError::Forbidden(_)))));
}

#[test]
fn an_end_of_a_block_of_which_this_writer_was_not_told_is_looked_up() {
    let mut world = direct();
    world.blocked_by(&[(BOB, true)]);
    world.does(&Command::HeedBlocks).unwrap();
    world.facts.ties.clear();
    let asked = world.does(&send(ANN, "a"));
    assert_eq!(asked, Err(Refusal::Needs(Fact::Ties(ANN, BOB))));
    world.facts.ties = strangers();
    world.sent(&send(ANN, "a"));
}

#[test]
fn the_blocked_takes_back_what_was_there_and_puts_nothing_new() {
    let mut world = direct();
    let message = world.sent(&send(ANN, "before"));
    let touchable = Touchable {
        annotated: Annotated::plain(Arc::clone(&message)),
        hidden_for: Vec::new(),
        standing_below: Seq::ZERO,
        pins: 0,
    };
    world.facts.messages.insert(message.message_id, Some(touchable));
    world.blocked_by(&[(BOB, true)]);
    world.does(&Command::HeedBlocks).unwrap();
    let touch = |touch| Command::Touch {
        origin: by(ANN),
        message_id: message.message_id,
        touch,
    };
    let emoji = Emoji::parse("x").unwrap();
    let react = |added| Touch::React {
        emoji: emoji.clone(),
        added,
    };
    for new in [
        Touch::Edit(Content::trusted("{\"text\":\"x\"}")),
        react(true),
        Touch::Pin(true),
    ] {
        assert!(matches!(world.refusal(&touch(new)), DomainError::Forbidden(_)));
    }
    world.does(&touch(react(false))).unwrap();
    let recall = Touch::Recall {
        received_at: Timestamp::from_millis(START),
        window_ms: 1_000,
    };
    world.does(&touch(recall)).unwrap();
}

#[test]
fn who_may_add_may_invite_and_members_are_passed_over() {
    let invite = |actor| Command::Invite {
        origin: by(actor),
        members: vec![BOB, CY, DEE, CY],
    };
    let mut world = World::group(&[BOB]);
    let expected = Outcome::Invitable {
        principals: vec![CY, DEE],
        title: Some("room".to_owned()),
    };
    assert_eq!(world.does(&invite(ANN)), Ok(expected));
    assert!(matches!(world.refusal(&invite(BOB)), DomainError::Forbidden(_)));
    assert_eq!(world.refusal(&invite(STRANGER)), DomainError::NotAMember);
    assert!(matches!(direct().refusal(&invite(ANN)), DomainError::Forbidden(_)));
    world.does(&dissolve(ANN)).unwrap();
    assert_eq!(world.refusal(&invite(ANN)), DomainError::Closed);
}

#[test]
fn an_invitation_is_worth_what_the_right_of_its_giver_is_worth_now() {
    let join = |by| Command::Join {
        member: CY,
        by,
        accepted_at: Timestamp::from_millis(START + 1),
    };
    let mut world = World::group(&[BOB, DEE]);
    world.does(&set_role(ANN, BOB, Role::Admin)).unwrap();
    assert_eq!(world.does(&join(BOB)), Err(Refusal::Needs(Fact::LastJoined(CY))));
    world.facts.last_joined.insert(CY, None);
    let (outcomes, batch) = world.do_all(&[join(BOB), join(BOB)]);
    assert!(matches!(
        outcomes[..],
        [Ok(Outcome::Changed(Some(_))), Ok(Outcome::Changed(None))]
    ));
    let told = told(batch.as_ref());
    assert!(told[1].contains("\"reason\":\"JOINED\""), "{told:?}");
    assert!(
        told[2].contains("\"event\":\"member_added\",\"actor\":{\"type\":\"USER\",\"id\":\"3\"}"),
        "{told:?}"
    );
    world.does(&remove(ANN, CY)).unwrap();
    world.does(&set_role(ANN, BOB, Role::Member)).unwrap();
    for by in [BOB, DEE, STRANGER] {
        assert!(matches!(world.refusal(&join(by)), DomainError::Forbidden(_)));
    }
    world.does(&dissolve(ANN)).unwrap();
    assert_eq!(world.refusal(&join(ANN)), DomainError::Closed);
}

#[test]
fn who_has_left_since_an_acceptance_let_them_in_is_not_brought_back_by_it() {
    let accepted_at = Timestamp::from_millis(START + 5);
    let join = Command::Join {
        member: CY,
        by: ANN,
        accepted_at,
    };
    let mut world = World::group(&[BOB]);
    world.facts.last_joined.insert(CY, Some(accepted_at));
    assert_eq!(world.does(&join), Ok(Outcome::Changed(None)), "it has let them in");
    // They had been in it before they were invited.
    let before = Timestamp::from_millis(START + 4);
    world.facts.last_joined.insert(CY, Some(before));
    assert!(matches!(world.does(&join), Ok(Outcome::Changed(Some(_)))));
}
