//! Conversations and members: reads.

use std::collections::HashMap;
use std::future::ready;

use futures_util::TryStreamExt as _;

use super::principals::{among, in_parts};
use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::conversation::RecentKeys;
use crate::domain::{
    Conversation, ConversationId, CreationKey, Header, Marked, Member, Members, Membership, Message, Principal, Seq,
    Timestamp,
};
use crate::storage::{
    ConversationStore, ListPosition, MemberPosition, MessageStore as _, Seen, StoreError, StoreResult, TieStore as _,
    pair_of,
};

sql_impl! {
/// And whether the viewer has deleted the last message for themselves.
fn seen_from(row: &DB::Row) -> StoreResult<(Seen, bool)> {
    let mut columns = Columns::<DB>::new(row);
    let mut seen = Seen {
        header: columns.header()?,
        head: columns.head()?,
        member_count: u64::try_from(columns.big()?).unwrap_or_default(),
        membership: columns.maybe_membership()?,
        unread_count: columns.count()?,
        mention_count: columns.count()?,
        last_message: None,
    };
    let hidden = columns.big()? > 0;
    seen.last_message = columns.maybe_message()?.map(Marked::plain);
    Ok((seen, hidden))
}
}

sql_impl! {
impl SqlStore {
    /// What is on the last messages: nothing is asked where none of them was ever changed.
    pub(super) async fn mark(&self, viewer: Principal, found: Vec<(Seen, bool)>) -> StoreResult<Vec<Seen>> {
        let mut seen = Vec::with_capacity(found.len());
        for (mut one, hidden) in found {
            if let Some(last) = one.last_message.take_if(|_| hidden) {
                one.last_message = self.newest_below(&last.message, viewer).await?.map(Marked::plain);
            }
            seen.push(one);
        }
        let last = seen.iter_mut().filter_map(|seen| seen.last_message.take());
        let last = self.marked(viewer, last.map(|last| last.message).collect()).await?;
        let mut last = last.into_iter().peekable();
        for seen in &mut seen {
            let id = seen.header.conversation_id;
            seen.last_message = last.next_if(|last| last.message.conversation_id == id);
        }
        Ok(seen)
    }

    /// The newest standing message before `last` that `viewer` has not deleted for themselves. Asked for only where the
    /// newest is one of those that they have.
    async fn newest_below(&self, last: &Message, viewer: Principal) -> StoreResult<Option<Message>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", message_columns!(), " FROM im_message m WHERE m.conversation_id = ? AND m.seq < ?",
            " AND m.status NOT IN (3, 4) AND NOT EXISTS (SELECT 1 FROM im_user_action a WHERE a.principal_type = ?",
            " AND a.principal_id = ? AND a.action_type = 1 AND a.message_id = m.message_id AND a.status = 1)",
            " ORDER BY m.seq DESC LIMIT 1"
        )));
        let query = query.bind(last.conversation_id.get()).bind(last.seq.get());
        let row = bounded(query.bind(viewer.kind.code()).bind(viewer.id).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).message()).transpose()
    }
}
}

