//! Reads for a device that was away: the plain words of what SQL does in a few statements.

use std::cmp::Reverse;
use std::ops::Bound;

use async_trait::async_trait;

use super::MemoryStore;
use super::conversations::seen;
use super::messages::message;
use super::tables::Tables;
use crate::domain::{ConversationId, Kind, Message, MessageId, MessageStatus, Principal};
use crate::storage::{About, Logged, Outline, Seen, Standing, StoreResult, Stretch, SyncStore, Unread, Window};

fn outlines(tables: &Tables, window: &Window, viewer: Principal) -> Vec<Outline> {
    let Some(row) = tables.conversations.get(&window.conversation_id) else {
        return Vec::new();
    };
    if window.up_to <= window.after {
        return Vec::new();
    }
    let range = row
        .messages
        .range((Bound::Excluded(window.after), Bound::Included(window.up_to)));
    let visible = range.rev().map(|(_, message)| message);
    let visible = visible
        .filter(|message| message.status != MessageStatus::Deleted)
        .filter(|message| !tables.is_hidden(message.message_id, viewer));
    let outline = |message: &std::sync::Arc<Message>| Outline {
        conversation_id: window.conversation_id,
        seq: message.seq,
        message_id: message.message_id,
        content_bytes: message.content.as_str().len(),
    };
    let limit = usize::try_from(window.limit).unwrap_or(usize::MAX);
    visible.take(limit).map(outline).collect()
}

fn log(tables: &Tables, stretch: &Stretch, viewer: Principal) -> Vec<Logged> {
    let Some(row) = tables.conversations.get(&stretch.conversation_id) else {
        return Vec::new();
    };
    if stretch.up_to <= stretch.after {
        return Vec::new();
    }
    let changes = row
        .changes
        .range((Bound::Excluded(stretch.after), Bound::Included(stretch.up_to)));
    let logged = changes.map(|(_, change)| Logged {
        change: change.as_ref().clone(),
        about: change
            .message_id
            .and_then(|id| message(tables, id))
            .map(|message| About {
                seq: message.seq,
                content_bytes: message.content.as_str().len(),
                deleted_by_viewer: tables.is_hidden(message.message_id, viewer),
            }),
    });
    logged.collect()
}

fn unread(tables: &Tables, viewer: Principal) -> Vec<Unread> {
    let rows = tables
        .conversations
        .values()
        .filter(|row| row.header.kind != Kind::Inbox);
    let mut found: Vec<_> = rows
        .filter_map(|row| {
            let muted = row.present(viewer)?.muted;
            let seen = seen(tables, row, viewer);
            let unread_count = seen.unread_count;
            let unread = Unread {
                conversation_id: row.header.conversation_id,
                unread_count,
                mention_count: seen.mention_count,
                muted,
            };
            (unread_count > 0).then_some((row.head.last_activity_at, unread))
        })
        .collect();
    found.sort_by_key(|(active, unread)| (Reverse(active.millis()), Reverse(unread.conversation_id)));
    found.into_iter().map(|(_, unread)| unread).collect()
}

#[async_trait]
impl SyncStore for MemoryStore {
    async fn standings(&self, viewer: Principal) -> StoreResult<Vec<Standing>> {
        self.call(|tables| {
            let own = tables
                .conversations
                .values()
                .filter(|row| row.present(viewer).is_some());
            own.map(|row| Standing {
                conversation_id: row.header.conversation_id,
                last_seq: row.head.last_seq,
                last_change_seq: row.head.last_change_seq,
                last_activity_at: row.head.last_activity_at,
            })
            .collect()
        })
        .await
    }

    async fn seen_of(&self, ids: &[ConversationId], viewer: Principal) -> StoreResult<Vec<Seen>> {
        self.call(|tables| {
            let rows = ids.iter().filter_map(|id| tables.conversations.get(id));
            rows.map(|row| seen(tables, row, viewer)).collect()
        })
        .await
    }

    async fn outlines(&self, windows: &[Window], viewer: Principal) -> StoreResult<Vec<Outline>> {
        self.call(|tables| {
            windows
                .iter()
                .flat_map(|window| outlines(tables, window, viewer))
                .collect()
        })
        .await
    }

    async fn log(&self, stretches: &[Stretch], viewer: Principal) -> StoreResult<Vec<Logged>> {
        self.call(|tables| {
            stretches
                .iter()
                .flat_map(|stretch| log(tables, stretch, viewer))
                .collect()
        })
        .await
    }

    async fn messages_of(&self, ids: &[MessageId]) -> StoreResult<Vec<Message>> {
        self.call(|tables| ids.iter().filter_map(|id| message(tables, *id).cloned()).collect())
            .await
    }

    async fn unread(&self, viewer: Principal) -> StoreResult<Vec<Unread>> {
        self.call(|tables| unread(tables, viewer)).await
    }
}
