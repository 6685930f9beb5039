//! The state machine: `Draft::decide` turns commands into events, one after the other, on top of a committed state.
//!
//! A draft never touches the state below it: memory changes only after the commit, by [`Conversation::apply`].
//! What must be known from the store first is asked for by [`Refusal::Needs`]; the caller fetches it and starts over.

use std::collections::HashMap;
use std::sync::Arc;

use super::chain::{self, Digest};
use super::change::{Change, ChangeType};
use super::command::{Command, Create, Origin, Send};
use super::content::{Content, MessageType};
use super::conversation::{Conversation, Head, Header, Kind, Status};
use super::error::{DomainError, InvalidField};
use super::event::Event;
use super::ids::{ClientMessageId, ConversationId, DeviceId, MessageId, Principal, PrincipalType, Seq, Timestamp};
use super::member::{Member, Role};
use super::message::{KeyRecord, Message, MessageStatus};
use super::{policy, visibility};

/// The most members of a group.
pub const MEMBERS_MAX: usize = 100_000;

/// What a command led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The conversation was made.
    Created,
    /// A message got its number.
    Sent(Arc<Message>),
    /// The key was used before, for the same payload: this was the first.
    Duplicate(KeyRecord),
    /// The change that was made; `None` where nothing had to change.
    Changed(Option<Arc<Change>>),
}

/// Why there is no outcome (yet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not allowed.
    Rejected(DomainError),
    /// It cannot be said before this is known.
    Needs(Fact),
}

impl From<DomainError> for Refusal {
    fn from(error: DomainError) -> Self {
        Self::Rejected(error)
    }
}

/// Something that only the store knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// Was this key used?
    Key(Principal, ClientMessageId),
    /// Which message of this conversation is quoted, and has the viewer deleted it?
    Quote(MessageId, Principal),
}

/// A quoted message as far as a quote has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotable {
    /// Its place.
    pub seq: Seq,
    /// Deleted for everyone, or by the viewer.
    pub gone: bool,
}

/// What is known from the store.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `None` = the key was never used.
    pub keys: HashMap<(Principal, ClientMessageId), Option<KeyRecord>>,
    /// `None` = no such message in this conversation.
    pub quotes: HashMap<(MessageId, Principal), Option<Quotable>>,
}

/// What comes from outside into a decision.
pub struct Context<'a> {
    /// The time of this batch.
    pub now: Timestamp,
    /// Gives message ids; a refusal uses nothing up.
    pub next_id: &'a mut dyn FnMut() -> Result<MessageId, DomainError>,
    /// What was fetched.
    pub facts: &'a Facts,
}

/// A batch in the making.
pub struct Draft<'a> {
    conversation_id: ConversationId,
    base: Option<&'a Conversation>,
    header: Option<Arc<Header>>,
    head: Option<Head>,
    /// What differs from `base`: `None` = a member no longer.
    members: HashMap<Principal, Option<Member>>,
    keys: HashMap<(Principal, ClientMessageId), KeyRecord>,
    member_count: usize,
    events: Vec<Event>,
}

/// A finished batch: what the store is asked to make true, all or nothing.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What happens, in order. Never empty.
    pub events: Vec<Event>,
    /// The header afterwards.
    pub header: Arc<Header>,
    /// The head afterwards.
    pub head: Head,
    /// Present members afterwards.
    pub member_count: usize,
}

impl<'a> Draft<'a> {
    /// On top of a committed state; `None` = there is no such conversation yet.
    #[must_use]
    pub fn new(conversation_id: ConversationId, base: Option<&'a Conversation>) -> Self {
        Self {
            conversation_id,
            base,
            header: base.map(|base| Arc::clone(&base.header)),
            head: base.map(|base| base.head),
            members: HashMap::new(),
            keys: HashMap::new(),
            member_count: base.map_or(0, |base| base.members.len()),
            events: Vec::new(),
        }
    }

    /// How many events there are so far.
    #[must_use]
    pub fn events_len(&self) -> usize {
        self.events.len()
    }

    /// What is to be committed; `None` when nothing is.
    #[must_use]
    pub fn finish(self) -> Option<Batch> {
        let (header, head) = self.header.zip(self.head)?;
        (!self.events.is_empty()).then_some(Batch {
            events: self.events,
            header,
            head,
            member_count: self.member_count,
        })
    }

    /// Decides one command on top of those before it.
    ///
    /// # Errors
    /// [`Refusal`]: then the draft is as it was.
    pub fn decide(&mut self, command: &Command, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        match command {
            Command::Create(create) => self.create(create, context),
            Command::Send(send) => self.send(send, context),
            Command::AddMembers { origin, members } => self.add_members(origin, members, context),
            Command::RemoveMember { origin, target } => self.remove_member(origin, *target, context),
        }
    }

