//! Where the bytes of files are, and who keeps that place tidy.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use tokio::time::{Instant, sleep, timeout};

use super::core::Core;
use crate::blobs::{Blobs, Place, S3};
use crate::config::{Config, FilePlace};
use crate::service::{FileOptions, Files, Sweep};
use crate::storage::Store;

/// When what could not be removed is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// How often the whole place is looked through.
const LOOK_THROUGH_EVERY: Duration = Duration::from_hours(24);
/// Nobody pauses for so long in the middle of a file: its writer is dead.
const DEAD_AFTER: Duration = Duration::from_hours(1);

/// Opens the place. With `make` a folder that is missing is made, else it is an error.
///
/// # Errors
/// When a folder cannot be used, or the keys of a bucket cannot. A bucket that is away is no error.
pub fn open_blobs(config: &Config, make: bool) -> anyhow::Result<Arc<Blobs>> {
    let files = &config.files;
    let exposed = |secret: &Option<secrecy::SecretString>| secret.as_ref().map(|id| id.expose_secret().to_owned());
    let place = match config.file_place() {
        FilePlace::Folder(path) => Place::Folder(path),
        FilePlace::S3 { bucket, prefix } => Place::S3(S3 {
            bucket,
            prefix,
            endpoint: files.s3_endpoint.clone(),
            region: files.s3_region.clone(),
            key: exposed(&files.s3_access_key_id).zip(files.s3_secret_access_key.clone()),
            allow_http: files.s3_allow_http,
        }),
    };
    Blobs::open(&place, config.limits.upload_bytes, make).context("cannot use the store of files (files.store)")
}

/// The use cases around files.
#[must_use]
pub fn files(config: &Config, core: &Core, blobs: Arc<Blobs>) -> Files {
    let secs = Duration::from_secs;
    let options = FileOptions {
        upload_bytes_max: config.limits.upload_bytes,
        uploads_at_once: config.files.uploads_at_once,
        // Done before its row counts as left over.
        upload_time_max: secs(config.files.unreferenced_hours.saturating_mul(1_800)),
        picture_pixels_max: config.files.picture_pixels,
        signed_for: secs(config.files.presign_secs),
        redirect: config.files.redirect,
    };
    let store = Arc::<dyn Store>::clone(&core.store);
    Files::new(store, blobs, Arc::clone(&core.ids), Arc::clone(&core.clock), options)
}

/// Who removes what no message refers to.
pub(super) fn sweep(config: &Config, core: &Core, blobs: Arc<Blobs>) -> Sweep {
    let store = Arc::<dyn Store>::clone(&core.store);
    let unreferenced = Duration::from_hours(config.files.unreferenced_hours);
    Sweep::new(store, blobs, Arc::clone(&core.clock), unreferenced)
}

/// Keeps the place tidy, until it is stopped. What fails is tried again.
pub(super) async fn keep_tidy(blobs: Arc<Blobs>) {
    let mut looked: Option<Instant> = None;
    loop {
        let mut outcome = blobs.clear_abandoned().await;
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK_THROUGH_EVERY) {
            outcome = outcome.and(blobs.remove_leftovers(DEAD_AFTER).await);
            looked = Some(Instant::now());
        }
        if let Err(error) = outcome {
            tracing::warn!(%error, "the store of files could not be tidied up; it is tried again");
            sleep(AFTER_FAILURE).await;
        } else {
            // Whether there is something to do or it is time to look makes no difference.
            timeout(LOOK_THROUGH_EVERY, blobs.something_abandoned()).await.ok();
        }
    }
}
