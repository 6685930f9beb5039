//! Sending: numbers, idempotency, quotes, and which refusal comes first.

use super::*;
use crate::domain::decide::Fact;
use crate::domain::{Digest, KeyRecord};

fn dissolved() -> World {
    let mut world = World::group(&[]);
    world.does(&remove(ANN, ANN)).unwrap();
    world
}

#[test]
fn messages_are_numbered_without_holes_and_count_only_people() {
    let mut world = World::group(&[BOB]);
    let one = world.sent(&send(ANN, "a"));
    world.does(&add(ANN, &[CY])).unwrap();
    let two = world.sent(&send(BOB, "b"));
    assert_eq!((one.seq.get(), one.count_no.get()), (2, 1));
    assert_eq!(
        (two.seq.get(), two.count_no.get()),
        (4, 2),
        "a SYSTEM message has a seq and no count_no"
    );
    assert_eq!(two.sent_at, Timestamp::from_millis(START));
}

#[test]
fn b24_a_repeat_is_answered_with_the_first_message() {
    let mut world = World::group(&[BOB]);
    let first = world.sent(&send(ANN, "k"));
    world.now += 90_000_000;
    let again = world.does(&send(ANN, "k"));
    assert_eq!(again, Ok(Outcome::Duplicate(first.record())));
    assert_eq!(world.state().head.last_seq, first.seq);
}

#[test]
fn a_repeat_in_the_same_batch_is_a_repeat_too() {
    let mut world = World::group(&[BOB]);
    let (outcomes, batch) = world.do_all(&[send(ANN, "k"), send(ANN, "k"), send(ANN, "k")]);
    let Ok(Outcome::Sent(first)) = &outcomes[0] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(outcomes[1], Ok(Outcome::Duplicate(first.record())));
    assert_eq!(outcomes[2], outcomes[1]);
    assert_eq!(told(batch.as_ref()).len(), 1);
}

#[test]
fn b27_the_same_key_with_another_payload_is_a_conflict() {
    let mut world = World::group(&[BOB]);
    let first = world.sent(&send(ANN, "0"));
    let reused = DomainError::KeyReused {
        original: first.message_id,
    };
    let other_text = Command::Send(sending(ANN, "0", "other words"));
    let other_type = Command::Send(Send {
        message_type: MessageType::parse("NOTE").unwrap(),
        ..sending(ANN, "0", "words")
    });
    let other_quote = Command::Send(Send {
        quoted_message_id: Some(first.message_id),
        ..sending(ANN, "0", "words")
    });
    for other in [other_text, other_type, other_quote] {
        assert_eq!(world.refusal(&other), reused);
    }
}

#[test]
fn b26_the_key_belongs_to_the_principal() {
    let agent = Principal::agent(1);
    let mut world = World::group(&[BOB, agent]);
    let ids: Vec<MessageId> = [ANN, BOB, agent]
        .map(|sender| world.sent(&send(sender, "0")).message_id)
        .to_vec();
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
}

#[test]
fn b33_a_key_that_memory_has_forgotten_is_known_from_the_store() {
    let mut world = World::group(&[BOB]);
    let first = world.sent(&send(ANN, "old"));
    for n in 0..crate::domain::conversation::RECENT_KEYS_MAX {
        world.sent(&send(BOB, &format!("{n}")));
    }
    assert_eq!(
        world.state().recent.get(ANN, &client_message_id("old")),
        None,
        "it is bounded"
    );
    world
        .facts
        .keys
        .insert((ANN, client_message_id("old")), Some(first.record()));
    assert_eq!(world.does(&send(ANN, "old")), Ok(Outcome::Duplicate(first.record())));
}

