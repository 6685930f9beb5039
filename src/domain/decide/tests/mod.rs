//! The rules, one sentence per test. A [`World`] is a conversation in memory with a time and ids of its own.

mod asking_again;
mod creating;
mod header;
mod laws;
mod marking;
mod members;
mod notifying;
mod personal;
mod referring;
mod sending;
mod ties;
mod touching;

use std::collections::HashMap;
use std::sync::Arc;

use super::{Batch, Context, Draft, Facts, Outcome, Quotable, Refusal};
use crate::domain::chain::content_hash;
use crate::domain::{
    Adding, ClientMessageId, Command, Content, Conversation, ConversationId, Create, CreationKey, DeviceId,
    DomainError, Event, HeaderPatch, HistoryVisibility, Kind, Member, Message, MessageId, MessageType, Origin, Posting,
    Principal, Role, Send, Seq, Ties, Timestamp,
};

const ANN: Principal = Principal::user(1);
const BOB: Principal = Principal::user(2);
const CY: Principal = Principal::user(3);
const DEE: Principal = Principal::user(4);
const STRANGER: Principal = Principal::user(99);

const START: i64 = 1_795_953_600_000;

/// One conversation and its surroundings.
struct World {
    state: Option<Conversation>,
    facts: Facts,
    now: i64,
    ids_given: i64,
    /// What the id generator says instead of an id.
    refuses: Option<DomainError>,
}

impl World {
    /// Nothing is there yet.
    fn empty() -> Self {
        Self {
            state: None,
            facts: Facts {
                ties: strangers(),
                ..Facts::default()
            },
            now: START,
            ids_given: 0,
            refuses: None,
        }
    }

    /// A group that ANN owns.
    fn group(members: &[Principal]) -> Self {
        let mut world = Self::empty();
        world.does(&create(Kind::Group, members)).unwrap();
        world
    }

    /// Decides and applies one command.
    fn does(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        let (mut outcomes, _) = self.do_all(std::slice::from_ref(command));
        outcomes.remove(0)
    }

    /// Decides several commands as one batch, then applies it.
    fn do_all(&mut self, commands: &[Command]) -> (Vec<Result<Outcome, Refusal>>, Option<Batch>) {
        let mut ids = self.ids_given;
        let refuses = self.refuses.clone();
        let mut next_id = || {
            if let Some(error) = &refuses {
                return Err(error.clone());
            }
            ids += 1;
            Ok(message_id(1_000 + ids))
        };
        let mut context = Context {
            now: Timestamp::from_millis(self.now),
            next_id: &mut next_id,
            facts: &self.facts,
        };
        let mut draft = Draft::new(conversation(), self.state.as_ref());
        let outcomes = commands
            .iter()
            .map(|command| draft.decide(command, &mut context))
            .collect();
        let batch = draft.finish();
        self.ids_given = ids;
        for event in batch.iter().flat_map(|batch| &batch.events) {
            Conversation::apply(&mut self.state, event);
        }
        (outcomes, batch)
    }

    fn refusal(&mut self, command: &Command) -> DomainError {
        let before = self.state.clone();
        let Err(Refusal::Rejected(error)) = self.does(command) else {
            panic!("{command:?} was not refused");
        };
        assert_same(self.state.as_ref(), before.as_ref());
        error
    }

    fn sent(&mut self, command: &Command) -> Arc<Message> {
        match self.does(command) {
            Ok(Outcome::Sent(message)) => message,
            other => panic!("{command:?} led to {other:?}"),
        }
    }

    fn state(&self) -> &Conversation {
        self.state.as_ref().unwrap()
    }

    fn member(&self, principal: Principal) -> Member {
        self.state().members.get(principal).unwrap()
    }

    /// The store was asked for this key and says that it is new.
    fn knows_key_is_new(&mut self, sender: Principal, key: &str) {
        self.facts.keys.insert((sender, client_message_id(key)), None);
    }

    fn knows_quote(&mut self, message: MessageId, viewer: Principal, quotable: Option<Quotable>) {
        self.facts.quotes.insert((message, viewer), quotable);
    }
}

/// There is nothing between any two of them.
fn strangers() -> HashMap<(Principal, Principal), Ties> {
    let all = [ANN, BOB, CY, DEE, STRANGER];
    let pairs = all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other)));
    pairs
        .filter(|(one, other)| one < other)
        .map(|pair| (pair, Ties::default()))
        .collect()
}

fn assert_same(one: Option<&Conversation>, other: Option<&Conversation>) {
    let (Some(one), Some(other)) = (one, other) else {
        return assert_eq!(one.is_some(), other.is_some());
    };
    assert_eq!(one.header, other.header);
    assert_eq!(one.head, other.head);
    assert_eq!(one.members, other.members);
}

