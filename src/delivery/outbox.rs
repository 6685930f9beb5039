//! What waits for one connection: a queue of finished frames, filled by the hub. Whoever fills it writes the socket
//! itself while that takes all; when it is full, the connection's own writer goes on as soon as there is room.
//!
//! Bounded in bytes and in age: a client that does not read is told so with 4008 and loses the connection, never the
//! server its memory. A `WebsocketContext` can do neither, since nothing of it runs while its socket is full.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::queue::Queue;
use super::wire::{self, Close};

/// Frames that wait are merged into one write up to this size.
pub const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// How long a slow client has to read its 4008.
pub const SLOW_GRACE: Duration = Duration::from_secs(10);
/// How long a kicked or replaced client, or one whose token has expired, has to read why; then its socket is shut down.
pub const CONTROL_GRACE: Duration = Duration::from_secs(1);
/// How long any other close may take.
pub const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// `limits.outbound_bytes`
    pub bytes: usize,
    /// Age of the oldest frame.
    pub age: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Frames come and go.
    Open,
    /// The close frame is the last; the peer has until then to answer it.
    Closing(Duration),
    /// What waits is written, then the connection ends.
    Ended,
    /// Nothing is written any more.
    Cut,
}

struct State {
    frames: Queue,
    /// What the socket did not take of a write that was begun: it goes first and is never dropped.
    rest: Bytes,
    stage: Stage,
    /// There while the writer waits with nothing in hand: only then may somebody else write.
    waker: Option<Waker>,
    /// A second handle of the socket, which does not block: to write, and to end a connection that is stuck.
    socket: Option<Arc<TcpStream>>,
}

/// The way out of one connection. Shared by its hub, its actor and its response body.
pub struct Outbox {
    bounds: Bounds,
    state: Mutex<State>,
    leaving: Notify,
}

impl Outbox {
    /// `socket` is a second handle of the connection's; without one all is left to whoever polls.
    #[must_use]
    pub fn new(bounds: Bounds, socket: Option<Arc<TcpStream>>) -> Self {
        Self {
            bounds,
            state: Mutex::new(State {
                frames: Queue::default(),
                rest: Bytes::new(),
                stage: Stage::Open,
                waker: None,
                socket,
            }),
            leaving: Notify::new(),
        }
    }

    /// Writes a frame, behind what waits.
    pub fn push(&self, frame: Bytes, now: Instant) {
        if let Some(mut state) = self.put(frame, now) {
            state.write();
        }
    }

    /// Queues a frame. `true` = nothing was waiting: it goes out with the next [`Outbox::write`], which is the caller's
    /// to call, so that what follows at once can go out with it.
    pub fn queue(&self, frame: Bytes, now: Instant) -> bool {
        let state = self.put(frame, now);
        state.is_some_and(|state| state.frames.len() == 1)
    }

    /// Writes what was queued.
    pub fn write(&self) {
        self.lock().write();
    }

    /// So much is waiting that nothing should come which nobody misses.
    pub fn is_busy(&self) -> bool {
        self.lock().frames.bytes() > self.bounds.bytes / 2
    }

