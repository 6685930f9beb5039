//! What waits for one connection: a queue of finished frames, filled by the hub, drained by whoever writes the socket.
//!
//! Bounded in bytes and in age: a client that does not read is told so with 4008 and loses the connection, never the
//! server its memory. A `WebsocketContext` can do neither, since nothing of it runs while its socket is full.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::wire::{self, Close};

/// Frames that wait are merged into one write up to this size.
pub const CHUNK_BYTES_MAX: usize = 32 * 1024;
/// How long a slow client has to read its 4008.
pub const SLOW_GRACE: Duration = Duration::from_secs(10);
/// How long a kicked or replaced client has to read why; then its socket is shut down.
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
    /// All is taken; asked once more, it has been flushed.
    Flushing,
    /// Nothing is written any more.
    Cut,
}

struct State {
    frames: VecDeque<(Bytes, Instant)>,
    bytes: usize,
    stage: Stage,
    waker: Option<Waker>,
    /// A second handle of the socket: the only way to end a connection whose writer is stuck.
    socket: Option<Arc<TcpStream>>,
}

/// The way out of one connection. Shared by its hub, its actor and its response body.
pub struct Outbox {
    bounds: Bounds,
    state: Mutex<State>,
    leaving: Notify,
}

impl Outbox {
    /// `socket` is a second handle of the connection's; without one a stuck connection cannot be cut.
    #[must_use]
    pub fn new(bounds: Bounds, socket: Option<Arc<TcpStream>>) -> Self {
        Self {
            bounds,
            state: Mutex::new(State {
                frames: VecDeque::new(),
                bytes: 0,
                stage: Stage::Open,
                waker: None,
                socket,
            }),
            leaving: Notify::new(),
        }
    }

    /// Queues a frame. Over the bound in bytes, everything that waits is dropped for a 4008; nothing is lost, since the
    /// client resumes with sync.
    pub fn push(&self, frame: Bytes, now: Instant) {
        let mut state = self.lock();
        if state.stage != Stage::Open || frame.is_empty() {
            return;
        }
        // One frame always fits, or a small bound would end every connection.
        if state.bytes + frame.len() > self.bounds.bytes && !state.frames.is_empty() {
            return self.close_locked(state, Close::Slow, now);
        }
        state.queue(frame, now);
        state.wake();
    }

