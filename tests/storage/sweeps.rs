//! How files and bytes go that nobody needs, and that nothing goes that somebody needs.

use onescribe::domain::FileState;
use onescribe::storage::{CommitError, LooseFile, Store};

use super::builder::{Held, NOW, commit_one, send, send_raw};
use super::files::{at, begin, content, digest, file, finish, loose, ready, shared, uploading};
use super::own::{ANNA, BEN};
use super::suite::Fixture;

pub(crate) async fn a_file_that_nothing_refers_to_goes_in_steps(fixture: &Fixture) {
    let store = &*fixture.store;
    let (one, half) = (ready(store, ANNA, 0).await, uploading(store, ANNA, 0).await.file_id);
    let all = [one, half];
    assert_eq!(
        loose(store, FileState::Ready, -1, &all).await,
        [],
        "not before its time"
    );
    for (id, state) in [(one, FileState::Ready), (half, FileState::Uploading)] {
        let found = loose(store, state, 0, &all).await;
        assert_eq!(
            found,
            [LooseFile {
                file_id: id,
                since: at(0)
            }]
        );
        assert!(!store.keep_file(found[0]).await.unwrap(), "nothing refers to it");
        assert!(
            !store.remove_file(found[0], at(1)).await.unwrap(),
            "not before it was marked"
        );
        assert!(store.expire_file(found[0], at(100)).await.unwrap());
        assert!(
            !store.expire_file(found[0], at(100)).await.unwrap(),
            "another has done it"
        );
        assert_eq!(store.readable_file(id, ANNA).await.unwrap(), None);
        let expired = loose(store, FileState::Expired, 100, &[id]).await;
        assert_eq!(
            expired,
            [LooseFile {
                file_id: id,
                since: at(100)
            }]
        );
        assert!(!store.remove_file(found[0], at(1)).await.unwrap(), "it has moved on");
        assert!(store.remove_file(expired[0], at(200)).await.unwrap());
        assert_eq!(file(store, id).await, None);
    }
}

pub(crate) async fn a_reference_that_comes_late_keeps_its_file_and_one_that_comes_too_late_is_refused(
    fixture: &Fixture,
) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut room = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let (kept, gone) = (ready(store, ANNA, 0).await, ready(store, ANNA, 0).await);
    // Both were judged while the files were there.
    let late = room.decide(&[send_raw(ANNA, "late", &content(&[kept]))]);
    for found in loose(store, FileState::Ready, 0, &[kept, gone]).await {
        assert!(store.expire_file(found, at(100)).await.unwrap());
    }
    assert_eq!(commit_one(&mut *writer, &late).await, Ok(()));
    room.apply(&late);
    assert!(store.readable_file(kept, BEN).await.unwrap().is_some(), "at once");
    let too_late = room.decide(&[send_raw(ANNA, "too late", &content(&[gone]))]);
    for expired in loose(store, FileState::Expired, 100, &[kept, gone]).await {
        let is_kept = expired.file_id == kept;
        assert_eq!(store.remove_file(expired, at(200)).await.unwrap(), !is_kept);
        assert_eq!(store.keep_file(expired).await.unwrap(), is_kept);
    }
    assert_eq!(commit_one(&mut *writer, &too_late).await, Err(CommitError::Failed));
    let beside = room.decide(&[send(ANNA, "beside", "x")]);
    assert_eq!(
        commit_one(&mut *writer, &beside).await,
        Ok(()),
        "nothing of it is stored"
    );
    assert_eq!(file(store, kept).await.unwrap().state, FileState::Ready);
    assert_eq!(loose(store, FileState::Ready, i64::MAX - NOW, &[kept]).await, []);
}

/// One look at everything, without any grace. What the database refuses is looked at again.
async fn sweep(store: &dyn Store, now: i64) {
    for state in [FileState::Ready, FileState::Expired] {
        for file in loose_of(store, state).await {
            if !store.keep_file(file).await.unwrap_or(true) {
                match state {
                    FileState::Ready => store.expire_file(file, at(now)).await.ok(),
                    _ => store.remove_file(file, at(now)).await.ok(),
                };
            }
        }
    }
}

async fn loose_of(store: &dyn Store, state: FileState) -> Vec<LooseFile> {
    store
        .loose_files(state, at(1_000_000), 10_000)
        .await
        .unwrap_or_default()
}

