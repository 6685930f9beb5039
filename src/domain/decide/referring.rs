//! Which files a message refers to: only those that its sender may read, and the references stand and fall with its words.

use super::{Context, Draft, Fact, Refusal};
use crate::domain::error::DomainError;
use crate::domain::event::Event;
use crate::domain::ids::{FileId, Principal, Timestamp};
use crate::domain::message::Message;

/// May `sender` refer to these?
pub(super) fn may_refer(files: &[FileId], sender: Principal, context: &Context<'_>) -> Result<(), Refusal> {
    let known = &context.facts.files;
    if !files.iter().all(|file| known.contains_key(&(*file, sender))) {
        return Err(Refusal::Needs(Fact::Files(sender, files.to_vec())));
    }
    if files.iter().all(|file| known.get(&(*file, sender)) == Some(&true)) {
        return Ok(());
    }
    Err(DomainError::NotFound("no such file").into())
}

/// Those of `files` that are not among `others`; both in order, each once.
pub(super) fn beyond(files: &[FileId], others: &[FileId]) -> Vec<FileId> {
    let new = files.iter().filter(|file| others.binary_search(file).is_err());
    new.copied().collect()
}

impl Draft<'_> {
    /// Keeps which files a message refers to, where these are others than `before`. Nothing of a message without any.
    pub(super) fn refer(&mut self, message: &Message, before: &[FileId], now: &[FileId], at: Timestamp) {
        let (added, removed) = (beyond(now, before), beyond(before, now));
        if !added.is_empty() || !removed.is_empty() {
            self.events.push(Event::Referenced {
                message_id: message.message_id,
                seq: message.seq,
                added,
                removed,
                at,
            });
        }
    }
}
