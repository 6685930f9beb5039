//! What follows from a commit that went wrong.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use onescribe::conversation::{CommandError, ReplyTo, SessionReply, Step};
use onescribe::domain::{Command, Create, Emoji, Event, Kind, MessageId, Outcome, Personal, Principal, Seq, Touch};
use onescribe::routing::Bus;
use onescribe::storage::Commit;
use onescribe::storage::memory::{Fault, Faults, MemoryStore};

use crate::world::{FaultAt, Node, OTHER_ROOM, ROOM, create, is_contiguous, origin, run, send};

const ANN: Principal = Principal::user(1);
const BOB: Principal = Principal::user(2);

/// A node on a store whose third commit (the group is the first, one send the second) meets a fault.
async fn with_fault(fault: Fault) -> Node {
    let node = Node::start(&MemoryStore::with_faults(FaultAt::new(3, fault)), 1);
    node.group(ROOM, &[ANN, BOB]).await;
    node.insist(ROOM, ANN, "first").await;
    node
}

async fn everything_is_in_order(node: &Node) {
    let stored = node.stored(ROOM).await;
    assert!(is_contiguous(stored.iter().map(|(seq, _)| *seq)), "{stored:?}");
    let pushed = node.journal.seqs(ROOM);
    assert_eq!(
        pushed,
        stored.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
        "each pushed once, in order"
    );
}

#[test]
fn b06_a_commit_whose_answer_is_lost_is_found_and_answered_as_stored() {
    run(async {
        let node = with_fault(Fault::UnknownStored).await;
        let answers = join_all(["x", "y"].map(|key| node.ask(ROOM, send(ANN, key, key)))).await;
        assert!(
            answers.iter().all(|answer| matches!(answer, Ok(Outcome::Sent(_)))),
            "{answers:?}"
        );
        assert_eq!(node.insist(ROOM, ANN, "x").await.1, 3, "a repeat gives the same");
        assert_eq!(node.insist(ROOM, BOB, "z").await.1, 5, "no stuck conversation");
        everything_is_in_order(&node).await;
    });
}

#[test]
fn answers_found_after_a_lost_one_stand_beside_their_messages() {
    run(async {
        let node = with_fault(Fault::UnknownStored).await;
        for (frame, sender) in [(1, ANN), (2, BOB), (3, ANN)] {
            let session = SessionReply {
                hub: 0,
                session: 1,
                frame,
            };
            let command = send(sender, &format!("key {frame}"), "text");
            node.registry.dispatch(ROOM, command, ReplyTo::Session(session));
        }
        node.insist(ROOM, BOB, "last").await;
        let told = |step: &(_, Step)| match &step.1 {
            Step::Event(Event::MessageSent { message, .. }) => format!("message {}", message.seq),
            Step::Answer(to, Ok(Outcome::Sent(message))) => format!("answer {}: {}", to.frame, message.seq),
            other => panic!("{other:?}"),
        };
        let steps: Vec<String> = node.journal.steps.lock().unwrap().iter().skip(3).map(told).collect();
        let expected = [
            "message 3",
            "answer 1: 3",
            "message 4",
            "answer 2: 4",
            "message 5",
            "answer 3: 5",
            "message 6",
        ];
        assert_eq!(steps, expected);
    });
}

#[test]
fn an_unknown_commit_that_is_not_stored_is_to_be_asked_again() {
    run(async {
        let node = with_fault(Fault::UnknownNotStored).await;
        assert_eq!(
            node.ask(ROOM, send(ANN, "x", "x")).await,
            Err(CommandError::Unavailable)
        );
        assert_eq!(node.insist(ROOM, ANN, "x").await.1, 3);
        everything_is_in_order(&node).await;
    });
}

#[test]
fn a_commit_that_lands_late_is_neither_doubled_nor_forgotten() {
    run(async {
        for calls in 0..12 {
            let node = with_fault(Fault::UnknownStoredLater(calls)).await;
            drop(node.ask(ROOM, send(ANN, "x", "x")).await);
            node.insist(ROOM, BOB, "y").await;
            node.insist(ROOM, ANN, "x").await;
            node.insist(ROOM, BOB, "z").await;
            everything_is_in_order(&node).await;
            let keys: Vec<_> = node.stored(ROOM).await.into_iter().filter_map(|(_, key)| key).collect();
            assert_eq!(keys.iter().filter(|key| *key == "x").count(), 1, "{keys:?}");
        }
    });
}

#[test]
fn a_commit_that_lands_after_it_was_looked_for_is_told_without_another_commit() {
    run(async {
        for calls in 0..12 {
            let node = with_fault(Fault::UnknownStoredLater(calls)).await;
            let (first, _) = node.insist(ROOM, ANN, "first").await;
            let react = Command::Touch {
                origin: origin(ANN),
                message_id: MessageId::new(first).unwrap(),
                touch: Touch::React {
                    emoji: Emoji::parse("🎉").unwrap(),
                    added: true,
                },
            };
            // Asked again, it may be found done, by a writer that holds what was before: then it commits nothing.
            while node.ask(ROOM, react.clone()).await == Err(CommandError::Unavailable) {}
            tokio::time::sleep(Duration::from_mins(1)).await;
            let steps = node.journal.steps.lock().unwrap();
            let told = |step: &&(_, Step)| matches!(step.1, Step::Event(Event::Changed { .. }));
            assert_eq!(steps.iter().filter(told).count(), 1, "{calls} calls later: {steps:?}");
        }
    });
}

