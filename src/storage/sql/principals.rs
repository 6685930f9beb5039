//! Users and agents.

use std::collections::{BTreeMap, HashSet};

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{ExternalId, Principal, PrincipalType, Profile, ProfilePatch, Timestamp};
use crate::storage::{PrincipalStore, StoreError, StoreResult};

/// Rows in one statement.
const PRINCIPALS_PER_STATEMENT: usize = 1_000;

/// Passes over rows that are there.
const KEEP: (&str, &str) = (
    " ON CONFLICT DO NOTHING",
    " ON DUPLICATE KEY UPDATE principal_id = im_principal.principal_id",
);

/// Principals of one kind, few enough for one statement.
pub(super) struct Part {
    kind: PrincipalType,
    ids: Vec<i64>,
}

/// Principals, as [`among`] takes them.
pub(super) fn in_parts(principals: &[Principal]) -> Vec<Part> {
    let mut ids: BTreeMap<PrincipalType, Vec<i64>> = BTreeMap::new();
    for principal in principals {
        ids.entry(principal.kind).or_default().push(principal.id);
    }
    let parts = ids.iter().flat_map(|(kind, ids)| {
        let part = |ids: &[i64]| Part {
            kind: *kind,
            ids: ids.to_vec(),
        };
        ids.chunks(PRINCIPALS_PER_STATEMENT).map(part)
    });
    parts.collect()
}

sql_impl! {
/// A statement that goes on with the condition that a row is about one of these.
fn among(text: &'static str, part: &Part) -> QueryBuilder<DB> {
    let mut builder = QueryBuilder::<DB>::new(text);
    builder.push("principal_type = ").push_bind(part.kind.code()).push(" AND principal_id IN (");
    let mut list = builder.separated(", ");
    for id in &part.ids {
        list.push_bind(*id);
    }
    builder.push(")");
    builder
}
}

sql_impl! {
impl SqlStore {
    async fn owner_of(&self, kind: PrincipalType, external_id: &ExternalId) -> StoreResult<Option<Principal>> {
        let query =
            sqlx::query(sql!("SELECT principal_id FROM im_principal WHERE principal_type = ? AND external_id = ?"));
        let query = query.bind(kind.code()).bind(external_id.as_str().as_bytes());
        let row = bounded(query.fetch_optional(&self.pool)).await?;
        row.map(|row| Ok(Principal { kind, id: Columns::<DB>::new(&row).big()? })).transpose()
    }

    /// Inserts rows that are not there; one statement, in the order of the ids so that two cannot wait for each other.
    async fn insert_principals(
        &self,
        principals: &[Principal],
        external_id: Option<&ExternalId>,
        now: Timestamp,
    ) -> StoreResult<()> {
        let mut builder = QueryBuilder::<DB>::new(
            "INSERT INTO im_principal (principal_type, principal_id, external_id, status, created_at, updated_at) ",
        );
        builder.push_values(principals, |mut row, principal| {
            row.push_bind(principal.kind.code())
                .push_bind(principal.id)
                .push_bind(external_id.map(|id| id.as_str().as_bytes()))
                .push_bind(1_i16)
                .push_bind(now.millis())
                .push_bind(now.millis());
        });
        builder.push(DB::upsert(KEEP.0, KEEP.1));
        let _turn = self.gate.pass().await;
        bounded(builder.build().persistent(false).execute(&self.pool)).await.map(drop)
    }
}
}

