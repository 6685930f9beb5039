//! What is known of users and agents, and who may see it.

use std::sync::Arc;

use super::error::ServiceError;
use super::principals::Principals;
use crate::clock::Clock;
use crate::domain::{Code, Principal, PrincipalStatus, Profile, ProfilePatch};
use crate::storage::{Store, Totals};

/// Ends every live session of a principal.
pub type Disconnect = dyn Fn(Principal) + Send + Sync;

/// Use cases around profiles.
pub struct Users {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    principals: Arc<Principals>,
    disconnect: Box<Disconnect>,
}

impl Users {
    /// `disconnect` is called for whoever is disabled.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        principals: Arc<Principals>,
        disconnect: Box<Disconnect>,
    ) -> Self {
        Self {
            store,
            clock,
            principals,
            disconnect,
        }
    }

    /// The profile of `who`, as `viewer` may see it: one's own, those of members of a common conversation and of
    /// contacts.
    ///
    /// # Errors
    /// `not_found` for everybody else, known or not.
    pub async fn see(&self, viewer: Principal, who: Principal) -> Result<Profile, ServiceError> {
        let is_known = viewer == who
            || self.store.share_conversation(viewer, who).await?
            || self.store.ties(viewer, who).await?.contact.is_some();
        if !is_known {
            return Err(unknown());
        }
        self.get(who).await
    }

    /// The profile of anybody: for the operator.
    ///
    /// # Errors
    /// `not_found`
    pub async fn get(&self, who: Principal) -> Result<Profile, ServiceError> {
        self.store.profile(who).await?.ok_or_else(unknown)
    }

    /// Changes a profile. Whoever is disabled by it is sent away at once from this process; a session on another
    /// process of the same database is not told, but every token is refused there within
    /// [`super::STATUS_KNOWN_FOR`].
    ///
    /// # Errors
    /// `already_exists` when another principal has the external id; `not_found` when there is no such principal.
    pub async fn update(&self, who: Principal, patch: &ProfilePatch) -> Result<Profile, ServiceError> {
        let former = self.get(who).await?;
        if !self.store.update_profile(who, patch, self.clock.now()).await? {
            let detail = "external_id: another principal has it; take it from there first";
            return Err(ServiceError::new(Code::AlreadyExists, detail));
        }
        let now = self.get(who).await?;
        self.principals.changed(&former, &now);
        if now.status == PrincipalStatus::Disabled {
            (self.disconnect)(who);
        }
        Ok(now)
    }

    /// As [`Users::update`], and the principal need not be known yet: for the operator.
    ///
    /// # Errors
    /// `already_exists`
    pub async fn put(&self, who: Principal, patch: &ProfilePatch) -> Result<Profile, ServiceError> {
        self.principals.introduce(who).await?;
        self.update(who, patch).await
    }

    /// How much the store holds: for the operator.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn totals(&self) -> Result<Totals, ServiceError> {
        Ok(self.store.totals().await?)
    }
}

fn unknown() -> ServiceError {
    ServiceError::new(Code::NotFound, "no such user or agent, or none that you may see")
}
