//! What holds for every history: random commands, in batches of any size.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::domain::chain::{chain_hash, genesis};
use crate::domain::{PrincipalType, Status};

const PEOPLE: [Principal; 5] = [ANN, BOB, CY, DEE, Principal::agent(1)];

fn person() -> impl Strategy<Value = Principal> {
    (0..PEOPLE.len()).prop_map(|index| PEOPLE[index])
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => (person(), 0..6_u8, 0..2_u8).prop_map(|(sender, key, text)| {
            Command::Send(sending(sender, &format!("k{key}"), &format!("words {text}")))
        }),
        2 => (person(), vec(person(), 1..4)).prop_map(|(actor, members)| add(actor, &members)),
        1 => (person(), person()).prop_map(|(actor, target)| remove(actor, target)),
        1 => person().prop_map(|leaver| remove(leaver, leaver)),
    ]
}

/// A world in which the store answers "never used" to every key that memory does not know.
fn open_world() -> World {
    let mut world = World::empty();
    let created = Create {
        adding: Adding::All,
        ..creation(Kind::Group, &[BOB])
    };
    world.does(&Command::Create(created)).unwrap();
    for person in PEOPLE {
        for key in 0..6 {
            world.knows_key_is_new(person, &format!("k{key}"));
        }
    }
    world
}

fn check_numbers(events: &[Event], mut chain: crate::domain::Digest) {
    let (mut seq, mut change_seq, mut count_no) = (1, 0, 0);
    for event in events {
        match event {
            Event::MessageSent { message, .. } => {
                seq += 1;
                count_no += i64::from(message.sender.kind != PrincipalType::System);
                chain = chain_hash(&chain, message);
                assert_eq!(
                    (message.seq.get(), message.count_no.get(), message.chain_hash),
                    (seq, count_no, chain)
                );
            }
            Event::Changed { change, .. } => {
                change_seq += 1;
                assert_eq!(change.change_seq.get(), change_seq);
            }
            _ => {}
        }
    }
}

fn check_state(state: &Conversation) {
    let owners: Vec<Principal> = state
        .members
        .iter()
        .filter(|member| member.role == Role::Owner)
        .map(|member| member.principal)
        .collect();
    match state.header.status {
        Status::Active => assert_eq!(
            owners,
            Vec::from_iter(state.header.owner),
            "an active group has one owner"
        ),
        Status::Dissolved => assert!(owners.is_empty() && state.members.is_empty()),
    }
    assert!(
        state
            .members
            .iter()
            .all(|member| member.joined_seq <= state.head.last_seq)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// INV-SEQ-1, INV-CHG-1, the chain, one owner; and the head that a batch promises is the one that memory reaches.
    #[test]
    fn numbers_have_no_holes_and_memory_reaches_what_was_promised(batches in vec(vec(command(), 1..6), 1..12)) {
        let mut world = open_world();
        let chain = world.state().head.chain_hash;
        let mut events = Vec::new();
        for commands in batches {
            world.now += 7;
            let (_, batch) = world.do_all(&commands);
            let Some(batch) = batch else { continue };
            prop_assert_eq!(&batch.header, &world.state().header);
            prop_assert_eq!(batch.head, world.state().head);
            prop_assert_eq!(batch.member_count, world.state().members.len());
            prop_assert!(!batch.events.is_empty());
            check_state(world.state());
            events.extend(batch.events);
        }
        check_numbers(&events, chain);
    }

    /// How commands fall into batches changes nothing but speed.
    #[test]
    fn one_batch_or_many_lead_to_the_same_state(commands in vec(command(), 1..20)) {
        let (mut together, mut alone) = (open_world(), open_world());
        let (outcomes, _) = together.do_all(&commands);
        for (command, outcome) in commands.iter().zip(outcomes) {
            prop_assert_eq!(&alone.does(command), &outcome);
        }
        assert_same(together.state.as_ref(), alone.state.as_ref());
    }

    /// INV-IDEM-1: however often and in whatever company a key comes, it has one message and one answer.
    #[test]
    fn a_key_has_one_message_for_ever(commands in vec(command(), 1..40)) {
        let mut world = open_world();
        let mut first = std::collections::HashMap::new();
        for command in &commands {
            let outcome = world.does(command);
            let Command::Send(send) = command else { continue };
            let key = (send.origin.principal, send.client_message_id.clone());
            match outcome {
                Ok(Outcome::Sent(message)) => {
                    prop_assert!(first.insert(key, message.record()).is_none(), "a second message for one key");
                }
                Ok(Outcome::Duplicate(record)) => prop_assert_eq!(Some(&record), first.get(&key)),
                Err(Refusal::Rejected(DomainError::KeyReused { original })) => {
                    prop_assert_eq!(Some(original), first.get(&key).map(|record| record.message_id));
                }
                _ => prop_assert!(!first.contains_key(&key), "a repeat was refused"),
            }
        }
    }
}

#[test]
fn the_chain_of_two_conversations_begins_differently() {
    assert_ne!(genesis(conversation()), genesis(ConversationId::new(8).unwrap()));
}
