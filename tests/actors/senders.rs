//! What many senders at once see.

use std::time::Duration;

use futures_util::future::join_all;
use onescribe::conversation::{CommandError, ReplyTo, SessionReply, Step};
use onescribe::domain::{Command, DomainError, Event, Outcome, Principal};
use onescribe::routing::Bus;
use onescribe::storage::memory::MemoryStore;

use crate::world::{IDLE, Node, OTHER_ROOM, ROOM, create, is_contiguous, origin, run, send};

const ANN: Principal = Principal::user(1);
const BOB: Principal = Principal::user(2);

#[test]
fn b07_a_thousand_sends_at_once_get_seqs_without_a_hole_and_are_pushed_in_order() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        let keys: Vec<String> = (0..1_000).map(|n| format!("k{n}")).collect();
        let acks = join_all(keys.iter().map(|key| node.ask(ROOM, send(ANN, key, key)))).await;
        let seqs: Vec<i64> = acks
            .into_iter()
            .map(|ack| match ack {
                Ok(Outcome::Sent(message)) => message.seq.get(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            seqs,
            (2..=1_001).collect::<Vec<_>>(),
            "in the order in which they were sent"
        );
        assert!(is_contiguous(node.journal.seqs(ROOM)));
        assert!(is_contiguous(node.stored(ROOM).await.into_iter().map(|(seq, _)| seq)));
    });
}

#[test]
fn b24_fifty_repeats_in_flight_make_one_message() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        let answers = join_all((0..50).map(|_| node.ask(ROOM, send(ANN, "storm", "once")))).await;
        let sent = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Outcome::Sent(_))))
            .count();
        let repeats = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Outcome::Duplicate(record)) if record.seq.get() == 2))
            .count();
        assert_eq!((sent, repeats), (1, 49));
        let conflict = node.ask(ROOM, send(ANN, "storm", "other words")).await;
        assert!(matches!(
            conflict,
            Err(CommandError::Refused(DomainError::KeyReused { .. }))
        ));
        assert_eq!(node.stored(ROOM).await.len(), 2);
    });
}

#[test]
fn lanes_that_are_told_to_end_finish_what_they_were_given_and_take_nothing_more() {
    run(async {
        let store = MemoryStore::new();
        Node::start(&store, 1).group(ROOM, &[ANN, BOB]).await;
        let mut node = Node::with_sleeping_lanes(&store, 2);
        let given = node.post(ROOM, send(ANN, "before", "before"));
        // Its batch is in the lane when time can pass.
        tokio::time::sleep(Duration::from_millis(1)).await;
        node.committer.end().await;
        let late = node.post(OTHER_ROOM, create(&[ANN, BOB]));
        tokio::time::sleep(Duration::from_millis(1)).await;
        node.wake_lanes();
        assert!(matches!(given.await, Ok(Ok(Outcome::Sent(_)))));
        // Behind the last order, and before it was read: it is taken still, and finished.
        assert_eq!(late.await, Ok(Ok(Outcome::Created)));
        let refused = node.ask(ROOM, send(ANN, "after", "after")).await;
        assert_eq!(refused, Err(CommandError::Overloaded));
        assert_eq!(node.stored(ROOM).await.len(), 2);
    });
}

#[test]
fn b33_a_key_that_memory_has_forgotten_is_found_in_the_store() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        let first = node.insist(ROOM, ANN, "first").await;
        for n in 0..500 {
            node.insist(ROOM, BOB, &format!("{n}")).await;
        }
        // Between new ones, so that a whole batch meets the unique key.
        let mixed = ["new 1", "first", "new 2"];
        let answers = join_all(mixed.map(|key| node.insist(ROOM, ANN, key))).await;
        assert_eq!(answers[1], first);
        assert_eq!((answers[0].1, answers[2].1), (503, 504));
    });
}

#[test]
fn b03_an_idle_actor_stops_and_comes_back_without_a_difference() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        let first = node.insist(ROOM, ANN, "a").await;
        assert_eq!(node.registry.len(), 1);
        tokio::time::sleep(IDLE + Duration::from_secs(3)).await;
        assert!(node.registry.is_empty(), "nothing idle stays in memory");
        assert_eq!(node.insist(ROOM, ANN, "a").await, first);
        assert_eq!(node.insist(ROOM, BOB, "b").await.1, 3);
        assert!(is_contiguous(node.journal.seqs(ROOM)));
    });
}

#[test]
fn a_command_at_the_very_moment_of_stopping_is_not_lost() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        for n in 0..40 {
            // Around the moments at which the actor leaves the registry and at which it stops.
            tokio::time::sleep(IDLE.saturating_sub(Duration::from_millis(50)) + Duration::from_millis(30 * n)).await;
            assert!(node.ask(ROOM, send(ANN, &format!("{n}"), "x")).await.is_ok());
        }
        assert!(is_contiguous(node.journal.seqs(ROOM)));
    });
}

