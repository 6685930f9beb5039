//! Three people, what they have said so far, and every command that one of them can give.

use onescribe::domain::{
    ActionType, Adding, ClientMessageId, Content, ConversationId, Emoji, HeaderPatch, HistoryVisibility, MessageId,
    MessageType, NewConversation, NotificationAnswer, Origin, Personal, Posting, Principal, Role, Send, Seq, Timestamp,
    Touch, chain,
};
use onescribe::protocol::view;
use onescribe::service::{ServiceError, Touched};
use serde_json::{Value, json};

use super::super::model::User;
use super::super::stack::{Stack, origin, principal, subject};
use super::super::steps::value;

/// ANN owns the group, BOB is in it, CARL is not.
pub(crate) const PEOPLE: usize = 3;
const ANN: usize = 0;
const BOB: usize = 1;
const CARL: usize = 2;
/// The device that acts.
pub(crate) const ACTING: &str = "phone";

/// What is done: the command, and what is special about it.
pub(crate) const CASES: &[&str] = &[
    "Create a DIRECT",
    "Create a GROUP",
    "Send",
    "Send into a DIRECT",
    "SendFor BOB",
    "SendFor the server",
    "AddMembers",
    "RemoveMember BOB",
    "RemoveMember oneself",
    "RemoveMember the owner herself",
    "RemoveMember the last one",
    "Touch::Edit that mentions nobody any more",
    "Touch::Edit of what BOB has deleted for himself",
    "Touch::Recall of the newest",
    "Touch::Delete",
    "Touch::React",
    "Touch::React taken back",
    "Touch::Pin",
    "Touch::Pin taken off",
    "Update::title",
    "Update::avatar_url",
    "Update::history_visibility",
    "Update::posting",
    "Update::adding",
    "SetRole ADMIN",
    "SetRole OWNER",
    "Dissolve",
    "Personal::Read",
    "Personal::Read in a DIRECT, the first act of her INBOX",
    "Personal::Read that only takes a mark away",
    "Personal::Settings muted",
    "Personal::Settings pinned",
    "Personal::Settings marked_unread",
    "Personal::Clear",
    "Personal::Set DELETE",
    "Personal::Set FAVORITE",
    "Personal::Set REMINDER",
    "Personal::Unset DELETE",
    "Personal::Unset FAVORITE",
    "Personal::Unset REMINDER",
    "Notify",
    "Conclude what BOB was asked, since CARL has blocked him",
    "Invite somebody who is invited already",
    "Join",
    "HeedBlocks",
    "Personal::Answer read",
    "Personal::Answer accept",
    "Personal::Answer decline",
    "Personal::Block",
    "Personal::EndContact",
];

pub(crate) struct Scene<'s> {
    stack: &'s Stack,
    /// The users of this case are counted from here.
    base: User,
    group: ConversationId,
    direct: ConversationId,
    alone: ConversationId,
    /// In the group, in order.
    said: Vec<MessageId>,
    /// CARL has asked BOB to be a contact.
    asked: MessageId,
    /// ANN has invited CARL into the group.
    invited: MessageId,
}

impl<'s> Scene<'s> {
    pub(crate) async fn build(stack: &'s Stack, base: User) -> Self {
        let mut scene = Self {
            stack,
            base,
            group: made(stack, base + ANN, &[base + BOB]).await,
            alone: made(stack, base + ANN, &[]).await,
            direct: direct(stack, base + ANN, base + BOB).await,
            said: Vec::new(),
            asked: ask(stack, base + CARL, base + BOB).await,
            invited: MessageId::new(1).unwrap(),
        };
        scene.invited = scene.invite().await.expect("somebody new");
        let mention = format!(
            "{{\"text\":\"@BOB?\",\"mentions\":[{{\"user_id\":\"{}\",\"offset\":0,\"length\":4}}]}}",
            scene.of(BOB).id
        );
        for (who, content) in [
            (ANN, "{\"text\":\"one\"}"),
            (BOB, "{\"text\":\"two\"}"),
            (ANN, &mention),
            (ANN, "{\"text\":\"four\",\"mention_all\":true}"),
        ] {
            let message = scene.send(scene.group, who, content).await;
            scene
                .said
                .push(MessageId::parse(message["message_id"].as_str().unwrap()).unwrap());
        }
        scene.send(scene.direct, ANN, "{\"text\":\"between us\"}").await;
        scene.send(scene.direct, BOB, "{\"text\":\"yes\"}").await;
        scene.set(BOB, 0, ActionType::Delete).await;
        scene.set(BOB, 1, ActionType::Favorite).await;
        scene.set(BOB, 2, ActionType::Reminder).await;
        scene.settings(BOB, "marked_unread").await;
        scene.touch(BOB, 2, react(true)).await;
        scene.touch(ANN, 1, Touch::Pin(true)).await;
        let friends = ask(stack, base + ANN, base + BOB).await;
        scene.answer(BOB, friends, NotificationAnswer::Accept).await;
        scene
    }

