//! Files on the wire.

use serde::Serialize;

use super::convert;
use super::fields::{Fields, required};
use crate::domain::{self, FileName, InvalidField, MediaType, Timestamp};

/// What is known of a file. `name`, `media_type`, `size`, `width` and `height` are what an attachment says of it.
#[derive(Debug, Serialize)]
pub struct File<'a> {
    /// Its name everywhere.
    #[serde(serialize_with = "super::convert::display")]
    pub file_id: domain::FileId,
    /// What it is called.
    pub name: &'a str,
    /// What it is.
    pub media_type: &'a str,
    /// In bytes.
    pub size: u64,
    /// The SHA-256 of its bytes, in hex.
    pub sha256: Option<String>,
    /// Where it is to be had, with a token.
    pub url: String,
    /// Of a picture, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Of a picture, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Of a picture: where a small one is to be had, with a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thumbnail: Option<String>,
}

impl<'a> From<&'a domain::File> for File<'a> {
    fn from(file: &'a domain::File) -> Self {
        let url = format!("/v1/files/{}", file.file_id);
        Self {
            file_id: file.file_id,
            name: &file.name,
            media_type: &file.media_type,
            size: file.blob.size_bytes,
            sha256: file.blob.sha256.as_ref().map(ToString::to_string),
            width: file.dimensions.map(|dimensions| dimensions.width),
            height: file.dimensions.map(|dimensions| dimensions.height),
            thumbnail: file.thumbnail.as_ref().map(|_| format!("{url}/thumbnail")),
            url,
        }
    }
}

/// `POST /v1/files/uploads`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUpload {
    /// What it is called.
    pub name: FileName,
    /// What it is.
    pub media_type: Option<MediaType>,
    /// Exactly so many bytes will come.
    pub size_bytes: u64,
}

impl NewUpload {
    /// Reads the body.
    ///
    /// # Errors
    /// `invalid_request` with the field's name.
    pub fn read(fields: &Fields<'_>) -> Result<Self, InvalidField> {
        const TYPE: InvalidField = InvalidField::new("media_type", "must be a media type, like image/png");
        let name = required("name", fields.text("name")?)?;
        let media_type = fields.text("media_type")?;
        let media_type = media_type.map(|text| MediaType::parse(&text).ok_or(TYPE));
        let size = required("size", fields.number("size")?)?;
        Ok(Self {
            name: FileName::parse(&name)?,
            media_type: media_type.transpose()?,
            size_bytes: size.unsigned_abs(),
        })
    }
}

/// An upload past this server: put the bytes there, then say that they are complete.
#[derive(Debug, Serialize)]
pub struct Upload<'a> {
    /// Its name everywhere; it can be used when it is complete.
    #[serde(serialize_with = "super::convert::display")]
    pub file_id: domain::FileId,
    /// The request to make.
    pub upload: UploadRequest<'a>,
}

/// A request that the bucket takes from anybody who knows it.
#[derive(Debug, Serialize)]
pub struct UploadRequest<'a> {
    /// `PUT`
    pub method: &'static str,
    /// Where.
    pub url: &'a str,
    /// What has to go with it, exactly so.
    pub headers: serde_json::Map<String, serde_json::Value>,
    /// Until when.
    #[serde(serialize_with = "convert::time")]
    pub expires_at: Timestamp,
}
