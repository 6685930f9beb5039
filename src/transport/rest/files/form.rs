//! A form (`multipart/form-data`) on its way in, part by part, never whole in memory.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use actix_multipart::{Field, Multipart, MultipartError};
use actix_web::error::PayloadError;
use actix_web::http::header::{ContentDisposition, ExtendedValue, HeaderMap};
use actix_web::web::{Bytes, Payload};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use tokio::time::timeout;

use crate::domain::{Code, FileName, InvalidField, MediaType};
use crate::service::ServiceError;
use crate::transport::limits::declared;

/// Parts that may stand before the file.
const PARTS_MAX: usize = 16;
/// How long the head of a part may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// What a form has besides its file, at the most: heads of parts, fields before the file.
const BESIDES_BYTES_MAX: u64 = 64 * 1024;
/// So much is read on after a refusal, and for so long.
const DRAINED_BYTES_MAX: u64 = 1024 * 1024;
const DRAINED_FOR: Duration = Duration::from_secs(2);

/// A form that is read.
pub(super) struct Form {
    parts: Multipart,
    /// It has ended or cannot be read: the library may not be asked again.
    ended: bool,
    /// Over the limit by its own account: nothing of it is read.
    is_over: bool,
    /// What may still be read of its body, in bytes.
    budget: Rc<Cell<u64>>,
    file_bytes_max: u64,
}

/// The part with the file.
pub(super) struct Part {
    /// What it is called.
    pub(super) name: FileName,
    /// What it is said to be.
    pub(super) media_type: Option<MediaType>,
    /// What is in it.
    pub(super) bytes: Pin<Box<dyn Stream<Item = Result<Bytes, ServiceError>>>>,
}

impl Form {
    /// Over a body with a file of at most `file_bytes_max`; what goes beyond is never read.
    pub(super) fn new(headers: &HeaderMap, payload: Payload, file_bytes_max: u64) -> Self {
        let bytes_max = file_bytes_max.saturating_add(BESIDES_BYTES_MAX);
        let length = declared(headers).and_then(|length| u64::try_from(length).ok());
        let budget = Rc::new(Cell::new(bytes_max));
        let left = Rc::clone(&budget);
        let bounded = payload.map(move |chunk| {
            let chunk = chunk?;
            let size = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            left.set(left.get().checked_sub(size).ok_or(PayloadError::Overflow)?);
            Ok(chunk)
        });
        Self {
            parts: Multipart::new(headers, bounded),
            ended: false,
            is_over: length.is_some_and(|length| length > bytes_max),
            budget,
            file_bytes_max,
        }
    }

    /// The first part that is called `file`; those before it are passed over.
    ///
    /// # Errors
    /// `invalid_request` where there is none, `payload_too_large`
    pub(super) async fn file(&mut self) -> Result<Part, ServiceError> {
        if self.is_over {
            return Err(too_large(self.file_bytes_max));
        }
        for _ in 0..PARTS_MAX {
            let next = timeout(HEAD_TIMEOUT, self.next()).await;
            let next = next.map_err(|_| InvalidField::new("file", "did not arrive in time"))?;
            let Some(part) = next? else { break };
            if part.name() == Some("file") {
                return self.opened(part);
            }
        }
        Err(InvalidField::new("file", "must be a field of the form that holds the file").into())
    }

    async fn next(&mut self) -> Result<Option<Field>, ServiceError> {
        if self.ended {
            return Ok(None);
        }
        let next = self.parts.next().await;
        self.ended = !matches!(next, Some(Ok(_)));
        next.transpose().map_err(|error| refusal(&error, self.file_bytes_max))
    }

    fn opened(&self, part: Field) -> Result<Part, ServiceError> {
        let name = part.content_disposition().map(name).transpose()?.flatten();
        let media_type = part
            .content_type()
            .and_then(|kind| MediaType::parse(kind.essence_str()));
        let file_bytes_max = self.file_bytes_max;
        let bytes = part.map_err(move |error| refusal(&error, file_bytes_max));
        Ok(Part {
            name: name.unwrap_or_default(),
            media_type,
            bytes: bytes.boxed_local(),
        })
    }

    /// Reads on for a moment: to the end of a form that was taken, or until whoever was refused has heard it.
    pub(super) async fn drain(mut self) {
        self.budget.set(DRAINED_BYTES_MAX);
        let reading = async {
            while let Ok(Some(mut part)) = self.next().await {
                while let Some(Ok(_)) = part.next().await {}
            }
        };
        // Whether it ended or not makes no difference.
        timeout(DRAINED_FOR, reading).await.ok();
    }
}

/// What a client calls its file; none where it says nothing.
fn name(disposition: &ContentDisposition) -> Result<Option<FileName>, InvalidField> {
    let decoded = |extended: &ExtendedValue| String::from_utf8(extended.value.clone()).ok();
    let extended = disposition.get_filename_ext().and_then(decoded);
    let given = extended.as_deref().or_else(|| disposition.get_filename());
    given.map(FileName::parse).transpose()
}

fn refusal(error: &MultipartError, file_bytes_max: u64) -> ServiceError {
    match error {
        MultipartError::Payload(PayloadError::Overflow) => too_large(file_bytes_max),
        MultipartError::Payload(_) | MultipartError::Incomplete => {
            InvalidField::new("file", "broke off before its end").into()
        }
        _ => InvalidField::new("body", "must be multipart/form-data with the field `file`").into(),
    }
}

/// Over a limit in bytes.
fn too_large(file_bytes_max: u64) -> ServiceError {
    let detail = format!("a file must not have more than {file_bytes_max} bytes");
    ServiceError::new(Code::PayloadTooLarge, detail)
}
