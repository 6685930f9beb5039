//! What a user does for themselves: positions, settings, actions. All of it goes through their INBOX, which is made when
//! it is first needed; its writer is the single writer of their own state.

use std::sync::Arc;

use super::ask::ask_keyed;
use super::conversations::Page;
use super::error::ServiceError;
use super::messages::member_access;
use crate::conversation::{CommandError, ReplyTo, SessionReply};
use crate::domain::personal::RECEIPTS_MEMBERS_MAX;
use crate::domain::{
    Action, ActionType, Code, Command, ConversationId, Create, CreationKey, DomainError, Kind, Notify, Origin, Outcome,
    Personal, Principal, Receipt, Seq, policy, visibility,
};
use crate::ids::Ids;
use crate::routing::Bus;
use crate::storage::{ActionPosition, PageQuery, Seen, Store};

/// Where a read has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadUpTo {
    /// The position from here on.
    pub last_read_seq: Seq,
    /// What is above it.
    pub unread_count: u64,
    /// Of the reader's INBOX; `None` where nothing moved.
    pub change_seq: Option<i64>,
}

/// How far a message has come: every present member but its sender in exactly one list, in order of joining.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipts {
    /// Have read it.
    pub read: Vec<Principal>,
    /// A device of theirs has acknowledged it.
    pub delivered: Vec<Principal>,
    /// Neither.
    pub pending: Vec<Principal>,
}

/// Use cases around a user's own state.
pub struct Inbox {
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    ids: Arc<Ids>,
}

