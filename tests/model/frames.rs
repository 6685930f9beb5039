//! What a connection was sent so far, as the client at its other end reads it.

use std::task::{Context, Poll, Waker};

use onescribe::delivery::session::Session;
use serde_json::{Value, json};

use super::stack::Stack;

/// Everything that waits for the connection, with a ping as a barrier; each ping of a connection has its own number.
pub(crate) async fn read(stack: &Stack, session: &Session, ping: u64) -> Vec<Value> {
    assert!(stack.hub.ping(session.id(), ping));
    let mut frames = Vec::new();
    for _ in 0..100_000 {
        while let Poll::Ready(chunk) = session.outbox().poll_chunk(&Context::from_waker(Waker::noop())) {
            decode(&chunk.expect("the connection lives"), &mut frames);
        }
        let pong = frames.iter().position(|frame: &Value| frame["reply_to"] == ping);
        if let Some(at) = pong {
            frames.truncate(at);
            return frames;
        }
        tokio::task::yield_now().await;
    }
    panic!("no pong; so far: {frames:?}");
}

/// The text frames of what a client reads.
fn decode(mut bytes: &[u8], frames: &mut Vec<Value>) {
    while let [first, second, rest @ ..] = bytes {
        let (length, rest) = match second {
            126 => (
                usize::from(u16::from_be_bytes(rest[..2].try_into().unwrap())),
                &rest[2..],
            ),
            127 => (
                usize::try_from(u64::from_be_bytes(rest[..8].try_into().unwrap())).unwrap(),
                &rest[8..],
            ),
            short => (usize::from(*short), rest),
        };
        if *first == 0x81 {
            frames.push(serde_json::from_slice(&rest[..length]).unwrap());
        } else {
            frames.push(json!({"type": ""}));
        }
        bytes = &rest[length..];
    }
}
