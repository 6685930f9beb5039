//! What comes in: bytes to frames to whole messages, each bounded before it is collected.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use actix_http::error::PayloadError;
use actix_http::ws::{Codec, Frame, Item};
use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;
use futures_util::Stream;
use tokio_util::codec::Decoder;

use crate::delivery::wire::Close;

/// What a client can do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A whole text message.
    Text(ByteString),
    /// Asks for a pong.
    Ping(Bytes),
    /// Is alive.
    Pong,
    /// Ends the connection, or answers our end of it.
    Close(Option<u16>),
}

/// Holds the stream back while its reader is busy. The bytes wait in the socket meanwhile.
#[derive(Default)]
pub(super) struct Gate {
    shut: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Gate {
    pub(super) fn shut(&self) {
        self.shut.set(true);
    }

    pub(super) fn open(&self) {
        self.shut.set(false);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The inbound half of a connection. After an error only the peer's close is looked for: without reading on, closing
/// would reset the connection and the peer would never see our close frame.
pub(super) struct Inbound<S> {
    payload: S,
    codec: Codec,
    bytes_max: usize,
    buffer: BytesMut,
    /// The pieces of a fragmented text.
    pieces: Option<BytesMut>,
    /// Bytes of a frame that is too big: thrown away as they come.
    skip: u64,
    failed: bool,
    /// The frames cannot be told apart any more.
    lost: bool,
    gate: Rc<Gate>,
}

impl<S> Inbound<S> {
    /// `bytes_max` bounds a message, in one frame or in many.
    pub(super) fn new(payload: S, bytes_max: usize, gate: Rc<Gate>) -> Self {
        Self {
            payload,
            codec: Codec::new().max_size(bytes_max),
            bytes_max,
            buffer: BytesMut::new(),
            pieces: None,
            skip: 0,
            failed: false,
            lost: false,
            gate,
        }
    }

    /// The next thing that is complete.
    fn read(&mut self) -> Result<Option<Heard>, Close> {
        loop {
            let skipped = self.skip.min(u64::try_from(self.buffer.len()).unwrap_or(u64::MAX));
            self.skip -= skipped;
            self.buffer.advance(usize::try_from(skipped).unwrap_or_default());
            if self.lost {
                self.buffer.clear();
            }
            // Before the codec, which would collect the whole of a frame before it finds it too big (B95).
            if let Some(length) = frame_length(&self.buffer)
                && length.payload > u64::try_from(self.bytes_max).unwrap_or(u64::MAX)
            {
                self.skip = length.payload.saturating_add(length.header);
                return Err(Close::TooBig);
            }
            let frame = self.codec.decode(&mut self.buffer).map_err(|_| {
                self.lost = true;
                Close::Malformed
            })?;
            let Some(frame) = frame else {
                if self.buffer.is_empty() {
                    // The memory too: a large frame must not stay with an idle connection (B87).
                    self.buffer = BytesMut::new();
                }
                return Ok(None);
            };
            if let Some(heard) = self.whole(frame)? {
                return Ok(Some(heard));
            }
        }
    }

    fn whole(&mut self, frame: Frame) -> Result<Option<Heard>, Close> {
        let piece = match frame {
            Frame::Text(bytes) => return text(bytes).map(Some),
            Frame::Ping(bytes) => return Ok(Some(Heard::Ping(bytes))),
            Frame::Pong(_) => return Ok(Some(Heard::Pong)),
            Frame::Close(reason) => return Ok(Some(Heard::Close(reason.map(|reason| reason.code.into())))),
            Frame::Binary(_) | Frame::Continuation(Item::FirstBinary(_)) => return Err(Close::Binary),
            Frame::Continuation(item) => item,
        };
        let (bytes, last) = match piece {
            Item::FirstText(bytes) => {
                self.pieces = Some(BytesMut::new());
                (bytes, false)
            }
            Item::Continue(bytes) | Item::FirstBinary(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        // After an error nothing is collected.
        let Some(mut pieces) = self.pieces.take().filter(|_| !self.failed) else {
            return Ok(None);
        };
        if pieces.len() + bytes.len() > self.bytes_max {
            return Err(Close::TooBig);
        }
        pieces.extend_from_slice(&bytes);
        if last {
            return text(pieces.freeze()).map(Some);
        }
        self.pieces = Some(pieces);
        Ok(None)
    }
}

fn text(bytes: Bytes) -> Result<Heard, Close> {
    ByteString::try_from(bytes).map(Heard::Text).map_err(|_| Close::NotUtf8)
}

struct FrameLength {
    header: u64,
    payload: u64,
}

/// What the header of a client's frame announces, once enough of it is here.
fn frame_length(bytes: &[u8]) -> Option<FrameLength> {
    const MASK_BYTES: u64 = 4;
    let short = bytes.get(1)? & 0x7F;
    let (header, payload) = match short {
        126 => (4, u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        short => (2, u64::from(short)),
    };
    Some(FrameLength {
        header: header + MASK_BYTES,
        payload,
    })
}

impl<S> Stream for Inbound<S>
where
    S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
{
    type Item = Result<Heard, Close>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.gate.shut.get() {
                self.gate.waker.replace(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            match self.read() {
                Ok(Some(heard)) if !self.failed || matches!(heard, Heard::Close(_)) => {
                    return Poll::Ready(Some(Ok(heard)));
                }
                Ok(Some(_)) => continue,
                Err(_) if self.failed => continue,
                Err(reason) => {
                    self.failed = true;
                    self.pieces = None;
                    return Poll::Ready(Some(Err(reason)));
                }
                Ok(None) => {}
            }
            match ready!(Pin::new(&mut self.payload).poll_next(cx)) {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                // However it ended: nothing more will come.
                Some(Err(_)) | None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_http::ws::{CloseCode, Message};
    use futures_util::{FutureExt, StreamExt, stream};
    use tokio_util::codec::Encoder;

    use super::*;

    const MAX: usize = 1000;

    fn encode(messages: Vec<Message>) -> Vec<u8> {
        let (mut codec, mut bytes) = (Codec::new().client_mode(), BytesMut::new());
        for message in messages {
            codec.encode(message, &mut bytes).unwrap();
        }
        bytes.to_vec()
    }

    /// The stream when the bytes come in pieces of `at_once`.
    fn hear(bytes: &[u8], at_once: usize) -> Vec<Result<Heard, Close>> {
        let chunks: Vec<_> = bytes
            .chunks(at_once)
            .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
            .collect();
        let inbound = Inbound::new(stream::iter(chunks), MAX, Rc::default());
        inbound.collect::<Vec<_>>().now_or_never().unwrap()
    }

    fn text(words: &str) -> Heard {
        Heard::Text(words.into())
    }

    fn close(code: u16) -> Message {
        Message::Close(Some(CloseCode::Other(code).into()))
    }

    #[test]
    fn whole_and_fragmented_texts_arrive_however_the_bytes_are_cut() {
        let bytes = encode(vec![
            Message::Text("one".into()),
            Message::Continuation(Item::FirstText("t".into())),
            Message::Ping(Bytes::from_static(b"x")),
            Message::Continuation(Item::Continue("w".into())),
            Message::Continuation(Item::Last("o 👋".into())),
            Message::Pong(Bytes::new()),
            close(1000),
        ]);
        let ping = Heard::Ping(Bytes::from_static(b"x"));
        let expected = [
            Ok(text("one")),
            Ok(ping),
            Ok(text("two 👋")),
            Ok(Heard::Pong),
            Ok(Heard::Close(Some(1000))),
        ];
        for at_once in [1, 2, 7, 1000] {
            assert_eq!(hear(&bytes, at_once), expected, "{at_once}");
        }
    }

    #[test]
    fn b95_a_frame_of_the_limit_passes_and_one_byte_more_is_1009() {
        let words = "x".repeat(MAX);
        assert_eq!(
            hear(&encode(vec![Message::Text(words.clone().into())]), 100),
            [Ok(text(&words))]
        );
        let over = encode(vec![
            Message::Text(format!("{words}x").into()),
            Message::Text("late".into()),
            close(1009),
        ]);
        let expected = [Err(Close::TooBig), Ok(Heard::Close(Some(1009)))];
        assert_eq!(hear(&over, 100), expected, "the close that answers ours is still heard");
    }

    #[test]
    fn b95_a_huge_frame_is_refused_by_its_header_and_never_collected() {
        let mut header = vec![0x81, 0x80 | 127];
        header.extend_from_slice(&100_000_000_u64.to_be_bytes());
        let mut inbound = Inbound::new(stream::pending::<Result<Bytes, PayloadError>>(), MAX, Rc::default());
        inbound.buffer.extend_from_slice(&header);
        assert_eq!(inbound.read(), Err(Close::TooBig));
        for _ in 0..1000 {
            inbound.buffer.extend_from_slice(&[0; 10_000]);
            assert_eq!(inbound.read(), Ok(None));
            assert!(inbound.buffer.is_empty());
        }
    }

    #[test]
    fn b95_many_fragments_are_bounded_together() {
        let mut messages = vec![Message::Continuation(Item::FirstText("x".repeat(MAX / 2).into()))];
        messages.push(Message::Continuation(Item::Continue("x".repeat(MAX / 2).into())));
        messages.push(Message::Continuation(Item::Continue("x".into())));
        messages.push(Message::Continuation(Item::Last("x".into())));
        messages.push(close(1009));
        assert_eq!(
            hear(&encode(messages), 100),
            [Err(Close::TooBig), Ok(Heard::Close(Some(1009)))]
        );
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_own_code() {
        let binary = encode(vec![Message::Binary("x".into()), close(1003)]);
        assert_eq!(hear(&binary, 100), [Err(Close::Binary), Ok(Heard::Close(Some(1003)))]);
        let pieces = encode(vec![Message::Continuation(Item::FirstBinary("x".into()))]);
        assert_eq!(hear(&pieces, 100), [Err(Close::Binary)]);
        let torn = encode(vec![
            Message::Continuation(Item::FirstText(Bytes::from_static(b"\xf0\x9f"))),
            Message::Continuation(Item::Last(Bytes::from_static(b"\x91"))),
        ]);
        assert_eq!(hear(&torn, 100), [Err(Close::NotUtf8)]);
        let unmasked = [0x81, 1, b'x'];
        assert_eq!(hear(&unmasked, 100), [Err(Close::Malformed)]);
        let compressed = [0xC1, 0x81, 0, 0, 0, 0, b'x'];
        assert_eq!(hear(&compressed, 100), [Err(Close::Malformed)]);
    }

    #[test]
    fn a_shut_gate_holds_the_stream_back() {
        let gate = Rc::<Gate>::default();
        let bytes = Bytes::from(encode(vec![Message::Text("one".into())]));
        let mut inbound = Inbound::new(stream::iter([Ok(bytes)]), MAX, gate.clone());
        gate.shut();
        assert_eq!(inbound.next().now_or_never(), None);
        gate.open();
        assert_eq!(inbound.next().now_or_never(), Some(Some(Ok(text("one")))));
    }
}