pub(crate) async fn senders_and_sweepers_at_once_leave_no_message_without_its_file(fixture: &Fixture) {
    const SENDERS: usize = 4;
    const EACH: usize = 12;
    let store = &*fixture.store;
    let sending = async |sender: usize| {
        let mut writer = store.writer();
        let mut room = Held::group(&mut *writer, ANNA, &[BEN]).await;
        let mut sent = Vec::new();
        for n in 0..EACH {
            let id = ready(store, ANNA, 0).await;
            // Decided while it was there; sometimes the sweep has time for more than one look.
            let commit = room.decide(&[send_raw(ANNA, &format!("{sender} {n}"), &content(&[id]))]);
            for _ in 0..n % 4 {
                sweep(store, i64::try_from(n).unwrap()).await;
            }
            let result = commit_one(&mut *writer, &commit).await;
            if result.is_ok() {
                room.apply(&commit);
            }
            sent.push((id, result));
        }
        sent
    };
    let all = futures_util::future::join_all((0..SENDERS).map(sending)).await;
    for _ in 0..3 {
        sweep(store, 100).await;
    }
    let mut kept = 0;
    for (id, result) in all.into_iter().flatten() {
        let there = file(store, id).await.is_some();
        match result {
            Ok(()) => assert!(there && shared(store, id, BEN).await, "file {id} of a message has gone"),
            Err(error) => assert_eq!((error, there), (CommitError::Failed, false), "file {id}"),
        }
        kept += usize::from(there);
    }
    assert!(kept > 0 && kept < SENDERS * EACH, "{kept} kept: nothing was at stake");
}

pub(crate) async fn bytes_go_when_no_file_has_them_and_not_before(fixture: &Fixture) {
    let store = &*fixture.store;
    let id = ready(store, ANNA, 0).await;
    let blob = file(store, id).await.unwrap().blob;
    let ours = async |before: i64| {
        let mut loose = store.loose_blobs(at(before), 10_000).await.unwrap();
        loose.retain(|loose| loose.blob.blob_id == blob.blob_id);
        loose.pop()
    };
    let loose_blob = ours(0).await.unwrap();
    assert!(loose_blob.live && loose_blob.blob == blob && loose_blob.touched_at == at(0));
    assert!(!store.retire_blob(&loose_blob, at(1)).await.unwrap(), "a file has them");
    assert!(!store.forget_blob(blob.blob_id).await.unwrap());
    assert!(store.keep_blob(&loose_blob).await.unwrap());
    assert!(!store.keep_blob(&loose_blob).await.unwrap(), "another has done it");
    assert_eq!(ours(i64::MAX - NOW).await, None);
    let found = loose(store, FileState::Ready, 0, &[id]).await;
    assert!(store.expire_file(found[0], at(10)).await.unwrap());
    let expired = loose(store, FileState::Expired, 10, &[id]).await;
    assert!(store.remove_file(expired[0], at(20)).await.unwrap());
    assert_eq!(ours(19).await, None);
    let loose_blob = ours(20).await.expect("they were let go with the file");
    assert!(!store.keep_blob(&loose_blob).await.unwrap());
    assert!(
        !store.forget_blob(blob.blob_id).await.unwrap(),
        "an upload may still take them"
    );
    assert!(store.retire_blob(&loose_blob, at(30)).await.unwrap());
    let retired = ours(30).await.unwrap();
    assert!(!retired.live);
    store.touch_blob(blob.blob_id, at(40)).await.unwrap();
    assert_eq!(ours(40).await.unwrap().touched_at, at(40), "it could not be removed");
    assert!(store.forget_blob(blob.blob_id).await.unwrap());
    assert!(!store.forget_blob(blob.blob_id).await.unwrap());
}

pub(crate) async fn what_is_on_its_way_out_is_taken_by_no_upload(fixture: &Fixture) {
    let store = &*fixture.store;
    let first = begin(store, 0).await;
    let bytes = digest("on its way out");
    let blob = store.settle_blob(first.blob_id, bytes, 1, at(0)).await.unwrap();
    let retire = async |before: i64| {
        let mut loose = store.loose_blobs(at(before), 10_000).await.unwrap();
        loose.retain(|loose| loose.blob.blob_id == blob.blob_id);
        store.retire_blob(&loose[0], at(before)).await.unwrap()
    };
    let second = uploading(store, ANNA, 5).await;
    assert_eq!(store.settle_blob(second.blob_id, bytes, 1, at(5)).await.unwrap(), blob);
    assert!(
        retire(5).await,
        "no file names them yet: the upload was held up for too long"
    );
    assert!(!finish(store, &second, &blob).await, "so it has to begin anew");
    let third = uploading(store, ANNA, 6).await;
    let fresh = store.settle_blob(third.blob_id, bytes, 1, at(6)).await.unwrap();
    assert_eq!(fresh.blob_id, third.blob_id);
    assert!(finish(store, &third, &fresh).await);
}

pub(crate) async fn an_upload_that_came_to_nothing_leaves_only_loose_bytes(fixture: &Fixture) {
    let store = &*fixture.store;
    let (half, whole) = (uploading(store, ANNA, 0).await, ready(store, ANNA, 0).await);
    store.drop_upload(half.file_id, at(7)).await.unwrap();
    store.drop_upload(whole, at(7)).await.unwrap();
    assert_eq!(file(store, half.file_id).await, None);
    assert!(file(store, whole).await.is_some(), "it is no upload any more");
    let loose = store.loose_blobs(at(7), 10_000).await.unwrap();
    let bytes = loose.iter().find(|loose| loose.blob.blob_id == half.blob_id);
    assert!(bytes.is_some_and(|bytes| !bytes.live && bytes.blob.sha256.is_none() && bytes.touched_at == at(7)));
    assert!(store.forget_blob(half.blob_id).await.unwrap());
}
