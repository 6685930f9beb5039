//! A forward that is repeated answers with its first copies, whatever has become of the message since.

use serde_json::{Value, json};

use super::world::{Caller, World, id_of};

struct Stage {
    world: World,
    ann: Caller,
    bob: Caller,
    /// ANN's, with BOB.
    room: String,
    /// BOB's own.
    to: String,
}

impl Stage {
    async fn build() -> Self {
        let world = World::with_admin().await;
        let (ann, bob) = (world.user(1), world.user(2));
        let (room, to) = (ann.group(&[&bob]).await, bob.group(&[]).await);
        Self {
            world,
            ann,
            bob,
            room,
            to,
        }
    }

    async fn said(&self, words: &str) -> String {
        format!(
            "/v1/messages/{}",
            id_of(&self.ann.say(&self.room, words).await, "message_id")
        )
    }

    /// BOB forwards it to these places.
    async fn forward(&self, message: &str, to: &[&str], key: &str) -> super::world::Reply {
        let body = json!({"conversation_ids": to, "client_message_id": key});
        self.bob.post(&format!("{message}/forward"), &body).await
    }

    /// The one copy that BOB makes.
    async fn copy(&self, message: &str, key: &str) -> Value {
        let items = self.forward(message, &[&self.to], key).await.ok(201)["items"].clone();
        items[0]["message"].clone()
    }

    async fn repeats(&self, message: &str, key: &str, first: &Value, why: &str) {
        let reply = self.forward(message, &[&self.to], key).await;
        assert_eq!(reply.status, 200, "{why}: {}", reply.text);
        assert_eq!(&reply.body()["items"][0]["message"], first, "{why}");
    }
}

#[actix_web::test]
async fn a_forward_repeated_after_its_source_was_edited_recalled_or_deleted_answers_with_the_first() {
    let stage = Stage::build().await;
    let (ann, admin) = (&stage.ann, stage.world.admin());
    let path = stage.said("first words").await;
    let first = stage.copy(&path, "f").await;
    let edit = json!({"content": {"text": "second words"}});
    ann.patch(&path, &edit).await.ok(200);
    stage.repeats(&path, "f", &first, "edited").await;
    let second = stage.copy(&path, "g").await;
    assert_eq!(second["content"]["text"], "second words");
    ann.patch(&path, &json!({"content": {"text": "third words"}}))
        .await
        .ok(200);
    stage.repeats(&path, "f", &first, "edited twice").await;
    stage.repeats(&path, "g", &second, "edited again").await;
    ann.post(&format!("{path}/recall"), &json!({})).await.ok(200);
    stage.repeats(&path, "f", &first, "recalled").await;
    stage.repeats(&path, "g", &second, "edited and recalled").await;
    // What has no first copy is refused, by itself or as a whole.
    let other = stage.bob.group(&[]).await;
    let items = stage.forward(&path, &[&other, &stage.to], "f").await.ok(200)["items"].clone();
    assert_eq!(items[0]["error"]["code"], "message_recalled");
    assert_eq!(items[1]["message"], first);
    stage
        .forward(&path, &[&stage.to], "h")
        .await
        .refused("message_recalled");
    admin.delete(&path).await.ok(200);
    stage.repeats(&path, "f", &first, "deleted for all").await;
    stage.forward(&path, &[&stage.to], "h").await.refused("not_found");
    stage.world.stop().await;
}

#[actix_web::test]
async fn a_forward_repeated_by_who_sees_its_source_no_longer_answers_with_the_first() {
    let stage = Stage::build().await;
    let path = stage.said("words").await;
    let first = stage.copy(&path, "f").await;
    stage.bob.set(&format!("{path}/actions/DELETE")).await.ok(200);
    stage.repeats(&path, "f", &first, "deleted for me").await;
    let leave = format!("/v1/conversations/{}/members/USER/2", stage.room);
    stage.bob.delete(&leave).await.ok(200);
    stage.repeats(&path, "f", &first, "left").await;
    stage.forward(&path, &[&stage.to], "g").await.refused("not_found");
    stage.world.stop().await;
}

#[actix_web::test]
async fn the_key_of_a_forward_is_not_good_for_another_message() {
    let stage = Stage::build().await;
    let (one, other) = (stage.said("one").await, stage.said("other").await);
    let first = stage.copy(&one, "f").await;
    let conflict = async |why: &str| {
        let items = stage.forward(&other, &[&stage.to], "f").await.ok(200)["items"].clone();
        assert_eq!(items[0]["error"]["code"], "idempotency_key_reused", "{why}");
        assert_eq!(items[0]["error"]["original"], first, "{why}");
    };
    conflict("as it was sent").await;
    stage.ann.post(&format!("{other}/recall"), &json!({})).await.ok(200);
    conflict("recalled").await;
    stage.world.stop().await;
}
