//! What clients do that no client should. Good days are tested through the doors (`tests/api`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use tokio::time::{Instant, sleep};

use super::{Announced, FileOptions, Files};
use crate::blobs::{Blobs, Place};
use crate::clock::SystemClock;
use crate::domain::snowflake::Snowflake;
use crate::domain::{Code, FileState, Principal, Timestamp};
use crate::ids::Ids;
use crate::service::ServiceError;
use crate::storage::FileStore;
use crate::storage::memory::MemoryStore;

struct World {
    files: Files,
    store: Arc<MemoryStore>,
    blobs: Arc<Blobs>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(&Place::Folder(folder.path().join("objects")), 1 << 30, true).unwrap();
        let store = Arc::new(MemoryStore::default());
        let flake = Snowflake::new(0, Timestamp::from_millis(0)).unwrap();
        let ids = Ids::new(Arc::new(SystemClock), flake, Timestamp::from_millis(i64::MAX));
        let options = FileOptions {
            upload_bytes_max: 1_000_000,
            uploads_at_once: 2,
            upload_time_max: Duration::from_hours(1),
            picture_pixels_max: 1_000,
            signed_for: Duration::from_mins(1),
            redirect: false,
        };
        let files = Files::new(
            Arc::<MemoryStore>::clone(&store),
            Arc::clone(&blobs),
            Arc::new(ids),
            Arc::new(SystemClock),
            options,
        );
        Self {
            files,
            store,
            blobs,
            _folder: folder,
        }
    }

    async fn upload(&self, bytes: impl Stream<Item = Result<Bytes, ServiceError>>) -> Result<(), Code> {
        let (ann, announced) = (Principal::user(1), Announced::default());
        let seat = self.files.seat(ann).unwrap();
        let uploaded = self.files.upload(seat, ann, announced, bytes).await;
        uploaded.map(drop).map_err(|error| error.code)
    }

    async fn assert_nothing_is_left(&self) {
        self.blobs.clear_abandoned().await.unwrap();
        let objects: Vec<_> = self.blobs.list().try_collect().await.unwrap();
        assert_eq!(objects, []);
        let far = Timestamp::from_millis(i64::MAX);
        for state in [FileState::Uploading, FileState::Ready, FileState::Expired] {
            assert_eq!(self.store.loose_files(state, far, 10).await.unwrap(), []);
        }
        let unfinished = self.store.loose_blobs(far, 10).await.unwrap();
        assert!(unfinished.iter().all(|loose| !loose.live), "{unfinished:?}");
    }
}

fn chunk(length: usize) -> Bytes {
    Bytes::from(vec![7; length])
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_in_the_middle_loses_the_seat() {
    let world = World::new();
    let silent = stream::iter([Ok(chunk(300_000))]).chain(stream::pending());
    let begun = Instant::now();
    assert_eq!(world.upload(silent).await, Err(Code::InvalidRequest));
    assert!(begun.elapsed() < Duration::from_secs(31), "{:?}", begun.elapsed());
    world.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn who_only_drips_loses_the_seat_and_who_is_slow_does_not() {
    let world = World::new();
    let paced = |length: usize, count: usize| {
        stream::iter(0..count).then(move |_| async move {
            sleep(Duration::from_secs(20)).await;
            Ok(chunk(length))
        })
    };
    let begun = Instant::now();
    assert_eq!(world.upload(paced(1, 1_000)).await, Err(Code::InvalidRequest));
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
    world.assert_nothing_is_left().await;
    assert_eq!(world.upload(paced(30_000, 10)).await, Ok(()));
}

#[tokio::test]
async fn what_breaks_off_or_is_too_large_leaves_nothing() {
    let world = World::new();
    let broken = || ServiceError::new(Code::InvalidRequest, "broke off");
    let breaks = stream::iter([Ok(chunk(300_000)), Err(broken())]);
    assert_eq!(world.upload(breaks).await, Err(Code::InvalidRequest));
    let large = stream::iter([Ok(chunk(900_000)), Ok(chunk(100_001)), Err(broken())]);
    assert_eq!(world.upload(large).await, Err(Code::PayloadTooLarge));
    world.assert_nothing_is_left().await;
}

/// An upload that takes longer than its row is kept.
#[tokio::test]
async fn an_upload_whose_row_has_gone_is_to_be_made_again() {
    let world = World::new();
    let store = Arc::clone(&world.store);
    let takes_long = stream::once(async move {
        let far = Timestamp::from_millis(i64::MAX);
        for loose in store.loose_files(FileState::Uploading, far, 10).await.unwrap() {
            store.drop_upload(loose.file_id, Timestamp::default()).await.unwrap();
        }
        Ok(chunk(10))
    });
    assert_eq!(world.upload(takes_long).await, Err(Code::Unavailable));
}
