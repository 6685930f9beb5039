//! Who is named to be told where no connection is needed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::world::{ANN, BOB, Came, OPTIONS, World, hook_for, refused, taken};
use crate::domain::{ChangeSeq, ConversationId, DeviceId, NoticeType, Principal, Seq};
use crate::storage::{DeviceCursor, DeviceStore as _};

/// Seq, recipients and their totals of every push.
fn pushes(world: &World) -> Vec<Value> {
    let came = world.came();
    let pushes = came
        .iter()
        .map(Came::body)
        .filter(|body| body["type"] == "push.required");
    let told = pushes.map(|body| {
        let data = &body["data"];
        let recipients = data["recipients"].as_array().unwrap().iter();
        let recipients = recipients.map(|one| json!([one["principal"]["id"], one["unread_total"]]));
        json!([data["message"]["seq"], recipients.collect::<Vec<Value>>()])
    });
    told.collect()
}

async fn acknowledge(world: &World, who: Principal, room: ConversationId, seq: i64) {
    let ack = DeviceCursor {
        conversation_id: room,
        seq: Seq::new(seq),
        change_seq: ChangeSeq::ZERO,
    };
    let device = DeviceId::parse("phone").unwrap();
    let now = crate::clock::Clock::now(world.clock.as_ref());
    world.store.acknowledge(who, &device, &[ack], now).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_has_not_acknowledged_in_time_is_named_once_with_the_unread_total() {
    let world = World::new(|_, _| taken());
    world
        .while_running(OPTIONS, async |relay| {
            hook_for(relay, &[NoticeType::PushRequired]).await;
            let cy = Principal::user(3);
            let room = world.room(&[BOB, cy]).await;
            world.say(room, ANN, "one").await;
            acknowledge(&world, cy, room, 2).await;
            sleep(Duration::from_secs(28)).await;
            assert_eq!(pushes(&world), Vec::<Value>::new(), "they still have time");
            sleep(Duration::from_secs(5)).await;
            assert_eq!(pushes(&world), [json!([2, [["2", 1]]])]);
            sleep(Duration::from_hours(1)).await;
            assert_eq!(pushes(&world).len(), 1, "B116: the same message is no reason again");
            world.say(room, ANN, "two").await;
            sleep(Duration::from_secs(40)).await;
            assert_eq!(pushes(&world)[1], json!([3, [["2", 2], ["3", 2]]]));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn b116_many_messages_name_the_absent_once_in_so_long_by_the_newest_that_is_old_enough() {
    let world = World::new(|_, _| taken());
    world
        .while_running(OPTIONS, async |relay| {
            hook_for(relay, &[NoticeType::PushRequired]).await;
            let room = world.room(&[BOB]).await;
            for n in 0..60 {
                world.say(room, ANN, &format!("{n}")).await;
                sleep(Duration::from_secs(1)).await;
            }
            sleep(Duration::from_mins(5)).await;
            let pushes = pushes(&world);
            let seqs: Vec<i64> = pushes.iter().map(|push| push[0].as_i64().unwrap()).collect();
            assert_eq!(seqs.len(), 3, "{seqs:?}: a minute of messages");
            assert!(
                (2..4).contains(&seqs[0]) && (31..35).contains(&seqs[1]) && seqs[2] == 61,
                "{seqs:?}"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_what_was_recalled_or_read_in_the_meantime() {
    let world = World::new(|_, _| taken());
    world
        .while_running(OPTIONS, async |relay| {
            hook_for(relay, &[NoticeType::PushRequired]).await;
            let room = world.room(&[BOB]).await;
            let message = world.say(room, ANN, "one").await;
            sleep(Duration::from_secs(10)).await;
            world.recall(&message).await;
            sleep(Duration::from_mins(5)).await;
            assert_eq!(pushes(&world), Vec::<Value>::new());
            world.say(room, BOB, "I am here").await;
            acknowledge(&world, ANN, room, 3).await;
            sleep(Duration::from_mins(5)).await;
            assert_eq!(pushes(&world), Vec::<Value>::new());
            // The newest is recalled: the older one is told, once.
            world.say(room, ANN, "two").await;
            let three = world.say(room, ANN, "three").await;
            world.recall(&three).await;
            sleep(Duration::from_mins(5)).await;
            assert_eq!(pushes(&world), [json!([4, [["2", 1]]])]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_push_that_waits_for_its_receiver_is_dropped_when_its_message_is_recalled_or_read() {
    // The receiver is down for five minutes.
    let back = Duration::from_mins(5);
    let world = World::new(move |came, _| {
        if came.after < back {
            refused("HTTP 503")
        } else {
            taken()
        }
    });
    world
        .while_running(OPTIONS, async |relay| {
            hook_for(relay, &[NoticeType::PushRequired]).await;
            let rooms = [
                world.room(&[BOB]).await,
                world.room(&[BOB]).await,
                world.room(&[BOB]).await,
            ];
            let mut said = Vec::new();
            for room in rooms {
                said.push(world.say(room, ANN, "sekrit").await);
            }
            sleep(Duration::from_mins(1)).await;
            world.recall(&said[0]).await;
            world.say(rooms[1], BOB, "I have read it").await;
            sleep(2 * back).await;
            let told: Vec<String> = world
                .came()
                .iter()
                .filter(|came| came.after >= back)
                .map(Came::conversation)
                .collect();
            // ANN was not there when BOB spoke.
            let mut expected = vec![rooms[1].to_string(), rooms[2].to_string()];
            expected.sort_unstable();
            let mut found = told.clone();
            found.sort_unstable();
            assert_eq!(
                found, expected,
                "nobody is told of what was recalled, and BOB not of what he has read"
            );
            let of_one = world
                .came()
                .into_iter()
                .rfind(|came| came.conversation() == rooms[1].to_string());
            assert_eq!(of_one.unwrap().body()["data"]["recipients"][0]["principal"]["id"], "1");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_large_group_is_named_in_parts_and_everybody_once() {
    let world = World::new(|_, _| taken());
    world
        .while_running(OPTIONS, async |relay| {
            hook_for(relay, &[NoticeType::PushRequired]).await;
            let members: Vec<Principal> = (1_000..1_250).map(Principal::user).collect();
            let room = world.room(&members).await;
            world.say(room, ANN, "all of you").await;
            sleep(Duration::from_mins(2)).await;
            let parts = pushes(&world);
            let sizes: Vec<usize> = parts.iter().map(|part| part[1].as_array().unwrap().len()).collect();
            assert_eq!(sizes, [100, 100, 50]);
            let named = parts.iter().flat_map(|part| part[1].as_array().unwrap());
            let named: Vec<String> = named.map(|one| one[0].as_str().unwrap().to_owned()).collect();
            let expected: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
            assert_eq!(named, expected);
        })
        .await;
}
