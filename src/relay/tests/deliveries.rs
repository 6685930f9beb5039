//! What a receiver gets, whatever it does.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::sleep;

use super::world::{ANN, BOB, Came, OPTIONS, SECRET, World, hook, refused, taken};
use crate::clock::Clock as _;
use crate::domain::{Content, ConversationId, DeliveryState, EventNo, NoticeSet, NoticeType, Touch};
use crate::relay::{Answer, Options, WebhookPatch};
use crate::storage::WebhookStore as _;

const MINUTE: Duration = Duration::from_mins(1);

/// Of each conversation the order of first tries is the order of its events, and a call never overtakes one before it.
fn assert_in_order(world: &World, rooms: &[ConversationId], each: usize) {
    for room in rooms {
        let expected: Vec<String> = (1..=each).map(|seq| format!("message.created {seq}")).collect();
        assert_eq!(world.taken_of(*room), expected);
        let came = world.came();
        let own: Vec<&Came> = came
            .iter()
            .filter(|came| came.conversation() == room.to_string())
            .collect();
        for pair in own.windows(2) {
            let again = pair[0].call.webhook_id == pair[1].call.webhook_id;
            assert!(
                again || pair[0].taken,
                "{} came after a failure of {}",
                pair[1].words(),
                pair[0].words()
            );
        }
    }
}

