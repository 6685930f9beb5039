//! Conversations are made, members come and go: each a numbered change and a numbered SYSTEM message.

use std::collections::HashSet;
use std::sync::Arc;

use super::append::members_payload;
use super::{Context, Draft, Fact, MEMBERS_MAX, Outcome, Refusal};
use crate::domain::change::ChangeType;
use crate::domain::command::{Create, Origin};
use crate::domain::conversation::{Head, Header, Kind, Status};
use crate::domain::error::{DomainError, InvalidField};
use crate::domain::event::Event;
use crate::domain::ids::{MessageId, Principal, Seq, Timestamp};
use crate::domain::member::{Member, Role};
use crate::domain::policy;

impl Draft<'_> {
    pub(super) fn create(&mut self, create: &Create, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        if self.header.is_some() {
            return Err(DomainError::AlreadyCreated {
                conversation_id: self.conversation_id,
            }
            .into());
        }
        let creator = create.origin.principal;
        let is_group = create.kind == Kind::Group;
        let joined_seq = if is_group { Seq::ZERO.next() } else { Seq::ZERO };
        let principals = distinct(std::iter::once(creator).chain(create.members.iter().copied()));
        if principals.len() > MEMBERS_MAX {
            return Err(DomainError::Forbidden("a group has at most 100,000 members").into());
        }
        self.check_pair(create.kind, &principals, context)?;
        let role = |principal| {
            if is_group && principal == creator {
                Role::Owner
            } else {
                Role::Member
            }
        };
        let members: Vec<Member> = principals
            .iter()
            .map(|principal| new_member(*principal, role(*principal), joined_seq, context.now))
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

    pub(super) fn add_members(
        &mut self,
        origin: &Origin,
        asked: &[Principal],
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let (header, head) = self.existing()?;
        let actor = self.member(origin.principal).ok_or(DomainError::NotAMember)?;
        policy::may_add(&header, &actor)?;
        let new = self.strangers(asked);
        if new.is_empty() {
            return Ok(Outcome::Changed(None));
        }
        self.let_in(&new, "ADDED", head, origin, context)
    }

    /// Whom of `asked` the actor may invite. Whether they may join is judged once more when they do.
    pub(super) fn invite(&self, origin: &Origin, asked: &[Principal]) -> Result<Outcome, Refusal> {
        let (header, _) = self.existing()?;
        let actor = self.member(origin.principal).ok_or(DomainError::NotAMember)?;
        policy::may_add(&header, &actor)?;
        Ok(Outcome::Invitable {
            principals: self.strangers(asked),
            title: header.title.clone(),
        })
    }

    /// An invitation was accepted. The right to join is that of whoever invited. A process may have died between the joining
    /// and the note of it, and the member may have left since: nobody is brought back by what was done already.
    pub(super) fn join(
        &mut self,
        member: Principal,
        by: Principal,
        accepted_at: Timestamp,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let (header, head) = self.existing()?;
        if self.member(member).is_some() {
            return Ok(Outcome::Changed(None));
        }
        let last_joined = context.facts.last_joined.get(&member);
        let last_joined = last_joined.ok_or(Refusal::Needs(Fact::LastJoined(member)))?;
        if last_joined.is_some_and(|at| at >= accepted_at) {
            return Ok(Outcome::Changed(None));
        }
        policy::may_join(&header, self.member(by).as_ref())?;
        let origin = Origin {
            principal: member,
            device: None,
        };
        self.let_in(&[member], "JOINED", head, &origin, context)
    }

    /// Those who are no members yet, each once.
    fn strangers(&self, asked: &[Principal]) -> Vec<Principal> {
        let asked = asked.iter().copied();
        distinct(asked.filter(|principal| self.member(*principal).is_none()))
    }

    /// Makes members of them.
    fn let_in(
        &mut self,
        new: &[Principal],
        reason: &str,
        head: Head,
        origin: &Origin,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        if self.member_count + new.len() > MEMBERS_MAX {
            return Err(DomainError::Forbidden("a group has at most 100,000 members").into());
        }
        let id = (context.next_id)()?;
        let joined_seq = head.last_seq.next();
        let members: Vec<Member> = new
            .iter()
            .map(|principal| new_member(*principal, Role::Member, joined_seq, context.now))
            .collect();
        self.member_count += members.len();
        self.members
            .extend(members.iter().map(|member| (member.principal, Some(*member))));
        self.events.push(Event::MembersAdded { members });
        let payload = members_payload(new, reason);
        let change = self.change(ChangeType::MemberAdded, Some(payload), origin, context.now, None)?;
        self.system_message(id, "member_added", origin.principal, new, context.now)?;
        Ok(Outcome::Changed(Some(change)))
    }

    pub(super) fn remove_member(
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
        let change = self.change(ChangeType::MemberRemoved, Some(payload), origin, context.now, None)?;
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
        let heir = self
            .present()
            .min_by_key(|member| (member.role != Role::Admin, member.joined_seq, member.principal));
        let mut header = Header::clone(&header);
        header.updated_at = now;
        header.owner = heir.map(|heir| heir.principal);
        let Some(heir) = heir else {
            header.status = Status::Dissolved;
            self.change_header(header, "\"status\":\"DISSOLVED\"", origin, now)?;
            self.system_message(id, "dissolved", origin.principal, &[], now)?;
            return Ok(());
        };
        self.set_header(header);
        self.give_role(heir, Role::Owner, origin, now)?;
        self.system_message(id, "role_changed", origin.principal, &[heir.principal], now)?;
        Ok(())
    }
}

/// Each once, in order.
fn distinct(principals: impl Iterator<Item = Principal>) -> Vec<Principal> {
    let mut seen = HashSet::new();
    principals.filter(|principal| seen.insert(*principal)).collect()
}

fn new_member(principal: Principal, role: Role, joined_seq: Seq, joined_at: Timestamp) -> Member {
    Member {
        principal,
        role,
        joined_seq,
        joined_at,
    }
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