#[test]
fn b12_a_refused_commit_stores_nothing_and_uses_no_seq() {
    run(async {
        let node = with_fault(Fault::FailBefore).await;
        let answers = join_all(["x", "first", "y"].map(|key| node.ask(ROOM, send(ANN, key, key)))).await;
        assert_eq!(answers[0], Err(CommandError::Unavailable));
        assert!(matches!(&answers[1], Ok(Outcome::Duplicate(record)) if record.seq.get() == 2));
        assert!(
            matches!(&answers[2], Ok(Outcome::Sent(message)) if message.seq.get() == 3),
            "the next batch"
        );
        assert_eq!(node.insist(ROOM, ANN, "x").await.1, 4);
        everything_is_in_order(&node).await;
    });
}

#[test]
fn two_owners_of_one_conversation_make_no_double_and_no_hole() {
    run(async {
        let store = MemoryStore::new();
        let (one, two) = (Node::start(&store, 1), Node::start(&store, 2));
        one.group(ROOM, &[ANN, BOB]).await;
        let keys: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
        let both = keys.iter().enumerate().map(|(n, key)| {
            if n % 2 == 0 {
                one.insist(ROOM, ANN, key)
            } else {
                two.insist(ROOM, BOB, key)
            }
        });
        let mut seqs: Vec<i64> = join_all(both).await.into_iter().map(|(_, seq)| seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (2..=61).collect::<Vec<_>>());
        for key in &keys {
            // Asked again at the other owner, a key gives the same answer.
            let (n, sender) = (key[1..].parse::<usize>().unwrap(), [ANN, BOB]);
            let here = one.insist(ROOM, sender[n % 2], key).await;
            assert_eq!(here, two.insist(ROOM, sender[n % 2], key).await);
        }
        for node in [&one, &two] {
            node.insist(ROOM, ANN, "last").await;
            let pushed = node.journal.seqs(ROOM);
            assert!(
                pushed.windows(2).all(|pair| pair[0] < pair[1]),
                "no session sees a seq twice or backwards: {pushed:?}"
            );
        }
    });
}

#[test]
fn of_a_read_whose_commit_was_lost_and_is_stored_the_other_one_of_a_pair_is_told() {
    run(async {
        for fault in [Fault::UnknownStored, Fault::UnknownNotStored] {
            // The pair, the inbox, what is said, the read.
            let node = Node::start(&MemoryStore::with_faults(FaultAt::new(4, fault)), 1);
            for (id, kind, members) in [(ROOM, Kind::Direct, &[ANN, BOB][..]), (OTHER_ROOM, Kind::Inbox, &[BOB])] {
                let Command::Create(create) = create(members) else {
                    panic!()
                };
                let create = Command::Create(Create { kind, ..create });
                assert_eq!(node.ask(id, create).await, Ok(Outcome::Created));
            }
            node.insist(ROOM, ANN, "hello").await;
            let act = Personal::Read {
                conversation_id: ROOM,
                seq: Seq::new(1),
            };
            let read = Command::Personal {
                origin: origin(BOB),
                act,
            };
            let answer = node.ask(OTHER_ROOM, read).await;
            let is_read = matches!(&answer, Ok(Outcome::Read { last_read_seq, .. }) if last_read_seq.get() == 1);
            let stored = fault == Fault::UnknownStored;
            assert_eq!(is_read, stored, "{answer:?}");
            let told = |step: &(_, Step)| match &step.1 {
                Step::Event(Event::ReadMoved {
                    principal, seq, peer, ..
                }) => Some(format!("{principal} at {seq} to {}", peer.unwrap())),
                Step::Event(Event::Changed { change, .. }) => Some(format!("change {}", change.change_seq)),
                _ => None,
            };
            let told: Vec<String> = node.journal.steps.lock().unwrap().iter().filter_map(told).collect();
            let expected = ["USER:2 at 1 to USER:1", "change 1"];
            assert_eq!(
                told,
                expected[..if stored { 2 } else { 0 }],
                "each once, the peer's first"
            );
        }
    });
}

/// The commits meet these faults, one after the other.
struct Script(Mutex<VecDeque<Fault>>);

impl Faults for Script {
    fn on_commit(&self, _: &Commit) -> Fault {
        self.0.lock().unwrap().pop_front().unwrap_or(Fault::None)
    }
}

#[test]
fn a_creation_that_did_not_come_true_is_not_told_when_an_earlier_try_did() {
    run(async {
        for calls in 1..12 {
            let faults = VecDeque::from([Fault::UnknownStoredLater(calls), Fault::UnknownNotStored]);
            let node = Node::start(&MemoryStore::with_faults(Arc::new(Script(Mutex::new(faults)))), 1);
            for _ in 0..3 {
                drop(node.ask(ROOM, create(&[ANN, BOB])).await);
            }
            node.insist(ROOM, ANN, "x").await;
            let stored = node.store.messages_after(ROOM, Seq::ZERO, 10).await.unwrap();
            for (_, step) in &*node.journal.steps.lock().unwrap() {
                let Step::Event(Event::MessageSent { message, .. }) = step else {
                    continue;
                };
                assert!(stored.contains(message), "{message:?} is told, stored is {stored:?}");
            }
        }
    });
}
