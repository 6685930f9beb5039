//! Delivery as a whole: a real hub, commits as the domain makes them, sessions without sockets.

mod desks;
mod fans;
mod outboxes;
pub(crate) mod support;
mod world;

use std::time::Duration;

use serde_json::Value;

use super::outbox::Bounds;
use super::session::{Asked, Sending, Waiting};
use super::wire;
use crate::conversation::{Committed, Publisher, Step};
use crate::domain::{ClientMessageId, Event, Outcome, Principal};
use support::{BOUNDS, device, session, session_with, texts};
use world::*;

#[actix::test]
async fn b43_the_sending_device_gets_the_ack_where_its_message_stands_and_no_echo() {
    let mut world = World::new();
    let (phone, desk) = (world.online(1, ANN, "phone").await, world.online(2, ANN, "desk").await);
    let peer = world.online(3, BOB, "phone").await;
    let waiting = Waiting {
        frame: 9,
        asked: Asked::Send(Sending {
            conversation_id: world.room,
            client_message_id: ClientMessageId::parse("two").unwrap(),
        }),
    };
    let reply = phone.await_answer(waiting).unwrap();
    let committed = world.decide(vec![
        (say(BOB, "phone", "one"), None),
        (say(ANN, "phone", "two"), None),
        (say(BOB, "phone", "three"), None),
    ]);
    // The answers stand behind their messages.
    let mut steps = committed.steps.clone();
    let Step::Event(Event::MessageSent { message, .. }) = steps[1].clone() else {
        panic!()
    };
    steps.insert(2, Step::Answer(reply, Ok(Outcome::Sent(message))));
    world.delivery.committed(Committed { steps, ..committed });
    assert_eq!(world.heard(&phone).await, ["new 2 one", "sent 3 two", "new 4 three"]);
    assert_eq!(world.heard(&desk).await, ["new 2 one", "new 3 two", "new 4 three"]);
    assert_eq!(world.heard(&peer).await, ["new 3 two"]);
    assert_eq!(phone.waiting(), 0);
}

#[actix::test]
async fn b98_who_is_added_is_told_before_anything_else_of_the_conversation() {
    let mut world = World::new();
    let (bob, cy) = (world.online(1, BOB, "d").await, world.online(2, CY, "d").await);
    world.commit(vec![say(ANN, "d", "before"), add(CY), say(ANN, "d", "after")]);
    let expected = [
        "joined after",
        "changed MEMBER_ADDED",
        "new 3 member_added",
        "new 4 after",
    ];
    assert_eq!(world.heard(&cy).await, expected);
    let expected = [
        "new 2 before",
        "changed MEMBER_ADDED",
        "new 3 member_added",
        "new 4 after",
    ];
    assert_eq!(world.heard(&bob).await, expected);
}

#[actix::test]
async fn b96_nothing_that_follows_a_removal_reaches_the_removed() {
    let mut world = World::new();
    let (ann, bob) = (world.online(1, ANN, "d").await, world.online(2, BOB, "d").await);
    let cy = world.online(3, CY, "d").await;
    world.commit(vec![say(ANN, "d", "before"), remove(BOB), say(ANN, "x", "after")]);
    world.commit(vec![say(ANN, "x", "later")]);
    assert_eq!(world.heard(&bob).await, ["new 2 before", "left REMOVED"]);
    let expected = [
        "changed MEMBER_REMOVED",
        "new 3 member_removed",
        "new 4 after",
        "new 5 later",
    ];
    assert_eq!(world.heard(&ann).await, expected);
    // Within one commit, too: the words after it are not in the preview either.
    world.commit(vec![add(CY), remove(CY), say(ANN, "x", "secret")]);
    let heard = world.heard(&cy).await;
    assert_eq!(heard.first().map(String::as_str), Some("joined member_added"));
    assert_eq!(heard.last().map(String::as_str), Some("left REMOVED"));
    assert!(!heard.iter().any(|words| words.contains("secret")));
}