    /// Over the bound in bytes, everything that waits is dropped for a 4008; nothing is lost, since the client resumes
    /// with sync.
    fn put(&self, frame: Bytes, now: Instant) -> Option<MutexGuard<'_, State>> {
        let mut state = self.lock();
        if state.stage != Stage::Open || frame.is_empty() {
            return None;
        }
        // One frame always fits, or a small bound would end every connection.
        if state.frames.bytes() + frame.len() > self.bounds.bytes && !state.frames.is_empty() {
            self.close_locked(state, Close::Slow, now);
            return None;
        }
        state.frames.push(frame, now);
        Some(state)
    }

    /// Says why, and ends the connection when the peer has answered or its time is over. The first reason counts.
    pub fn close(&self, reason: Close) {
        let state = self.lock();
        if state.stage == Stage::Open {
            self.close_locked(state, reason, Instant::now());
        }
    }

    /// [`Outbox::close`] with some last words before the close frame.
    pub fn close_with(&self, last_words: Bytes, reason: Close) {
        let mut state = self.lock();
        if state.stage == Stage::Open {
            let now = Instant::now();
            state.frames.push(last_words, now);
            self.close_locked(state, reason, now);
        }
    }

    fn close_locked(&self, mut state: MutexGuard<'_, State>, reason: Close, now: Instant) {
        let (drops, grace) = match reason {
            Close::Slow => (true, SLOW_GRACE),
            Close::Replaced | Close::Kicked | Close::Expired => (true, CONTROL_GRACE),
            // What was accepted is answered if the client reads at all.
            Close::Restart => (false, CONTROL_GRACE),
            _ => (false, CLOSE_GRACE),
        };
        if drops {
            state.frames = Queue::default();
        }
        state.frames.push(wire::close(reason.code(), reason.reason()), now);
        state.stage = Stage::Closing(grace);
        state.wake();
        self.leaving.notify_one();
    }

    /// The peer has closed: answers it if we did not close first, writes what waits, and ends the connection.
    pub fn peer_closed(&self, code: Option<u16>) {
        let mut state = self.lock();
        if state.stage == Stage::Open {
            let echo = code.map_or_else(|| wire::close(1000, ""), |code| wire::close(code, ""));
            state.frames.push(echo, Instant::now());
        }
        state.finish(Stage::Ended);
        self.leaving.notify_one();
    }

    /// Nobody serves this connection any more: writes what waits and ends it.
    pub fn end(&self) {
        self.lock().finish(Stage::Ended);
        self.leaving.notify_one();
    }

    /// Ends the connection at once, also when its writer is stuck.
    pub fn cut(&self) {
        let mut state = self.lock();
        state.frames = Queue::default();
        state.rest = Bytes::new();
        if let Some(socket) = state.socket.take() {
            // It may be gone already, which is what we want.
            drop(socket.shutdown(Shutdown::Both));
        }
        state.finish(Stage::Cut);
        self.leaving.notify_one();
    }

    /// Comes back when the connection is being closed, with how long that may take; `None` = it is over already.
    pub async fn closing(&self) -> Option<Duration> {
        loop {
            match self.lock().stage {
                Stage::Open => {}
                Stage::Closing(grace) => return Some(grace),
                Stage::Ended => return Some(CLOSE_GRACE),
                Stage::Cut => return None,
            }
            self.leaving.notified().await;
        }
    }

    /// Comes back when nothing is written any more.
    pub async fn over(&self) {
        while self.lock().stage != Stage::Cut {
            self.leaving.notified().await;
        }
    }

    /// The next thing to write; `None` = nothing will follow. It is asked for again when that was written: whoever asks
    /// is the connection's writer, and has nothing in hand.
    pub fn poll_chunk(&self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        if let Some(chunk) = state.rest().or_else(|| state.chunk()) {
            state.waker = None;
            return Poll::Ready(Some(chunk));
        }
        match state.stage {
            Stage::Open | Stage::Closing(_) => {
                let known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
                if !known {
                    state.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Stage::Ended => {
                // RFC 6455: the server is the first to close the TCP connection. Else both would wait for each other.
                if let Some(socket) = state.socket.take() {
                    drop(socket.shutdown(Shutdown::Write));
                }
                Poll::Ready(None)
            }
            Stage::Cut => Poll::Ready(None),
        }
    }

    /// Is there nobody left to write to?
    pub fn is_cut(&self) -> bool {
        self.lock().stage == Stage::Cut
    }

    /// The connection is gone, whoever ended it. Its second handle goes too, or the descriptor would stay open.
    pub fn gone(&self) {
        let mut state = self.lock();
        state.frames = Queue::default();
        state.rest = Bytes::new();
        state.socket = None;
        state.finish(Stage::Cut);
        self.leaving.notify_one();
    }

    /// Does the oldest frame wait for too long?
    pub fn is_stale(&self, now: Instant) -> bool {
        self.waits_for(now) > self.bounds.age
    }

    /// How much waits.
    pub fn bytes(&self) -> usize {
        self.lock().frames.bytes()
    }

    /// How long the oldest frame has waited.
    pub fn waits_for(&self, now: Instant) -> Duration {
        let state = self.lock();
        let oldest = state.frames.since().filter(|_| state.stage == Stage::Open);
        oldest.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// Looks at every frame that waits.
    pub fn each_frame(&self, look: impl FnMut(&Bytes)) {
        self.lock().frames.iter().for_each(look);
    }

    /// May something still be queued?
    pub fn is_open(&self) -> bool {
        self.lock().stage == Stage::Open
    }

    #[cfg(test)]
    pub(in crate::delivery) fn waiting(&self) -> Waits {
        let state = self.lock();
        Waits {
            frames: state.frames.len(),
            bytes: state.frames.bytes(),
            room: state.frames.room(),
            rest: state.rest.len(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a test sees of a queue.
#[cfg(test)]
pub(in crate::delivery) struct Waits {
    pub(in crate::delivery) frames: usize,
    pub(in crate::delivery) bytes: usize,
    pub(in crate::delivery) room: usize,
    pub(in crate::delivery) rest: usize,
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn finish(&mut self, stage: Stage) {
        if self.stage != Stage::Cut {
            self.stage = stage;
        }
        self.wake();
    }

    /// Writes what waits, as far as the socket takes it. The connection's writer does the rest, and meets the error if
    /// there is one.
    fn write(&mut self) {
        // A writer that is at work comes for the rest by itself.
        if self.waker.is_none() {
            return;
        }
        let Some(socket) = self.socket.take() else {
            return self.wake();
        };
        while let Some(chunk) = self.chunk() {
            let written = (&*socket).write(&chunk).unwrap_or_default();
            if written < chunk.len() {
                self.rest = chunk.slice(written..);
                self.wake();
                break;
            }
        }
        self.socket = Some(socket);
    }

    fn rest(&mut self) -> Option<Bytes> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then_some(rest)
    }

    /// The next write: one frame as it is, or several small ones in one piece.
    fn chunk(&mut self) -> Option<Bytes> {
        let first = self.frames.pop()?;
        let fits = |state: &Self, used: usize| {
            let next = state.frames.front();
            next.is_some_and(|next| used + next.len() <= CHUNK_BYTES_MAX)
        };
        if !fits(self, first.len()) {
            return Some(first);
        }
        let mut chunk = BytesMut::with_capacity((first.len() + self.frames.bytes()).min(CHUNK_BYTES_MAX));
        chunk.extend_from_slice(&first);
        while fits(self, chunk.len()) {
            chunk.extend_from_slice(&self.frames.pop().unwrap_or_default());
        }
        Some(chunk.freeze())
    }
}
