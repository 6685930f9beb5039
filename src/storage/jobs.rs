//! Work in the background, at rest.
//!
//! A job is one row. One process at a time works on it, the one that holds its lease; how far it has come is kept after each
//! page. A page that is done again (the process died, or was so slow that another took over) does no harm: each receiver's
//! notification has a key.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{Announcement, ClientRequestId, Digest, Job, JobId, JobState, Principal, Timestamp};

/// Who works on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobHolder<'a> {
    /// On which.
    pub job_id: JobId,
    /// The name of the process.
    pub holder: &'a str,
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Whoever comes up to here has been dealt with.
    pub after: Option<Principal>,
    /// So many have.
    pub done: u64,
    /// So many of them could not be told.
    pub missed: u64,
}

/// Jobs.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Keeps a new one; `false` = there is one with its `client_request_id`, and nothing was kept.
    async fn add_job(&self, announcement: &Announcement) -> StoreResult<bool>;
    /// One of them.
    async fn job(&self, id: JobId) -> StoreResult<Option<Job>>;
    /// The one with this key, and the fingerprint of what was asked for.
    async fn job_by_key(&self, key: &ClientRequestId) -> StoreResult<Option<(Job, Digest)>>;
    /// Jobs with `job_id < before`, the newest first, at most `limit`.
    async fn jobs(&self, before: Option<JobId>, limit: u32) -> StoreResult<Vec<Job>>;
    /// RUNNING ones that `holder` holds or nobody does, the oldest first, at most `limit`.
    async fn jobs_to_do(&self, holder: &str, now: Timestamp, limit: u32) -> StoreResult<Vec<JobId>>;
    /// Takes the lease of a RUNNING job, or goes on holding it, and reads the job; `None` = another one has it, or it ended.
    async fn take_job(
        &self,
        holder: JobHolder<'_>,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreResult<Option<Announcement>>;
    /// It has come so far, if `holder` still has the lease, which then goes on `until`; `false` = it has not.
    async fn advance_job(
        &self,
        holder: JobHolder<'_>,
        progress: JobProgress,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreResult<bool>;
    /// It is in its last state, if `holder` still has the lease, and its words and its audience are forgotten. Of one that is
    /// DONE there are as many receivers as have been dealt with. `false` = it has not.
    async fn end_job(&self, holder: JobHolder<'_>, state: JobState, now: Timestamp) -> StoreResult<bool>;
    /// Gives back every lease that `holder` has.
    async fn release_jobs(&self, holder: &str) -> StoreResult<()>;
    /// How many USERs were known at `at`.
    async fn users_known(&self, at: Timestamp) -> StoreResult<u64>;
    /// The USERs that were known at `at`, after one of them, in order, at most `limit`.
    async fn users_after(&self, after: Option<Principal>, at: Timestamp, limit: u32) -> StoreResult<Vec<Principal>>;
}
