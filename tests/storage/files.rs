//! Files, their bytes, and who may read them because of what refers to them.

use std::collections::HashSet;

use onescribe::domain::{
    ActionType, Blob, BlobId, Command, Content, Digest, Dimensions, File, FileId, FileState, HeaderPatch,
    HistoryVisibility, MessageId, Personal, Principal, Seq, Timestamp, Touch, chain,
};
use onescribe::storage::{FinishedFile, LooseFile, NewBlob, NewFile, Store};

use super::builder::{Held, NOW, next_id, origin, send_raw};
use super::own::{ANNA, BEN, Inbox, clear};
use super::suite::Fixture;

const CY: Principal = Principal::user(3);

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW + millis)
}

pub(crate) fn digest(bytes: &str) -> Digest {
    chain::content_hash(bytes)
}

/// Bytes that begin to be written.
pub(crate) async fn begin(store: &dyn Store, now: i64) -> NewBlob {
    let id = next_id();
    let blob = NewBlob {
        blob_id: BlobId::new(id).unwrap(),
        object_key: format!("ab/cd/{id}"),
        size_bytes: 0,
        created_at: at(now),
    };
    store.add_blob(&blob).await.unwrap();
    blob
}

/// A file whose bytes begin to be written.
pub(crate) async fn uploading(store: &dyn Store, uploader: Principal, now: i64) -> NewFile {
    let file = NewFile {
        file_id: FileId::new(next_id()).unwrap(),
        uploader,
        name: "Bücher 🎉.pdf".to_owned(),
        media_type: "application/pdf".to_owned(),
        blob_id: begin(store, now).await.blob_id,
        created_at: at(now),
    };
    store.add_file(&file).await.unwrap();
    file
}

/// A file of bytes that nobody else has.
pub(crate) async fn ready(store: &dyn Store, uploader: Principal, now: i64) -> FileId {
    let file = uploading(store, uploader, now).await;
    let bytes = digest(&format!("{}", file.file_id));
    let blob = store.settle_blob(file.blob_id, bytes, 10, at(now)).await.unwrap();
    assert!(finish(store, &file, &blob).await);
    file.file_id
}

pub(crate) async fn finish(store: &dyn Store, file: &NewFile, blob: &Blob) -> bool {
    let finished = FinishedFile {
        file_id: file.file_id,
        media_type: file.media_type.clone(),
        blob_id: blob.blob_id,
        dimensions: None,
        thumbnail: None,
    };
    store.finish_file(&finished).await.unwrap()
}

pub(crate) async fn file(store: &dyn Store, id: FileId) -> Option<File> {
    store.files(&[id]).await.unwrap().pop()
}

pub(crate) fn content(files: &[FileId]) -> String {
    let list: Vec<String> = files.iter().map(|id| format!("{{\"file_id\":\"{id}\"}}")).collect();
    format!("{{\"text\":\"x\",\"attachments\":[{}]}}", list.join(","))
}

/// Sends a message with these files.
async fn show(store: &dyn Store, room: &mut Held, sender: Principal, files: &[FileId]) -> MessageId {
    let send = send_raw(sender, &format!("{}", next_id()), &content(files));
    room.commit(&mut *store.writer(), &[send]).await;
    let seq = room.state.as_ref().unwrap().head.last_seq;
    let before = Seq::new(seq.get() - 1);
    store.messages_after(room.id, before, 1).await.unwrap()[0].message_id
}

fn hide(message_id: MessageId) -> Personal {
    Personal::Set {
        message_id,
        action_type: ActionType::Delete,
        remind_at: None,
        payload: None,
    }
}

pub(crate) async fn shared(store: &dyn Store, id: FileId, viewer: Principal) -> bool {
    store.shared_with(&[id], viewer).await.unwrap().contains(&id)
}

/// Loose files of a state, as far as they are among `ids`.
pub(crate) async fn loose(store: &dyn Store, state: FileState, before: i64, ids: &[FileId]) -> Vec<LooseFile> {
    let mut loose = store.loose_files(state, at(before), 10_000).await.unwrap();
    loose.retain(|loose| ids.contains(&loose.file_id));
    loose
}

