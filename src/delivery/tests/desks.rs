//! What a hub hands out of a commit, and who is let write first.

use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use tokio::time::Instant;

use super::support::{session, texts};
use super::world::{ANN, BOB, CY, World, say, settle, short};
use crate::conversation::{Publisher, SessionReply};
use crate::delivery::fan::{Frame, Item, fans};
use crate::delivery::hub::{Desk, REST_MAX};
use crate::delivery::session::{Asked, Sending, Session, Waiting};
use crate::delivery::sessions::Sessions;
use crate::domain::{ClientMessageId, Command};

/// A send, for whose answer the session waits.
fn sent(world: &World, by: &Session, words: &str) -> (Command, Option<SessionReply>) {
    let waiting = Waiting {
        frame: 1,
        asked: Asked::Send(Sending {
            conversation_id: world.room,
            client_message_id: ClientMessageId::parse(words).unwrap(),
        }),
    };
    (
        say(by.principal(), by.device().as_str(), words),
        by.await_answer(waiting),
    )
}

fn heard(session: &Session) -> Vec<String> {
    texts(session).iter().map(|text| short(text)).collect()
}

#[actix::test]
async fn what_several_sent_at_once_is_the_same_for_all_others_and_stands_in_order_among_the_answers() {
    let (mut world, mut desk) = (World::new(), Desk::new(0));
    let [phone, tablet, bob, cy] = [(1, ANN, "phone"), (2, ANN, "tablet"), (3, BOB, "d"), (4, CY, "d")]
        .map(|(id, principal, device)| session(id, principal, device));
    for one in [&phone, &tablet, &bob, &cy] {
        desk.seat(one, world.room);
    }
    let sends = vec![
        sent(&world, &phone, "a"),
        sent(&world, &bob, "b"),
        sent(&world, &phone, "c"),
    ];
    let committed = world.decide(sends);
    for fan in fans(&committed, &Sessions::default(), usize::MAX) {
        desk.deliver(&fan, Instant::now());
    }
    desk.write();
    let everything = ["new 2 a", "new 3 b", "new 4 c"];
    assert_eq!(
        (heard(&tablet), heard(&cy)),
        (
            everything.map(str::to_owned).to_vec(),
            everything.map(str::to_owned).to_vec()
        )
    );
    assert_eq!(heard(&phone), ["sent 2 a", "new 3 b", "sent 4 c"]);
    assert_eq!(heard(&bob), ["new 2 a", "sent 3 b", "new 4 c"]);
}

/// Notes that the connection of a session was asked to write.
struct Asks {
    id: u64,
    asked: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        self.asked.lock().unwrap().push(self.id);
    }
}

/// From now on it notes in `asked` when the session's connection is to write.
fn note(session: &Session, asked: &Arc<Mutex<Vec<u64>>>) {
    let asks = Asks {
        id: session.id(),
        asked: Arc::clone(asked),
    };
    let waker = Waker::from(Arc::new(asks));
    assert_eq!(
        session.outbox().poll_chunk(&TaskContext::from_waker(&waker)),
        Poll::Pending
    );
}

#[actix::test]
async fn a_hub_that_has_written_much_answers_at_once_and_lets_pushes_wait_for_each_other() {
    tokio::time::pause();
    let (mut world, asked) = (World::new(), Arc::default());
    let (phone, bob) = (world.online(1, ANN, "phone").await, world.online(2, BOB, "d").await);
    let taken = |asked: &Mutex<Vec<u64>>| std::mem::take(&mut *asked.lock().unwrap());
    for tired in [true, false] {
        note(&phone, &asked);
        note(&bob, &asked);
        if tired {
            world.hub.tire();
        }
        for words in ["a", "b"].map(|words| format!("{words} {tired}")) {
            let sends = vec![sent(&world, &phone, &words)];
            let committed = world.decide(sends);
            world.delivery.committed(committed);
        }
        settle().await;
        let at_once: &[u64] = if tired { &[1] } else { &[1, 2] };
        assert_eq!(taken(&asked), at_once);
        assert_eq!(heard(&phone).len(), 2);
        tokio::time::sleep(REST_MAX * 2).await;
        let later: &[u64] = if tired { &[2] } else { &[] };
        assert_eq!(taken(&asked), later);
        assert_eq!(heard(&bob).len(), 2);
    }
}

#[actix::test]
async fn b88_whoever_waits_for_an_answer_is_written_to_first_however_many_are_told() {
    for others in [3, 2_000] {
        let (mut world, mut desk, asked) = (World::new(), Desk::new(0), Arc::default());
        let mut all: Vec<_> = (1..=others).map(|id| session(id, BOB, &format!("d{id}"))).collect();
        all.push(session(others + 1, ANN, "phone"));
        for one in &all {
            desk.seat(one, world.room);
            note(one, &asked);
        }
        // Everybody has something to write already when the answer comes.
        for send in [(say(BOB, "away", "b"), None), sent(&world, all.last().unwrap(), "a")] {
            let committed = world.decide(vec![send]);
            let fans = fans(&committed, &Sessions::default(), usize::MAX);
            for fan in &fans {
                desk.deliver(fan, Instant::now());
            }
        }
        desk.write();
        let asked = asked.lock().unwrap();
        assert_eq!((asked.len(), asked.first()), (all.len(), Some(&(others + 1))));
    }
}

#[actix::test]
async fn a_message_that_only_its_sender_could_hear_is_not_encoded() {
    let (mut world, mut desk) = (World::new(), Desk::new(0));
    let (room, phone, bob) = (world.room, session(1, ANN, "phone"), session(2, BOB, "d"));
    desk.seat(&phone, room);
    let mut encoded = |desk: &mut Desk, words: &str| {
        let sends = vec![sent(&world, &phone, words)];
        let committed = world.decide(sends);
        let fans = fans(&committed, &Sessions::default(), usize::MAX);
        for fan in &fans {
            desk.deliver(fan, Instant::now());
        }
        let made = |item: &Item| matches!(item, Item::Push { frame: Frame::New(_, made), .. } if made.get().is_some());
        fans.iter().flat_map(|fan| &fan.items).any(made)
    };
    assert!(!encoded(&mut desk, "a"));
    desk.seat(&bob, room);
    assert!(encoded(&mut desk, "b"));
    assert_eq!(heard(&phone), ["sent 2 a", "sent 3 b"]);
}