    fn member(&self, principal: Principal) -> Option<Member> {
        match self.members.get(&principal) {
            Some(changed) => *changed,
            None => self.base.and_then(|base| base.members.get(&principal).copied()),
        }
    }

    fn existing(&self) -> Result<(Arc<Header>, Head), DomainError> {
        self.header
            .clone()
            .zip(self.head)
            .ok_or(DomainError::ConversationNotFound)
    }

    fn create(&mut self, create: &Create, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        if self.header.is_some() {
            return Err(DomainError::AlreadyCreated {
                conversation_id: self.conversation_id,
            }
            .into());
        }
        let creator = create.origin.principal;
        let is_group = create.kind == Kind::Group;
        let joined_seq = if is_group { Seq::ZERO.next() } else { Seq::ZERO };
        let mut principals = vec![creator];
        for other in &create.members {
            if !principals.contains(other) {
                principals.push(*other);
            }
        }
        if principals.len() > MEMBERS_MAX {
            return Err(DomainError::Forbidden("a group has at most 100,000 members").into());
        }
        let role = |principal| {
            if is_group && principal == creator {
                Role::Owner
            } else {
                Role::Member
            }
        };
        let members: Vec<Member> = principals
            .iter()
            .map(|principal| new_member(*principal, role(*principal), joined_seq, context.now, Seq::ZERO))
            .collect();
        let id = is_group.then(|| (context.next_id)()).transpose()?;
        let header = Arc::new(Header {
            conversation_id: self.conversation_id,
            kind: create.kind,
            title: create.title.clone(),
            avatar_url: None,
            owner: is_group.then_some(creator),
            history_visibility: create.history_visibility,
            posting: create.posting,
            adding: create.adding,
            status: Status::Active,
            created_at: context.now,
            updated_at: context.now,
        });
        self.header = Some(Arc::clone(&header));
        self.head = Some(Head::empty(self.conversation_id, context.now));
        self.member_count = members.len();
        self.members = members.iter().map(|member| (member.principal, Some(*member))).collect();
        self.events.push(Event::Created {
            header,
            members,
            creation_key: create.creation_key.clone(),
        });
        if let Some(id) = id {
            self.system_message(id, "conversation_created", creator, &principals, context.now)?;
        }
        Ok(Outcome::Created)
    }

    fn send(&mut self, send: &Send, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        let sender = send.origin.principal;
        let used = (sender, send.client_message_id.clone());
        let known = self
            .keys
            .get(&used)
            .or_else(|| self.base.and_then(|base| base.recent.get(sender, &used.1)));
        if let Some(record) = known.or_else(|| context.facts.keys.get(&used).and_then(Option::as_ref)) {
            return repeat(send, record).map_err(Refusal::from);
        }
        // The repeat of a key wins over every refusal, so a refusal needs to know that the key is new.
        self.may_send(send, context).map_err(|refusal| match refusal {
            Refusal::Rejected(_) if !context.facts.keys.contains_key(&used) => {
                Refusal::Needs(Fact::Key(sender, used.1.clone()))
            }
            refusal => refusal,
        })?;
        let message_id = (context.next_id)()?;
        let message = self.append(Unnumbered {
            message_id,
            sender,
            client_message_id: Some(send.client_message_id.clone()),
            message_type: send.message_type.clone(),
            content: send.content.clone(),
            content_hash: send.content_hash,
            quoted_message_id: send.quoted_message_id,
            sent_at: context.now,
            device: send.origin.device.clone(),
        })?;
        self.keys.insert(used, message.record());
        Ok(Outcome::Sent(message))
    }

    fn may_send(&self, send: &Send, context: &Context<'_>) -> Result<(), Refusal> {
        let sender = send.origin.principal;
        let (header, head) = self.existing()?;
        let member = self.member(sender).ok_or(DomainError::NotAMember)?;
        policy::may_send(&header, &member)?;
        if let Some(quoted) = send.quoted_message_id {
            let fact = context
                .facts
                .quotes
                .get(&(quoted, sender))
                .ok_or(Refusal::Needs(Fact::Quote(quoted, sender)))?;
            let visible = fact.filter(|quote| !quote.gone && quote.seq >= visibility::first_visible(&header, &member));
            visible.ok_or(DomainError::NotFound("no such message to quote in this conversation"))?;
        }
        if matches!(send.message_type, MessageType::Attachment(_)) {
            return Err(DomainError::NotFound("no such file").into());
        }
        if send.expected_last_seq.is_some_and(|expected| expected != head.last_seq) {
            return Err(DomainError::PreconditionFailed {
                last_seq: head.last_seq,
            }
            .into());
        }
        Ok(())
    }