sql_impl! {
impl PrincipalStore for SqlStore {
    async fn provision(&self, principals: &[Principal], now: Timestamp) -> StoreResult<()> {
        let known: HashSet<Principal> = self.known(principals).await?.into_iter().collect();
        let mut new: Vec<Principal> = principals.iter().filter(|one| !known.contains(one)).copied().collect();
        new.sort_unstable();
        new.dedup();
        for part in new.chunks(PRINCIPALS_PER_STATEMENT) {
            self.insert_principals(part, None, now).await?;
        }
        Ok(())
    }

    async fn known(&self, principals: &[Principal]) -> StoreResult<Vec<Principal>> {
        let mut known = Vec::new();
        for part in in_parts(principals) {
            let mut builder = among::<DB>("SELECT principal_type, principal_id FROM im_principal WHERE ", &part);
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                known.push(Columns::<DB>::new(row).principal()?);
            }
        }
        Ok(known)
    }

    async fn by_external_id(&self, kind: PrincipalType, external_id: &ExternalId) -> StoreResult<Option<Principal>> {
        self.owner_of(kind, external_id).await
    }

    async fn adopt_external_id(
        &self,
        principal: Principal,
        external_id: &ExternalId,
        now: Timestamp,
    ) -> StoreResult<Principal> {
        // Each step is one statement; whoever comes first at the unique key has it, and all read the same answer.
        self.insert_principals(&[principal], Some(external_id), now).await?;
        if let Some(owner) = self.owner_of(principal.kind, external_id).await? {
            return Ok(owner);
        }
        // The principal had a row before, without an external id.
        let query = sqlx::query(sql!(
            "UPDATE im_principal SET external_id = ?, updated_at = ?
             WHERE principal_type = ? AND principal_id = ? AND external_id IS NULL"
        ));
        let query = query.bind(external_id.as_str().as_bytes()).bind(now.millis());
        let query = query.bind(principal.kind.code()).bind(principal.id);
        let turn = self.gate.pass().await;
        let updated = bounded(query.execute(&self.pool)).await;
        drop(turn);
        let owner = self.owner_of(principal.kind, external_id).await?;
        match (owner, updated) {
            (Some(owner), _) => Ok(owner),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Err(StoreError::Inconsistent(format!("{principal} has another external_id"))),
        }
    }

    async fn profile(&self, principal: Principal) -> StoreResult<Option<Profile>> {
        let query = sqlx::query(sql!(
            "SELECT external_id, display_name, avatar_url, status FROM im_principal
             WHERE principal_type = ? AND principal_id = ?"
        ));
        let query = query.bind(principal.kind.code()).bind(principal.id);
        let row = bounded(query.fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).profile(principal)).transpose()
    }

    async fn update_profile(&self, principal: Principal, patch: &ProfilePatch, now: Timestamp) -> StoreResult<bool> {
        let mut builder = QueryBuilder::<DB>::new("UPDATE im_principal SET updated_at = ");
        builder.push_bind(now.millis());
        if let Some(external_id) = &patch.external_id {
            let key = external_id.as_ref().map(|id| id.as_str().as_bytes());
            builder.push(", external_id = ").push_bind(key);
        }
        if let Some(name) = &patch.display_name {
            builder.push(", display_name = ").push_bind(name.as_deref());
        }
        if let Some(url) = &patch.avatar_url {
            builder.push(", avatar_url = ").push_bind(url.as_deref());
        }
        if let Some(status) = patch.status {
            builder.push(", status = ").push_bind(status.code());
        }
        builder.push(" WHERE principal_type = ").push_bind(principal.kind.code());
        builder.push(" AND principal_id = ").push_bind(principal.id);
        let _turn = self.gate.pass().await;
        let updated = builder.build().persistent(false).execute(&self.pool);
        bounded(async {
            match updated.await {
                Err(sqlx::Error::Database(refusal)) if refusal.is_unique_violation() => Ok(false),
                other => other.map(|_| true),
            }
        })
        .await
    }

    async fn share_conversation(&self, one: Principal, other: Principal) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "SELECT a.conversation_id FROM im_member a JOIN im_member b ON b.conversation_id = a.conversation_id
             AND b.principal_type = ? AND b.principal_id = ? AND b.status = 1
             WHERE a.principal_type = ? AND a.principal_id = ? AND a.status = 1 LIMIT 1"
        ));
        let query = query.bind(other.kind.code()).bind(other.id).bind(one.kind.code()).bind(one.id);
        Ok(bounded(query.fetch_optional(&self.pool)).await?.is_some())
    }
}
}
