//! Tells announcements, a few receivers at a time, in the background.
//!
//! A job goes through its audience in the order of principals, a page at a time, and keeps how far it has come after each:
//! a process that dies leaves a page that is told again, and whoever was told already is not told twice (the notification
//! has the job's key). Whatever stands in the way of a receiver stops the job there until it is out of the way; only one
//! whose INBOX can never be told is passed over, and counted.
//!
//! Several processes may look for jobs. One at a time works on each; where there are several, they are told in turns.

mod pace;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::Notify as Bell;
use tokio::time::{Instant, sleep};

use self::pace::Pace;
use super::error::ServiceError;
use super::notifications::Notifications;
use crate::clock::Clock;
use crate::domain::{Announcement, Audience, Code, CreationKey, Job, JobId, JobState, Notify, Principal, Timestamp};
use crate::storage::{JobHolder, JobProgress, Store, StoreError};

/// Receivers between two looks at how far a job is.
const PAGE: u32 = 100;
/// Jobs that are looked at in one turn.
const JOBS_PER_TURN: u32 = 100;
/// How long a process that died keeps a job from others. A page takes a fraction of it.
const LEASE: Duration = Duration::from_secs(15);
/// How often it is looked whether another process has made a job, or has left one behind.
const EVERY: Duration = Duration::from_secs(1);
/// How long nothing is tried after something stood in the way …
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … and the longest; each pause is twice the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often the log tells how far a job is.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Whoever tells announcements, of this process.
pub struct Announcing {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    notifications: Arc<Notifications>,
    /// Rings when there is a new job.
    added: Arc<Bell>,
    /// The name of this process.
    holder: String,
}

/// What came of a turn.
enum Turn {
    /// Somebody was told, or something ended.
    Worked,
    /// There is nothing to do.
    Idle,
    /// Something stands in the way.
    Hindered,
}

/// How far a page has come.
struct Told {
    progress: JobProgress,
    /// What stands in the way of the rest.
    hindrance: Option<ServiceError>,
}