async fn talk(world: &World, rooms: usize, messages: usize) -> Vec<ConversationId> {
    let mut all = Vec::new();
    for _ in 0..rooms {
        all.push(world.room(&[BOB]).await);
    }
    for n in 1..messages {
        for room in &all {
            world.say(*room, BOB, &format!("{n}")).await;
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn b40_a_slow_receiver_that_fails_now_and_then_gets_everything_in_order() {
    let world = World::new(|_, place| match place % 5 {
        2 => refused("HTTP 500"),
        _ => (Answer::Taken, Duration::from_secs(2)),
    });
    let rooms = world
        .while_running(OPTIONS, async |relay| {
            hook(relay).await;
            let rooms = talk(&world, 3, 8).await;
            sleep(10 * MINUTE).await;
            rooms
        })
        .await;
    assert_in_order(&world, &rooms, 8);
    let mut bodies = HashMap::new();
    for came in world.came() {
        let first = bodies
            .entry(came.call.webhook_id.clone())
            .or_insert_with(|| came.call.body.clone());
        assert_eq!(*first, came.call.body, "a repeat has the same id and the same words");
    }
    assert_eq!(bodies.len(), 24);
}

#[tokio::test(start_paused = true)]
async fn b116_a_receiver_that_is_down_for_an_hour_is_not_flooded_and_gets_everything_afterwards() {
    let down = Duration::from_hours(1);
    let world = World::new(move |came, _| {
        if came.after < down {
            refused("connection refused")
        } else {
            taken()
        }
    });
    let rooms = world
        .while_running(OPTIONS, async |relay| {
            hook(relay).await;
            let rooms = talk(&world, 30, 5).await;
            sleep(down).await;
            sleep(down).await;
            rooms
        })
        .await;
    assert_in_order(&world, &rooms, 5);
    let in_vain = world.came().iter().filter(|came| came.after < down).count();
    // Of each conversation one waits, and its tries grow rarer: 1 s, 2 s, … 34 min.
    assert!((30..30 * 14).contains(&in_vain), "{in_vain}");
    for delivery in deliveries(&world, None).await {
        assert_eq!(delivery, DeliveryState::Delivered);
    }
}

async fn deliveries(world: &World, state: Option<DeliveryState>) -> Vec<DeliveryState> {
    let webhook = world.store.webhooks().await.unwrap().remove(0);
    let found = world
        .store
        .deliveries(webhook.webhook_id, state, None, 10_000)
        .await
        .unwrap();
    found.into_iter().map(|delivery| delivery.state).collect()
}

#[tokio::test(start_paused = true)]
async fn a_poison_event_stops_only_its_conversation_until_it_is_dead_and_can_be_redelivered() {
    let world = World::new(|came, _| {
        let is_poison = came.call.body.contains("poison") && came.after < Duration::from_mins(9);
        if is_poison { refused("HTTP 500") } else { taken() }
    });
    let options = Options {
        attempts_max: 8,
        ..OPTIONS
    };
    world
        .while_running(options, async |relay| {
            let name = hook(relay).await;
            let (sick, well) = (world.room(&[]).await, world.room(&[]).await);
            world.say(sick, ANN, "poison").await;
            for room in [sick, well] {
                world.say(room, ANN, "after it").await;
            }
            sleep(Duration::from_secs(5)).await;
            assert_eq!(world.taken_of(sick), ["message.created 1"]);
            assert_eq!(world.taken_of(well), ["message.created 1", "message.created 2"]);
            sleep(Duration::from_mins(8)).await;
            assert_eq!(world.taken_of(sick), ["message.created 1", "message.created 3"]);
            let dead = relay
                .webhooks()
                .deliveries(&name, Some(DeliveryState::Dead), None, 9)
                .await
                .unwrap();
            assert_eq!((dead.len(), dead[0].attempts), (1, options.attempts_max));
            assert_eq!(dead[0].last_error.as_deref(), Some("HTTP 500"));
            let tries = world
                .came()
                .iter()
                .filter(|came| came.call.body.contains("poison"))
                .count();
            assert_eq!(tries, 8);
            sleep(2 * MINUTE).await;
            let pending = relay.webhooks().redeliver(&name, dead[0].event_no).await.unwrap();
            assert_eq!((pending.state, pending.attempts), (DeliveryState::Pending, 0));
            sleep(MINUTE).await;
            assert_eq!(world.taken_of(sick).last().unwrap(), "message.created 2");
            assert_eq!(deliveries(&world, Some(DeliveryState::Dead)).await, []);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn b116_an_answer_that_comes_too_late_is_a_failure_and_the_call_comes_again_with_its_id() {
    let world = World::new(|_, place| match place {
        0 => (Answer::Taken, Duration::from_secs(11)),
        1 => (Answer::Taken, Duration::from_hours(9)),
        _ => taken(),
    });
    world
        .while_running(OPTIONS, async |relay| {
            hook(relay).await;
            let room = world.room(&[]).await;
            world.say(room, ANN, "next").await;
            sleep(MINUTE).await;
            assert_eq!(world.taken_of(room), ["message.created 1", "message.created 2"]);
        })
        .await;
    let ids: Vec<String> = world.came().into_iter().map(|came| came.call.webhook_id).collect();
    assert_eq!(ids.len(), 4);
    assert!(ids[0] == ids[1] && ids[1] == ids[2] && ids[2] != ids[3], "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_go_on_while_the_lease_is_renewed_however_long_a_call_may_take() {
    let world = World::new(|_, _| taken());
    let options = Options {
        call_timeout: 5 * MINUTE,
        ..OPTIONS
    };
    world
        .while_running(options, async |relay| {
            hook(relay).await;
            let room = world.room(&[]).await;
            for n in 0..600 {
                world.say(room, ANN, &format!("{n}")).await;
                sleep(Duration::from_secs(1)).await;
            }
        })
        .await;
    let came = world.came();
    assert!(came.len() >= 600, "{}", came.len());
    for pair in came.windows(2) {
        let pause = pair[1].after.saturating_sub(pair[0].after);
        assert!(pause < Duration::from_secs(2), "{pause:?} before {}", pair[1].words());
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_asks_to_be_left_alone_is() {
    let world = World::new(|_, place| match place {
        0 => {
            let retry_after = Some(Duration::from_secs(100));
            let why = "HTTP 429".to_owned();
            (Answer::Failed { why, retry_after }, Duration::ZERO)
        }
        _ => taken(),
    });
    world
        .while_running(OPTIONS, async |relay| {
            hook(relay).await;
            world.room(&[]).await;
            sleep(5 * MINUTE).await;
        })
        .await;
    let came = world.came();
    assert_eq!(came.len(), 2);
    assert!(came[1].after >= came[0].after + Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn recalled_words_do_not_leave_also_in_what_waited() {
    let world = World::new(|came, _| {
        if came.after < MINUTE {
            refused("HTTP 503")
        } else {
            taken()
        }
    });
    world
        .while_running(OPTIONS, async |relay| {
            hook(relay).await;
            let room = world.room(&[BOB]).await;
            sleep(Duration::from_secs(1)).await;
            let message = world.say(room, BOB, "sekrit").await;
            let edit = Touch::Edit(Content::trusted("{\"text\":\"sekrit, too\"}"));
            world.touch(&message, BOB, edit).await;
            world.recall(&message).await;
            sleep(10 * MINUTE).await;
            let expected = [
                "message.created 1",
                "message.created 2",
                "message.edited 1",
                "message.recalled 2",
            ];
            assert_eq!(world.taken_of(room), expected);
        })
        .await;
    assert!(world.came().iter().all(|came| !came.call.body.contains("sekrit")));
}

#[tokio::test(start_paused = true)]
async fn a_replay_delivers_everything_after_an_event_again_with_the_same_ids() {
    let world = World::new(|_, _| taken());
    world
        .while_running(OPTIONS, async |relay| {
            let name = hook(relay).await;
            let rooms = talk(&world, 2, 4).await;
            sleep(MINUTE).await;
            let first: Vec<String> = world.came().into_iter().map(|came| came.call.webhook_id).collect();
            assert_eq!(first.len(), 8);
            relay.webhooks().replay(&name, EventNo::new(3)).await.unwrap();
            sleep(MINUTE).await;
            let again: Vec<String> = world.came().drain(8..).map(|came| came.call.webhook_id).collect();
            let mut expected: Vec<&String> = first.iter().filter(|id| !first_three(id)).collect();
            let mut found: Vec<&String> = again.iter().collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
            assert_in_order(&world, &rooms, 4);
            assert!(
                relay.webhooks().replay(&name, EventNo::new(9)).await.is_err(),
                "there is no such place"
            );
        })
        .await;
}

fn first_three(id: &str) -> bool {
    ["evt_1_", "evt_2_", "evt_3_"].iter().any(|start| id.starts_with(start))
}

#[tokio::test(start_paused = true)]
async fn a_webhook_gets_what_it_wants_from_when_it_is_made_until_it_is_removed() {
    let world = World::new(|_, _| taken());
    world
        .while_running(OPTIONS, async |relay| {
            relay.feed().page(EventNo::ZERO, 1, Duration::ZERO).await.unwrap();
            let room = world.room(&[BOB]).await;
            let message = world.say(room, BOB, "before").await;
            sleep(Duration::from_secs(5)).await;
            let name = hook(relay).await;
            let only = WebhookPatch {
                notices: Some(NoticeSet::of(&[NoticeType::MessageRecalled])),
                ..WebhookPatch::default()
            };
            assert!(!relay.webhooks().put(&name, &only).await.unwrap().1);
            world.say(room, BOB, "not wanted").await;
            world.recall(&message).await;
            sleep(Duration::from_secs(30)).await;
            assert_eq!(world.taken_of(room), ["message.recalled 1"]);
            let webhook = relay.webhooks().get(&name).await.unwrap();
            assert_eq!(
                webhook.event_no,
                EventNo::new(4),
                "what is not wanted is passed over for good"
            );
            relay.webhooks().remove(&name).await.unwrap();
            world.recall(&world.say(room, BOB, "after").await).await;
            sleep(MINUTE).await;
            assert_eq!(world.came().len(), 1);
            assert!(relay.webhooks().get(&name).await.is_err());
            let gone = world.store.deliveries(webhook.webhook_id, None, None, 9).await.unwrap();
            assert_eq!(gone, [], "its deliveries go with it");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_is_listed_for_a_while() {
    let world = World::new(|_, _| taken());
    let options = Options {
        delivered_keep: Duration::from_mins(10),
        ..OPTIONS
    };
    world
        .while_running(options, async |relay| {
            hook(relay).await;
            talk(&world, 1, 3).await;
            sleep(Duration::from_mins(9)).await;
            assert_eq!(deliveries(&world, Some(DeliveryState::Delivered)).await.len(), 3);
            sleep(Duration::from_mins(2)).await;
            assert_eq!(deliveries(&world, None).await, []);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn calls_are_signed_with_the_old_and_the_new_secret_until_the_old_one_retires() {
    let world = World::new(|_, _| taken());
    world
        .while_running(OPTIONS, async |relay| {
            let name = hook(relay).await;
            let room = world.room(&[]).await;
            sleep(MINUTE).await;
            let new = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";
            let patch = WebhookPatch {
                secret: Some(new.to_owned()),
                ..WebhookPatch::default()
            };
            relay.webhooks().put(&name, &patch).await.unwrap();
            for _ in 0..2 {
                sleep(Duration::from_mins(40)).await;
                world.say(room, ANN, "x").await;
            }
            sleep(MINUTE).await;
            let signed_by = |came: &Came| {
                let by = |secret: &str| {
                    let key = standardwebhooks::Webhook::new(secret).unwrap();
                    let call = &came.call;
                    let signature = key
                        .sign(&call.webhook_id, call.timestamp, call.body.as_bytes())
                        .unwrap();
                    call.signatures.split(' ').any(|one| one == signature)
                };
                (by(SECRET), by(new))
            };
            let signed: Vec<(bool, bool)> = world.came().iter().map(signed_by).collect();
            assert_eq!(signed, [(true, false), (true, true), (false, true)]);
            let now = world.clock.now().millis() / 1_000;
            assert!((now - world.came()[2].call.timestamp).abs() <= 61);
        })
        .await;
}