    pub(crate) fn of(&self, who: usize) -> Principal {
        principal(self.base + who)
    }

    fn by(&self, who: usize) -> Origin {
        origin(self.base + who, ACTING)
    }

    /// Who gives the command.
    pub(crate) fn actor(case: &str) -> usize {
        if case == "Join" || case.starts_with("Conclude") {
            return CARL;
        }
        let own = case == "HeedBlocks" || (case.starts_with("Personal") && !case.contains("her INBOX"));
        let bob = own || ["Send into a DIRECT", "RemoveMember oneself", "Touch::React taken back"].contains(&case);
        if bob { BOB } else { ANN }
    }

    /// Does it. Answers what the reply tells the acting device, which is spared the push of it, in the shape of a push.
    pub(crate) async fn act(&self, case: &str) -> Vec<Value> {
        let who = Self::actor(case);
        let (command, special) = case.split_once(' ').unwrap_or((case, ""));
        match command {
            "Create" if special == "a DIRECT" => drop(direct(self.stack, self.base + ANN, self.base + CARL).await),
            "Create" => drop(made(self.stack, self.base + ANN, &[self.base + BOB, self.base + CARL]).await),
            "Send" => {
                let to = if special.is_empty() { self.group } else { self.direct };
                let message = self.send(to, who, "{\"text\":\"news\",\"mention_all\":true}").await;
                return vec![json!({"type": "message.new", "message": message})];
            }
            "SendFor" => self.send_for(special).await,
            "Notify" => drop(ask(self.stack, self.base + ANN, self.base + CARL).await),
            "Conclude" => self.block(CARL, BOB).await,
            "HeedBlocks" => self.block(BOB, ANN).await,
            "Invite" => assert_eq!(self.invite().await, Some(self.invited)),
            "Join" => self.answer(CARL, self.invited, NotificationAnswer::Accept).await,
            "Update::title"
            | "Update::avatar_url"
            | "Update::history_visibility"
            | "Update::posting"
            | "Update::adding" => return self.update(command).await,
            _ if command.starts_with("Touch") => return self.touched(case, who).await,
            _ if command.starts_with("Personal") => return self.personal(case, who).await,
            _ => return self.membership(case, who).await,
        }
        Vec::new()
    }

    async fn membership(&self, case: &str, who: usize) -> Vec<Value> {
        let (all, by) = (&self.stack.conversations, self.by(who));
        let change = match case {
            "AddMembers" => {
                all.add_members(by, self.group, &[subject(self.base + CARL)])
                    .await
                    .unwrap()
                    .change
            }
            "RemoveMember the last one" => all.remove_member(by, self.alone, self.of(ANN)).await.unwrap().change,
            "RemoveMember the owner herself" => all.remove_member(by, self.group, self.of(ANN)).await.unwrap().change,
            "RemoveMember BOB" | "RemoveMember oneself" => {
                all.remove_member(by, self.group, self.of(BOB)).await.unwrap().change
            }
            "SetRole ADMIN" => {
                all.set_role(by, self.group, self.of(BOB), Role::Admin)
                    .await
                    .unwrap()
                    .change
            }
            "SetRole OWNER" => {
                all.set_role(by, self.group, self.of(BOB), Role::Owner)
                    .await
                    .unwrap()
                    .change
            }
            "Dissolve" => all.dissolve(by, self.group).await.unwrap().change,
            _ => panic!("how is {case} done?"),
        };
        let change = value(&view::Change::from(change.unwrap().as_ref()));
        vec![json!({"type": "conversation.changed", "change": change})]
    }