sql_impl! {
impl ConversationStore for SqlStore {
    async fn load(&self, id: ConversationId) -> StoreResult<Option<Conversation>> {
        // The counters come first: members that are read after them can only be newer, and then the commit is fenced.
        let query = sqlx::query(sql!(concat!(
            "SELECT ", conversation_columns!(),
            ", (SELECT MAX(m.seq) FROM im_message m WHERE m.conversation_id = c.conversation_id), c.member_count",
            " FROM im_conversation c WHERE c.conversation_id = ?"
        )));
        let Some(row) = bounded(query.bind(id.get()).fetch_optional(&self.pool)).await? else {
            return Ok(None);
        };
        let mut columns = Columns::<DB>::new(&row);
        let (header, head) = (columns.shared_header()?, columns.head()?);
        let newest = Seq::new(columns.maybe_big()?.unwrap_or_default());
        let member_count = usize::try_from(columns.big()?).unwrap_or_default();
        if newest != head.last_seq {
            return Err(StoreError::Inconsistent(format!(
                "conversation {id} has messages up to seq {newest}, but its counter stands at {}; run `onescribe check`",
                head.last_seq
            )));
        }
        let query = sqlx::query(sql!(concat!(
            "SELECT ", member_columns!(), " FROM im_member r WHERE r.conversation_id = ? AND r.status = 1"
        )));
        // Row by row: all rows of a large group at once take ten times what stays of them, and memory keeps the size.
        let add = |members: StoreResult<Members>, row: DB::Row| {
            let added = members.and_then(|mut members| {
                members.extend([Columns::<DB>::new(&row).member()?]);
                Ok(members)
            });
            ready(Ok(added))
        };
        let rows = query.bind(id.get()).fetch(&self.pool);
        let members = bounded(rows.try_fold(Ok(Members::for_about(member_count)), add)).await??;
        // The blocks come last: whoever blocks from here on tells the writer.
        let blockers = match pair_of(&header, &members) {
            Some((one, other)) => self.ties(one, other).await?.blockers.into_iter().map(|(blocker, _)| blocker).collect(),
            None => Vec::new(),
        };
        Ok(Some(Conversation { header, head, members, recent: RecentKeys::default(), blockers }))
    }

    async fn by_creation_key(&self, key: &CreationKey) -> StoreResult<Option<ConversationId>> {
        let query = sqlx::query(sql!("SELECT conversation_id FROM im_conversation WHERE creation_key = ?"));
        let row = bounded(query.bind(key.as_str().as_bytes()).fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).conversation_id()).transpose()
    }

    async fn seen(&self, id: ConversationId, viewer: Principal) -> StoreResult<Option<Seen>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", seen_columns!(), " FROM im_conversation c",
            " LEFT JOIN im_member r ON r.conversation_id = c.conversation_id AND r.principal_type = ?",
            " AND r.principal_id = ? AND r.status = 1",
            " LEFT JOIN im_message m ON m.conversation_id = c.conversation_id AND m.seq = c.last_message_seq",
            " WHERE c.conversation_id = ?"
        )));
        let query = query.bind(viewer.kind.code()).bind(viewer.id).bind(id.get());
        let row = bounded(query.fetch_optional(&self.pool)).await?;
        let seen = row.map(|row| seen_from::<DB>(&row)).transpose()?;
        Ok(self.mark(viewer, seen.into_iter().collect()).await?.pop())
    }

    async fn list(&self, viewer: Principal, after: Option<ListPosition>, limit: u32) -> StoreResult<Vec<Seen>> {
        let (pinned, activity, id) = after.map_or((true, i64::MAX, i64::MAX), |after| {
            (after.pinned, after.last_activity_at.millis(), after.conversation_id.get())
        });
        let query = sqlx::query(sql!(concat!(
            "SELECT ", seen_columns!(),
            " FROM im_member r JOIN im_conversation c ON c.conversation_id = r.conversation_id",
            " LEFT JOIN im_message m ON m.conversation_id = c.conversation_id AND m.seq = c.last_message_seq",
            " WHERE r.principal_type = ? AND r.principal_id = ? AND r.status = 1",
            " AND (r.pinned < ? OR (r.pinned = ? AND (c.last_activity_at < ?",
            " OR (c.last_activity_at = ? AND c.conversation_id < ?))))",
            " ORDER BY r.pinned DESC, c.last_activity_at DESC, c.conversation_id DESC LIMIT ?"
        )));
        let query = query.bind(viewer.kind.code()).bind(viewer.id);
        let query = query.bind(pinned).bind(pinned).bind(activity).bind(activity).bind(id).bind(i64::from(limit));
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        let seen = rows.iter().map(seen_from::<DB>).collect::<StoreResult<Vec<_>>>()?;
        self.mark(viewer, seen).await
    }

    async fn members(&self, id: ConversationId, after: Option<MemberPosition>, limit: u32) -> StoreResult<Vec<Member>> {
        let (seq, kind, number) = after.map_or((-1, 0, 0), |after| {
            (after.joined_seq.get(), after.principal.kind.code(), after.principal.id)
        });
        let query = sqlx::query(sql!(concat!(
            "SELECT ", member_columns!(),
            " FROM im_member r WHERE r.conversation_id = ? AND r.status = 1",
            " AND (r.joined_seq > ? OR (r.joined_seq = ? AND (r.principal_type > ?",
            " OR (r.principal_type = ? AND r.principal_id > ?))))",
            " ORDER BY r.joined_seq, r.principal_type, r.principal_id LIMIT ?"
        )));
        let query = query.bind(id.get()).bind(seq).bind(seq).bind(kind).bind(kind).bind(number);
        let rows = bounded(query.bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).member()).collect()
    }

    async fn cleared(&self, id: ConversationId, principals: &[Principal]) -> StoreResult<HashMap<Principal, Seq>> {
        let mut cleared = HashMap::new();
        for part in in_parts(principals) {
            let text = "SELECT principal_type, principal_id, cleared_seq FROM im_member WHERE ";
            let mut builder = among::<DB>(text, &part);
            builder.push(" AND cleared_seq > 0 AND conversation_id = ").push_bind(id.get());
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                let mut columns = Columns::<DB>::new(row);
                cleared.insert(columns.principal()?, columns.seq()?);
            }
        }
        Ok(cleared)
    }

    async fn last_joined(&self, id: ConversationId, principal: Principal) -> StoreResult<Option<Timestamp>> {
        let query = sqlx::query(sql!(
            "SELECT joined_at FROM im_member WHERE conversation_id = ? AND principal_type = ? AND principal_id = ?"
        ));
        let query = query.bind(id.get()).bind(principal.kind.code()).bind(principal.id);
        let row = bounded(query.fetch_optional(&self.pool)).await?;
        row.map(|row| Columns::<DB>::new(&row).time()).transpose()
    }

    async fn access(&self, id: ConversationId, viewer: Principal) -> StoreResult<Option<(Header, Option<Membership>)>> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", conversation_columns!(), ", ", membership_columns!(),
            " FROM im_conversation c LEFT JOIN im_member r ON r.conversation_id = c.conversation_id",
            " AND r.principal_type = ? AND r.principal_id = ? AND r.status = 1 WHERE c.conversation_id = ?"
        )));
        let query = query.bind(viewer.kind.code()).bind(viewer.id).bind(id.get());
        let Some(row) = bounded(query.fetch_optional(&self.pool)).await? else {
            return Ok(None);
        };
        let mut columns = Columns::<DB>::new(&row);
        let header = columns.header()?;
        columns.head()?;
        Ok(Some((header, columns.maybe_membership()?)))
    }

    async fn is_blocked_in(&self, id: ConversationId, principal: Principal) -> StoreResult<bool> {
        let query = sqlx::query(sql!(
            "SELECT r.principal_id FROM im_conversation c JOIN im_member r ON r.conversation_id = c.conversation_id
             JOIN im_block b ON b.owner_type = r.principal_type AND b.owner_id = r.principal_id
             AND b.other_type = ? AND b.other_id = ? WHERE c.conversation_id = ? AND c.kind = 1"
        ));
        let query = query.bind(principal.kind.code()).bind(principal.id).bind(id.get());
        Ok(bounded(query.fetch_optional(&self.pool)).await?.is_some())
    }

    async fn ids_of(&self, principal: Principal) -> StoreResult<Vec<ConversationId>> {
        let query = sqlx::query(sql!(
            "SELECT conversation_id FROM im_member WHERE principal_type = ? AND principal_id = ? AND status = 1"
        ));
        let query = query.bind(principal.kind.code()).bind(principal.id);
        let rows = bounded(query.fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).conversation_id()).collect()
    }
}
}
