//! What a decision has to know and only the store knows: asked for once a batch, before anything is decided on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::notification::ENDED_AT_ONCE_MAX;
use crate::domain::{ClientMessageId, ConversationId, Fact, Facts, FileId, Principal};
use crate::storage::{Store, StoreError};

/// Asks the store for everything that decisions need.
pub(super) async fn fetch(
    store: &dyn Store,
    id: ConversationId,
    needs: Vec<Fact>,
    facts: &mut Facts,
) -> Result<(), StoreError> {
    let mut keys = Vec::new();
    let mut files: BTreeMap<Principal, BTreeSet<FileId>> = BTreeMap::new();
    // Each once, in an order that does not depend on chance.
    for need in needs.into_iter().collect::<BTreeSet<_>>() {
        match need {
            Fact::Key(principal, key) => keys.push((principal, key)),
            Fact::Files(principal, ids) => files.entry(principal).or_default().extend(ids),
            Fact::Quote(message, viewer) => {
                let fact = store.quotable(id, message, viewer).await?;
                facts.quotes.insert((message, viewer), fact);
            }
            Fact::Message(message) => {
                let fact = store.touchable(id, message).await?;
                facts.messages.insert(message, fact);
            }
            Fact::Position(conversation, principal, seq) => {
                let fact = store.position(conversation, principal, seq).await?;
                facts.positions.insert((conversation, principal, seq), fact);
            }
            Fact::Actionable(message, principal) => {
                let fact = store.actionable(message, principal).await?;
                facts.actionables.insert((message, principal), fact);
            }
            Fact::Notification(notification) => {
                let fact = store.notification(notification).await?;
                facts.notifications.insert(notification, fact);
            }
            Fact::Keyed(owner, key) => {
                let fact = store.notification_by_key(owner, &key).await?;
                facts.keyed.insert((owner, key), fact);
            }
            Fact::PendingFrom(owner, from) => pending_from(store, id, (owner, from), facts).await?,
            Fact::LastJoined(principal) => {
                let fact = store.last_joined(id, principal).await?;
                facts.last_joined.insert(principal, fact);
            }
            Fact::Ties(one, other) => {
                let fact = store.ties(one, other).await?;
                facts.ties.insert((one, other), fact);
            }
        }
    }
    for (principal, ids) in files {
        let ids: Vec<FileId> = ids.into_iter().collect();
        let readable = store.readable_files(&ids, principal).await?;
        facts.files.extend(ids.into_iter().map(|id| ((id, principal), false)));
        facts
            .files
            .extend(readable.into_iter().map(|file| ((file.file_id, principal), true)));
    }
    look_up(store, id, keys, facts).await
}

/// Whoever asks is going to end them: what has to be known of their messages is fetched at once, not one in a round.
async fn pending_from(
    store: &dyn Store,
    id: ConversationId,
    (owner, from): (Principal, Principal),
    facts: &mut Facts,
) -> Result<(), StoreError> {
    let limit = u32::try_from(ENDED_AT_ONCE_MAX).unwrap_or(u32::MAX);
    let found = store.pending_from(owner, from, limit).await?;
    for note in &found {
        let message = store.touchable(id, note.notification_id).await?;
        facts.messages.insert(note.notification_id, message);
    }
    facts.pending_from.insert((owner, from), found);
    Ok(())
}

/// Were these keys used?
pub(super) async fn look_up(
    store: &dyn Store,
    id: ConversationId,
    keys: Vec<(Principal, ClientMessageId)>,
    facts: &mut Facts,
) -> Result<(), StoreError> {
    if keys.is_empty() {
        return Ok(());
    }
    let found = store.keys(id, &keys).await?;
    facts.keys.extend(keys.into_iter().map(|key| (key, None)));
    facts
        .keys
        .extend(found.into_iter().map(|(key, record)| (key, Some(record))));
    Ok(())
}
