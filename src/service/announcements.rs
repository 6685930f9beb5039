//! What the operator says to many users at once. It is taken at once, and told in the background ([`super::Announcing`]).

use std::sync::Arc;

use tokio::sync::Notify as Bell;

use super::conversations::Page;
use super::error::ServiceError;
use super::principals::Principals;
use crate::clock::Clock;
use crate::domain::announcement::fingerprint;
use crate::domain::{
    Announcement, Audience, Code, Digest, DomainError, Job, JobId, JobState, NewAnnouncement, Timestamp,
};
use crate::ids::Ids;
use crate::storage::Store;

/// Use cases around announcements and the jobs that tell them.
pub struct Announcements {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<Ids>,
    principals: Arc<Principals>,
    added: Arc<Bell>,
}

impl Announcements {
    /// Keeps jobs in `store`, and rings `added` when there is a new one.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<Ids>,
        principals: Arc<Principals>,
        added: Arc<Bell>,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            principals,
            added,
        }
    }

    /// Makes the job that tells it, or finds the one that does already; `true` = it is new. All users are those whom the
    /// store knows now: who comes later is not told.
    ///
    /// # Errors
    /// `idempotency_key_reused` when the key was used for something else; `not_found` when a principal is not known and none
    /// is to be made.
    pub async fn announce(&self, new: NewAnnouncement) -> Result<(Job, bool), ServiceError> {
        let audience = match &new.audience {
            None => Audience::All,
            Some(named) => Audience::named(self.principals.resolve_named(named).await?),
        };
        let fingerprint = fingerprint(&audience, &new.text, new.payload.as_ref());
        if let Some(found) = self.store.job_by_key(&new.client_request_id).await? {
            return the_same(found, fingerprint);
        }
        let now = self.clock.now();
        let announcement = Announcement {
            job: self.job_for(&audience, now).await?,
            audience,
            text: new.text,
            payload: new.payload,
            client_request_id: new.client_request_id,
            fingerprint,
            after: None,
        };
        if self.store.add_job(&announcement).await? {
            let (job, receivers) = (&announcement.job, announcement.job.total);
            tracing::info!(job_id = %job.job_id, receivers, "an announcement was made");
            self.added.notify_one();
            return Ok((announcement.job, true));
        }
        // The same was asked for twice at once, and the other was first.
        let found = self.store.job_by_key(&announcement.client_request_id).await?;
        let found = found.ok_or_else(|| ServiceError::internal(&"a job has a key and cannot be found by it"))?;
        the_same(found, fingerprint)
    }

    async fn job_for(&self, audience: &Audience, now: Timestamp) -> Result<Job, ServiceError> {
        let job_id = JobId::new(self.ids.next()?);
        let total = match audience {
            Audience::All => self.store.users_known(now).await?,
            Audience::Named(named) => u64::try_from(named.len()).unwrap_or(u64::MAX),
        };
        Ok(Job {
            job_id: job_id.ok_or_else(|| ServiceError::internal(&"an id is not above 0"))?,
            state: JobState::Running,
            done: 0,
            total,
            missed: 0,
            created_at: now,
            updated_at: now,
        })
    }

    /// How far a job has come.
    ///
    /// # Errors
    /// `not_found`
    pub async fn job(&self, id: JobId) -> Result<Job, ServiceError> {
        let found = self.store.job(id).await?;
        Ok(found.ok_or(DomainError::NotFound("no such job"))?)
    }

    /// All jobs, the newest first.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn jobs(&self, before: Option<JobId>, limit: u32) -> Result<Page<Job, JobId>, ServiceError> {
        let found = self.store.jobs(before, limit.saturating_add(1)).await?;
        Ok(Page::cut(found, limit, |last: &Job| last.job_id))
    }
}

fn the_same((job, first): (Job, Digest), asked: Digest) -> Result<(Job, bool), ServiceError> {
    if first == asked {
        return Ok((job, false));
    }
    let detail = "this client_request_id was used for another announcement";
    Err(ServiceError::new(Code::IdempotencyKeyReused, detail))
}
