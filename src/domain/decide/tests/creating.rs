//! Creating conversations.

use super::*;

#[test]
fn a_group_starts_with_one_system_message_and_no_change() {
    let mut world = World::empty();
    let (outcomes, batch) = world.do_all(&[create(Kind::Group, &[BOB, CY])]);
    assert_eq!(outcomes, [Ok(Outcome::Created)]);
    let principal = |id: i64| format!("{{\"type\":\"USER\",\"id\":\"{id}\"}}");
    let members = [1, 2, 3].map(principal).join(",");
    assert_eq!(
        told(batch.as_ref()),
        [
            "created with 3".to_owned(),
            format!(
                "sent 1 {{\"event\":\"conversation_created\",\"actor\":{},\"members\":[{members}]}}",
                principal(1)
            ),
        ]
    );
    let state = world.state();
    assert_eq!(
        (
            state.head.last_seq.get(),
            state.head.last_change_seq.get(),
            state.head.last_count_no.get()
        ),
        (1, 0, 0)
    );
    assert_eq!(state.header.owner, Some(ANN));
    let joined =
        [ANN, BOB, CY].map(|principal| (world.member(principal).role, world.member(principal).joined_seq.get()));
    assert_eq!(joined, [(Role::Owner, 1), (Role::Member, 1), (Role::Member, 1)]);
}

#[test]
fn a_direct_starts_with_nothing() {
    let mut world = World::empty();
    let (_, batch) = world.do_all(&[create(Kind::Direct, &[BOB])]);
    assert_eq!(told(batch.as_ref()), ["created with 2"]);
    assert_eq!(world.state().head.last_seq, Seq::ZERO);
    assert_eq!(world.state().header.owner, None);
    assert_eq!(
        (world.member(ANN).role, world.member(BOB).joined_seq),
        (Role::Member, Seq::ZERO)
    );
    assert_eq!(world.sent(&send(BOB, "k")).seq.get(), 1);
}

#[test]
fn a_direct_with_oneself_has_one_member() {
    let mut world = World::empty();
    world.does(&create(Kind::Direct, &[ANN])).unwrap();
    assert_eq!(world.state().members.len(), 1);
}

#[test]
fn naming_a_member_or_the_creator_twice_makes_them_a_member_once() {
    let mut world = World::empty();
    let (_, batch) = world.do_all(&[create(Kind::Group, &[BOB, ANN, BOB])]);
    assert_eq!(batch.unwrap().member_count, 2);
    assert_eq!(world.member(ANN).role, Role::Owner);
}

#[test]
fn user_and_agent_of_the_same_number_are_two_members() {
    let mut world = World::group(&[Principal::agent(1)]);
    assert_eq!(world.state().members.len(), 2);
    assert_eq!(world.sent(&send(Principal::agent(1), "k")).seq.get(), 2);
}

#[test]
fn what_exists_is_not_created_again() {
    let mut world = World::group(&[BOB]);
    let error = world.refusal(&create(Kind::Group, &[CY]));
    assert_eq!(
        error,
        DomainError::AlreadyCreated {
            conversation_id: conversation()
        }
    );
    let (outcomes, batch) = World::empty().do_all(&[create(Kind::Group, &[]), create(Kind::Group, &[])]);
    assert!(
        outcomes[0].is_ok() && outcomes[1].is_err(),
        "the second sees the first in the same batch"
    );
    assert_eq!(told(batch.as_ref()).len(), 2);
}

#[test]
fn an_unordered_pair_has_one_creation_key() {
    assert_eq!(CreationKey::direct(ANN, BOB), CreationKey::direct(BOB, ANN));
    assert_ne!(
        CreationKey::direct(ANN, BOB),
        CreationKey::direct(ANN, Principal::agent(2))
    );
    assert_ne!(
        CreationKey::direct(Principal::user(12), Principal::user(3)),
        CreationKey::direct(ANN, Principal::user(23))
    );
}

#[test]
fn b09_a_clock_that_refuses_creates_nothing() {
    let mut world = World::empty();
    world.refuses = Some(DomainError::ClockMovedBackwards { by_ms: 9 });
    assert_eq!(
        world.refusal(&create(Kind::Group, &[BOB])),
        DomainError::ClockMovedBackwards { by_ms: 9 }
    );
    world.refuses = None;
    world.does(&create(Kind::Group, &[BOB])).unwrap();
    assert_eq!(world.state().head.last_seq.get(), 1);
}

#[test]
fn a_group_has_a_bound() {
    let many = |count: i64| (10..10 + count).map(Principal::user).collect::<Vec<_>>();
    let most = i64::try_from(super::super::MEMBERS_MAX).unwrap();
    let mut world = World::empty();
    assert!(matches!(
        world.refusal(&create(Kind::Group, &many(most))),
        DomainError::Forbidden(_)
    ));
    world.does(&create(Kind::Group, &many(most - 1))).unwrap();
    assert!(matches!(world.refusal(&add(ANN, &[BOB])), DomainError::Forbidden(_)));
}
