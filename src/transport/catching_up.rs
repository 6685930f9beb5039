//! Sync at both doors: from what was asked to the service's question, and from its answer to the wire.

use crate::domain::{DeviceId, DomainError, InvalidField};
use crate::protocol::fields::required;
use crate::protocol::sync::{Ask, Entry, Missing, Next, Sync};
use crate::protocol::view;
use crate::service::{DeviceCursor, ServiceError, SyncChange, SyncEntry, SyncPage, SyncQuery};
use crate::transport::rest::as_member;

/// The largest body of a sync: the most cursors that it may name, at about 100 bytes each.
pub(super) const SYNC_BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The service's question. `device`: the one that asks, where the request need not name it.
pub(super) fn query(ask: Ask, device: Option<&DeviceId>, bytes_max: usize) -> Result<SyncQuery, InvalidField> {
    let cursors = ask.cursors.map(|cursors| {
        let cursors = cursors.into_iter().map(|cursor| DeviceCursor {
            conversation_id: cursor.conversation_id,
            seq: cursor.seq,
            change_seq: cursor.change_seq,
        });
        cursors.collect()
    });
    Ok(SyncQuery {
        device: required("device_id", ask.device_id.or_else(|| device.cloned()))?,
        store_epoch: ask.store_epoch,
        cursors,
        message_limit: ask.message_limit,
        conversation_limit: ask.conversation_limit,
        bytes_max,
    })
}

/// The answer as JSON has it.
pub(super) fn answer(page: &SyncPage) -> Result<Sync<'_>, ServiceError> {
    let entries: Result<Vec<Entry<'_>>, DomainError> = page.entries.iter().map(entry).collect();
    Ok(Sync {
        server_time: page.server_time,
        store_epoch: &page.store_epoch,
        conversations: entries?,
        removed: &page.removed,
        has_more: page.has_more,
    })
}

fn entry(entry: &SyncEntry) -> Result<Entry<'_>, DomainError> {
    Ok(Entry {
        conversation: as_member(&entry.seen)?,
        messages: entry.messages.iter().map(view::Message::from).collect(),
        changes: entry.changes.iter().map(change).collect(),
        missing: entry.missing.map(|(after, before)| Missing {
            after_seq: after.get(),
            before_seq: before.get(),
        }),
        next: Next {
            seq: entry.next.0.get(),
            change_seq: entry.next.1.get(),
        },
        history_reset: entry.history_reset,
    })
}

fn change(change: &SyncChange) -> view::Change<'_> {
    if change.hidden {
        return view::Change::hidden(&change.change);
    }
    view::Change::new(&change.change, change.message.as_ref().map(view::Message::from))
}
