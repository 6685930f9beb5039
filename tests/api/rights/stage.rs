//! The people and the group of the table.

use serde_json::{Value, json};

use crate::world::{Caller, Reply, World, id_of};

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Never was in the group.
    Stranger,
    /// Was removed.
    ExMember,
    /// Has sent the message.
    Member,
    /// An admin of the group.
    Admin,
    /// The owner of the group.
    Owner,
    /// An AGENT with the number of the owner.
    AgentOfThatNumber,
    /// The operator.
    AdminKey,
}

/// What somebody is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Unauthenticated,
    Forbidden,
    NotAMember,
    NotFound,
    Closed,
    Invalid,
    /// Something that no cell expects.
    Other,
}

impl Outcome {
    pub(crate) fn of(reply: &Reply) -> Self {
        if (200..300).contains(&reply.status) {
            Self::Ok
        } else {
            Self::of_code(&reply.body()["code"])
        }
    }

    pub(crate) fn of_code(code: &Value) -> Self {
        match code.as_str().unwrap_or_default() {
            "unauthenticated" => Self::Unauthenticated,
            "forbidden" => Self::Forbidden,
            "not_a_member" => Self::NotAMember,
            "not_found" => Self::NotFound,
            "conversation_closed" => Self::Closed,
            "invalid_request" => Self::Invalid,
            _ => Self::Other,
        }
    }
}

const OWNER: u64 = 1;
const ADMIN: u64 = 2;
const MEMBER: u64 = 3;
const EX_MEMBER: u64 = 4;
const PEER: u64 = 5;
const NEW: u64 = 6;
const STRANGER: u64 = 9;
/// Those who have asked OWNER to be a contact are counted from here.
const ASKS_FIRST: u64 = 1_000;

/// 0, 1, 2 …
fn next() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A picture of one pixel.
const PICTURE: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b";

/// A group of OWNER, ADMIN, MEMBER and a peer; EX_MEMBER was in it, and MEMBER has said something and sent a picture.
/// Somebody has asked OWNER to be a contact.
pub(crate) struct Stage<'w> {
    pub(crate) world: &'w World,
    pub(crate) room: String,
    message: String,
    notification: String,
    file: String,
}

impl<'w> Stage<'w> {
    pub(crate) async fn build(world: &'w World) -> Self {
        let [owner, admin, member, ex, peer] = [OWNER, ADMIN, MEMBER, EX_MEMBER, PEER].map(|id| world.user(id));
        let room = owner.group(&[&admin, &member, &ex, &peer]).await;
        let path = format!("/v1/conversations/{room}/members/USER");
        owner
            .patch(&format!("{path}/{ADMIN}"), &json!({"role": "ADMIN"}))
            .await
            .ok(200);
        let message = id_of(&member.say(&room, "inner secret").await, "message_id");
        let file = member.upload("x.gif", "image/gif", PICTURE).await.ok(201);
        member.send_file(&room, "file", &file).await.ok(201);
        owner.delete(&format!("{path}/{EX_MEMBER}")).await.ok(200);
        // From somebody new each time: who was answered need not be asked again.
        let asks = world.user(ASKS_FIRST + u64::from(next()));
        let asked = asks
            .post("/v1/contacts/requests", &json!({"to": owner.principal}))
            .await;
        let notification = id_of(&asked.ok(201), "notification_id");
        Self {
            world,
            room,
            message,
            notification,
            file: id_of(&file, "file_id"),
        }
    }

    pub(crate) fn caller(&self, who: Who) -> Caller {
        match who {
            Who::Stranger => self.world.user(STRANGER),
            Who::ExMember => self.world.user(EX_MEMBER),
            Who::Member => self.world.user(MEMBER),
            Who::Admin => self.world.user(ADMIN),
            Who::Owner => self.world.user(OWNER),
            Who::AgentOfThatNumber => self.world.agent(OWNER),
            Who::AdminKey => self.world.admin(),
        }
    }

    /// A member who does nothing but listen.
    pub(crate) fn peer(&self) -> Caller {
        self.world.user(PEER)
    }

    /// Puts what is meant into the place of its name.
    pub(crate) fn fill(&self, template: &str) -> String {
        let new = self.world.user(NEW).principal.to_string();
        let key = format!("key-{}", next());
        let peer = PEER.to_string();
        let filled = [
            ("{conversation_id}", self.room.as_str()),
            ("{message_id}", &self.message),
            ("{notification_id}", &self.notification),
            ("{file_id}", &self.file),
            ("{type}", "USER"),
            ("{id}", &peer),
            ("{peer}", &self.peer().principal.to_string()),
            ("{new}", &new),
            ("{key}", &key),
            ("{emoji}", "ok"),
            ("{action}", "FAVORITE"),
            ("{action_type}", "FAVORITE"),
            ("{device_id}", "d"),
            ("{name}", "hook"),
            ("{delivery_id}", "4611686018427387904"),
            ("{job_id}", "7"),
        ]
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(name, value));
        assert!(
            !filled.starts_with('/') || !filled.contains('{'),
            "Stage::fill does not know all of {template}"
        );
        filled
    }
}
