//! Conversations and members.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use super::tables::{ConversationRow, Tables};
use crate::domain::conversation::RecentKeys;
use crate::domain::{
    Conversation, ConversationId, CreationKey, Header, Kind, Member, Members, Membership, Message, Principal,
    PrincipalType, Seq, Timestamp,
};
use crate::storage::{ConversationStore, ListPosition, MemberPosition, Seen, StoreError, StoreResult, pair_of};

/// Pinned ones first, then the latest activity, then the higher id: ascending by this.
type ListOrder = (Reverse<bool>, Reverse<i64>, Reverse<ConversationId>);

fn list_order(position: &ListPosition) -> ListOrder {
    (
        Reverse(position.pinned),
        Reverse(position.last_activity_at.millis()),
        Reverse(position.conversation_id),
    )
}

pub(super) fn seen(tables: &Tables, row: &ConversationRow, viewer: Principal) -> Seen {
    let own = row.present(viewer);
    let floor = own.map_or(Seq::ZERO, |own| own.last_read_seq.max(own.cleared_seq));
    Seen {
        header: Header::clone(&row.header),
        head: row.head,
        member_count: u64::try_from(row.member_count).unwrap_or(u64::MAX),
        membership: row.present(viewer).copied(),
        unread_count: own.map_or(0, |_| unread_above(tables, row, viewer, floor)),
        mention_count: own.map_or(0, |_| mentions_above(tables, row, viewer, floor)),
        last_message: row
            .messages
            .values()
            .rev()
            .find(|message| !message.status.is_gone() && !tables.is_hidden(message.message_id, viewer))
            .map(|message| row.marked(message, viewer)),
    }
}

/// Above `floor` nothing is cleared or read. Counted one by one: the model for what SQL finds by subtraction.
pub(super) fn unread_above(tables: &Tables, row: &ConversationRow, viewer: Principal, floor: Seq) -> u64 {
    let above = row.messages.range((Bound::Excluded(floor), Bound::Unbounded));
    let counts = |message: &Message| {
        message.sender.kind != PrincipalType::System
            && !message.status.is_gone()
            && !tables.is_hidden(message.message_id, viewer)
    };
    let unread = above.filter(|(_, message)| counts(message)).count();
    u64::try_from(unread).unwrap_or(u64::MAX)
}

/// How many of them mention `viewer` or everybody.
fn mentions_above(tables: &Tables, row: &ConversationRow, viewer: Principal, floor: Seq) -> u64 {
    let above = row.mentions.range((Bound::Excluded(floor), Bound::Unbounded));
    let shown = |seq: &Seq| {
        let message = row.messages.get(seq);
        message.is_some_and(|message| !tables.is_hidden(message.message_id, viewer))
    };
    let mentions = above.filter(|(seq, mentions)| mentions.includes(viewer) && shown(seq));
    u64::try_from(mentions.count()).unwrap_or(u64::MAX)
}

fn load(tables: &Tables, row: &ConversationRow) -> StoreResult<Conversation> {
    let newest = row.messages.last_key_value().map_or(Seq::ZERO, |(seq, _)| *seq);
    if newest != row.head.last_seq {
        return Err(StoreError::Inconsistent(format!(
            "conversation {} has messages up to seq {newest}, but its counter stands at {}",
            row.header.conversation_id, row.head.last_seq
        )));
    }
    let members = row.members.values().filter(|member| member.present);
    let members: Members = members.map(|row| row.membership.member).collect();
    let ties = pair_of(&row.header, &members).map(|(one, other)| tables.notes.ties(one, other));
    let blockers = ties.unwrap_or_default().blockers;
    Ok(Conversation {
        header: Arc::clone(&row.header),
        head: row.head,
        members,
        recent: RecentKeys::default(),
        blockers: blockers.into_iter().map(|(blocker, _)| blocker).collect(),
    })
}