#[test]
fn the_repeat_wins_over_every_other_answer() {
    let record = |message: &Message| Ok(Outcome::Duplicate(message.record()));
    let mut world = World::group(&[BOB]);
    let first = world.sent(&send(BOB, "K"));
    let stale = Command::Send(Send {
        expected_last_seq: Some(Seq::ZERO),
        ..sending(BOB, "K", "words")
    });
    assert_eq!(world.does(&stale), record(&first), "over a failed precondition");
    world.does(&remove(ANN, BOB)).unwrap();
    assert_eq!(
        world.does(&send(BOB, "K")),
        record(&first),
        "over not being a member any more"
    );
    let reused = DomainError::KeyReused {
        original: first.message_id,
    };
    assert_eq!(
        world.refusal(&Command::Send(sending(BOB, "K", "other"))),
        reused,
        "so does the conflict"
    );
    let mine = world.sent(&send(ANN, "mine"));
    world.does(&remove(ANN, ANN)).unwrap();
    assert_eq!(
        world.does(&send(ANN, "mine")),
        record(&mine),
        "over a closed conversation"
    );
}

#[test]
fn before_a_refusal_the_store_is_asked_for_the_key() {
    let mut world = World::group(&[BOB]);
    let needs = Err(Refusal::Needs(Fact::Key(STRANGER, client_message_id("k"))));
    assert_eq!(world.does(&send(STRANGER, "k")), needs);
    world.knows_key_is_new(STRANGER, "k");
    assert_eq!(world.refusal(&send(STRANGER, "k")), DomainError::NotAMember);
}

#[test]
fn a_new_key_of_a_member_costs_no_look_up() {
    let mut world = World::group(&[BOB]);
    assert!(world.facts.keys.is_empty());
    world.sent(&send(ANN, "fresh"));
}

#[test]
fn membership_then_rights_then_state_then_precondition() {
    let stale = |sender| {
        Command::Send(Send {
            expected_last_seq: Some(Seq::ZERO),
            ..sending(sender, "k", "words")
        })
    };
    let mut admins_only = World::empty();
    let command = Command::Create(Create {
        posting: Posting::Admins,
        ..creation(Kind::Group, &[BOB])
    });
    admins_only.does(&command).unwrap();
    for sender in [ANN, BOB, STRANGER] {
        admins_only.knows_key_is_new(sender, "k");
    }
    assert_eq!(admins_only.refusal(&stale(STRANGER)), DomainError::NotAMember);
    assert!(matches!(admins_only.refusal(&stale(BOB)), DomainError::Forbidden(_)));
    let last_seq = admins_only.state().head.last_seq;
    assert_eq!(
        admins_only.refusal(&stale(ANN)),
        DomainError::PreconditionFailed { last_seq }
    );
    assert_eq!(
        admins_only.sent(&send(ANN, "k2")).seq.get(),
        2,
        "refusals use no number"
    );
}

#[test]
fn where_nothing_is_nothing_is_found_and_what_is_closed_is_closed() {
    let mut nowhere = World::empty();
    nowhere.knows_key_is_new(ANN, "k");
    assert_eq!(nowhere.refusal(&send(ANN, "k")), DomainError::ConversationNotFound);
    let mut closed = dissolved();
    closed.knows_key_is_new(ANN, "k");
    assert_eq!(
        closed.refusal(&send(ANN, "k")),
        DomainError::NotAMember,
        "the last one has left"
    );
}

#[test]
fn only_the_server_writes_to_an_inbox() {
    let mut world = World::empty();
    world.does(&create(Kind::Inbox, &[])).unwrap();
    world.knows_key_is_new(ANN, "k");
    assert!(matches!(world.refusal(&send(ANN, "k")), DomainError::Forbidden(_)));
}

#[test]
fn expected_last_seq_is_compared_with_the_head_of_the_batch() {
    let expecting = |key: &str, seq| {
        Command::Send(Send {
            expected_last_seq: Some(Seq::new(seq)),
            ..sending(ANN, key, "words")
        })
    };
    let mut world = World::group(&[]);
    for key in ["a", "b"] {
        world.knows_key_is_new(ANN, key);
    }
    let (outcomes, _) = world.do_all(&[expecting("a", 1), expecting("b", 1)]);
    assert!(outcomes[0].is_ok());
    assert_eq!(
        outcomes[1],
        Err(DomainError::PreconditionFailed { last_seq: Seq::new(2) }.into())
    );
}

