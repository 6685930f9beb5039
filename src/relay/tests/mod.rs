//! A relay beside rooms and a receiver, on the model store, in time that goes by itself.

mod deliveries;
mod pushes;
mod world;

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::Options;
use crate::clock::Clock as _;
use crate::domain::{Code, EventNo};
use crate::storage::EventStore as _;
use world::{ANN, BOB, OPTIONS, World, hook, taken, words};

const NO_WAIT: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn what_was_committed_while_nobody_placed_is_found_at_the_next_start() {
    let world = World::new(|_, _| taken());
    world.while_running(OPTIONS, async |relay| hook(relay).await).await;
    let room = world.room(&[BOB]).await;
    world.say(room, BOB, "one").await;
    // Killed before anything was placed: with the process its hints are gone.
    world.hints.want(false);
    world
        .while_running(OPTIONS, async |_| sleep(Duration::from_mins(1)).await)
        .await;
    assert_eq!(world.taken_of(room), ["message.created 1", "message.created 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_nobody_wants_goes_to_rest_and_begins_anew_without_what_came_between() {
    let world = World::new(|_, _| taken());
    let options = Options {
        keep: Duration::from_hours(1),
        ..OPTIONS
    };
    world
        .while_running(options, async |relay| {
            let feed = relay.feed();
            assert_eq!(feed.page(EventNo::ZERO, 9, NO_WAIT).await.unwrap().items, []);
            sleep(Duration::from_secs(2)).await;
            let room = world.room(&[]).await;
            let page = feed.page(EventNo::ZERO, 9, Duration::from_secs(5)).await.unwrap();
            assert_eq!(page.items.iter().map(words).collect::<Vec<_>>(), ["message.created 1"]);
            sleep(Duration::from_hours(2)).await;
            assert_eq!(world.store.log_state().await.unwrap().active_since, None);
            world.say(room, ANN, "unheard").await;
            sleep(Duration::from_secs(5)).await;
            let stale = feed.page(EventNo::ZERO, 9, NO_WAIT).await.unwrap();
            assert_eq!((stale.items, stale.newest), (Vec::new(), EventNo::new(1)));
            sleep(Duration::from_millis(2)).await;
            world.say(room, ANN, "heard").await;
            let page = feed.page(EventNo::new(1), 9, Duration::from_secs(30)).await.unwrap();
            assert_eq!(page.items.iter().map(words).collect::<Vec<_>>(), ["message.created 3"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_comes_too_late_is_told_so_and_where_to_go_on() {
    let world = World::new(|_, _| taken());
    let options = Options {
        keep: Duration::from_mins(24),
        ..OPTIONS
    };
    world
        .while_running(options, async |relay| {
            hook(relay).await;
            let feed = relay.feed();
            let room = world.room(&[]).await;
            sleep(Duration::from_mins(20)).await;
            world.say(room, ANN, "younger").await;
            sleep(Duration::from_mins(5)).await;
            let page = feed.page(EventNo::new(0), 9, NO_WAIT).await.unwrap();
            assert_eq!(page.items.len(), 1, "the older one is gone");
            world.say(room, ANN, "youngest").await;
            sleep(Duration::from_mins(20)).await;
            let error = feed.page(EventNo::new(1), 9, NO_WAIT).await.unwrap_err();
            assert_eq!(error.code, Code::HistoryReset);
            assert_eq!(error.extra.events.as_deref(), Some(&(EventNo::new(3), EventNo::new(3))));
            let page = feed.page(EventNo::new(2), 9, NO_WAIT).await.unwrap();
            assert_eq!(page.items.len(), 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn two_processes_place_each_event_once_and_call_nobody_at_the_same_time() {
    let world = World::new(|_, _| (super::Answer::Taken, Duration::from_millis(700)));
    let relays = ["one", "two"].map(|name| world.relay(name, OPTIONS));
    let (stop, stopping) = watch::channel(false);
    let happens = async {
        hook(&relays[0]).await;
        let room = world.room(&[BOB]).await;
        for n in 0..20 {
            world.say(room, BOB, &format!("{n}")).await;
            sleep(Duration::from_millis(300)).await;
        }
        sleep(Duration::from_mins(1)).await;
        stop.send_replace(true);
        room
    };
    let ((), (), room) = tokio::join!(relays[0].run(stopping.clone()), relays[1].run(stopping), happens);
    assert_eq!(world.came().len(), 21, "once each");
    let expected: Vec<String> = (1..=21).map(|seq| format!("message.created {seq}")).collect();
    assert_eq!(world.taken_of(room), expected);
    assert_eq!(world.store.log_state().await.unwrap().newest, EventNo::new(21));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_killed_leaves_its_webhook_to_another_when_its_lease_has_ended() {
    let world = World::new(|_, _| (super::Answer::Taken, Duration::from_secs(2)));
    let (dying, heir) = (world.relay("dying", OPTIONS), world.relay("heir", OPTIONS));
    let (_stop, stopping) = watch::channel(false);
    let room = tokio::select! {
        () = dying.run(stopping.clone()) => panic!("it does not end by itself"),
        room = async {
            hook(&dying).await;
            let room = world.room(&[BOB]).await;
            for n in 0..5 {
                world.say(room, BOB, &format!("{n}")).await;
            }
            sleep(Duration::from_secs(5)).await;
            room
        } => room,
    };
    // Killed in the middle of a call.
    world.receiver.forget_open();
    let before = world.came().len();
    assert!((1..6).contains(&before), "{before}");
    let killed_at = world.clock.now();
    tokio::select! {
        () = heir.run(stopping) => panic!("it does not end by itself"),
        () = async {
            while world.taken_of(room).len() < 6 {
                sleep(Duration::from_millis(100)).await;
            }
        } => {}
    }
    let waited = world.clock.now().since(killed_at);
    assert!(waited < Duration::from_mins(1), "{waited:?}");
    let expected: Vec<String> = (1..=6).map(|seq| format!("message.created {seq}")).collect();
    assert_eq!(world.taken_of(room), expected);
}
