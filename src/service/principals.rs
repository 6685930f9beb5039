//! Who somebody is: from a token or a name in a request to a principal with a row.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use super::error::ServiceError;
use crate::clock::Clock;
use crate::domain::{Code, ExternalId, Name, Principal, PrincipalStatus, PrincipalType, Profile, Subject};
use crate::ids::Ids;
use crate::storage::PrincipalStore;

/// How many principals are remembered as known, and as many external ids.
pub const PRINCIPALS_CACHED_MAX: u64 = 100_000;

/// For how long a process goes on with what it knows of a principal's status and external id. A change by this process
/// acts at once; one by another process on the same database acts here after at most so long. Within it, a principal
/// costs one small read, however many requests it makes.
pub const STATUS_KNOWN_FOR: Duration = Duration::from_secs(10);

/// Finds principals, and makes those that are new unless `auth.auto_provision` is off.
pub struct Principals {
    store: Arc<dyn PrincipalStore>,
    ids: Arc<Ids>,
    clock: Arc<dyn Clock>,
    auto_provision: bool,
    known: Cache<Principal, ()>,
    external: Cache<(PrincipalType, ExternalId), Principal>,
    status: Cache<Principal, PrincipalStatus>,
}

impl Principals {
    /// `auto_provision`: make a row for whoever is seen for the first time.
    #[must_use]
    pub fn new(store: Arc<dyn PrincipalStore>, ids: Arc<Ids>, clock: Arc<dyn Clock>, auto_provision: bool) -> Self {
        Self {
            store,
            ids,
            clock,
            auto_provision,
            known: Cache::new(PRINCIPALS_CACHED_MAX),
            external: short_lived(),
            status: short_lived(),
        }
    }

    /// The principal of a verified token.
    ///
    /// # Errors
    /// `unauthenticated` when there is none and none is to be made, or when it is disabled.
    pub async fn resolve(&self, subject: &Subject) -> Result<Principal, ServiceError> {
        let found = self.find(std::slice::from_ref(subject)).await?;
        let principal = found.into_iter().next().flatten();
        let principal =
            principal.ok_or_else(|| ServiceError::new(Code::Unauthenticated, "this principal is not known here"))?;
        self.admit(principal).await?;
        Ok(principal)
    }

    /// May this principal use the server? A session asks once more when it has its place, so that one that was being
    /// made while its principal was disabled does not slip through.
    ///
    /// # Errors
    /// `unauthenticated` when it is disabled.
    pub async fn admit(&self, principal: Principal) -> Result<(), ServiceError> {
        let status = if let Some(status) = self.status.get(&principal) {
            status
        } else {
            let read = self.store.profile(principal).await?;
            let read = read.map_or(PrincipalStatus::Active, |profile| profile.status);
            // What was set in the meantime is newer than what was read before.
            self.status.entry(principal).or_insert(read).into_value()
        };
        match status {
            PrincipalStatus::Active => Ok(()),
            PrincipalStatus::Disabled => Err(ServiceError::new(
                Code::Unauthenticated,
                "this principal is disabled; ask the operator",
            )),
        }
    }

    /// Makes a row for a principal whom the operator names, whatever `auth.auto_provision` says.
    pub(super) async fn introduce(&self, principal: Principal) -> Result<(), ServiceError> {
        if !self.known.contains_key(&principal) {
            self.store.provision(&[principal], self.clock.now()).await?;
            self.known.insert(principal, ());
        }
        Ok(())
    }

    /// A profile has changed: what was remembered of it is not true any more.
    pub(super) fn changed(&self, former: &Profile, now: &Profile) {
        let kind = now.principal.kind;
        for external_id in [&former.external_id, &now.external_id].into_iter().flatten() {
            self.external.invalidate(&(kind, external_id.clone()));
        }
        self.status.insert(now.principal, now.status);
    }

    /// The principals that a request names, each once, in the order in which they are named first.
    ///
    /// # Errors
    /// `not_found` when one is not known and none is to be made.
    pub async fn resolve_named(&self, subjects: &[Subject]) -> Result<Vec<Principal>, ServiceError> {
        let mut seen = HashSet::with_capacity(subjects.len());
        let mut principals = Vec::with_capacity(subjects.len());
        for found in self.find(subjects).await? {
            let principal = found
                .ok_or_else(|| ServiceError::new(Code::NotFound, "a principal that is named here is not known"))?;
            if seen.insert(principal) {
                principals.push(principal);
            }
        }
        Ok(principals)
    }

    /// As [`Principals::resolve_named`], for one.
    ///
    /// # Errors
    /// `not_found`
    pub async fn resolve_one(&self, subject: &Subject) -> Result<Principal, ServiceError> {
        let found = self.resolve_named(std::slice::from_ref(subject)).await?;
        let one = found.into_iter().next();
        one.ok_or_else(|| ServiceError::internal(&"a principal that is known was not found"))
    }

    async fn find(&self, subjects: &[Subject]) -> Result<Vec<Option<Principal>>, ServiceError> {
        let mut found = Vec::with_capacity(subjects.len());
        for subject in subjects {
            found.push(match &subject.name {
                Name::Id(id) => Some(principal(subject.kind, *id)),
                Name::External(external_id) => self.by_external_id(subject.kind, external_id).await?,
            });
        }
        let unseen = found
            .iter()
            .flatten()
            .copied()
            .filter(|one| !self.known.contains_key(one));
        // In order and each once: requests that make the same rows at the same time must not wait for each other in a ring.
        let new: Vec<Principal> = unseen.collect::<BTreeSet<_>>().into_iter().collect();
        if new.is_empty() {
            return Ok(found);
        }
        if self.auto_provision {
            self.store.provision(&new, self.clock.now()).await?;
            for one in &new {
                self.known.insert(*one, ());
            }
            return Ok(found);
        }
        for one in self.store.known(&new).await? {
            self.known.insert(one, ());
        }
        for one in &mut found {
            *one = one.filter(|one| self.known.contains_key(one));
        }
        Ok(found)
    }

    async fn by_external_id(
        &self,
        kind: PrincipalType,
        external_id: &ExternalId,
    ) -> Result<Option<Principal>, ServiceError> {
        let holder = self.holder_of(kind, external_id).await?;
        if holder.is_some() || !self.auto_provision {
            return Ok(holder);
        }
        let new = principal(kind, self.ids.next()?);
        // Many may ask at once: the store says who has the name in the end.
        let holder = self.store.adopt_external_id(new, external_id, self.clock.now()).await?;
        self.remember(kind, external_id, holder);
        Ok(Some(holder))
    }

    async fn holder_of(
        &self,
        kind: PrincipalType,
        external_id: &ExternalId,
    ) -> Result<Option<Principal>, ServiceError> {
        if let Some(holder) = self.external.get(&(kind, external_id.clone())) {
            return Ok(Some(holder));
        }
        let holder = self.store.by_external_id(kind, external_id).await?;
        if let Some(holder) = holder {
            self.remember(kind, external_id, holder);
        }
        Ok(holder)
    }

    fn remember(&self, kind: PrincipalType, external_id: &ExternalId, holder: Principal) {
        self.external.insert((kind, external_id.clone()), holder);
        self.known.insert(holder, ());
    }
}

fn short_lived<K: Hash + Eq + Send + Sync + 'static, V: Clone + Send + Sync + 'static>() -> Cache<K, V> {
    let bounded = Cache::builder().max_capacity(PRINCIPALS_CACHED_MAX);
    bounded.time_to_live(STATUS_KNOWN_FOR).build()
}

fn principal(kind: PrincipalType, id: i64) -> Principal {
    Principal { kind, id }
}