    async fn update(&self, command: &str) -> Vec<Value> {
        let mut patch = HeaderPatch::default();
        match command {
            "Update::title" => patch.title = Some(Some("another".to_owned())),
            "Update::avatar_url" => patch.avatar_url = Some(Some("https://example.com/a.png".to_owned())),
            "Update::history_visibility" => patch.history_visibility = Some(HistoryVisibility::Joined),
            "Update::posting" => patch.posting = Some(Posting::Admins),
            _ => patch.adding = Some(Adding::All),
        }
        let done = self
            .stack
            .conversations
            .update(self.by(ANN), self.group, patch)
            .await
            .unwrap();
        let change = value(&view::Change::from(done.change.unwrap().as_ref()));
        vec![json!({"type": "conversation.changed", "change": change})]
    }

    async fn touched(&self, case: &str, who: usize) -> Vec<Value> {
        let edit = || Touch::Edit(Content::trusted("{\"text\":\"in other words\"}"));
        let (at, touch) = match case {
            "Touch::Edit that mentions nobody any more" => (2, edit()),
            "Touch::Edit of what BOB has deleted for himself" => (0, edit()),
            "Touch::Recall of the newest" => (3, self.stack.messages.recall_now()),
            "Touch::Delete" => (3, Touch::Delete),
            "Touch::React" => (1, react(true)),
            "Touch::React taken back" => (2, react(false)),
            "Touch::Pin" => (3, Touch::Pin(true)),
            "Touch::Pin taken off" => (1, Touch::Pin(false)),
            _ => panic!("how is {case} done?"),
        };
        let done = self.touch(who, at, touch).await;
        let marks = done.message.marks_for(self.of(who));
        let message = view::Message::new(&done.message.message, &marks);
        let change = value(&view::Change::new(&done.change.unwrap(), Some(message)));
        vec![json!({"type": "message.edited", "change": change})]
    }

    async fn personal(&self, case: &str, who: usize) -> Vec<Value> {
        let (command, special) = case.split_once(' ').unwrap_or((case, ""));
        let kind = ActionType::parse(special);
        match (command, kind) {
            ("Personal::Read", _) => return self.read(special, who).await,
            ("Personal::Settings", _) => self.settings(who, special).await,
            ("Personal::Clear", _) => {
                let act = Personal::Clear {
                    conversation_id: self.group,
                    up_to_seq: Seq::new(3),
                };
                self.stack.inbox.set(self.by(who), self.group, act).await.unwrap();
            }
            ("Personal::Answer", _) => {
                let answer = match special {
                    "accept" => NotificationAnswer::Accept,
                    "decline" => NotificationAnswer::Decline,
                    _ => NotificationAnswer::Read,
                };
                self.answer(who, self.asked, answer).await;
            }
            ("Personal::Block", _) => self.block(who, CARL).await,
            ("Personal::EndContact", _) => {
                let done = self.stack.contacts.end(self.by(who), self.of(ANN)).await;
                done.unwrap();
            }
            ("Personal::Set", Some(kind)) => self.set(who, 3, kind).await,
            ("Personal::Unset", Some(action_type)) => {
                let at = ["DELETE", "FAVORITE", "REMINDER"]
                    .iter()
                    .position(|kind| *kind == special)
                    .unwrap();
                let act = Personal::Unset {
                    message_id: self.said[at],
                    action_type,
                };
                self.stack.inbox.act(self.by(who), act).await.unwrap();
            }
            _ => panic!("how is {case} done?"),
        }
        Vec::new()
    }

    async fn read(&self, special: &str, who: usize) -> Vec<Value> {
        let (place, seq) = match special {
            "" => (self.group, 4),
            "that only takes a mark away" => (self.group, 3),
            _ => (self.direct, 2),
        };
        let done = self.stack.inbox.read(self.by(who), place, Seq::new(seq)).await.unwrap();
        let own = json!({
            "type": "read.updated", "conversation_id": place.to_string(), "last_read_seq": done.last_read_seq.get(),
            "unread_count": done.unread_count, "change_seq": done.change_seq,
        });
        vec![own]
    }