pub(crate) async fn an_upload_becomes_a_file_and_comes_back_as_it_was(fixture: &Fixture) {
    let store = &*fixture.store;
    let new = uploading(store, ANNA, 0).await;
    let (id, viewer) = (new.file_id, ANNA);
    assert_eq!(file(store, id).await.unwrap().state, FileState::Uploading);
    assert_eq!(
        store.readable_file(id, viewer).await.unwrap(),
        None,
        "not before it is whole"
    );
    let blob = store
        .settle_blob(new.blob_id, digest("an upload"), 9, at(1))
        .await
        .unwrap();
    let again = store
        .settle_blob(new.blob_id, digest("an upload"), 9, at(1))
        .await
        .unwrap();
    assert_eq!((again, blob.blob_id), (blob.clone(), new.blob_id), "twice is once");
    let small = begin(store, 1).await;
    let small = store
        .settle_blob(small.blob_id, digest("a thumbnail"), 3, at(1))
        .await
        .unwrap();
    let dimensions = Some(Dimensions {
        width: 640,
        height: 480,
    });
    let finished = FinishedFile {
        file_id: id,
        media_type: "image/png".to_owned(),
        blob_id: blob.blob_id,
        dimensions,
        thumbnail: Some(small.blob_id),
    };
    assert!(store.finish_file(&finished).await.unwrap());
    assert!(!store.finish_file(&finished).await.unwrap(), "it is finished once");
    let expected = File {
        file_id: id,
        uploader: ANNA,
        name: new.name,
        media_type: "image/png".to_owned(),
        state: FileState::Ready,
        blob: Blob {
            blob_id: new.blob_id,
            object_key: blob.object_key.clone(),
            sha256: Some(digest("an upload")),
            size_bytes: 9,
        },
        dimensions,
        thumbnail: Some(small),
        created_at: at(0),
    };
    assert_eq!(store.readable_file(id, viewer).await.unwrap(), Some(expected));
    assert_eq!(store.readable_file(id, BEN).await.unwrap(), None);
    let server = store.readable_file(id, Principal::SYSTEM).await.unwrap();
    assert!(server.is_some(), "the server itself may");
    let agent = Principal::agent(ANNA.id);
    assert_eq!(
        store.readable_file(id, agent).await.unwrap(),
        None,
        "same number, other kind"
    );
}

pub(crate) async fn the_same_bytes_are_kept_once_also_when_they_come_at_once(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut files = Vec::new();
    for _ in 0..20 {
        files.push(uploading(store, ANNA, 0).await);
    }
    let settle = files
        .iter()
        .map(|file| store.settle_blob(file.blob_id, digest("many"), 4, at(5)));
    let settled = futures_util::future::join_all(settle).await;
    let blobs: HashSet<BlobId> = settled.iter().map(|blob| blob.as_ref().unwrap().blob_id).collect();
    assert_eq!(blobs.len(), 1);
    for (new, blob) in files.iter().zip(settled) {
        let blob = blob.unwrap();
        assert!(finish(store, new, &blob).await);
        assert_eq!(file(store, new.file_id).await.unwrap().blob, blob);
        // What was written for nothing can be forgotten at once, and only that.
        let ours = blob.blob_id == new.blob_id;
        assert_eq!(store.forget_blob(new.blob_id).await.unwrap(), !ours);
    }
}

pub(crate) async fn a_file_is_shared_with_those_who_see_a_message_that_refers_to_it(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut writer, id, other) = (store.writer(), ready(store, ANNA, 0).await, ready(store, ANNA, 0).await);
    let mut room = Held::group(&mut *writer, ANNA, &[BEN]).await;
    assert!(!shared(store, id, BEN).await);
    show(store, &mut room, ANNA, &[id]).await;
    assert!(shared(store, id, BEN).await && shared(store, id, ANNA).await);
    assert!(!shared(store, id, CY).await && !shared(store, other, BEN).await);
    let both = store.readable_files(&[id, other], BEN).await.unwrap();
    assert_eq!(both.iter().map(|file| file.file_id).collect::<Vec<_>>(), [id]);
    assert_eq!(store.readable_files(&[id, other], ANNA).await.unwrap().len(), 2);
    let left = Command::RemoveMember {
        origin: origin(BEN),
        target: BEN,
    };
    room.commit(&mut *writer, &[left]).await;
    assert!(!shared(store, id, BEN).await, "who has left sees nothing any more");
    // The right travels: what BEN had sent on is theirs to see who see that.
    let mut elsewhere = Held::group(&mut *writer, ANNA, &[BEN, CY]).await;
    show(store, &mut elsewhere, ANNA, &[other, id]).await;
    for viewer in [BEN, CY] {
        assert!(shared(store, id, viewer).await && shared(store, other, viewer).await);
    }
}

pub(crate) async fn in_a_group_that_hides_its_past_a_file_of_the_past_is_not_shared(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut writer, old, new) = (store.writer(), ready(store, ANNA, 0).await, ready(store, ANNA, 0).await);
    let mut room = Held::group(&mut *writer, ANNA, &[]).await;
    show(store, &mut room, ANNA, &[old]).await;
    let add = Command::AddMembers {
        origin: origin(ANNA),
        members: vec![BEN],
    };
    room.commit(&mut *writer, &[add]).await;
    show(store, &mut room, ANNA, &[new]).await;
    assert!(shared(store, old, BEN).await && shared(store, new, BEN).await);
    let patch = HeaderPatch {
        history_visibility: Some(HistoryVisibility::Joined),
        ..HeaderPatch::default()
    };
    let origin = origin(ANNA);
    room.commit(&mut *writer, &[Command::Update { origin, patch }]).await;
    assert!(!shared(store, old, BEN).await && shared(store, new, BEN).await);
    assert!(shared(store, old, ANNA).await);
}

