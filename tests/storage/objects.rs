//! The contract of the store of bytes, held by a folder and by a bucket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::TryStreamExt;
use onescribe::blobs::{BlobError, Blobs, ObjectKey, Place, S3};
use onescribe::domain::Digest;
use sha2::Digest as _;

use crate::s3;

/// So large may an object be here.
const BYTES_MAX: u64 = 1 << 30;

/// A place, and a way to look into it past the store.
struct World {
    blobs: Arc<Blobs>,
    inside: Inside,
}

enum Inside {
    Folder(tempfile::TempDir),
    Bucket(s3::S3),
}

impl World {
    fn folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::Folder(folder.path().join("objects"));
        Self {
            blobs: Blobs::open(&place, BYTES_MAX, true).unwrap(),
            inside: Inside::Folder(folder),
        }
    }

    async fn bucket() -> Self {
        let s3 = s3::S3::start().await;
        Self {
            blobs: Blobs::open(&place(&s3, s3::KEY), BYTES_MAX, true).unwrap(),
            inside: Inside::Bucket(s3),
        }
    }

    /// Every file that is there, complete or not.
    fn files(&self) -> Vec<PathBuf> {
        match &self.inside {
            Inside::Folder(folder) => {
                let mut found = Vec::new();
                let mut folders = vec![folder.path().to_owned()];
                while let Some(folder) = folders.pop() {
                    for entry in std::fs::read_dir(folder).unwrap() {
                        let path = entry.unwrap().path();
                        if path.is_dir() { &mut folders } else { &mut found }.push(path);
                    }
                }
                found
            }
            Inside::Bucket(s3) => s3.objects(),
        }
    }

    async fn write(&self, bytes: &[u8]) -> ObjectKey {
        let mut writing = self.blobs.write(ObjectKey::fresh());
        for chunk in bytes.chunks(100_000) {
            writing.write(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        let stored = writing.finish().await.unwrap();
        assert_eq!(stored.size_bytes(), u64::try_from(bytes.len()).unwrap());
        assert_eq!(stored.sha256(), Digest::new(sha2::Sha256::digest(bytes).into()));
        stored.keep()
    }

    async fn read(&self, key: &ObjectKey, range: std::ops::Range<u64>) -> Result<Vec<u8>, BlobError> {
        let chunks: Vec<Bytes> = self.blobs.read(key, range).await?.try_collect().await?;
        Ok(chunks.concat())
    }

    async fn listed(&self) -> Vec<(ObjectKey, u64)> {
        let found: Vec<_> = self.blobs.list().try_collect().await.unwrap();
        let mut found: Vec<_> = found.into_iter().map(|found| (found.key, found.size_bytes)).collect();
        found.sort();
        found
    }
}

fn place(s3: &s3::S3, key: &str) -> Place {
    Place::S3(S3 {
        bucket: s3::BUCKET.to_owned(),
        prefix: "some/where".to_owned(),
        endpoint: Some(s3.endpoint()),
        region: "us-east-1".to_owned(),
        key: Some((s3::KEY_ID.to_owned(), key.into())),
        allow_http: true,
    })
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(length);
    bytes
}

async fn what_is_written_comes_back(world: &World) {
    let part = world.blobs.part_bytes();
    for length in [0, 1, part - 1, part, part + 1, 2 * part + 3] {
        let bytes = noise(length);
        let (key, end) = (world.write(&bytes).await, u64::try_from(length).unwrap());
        assert_eq!(world.blobs.size_bytes(&key).await.unwrap(), end);
        assert!(world.read(&key, 0..end).await.unwrap() == bytes, "{length} bytes");
        assert!(world.read(&key, end / 3..end / 2).await.unwrap() == bytes[length / 3..length / 2]);
    }
}

async fn what_is_given_up_in_the_middle_leaves_nothing(world: &World) {
    for length in [10, world.blobs.part_bytes() + 10] {
        let mut writing = world.blobs.write(ObjectKey::fresh());
        writing.write(noise(length).into()).await.unwrap();
        drop(writing);
        world.blobs.clear_abandoned().await.unwrap();
        assert_eq!(world.listed().await, []);
        // A folder removes its file by itself, on another thread.
        for _ in 0..1_000 {
            if world.files().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(world.files(), Vec::<PathBuf>::new(), "{length} bytes");
    }
}

async fn what_is_complete_and_nobody_keeps_goes(world: &World) {
    let kept = world.write(b"kept").await;
    let mut writing = world.blobs.write(ObjectKey::fresh());
    writing.write(Bytes::from_static(b"not kept")).await.unwrap();
    drop(writing.finish().await.unwrap());
    assert_eq!(world.listed().await.len(), 2);
    world.blobs.clear_abandoned().await.unwrap();
    assert_eq!(world.listed().await, [(kept.clone(), 4)]);
    for _ in 0..2 {
        world.blobs.remove(&kept).await.unwrap();
    }
    assert_eq!(world.listed().await, []);
    assert!(matches!(
        world.blobs.size_bytes(&kept).await,
        Err(BlobError::Missing(_))
    ));
    assert!(matches!(world.read(&kept, 0..4).await, Err(BlobError::Missing(_))));
}

macro_rules! held_by_both {
    ($($contract:ident)+) => {
        mod a_folder {
            $(#[tokio::test]
            async fn $contract() {
                super::$contract(&super::World::folder()).await;
            })+
        }
        mod a_bucket {
            $(#[tokio::test]
            async fn $contract() {
                super::$contract(&super::World::bucket().await).await;
            })+
        }
    };
}

held_by_both! {
    what_is_written_comes_back
    what_is_given_up_in_the_middle_leaves_nothing
    what_is_complete_and_nobody_keeps_goes
}

#[tokio::test]
async fn a_folder_is_its_owners_and_forgets_what_dead_writers_left() {
    let world = World::folder();
    let Inside::Folder(folder) = &world.inside else {
        unreachable!()
    };
    let objects = folder.path().join("objects");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&objects).unwrap().permissions().mode() & 0o777, 0o700);
    }
    let key = world.write(b"complete").await;
    let complete = objects.join(key.as_str());
    let (dead, alive) = (complete.with_extension("#1"), objects.join(format!("{key}#2")));
    let dead = dead.with_file_name(format!("{}#1", key.as_str().rsplit('/').next().unwrap()));
    let stranger = objects.join("not-ours.txt");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    for (path, is_old) in [(&dead, true), (&alive, false), (&stranger, true)] {
        let file = std::fs::File::create(path).unwrap();
        if is_old {
            file.set_modified(old).unwrap();
        }
    }
    world.blobs.remove_leftovers(Duration::from_hours(1)).await.unwrap();
    assert!(!dead.exists() && alive.exists() && stranger.exists() && complete.exists());
    assert_eq!(world.listed().await, [(key, 8)], "what is not ours is not listed");
    let incoming = ObjectKey::incoming(1);
    let nobody = world.blobs.sign_put(&incoming, "text/plain", Duration::from_mins(1));
    assert!(matches!(nobody.await, Err(BlobError::CannotSign)));
}