    async fn settings(&self, who: usize, which: &str) {
        let wanted = |name: &str| Some(true).filter(|_| name == which);
        let act = Personal::Settings {
            conversation_id: self.group,
            muted: wanted("muted"),
            pinned: wanted("pinned"),
            marked_unread: wanted("marked_unread"),
        };
        self.stack.inbox.set(self.by(who), self.group, act).await.unwrap();
    }

    async fn set(&self, who: usize, at: usize, action_type: ActionType) {
        let reminds = action_type == ActionType::Reminder;
        let act = Personal::Set {
            message_id: self.said[at],
            action_type,
            remind_at: Some(Timestamp::from_millis(4_000_000_000_000)).filter(|_| reminds),
            payload: Some(Content::trusted("{\"why\":\"tea\"}")),
        };
        self.stack.inbox.act(self.by(who), act).await.unwrap();
    }

    /// ANN invites CARL: the notification, the same one while it is pending.
    async fn invite(&self) -> Option<MessageId> {
        let carl = [subject(self.base + CARL)];
        let invited = self.stack.notifications.invite(self.by(ANN), self.group, &carl).await;
        invited.unwrap().first().map(|note| note.notification_id)
    }

    async fn answer(&self, who: usize, id: MessageId, answer: NotificationAnswer) {
        self.stack.notifications.answer(self.by(who), id, answer).await.unwrap();
    }

    async fn block(&self, who: usize, whom: usize) {
        self.stack.contacts.block(self.by(who), self.of(whom)).await.unwrap();
    }

    async fn touch(&self, who: usize, at: usize, touch: Touch) -> Touched {
        self.stack
            .messages
            .touch(self.by(who), self.said[at], touch)
            .await
            .unwrap()
    }

    async fn send(&self, to: ConversationId, who: usize, content: &str) -> Value {
        let sent = self.stack.messages.send(to, text(self.by(who), content)).await.unwrap();
        value(&view::Message::from(&sent.message))
    }

    async fn send_for(&self, special: &str) {
        let sender = if special == "BOB" {
            self.of(BOB)
        } else {
            Principal::SYSTEM
        };
        let origin = Origin {
            principal: sender,
            device: None,
        };
        let sent: Result<_, ServiceError> = self
            .stack
            .messages
            .send_for(self.group, text(origin, "{\"text\":\"for another\"}"))
            .await;
        sent.unwrap();
    }
}

fn react(added: bool) -> Touch {
    Touch::React {
        emoji: Emoji::parse("🎉").unwrap(),
        added,
    }
}

fn text(origin: Origin, content: &str) -> Send {
    use std::sync::atomic::{AtomicU32, Ordering};
    static KEYS: AtomicU32 = AtomicU32::new(0);
    let content = Content::trusted(content);
    Send {
        origin,
        client_message_id: ClientMessageId::parse(&format!("key-{}", KEYS.fetch_add(1, Ordering::Relaxed))).unwrap(),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: None,
        expected_last_seq: None,
    }
}

async fn ask(stack: &Stack, from: User, to: User) -> MessageId {
    let words = Some("it's me".to_owned());
    let asked = stack
        .notifications
        .request(origin(from, ACTING), &subject(to), words)
        .await;
    asked.unwrap().notification.notification_id
}

async fn made(stack: &Stack, owner: User, others: &[User]) -> ConversationId {
    let new = NewConversation::Group {
        title: "room".to_owned(),
        members: others.iter().map(|user| subject(*user)).collect(),
        client_request_id: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    };
    let made = stack.conversations.create(origin(owner, ACTING), new).await.unwrap();
    made.seen.header.conversation_id
}

async fn direct(stack: &Stack, one: User, other: User) -> ConversationId {
    let new = NewConversation::Direct { member: subject(other) };
    let made = stack.conversations.create(origin(one, ACTING), new).await.unwrap();
    made.seen.header.conversation_id
}