    fn add_members(
        &mut self,
        origin: &Origin,
        asked: &[Principal],
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let (header, head) = self.existing()?;
        let actor = self.member(origin.principal).ok_or(DomainError::NotAMember)?;
        policy::may_add(&header, &actor)?;
        let mut new: Vec<Principal> = Vec::new();
        for principal in asked {
            if self.member(*principal).is_none() && !new.contains(principal) {
                new.push(*principal);
            }
        }
        if new.is_empty() {
            return Ok(Outcome::Changed(None));
        }
        if self.member_count + new.len() > MEMBERS_MAX {
            return Err(DomainError::Forbidden("a group has at most 100,000 members").into());
        }
        let id = (context.next_id)()?;
        let joined_seq = head.last_seq.next();
        let cleared = |principal| {
            self.base
                .and_then(|base| base.former.get(&principal).copied())
                .unwrap_or_default()
        };
        let members: Vec<Member> = new
            .iter()
            .map(|principal| new_member(*principal, Role::Member, joined_seq, context.now, cleared(*principal)))
            .collect();
        self.member_count += members.len();
        self.members
            .extend(members.iter().map(|member| (member.principal, Some(*member))));
        self.events.push(Event::MembersAdded { members });
        let payload = members_payload(&new, "ADDED");
        let change = self.change(ChangeType::MemberAdded, payload, origin, context.now)?;
        self.system_message(id, "member_added", origin.principal, &new, context.now)?;
        Ok(Outcome::Changed(Some(change)))
    }

    fn remove_member(
        &mut self,
        origin: &Origin,
        target: Principal,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let (header, _) = self.existing()?;
        let actor = self.member(origin.principal).ok_or(DomainError::NotAMember)?;
        let leaves = origin.principal == target;
        if leaves {
            policy::may_leave(&header)?;
        } else {
            policy::may_remove(&header, &actor, self.member(target).as_ref())?;
        }
        let mut ids = Vec::with_capacity(2);
        let follows_up = leaves && (actor.role == Role::Owner || self.member_count == 1);
        for _ in 0..=usize::from(follows_up) {
            ids.push((context.next_id)()?);
        }
        let mut ids = ids.into_iter();
        self.members.insert(target, None);
        self.member_count = self.member_count.saturating_sub(1);
        self.events.push(Event::MemberRemoved {
            principal: target,
            left: leaves,
        });
        let payload = members_payload(&[target], if leaves { "LEFT" } else { "REMOVED" });
        let change = self.change(ChangeType::MemberRemoved, payload, origin, context.now)?;
        if let Some(id) = ids.next() {
            self.system_message(id, "member_removed", origin.principal, &[target], context.now)?;
        }
        if let Some(id) = ids.next() {
            self.follow_owner(id, origin, context.now)?;
        }
        Ok(Outcome::Changed(Some(change)))
    }

    /// The owner has left: the longest-standing ADMIN takes over, else the longest-standing MEMBER; nobody left dissolves.
    fn follow_owner(&mut self, id: MessageId, origin: &Origin, now: Timestamp) -> Result<(), DomainError> {
        let (header, _) = self.existing()?;
        let untouched = self.base.into_iter().flat_map(|base| base.members.values());
        let untouched = untouched.filter(|member| !self.members.contains_key(&member.principal));
        let present = untouched.chain(self.members.values().flatten()).copied();
        let heir = present.min_by_key(|member| (member.role != Role::Admin, member.joined_seq, member.principal));
        let mut header = Header::clone(&header);
        header.updated_at = now;
        let Some(mut heir) = heir else {
            header.status = Status::Dissolved;
            header.owner = None;
            let header = Arc::new(header);
            self.header = Some(Arc::clone(&header));
            self.events.push(Event::HeaderChanged { header });
            let payload = Content::trusted("{\"status\":\"DISSOLVED\"}");
            self.change(ChangeType::ConversationUpdated, payload, origin, now)?;
            self.system_message(id, "dissolved", origin.principal, &[], now)?;
            return Ok(());
        };
        heir.role = Role::Owner;
        self.members.insert(heir.principal, Some(heir));
        header.owner = Some(heir.principal);
        let header = Arc::new(header);
        self.header = Some(Arc::clone(&header));
        self.events.push(Event::RoleChanged {
            principal: heir.principal,
            role: Role::Owner,
        });
        self.events.push(Event::HeaderChanged { header });
        let payload = format!(
            "{{\"principal\":{},\"role\":\"OWNER\"}}",
            principal_json(heir.principal)
        );
        self.change(ChangeType::MemberUpdated, Content::trusted(&payload), origin, now)?;
        self.system_message(id, "role_changed", origin.principal, &[heir.principal], now)?;
        Ok(())
    }

