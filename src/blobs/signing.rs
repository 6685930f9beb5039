//! Ways around this server: addresses at which a client may get or put one object for a while.

use std::time::Duration;

use object_store::signer::{HeaderName, HeaderValue, Method, SignedUrlOptions};

use super::{BlobError, Blobs, ObjectKey};

/// What a request to put something has to say.
const CONTENT_TYPE_NAME: &str = "content-type";
const CONTENT_TYPE: HeaderName = HeaderName::from_static(CONTENT_TYPE_NAME);

/// A request that anybody may make who knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// Where.
    pub url: String,
    /// What has to go with it, exactly so.
    pub headers: Vec<(&'static str, String)>,
}

impl Blobs {
    /// Can a client be sent past this server?
    #[must_use]
    pub fn can_sign(&self) -> bool {
        self.signer.is_some()
    }

    /// Lets somebody put bytes of this type at `key`, as often as they like and as many: what is there has to be looked
    /// at afterwards.
    ///
    /// # Errors
    /// [`BlobError::CannotSign`], [`BlobError::Unavailable`]
    pub async fn sign_put(&self, key: &ObjectKey, media_type: &str, lasts: Duration) -> Result<Signed, BlobError> {
        let signer = self.signer.as_ref().ok_or(BlobError::CannotSign)?;
        let value = HeaderValue::from_str(media_type).map_err(|error| BlobError::Unavailable(error.to_string()))?;
        let options = SignedUrlOptions::default().with_signed_header(CONTENT_TYPE, value);
        let url = signer
            .signed_url_opts(Method::PUT, &self.path(key), lasts, &options)
            .await?;
        Ok(Signed {
            url: url.into(),
            headers: vec![(CONTENT_TYPE_NAME, media_type.to_owned())],
        })
    }

    /// Lets somebody get an object, shown as `media_type` and with this `Content-Disposition`.
    ///
    /// # Errors
    /// [`BlobError::CannotSign`], [`BlobError::Unavailable`]
    pub async fn sign_get(
        &self,
        key: &ObjectKey,
        media_type: &str,
        disposition: &str,
        lasts: Duration,
    ) -> Result<String, BlobError> {
        let signer = self.signer.as_ref().ok_or(BlobError::CannotSign)?;
        let options = SignedUrlOptions::default().with_query([
            ("response-content-disposition", disposition),
            ("response-content-type", media_type),
            ("response-cache-control", "private"),
        ]);
        let url = signer
            .signed_url_opts(Method::GET, &self.path(key), lasts, &options)
            .await?;
        Ok(url.into())
    }
}
