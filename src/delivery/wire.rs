//! Finished WebSocket frames (RFC 6455): unmasked and whole, made once and shared by every connection.

use std::io;

use bytes::Bytes;
use serde::Serialize;

const FIN_TEXT: u8 = 0x81;
const FIN_CLOSE: u8 = 0x88;
const FIN_PONG: u8 = 0x8A;
const PING: &[u8] = &[0x89, 0];
/// The longest header of a frame without a mask.
const HEADER_MAX: usize = 10;
/// Most frames are no longer than this: they grow into it without being moved.
const USUAL_BYTES: usize = 768;
/// The longest payload of a close, ping or pong.
const CONTROL_BYTES_MAX: usize = 125;

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Close {
    /// Nothing was heard for two heartbeats.
    Silent,
    /// Not WebSocket as RFC 6455 has it.
    Malformed,
    /// A binary frame.
    Binary,
    /// A text frame that is no UTF-8.
    NotUtf8,
    /// A frame over `limits.frame_bytes`.
    TooBig,
    /// The server restarts.
    Restart,
    /// The store did not answer at the start.
    TryAgainLater,
    /// No valid hello in time.
    NoHello,
    /// The token has expired.
    Expired,
    /// Too many frames in a row that could not be understood.
    Violation,
    /// The client does not read fast enough; it resumes with sync.
    Slow,
    /// A newer connection of the same device.
    Replaced,
    /// The device was deleted, or the user disabled.
    Kicked,
}

impl Close {
    /// The number of the contract.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Silent => 1001,
            Self::Malformed => 1002,
            Self::Binary => 1003,
            Self::NotUtf8 => 1007,
            Self::TooBig => 1009,
            Self::Restart => 1012,
            Self::TryAgainLater => 1013,
            Self::NoHello => 4001,
            Self::Expired => 4003,
            Self::Violation => 4004,
            Self::Slow => 4008,
            Self::Replaced => 4009,
            Self::Kicked => 4010,
        }
    }

    /// For people.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Silent => "nothing heard for two heartbeats",
            Self::Malformed => "not a valid WebSocket frame",
            Self::Binary => "binary frames are not spoken here",
            Self::NotUtf8 => "text frames must be UTF-8",
            Self::TooBig => "frame over limits.frame_bytes",
            Self::Restart => "the server restarts, come back",
            Self::TryAgainLater => "the store did not answer, come back later",
            Self::NoHello => "no valid hello in time",
            Self::Expired => "the token has expired",
            Self::Violation => "too many frames that cannot be understood",
            Self::Slow => "slow consumer: come back and sync",
            Self::Replaced => "replaced by a newer connection of this device",
            Self::Kicked => "this device or user may not be connected",
        }
    }
}

/// A text frame with `value` as JSON.
#[must_use]
pub fn text<T: Serialize>(value: &T) -> Bytes {
    let mut json = Json(Vec::with_capacity(USUAL_BYTES));
    json.0.resize(HEADER_MAX, 0);
    if let Err(error) = serde_json::to_writer(&mut json, value) {
        tracing::error!(%error, "a frame could not be written; it is left out");
        return Bytes::new();
    }
    let mut frame = json.0;
    let length = frame.len() - HEADER_MAX;
    let header = header(FIN_TEXT, length);
    let start = HEADER_MAX - header.len();
    if let Some(place) = frame.get_mut(start..HEADER_MAX) {
        place.copy_from_slice(&header);
    }
    Bytes::from(frame).slice(start..)
}

/// JSON comes in very small pieces, half of them a quote, a colon or a comma: those need no copying.
struct Json(Vec<u8>);

impl io::Write for Json {
    #[inline]
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.write_all(piece).map(|()| piece.len())
    }

    #[inline]
    fn write_all(&mut self, piece: &[u8]) -> io::Result<()> {
        match piece {
            [one] => self.0.push(*one),
            piece => self.0.extend_from_slice(piece),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A ping without payload.
#[must_use]
pub const fn ping() -> Bytes {
    Bytes::from_static(PING)
}

/// The answer to a ping.
#[must_use]
pub fn pong(payload: &[u8]) -> Bytes {
    control(FIN_PONG, payload)
}

/// A close frame.
#[must_use]
pub fn close(code: u16, reason: &str) -> Bytes {
    let mut payload = code.to_be_bytes().to_vec();
    payload.extend_from_slice(reason.as_bytes());
    control(FIN_CLOSE, &payload)
}

fn control(first: u8, payload: &[u8]) -> Bytes {
    let payload = payload.get(..CONTROL_BYTES_MAX).unwrap_or(payload);
    let mut frame = header(first, payload.len());
    frame.extend_from_slice(payload);
    Bytes::from(frame)
}

fn header(first: u8, length: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_MAX);
    header.push(first);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => header.push(short),
        (_, Ok(medium)) => {
            header.push(126);
            header.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            header.push(127);
            // No frame is longer than u64::MAX.
            header.extend_from_slice(&u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::tests::support::decode;

    #[test]
    fn frames_of_every_length_are_read_as_they_were_written() {
        for length in [0, 1, 123, 124, 125, 126, 127, 65_533, 65_534, 65_535, 65_536, 200_000] {
            let words = "x".repeat(length);
            assert_eq!(decode(&text(&words)), [format!("\"{words}\"")], "{length}");
        }
    }

    #[test]
    fn control_frames_are_never_too_long() {
        assert_eq!(decode(&ping()), ["ping"]);
        assert_eq!(decode(&pong(b"abc")), ["pong abc"]);
        assert_eq!(decode(&close(4008, &"x".repeat(300))), ["4008"]);
    }
}