#[actix::test]
async fn a_commit_while_the_memberships_are_read_is_neither_lost_nor_pushed_before_welcome() {
    let mut world = World::new();
    world.store.answers.forget_permits(1000);
    let (bob, cy, hub) = (session(1, BOB, "d"), session(2, CY, "d"), world.hub.clone());
    let welcome = || wire::text(&"welcome");
    let both = async {
        tokio::join!(
            hub.register(bob.clone(), welcome()),
            hub.register(cy.clone(), welcome())
        )
    };
    let mut both = Box::pin(both);
    tokio::select! { _ = &mut both => panic!("too early"), () = settle() => {} }
    // The store has been asked, its answer is under way.
    world.commit(vec![add(CY), remove(BOB), say(ANN, "x", "early")]);
    settle().await;
    assert!(
        texts(&bob).is_empty() && texts(&cy).is_empty(),
        "nothing before welcome"
    );
    world.store.answers.add_permits(1000);
    assert_eq!(both.await, (true, true));
    assert_eq!(world.heard(&bob).await, ["\"welcome\""]);
    assert_eq!(world.heard(&cy).await, ["\"welcome\""]);
    world.commit(vec![say(ANN, "x", "later")]);
    assert!(world.heard(&bob).await.is_empty(), "removed meanwhile");
    assert_eq!(world.heard(&cy).await, ["new 5 later"], "added meanwhile");
}

#[actix::test]
async fn a_session_is_turned_away_when_the_store_does_not_answer() {
    let world = World::new();
    let stranger = session(1, Principal::user(99), "d");
    assert!(!world.hub.register(stranger.clone(), wire::text(&"welcome")).await);
    assert!(texts(&stranger).is_empty());
    world.hub.unregister(&stranger);
    settle().await;
    assert_eq!(world.delivery.online(), 0);
}

#[actix::test]
async fn a_session_that_has_ended_gets_nothing_and_costs_nothing() {
    let mut world = World::new();
    let (bob, desk) = (world.online(1, BOB, "d").await, world.online(2, BOB, "desk").await);
    world.hub.unregister(&bob);
    settle().await;
    world.commit(vec![say(ANN, "x", "hi")]);
    assert_eq!(world.heard(&desk).await, ["new 2 hi"]);
    assert!(texts(&bob).is_empty());
    assert_eq!(world.delivery.online(), 1);
}

#[actix::test]
async fn b85_a_hub_that_cannot_keep_up_cuts_its_sessions_instead_of_growing() {
    let mut world = World::new();
    let bob = world.online(1, BOB, "d").await;
    let committed = world.decide(vec![(say(ANN, "x", "hi"), None)]);
    // Without a pause: the hub does not run meanwhile.
    for _ in 0..super::hub::HUB_MAILBOX_MAX + 10 {
        world.delivery.committed(committed.clone());
    }
    settle().await;
    assert_eq!(texts(&bob).last().map(String::as_str), Some("4008"));
    world.hub.unregister(&bob);
    // Whoever comes afterwards is not cut.
    let again = world.online(2, BOB, "d").await;
    world.delivery.committed(committed);
    assert_eq!(world.heard(&again).await, ["new 2 hi"]);
}

#[actix::test]
async fn b87_a_slow_session_is_cut_and_the_others_get_everything() {
    let mut world = World::new();
    let bounds = Bounds { bytes: 2000, ..BOUNDS };
    let slow = session_with(1, BOB, "slow", bounds);
    assert!(world.hub.register(slow.clone(), wire::text(&"welcome")).await);
    let free = world.online(2, BOB, "free").await;
    for n in 0..20 {
        world.commit(vec![say(ANN, "x", &format!("{n}"))]);
    }
    assert_eq!(world.heard(&free).await.len(), 20);
    assert_eq!(texts(&slow), ["4008"]);
}

#[actix::test]
async fn b90_a_silent_session_is_closed_and_a_living_one_is_pinged() {
    tokio::time::pause();
    let world = World::new();
    let (alive, dead) = (world.online(1, ANN, "d").await, world.online(2, BOB, "d").await);
    let (mut to_alive, mut to_dead) = (Vec::new(), Vec::new());
    for _ in 0..61 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        alive.heard();
        // Both are read, but one of them answers nothing.
        to_alive.extend(texts(&alive));
        to_dead.extend(texts(&dead));
    }
    assert_eq!(to_alive, ["ping", "ping"]);
    assert_eq!(to_dead, ["ping", "1001"]);
}