fn list(tables: &Tables, viewer: Principal, after: Option<ListPosition>, limit: u32) -> Vec<Seen> {
    let mut found: Vec<(ListOrder, &ConversationRow)> = tables
        .conversations
        .iter()
        .filter_map(|(id, row)| {
            let position = ListPosition {
                pinned: row.present(viewer)?.pinned,
                last_activity_at: row.head.last_activity_at,
                conversation_id: *id,
            };
            Some((list_order(&position), row))
        })
        .filter(|(order, _)| after.is_none_or(|after| *order > list_order(&after)))
        .collect();
    found.sort_by_key(|(order, _)| *order);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    found
        .into_iter()
        .take(limit)
        .map(|(_, row)| seen(tables, row, viewer))
        .collect()
}

fn members(row: &ConversationRow, after: Option<MemberPosition>, limit: u32) -> Vec<Member> {
    let order = |member: &Member| (member.joined_seq, member.principal);
    let mut found: Vec<Member> = row
        .members
        .values()
        .filter(|row| row.present)
        .map(|row| row.membership.member)
        .filter(|member| after.is_none_or(|after| order(member) > (after.joined_seq, after.principal)))
        .collect();
    found.sort_by_key(order);
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    found
}

#[async_trait]
impl ConversationStore for MemoryStore {
    async fn load(&self, id: ConversationId) -> StoreResult<Option<Conversation>> {
        self.call(|tables| tables.conversations.get(&id).map(|row| load(tables, row)).transpose())
            .await?
    }

    async fn by_creation_key(&self, key: &CreationKey) -> StoreResult<Option<ConversationId>> {
        self.call(|tables| tables.creation_keys.get(key.as_str()).copied())
            .await
    }

    async fn seen(&self, id: ConversationId, viewer: Principal) -> StoreResult<Option<Seen>> {
        self.call(|tables| tables.conversations.get(&id).map(|row| seen(tables, row, viewer)))
            .await
    }

    async fn list(&self, viewer: Principal, after: Option<ListPosition>, limit: u32) -> StoreResult<Vec<Seen>> {
        self.call(|tables| list(tables, viewer, after, limit)).await
    }

    async fn members(&self, id: ConversationId, after: Option<MemberPosition>, limit: u32) -> StoreResult<Vec<Member>> {
        self.call(|tables| {
            let row = tables.conversations.get(&id);
            row.map(|row| members(row, after, limit)).unwrap_or_default()
        })
        .await
    }

    async fn cleared(&self, id: ConversationId, principals: &[Principal]) -> StoreResult<HashMap<Principal, Seq>> {
        self.call(|tables| {
            let rows = tables.conversations.get(&id).map(|row| &row.members);
            let cleared = |principal: &Principal| {
                let seq = rows?.get(principal)?.membership.cleared_seq;
                (seq > Seq::ZERO).then_some((*principal, seq))
            };
            principals.iter().filter_map(cleared).collect()
        })
        .await
    }

    async fn last_joined(&self, id: ConversationId, principal: Principal) -> StoreResult<Option<Timestamp>> {
        self.call(|tables| {
            let row = tables.conversations.get(&id)?.members.get(&principal)?;
            Some(row.membership.member.joined_at)
        })
        .await
    }

    async fn access(&self, id: ConversationId, viewer: Principal) -> StoreResult<Option<(Header, Option<Membership>)>> {
        self.call(|tables| {
            let row = tables.conversations.get(&id)?;
            Some((Header::clone(&row.header), row.present(viewer).copied()))
        })
        .await
    }

    async fn is_blocked_in(&self, id: ConversationId, principal: Principal) -> StoreResult<bool> {
        self.call(|tables| {
            let row = tables
                .conversations
                .get(&id)
                .filter(|row| row.header.kind == Kind::Direct);
            let mut members = row.into_iter().flat_map(|row| row.members.keys());
            members.any(|other| tables.notes.ties(*other, principal).is_blocked_by(*other) && *other != principal)
        })
        .await
    }

    async fn ids_of(&self, principal: Principal) -> StoreResult<Vec<ConversationId>> {
        self.call(|tables| {
            let all = tables.conversations.iter();
            all.filter(|(_, row)| row.present(principal).is_some())
                .map(|(id, _)| *id)
                .collect()
        })
        .await
    }
}
