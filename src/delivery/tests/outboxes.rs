//! What waits for a connection: its order, its bounds, and who writes it.

use std::future::poll_fn;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::support::decode;
use crate::delivery::outbox::{Bounds, CHUNK_BYTES_MAX, CONTROL_GRACE, Outbox, SLOW_GRACE};
use crate::delivery::wire::{self, Close};

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
    assert_eq!(poll(&outbox), Poll::Ready(None));
}

#[tokio::test(start_paused = true)]
async fn b87_the_memory_of_a_burst_is_given_back() {
    let outbox = outbox(1 << 20);
    for _ in 0..1000 {
        outbox.push(frame(100), Instant::now());
    }
    while poll(&outbox).is_ready() {}
    assert_eq!((outbox.waiting().room, outbox.waiting().bytes), (0, 0));
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
    for (reason, code) in [
        (Close::Replaced, "4009"),
        (Close::Kicked, "4010"),
        (Close::Expired, "4003"),
    ] {
        let outbox = outbox(1 << 20);
        outbox.push(frame(1), Instant::now());
        outbox.close(reason);
        outbox.close(Close::Slow);
        outbox.push(frame(2), Instant::now());
        assert_eq!(outbox.closing().await, Some(CONTROL_GRACE));
        assert_eq!(close_code(&write(&outbox)), code);
        assert_eq!(poll(&outbox), Poll::Pending);
    }
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
    outbox.push(frame(400), Instant::now());
    assert!(!outbox.is_busy());
    outbox.push(frame(200), Instant::now());
    assert!(outbox.is_busy());
}

/// A connection whose writer waits, and its client.
fn connected(bytes: usize) -> (Outbox, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    let age = Duration::from_secs(30);
    let outbox = Outbox::new(Bounds { bytes, age }, Some(Arc::new(server)));
    assert_eq!(poll(&outbox), Poll::Pending);
    (outbox, client)
}

fn read(client: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    client.read_exact(&mut read).unwrap();
    read
}

#[tokio::test]
async fn a_push_is_written_at_once_and_what_is_queued_with_the_next_write() {
    let (outbox, mut client) = connected(1000);
    outbox.push(frame(1), Instant::now());
    assert_eq!(read(&mut client, 5), frame(1), "`write` was not called");
    assert!(outbox.queue(frame(2), Instant::now()));
    assert!(
        !outbox.queue(frame(3), Instant::now()),
        "the first one has asked for a write"
    );
    assert_eq!(outbox.waiting().frames, 2);
    outbox.write();
    assert_eq!(read(&mut client, 13), [frame(2), frame(3)].concat());
    assert_eq!(poll(&outbox), Poll::Pending);
}

#[tokio::test]
async fn nobody_else_writes_while_the_writer_has_something_in_hand() {
    let (outbox, mut client) = connected(1000);
    outbox.queue(frame(1), Instant::now());
    assert_eq!(write(&outbox), frame(1), "now it is the writer who has it");
    outbox.push(frame(2), Instant::now());
    client.set_nonblocking(true).unwrap();
    assert!(client.read(&mut [0]).is_err(), "frame 2 has overtaken frame 1");
    assert_eq!(write(&outbox), frame(2));
}

#[tokio::test]
async fn b87_a_frame_that_was_begun_is_ended_before_the_4008() {
    let (outbox, mut client) = connected(100);
    let large = frame(16 << 20);
    outbox.push(large.clone(), Instant::now());
    assert!(outbox.waiting().rest > 0, "the socket took all of it");
    outbox.push(frame(90), Instant::now());
    outbox.push(frame(90), Instant::now());
    let rest = write(&outbox);
    assert_eq!(close_code(&write(&outbox)), "4008");
    let begun = read(&mut client, large.len() - rest.len());
    assert!(
        [begun.as_slice(), &rest].concat() == large,
        "the frame has come in one piece"
    );
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
    assert!(outbox.waiting().frames == 0);
}
