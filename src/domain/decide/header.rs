//! What a group is: its title and settings, the roles in it, its end.
//!
//! Each is one change, and a new title, a role and the end are one numbered SYSTEM message besides. What is asked for and
//! is so already changes nothing.

use std::sync::Arc;

use super::append::principal_json;
use super::{Context, Draft, Outcome, Refusal};
use crate::domain::change::{Change, ChangeType};
use crate::domain::command::{HeaderPatch, Origin};
use crate::domain::content::Content;
use crate::domain::conversation::{Header, Status};
use crate::domain::error::DomainError;
use crate::domain::event::Event;
use crate::domain::ids::{Principal, Timestamp};
use crate::domain::json;
use crate::domain::member::{Member, Role};
use crate::domain::policy;

impl Draft<'_> {
    pub(super) fn update(
        &mut self,
        origin: &Origin,
        patch: &HeaderPatch,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let header = self.managed_by(origin, Role::Admin)?;
        policy::open(&header)?;
        let (new, fields) = patched(&header, patch);
        if fields.is_empty() {
            return Ok(Outcome::Changed(None));
        }
        let renamed = new.title != header.title;
        let id = renamed.then(|| (context.next_id)()).transpose()?;
        let change = self.change_header(new, &fields.join(","), origin, context.now)?;
        if let Some(id) = id {
            self.system_message(id, "title_changed", origin.principal, &[], context.now)?;
        }
        Ok(Outcome::Changed(Some(change)))
    }

    pub(super) fn set_role(
        &mut self,
        origin: &Origin,
        target: Principal,
        role: Role,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let header = self.managed_by(origin, Role::Owner)?;
        policy::open(&header)?;
        let member = self.member(target).ok_or(DomainError::NotFound("no such member"))?;
        if member.role == role {
            return Ok(Outcome::Changed(None));
        }
        if target == origin.principal {
            return Err(
                DomainError::Forbidden("the owner hands the group over to another before giving up the role").into(),
            );
        }
        let id = (context.next_id)()?;
        let change = self.give_role(member, role, origin, context.now)?;
        if role == Role::Owner {
            let former = self.member(origin.principal).ok_or(DomainError::NotAMember)?;
            let mut new = Header::clone(&header);
            (new.owner, new.updated_at) = (Some(target), context.now);
            self.set_header(new);
            // The reply tells the first change only, so that nobody is spared this one.
            let undivided = Origin {
                device: None,
                ..origin.clone()
            };
            self.give_role(former, Role::Admin, &undivided, context.now)?;
        }
        self.system_message(id, "role_changed", origin.principal, &[target], context.now)?;
        Ok(Outcome::Changed(Some(change)))
    }

    pub(super) fn dissolve(&mut self, origin: &Origin, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        let header = self.managed_by(origin, Role::Owner)?;
        if header.status == Status::Dissolved {
            return Ok(Outcome::Changed(None));
        }
        let id = (context.next_id)()?;
        let mut new = Header::clone(&header);
        new.status = Status::Dissolved;
        let change = self.change_header(new, "\"status\":\"DISSOLVED\"", origin, context.now)?;
        self.system_message(id, "dissolved", origin.principal, &[], context.now)?;
        Ok(Outcome::Changed(Some(change)))
    }

    /// The header of a group in which the actor has at least this role.
    fn managed_by(&self, origin: &Origin, least: Role) -> Result<Arc<Header>, DomainError> {
        let (header, _) = self.existing()?;
        let actor = self.member(origin.principal).ok_or(DomainError::NotAMember)?;
        policy::may_manage(&header, &actor, least)?;
        Ok(header)
    }

    /// `fields`: the members of the payload, as JSON.
    pub(super) fn change_header(
        &mut self,
        mut header: Header,
        fields: &str,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<Arc<Change>, DomainError> {
        header.updated_at = now;
        self.set_header(header);
        let payload = Content::trusted(&format!("{{{fields}}}"));
        self.change(ChangeType::ConversationUpdated, Some(payload), origin, now, None)
    }

    pub(super) fn give_role(
        &mut self,
        mut member: Member,
        role: Role,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<Arc<Change>, DomainError> {
        member.role = role;
        self.members.insert(member.principal, Some(member));
        self.events.push(Event::RoleChanged {
            principal: member.principal,
            role,
        });
        let who = principal_json(member.principal);
        let payload = Content::trusted(&format!("{{\"principal\":{who},\"role\":\"{}\"}}", role.as_str()));
        self.change(ChangeType::MemberUpdated, Some(payload), origin, now, None)
    }

    pub(super) fn set_header(&mut self, header: Header) {
        let header = Arc::new(header);
        self.header = Some(Arc::clone(&header));
        self.events.push(Event::HeaderChanged { header });
    }
}

/// The header as the patch leaves it, and what differs, as members of a JSON object.
fn patched(header: &Header, patch: &HeaderPatch) -> (Header, Vec<String>) {
    let (mut new, mut fields) = (header.clone(), Vec::new());
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "null".to_owned(), json::text);
    if let Some(title) = patch.title.as_ref().filter(|title| **title != header.title) {
        fields.push(format!("\"title\":{}", text(title)));
        new.title.clone_from(title);
    }
    if let Some(url) = patch.avatar_url.as_ref().filter(|url| **url != header.avatar_url) {
        fields.push(format!("\"avatar_url\":{}", text(url)));
        new.avatar_url.clone_from(url);
    }
    if let Some(to) = patch.history_visibility.filter(|to| *to != header.history_visibility) {
        fields.push(format!("\"history_visibility\":\"{}\"", to.as_str()));
        new.history_visibility = to;
    }
    if let Some(to) = patch.posting.filter(|to| *to != header.posting) {
        fields.push(format!("\"posting\":\"{}\"", to.as_str()));
        new.posting = to;
    }
    if let Some(to) = patch.adding.filter(|to| *to != header.adding) {
        fields.push(format!("\"adding\":\"{}\"", to.as_str()));
        new.adding = to;
    }
    (new, fields)
}
