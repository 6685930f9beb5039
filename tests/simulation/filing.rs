//! Files: messages refer to them, and what nobody refers to is swept away at any moment, without the grace that a real
//! server gives. Only the keys of the store stand between a late commit and a file that has gone.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use onescribe::domain::{BlobId, FileId, FileState, MessageId, Principal, Timestamp, chain};
use onescribe::storage::memory::MemoryStore;
use onescribe::storage::{FileStore as _, FinishedFile, LooseFile, NewBlob, NewFile};
use serde_json::Value;

use crate::checks::Findings;
use crate::faults::Dice;
use crate::snapshot::{Stored, now};
use crate::world::Run;

/// All files that there ever are, numbered from 1.
const FILES: i64 = 4;

/// What is stored of files at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filed {
    /// Message and file.
    pub(crate) references: BTreeSet<(i64, i64)>,
    pub(crate) there: BTreeSet<i64>,
    pub(crate) strays: usize,
}

fn ids() -> Vec<FileId> {
    (1..=FILES).filter_map(FileId::new).collect()
}

fn upload(store: &MemoryStore, file_id: FileId, created_at: Timestamp) {
    let blob_id = BlobId::new(file_id.get()).unwrap();
    let object_key = file_id.to_string();
    let sha256 = chain::content_hash(&object_key);
    let blob = NewBlob {
        blob_id,
        object_key,
        size_bytes: 1,
        created_at,
    };
    now!(store.add_blob(&blob));
    let file = NewFile {
        file_id,
        // Two of them are of somebody who hardly ever says anything.
        uploader: Principal::user(file_id.get()),
        name: "a".to_owned(),
        media_type: "a/a".to_owned(),
        blob_id,
        created_at,
    };
    now!(store.add_file(&file));
    now!(store.settle_blob(blob_id, sha256, 1, created_at));
    let finished = FinishedFile {
        file_id,
        media_type: file.media_type,
        blob_id,
        dimensions: None,
        thumbnail: None,
    };
    assert!(now!(store.finish_file(&finished)));
}

pub(crate) fn upload_all(store: &MemoryStore, at: Timestamp) {
    for file in ids() {
        upload(store, file, at);
    }
}

/// One step of the sweep, or an upload of what has gone. Answers what happened.
pub(crate) fn sweep(store: &MemoryStore, dice: &Dice, at: Timestamp) -> Option<&'static str> {
    let there = now!(store.files(&ids()));
    let gone: Vec<FileId> = ids()
        .into_iter()
        .filter(|id| there.iter().all(|file| file.file_id != *id))
        .collect();
    if let Some(file) = dice.pick(&gone) {
        upload(store, *file, at);
        return Some("file: uploaded again");
    }
    let state = *dice.pick(&[FileState::Ready, FileState::Expired])?;
    let ever = Timestamp::from_millis(i64::MAX);
    let loose = now!(store.loose_files(state, ever, 10));
    let file = *dice.pick(&loose)?;
    if now!(store.keep_file(file)) {
        return Some("file: kept");
    }
    if state == FileState::Ready && !now!(store.expire_file(file, at)) {
        return None;
    }
    // Often there is no time between the two: a commit may be under way that was decided before them.
    let at_once = LooseFile {
        file_id: file.file_id,
        since: if state == FileState::Ready { at } else { file.since },
    };
    if state == FileState::Ready && dice.below(3) == 0 {
        return Some("file: expired");
    }
    now!(store.remove_file(at_once, at)).then_some("file: removed")
}

/// What a content says besides its words: a file, or nothing.
pub(crate) fn attachment(dice: &Dice) -> String {
    if dice.below(5) > 0 {
        return String::new();
    }
    let file = 1 + dice.below(usize::try_from(FILES).unwrap());
    format!(",\"attachments\":[{{\"file_id\":\"{file}\"}}]")
}

pub(crate) fn take(store: &MemoryStore, stored: &[Stored]) -> Filed {
    let all = stored.iter().flat_map(|place| &place.messages);
    let messages: Vec<MessageId> = all.filter_map(|message| MessageId::new(message.message_id)).collect();
    let references = now!(store.references(&messages)).into_iter();
    let there = now!(store.files(&ids())).into_iter();
    Filed {
        references: references.map(|(message, file)| (message.get(), file.get())).collect(),
        there: there.map(|file| file.file_id.get()).collect(),
        strays: now!(store.stray_references(None, u32::MAX)).strays.len(),
    }
}

/// Read anew, with nothing of the domain.
fn shown_in(content: &str) -> Vec<i64> {
    let content: Value = serde_json::from_str(content).unwrap();
    let entries = content["attachments"].as_array().into_iter().flatten();
    entries
        .map(|entry| entry["file_id"].as_str().unwrap().parse().unwrap())
        .collect()
}

pub(crate) fn files_are_those_of_standing_messages(run: &Run) -> Findings {
    let mut found = Findings::of("INV-FILE-1");
    let mut shown = BTreeSet::new();
    for message in run.stored.iter().flat_map(|place| &place.messages) {
        shown.extend(
            shown_in(&message.content)
                .into_iter()
                .map(|file| (message.message_id, file)),
        );
    }
    let filed = &run.filed;
    for (message, file) in shown.symmetric_difference(&filed.references) {
        found.unless(false, || {
            format!("message {message} and file {file}: one refers, the other is not kept")
        });
    }
    for (message, file) in &shown {
        found.unless(filed.there.contains(file), || {
            format!("message {message} shows file {file}, which has gone")
        });
    }
    found.unless(filed.strays == 0, || format!("{} references of nothing", filed.strays));
    found
}