#[test]
fn a_panicking_actor_takes_nothing_with_it() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        node.group(OTHER_ROOM, &[ANN, BOB]).await;
        node.journal.panics.lock().unwrap().insert(ROOM);
        assert_eq!(
            node.ask(ROOM, send(ANN, "a", "a")).await,
            Err(CommandError::Unavailable),
            "an unknown outcome"
        );
        assert_eq!(node.insist(OTHER_ROOM, ANN, "a").await.1, 2, "the neighbour lives on");
        assert_eq!(
            node.insist(ROOM, ANN, "a").await.1,
            2,
            "it was stored: the same key finds it"
        );
        assert_eq!(node.insist(ROOM, ANN, "b").await.1, 3);
    });
}

#[test]
fn sessions_that_wait_for_a_dying_actor_are_answered() {
    run(async {
        let store = MemoryStore::new();
        Node::start(&store, 1).group(ROOM, &[ANN, BOB]).await;
        let mut node = Node::with_sleeping_lanes(&store, 2);
        node.journal.panics.lock().unwrap().insert(ROOM);
        let first = node.post(ROOM, send(ANN, "first", "x"));
        for frame in 0..50 {
            let to = SessionReply {
                hub: 0,
                session: 1,
                frame,
            };
            let command = send(ANN, &format!("{frame}"), "x");
            node.registry.dispatch(ROOM, command, ReplyTo::Session(to));
        }
        node.wake_lanes();
        assert!(first.await.is_err(), "the actor died with it");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let steps = node.journal.steps.lock().unwrap();
        let answered = steps
            .iter()
            .filter(|(_, step)| matches!(step, Step::Answer(_, Err(CommandError::Unavailable))));
        assert_eq!(answered.count(), 50);
    });
}

#[test]
fn b85_a_stalled_store_is_answered_with_overloaded_and_memory_is_bounded() {
    run(async {
        let store = MemoryStore::new();
        Node::start(&store, 1).group(ROOM, &[ANN, BOB]).await;
        let mut node = Node::with_sleeping_lanes(&store, 2);
        let posted: Vec<_> = (0..10_000)
            .map(|n| node.post(ROOM, send(ANN, &format!("{n}"), "x")))
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        node.wake_lanes();
        let answers = join_all(posted).await;
        let refused = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Err(CommandError::Overloaded))))
            .count();
        let sent = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Ok(Outcome::Sent(_)))))
            .count();
        assert_eq!(refused + sent, 10_000, "every command has an answer");
        assert!(refused > 0 && sent > 0, "{refused} refused, {sent} sent");
        assert_eq!(
            node.insist(ROOM, BOB, "after").await.1,
            i64::try_from(sent).unwrap() + 2
        );
    });
}

#[test]
fn a_caller_that_hangs_up_changes_nothing() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        for n in 0..100 {
            drop(node.post(ROOM, send(ANN, &format!("{n}"), "x")));
        }
        assert_eq!(node.insist(ROOM, ANN, "last").await.1, 102);
    });
}

#[test]
fn an_answer_to_a_session_stands_behind_the_pushes_of_lower_seqs() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        node.journal.steps.lock().unwrap().clear();
        for n in 0..30_u64 {
            let reply = SessionReply {
                hub: 0,
                session: n % 3,
                frame: n,
            };
            node.registry
                .dispatch(ROOM, send(ANN, &format!("{n}"), "x"), ReplyTo::Session(reply));
        }
        node.insist(ROOM, BOB, "last").await;
        let mut pushed = 1;
        let mut answered = 0;
        for (_, step) in node.journal.steps.lock().unwrap().iter() {
            match step {
                Step::Event(Event::MessageSent { message, .. }) => {
                    pushed += 1;
                    assert_eq!(message.seq.get(), pushed);
                }
                Step::Answer(to, Ok(Outcome::Sent(message))) => {
                    answered += 1;
                    assert_eq!(
                        message.seq.get(),
                        pushed,
                        "neither earlier nor later than its own place"
                    );
                    assert_eq!(to.frame + 2, message.seq.get().unsigned_abs());
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((pushed, answered), (32, 30));
    });
}

#[test]
fn b97_nothing_of_the_removed_gets_a_seq_after_the_removal() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        let before: Vec<_> = (0..20)
            .map(|n| node.post(ROOM, send(BOB, &format!("b{n}"), "x")))
            .collect();
        let removal = node.post(
            ROOM,
            Command::RemoveMember {
                origin: origin(ANN),
                target: BOB,
            },
        );
        let after: Vec<_> = (0..20)
            .map(|n| node.post(ROOM, send(BOB, &format!("a{n}"), "x")))
            .collect();
        assert!(
            join_all(before)
                .await
                .into_iter()
                .all(|answer| matches!(answer, Ok(Ok(Outcome::Sent(_)))))
        );
        assert!(matches!(removal.await, Ok(Ok(Outcome::Changed(Some(_))))));
        for answer in join_all(after).await {
            assert_eq!(answer.unwrap(), Err(CommandError::Refused(DomainError::NotAMember)));
        }
        assert!(
            matches!(node.ask(ROOM, send(BOB, "b3", "x")).await, Ok(Outcome::Duplicate(_))),
            "a repeat wins"
        );
    });
}