fn conversation() -> ConversationId {
    ConversationId::new(7).unwrap()
}

fn message_id(id: i64) -> MessageId {
    MessageId::new(id).unwrap()
}

fn client_message_id(key: &str) -> ClientMessageId {
    ClientMessageId::parse(key).unwrap()
}

fn by(principal: Principal) -> Origin {
    Origin {
        principal,
        device: Some(DeviceId::parse("phone").unwrap()),
    }
}

fn create(kind: Kind, others: &[Principal]) -> Command {
    Command::Create(creation(kind, others))
}

fn creation(kind: Kind, others: &[Principal]) -> Create {
    Create {
        origin: by(ANN),
        kind,
        title: (kind == Kind::Group).then(|| "room".to_owned()),
        members: others.to_vec(),
        creation_key: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    }
}

fn sending(sender: Principal, key: &str, text: &str) -> Send {
    let content = format!("{{\"text\":\"{text}\"}}");
    Send {
        origin: by(sender),
        client_message_id: client_message_id(key),
        message_type: MessageType::Text,
        content_hash: content_hash(&content),
        content: Content::trusted(&content),
        quoted_message_id: None,
        expected_last_seq: None,
    }
}

fn send(sender: Principal, key: &str) -> Command {
    Command::Send(sending(sender, key, "words"))
}

fn add(actor: Principal, members: &[Principal]) -> Command {
    Command::AddMembers {
        origin: by(actor),
        members: members.to_vec(),
    }
}

fn remove(actor: Principal, target: Principal) -> Command {
    Command::RemoveMember {
        origin: by(actor),
        target,
    }
}

fn update(actor: Principal, patch: HeaderPatch) -> Command {
    Command::Update {
        origin: by(actor),
        patch,
    }
}

fn rename(actor: Principal, title: Option<&str>) -> Command {
    update(
        actor,
        HeaderPatch {
            title: Some(title.map(str::to_owned)),
            ..HeaderPatch::default()
        },
    )
}

fn set_role(actor: Principal, target: Principal, role: Role) -> Command {
    Command::SetRole {
        origin: by(actor),
        target,
        role,
    }
}

fn dissolve(actor: Principal) -> Command {
    Command::Dissolve { origin: by(actor) }
}

/// What happened, in short: `sent 1`, `changed 1 MEMBER_ADDED`, …
fn told(batch: Option<&Batch>) -> Vec<String> {
    let tell = |event: &Event| match event {
        Event::Created { members, .. } => format!("created with {}", members.len()),
        Event::MessageSent { message, .. } => format!("sent {} {}", message.seq, message.content.as_str()),
        Event::MembersAdded { members } => format!("added {}", members.len()),
        Event::MemberRemoved { principal, left } => format!("removed {principal} left={left}"),
        Event::RoleChanged { principal, role } => format!("role {principal} {}", role.as_str()),
        Event::HeaderChanged { header } => format!("header {}", header.status.as_str()),
        Event::Changed { change, .. } => {
            format!(
                "changed {} {} {}",
                change.change_seq,
                change.change_type.as_str(),
                change.payload.as_ref().map_or("", Content::as_str)
            )
        }
        Event::ReadMoved { seq, count_no, .. } => format!("read {seq} {count_no}"),
        Event::SettingsChanged { patch, .. } => format!("settings {patch:?}"),
        Event::ActionChanged { action, .. } => format!("action {} {}", action.action_type.as_str(), action.status()),
        Event::MessageChanged { message, .. } => format!("message {} {}", message.seq, message.status.as_str()),
        Event::Mentioned { seq, now, .. } => format!("mentioned {seq} {now:?}"),
        Event::Referenced {
            seq, added, removed, ..
        } => format!("referenced {seq} {added:?} {removed:?}"),
        Event::Reacted {
            message, emoji, added, ..
        } => format!("reacted {} {emoji} {added}", message.seq),
        Event::Pinned { message, pinned, .. } => format!("pinned {} {pinned}", message.seq),
        Event::Notified { notification } => format!("notified {}", notification.kind.as_str()),
        Event::NotificationChanged { notification } => format!("notification {}", notification.state.as_str()),
        Event::ContactMade { one, other, .. } => format!("contact {one} {other}"),
        Event::ContactEnded { one, other } => format!("no contact {one} {other}"),
        Event::BlockChanged {
            owner, other, blocked, ..
        } => format!("block {owner} {other} {blocked}"),
        Event::BlocksHeeded { blockers, .. } => format!("heeded {}", blockers.len()),
    };
    batch.iter().flat_map(|batch| &batch.events).map(tell).collect()
}