impl Announcing {
    /// Tells in the name of `holder`, which no other process has.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        notifications: Arc<Notifications>,
        added: Arc<Bell>,
        holder: String,
    ) -> Self {
        Self {
            store,
            clock,
            notifications,
            added,
            holder,
        }
    }

    /// Tells until it is to stop; what is left then is told by another process, or after the next start.
    pub async fn watch(&self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let (mut log, mut pace) = (Log::default(), Pace::default());
        let mut hindered = Pause::default();
        loop {
            let began = Instant::now();
            let turn = tokio::select! {
                () = &mut stop => break,
                turn = self.turn(&mut log, &mut pace) => turn,
            };
            let (pause, is_idle) = match turn {
                Turn::Hindered => (hindered.longer(), false),
                Turn::Idle => (EVERY, true),
                Turn::Worked => {
                    hindered = Pause::default();
                    (pace.rest(began.elapsed()), false)
                }
            };
            tokio::select! {
                () = &mut stop => break,
                () = sleep(pause) => {}
                () = self.added.notified(), if is_idle => {}
            }
        }
        if let Err(error) = self.store.release_jobs(&self.holder).await {
            tracing::warn!(%error, "announcements of this process go on when its lease has run out");
        }
    }

    /// A page of each job.
    async fn turn(&self, log: &mut Log, pace: &mut Pace) -> Turn {
        let jobs = match self
            .store
            .jobs_to_do(&self.holder, self.clock.now(), JOBS_PER_TURN)
            .await
        {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::warn!(%error, "announcements have to wait");
                return Turn::Hindered;
            }
        };
        let mut turn = if jobs.is_empty() { Turn::Idle } else { Turn::Worked };
        for job_id in jobs {
            if let Err(error) = self.work_on(job_id, log, pace).await {
                tracing::warn!(%job_id, %error, "an announcement has to wait");
                turn = Turn::Hindered;
            }
        }
        turn
    }

    /// One page of one job.
    async fn work_on(&self, job_id: JobId, log: &mut Log, pace: &mut Pace) -> Result<(), ServiceError> {
        let holder = JobHolder {
            job_id,
            holder: &self.holder,
        };
        let (now, until) = self.lease();
        let announcement = match self.store.take_job(holder, now, until).await {
            Ok(Some(announcement)) => announcement,
            // Another process was faster.
            Ok(None) => return Ok(()),
            Err(StoreError::Inconsistent(why)) => {
                tracing::error!(%job_id, why, "an announcement can never be told");
                self.store.end_job(holder, JobState::Failed, now).await?;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let receivers = self.receivers(&announcement).await?;
        let told = self.tell(&announcement, &receivers, pace).await;
        let (now, until) = self.lease();
        if !self.store.advance_job(holder, told.progress, now, until).await? {
            tracing::warn!(%job_id, "another process goes on with an announcement that took this one too long");
            return Ok(());
        }
        if let Some(error) = told.hindrance {
            return Err(error);
        }
        let at_its_end = receivers.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        if at_its_end {
            self.store.end_job(holder, JobState::Done, now).await?;
            let JobProgress { done, missed, .. } = told.progress;
            tracing::info!(%job_id, done, missed, "an announcement was told");
        } else {
            log.tell(&announcement.job, &told.progress);
        }
        Ok(())
    }

    async fn receivers(&self, announcement: &Announcement) -> Result<Vec<Principal>, StoreError> {
        match &announcement.audience {
            Audience::All => {
                let known_at = announcement.job.created_at;
                self.store.users_after(announcement.after, known_at, PAGE).await
            }
            Audience::Named(named) => {
                let limit = usize::try_from(PAGE).unwrap_or(usize::MAX);
                Ok(Audience::after(named, announcement.after, limit))
            }
        }
    }

    /// Tells these, or those in front of the first who cannot be told now.
    async fn tell(&self, announcement: &Announcement, receivers: &[Principal], pace: &mut Pace) -> Told {
        let telling = receivers.iter().map(|to| self.tell_one(announcement.notify(*to)));
        let mut answers = stream::iter(telling).buffered(pace.at_once());
        let mut took = Vec::with_capacity(receivers.len());
        let mut told = Told {
            progress: JobProgress {
                after: announcement.after,
                done: announcement.job.done,
                missed: announcement.job.missed,
            },
            hindrance: None,
        };
        for receiver in receivers {
            match answers.next().await {
                Some(Ok((was_told, telling_took))) => {
                    took.push(telling_took);
                    told.progress.after = Some(*receiver);
                    told.progress.done += 1;
                    told.progress.missed += u64::from(!was_told);
                }
                Some(Err(error)) => {
                    told.hindrance = Some(error);
                    break;
                }
                None => break,
            }
        }
        pace.learn(took);
        told
    }

    /// How long it took; `false` = it never can be told.
    async fn tell_one(&self, notify: Notify) -> Result<(bool, Duration), ServiceError> {
        let (to, began) = (notify.to, Instant::now());
        let told = match self.notifications.notify(notify).await {
            Ok(_) => true,
            Err(error) if error.code.retryable() && !self.is_damaged(to, &error).await? => return Err(error),
            Err(error) => {
                tracing::error!(receiver = %to, %error, "an announcement cannot be told to a receiver, who is passed over");
                false
            }
        };
        Ok((told, began.elapsed()))
    }

    /// A writer that cannot load its INBOX says no more than that it is unavailable; the store says why.
    async fn is_damaged(&self, to: Principal, error: &ServiceError) -> Result<bool, StoreError> {
        if error.code != Code::Unavailable {
            return Ok(false);
        }
        let inbox = self.store.by_creation_key(&CreationKey::inbox(to)).await?;
        let Some(inbox) = inbox else { return Ok(false) };
        Ok(matches!(self.store.load(inbox).await, Err(StoreError::Inconsistent(_))))
    }

    /// Now, and until when a job is ours.
    fn lease(&self) -> (Timestamp, Timestamp) {
        let now = self.clock.now();
        (now, now.plus(LEASE))
    }
}

/// How long nothing is tried.
#[derive(Default)]
struct Pause(Duration);

impl Pause {
    fn longer(&mut self) -> Duration {
        self.0 = (self.0 * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.0
    }
}

/// How far jobs are, a line in a while.
#[derive(Default)]
struct Log {
    told_at: Option<Instant>,
}

impl Log {
    fn tell(&mut self, job: &Job, progress: &JobProgress) {
        if self.told_at.is_some_and(|at| at.elapsed() < LOGGED_EVERY) {
            return;
        }
        self.told_at = Some(Instant::now());
        let JobProgress { done, missed, .. } = *progress;
        tracing::info!(job_id = %job.job_id, done, total = job.total, missed, "an announcement is on its way");
    }
}

#[cfg(test)]
mod tests;
