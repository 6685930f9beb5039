//! `/v1/files`: a form with a file in, bytes out. What is given out is given out as what it is and nothing more: no
//! browser runs it, guesses at it, or keeps it for somebody else.

mod disposition;
mod form;
mod range;
#[cfg(test)]
mod tests;

use actix_web::body::SizedStream;
use actix_web::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    LOCATION, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures_util::stream;

use super::query::file_id;
use super::reply::{json, ok};
use super::{Caller, Problem, Rest};
use crate::domain::{File, MediaType};
use crate::protocol::fields::Fields;
use crate::protocol::files::{self, NewUpload, Upload, UploadRequest};
use crate::service::{Announced, Invitation, ServiceError};
use crate::transport::limits::body;
use disposition::disposition;
use form::Form;
use range::{Wanted, is_known, wanted};

/// Kept by the client alone, and asked for again each time: rights may have gone.
const CACHE: &str = "private, no-cache";
/// Nothing in it may run or load anything.
const NOTHING_RUNS: &str = "sandbox; default-src 'none'";

/// The routes.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(web::resource("/v1/files").post(upload))
        .service(web::resource("/v1/files/uploads").post(invite))
        .service(web::resource("/v1/files/uploads/{file_id}/complete").post(complete))
        .service(web::resource("/v1/files/{file_id}").get(download).head(download))
        .service(
            web::resource("/v1/files/{file_id}/thumbnail")
                .get(thumbnail)
                .head(thumbnail),
        );
}

/// `POST /v1/files`, a form with the field `file`: 201.
async fn upload(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let mut form = Form::new(request.headers(), payload, rest.files.bytes_max());
    let uploaded = take(&rest, caller, &mut form).await;
    // Whoever still sends would not hear the answer otherwise.
    form.drain().await;
    json(StatusCode::CREATED, &files::File::from(&uploaded?))
}

/// Nothing of the body is read before there is a seat for it.
async fn take(rest: &Rest, caller: Caller, form: &mut Form) -> Result<File, ServiceError> {
    let seat = rest.files.seat(caller.principal)?;
    let part = form.file().await?;
    let announced = Announced {
        name: part.name,
        media_type: part.media_type,
    };
    rest.files.upload(seat, caller.principal, announced, part.bytes).await
}

/// `POST /v1/files/uploads {name, size, media_type?}`: 201 with where to put the bytes.
async fn invite(
    rest: Data<Rest>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let text = body(request.headers(), payload, rest.limits.frame_bytes).await?;
    let asked = NewUpload::read(&Fields::of_body(&text)?)?;
    let announced = Announced {
        name: asked.name,
        media_type: asked.media_type,
    };
    let invited = rest.files.invite(caller.principal, announced, asked.size_bytes).await?;
    json(StatusCode::CREATED, &shown(&invited))
}

fn shown(invited: &Invitation) -> Upload<'_> {
    let headers = invited.put.headers.iter();
    let headers = headers.map(|(name, value)| ((*name).to_owned(), value.clone().into()));
    Upload {
        file_id: invited.file_id,
        upload: UploadRequest {
            method: "PUT",
            url: &invited.put.url,
            headers: headers.collect(),
            expires_at: invited.expires_at,
        },
    }
}

/// `POST /v1/files/uploads/{file_id}/complete`: the bytes are there. A body is not looked at.
async fn complete(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let file = rest.files.complete(caller.principal, file_id(&request)?).await?;
    ok(&files::File::from(&file))
}

/// `GET /v1/files/{file_id}`: the bytes, or a part of them.
async fn download(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let file = rest.files.get(caller.principal, file_id(&request)?).await?;
    let (size, etag) = (file.blob.size_bytes, etag(&file));
    if is_known(&request, &etag) {
        return Ok(guarded(StatusCode::NOT_MODIFIED, &etag).finish());
    }
    let media_type = MediaType::parse(&file.media_type).unwrap_or_default();
    let disposition = disposition(&file.name, media_type.is_shown());
    if request.method() == Method::GET {
        let elsewhere = rest.files.elsewhere(&file, media_type.as_str(), &disposition).await?;
        if let Some(url) = elsewhere {
            return Ok(HttpResponse::Found()
                .insert_header((LOCATION, url))
                .insert_header((CACHE_CONTROL, "no-store"))
                .finish());
        }
    }
    let (status, part) = match wanted(&request, size, &etag) {
        Wanted::Whole => (StatusCode::OK, 0..size),
        Wanted::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Wanted::Nothing => {
            let mut refusal = guarded(StatusCode::RANGE_NOT_SATISFIABLE, &etag);
            return Ok(refusal
                .insert_header((CONTENT_RANGE, format!("bytes */{size}")))
                .finish());
        }
    };
    let mut response = guarded(status, &etag);
    response
        .insert_header((CONTENT_TYPE, media_type.as_str()))
        .insert_header((CONTENT_DISPOSITION, disposition))
        .insert_header((ACCEPT_RANGES, "bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let last = part.end.saturating_sub(1);
        response.insert_header((CONTENT_RANGE, format!("bytes {}-{last}/{size}", part.start)));
    }
    let length = part.end.saturating_sub(part.start);
    if request.method() == Method::HEAD {
        return Ok(response.body(SizedStream::new(
            length,
            stream::empty::<Result<web::Bytes, ServiceError>>(),
        )));
    }
    let bytes = rest.files.read(&file, part).await?;
    Ok(response.body(SizedStream::new(length, bytes)))
}

/// `GET /v1/files/{file_id}/thumbnail`: a small picture, PNG or JPEG.
async fn thumbnail(rest: Data<Rest>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let file = rest.files.get(caller.principal, file_id(&request)?).await?;
    let etag = file.thumbnail.as_ref().map(|small| tag(small.sha256));
    if let Some(etag) = etag.as_ref().filter(|etag| is_known(&request, etag)) {
        return Ok(guarded(StatusCode::NOT_MODIFIED, etag).finish());
    }
    let (bytes, media_type) = rest.files.thumbnail(&file).await?;
    Ok(guarded(StatusCode::OK, &etag.unwrap_or_default())
        .insert_header((CONTENT_TYPE, media_type.as_str()))
        .insert_header((CONTENT_DISPOSITION, disposition("thumbnail", media_type.is_shown())))
        .body(bytes))
}

fn etag(file: &File) -> String {
    tag(file.blob.sha256)
}

/// The fingerprint of the bytes: the same bytes have the same tag, for ever.
fn tag(sha256: Option<crate::domain::Digest>) -> String {
    sha256.map(|sha256| format!("\"{sha256}\"")).unwrap_or_default()
}

/// An answer from which nothing can run.
fn guarded(status: StatusCode, etag: &str) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response
        .insert_header((ETAG, etag))
        .insert_header((CACHE_CONTROL, CACHE))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((CONTENT_SECURITY_POLICY, NOTHING_RUNS));
    response
}
