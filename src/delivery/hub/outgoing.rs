//! Who has something to write: a hub hands out all that it has before it lets anybody write, so that what belongs
//! together goes out in one piece. Nobody is written to while others are still to be told.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::outbox::Outbox;

/// After so many writes the others of the arbiter come in between: one takes about 4 microseconds.
pub(super) const WRITES_AT_ONCE: usize = 512;
/// So many frames are handed out before all have to be written.
const FRAMES_MAX: usize = 16_384;

/// The connections that something was handed to since they were let write.
#[derive(Default)]
pub(super) struct Outgoing {
    outboxes: VecDeque<Arc<Outbox>>,
    /// So many of them wait for an answer: the first ones.
    answers: usize,
    frames: usize,
    bytes: usize,
}

impl Outgoing {
    /// Hands a frame to a connection.
    pub(super) fn give(&mut self, outbox: &Arc<Outbox>, frame: Bytes, now: Instant) {
        self.frames += 1;
        if outbox.queue(frame, now) {
            self.outboxes.push_back(Arc::clone(outbox));
        }
    }

    /// Hands a frame to a connection that waits for it: it writes before all others, however many those are.
    pub(super) fn give_first(&mut self, outbox: &Arc<Outbox>, frame: Bytes, now: Instant) {
        self.frames += 1;
        outbox.queue(frame, now);
        self.outboxes.push_front(Arc::clone(outbox));
        self.answers += 1;
    }

    /// Frames of so many bytes are about to be handed out.
    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Must all write before more is handed out? A client that reads is never to be taken for a slow one.
    pub(super) fn is_full(&self, bytes_max: usize) -> bool {
        self.bytes >= bytes_max || self.frames >= FRAMES_MAX
    }

    /// Lets those write at once who wait for an answer: handing something to very many takes long by itself.
    pub(super) fn write_first(&mut self) {
        for outbox in self.outboxes.drain(..self.answers) {
            outbox.write();
        }
        self.answers = 0;
    }

    /// Lets some of them write; `true` = all have.
    pub(super) fn write(&mut self) -> bool {
        let some = self.outboxes.len().min(WRITES_AT_ONCE);
        for outbox in self.outboxes.drain(..some) {
            outbox.write();
        }
        self.answers = self.answers.saturating_sub(some);
        let done = self.outboxes.is_empty();
        if done {
            (self.frames, self.bytes) = (0, 0);
        }
        done
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outboxes.is_empty()
    }
}