pub(crate) async fn what_i_have_cleared_or_deleted_for_myself_shares_no_file_with_me(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut room = Held::group(&mut *writer, ANNA, &[BEN, CY]).await;
    let (one, two, three) = (
        ready(store, ANNA, 0).await,
        ready(store, ANNA, 0).await,
        ready(store, ANNA, 0).await,
    );
    show(store, &mut room, ANNA, &[one]).await;
    let second = show(store, &mut room, ANNA, &[two]).await;
    show(store, &mut room, ANNA, &[three]).await;
    let mut inbox = Inbox::of(store, BEN).await;
    inbox.does(store, &[hide(second)]).await;
    assert!(shared(store, one, BEN).await && !shared(store, two, BEN).await && shared(store, three, BEN).await);
    inbox.does(store, &[clear(&room, 3)]).await;
    assert!(!shared(store, one, BEN).await && shared(store, three, BEN).await);
    for file in [one, two, three] {
        assert!(shared(store, file, CY).await, "nobody else is concerned");
    }
}

pub(crate) async fn a_file_that_stands_in_many_messages_is_found_in_mine(fixture: &Fixture) {
    let store = &*fixture.store;
    let (mut writer, id) = (store.writer(), ready(store, ANNA, 0).await);
    let mut mine = Held::group(&mut *writer, ANNA, &[BEN]).await;
    show(store, &mut mine, ANNA, &[id]).await;
    let mut loud = Held::group(&mut *writer, ANNA, &[CY]).await;
    let sends: Vec<Command> = (0..100)
        .map(|n| send_raw(ANNA, &format!("{n}"), &content(&[id])))
        .collect();
    loud.commit(&mut *writer, &sends).await;
    assert!(shared(store, id, BEN).await && shared(store, id, CY).await);
    assert!(!shared(store, id, Principal::user(4)).await);
    let first = store.messages_after(mine.id, Seq::new(1), 1).await.unwrap()[0].message_id;
    let mut inbox = Inbox::of(store, BEN).await;
    inbox.does(store, &[hide(first)]).await;
    assert!(!shared(store, id, BEN).await, "a hundred others do not help");
}

pub(crate) async fn references_follow_the_present_content_of_a_message(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut room = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let (one, two) = (ready(store, ANNA, 0).await, ready(store, ANNA, 0).await);
    let all = [one, two];
    let message = show(store, &mut room, ANNA, &[one]).await;
    for loose in loose(store, FileState::Ready, 0, &all).await {
        assert_eq!(store.keep_file(loose).await.unwrap(), loose.file_id == one);
    }
    let edit = |files: &[FileId]| Touch::Edit(Content::trusted(&content(files)));
    room.touch(store, ANNA, message, edit(&[two])).await;
    assert!(!shared(store, one, BEN).await && shared(store, two, BEN).await);
    let since = Timestamp::from_millis(room.now);
    let again = loose(store, FileState::Ready, i64::MAX - NOW, &[one]).await;
    assert_eq!(
        again,
        [LooseFile { file_id: one, since }],
        "what was let go is to be looked at anew"
    );
    room.touch(store, ANNA, message, edit(&[one, two])).await;
    assert!(shared(store, one, BEN).await && shared(store, two, BEN).await);
    let recall = Touch::Recall {
        received_at: Timestamp::default(),
        window_ms: 0,
    };
    room.touch(store, ANNA, message, recall).await;
    assert!(!shared(store, one, BEN).await && !shared(store, two, BEN).await);
    assert!(
        store.readable_file(one, ANNA).await.unwrap().is_some(),
        "its uploader still may"
    );
    let message = show(store, &mut room, ANNA, &[two]).await;
    room.touch(store, ANNA, message, Touch::Delete).await;
    assert!(!shared(store, two, BEN).await);
}

pub(crate) async fn objects_and_rows_are_listed_for_who_compares_them(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut blobs = Vec::new();
    for _ in 0..3 {
        blobs.push(begin(store, 0).await);
    }
    let before = BlobId::new(blobs[0].blob_id.get() - 1);
    let page = store.blobs_after(before, 2).await.unwrap();
    let ids: Vec<BlobId> = page.iter().map(|blob| blob.blob_id).collect();
    assert_eq!(ids, [blobs[0].blob_id, blobs[1].blob_id]);
    let page = store.blobs_after(ids.last().copied(), 2).await.unwrap();
    assert_eq!(page[0].object_key, blobs[2].object_key);
    let keys = [
        blobs[1].object_key.clone(),
        "AB/cd/1".to_owned(),
        blobs[0].object_key.to_uppercase(),
    ];
    let known = store.known_objects(&keys).await.unwrap();
    assert_eq!(known, HashSet::from([blobs[1].object_key.clone()]));
}
