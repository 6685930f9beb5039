//! Where objects are kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientOptions, RetryConfig};
use secrecy::{ExposeSecret as _, SecretString};

use super::abandoned::Abandoned;
use super::{BlobError, Blobs, folder};

/// Parts of a file in a folder: only what is worth one write.
const FOLDER_PART_BYTES: usize = 256 * 1024;
/// The least that S3 takes as a part that is not the last.
const S3_PART_BYTES_MIN: u64 = 5 * 1024 * 1024;
/// The most parts of one S3 object.
const S3_PARTS_MAX: u64 = 10_000;
/// How long it may take to reach a bucket.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may be silent then: to put a large object together takes it a while.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(2);
/// How often and how long a request is repeated before its caller hears of it: a client asks again by itself.
const RETRIES_MAX: usize = 3;
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// A place for objects.
#[derive(Clone, Debug)]
pub enum Place {
    /// A folder of this machine, or one that all machines of this store see.
    Folder(PathBuf),
    /// A bucket.
    S3(S3),
}

/// A bucket of an S3-compatible store.
#[derive(Clone, Debug)]
pub struct S3 {
    /// Its name.
    pub bucket: String,
    /// Keys begin with this; may be empty.
    pub prefix: String,
    /// The URL of the store; none = AWS.
    pub endpoint: Option<String>,
    /// Its region.
    pub region: String,
    /// The name of the key and the key; none = what the environment gives (`AWS_…`, the role of the machine).
    pub key: Option<(String, SecretString)>,
    /// Is plain HTTP to it allowed?
    pub allow_http: bool,
}

impl Blobs {
    /// Opens a place; with `make` a folder is made when it is missing. A bucket is not asked for anything yet, so that a server
    /// starts while it is away. `object_bytes_max` is the size of the largest object.
    ///
    /// # Errors
    /// [`BlobError::Unavailable`]: the folder cannot be used or the keys cannot be used; without secrets.
    pub fn open(place: &Place, object_bytes_max: u64, make: bool) -> Result<Arc<Self>, BlobError> {
        let blobs = match place {
            Place::Folder(path) => {
                let wrong = |error: std::io::Error| BlobError::Unavailable(format!("{}: {error}", path.display()));
                if make {
                    folder::make(path).map_err(wrong)?;
                }
                let store = LocalFileSystem::new_with_prefix(path)?.with_fsync(true);
                Self {
                    store: Arc::new(store),
                    signer: None,
                    prefix: Path::default(),
                    part_bytes: FOLDER_PART_BYTES,
                    folder: Some(path.clone()),
                    abandoned: Abandoned::default(),
                }
            }
            Place::S3(s3) => {
                let store = Arc::new(builder(s3).build()?);
                Self {
                    store: Arc::<object_store::aws::AmazonS3>::clone(&store),
                    signer: Some(store),
                    prefix: Path::parse(&s3.prefix).map_err(object_store::Error::from)?,
                    part_bytes: s3_part_bytes(object_bytes_max),
                    folder: None,
                    abandoned: Abandoned::default(),
                }
            }
        };
        Ok(Arc::new(blobs))
    }
}

/// As small as the largest object allows.
fn s3_part_bytes(object_bytes_max: u64) -> usize {
    let part = object_bytes_max.div_ceil(S3_PARTS_MAX).max(S3_PART_BYTES_MIN);
    usize::try_from(part).unwrap_or(usize::MAX)
}

fn builder(s3: &S3) -> AmazonS3Builder {
    let builder = match &s3.key {
        Some((id, secret)) => AmazonS3Builder::new()
            .with_access_key_id(id)
            .with_secret_access_key(secret.expose_secret()),
        None => AmazonS3Builder::from_env(),
    };
    // Without a limit on a whole request: a large file to a slow client takes its time.
    let client = ClientOptions::new()
        .with_allow_http(s3.allow_http)
        .with_timeout_disabled()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(SILENCE_TIMEOUT);
    let builder = builder
        .with_bucket_name(&s3.bucket)
        .with_region(&s3.region)
        .with_client_options(client)
        .with_retry(RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_TIMEOUT,
            ..RetryConfig::default()
        });
    match &s3.endpoint {
        Some(endpoint) => builder.with_endpoint(endpoint),
        None => builder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_small_as_the_largest_object_allows() {
        assert_eq!(s3_part_bytes(100 << 20), 5 << 20);
        let part = u64::try_from(s3_part_bytes(1 << 40)).unwrap();
        assert!(part * S3_PARTS_MAX >= 1 << 40 && part < 120 << 20, "{part}");
    }
}
