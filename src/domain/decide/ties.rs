//! Contacts and blocks. Who blocks whom is decided by the INBOX of whoever blocks; the writer of the DIRECT of the two has
//! it in its memory, so that a send costs nothing more, and is told to look anew when it changes
//! (INV-BLOCK-1).

use super::personal::Actor;
use super::{Context, Draft, Fact, Outcome, Refusal};
use crate::domain::change::ChangeType;
use crate::domain::command::Origin;
use crate::domain::conversation::Kind;
use crate::domain::error::{DomainError, InvalidField};
use crate::domain::event::Event;
use crate::domain::ids::{MessageId, Principal};
use crate::domain::notification::NotificationState;
use crate::domain::policy;
use crate::domain::ties::Ties;

impl Draft<'_> {
    /// What is between two, as this draft leaves it.
    pub(super) fn ties(&self, one: Principal, other: Principal, context: &Context<'_>) -> Result<Ties, Refusal> {
        let pair = (one.min(other), one.max(other));
        let known = self.ties.get(&pair).or_else(|| context.facts.ties.get(&pair));
        known.cloned().ok_or(Refusal::Needs(Fact::Ties(pair.0, pair.1)))
    }

    fn tie(&mut self, one: Principal, other: Principal, ties: Ties) {
        self.ties.insert((one.min(other), one.max(other)), ties);
    }

    /// Two between whom there is a block do not get a DIRECT.
    pub(super) fn check_pair(
        &self,
        kind: Kind,
        principals: &[Principal],
        context: &Context<'_>,
    ) -> Result<(), Refusal> {
        if let (Kind::Direct, [one, other]) = (kind, principals)
            && self.ties(*one, *other, context)?.is_blocked()
        {
            return Err(policy::BLOCKED.into());
        }
        Ok(())
    }

    /// Refuses who is blocked by the other one of a DIRECT. Whoever blocks may go on writing.
    pub(super) fn not_blocked(&self, actor: Principal, context: &Context<'_>) -> Result<(), Refusal> {
        let remembered = self.base.map(|base| &base.blockers);
        let blockers = self.blockers.as_ref().or(remembered).map_or(&[][..], Vec::as_slice);
        let Some(blocker) = blockers.iter().find(|blocker| **blocker != actor) else {
            return Ok(());
        };
        // A block fences every writer that does not know of it; its end does not, so a refusal is looked up.
        if self.blockers.is_none() && !self.ties(actor, *blocker, context)?.is_blocked_by(*blocker) {
            return Ok(());
        }
        Err(policy::BLOCKED.into())
    }

    pub(super) fn heed_blocks(&mut self, context: &Context<'_>) -> Result<Outcome, Refusal> {
        let (header, _) = self.existing()?;
        let mut pair: Vec<Principal> = self.present().map(|member| member.principal).collect();
        pair.sort_unstable();
        let (Kind::Direct, [one, other]) = (header.kind, pair.as_slice()) else {
            return Ok(Outcome::Changed(None));
        };
        let ties = self.ties(*one, *other, context)?;
        let blockers: Vec<Principal> = ties.blockers.iter().map(|(blocker, _)| *blocker).collect();
        let remembered = self.base.map(|base| &base.blockers);
        let known = self.blockers.as_ref().or(remembered);
        // One that was never heeded is heeded also where this writer knows of it: another may not.
        if known == Some(&blockers) && ties.blockers.iter().all(|(_, heeded)| *heeded) {
            return Ok(Outcome::Changed(None));
        }
        self.blockers = Some(blockers.clone());
        let pair = (*one, *other);
        self.events.push(Event::BlocksHeeded { pair, blockers });
        let change = self.change(ChangeType::Hidden, None, &by_the_server(), context.now, None)?;
        Ok(Outcome::Changed(Some(change)))
    }

    /// Blocked once more, it goes on with what is still pending of the blocked.
    pub(super) fn block(
        &mut self,
        actor: &Actor<'_>,
        other: Principal,
        blocked: bool,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let owner = actor.origin.principal;
        if other == owner {
            return Err(DomainError::from(InvalidField::new("id", "nobody blocks themselves")).into());
        }
        let mut ties = self.ties(owner, other, context)?;
        let asked = if blocked {
            self.pending_from(owner, other, context)?
        } else {
            Vec::new()
        };
        let declined = self.end_all(&asked, NotificationState::Declined, &actor.untold(), context)?;
        if ties.is_blocked_by(owner) == blocked {
            return Ok(Outcome::Changed(declined));
        }
        if blocked {
            if ties.contact.take().is_some() {
                self.events.push(Event::ContactEnded { one: owner, other });
            }
            ties.blockers.push((owner, false));
            ties.blockers.sort_unstable();
        } else {
            ties.blockers.retain(|(blocker, _)| *blocker != owner);
        }
        self.tie(owner, other, ties);
        let at = context.now;
        self.events.push(Event::BlockChanged {
            owner,
            other,
            at,
            blocked,
        });
        let change = self.change(ChangeType::Hidden, None, &actor.untold(), at, None)?;
        Ok(Outcome::Changed(Some(change)))
    }

    pub(super) fn end_contact(
        &mut self,
        actor: &Actor<'_>,
        other: Principal,
        context: &Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let owner = actor.origin.principal;
        let mut ties = self.ties(owner, other, context)?;
        if ties.contact.take().is_none() {
            return Ok(Outcome::Changed(None));
        }
        self.part(owner, other, ties);
        let change = self.change(ChangeType::Hidden, None, &actor.untold(), actor.now, None)?;
        Ok(Outcome::Changed(Some(change)))
    }

    /// They are contacts no longer.
    pub(super) fn part(&mut self, one: Principal, other: Principal, mut ties: Ties) {
        ties.contact = None;
        self.tie(one, other, ties);
        self.events.push(Event::ContactEnded { one, other });
    }

    /// They are contacts from here on.
    pub(super) fn befriend(
        &mut self,
        (owner, request): (Principal, MessageId),
        other: Principal,
        mut ties: Ties,
        context: &Context<'_>,
    ) {
        ties.contact = Some(request);
        self.tie(owner, other, ties);
        self.events.push(Event::ContactMade {
            one: owner,
            other,
            request,
            at: context.now,
        });
    }
}

/// The server acts, on no device.
pub(super) const fn by_the_server() -> Origin {
    Origin {
        principal: Principal::SYSTEM,
        device: None,
    }
}
