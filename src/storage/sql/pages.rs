//! Walks along one conversation: what a viewer may see of a range of it, and raw messages in their order.
//!
//! They are made in windows of seqs with both ends bound. Numbers have no holes (INV-SEQ-1), so a window of `w` seqs is
//! never more than `w` rows, and every planner walks just those. With one end open MariaDB takes the whole conversation
//! for the index and walks from its newest message down to the page (3.5 s instead of 0.4 ms at a depth of 900,000).

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{ConversationId, Message, Seq};
use crate::storage::{PageQuery, StoreResult};

/// The first window is so many times the page; a page with more hidden messages needs another, twice as wide.
const WINDOW_PAGES: i64 = 4;

/// Below a message there is nearly always one that stands within so many.
const STANDING_WINDOW: i64 = 32;

/// What a page leaves out: messages deleted for everyone, and what the viewer deleted. An outer join, since a NOT EXISTS
/// may be answered by collecting everything that the viewer ever deleted.
macro_rules! page_of {
    ($order:literal) => {
        concat!(
            "SELECT ",
            message_columns!(),
            " FROM im_message m LEFT JOIN im_user_action a ON a.principal_type = ? \
             AND a.principal_id = ? AND a.action_type = 1 AND a.message_id = m.message_id AND a.status = 1 \
             WHERE m.conversation_id = ? AND m.seq > ? AND m.seq < ? AND m.status <> 4 AND a.message_id IS NULL \
             ORDER BY m.seq ",
            $order,
            " LIMIT ?"
        )
    };
}

sql_impl! {
/// Ascending by seq, at most `query.limit`.
async fn visible(store: &SqlStore<DB>, query: PageQuery) -> StoreResult<Vec<Message>> {
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut width = i64::from(query.limit).saturating_mul(WINDOW_PAGES);
    // A client may name any number: windows beyond the head would be empty.
    let head = newest::<DB>(store, query.conversation_id).await?.saturating_add(1);
    let (mut low, mut high) = (query.after.get(), query.before.map_or(head, |before| before.get().min(head)));
    let mut page = Vec::new();
    // Both bounds are exclusive.
    while page.len() < limit && low.saturating_add(1) < high {
        let (from, to) = if query.oldest_first {
            (low, high.min(low.saturating_add(width).saturating_add(1)))
        } else {
            (low.max(high.saturating_sub(width).saturating_sub(1)), high)
        };
        let text = if query.oldest_first { sql!(page_of!("ASC")) } else { sql!(page_of!("DESC")) };
        let left = i64::try_from(limit - page.len()).unwrap_or(i64::MAX);
        let rows = sqlx::query(text).bind(query.viewer.kind.code()).bind(query.viewer.id);
        let rows = rows.bind(query.conversation_id.get()).bind(from).bind(to).bind(left);
        for row in &bounded(rows.fetch_all(&store.pool)).await? {
            page.push(Columns::<DB>::new(row).message()?);
        }
        if query.oldest_first { low = to.saturating_sub(1) } else { high = from.saturating_add(1) }
        width = width.saturating_mul(2);
    }
    if !query.oldest_first {
        page.reverse();
    }
    Ok(page)
}
}

sql_impl! {
/// By the messages: `check` does not trust the counter.
async fn newest(store: &SqlStore<DB>, id: ConversationId) -> StoreResult<i64> {
    let query = sqlx::query(sql!("SELECT MAX(seq) FROM im_message WHERE conversation_id = ?"));
    let row = bounded(query.bind(id.get()).fetch_one(&store.pool)).await?;
    Ok(Columns::<DB>::new(&row).maybe_big()?.unwrap_or_default())
}
}

sql_impl! {
/// The newest message below `seq` that is not RECALLED or DELETED; 0 if none.
async fn standing_below(store: &SqlStore<DB>, id: ConversationId, seq: Seq) -> StoreResult<Seq> {
    let (mut high, mut width) = (seq.get(), STANDING_WINDOW);
    while high > 1 {
        let low = high.saturating_sub(width).max(1);
        let query = sqlx::query(sql!(
            "SELECT seq FROM im_message WHERE conversation_id = ? AND seq >= ? AND seq < ? AND status NOT IN (3, 4)
             ORDER BY seq DESC LIMIT 1"
        ));
        let query = query.bind(id.get()).bind(low).bind(high);
        if let Some(row) = bounded(query.fetch_optional(&store.pool)).await? {
            return Columns::<DB>::new(&row).seq();
        }
        (high, width) = (low, width.saturating_mul(2));
    }
    Ok(Seq::ZERO)
}
}

sql_impl! {
/// Raw messages with `after < seq`, ascending, at most `limit`.
async fn after(store: &SqlStore<DB>, id: ConversationId, after: Seq, limit: u32) -> StoreResult<Vec<Message>> {
    let last = after.get().saturating_add(i64::from(limit));
    let page = between::<DB>(store, id, after.get(), last, limit).await?;
    let whole = page.len() == usize::try_from(limit).unwrap_or(usize::MAX);
    if whole || newest::<DB>(store, id).await? <= last {
        return Ok(page);
    }
    // A damaged store has holes: whoever looks for them has to see what comes after.
    between::<DB>(store, id, after.get(), i64::MAX, limit).await
}
}

sql_impl! {
async fn between(
    store: &SqlStore<DB>,
    id: ConversationId,
    after: i64,
    last: i64,
    limit: u32,
) -> StoreResult<Vec<Message>> {
    let query = sqlx::query(sql!(concat!(
        "SELECT ", message_columns!(),
        " FROM im_message m WHERE m.conversation_id = ? AND m.seq > ? AND m.seq <= ? ORDER BY m.seq LIMIT ?"
    )));
    let query = query.bind(id.get()).bind(after).bind(last).bind(i64::from(limit));
    let rows = bounded(query.fetch_all(&store.pool)).await?;
    rows.iter().map(|row| Columns::<DB>::new(row).message()).collect()
}
}
