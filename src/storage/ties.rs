//! Contacts and blocks, at rest.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{Block, Contact, Header, Kind, Members, Principal, Ties};

/// What is between principals. It is written by commits of their INBOXes.
#[async_trait]
pub trait TieStore: Send + Sync {
    /// What is between two.
    async fn ties(&self, one: Principal, other: Principal) -> StoreResult<Ties>;
    /// The contacts of `owner` after one of them, by type and id, at most `limit`.
    async fn contacts(&self, owner: Principal, after: Option<Principal>, limit: u32) -> StoreResult<Vec<Contact>>;
    /// Whom `owner` has blocked, after one of them, by type and id, at most `limit`.
    async fn blocks(&self, owner: Principal, after: Option<Principal>, limit: u32) -> StoreResult<Vec<Block>>;
}

/// The two of a DIRECT, in order; none where it is another kind of conversation, or one's own notes.
pub(super) fn pair_of(header: &Header, members: &Members) -> Option<(Principal, Principal)> {
    let mut pair = members.iter().map(|member| member.principal);
    let (one, other) = (pair.next()?, pair.next()?);
    (header.kind == Kind::Direct).then_some((one.min(other), one.max(other)))
}
