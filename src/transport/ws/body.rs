//! The response body of an upgraded connection, and its writer: it writes what waits in the outbox to the socket itself,
//! and gives the HTTP layer nothing but the end.

use std::io::{ErrorKind, Result, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use actix_web::Error;
use actix_web::body::{BodySize, MessageBody};
use actix_web::rt::net::TcpStream as WatchedStream;
use bytes::{Buf, Bytes};

use crate::delivery::outbox::Outbox;

/// Drains an outbox; with it the connection is gone.
pub(super) struct OutboxBody {
    outbox: Arc<Outbox>,
    /// Does not block.
    socket: Arc<TcpStream>,
    /// Asked for once, so the head of the response is on its way: the HTTP layer writes it before it asks again.
    asked: bool,
    /// Taken from the outbox and not yet written.
    in_hand: Bytes,
    /// There while the socket is full: a third handle, which is told when there is room.
    watched: Option<WatchedStream>,
}

impl OutboxBody {
    pub(super) fn new(outbox: Arc<Outbox>, socket: Arc<TcpStream>) -> Self {
        Self {
            outbox,
            socket,
            asked: false,
            in_hand: Bytes::new(),
            watched: None,
        }
    }

    /// Writes what is in hand, when there is room.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        loop {
            let Some(watched) = &self.watched else {
                match (&*self.socket).write(&self.in_hand) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.watched = Some(WatchedStream::from_std(self.socket.try_clone()?)?);
                        continue;
                    }
                    done => return Poll::Ready(done),
                }
            };
            ready!(watched.poll_write_ready(cx))?;
            match watched.try_write(&self.in_hand) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl MessageBody for OutboxBody {
    type Error = Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<std::result::Result<Bytes, Error>>> {
        if !self.asked {
            self.asked = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if self.in_hand.is_empty() {
                let Poll::Ready(chunk) = self.outbox.poll_chunk(cx) else {
                    self.watched = None;
                    return Poll::Pending;
                };
                let Some(chunk) = chunk else { return Poll::Ready(None) };
                self.in_hand = chunk;
            }
            if self.outbox.is_cut() {
                return Poll::Ready(None);
            }
            match ready!(self.poll_write(cx)) {
                Ok(written) => self.in_hand.advance(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The client is gone.
                Err(_) => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for OutboxBody {
    fn drop(&mut self) {
        self.outbox.gone();
    }
}
