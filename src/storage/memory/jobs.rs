//! Work in the background.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::MemoryStore;
use crate::domain::{
    Announcement, Audience, ClientRequestId, Digest, Job, JobId, JobState, Principal, PrincipalType, Timestamp,
};
use crate::storage::{JobHolder, JobProgress, JobStore, StoreResult};

/// The rows.
#[derive(Default)]
pub(super) struct JobTables(BTreeMap<JobId, JobRow>);

struct JobRow {
    announcement: Announcement,
    holder: String,
    lease_until: Timestamp,
}

impl JobRow {
    fn may_be_taken(&self, holder: &str, now: Timestamp) -> bool {
        let running = self.announcement.job.state == JobState::Running;
        running && (self.holder == holder || self.lease_until <= now)
    }
}

impl JobTables {
    fn held(&mut self, holder: JobHolder<'_>) -> Option<&mut JobRow> {
        let row = self.0.get_mut(&holder.job_id);
        row.filter(|row| row.holder == holder.holder && row.announcement.job.state == JobState::Running)
    }
}

#[async_trait]
impl JobStore for MemoryStore {
    async fn add_job(&self, announcement: &Announcement) -> StoreResult<bool> {
        self.call(|tables| {
            let jobs = &mut tables.jobs.0;
            let key = &announcement.client_request_id;
            if jobs.values().any(|row| row.announcement.client_request_id == *key) {
                return false;
            }
            let row = JobRow {
                announcement: announcement.clone(),
                holder: String::new(),
                lease_until: Timestamp::default(),
            };
            jobs.insert(announcement.job.job_id, row);
            true
        })
        .await
    }

    async fn job(&self, id: JobId) -> StoreResult<Option<Job>> {
        self.call(|tables| tables.jobs.0.get(&id).map(|row| row.announcement.job.clone()))
            .await
    }

    async fn job_by_key(&self, key: &ClientRequestId) -> StoreResult<Option<(Job, Digest)>> {
        self.call(|tables| {
            let mut all = tables.jobs.0.values().map(|row| &row.announcement);
            let found = all.find(|announcement| announcement.client_request_id == *key);
            found.map(|found| (found.job.clone(), found.fingerprint))
        })
        .await
    }

    async fn jobs(&self, before: Option<JobId>, limit: u32) -> StoreResult<Vec<Job>> {
        self.call(|tables| {
            let newest_first = tables.jobs.0.iter().rev();
            let older = newest_first.filter(|(id, _)| before.is_none_or(|before| **id < before));
            let jobs = older.map(|(_, row)| row.announcement.job.clone());
            jobs.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
        })
        .await
    }

    async fn jobs_to_do(&self, holder: &str, now: Timestamp, limit: u32) -> StoreResult<Vec<JobId>> {
        self.call(|tables| {
            let free = tables.jobs.0.iter().filter(|(_, row)| row.may_be_taken(holder, now));
            let ids = free.map(|(id, _)| *id);
            ids.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
        })
        .await
    }

    async fn take_job(
        &self,
        holder: JobHolder<'_>,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreResult<Option<Announcement>> {
        self.call(|tables| {
            let row = tables.jobs.0.get_mut(&holder.job_id);
            let row = row.filter(|row| row.may_be_taken(holder.holder, now))?;
            holder.holder.clone_into(&mut row.holder);
            row.lease_until = until;
            Some(row.announcement.clone())
        })
        .await
    }

    async fn advance_job(
        &self,
        holder: JobHolder<'_>,
        progress: JobProgress,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreResult<bool> {
        self.call(|tables| {
            let Some(row) = tables.jobs.held(holder) else {
                return false;
            };
            row.lease_until = until;
            row.announcement.after = progress.after;
            let job = &mut row.announcement.job;
            (job.done, job.missed, job.updated_at) = (progress.done, progress.missed, now);
            true
        })
        .await
    }

    async fn end_job(&self, holder: JobHolder<'_>, state: JobState, now: Timestamp) -> StoreResult<bool> {
        self.call(|tables| {
            let Some(row) = tables.jobs.held(holder) else {
                return false;
            };
            row.lease_until = Timestamp::default();
            let announcement = &mut row.announcement;
            announcement.audience = Audience::Named(Vec::new());
            announcement.text.clear();
            announcement.payload = None;
            let job = &mut announcement.job;
            if state == JobState::Done {
                job.total = job.done;
            }
            (job.state, job.updated_at) = (state, now);
            true
        })
        .await
    }

    async fn release_jobs(&self, holder: &str) -> StoreResult<()> {
        self.call(|tables| {
            for row in tables.jobs.0.values_mut().filter(|row| row.holder == holder) {
                row.lease_until = Timestamp::default();
            }
        })
        .await
    }

    async fn users_known(&self, at: Timestamp) -> StoreResult<u64> {
        let all = self.users_after(None, at, u32::MAX).await?;
        Ok(u64::try_from(all.len()).unwrap_or(u64::MAX))
    }

    async fn users_after(&self, after: Option<Principal>, at: Timestamp, limit: u32) -> StoreResult<Vec<Principal>> {
        self.call(|tables| {
            let known = tables.known_since.iter();
            let users = known.filter(|(who, since)| who.kind == PrincipalType::User && **since <= at);
            let later = users.map(|(who, _)| *who).filter(|who| Some(*who) > after);
            later.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
        })
        .await
    }
}
