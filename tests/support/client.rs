//! A device on a WebSocket that records every frame it receives, in the order in which they came.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::patiently;
use super::tokens::user_token;

/// The end of a connection without a close frame.
pub(crate) const BROKEN: u16 = 1006;

/// What one connection has seen.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Every frame, in order of arrival.
    pub(crate) frames: Vec<Value>,
    /// How the connection ended: a close code, or [`BROKEN`].
    pub(crate) closed: Option<u16>,
    /// How many `message.sent` came.
    pub(crate) acks: usize,
    /// How many `message.new` came.
    pub(crate) pushes: usize,
    replies: HashMap<u64, usize>,
}

impl Log {
    /// The reply to a frame, once it is here.
    pub(crate) fn reply(&self, frame: u64) -> Option<&Value> {
        self.replies.get(&frame).and_then(|at| self.frames.get(*at))
    }

    fn take(&mut self, frame: Value) {
        if let Some(id) = frame["reply_to"].as_u64() {
            self.replies.insert(id, self.frames.len());
        }
        match frame["type"].as_str() {
            Some("message.sent") => self.acks += 1,
            Some("message.new") => self.pushes += 1,
            _ => {}
        }
        self.frames.push(frame);
    }
}

/// How to come in.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// `USER user`.
    pub(crate) user: u64,
    /// The device.
    pub(crate) device: String,
    /// A small receive buffer, so that a client that stops reading is noticed soon.
    pub(crate) receive_buffer: Option<u32>,
}

impl Login {
    /// A usual client.
    pub(crate) fn new(user: u64, device: &str) -> Self {
        Self {
            user,
            device: device.to_owned(),
            receive_buffer: None,
        }
    }
}

/// A connected device. Dropping it breaks the connection without a close frame, as a crash would.
#[derive(Debug)]
pub(crate) struct Client {
    /// Who came in.
    pub(crate) login: Login,
    sink: Mutex<SplitSink<WebSocketStream<TcpStream>, Message>>,
    next_id: AtomicU64,
    log: watch::Receiver<Log>,
    reading: watch::Sender<bool>,
    reader: JoinHandle<()>,
}

impl Client {
    /// Connects and says hello; panics unless it is welcome.
    pub(crate) async fn connect(url: &str, login: Login) -> Self {
        let name = format!("{}/{}", login.user, login.device);
        match Self::try_connect(url, login).await {
            Ok(client) => client,
            Err(why) => panic!("{name} is not welcome: {why}"),
        }
    }

    /// Connects and says hello; the error says why it was turned away.
    pub(crate) async fn try_connect(url: &str, login: Login) -> Result<Self, String> {
        let (sink, stream) = open(url, &login).await.map_err(|error| error.to_string())?.split();
        let (log, seen) = watch::channel(Log::default());
        let (reading, may_read) = watch::channel(true);
        let reader = tokio::spawn(read(stream, log, may_read));
        let client = Self {
            login,
            sink: Mutex::new(sink),
            next_id: 1.into(),
            log: seen,
            reading,
            reader,
        };
        let token = user_token(client.login.user);
        let hello = json!({"type": "hello", "token": token, "device_id": client.login.device, "platform": "test"});
        let welcome = client
            .ask(hello)
            .await
            .ok_or("the connection ended before the welcome")?;
        if welcome["type"] == "welcome" {
            Ok(client)
        } else {
            Err(welcome.to_string())
        }
    }

    /// Sends a frame without waiting for its reply and gives the frame's id. Whether the connection was still there
    /// is seen from the log.
    pub(crate) async fn post(&self, mut frame: Value) -> u64 {
        let mut sink = self.sink.lock().await;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        frame["id"] = id.into();
        patiently("room to send", sink.send(Message::text(frame.to_string())))
            .await
            .ok();
        id
    }

    /// Sends a frame and waits for its reply; `None` = the connection ended first.
    pub(crate) async fn ask(&self, frame: Value) -> Option<Value> {
        let what = format!("the reply to {}", frame["type"]);
        let id = self.post(frame).await;
        self.until(&what, |log| log.closed.is_some() || log.reply(id).is_some())
            .await;
        self.log.borrow().reply(id).cloned()
    }

    /// Posts a `message.send` of a text.
    pub(crate) async fn send(&self, conversation: &str, key: &str, text: &str) -> u64 {
        let frame = json!({"type": "message.send", "conversation_id": conversation, "client_message_id": key,
                           "message_type": "TEXT", "content": {"text": text}});
        self.post(frame).await
    }

    /// Waits until the log is as it should be.
    pub(crate) async fn until(&self, what: &str, condition: impl FnMut(&Log) -> bool) {
        let mut log = self.log.clone();
        let what = format!("{what} ({}/{})", self.login.user, self.login.device);
        // An error only says that the reader has ended: then the log is complete.
        patiently(&what, log.wait_for(condition)).await.map(drop).ok();
    }

    /// Waits for the end of the connection and gives its close code.
    pub(crate) async fn closed(&self) -> u16 {
        self.until("the end of the connection", |log| log.closed.is_some())
            .await;
        self.log.borrow().closed.unwrap_or(BROKEN)
    }

    /// A ping as a barrier: whatever was queued for this connection before it has been received afterwards.
    pub(crate) async fn settle(&self) {
        let pong = self.ask(json!({"type": "ping"})).await;
        assert_eq!(
            pong.map(|pong| pong["type"].clone()),
            Some("pong".into()),
            "no pong for {}",
            self.login.user
        );
    }

    /// Looks at the log.
    pub(crate) fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.log.borrow())
    }

    /// Another view of the log, which outlives the client.
    pub(crate) fn watch(&self) -> watch::Receiver<Log> {
        self.log.clone()
    }

    /// Stops reading, as a stuck client does: the buffers on the way fill up.
    pub(crate) fn stall(&self) {
        self.reading.send_replace(false);
    }

    /// Reads on.
    pub(crate) fn resume(&self) {
        self.reading.send_replace(true);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn open(url: &str, login: &Login) -> tungstenite::Result<WebSocketStream<TcpStream>> {
    let host = url.trim_start_matches("http://");
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = login.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    let stream = socket.connect(host.parse().expect("an address")).await?;
    stream.set_nodelay(true)?;
    let (stream, _) = client_async(format!("ws://{host}/v1/ws"), stream).await?;
    Ok(stream)
}

/// Reads until the end, but not while stalled.
async fn read(
    mut stream: SplitStream<WebSocketStream<TcpStream>>,
    log: watch::Sender<Log>,
    mut may_read: watch::Receiver<bool>,
) {
    let code = loop {
        if may_read.wait_for(|may| *may).await.is_err() {
            break BROKEN;
        }
        match stream.next().await {
            Some(Ok(Message::Text(text))) => {
                let frame = serde_json::from_str(text.as_str()).expect("the server speaks JSON");
                log.send_modify(|log| log.take(frame));
            }
            Some(Ok(Message::Close(Some(frame)))) => break frame.code.into(),
            Some(Ok(Message::Binary(bytes))) => panic!("a binary frame of {} bytes from the server", bytes.len()),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break BROKEN,
        }
    };
    log.send_modify(|log| log.closed = Some(code));
}