#[actix::test]
async fn typing_reaches_the_other_devices_of_members_once_a_second() {
    tokio::time::pause();
    let world = World::new();
    let (phone, desk) = (world.online(1, ANN, "phone").await, world.online(2, ANN, "desk").await);
    let (bob, cy) = (world.online(3, BOB, "d").await, world.online(4, CY, "d").await);
    for _ in 0..5 {
        world.hub.typing(phone.id(), world.room);
        world.hub.typing(cy.id(), world.room);
    }
    settle().await;
    assert_eq!(world.heard(&bob).await, ["typing"]);
    assert_eq!(world.heard(&desk).await, ["typing"]);
    assert!(world.heard(&phone).await.is_empty() && world.heard(&cy).await.is_empty());
    tokio::time::sleep(Duration::from_millis(1001)).await;
    world.hub.typing(desk.id(), world.room);
    settle().await;
    assert_eq!(world.heard(&bob).await, ["typing"]);
}

#[actix::test]
async fn b93_a_replaced_session_is_told_at_once_whatever_waits_for_it() {
    let mut world = World::new();
    let old = world.online(1, BOB, "phone").await;
    world.commit(vec![say(ANN, "x", "hi")]);
    let new = world.online(2, BOB, "phone").await;
    assert_eq!(texts(&old), ["4009"]);
    world.hub.unregister(&old);
    settle().await;
    world.commit(vec![say(ANN, "x", "again")]);
    assert_eq!(world.heard(&new).await, ["new 3 again"]);
}

#[actix::test]
async fn b18_a_shutdown_says_bye_with_spread_out_times_to_every_connection() {
    tokio::time::pause();
    let world = World::new();
    let outboxes: Vec<_> = (0..3).map(|_| world.delivery.open(None).1).collect();
    world.delivery.shut_down(Duration::from_secs(1)).await;
    let mut waits: Vec<u64> = outboxes
        .iter()
        .map(|outbox| {
            let bytes = support::take(outbox);
            let bye: Value = serde_json::from_str(&bytes[0]).unwrap();
            assert_eq!((bye["type"].as_str(), bytes[1].as_str()), (Some("bye"), "1012"));
            bye["reconnect_after_ms"].as_u64().unwrap()
        })
        .collect();
    waits.sort_unstable();
    assert_eq!(waits, [500, 505, 510]);
    assert!(!world.delivery.open(None).1.is_open(), "nobody comes in any more");
}

#[actix::test]
async fn a_kicked_device_is_cut_and_the_others_of_its_owner_are_not() {
    let world = World::new();
    let (phone, desk) = (world.online(1, BOB, "phone").await, world.online(2, BOB, "desk").await);
    world.delivery.kick(BOB, &device("phone"));
    assert_eq!(texts(&phone), ["4010"]);
    assert!(desk.outbox().is_open());
}

#[actix::test]
async fn a_hub_that_panics_ends_its_sessions_and_the_next_one_to_come_finds_a_new_one() {
    let mut world = World::new();
    let old = world.online(1, BOB, "phone").await;
    world.hub.panic();
    settle().await;
    assert_eq!(texts(&old), ["1013"]);
    world.hub.unregister(&old);
    let new = world.online(2, BOB, "phone").await;
    world.commit(vec![say(ANN, "x", "hi")]);
    assert_eq!(world.heard(&new).await, ["new 2 hi"]);
    assert_eq!(world.delivery.online(), 1);
}

#[actix::test]
async fn b87_a_burst_is_handed_over_in_turns_so_that_a_client_that_reads_is_not_taken_for_a_slow_one() {
    let mut world = World::new();
    let reader = world.online(1, BOB, "d").await;
    let words = "x".repeat(60_000);
    for n in 0..40 {
        world.commit(vec![say(ANN, "x", &format!("{n}")), say_long(ANN, n, &words)]);
    }
    // A connection is written to whenever its task gets its turn.
    let mut heard = 0;
    for _ in 0..200 {
        heard += texts(&reader).len();
        tokio::task::yield_now().await;
    }
    assert_eq!(heard, 80);
    assert!(reader.outbox().is_open());
}
