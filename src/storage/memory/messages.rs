//! Messages and changes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use super::tables::{ConversationRow, Tables};
use crate::domain::{
    Annotated, Change, ChangeSeq, ClientMessageId, ConversationId, KeyRecord, Marked, Marks, Message, MessageId,
    MessageStatus, Principal, Quotable, Seq, Touchable,
};
use crate::storage::{MessageStore, PageQuery, PinPosition, PinQuery, StoreResult};

fn page(tables: &Tables, query: &PageQuery) -> Vec<Marked> {
    let Some(row) = tables.conversations.get(&query.conversation_id) else {
        return Vec::new();
    };
    if query.before.is_some_and(|before| before <= query.after) {
        return Vec::new(); // a range the wrong way round has nothing in it
    }
    let upper = query.before.map_or(Bound::Unbounded, Bound::Excluded);
    let range = row.messages.range((Bound::Excluded(query.after), upper));
    let visible = range
        .map(|(_, message)| message)
        .filter(|message| message.status != MessageStatus::Deleted)
        .filter(|message| !tables.is_hidden(message.message_id, query.viewer));
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let copy = |message: &Arc<Message>| row.marked(message, query.viewer);
    if query.oldest_first {
        visible.take(limit).map(copy).collect()
    } else {
        let mut newest: Vec<Marked> = visible.rev().take(limit).map(copy).collect();
        newest.reverse();
        newest
    }
}

pub(super) fn message(tables: &Tables, id: MessageId) -> Option<&Message> {
    place(tables, id).map(|(_, message)| message.as_ref())
}

fn place(tables: &Tables, id: MessageId) -> Option<(&ConversationRow, &Arc<Message>)> {
    let (conversation_id, seq) = tables.message_places.get(&id)?;
    let row = tables.conversations.get(conversation_id)?;
    Some((row, row.messages.get(seq)?))
}

fn annotated(tables: &Tables, id: MessageId) -> Option<Annotated> {
    place(tables, id).map(|(row, message)| row.annotated(message))
}

fn pins(tables: &Tables, query: &PinQuery) -> Vec<(PinPosition, Marked)> {
    let Some(row) = tables.conversations.get(&query.conversation_id) else {
        return Vec::new();
    };
    let order = |position: &PinPosition| (Reverse(position.pinned_at), Reverse(position.message_id));
    let found = row.pins.iter().filter_map(|(id, at)| {
        let position = PinPosition {
            pinned_at: *at,
            message_id: *id,
        };
        let (_, message) = place(tables, *id)?;
        let hidden = tables.is_hidden(*id, query.viewer);
        let seen =
            message.seq >= query.first && !hidden && query.after.is_none_or(|after| order(&position) > order(&after));
        seen.then(|| (position, row.marked(message, query.viewer)))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(position, _)| order(position));
    found.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
    found
}

#[async_trait]
impl MessageStore for MemoryStore {
    async fn page(&self, query: PageQuery) -> StoreResult<Vec<Marked>> {
        self.call(|tables| page(tables, &query)).await
    }

    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>> {
        self.call(|tables| message(tables, id).cloned()).await
    }

    async fn marks(&self, viewer: Principal, messages: &[MessageId]) -> StoreResult<HashMap<MessageId, Marks>> {
        self.call(|tables| {
            let marks = |id: &MessageId| Some((*id, annotated(tables, *id)?.marks_for(viewer)));
            let all = messages.iter().filter_map(marks);
            all.filter(|(_, marks)| *marks != Marks::default()).collect()
        })
        .await
    }

    async fn pins(&self, query: PinQuery) -> StoreResult<Vec<(PinPosition, Marked)>> {
        self.call(|tables| pins(tables, &query)).await
    }

    async fn hidden(&self, id: MessageId, viewer: Principal) -> StoreResult<bool> {
        self.call(|tables| tables.is_hidden(id, viewer)).await
    }

    async fn keys(
        &self,
        id: ConversationId,
        keys: &[(Principal, ClientMessageId)],
    ) -> StoreResult<Vec<((Principal, ClientMessageId), KeyRecord)>> {
        self.call(|tables| {
            let Some(row) = tables.conversations.get(&id) else {
                return Vec::new();
            };
            let record = |key: &(Principal, ClientMessageId)| {
                let message = row.messages.get(row.keys.get(key)?)?;
                Some((key.clone(), message.record()))
            };
            keys.iter().filter_map(record).collect()
        })
        .await
    }

    async fn quotable(
        &self,
        id: ConversationId,
        quoted: MessageId,
        viewer: Principal,
    ) -> StoreResult<Option<Quotable>> {
        self.call(|tables| {
            let message = message(tables, quoted).filter(|message| message.conversation_id == id)?;
            let mut cleared = tables.conversations.get(&id)?.cleared(message.seq);
            let hidden = tables.is_hidden(quoted, viewer) || cleared.any(|principal| principal == viewer);
            Some(Quotable {
                seq: message.seq,
                gone: message.status == MessageStatus::Deleted || hidden,
            })
        })
        .await
    }

    async fn touchable(&self, id: ConversationId, asked: MessageId) -> StoreResult<Option<Touchable>> {
        self.call(|tables| {
            let (row, message) = place(tables, asked).filter(|(_, message)| message.conversation_id == id)?;
            let below = row.messages.range(..message.seq);
            let standing = below.rev().find(|(_, message)| !message.status.is_gone());
            Some(Touchable {
                annotated: row.annotated(message),
                hidden_for: tables.hidden_for(row, message),
                standing_below: standing.map_or(Seq::ZERO, |(seq, _)| *seq),
                pins: row.pins.len(),
            })
        })
        .await
    }

    async fn messages_after(&self, id: ConversationId, after: Seq, limit: u32) -> StoreResult<Vec<Message>> {
        self.call(|tables| {
            let Some(row) = tables.conversations.get(&id) else {
                return Vec::new();
            };
            let newer = row.messages.range((Bound::Excluded(after), Bound::Unbounded));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            newer.take(limit).map(|(_, message)| message.as_ref().clone()).collect()
        })
        .await
    }

    async fn changes_after(&self, id: ConversationId, after: ChangeSeq, limit: u32) -> StoreResult<Vec<Change>> {
        self.call(|tables| {
            let Some(row) = tables.conversations.get(&id) else {
                return Vec::new();
            };
            let newer = row.changes.range((Bound::Excluded(after), Bound::Unbounded));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            newer.take(limit).map(|(_, change)| change.as_ref().clone()).collect()
        })
        .await
    }
}
