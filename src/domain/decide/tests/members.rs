//! Adding, removing, leaving, handing over.

use super::*;
use crate::domain::Status;

#[test]
fn adding_is_one_change_and_one_numbered_message() {
    let mut world = World::group(&[BOB]);
    let (outcomes, batch) = world.do_all(&[add(ANN, &[CY, DEE])]);
    let members = "[{\"type\":\"USER\",\"id\":\"3\"},{\"type\":\"USER\",\"id\":\"4\"}]";
    assert_eq!(
        told(batch.as_ref()),
        [
            "added 2".to_owned(),
            format!("changed 1 MEMBER_ADDED {{\"members\":{members},\"reason\":\"ADDED\"}}"),
            format!(
                "sent 2 {{\"event\":\"member_added\",\"actor\":{{\"type\":\"USER\",\"id\":\"1\"}},\"members\":{members}}}"
            ),
        ]
    );
    assert!(matches!(&outcomes[0], Ok(Outcome::Changed(Some(change))) if change.change_seq.get() == 1));
    assert_eq!(batch.unwrap().member_count, 4);
    assert_eq!(
        world.member(CY).joined_seq.get(),
        2,
        "the seq of their own member_added message"
    );
}

#[test]
fn adding_twice_changes_nothing() {
    let mut world = World::group(&[BOB]);
    world.does(&add(ANN, &[CY])).unwrap();
    let (outcomes, batch) = world.do_all(&[add(ANN, &[CY, BOB, ANN])]);
    assert_eq!(outcomes, [Ok(Outcome::Changed(None))]);
    assert!(batch.is_none());
    let (outcomes, batch) = world.do_all(&[add(ANN, &[DEE]), add(ANN, &[DEE]), add(ANN, &[DEE, DEE])]);
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(batch.unwrap().member_count, 4);
}

#[test]
fn adding_says_who_may_add() {
    let mut world = World::group(&[BOB]);
    assert!(matches!(world.refusal(&add(BOB, &[CY])), DomainError::Forbidden(_)));
    assert_eq!(world.refusal(&add(STRANGER, &[STRANGER])), DomainError::NotAMember);
    let mut open = World::empty();
    open.does(&Command::Create(Create {
        adding: Adding::All,
        ..creation(Kind::Group, &[BOB])
    }))
    .unwrap();
    open.does(&add(BOB, &[CY])).unwrap();
    assert_eq!(open.member(CY).role, Role::Member);
}

#[test]
fn b42_a_new_member_is_added_before_they_can_speak() {
    let mut world = World::group(&[BOB]);
    world.knows_key_is_new(CY, "early");
    let (outcomes, _) = world.do_all(&[send(CY, "early"), add(ANN, &[CY]), send(CY, "late")]);
    assert_eq!(outcomes[0], Err(DomainError::NotAMember.into()));
    assert!(matches!(&outcomes[2], Ok(Outcome::Sent(message)) if message.seq > world.member(CY).joined_seq));
}

#[test]
fn b96_a_removed_member_gets_no_seq_also_in_the_same_batch() {
    let mut world = World::group(&[BOB]);
    for key in ["a", "b"] {
        world.knows_key_is_new(BOB, key);
    }
    let (outcomes, batch) = world.do_all(&[send(BOB, "a"), remove(ANN, BOB), send(BOB, "b"), send(ANN, "c")]);
    assert!(outcomes[0].is_ok());
    assert_eq!(outcomes[2], Err(DomainError::NotAMember.into()));
    let events = told(batch.as_ref());
    let removed = events
        .iter()
        .position(|event| event == "removed USER:2 left=false")
        .unwrap();
    let after: Vec<&String> = events.iter().skip(removed + 1).collect();
    assert!(
        after[0].starts_with("changed 1 MEMBER_REMOVED") && after[0].contains("\"reason\":\"REMOVED\""),
        "{after:?}"
    );
    assert!(
        after[1].starts_with("sent 3 {\"event\":\"member_removed\""),
        "{after:?}"
    );
    assert_eq!(world.state().members.len(), 1);
}

#[test]
fn leaving_is_told_as_leaving() {
    let mut world = World::group(&[BOB]);
    let (_, batch) = world.do_all(&[remove(BOB, BOB)]);
    let events = told(batch.as_ref());
    assert_eq!(events[0], "removed USER:2 left=true");
    assert!(
        events[1].contains("\"reason\":\"LEFT\"") && events[2].contains("\"actor\":{\"type\":\"USER\",\"id\":\"2\"}")
    );
    assert_eq!(world.refusal(&remove(BOB, BOB)), DomainError::NotAMember);
}

#[test]
fn who_may_remove_whom() {
    let mut world = World::group(&[BOB, CY, DEE]);
    let admin = |world: &mut World, principal| {
        let event = Event::RoleChanged {
            principal,
            role: Role::Admin,
        };
        Conversation::apply(&mut world.state, &event);
    };
    admin(&mut world, BOB);
    admin(&mut world, DEE);
    let forbidden = |error| matches!(error, DomainError::Forbidden(_));
    assert!(forbidden(world.refusal(&remove(CY, BOB))), "a member removes nobody");
    assert!(
        forbidden(world.refusal(&remove(CY, STRANGER))),
        "and does not learn who is in it"
    );
    assert!(forbidden(world.refusal(&remove(BOB, DEE))), "an admin removes no admin");
    assert!(forbidden(world.refusal(&remove(BOB, ANN))), "nobody removes the owner");
    assert!(matches!(
        world.refusal(&remove(BOB, STRANGER)),
        DomainError::NotFound(_)
    ));
    assert!(matches!(
        world.refusal(&remove(ANN, STRANGER)),
        DomainError::NotFound(_)
    ));
    assert_eq!(world.refusal(&remove(STRANGER, CY)), DomainError::NotAMember);
    world.does(&remove(BOB, CY)).unwrap();
    world.does(&remove(ANN, DEE)).unwrap();
    assert_eq!(world.state().members.len(), 2);
}

