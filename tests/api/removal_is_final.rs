//! B96 and B97: a removal has a number, and nothing from there on reaches the removed or is theirs, on any path.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::socket::{Socket, send};
use super::world::World;

const ROUNDS: usize = 12;
const WORDS: usize = 6;

/// The seqs of the conversation's messages that were pushed.
fn seqs(pushes: &[Value], room: &str) -> Vec<u64> {
    let messages = pushes.iter().filter(|push| push["type"] == "message.new");
    let messages = messages
        .map(|push| &push["message"])
        .filter(|message| message["conversation_id"] == *room);
    messages.map(|message| message["seq"].as_u64().unwrap()).collect()
}

#[actix_web::test]
async fn b96_b97_a_removal_and_sends_at_the_same_instant_leave_nothing_behind_it() {
    let world = World::start().await;
    let (ann, bob, cy) = (world.user(1), world.user(2), world.user(3));
    let mut phone = Socket::hello(&world, &bob, "phone").await;
    let mut desk = Socket::hello(&world, &bob, "desk").await;
    for round in 0..ROUNDS {
        let room = ann.group(&[&bob, &cy]).await;
        let path = format!("/v1/conversations/{room}");
        // All at once: bob speaks on his phone, cy speaks, and ann removes bob.
        for n in 0..WORDS {
            phone.post(send(&room, &format!("bob {round} {n}"), "of bob")).await;
        }
        let speaks = async |n: usize| cy.send(&room, &format!("cy {n}"), "of cy").await;
        let speaking = join_all((0..WORDS).map(speaks));
        let member = format!("{path}/members/USER/2");
        let (removed, spoken) = tokio::join!(ann.delete(&member), speaking);
        removed.ok(200);
        for reply in &spoken {
            reply.ok(201);
        }
        let edited = spoken[0].body()["message"]["message_id"].as_str().unwrap().to_owned();
        let edit = json!({"content": {"text": "edited secret"}});
        cy.patch(&format!("/v1/messages/{edited}"), &edit).await.ok(200);
        ann.patch(&path, &json!({"title": "secret title"})).await.ok(200);

        let history = ann.get(&format!("{path}/messages?limit=200")).await.ok(200);
        let history = history["items"].as_array().unwrap();
        let removal = history
            .iter()
            .find(|message| message["content"]["event"] == "member_removed")
            .unwrap();
        let removal = removal["seq"].as_u64().unwrap();
        let of_bob = history.iter().filter(|message| message["sender"] == bob.principal);
        assert!(
            of_bob.clone().all(|message| message["seq"].as_u64().unwrap() < removal),
            "{history:?}"
        );

        // Nothing from the removal on reaches him, and the last thing of the conversation is that he has left.
        for socket in [&mut phone, &mut desk] {
            let pushed = socket.pushed().await;
            assert!(
                seqs(&pushed, &room).iter().all(|seq| *seq < removal),
                "{removal}: {pushed:?}"
            );
            let of_room: Vec<&Value> = pushed
                .iter()
                .filter(|push| push["reply_to"].is_null() && push.to_string().contains(&room))
                .collect();
            assert_eq!(of_room.last().unwrap()["type"], "conversation.left", "{of_room:?}");
            assert!(!Value::from(pushed).to_string().contains("secret"));
        }
        // Nor by asking.
        bob.get(&path).await.refused("not_a_member");
        bob.get(&format!("{path}/messages")).await.refused("not_a_member");
        bob.get(&format!("{path}/members")).await.refused("not_a_member");
        bob.get(&format!("/v1/messages/{edited}")).await.refused("not_found");
        let asked = phone.ask(json!({"type": "history", "conversation_id": room})).await;
        assert_eq!(asked["code"], "not_a_member");
        bob.send(&room, "late", "x").await.refused("not_a_member");
        assert!(!bob.get("/v1/conversations").await.text.contains(&room));
        // A repeat of what he had said is answered as before, and gives nothing else away.
        if let Some(said) = of_bob.clone().next() {
            let repeat = bob
                .send(&room, said["client_message_id"].as_str().unwrap(), "of bob")
                .await
                .ok(200);
            assert_eq!(
                (&repeat["duplicate"], &repeat["message"]["seq"]),
                (&json!(true), &said["seq"])
            );
        }
    }
    world.stop().await;
}
