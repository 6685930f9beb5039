//! The response body of an upgraded connection: what waits in its outbox.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::Error;
use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

use crate::delivery::outbox::Outbox;

/// Drains an outbox; with it the connection is gone.
pub(super) struct OutboxBody(pub(super) Arc<Outbox>);

impl MessageBody for OutboxBody {
    type Error = Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.0.poll_chunk(cx).map(|chunk| chunk.map(Ok))
    }
}

impl Drop for OutboxBody {
    fn drop(&mut self) {
        self.0.gone();
    }
}
