//! The words of what is told, read at the end: only of what has room in the answer.

use std::collections::{BTreeSet, HashMap};

use super::plan::Draft;
use super::{SyncChange, SyncEntry};
use crate::domain::{Marked, MessageId, MessageStatus, Principal};
use crate::service::ServiceError;
use crate::storage::{Logged, Store};

/// Reads each message once, however often it is told.
pub(super) async fn fill(
    store: &dyn Store,
    viewer: Principal,
    drafts: Vec<Draft>,
) -> Result<Vec<SyncEntry>, ServiceError> {
    let ids: BTreeSet<MessageId> = drafts.iter().flat_map(ids).collect();
    let ids: Vec<MessageId> = ids.into_iter().collect();
    let mut found = HashMap::new();
    if !ids.is_empty() {
        let messages = store.messages_of(&ids).await?;
        let messages = store.marked(viewer, messages).await?.into_iter();
        found = messages.map(|marked| (marked.message.message_id, marked)).collect();
    }
    Ok(drafts.into_iter().map(|draft| entry(draft, &found)).collect())
}

fn ids(draft: &Draft) -> impl Iterator<Item = MessageId> {
    let messages = draft.messages.iter().map(|outline| outline.message_id);
    let shown = draft.log.iter().filter(|logged| draft.shows(logged));
    messages.chain(shown.filter_map(|logged| logged.change.message_id))
}

fn entry(draft: Draft, found: &HashMap<MessageId, Marked>) -> SyncEntry {
    let (next, missing) = (draft.next(), draft.missing());
    let messages = draft.messages.iter().rev();
    let messages = messages.filter_map(|outline| found.get(&outline.message_id));
    // One that was deleted just now is told by a change that comes later.
    let messages = messages.filter(|marked| marked.message.status != MessageStatus::Deleted);
    let change = |logged: &Logged| {
        let shown = draft.shows(logged);
        let message = logged.change.message_id.filter(|_| shown);
        SyncChange {
            change: logged.change.clone(),
            hidden: !shown,
            message: message.and_then(|id| found.get(&id)).cloned(),
        }
    };
    SyncEntry {
        messages: messages.cloned().collect(),
        changes: draft.log.iter().map(change).collect(),
        missing,
        next,
        history_reset: draft.plan.history_reset,
        seen: draft.plan.seen,
    }
}