impl Inbox {
    /// Reads from `store`, writes through `bus`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, bus: Arc<dyn Bus>, ids: Arc<Ids>) -> Self {
        Self { store, bus, ids }
    }

    /// The INBOX of a principal; it is made if there is none. Of 100 who ask at once all get the same one.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn of(&self, owner: Principal) -> Result<ConversationId, ServiceError> {
        let key = CreationKey::inbox(owner);
        if let Some(found) = self.store.by_creation_key(&key).await? {
            return Ok(found);
        }
        let id = self.ids.conversation_id()?;
        match ask_keyed(self.bus.as_ref(), id, Command::Create(Create::inbox(owner))).await {
            Ok(_) => Ok(id),
            Err(CommandError::Refused(DomainError::AlreadyCreated { .. })) => self.made_meanwhile(owner).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Tells a principal something in their INBOX; where there is none, one commit makes it and says it.
    ///
    /// # Errors
    /// What the writer of the INBOX says.
    pub async fn tell(&self, notify: Notify) -> Result<Outcome, ServiceError> {
        let owner = notify.to;
        let found = self.store.by_creation_key(&CreationKey::inbox(owner)).await?;
        let id = match found {
            Some(found) => found,
            None => self.ids.conversation_id()?,
        };
        match ask_keyed(self.bus.as_ref(), id, Command::Notify(notify.clone())).await {
            Ok(outcome) => Ok(outcome),
            Err(CommandError::Refused(DomainError::AlreadyCreated { .. })) => {
                let inbox = self.made_meanwhile(owner).await?;
                Ok(ask_keyed(self.bus.as_ref(), inbox, Command::Notify(notify)).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn made_meanwhile(&self, owner: Principal) -> Result<ConversationId, ServiceError> {
        let found = self.store.by_creation_key(&CreationKey::inbox(owner)).await?;
        found.ok_or_else(|| ServiceError::internal(&format!("there is an inbox of {owner} without a key")))
    }

    /// Where a read by this principal is decided.
    ///
    /// # Errors
    /// `not_found`, `not_a_member`.
    pub async fn for_read(&self, reader: Principal, id: ConversationId) -> Result<ConversationId, ServiceError> {
        // Before anything is made: who names a foreign conversation leaves no trace.
        member_access(self.store.as_ref(), id, reader).await?;
        self.of(reader).await
    }

    /// Moves the position forward.
    ///
    /// # Errors
    /// `not_found`, `not_a_member`.
    pub async fn read(&self, origin: Origin, id: ConversationId, seq: Seq) -> Result<ReadUpTo, ServiceError> {
        let inbox = self.for_read(origin.principal, id).await?;
        let act = Personal::Read {
            conversation_id: id,
            seq,
        };
        match self.ask(inbox, origin, act).await? {
            Outcome::Read {
                last_read_seq,
                unread_count,
                change,
            } => Ok(ReadUpTo {
                last_read_seq,
                unread_count,
                change_seq: change.map(|change| change.change_seq.get()),
            }),
            other => Err(ServiceError::internal(&format!("a read led to {other:?}"))),
        }
    }

    /// As [`Inbox::read`], decided by the INBOX that [`Inbox::for_read`] has found, but the answer travels to the session
    /// with the pushes of the same commit.
    pub fn dispatch_read(
        &self,
        inbox: ConversationId,
        origin: Origin,
        conversation_id: ConversationId,
        seq: Seq,
        reply: SessionReply,
    ) {
        let act = Personal::Read { conversation_id, seq };
        let command = Command::Personal { origin, act };
        self.bus.dispatch(inbox, command, ReplyTo::Session(reply));
    }

    /// Changes settings, or clears; answers the conversation as it is seen afterwards.
    ///
    /// # Errors
    /// `not_found`, `not_a_member`.
    pub async fn set(&self, origin: Origin, id: ConversationId, act: Personal) -> Result<Seen, ServiceError> {
        let viewer = origin.principal;
        let inbox = self.for_read(viewer, id).await?;
        match self.ask(inbox, origin, act).await? {
            Outcome::Changed(_) => {}
            other => return Err(ServiceError::internal(&format!("settings led to {other:?}"))),
        }
        let seen = self.store.seen(id, viewer).await?;
        Ok(seen.ok_or(DomainError::ConversationNotFound)?)
    }

    /// Sets an action, or takes it back.
    ///
    /// # Errors
    /// `not_found` for a message that the user may not see. What they have set they can always take back, also when the
    /// message was DELETED since or they have left.
    pub async fn act(&self, origin: Origin, act: Personal) -> Result<Action, ServiceError> {
        let (Personal::Set { message_id, .. } | Personal::Unset { message_id, .. }) = &act else {
            return Err(ServiceError::internal(&format!("{act:?} is no action on a message")));
        };
        // As in `for_read`.
        let found = self.store.actionable(*message_id, origin.principal).await?;
        let known = found.filter(|found| found.visible || !found.actions.is_empty());
        known.ok_or(DomainError::NotFound("no such message"))?;
        let inbox = self.of(origin.principal).await?;
        match self.ask(inbox, origin, act).await? {
            Outcome::Acted(action, _) => Ok(action),
            other => Err(ServiceError::internal(&format!("an action led to {other:?}"))),
        }
    }

    async fn ask(&self, inbox: ConversationId, origin: Origin, act: Personal) -> Result<Outcome, ServiceError> {
        // Asked twice, each of them is the same act: the second changes nothing.
        let command = Command::Personal { origin, act };
        Ok(ask_keyed(self.bus.as_ref(), inbox, command).await?)
    }

    /// The active actions of a user on messages that they may see, by type, then the newest message first. Those on what
    /// was DELETED, cleared or left behind are kept and not listed: who comes back finds them again.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn actions(
        &self,
        owner: Principal,
        action_type: Option<ActionType>,
        after: Option<ActionPosition>,
        limit: u32,
    ) -> Result<Page<Action, ActionPosition>, ServiceError> {
        let one_more = limit.saturating_add(1);
        let found = self.store.actions(owner, action_type, after, one_more).await?;
        Ok(Page::cut(found, limit, |last: &Action| ActionPosition {
            action_type: last.action_type,
            message_id: last.message_id,
        }))
    }

    /// Who has read the message at `seq`, and whom it has reached.
    ///
    /// # Errors
    /// `not_found` for a message that the viewer may not see, `not_a_member`; `forbidden` in a group with more than
    /// [`RECEIPTS_MEMBERS_MAX`] members, and between two of whom one has blocked the other.
    pub async fn receipts(&self, viewer: Principal, id: ConversationId, seq: Seq) -> Result<Receipts, ServiceError> {
        let (header, own) = member_access(self.store.as_ref(), id, viewer).await?;
        let below = Seq::new(seq.get().saturating_sub(1));
        let page = PageQuery {
            conversation_id: id,
            viewer,
            after: below,
            before: Some(seq.next()),
            oldest_first: true,
            limit: 1,
        };
        let found = self.store.page(page).await?.pop();
        let visible = found.filter(|_| seq >= visibility::first_visible(&header, &own));
        let message = visible.ok_or(DomainError::NotFound("no such message"))?.message;
        let limit = u32::try_from(RECEIPTS_MEMBERS_MAX).unwrap_or(u32::MAX);
        let members = self.store.receipts(id, limit.saturating_add(1)).await?;
        if members.len() > RECEIPTS_MEMBERS_MAX {
            let detail = format!("receipts are told in groups of at most {RECEIPTS_MEMBERS_MAX} members");
            return Err(ServiceError::new(Code::Forbidden, detail));
        }
        if header.kind == Kind::Direct
            && let Some(other) = members.iter().find(|member| member.principal != viewer)
            && self.store.ties(viewer, other.principal).await?.is_blocked()
        {
            return Err(policy::BLOCKED.into());
        }
        let mut receipts = Receipts::default();
        for member in members.iter().filter(|member| member.principal != message.sender) {
            receipts.enter(member, seq);
        }
        Ok(receipts)
    }
}

impl Receipts {
    fn enter(&mut self, member: &Receipt, seq: Seq) {
        let list = if member.last_read_seq >= seq {
            &mut self.read
        } else if member.delivered_seq >= seq {
            &mut self.delivered
        } else {
            &mut self.pending
        };
        list.push(member.principal);
    }
}
