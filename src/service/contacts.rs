//! Contacts and blocks. A user's INBOX decides both; the writer of the DIRECT of two is told of a block between them.

use std::sync::Arc;

use super::ask::ask_keyed;
use super::conversations::Page;
use super::error::ServiceError;
use super::inbox::Inbox;
use super::notifications::Notifications;
use super::principals::Principals;
use crate::domain::{
    Block, Command, Conclusion, Contact, CreationKey, InvalidField, Name, Origin, Personal, Principal, Subject,
};
use crate::routing::Bus;
use crate::storage::Store;

/// Use cases around contacts and blocks.
pub struct Contacts {
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    principals: Arc<Principals>,
    inbox: Arc<Inbox>,
    notifications: Arc<Notifications>,
}

impl Contacts {
    /// Reads from `store`, writes through `bus`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        bus: Arc<dyn Bus>,
        principals: Arc<Principals>,
        inbox: Arc<Inbox>,
        notifications: Arc<Notifications>,
    ) -> Self {
        Self {
            store,
            bus,
            principals,
            inbox,
            notifications,
        }
    }

    /// The contacts of a user, by type and id.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn list(
        &self,
        owner: Principal,
        after: Option<Principal>,
        limit: u32,
    ) -> Result<Page<Contact, Principal>, ServiceError> {
        let found = self.store.contacts(owner, after, limit.saturating_add(1)).await?;
        Ok(Page::cut(found, limit, |last: &Contact| last.principal))
    }

    /// Ends that two are contacts, for both; who is none is none afterwards. Their DIRECT stays.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn end(&self, origin: Origin, other: Principal) -> Result<(), ServiceError> {
        // Before anything is made: who names a stranger leaves no trace.
        if self.store.ties(origin.principal, other).await?.contact.is_none() {
            return Ok(());
        }
        self.act(origin, Personal::EndContact { principal: other }).await?;
        Ok(())
    }

    /// Whom a user has blocked, by type and id.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn blocks(
        &self,
        owner: Principal,
        after: Option<Principal>,
        limit: u32,
    ) -> Result<Page<Block, Principal>, ServiceError> {
        let found = self.store.blocks(owner, after, limit.saturating_add(1)).await?;
        Ok(Page::cut(found, limit, |last: &Block| last.principal))
    }

    /// Blocks somebody. When this returns, nothing that they send into the DIRECT of the two gets a number; their friend
    /// request and their invitations are DECLINED, those of the blocker EXPIRED, and they are contacts no longer. Blocking
    /// again goes on where a first time was cut off.
    ///
    /// # Errors
    /// `invalid_request` when it is oneself; `not_found` when the principal is not known and none is to be made.
    pub async fn block(&self, origin: Origin, other: Principal) -> Result<(), ServiceError> {
        let owner = origin.principal;
        if owner == other {
            return Err(InvalidField::new("id", "nobody blocks themselves").into());
        }
        let name = Name::Id(other.id);
        self.principals.resolve_one(&Subject { kind: other.kind, name }).await?;
        let (principal, blocked) = (other, true);
        let block = Personal::Block { principal, blocked };
        let mut left = self.act(origin.clone(), block.clone()).await?;
        self.tell_direct(owner, other).await?;
        // A commit ends so many of the pending ones; from here on none can be accepted, and no new ones come.
        while left {
            left = self.act(origin.clone(), block.clone()).await?;
        }
        // They may have accepted in this moment what the blocker had asked them.
        if let Some(theirs) = self.store.by_creation_key(&CreationKey::inbox(other)).await? {
            let conclusion = Conclusion::Withdrawn { from: owner };
            while self.notifications.conclude(theirs, conclusion.clone()).await? {}
        }
        Ok(())
    }

    /// Ends a block; who is not blocked is not blocked afterwards.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn unblock(&self, origin: Origin, other: Principal) -> Result<(), ServiceError> {
        let owner = origin.principal;
        if self.store.ties(owner, other).await?.is_blocked_by(owner) {
            let (principal, blocked) = (other, false);
            self.act(origin, Personal::Block { principal, blocked }).await?;
        }
        self.tell_direct(owner, other).await
    }

    /// `true` = something has changed.
    async fn act(&self, origin: Origin, act: Personal) -> Result<bool, ServiceError> {
        let inbox = self.inbox.of(origin.principal).await?;
        // Asked twice, each of them is the same act: the second changes nothing.
        let outcome = ask_keyed(self.bus.as_ref(), inbox, Command::Personal { origin, act }).await?;
        Ok(!outcome.is_unchanged())
    }

    /// The writer of the DIRECT of the two, if there is one, looks at their blocks. One that is made from here on finds them.
    async fn tell_direct(&self, one: Principal, other: Principal) -> Result<(), ServiceError> {
        if let Some(direct) = self.store.by_creation_key(&CreationKey::direct(one, other)).await? {
            ask_keyed(self.bus.as_ref(), direct, Command::HeedBlocks).await?;
        }
        Ok(())
    }
}
