//! Work in the background. Every step is one statement.

use std::fmt::Write as _;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{
    Announcement, Audience, ClientRequestId, Content, Digest, Job, JobId, JobState, Principal, PrincipalType, Timestamp,
};
use crate::storage::{JobHolder, JobProgress, JobStore, StoreError, StoreResult};

/// What stands for all users.
const ALL: &str = "ALL";

/// The columns that [`Columns::job`] reads.
macro_rules! job_columns {
    () => {
        "job_id, state, done, total, missed, created_at, updated_at"
    };
}

fn bad(what: &str) -> StoreError {
    StoreError::Inconsistent(format!("the {what} of a job cannot be read"))
}

/// `ALL`, or `1:1001,2:7`
fn audience_text(audience: &Audience) -> String {
    let Audience::Named(named) = audience else {
        return ALL.to_owned();
    };
    let mut text = String::new();
    for one in named {
        let comma = if text.is_empty() { "" } else { "," };
        write!(text, "{comma}{}:{}", one.kind.code(), one.id).ok(); // writing to a String cannot fail
    }
    text
}

/// The inverse of [`audience_text`].
fn audience(text: &str) -> Option<Audience> {
    if text == ALL {
        return Some(Audience::All);
    }
    let principal = |word: &str| {
        let (kind, id) = word.split_once(':')?;
        let kind = PrincipalType::from_code(kind.parse().ok()?)?;
        Principal::parse(kind, id)
    };
    let named: Option<Vec<Principal>> = text.split(',').map(principal).collect();
    named.map(Audience::Named)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// 0 = nobody yet.
fn position(after: Option<Principal>) -> (i16, i64) {
    after.map_or((0, 0), |after| (after.kind.code(), after.id))
}

sql_impl! {
impl Columns<'r> {
    fn job_id(&mut self) -> StoreResult<JobId> {
        JobId::new(self.big()?).ok_or_else(|| bad("id"))
    }

    fn job(&mut self) -> StoreResult<Job> {
        Ok(Job {
            job_id: self.job_id()?,
            state: JobState::from_code(self.small()?).ok_or_else(|| bad("state"))?,
            done: self.count()?,
            total: self.count()?,
            missed: self.count()?,
            created_at: self.time()?,
            updated_at: self.time()?,
        })
    }

    fn announcement(&mut self) -> StoreResult<Announcement> {
        let job = self.job()?;
        let client_request_id = ClientRequestId::parse(&self.key()?).map_err(|_| bad("key"))?;
        let fingerprint = self.digest()?;
        let audience = audience(&self.text()?).ok_or_else(|| bad("audience"))?;
        let (text, payload) = (self.text()?, self.maybe_text()?);
        let after = match self.small()? {
            0 => None,
            code => {
                let kind = PrincipalType::from_code(code).ok_or_else(|| bad("position"))?;
                Some(Principal { kind, id: self.big()? })
            }
        };
        Ok(Announcement {
            job,
            audience,
            text,
            payload: payload.map(|payload| Content::trusted(&payload)),
            client_request_id,
            fingerprint,
            after,
        })
    }
}
}