#[test]
fn the_members_of_a_direct_are_fixed() {
    let mut world = World::empty();
    world.does(&create(Kind::Direct, &[BOB])).unwrap();
    for command in [add(ANN, &[CY]), remove(ANN, BOB), remove(ANN, ANN)] {
        assert!(
            matches!(world.refusal(&command), DomainError::Forbidden(_)),
            "{command:?}"
        );
    }
}

#[test]
fn an_owner_who_leaves_hands_over_to_the_longest_standing_admin_then_member() {
    let mut world = World::group(&[]);
    for new in [CY, BOB, DEE] {
        world.does(&add(ANN, &[new])).unwrap();
    }
    let (_, batch) = world.do_all(&[remove(ANN, ANN)]);
    let events = told(batch.as_ref());
    let kinds: Vec<&str> = events.iter().map(|event| event.split(" {").next().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "removed USER:1 left=true",
            "changed 4 MEMBER_REMOVED",
            "sent 5",
            "header ACTIVE",
            "role USER:3 OWNER",
            "changed 5 MEMBER_UPDATED",
            "sent 6",
        ]
    );
    assert_eq!(
        (world.state().header.owner, world.member(CY).role),
        (Some(CY), Role::Owner)
    );
    Conversation::apply(
        &mut world.state,
        &Event::RoleChanged {
            principal: DEE,
            role: Role::Admin,
        },
    );
    world.does(&remove(CY, CY)).unwrap();
    assert_eq!(
        world.state().header.owner,
        Some(DEE),
        "an ADMIN comes before a MEMBER who is there for longer"
    );
    assert_eq!(world.member(BOB).role, Role::Member);
}

#[test]
fn owners_who_leave_in_one_batch_hand_over_one_after_the_other() {
    let mut world = World::group(&[BOB, CY]);
    let (outcomes, batch) = world.do_all(&[remove(ANN, ANN), remove(BOB, BOB), add(CY, &[ANN])]);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let batch = batch.unwrap();
    assert_eq!((batch.header.owner, batch.member_count), (Some(CY), 2));
    assert_eq!(world.member(ANN).role, Role::Member, "who comes back is no owner");
}

#[test]
fn the_last_one_leaving_dissolves() {
    let mut world = World::group(&[]);
    let (_, batch) = world.do_all(&[remove(ANN, ANN)]);
    let events = told(batch.as_ref());
    assert_eq!(
        events[3..5],
        [
            "header DISSOLVED",
            "changed 2 CONVERSATION_UPDATED {\"status\":\"DISSOLVED\"}"
        ]
    );
    assert!(events[5].starts_with("sent 3 {\"event\":\"dissolved\""));
    assert_eq!(
        (world.state().header.status, world.state().header.owner),
        (Status::Dissolved, None)
    );
}

#[test]
fn a_dissolved_conversation_takes_no_member_and_loses_none() {
    let mut world = World::group(&[BOB]);
    let mut header = crate::domain::Header::clone(&world.state().header);
    header.status = Status::Dissolved;
    Conversation::apply(
        &mut world.state,
        &Event::HeaderChanged {
            header: Arc::new(header),
        },
    );
    world.knows_key_is_new(ANN, "k");
    for command in [add(ANN, &[CY]), remove(ANN, BOB), remove(BOB, BOB), send(ANN, "k")] {
        assert_eq!(world.refusal(&command), DomainError::Closed, "{command:?}");
    }
    assert!(
        matches!(world.refusal(&add(BOB, &[CY])), DomainError::Forbidden(_)),
        "rights come before state"
    );
    assert_eq!(
        world.refusal(&add(STRANGER, &[CY])),
        DomainError::NotAMember,
        "membership comes first"
    );
}

#[test]
fn who_leaves_and_comes_back_in_one_batch_joins_anew() {
    let mut world = World::group(&[BOB]);
    world.do_all(&[remove(BOB, BOB), add(ANN, &[BOB])]);
    assert_eq!(world.member(BOB).joined_seq.get(), 3);
}

#[test]
fn b09_a_clock_that_refuses_the_second_id_removes_nobody() {
    let mut world = World::group(&[BOB]);
    let mut given = 0;
    let mut one_id = || {
        given += 1;
        if given > 1 {
            Err(DomainError::LeaseLost)
        } else {
            Ok(message_id(9_000))
        }
    };
    let mut context = Context {
        now: Timestamp::from_millis(START),
        next_id: &mut one_id,
        facts: &world.facts,
    };
    let mut draft = Draft::new(conversation(), world.state.as_ref());
    assert_eq!(
        draft.decide(&remove(ANN, ANN), &mut context),
        Err(DomainError::LeaseLost.into())
    );
    assert!(draft.finish().is_none());
    world.does(&remove(ANN, ANN)).unwrap();
}