#[test]
fn b111_a_quote_must_be_visible_to_its_sender() {
    let quoting = |quoted, key: &str| {
        Command::Send(Send {
            quoted_message_id: Some(quoted),
            ..sending(BOB, key, "re")
        })
    };
    let mut world = World::group(&[BOB]);
    let first = world.sent(&send(ANN, "a"));
    let needs = Err(Refusal::Needs(Fact::Quote(first.message_id, BOB)));
    assert_eq!(world.does(&quoting(first.message_id, "q")), needs);
    for unseen in [
        None,
        Some(Quotable {
            seq: first.seq,
            gone: true,
        }),
    ] {
        world.knows_quote(first.message_id, BOB, unseen);
        world.knows_key_is_new(BOB, "q");
        assert!(matches!(
            world.refusal(&quoting(first.message_id, "q")),
            DomainError::NotFound(_)
        ));
    }
    world.knows_quote(
        first.message_id,
        BOB,
        Some(Quotable {
            seq: first.seq,
            gone: false,
        }),
    );
    let quote = world.sent(&quoting(first.message_id, "q"));
    assert_eq!(quote.quoted_message_id, Some(first.message_id));
}

#[test]
fn what_was_said_before_my_joining_cannot_be_quoted_where_history_is_hidden() {
    for (visibility, allowed) in [(HistoryVisibility::Shared, true), (HistoryVisibility::Joined, false)] {
        let mut world = World::empty();
        let command = Command::Create(Create {
            history_visibility: visibility,
            ..creation(Kind::Group, &[BOB])
        });
        world.does(&command).unwrap();
        let old = world.sent(&send(ANN, "old"));
        world.does(&add(ANN, &[CY])).unwrap();
        world.knows_quote(
            old.message_id,
            CY,
            Some(Quotable {
                seq: old.seq,
                gone: false,
            }),
        );
        world.knows_key_is_new(CY, "q");
        let quote = Command::Send(Send {
            quoted_message_id: Some(old.message_id),
            ..sending(CY, "q", "re")
        });
        assert_eq!(world.does(&quote).is_ok(), allowed, "{visibility:?}");
    }
}

#[test]
fn b09_a_clock_that_refuses_uses_no_number_and_no_key() {
    let mut world = World::group(&[]);
    world.refuses = Some(DomainError::ClockMovedBackwards { by_ms: 6 });
    assert_eq!(
        world.refusal(&send(ANN, "k")),
        DomainError::ClockMovedBackwards { by_ms: 6 }
    );
    world.refuses = None;
    assert_eq!(world.sent(&send(ANN, "k")).seq.get(), 2);
}

#[test]
fn b39_order_is_by_seq_whatever_the_clock_does() {
    let mut world = World::group(&[]);
    let one = world.sent(&send(ANN, "1"));
    world.now -= 60_000;
    let two = world.sent(&send(ANN, "2"));
    assert!(two.seq > one.seq && two.sent_at < one.sent_at);
}

#[test]
fn the_chain_shows_every_alteration() {
    let mut world = World::group(&[BOB]);
    let before = world.state().head.chain_hash;
    let message = world.sent(&send(BOB, "k"));
    let hash = |message: &Message| crate::domain::chain::chain_hash(&before, message);
    assert_eq!(hash(&message), message.chain_hash);
    let altered: [fn(&mut Message); 8] = [
        |m| m.seq = m.seq.next(),
        |m| m.message_id = message_id(5),
        |m| m.sender = Principal::agent(m.sender.id),
        |m| m.sender.id += 1,
        |m| m.client_message_id = None,
        |m| m.message_type = MessageType::Card,
        |m| m.content_hash = content_hash("{}"),
        |m| m.sent_at = Timestamp::from_millis(1),
    ];
    let hashes: Vec<Digest> = altered
        .iter()
        .map(|alter| {
            let mut other = Message::clone(&message);
            alter(&mut other);
            hash(&other)
        })
        .collect();
    assert!(hashes.iter().all(|other| *other != message.chain_hash), "{hashes:?}");
}

#[test]
fn a_record_is_what_a_repeat_is_compared_with() {
    let mut world = World::group(&[]);
    let message = world.sent(&send(ANN, "k"));
    let KeyRecord {
        message_id,
        seq,
        content_hash,
        ..
    } = message.record();
    assert_eq!(
        (message_id, seq, content_hash),
        (message.message_id, message.seq, message.content_hash)
    );
}