sql_impl! {
impl JobStore for SqlStore {
    async fn add_job(&self, announcement: &Announcement) -> StoreResult<bool> {
        let job = &announcement.job;
        let query = sqlx::query(sql!(
            "INSERT INTO im_job (job_id, state, request_key, fingerprint, audience, body, payload, done, total, missed,
             after_type, after_id, holder, lease_until, created_at, updated_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)"
        ));
        let audience = audience_text(&announcement.audience);
        let (after_type, after_id) = position(announcement.after);
        let query = query
            .bind(job.job_id.get())
            .bind(job.state.code())
            .bind(announcement.client_request_id.as_str().as_bytes())
            .bind(announcement.fingerprint.as_bytes().as_slice())
            .bind(audience.as_str())
            .bind(announcement.text.as_str())
            .bind(announcement.payload.as_ref().map(Content::as_str));
        let query = query
            .bind(signed(job.done))
            .bind(signed(job.total))
            .bind(signed(job.missed))
            .bind(after_type)
            .bind(after_id)
            .bind(b"".as_slice())
            .bind(job.created_at.millis())
            .bind(job.updated_at.millis());
        let _turn = self.gate.pass().await;
        let inserted = query.execute(&self.pool);
        bounded(async {
            match inserted.await {
                Err(sqlx::Error::Database(refusal)) if refusal.is_unique_violation() => Ok(false),
                other => other.map(|_| true),
            }
        })
        .await
    }

    async fn job(&self, id: JobId) -> StoreResult<Option<Job>> {
        let query = sqlx::query(sql!(concat!("SELECT ", job_columns!(), " FROM im_job WHERE job_id = ?")));
        let row = bounded(query.bind(id.get()).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).job()).transpose()
    }

    async fn job_by_key(&self, key: &ClientRequestId) -> StoreResult<Option<(Job, Digest)>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", job_columns!(), ", fingerprint FROM im_job WHERE request_key = ?"
        )));
        let row = bounded(query.bind(key.as_str().as_bytes()).fetch_optional(&self.pool)).await?;
        let read = |row| {
            let mut columns = Columns::<DB>::new(row);
            Ok((columns.job()?, columns.digest()?))
        };
        row.as_ref().map(read).transpose()
    }

    async fn jobs(&self, before: Option<JobId>, limit: u32) -> StoreResult<Vec<Job>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", job_columns!(), " FROM im_job WHERE job_id < ? ORDER BY job_id DESC LIMIT ?"
        )));
        let query = query.bind(before.map_or(i64::MAX, JobId::get)).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).job()).collect()
    }

    async fn jobs_to_do(&self, holder: &str, now: Timestamp, limit: u32) -> StoreResult<Vec<JobId>> {
        let query = sqlx::query(sql!(
            "SELECT job_id FROM im_job WHERE state = 1 AND (holder = ? OR lease_until <= ?) ORDER BY job_id LIMIT ?"
        ));
        let query = query.bind(holder.as_bytes()).bind(now.millis()).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).job_id()).collect()
    }

    async fn take_job(
        &self,
        holder: JobHolder<'_>,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreResult<Option<Announcement>> {
        let query = sqlx::query(sql!(
            "UPDATE im_job SET holder = ?, lease_until = ?
             WHERE job_id = ? AND state = 1 AND (holder = ? OR lease_until <= ?)"
        ));
        let name = holder.holder.as_bytes();
        let query = query.bind(name).bind(until.millis()).bind(holder.job_id.get()).bind(name).bind(now.millis());
        {
            let _turn = self.gate.pass().await;
            if DB::affected(&bounded(query.execute(&self.pool)).await?) != 1 {
                return Ok(None);
            }
        }
        // Read when it is ours: nobody moves it any more.
        let query = sqlx::query(sql!(concat!(
            "SELECT ", job_columns!(), ", request_key, fingerprint, audience, body, payload, after_type, after_id
             FROM im_job WHERE job_id = ? AND holder = ? AND state = 1"
        )));
        let row = bounded(query.bind(holder.job_id.get()).bind(name).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).announcement()).transpose()
    }

    async fn advance_job(
        &self,
        holder: JobHolder<'_>,
        progress: JobProgress,
        now: Timestamp,
        until: Timestamp,
    ) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "UPDATE im_job SET after_type = ?, after_id = ?, done = ?, missed = ?, updated_at = ?, lease_until = ?
             WHERE job_id = ? AND holder = ? AND state = 1"
        ));
        let (after_type, after_id) = position(progress.after);
        let query = query
            .bind(after_type)
            .bind(after_id)
            .bind(signed(progress.done))
            .bind(signed(progress.missed))
            .bind(now.millis())
            .bind(until.millis())
            .bind(holder.job_id.get())
            .bind(holder.holder.as_bytes());
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    async fn end_job(&self, holder: JobHolder<'_>, state: JobState, now: Timestamp) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "UPDATE im_job SET state = ?, total = CASE WHEN ? = 2 THEN done ELSE total END, audience = '', body = '',
             payload = NULL, lease_until = 0, updated_at = ? WHERE job_id = ? AND holder = ? AND state = 1"
        ));
        let query = query.bind(state.code()).bind(state.code()).bind(now.millis());
        let query = query.bind(holder.job_id.get()).bind(holder.holder.as_bytes());
        let _turn = self.gate.pass().await;
        Ok(DB::affected(&bounded(query.execute(&self.pool)).await?) == 1)
    }

    async fn release_jobs(&self, holder: &str) -> StoreResult<()> {
        let query = sqlx::query(sql!("UPDATE im_job SET lease_until = 0 WHERE state = 1 AND holder = ?"));
        let _turn = self.gate.pass().await;
        bounded(query.bind(holder.as_bytes()).execute(&self.pool)).await.map(drop)
    }

    async fn users_known(&self, at: Timestamp) -> StoreResult<u64> {
        let query = sqlx::query(sql!(
            "SELECT COUNT(*) FROM im_principal WHERE principal_type = ? AND created_at <= ?"
        ));
        let query = query.bind(PrincipalType::User.code()).bind(at.millis());
        let row = bounded(query.fetch_one(&self.pool)).await?;
        Columns::<DB>::new(&row).count()
    }

    async fn users_after(&self, after: Option<Principal>, at: Timestamp, limit: u32) -> StoreResult<Vec<Principal>> {
        let query = sqlx::query(sql!(
            "SELECT principal_type, principal_id FROM im_principal
             WHERE principal_type = ? AND principal_id > ? AND created_at <= ? ORDER BY principal_id LIMIT ?"
        ));
        let query = query.bind(PrincipalType::User.code()).bind(after.map_or(0, |after| after.id));
        let query = query.bind(at.millis()).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).principal()).collect()
    }
}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_comes_back_as_it_was() {
        let named = Audience::named([Principal::user(i64::MAX), Principal::user(1), Principal::agent(7)]);
        for whom in [Audience::All, named] {
            assert_eq!(audience(&audience_text(&whom)), Some(whom));
        }
        for bad in ["", "all", "1", "1:0", "4:1", "1:1,", "1:x"] {
            assert_eq!(audience(bad), None, "{bad}");
        }
    }
}