    fn change(
        &mut self,
        change_type: ChangeType,
        payload: Content,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<Arc<Change>, DomainError> {
        let head = self.head.as_mut().ok_or(DomainError::ConversationNotFound)?;
        head.last_change_seq = head.last_change_seq.next();
        let change = Arc::new(Change {
            conversation_id: self.conversation_id,
            change_seq: head.last_change_seq,
            change_type,
            message_id: None,
            payload,
            actor: origin.principal,
            changed_at: now,
        });
        self.events.push(Event::Changed {
            change: Arc::clone(&change),
            device: origin.device.clone(),
        });
        Ok(change)
    }

    fn system_message(
        &mut self,
        message_id: MessageId,
        event: &str,
        actor: Principal,
        members: &[Principal],
        now: Timestamp,
    ) -> Result<Arc<Message>, DomainError> {
        let list = if members.is_empty() {
            String::new()
        } else {
            format!(",\"members\":{}", principals_json(members))
        };
        let content = format!("{{\"event\":\"{event}\",\"actor\":{}{list}}}", principal_json(actor));
        self.append(Unnumbered {
            message_id,
            sender: Principal::SYSTEM,
            client_message_id: None,
            message_type: MessageType::System,
            content_hash: chain::content_hash(&content),
            content: Content::trusted(&content),
            quoted_message_id: None,
            sent_at: now,
            device: None,
        })
    }

    /// Gives the next seq: the only place that does.
    fn append(&mut self, new: Unnumbered) -> Result<Arc<Message>, DomainError> {
        let head = self.head.as_mut().ok_or(DomainError::ConversationNotFound)?;
        let counts = new.sender.kind != PrincipalType::System;
        let mut message = Message {
            message_id: new.message_id,
            conversation_id: self.conversation_id,
            seq: head.last_seq.next(),
            sender: new.sender,
            client_message_id: new.client_message_id,
            message_type: new.message_type,
            content: new.content,
            quoted_message_id: new.quoted_message_id,
            status: MessageStatus::Normal,
            sent_at: new.sent_at,
            edited_at: None,
            change_seq: super::ids::ChangeSeq::ZERO,
            count_no: if counts {
                head.last_count_no.next()
            } else {
                head.last_count_no
            },
            content_hash: new.content_hash,
            chain_hash: head.chain_hash,
        };
        message.chain_hash = chain::chain_hash(&head.chain_hash, &message);
        head.last_seq = message.seq;
        head.last_message_seq = message.seq;
        head.last_count_no = message.count_no;
        head.chain_hash = message.chain_hash;
        head.last_activity_at = message.sent_at;
        let message = Arc::new(message);
        self.events.push(Event::MessageSent {
            message: Arc::clone(&message),
            device: new.device,
        });
        Ok(message)
    }
}

struct Unnumbered {
    message_id: MessageId,
    sender: Principal,
    client_message_id: Option<ClientMessageId>,
    message_type: MessageType,
    content: Content,
    content_hash: Digest,
    quoted_message_id: Option<MessageId>,
    sent_at: Timestamp,
    device: Option<DeviceId>,
}

/// Same key, same payload: the first answer. Same key, other payload: a conflict (B27).
///
/// # Errors
/// [`DomainError::KeyReused`].
pub fn repeat(send: &Send, record: &KeyRecord) -> Result<Outcome, DomainError> {
    let same = record.content_hash == send.content_hash
        && record.message_type == send.message_type
        && record.quoted_message_id == send.quoted_message_id;
    if same {
        Ok(Outcome::Duplicate(record.clone()))
    } else {
        Err(DomainError::KeyReused {
            original: record.message_id,
        })
    }
}

fn new_member(principal: Principal, role: Role, joined_seq: Seq, joined_at: Timestamp, cleared_seq: Seq) -> Member {
    Member {
        principal,
        role,
        joined_seq,
        joined_at,
        cleared_seq,
    }
}

fn principal_json(principal: Principal) -> String {
    format!(
        "{{\"type\":\"{}\",\"id\":\"{}\"}}",
        principal.kind.as_str(),
        principal.id
    )
}

fn principals_json(principals: &[Principal]) -> String {
    let list: Vec<String> = principals.iter().map(|principal| principal_json(*principal)).collect();
    format!("[{}]", list.join(","))
}

fn members_payload(members: &[Principal], reason: &str) -> Content {
    Content::trusted(&format!(
        "{{\"members\":{},\"reason\":\"{reason}\"}}",
        principals_json(members)
    ))
}

/// A GROUP needs a title.
///
/// # Errors
/// [`InvalidField`] when it is empty or over 256 characters, or has control characters.
pub fn check_title(title: &str) -> Result<(), InvalidField> {
    let fine = title.chars().count() <= 256 && !title.chars().any(char::is_control);
    if fine {
        Ok(())
    } else {
        Err(InvalidField::new(
            "title",
            "must have at most 256 characters and no control characters",
        ))
    }
}