#[tokio::test]
async fn a_signed_address_is_for_one_object_of_one_type() {
    let world = World::bucket().await;
    let (key, http) = (ObjectKey::incoming(7), reqwest::Client::new());
    let signed = world
        .blobs
        .sign_put(&key, "image/png", Duration::from_mins(1))
        .await
        .unwrap();
    let put = async |url: &str, kind: &'static str, body: &'static str| {
        let request = http.put(url).header("content-type", kind).body(body);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(put(&signed.url, "text/html", "12345").await, 403, "another type");
    let elsewhere = signed.url.replace("/incoming/7", "/incoming/8");
    assert_eq!(put(&elsewhere, "image/png", "12345").await, 403, "another object");
    assert_eq!(world.listed().await, []);
    assert_eq!(put(&signed.url, "image/png", "12345").await, 200);
    assert_eq!(world.read(&key, 0..5).await.unwrap(), b"12345");

    let name = "attachment; filename=\"a b.png\"; filename*=UTF-8''%C3%A9.png";
    let get = world
        .blobs
        .sign_get(&key, "image/png", name, Duration::from_mins(1))
        .await
        .unwrap();
    let response = http.get(&get).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.bytes().await.unwrap(), "12345");
    let tampered = get.replace("image%2Fpng", "text%2Fhtml");
    assert_ne!(tampered, get);
    assert_eq!(http.get(tampered).send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn a_bucket_that_is_away_or_refuses_us_is_unavailable_and_comes_back() {
    let mut world = World::bucket().await;
    let key = world.write(b"here").await;
    let Inside::Bucket(s3) = &mut world.inside else {
        unreachable!()
    };
    let stranger = Blobs::open(&place(s3, "another secret"), BYTES_MAX, true).unwrap();
    assert!(matches!(
        stranger.size_bytes(&key).await,
        Err(BlobError::Unavailable(_))
    ));
    s3.stop().await;
    assert!(matches!(
        world.blobs.size_bytes(&key).await,
        Err(BlobError::Unavailable(_))
    ));
    let mut writing = world.blobs.write(ObjectKey::fresh());
    writing.write(Bytes::from_static(b"later")).await.unwrap();
    assert!(matches!(writing.finish().await.err(), Some(BlobError::Unavailable(_))));
    assert!(matches!(
        world.blobs.clear_abandoned().await,
        Err(BlobError::Unavailable(_))
    ));
    let Inside::Bucket(s3) = &mut world.inside else {
        unreachable!()
    };
    s3.start_again().await;
    world.blobs.clear_abandoned().await.unwrap();
    assert_eq!(world.listed().await, [(key, 4)]);
}