    /// Queues a frame that nobody misses, unless much is waiting already.
    pub fn push_sheddable(&self, frame: Bytes, now: Instant) {
        let busy = self.lock().bytes > self.bounds.bytes / 2;
        if !busy {
            self.push(frame, now);
        }
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
            state.queue(last_words, now);
            self.close_locked(state, reason, now);
        }
    }

    fn close_locked(&self, mut state: MutexGuard<'_, State>, reason: Close, now: Instant) {
        let (drops, grace) = match reason {
            Close::Slow => (true, SLOW_GRACE),
            Close::Replaced | Close::Kicked => (true, CONTROL_GRACE),
            // What was accepted is answered if the client reads at all.
            Close::Restart => (false, CONTROL_GRACE),
            _ => (false, CLOSE_GRACE),
        };
        if drops {
            state.clear();
        }
        state.queue(wire::close(reason.code(), reason.reason()), now);
        state.stage = Stage::Closing(grace);
        state.wake();
        self.leaving.notify_one();
    }

    /// The peer has closed: answers it if we did not close first, writes what waits, and ends the connection.
    pub fn peer_closed(&self, code: Option<u16>) {
        let mut state = self.lock();
        if state.stage == Stage::Open {
            let echo = code.map_or_else(|| wire::close(1000, ""), |code| wire::close(code, ""));
            state.queue(echo, Instant::now());
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
        state.clear();
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
                Stage::Ended | Stage::Flushing => return Some(CLOSE_GRACE),
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

    /// The next thing to write; `None` = nothing will follow. It is asked for again when that was written.
    pub fn poll_chunk(&self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        if let Some(chunk) = state.chunk() {
            return Poll::Ready(Some(chunk));
        }
        match state.stage {
            Stage::Open | Stage::Closing(_) => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Stage::Ended => {
                // The writer flushes when there is nothing more to take; then it asks again.
                state.stage = Stage::Flushing;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Stage::Flushing => {
                // RFC 6455: the server is the first to close the TCP connection. Else both would wait for each other.
                if let Some(socket) = state.socket.take() {
                    drop(socket.shutdown(Shutdown::Write));
                }
                Poll::Ready(None)
            }
            Stage::Cut => Poll::Ready(None),
        }
    }

    /// The connection is gone, whoever ended it. Its second handle goes too, or the descriptor would stay open.
    pub fn gone(&self) {
        let mut state = self.lock();
        state.clear();
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
        self.lock().bytes
    }

    /// How long the oldest frame has waited.
    pub fn waits_for(&self, now: Instant) -> Duration {
        let state = self.lock();
        let oldest = state.frames.front().filter(|_| state.stage == Stage::Open);
        oldest.map_or(Duration::ZERO, |(_, since)| now.duration_since(*since))
    }

    /// Looks at every frame that waits.
    pub fn each_frame(&self, look: impl FnMut(&Bytes)) {
        self.lock().frames.iter().map(|(frame, _)| frame).for_each(look);
    }

    /// May something still be queued?
    pub fn is_open(&self) -> bool {
        self.lock().stage == Stage::Open
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn queue(&mut self, frame: Bytes, now: Instant) {
        self.bytes += frame.len();
        self.frames.push_back((frame, now));
    }

    fn clear(&mut self) {
        // The memory too: a burst must not stay with an idle connection (B87).
        self.frames = VecDeque::new();
        self.bytes = 0;
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn finish(&mut self, stage: Stage) {
        let later = matches!(self.stage, Stage::Cut) || (self.stage == Stage::Flushing && stage == Stage::Ended);
        if !later {
            self.stage = stage;
        }
        self.wake();
    }

    fn pop(&mut self) -> Option<Bytes> {
        let (frame, _) = self.frames.pop_front()?;
        self.bytes = self.bytes.saturating_sub(frame.len());
        if self.frames.is_empty() {
            self.clear();
        }
        Some(frame)
    }

    /// The next write: one frame as it is, or several small ones in one piece.
    fn chunk(&mut self) -> Option<Bytes> {
        let first = self.pop()?;
        let fits = |state: &Self, used: usize| {
            let next = state.frames.front();
            next.is_some_and(|(next, _)| used + next.len() <= CHUNK_BYTES_MAX)
        };
        if !fits(self, first.len()) {
            return Some(first);
        }
        let mut chunk = BytesMut::with_capacity((first.len() + self.bytes).min(CHUNK_BYTES_MAX));
        chunk.extend_from_slice(&first);
        while fits(self, chunk.len()) {
            chunk.extend_from_slice(&self.pop().unwrap_or_default());
        }
        Some(chunk.freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;
    use crate::delivery::tests::support::decode;

    fn outbox(bytes: usize) -> Outbox {
        Outbox::new(
            Bounds {
                bytes,
                age: Duration::from_secs(30),
            },
            None,
        )
    }

    fn frame(length: usize) -> Bytes {
        wire::text(&"x".repeat(length))
    }

    /// One write, if there is one now.
    fn poll(outbox: &Outbox) -> Poll<Option<Bytes>> {
        outbox.poll_chunk(&Context::from_waker(Waker::noop()))
    }

    fn write(outbox: &Outbox) -> Bytes {
        match poll(outbox) {
            Poll::Ready(Some(chunk)) => chunk,
            other => panic!("{other:?}"),
        }
    }

    fn close_code(bytes: &[u8]) -> String {
        decode(bytes).pop().unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_merged_into_one_write_in_order() {
        let outbox = outbox(1 << 20);
        for length in [1, 2, 3] {
            outbox.push(frame(length), Instant::now());
        }
        outbox.push(frame(CHUNK_BYTES_MAX), Instant::now());
        outbox.push(frame(4), Instant::now());
        let first = write(&outbox);
        assert_eq!(decode(&first).len(), 3, "the large one is not split");
        assert_eq!(write(&outbox), frame(CHUNK_BYTES_MAX));
        assert_eq!(write(&outbox), frame(4));
        assert_eq!(poll(&outbox), Poll::Pending);
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_wakes_the_body() {
        let outbox = outbox(1 << 20);
        let chunk = async { poll_fn(|cx| outbox.poll_chunk(cx)).await.unwrap() };
        let (chunk, ()) = tokio::join!(chunk, async { outbox.push(frame(1), Instant::now()) });
        assert_eq!(chunk, frame(1));
    }

    #[tokio::test(start_paused = true)]
    async fn b87_a_full_queue_is_dropped_for_a_4008() {
        let outbox = outbox(1000);
        outbox.push(frame(5000), Instant::now());
        assert!(outbox.is_open(), "one frame always fits");
        outbox.push(frame(10), Instant::now());
        outbox.push(frame(10), Instant::now());
        assert_eq!(outbox.closing().await, Some(SLOW_GRACE));
        assert_eq!(close_code(&write(&outbox)), "4008");
        assert_eq!(poll(&outbox), Poll::Pending, "the client may still answer");
        outbox.peer_closed(Some(4008));
        assert_eq!(poll(&outbox), Poll::Pending, "first a flush");
        assert_eq!(poll(&outbox), Poll::Ready(None));
    }

    #[tokio::test(start_paused = true)]
    async fn b87_the_memory_of_a_burst_is_given_back() {
        let outbox = outbox(1 << 20);
        for _ in 0..1000 {
            outbox.push(frame(100), Instant::now());
        }
        while poll(&outbox).is_ready() {}
        let state = outbox.lock();
        assert_eq!((state.frames.capacity(), state.bytes), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_age_of_the_oldest_frame_counts_and_not_that_of_the_connection() {
        let outbox = outbox(1 << 20);
        tokio::time::advance(Duration::from_mins(1)).await;
        outbox.push(frame(1), Instant::now());
        assert!(!outbox.is_stale(Instant::now()));
        tokio::time::advance(Duration::from_secs(31)).await;
        outbox.push(frame(1), Instant::now());
        assert!(outbox.is_stale(Instant::now()));
        write(&outbox);
        assert!(!outbox.is_stale(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn control_clears_the_queue_and_nothing_follows_it() {
        let outbox = outbox(1 << 20);
        outbox.push(frame(1), Instant::now());
        outbox.close(Close::Replaced);
        outbox.close(Close::Slow);
        outbox.push(frame(2), Instant::now());
        assert_eq!(outbox.closing().await, Some(CONTROL_GRACE));
        assert_eq!(close_code(&write(&outbox)), "4009");
        assert_eq!(poll(&outbox), Poll::Pending);
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_answers_what_was_accepted_before_it_says_goodbye() {
        let outbox = outbox(1 << 20);
        outbox.push(frame(1), Instant::now());
        outbox.close_with(frame(2), Close::Restart);
        let chunk = write(&outbox);
        assert!(chunk.starts_with(&[frame(1), frame(2)].concat()));
        assert_eq!(close_code(&chunk), "1012");
    }

    #[tokio::test(start_paused = true)]
    async fn typing_is_shed_before_anything_else() {
        let outbox = outbox(1000);
        outbox.push(frame(600), Instant::now());
        outbox.push_sheddable(frame(1), Instant::now());
        assert_eq!(outbox.lock().frames.len(), 1);
    }

    #[tokio::test]
    async fn cutting_ends_a_socket_whose_writer_is_stuck() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let second = Arc::new(server.try_clone().unwrap());
        let bounds = Bounds {
            bytes: 1000,
            age: Duration::from_secs(1),
        };
        let outbox = Outbox::new(bounds, Some(second));
        outbox.cut();
        assert_eq!(
            client.read(&mut [0]).unwrap(),
            0,
            "end of stream, though `server` is still open"
        );
        assert_eq!(outbox.closing().await, None);
        drop(server);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_for_a_connection_that_is_gone() {
        let outbox = outbox(1000);
        outbox.gone();
        outbox.push(frame(1), Instant::now());
        assert_eq!(outbox.closing().await, None);
        assert!(outbox.lock().frames.is_empty());
    }
}
