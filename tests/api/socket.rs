//! A device on a WebSocket, as raw as it can be: every frame can be sent, every frame that comes is shown.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::world::{Caller, World};

/// How long a test waits for a frame that must come.
const PATIENCE: Duration = Duration::from_secs(15);
/// The end of a connection without a close frame.
pub(crate) const BROKEN: u16 = 1006;
/// A small receive buffer, so that a client that stops reading is noticed soon.
const RECEIVE_BYTES: u32 = 4_096;

pub(crate) struct Socket {
    stream: WebSocketStream<TcpStream>,
    next_id: u64,
    /// Pushes that came while a reply was waited for.
    pushes: Vec<Value>,
}

impl Socket {
    /// Connected, and nothing said.
    pub(crate) async fn open(world: &World) -> Self {
        Self::open_with(world, None).await.unwrap()
    }

    /// With a bearer header at the upgrade; `Err` = the HTTP status of a refusal.
    pub(crate) async fn open_with(world: &World, bearer: Option<&str>) -> Result<Self, u16> {
        let host = world.url.trim_start_matches("http://");
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(RECEIVE_BYTES).unwrap();
        let stream = socket.connect(host.parse().unwrap()).await.unwrap();
        let mut request = format!("ws://{host}/v1/ws").into_client_request().unwrap();
        if let Some(token) = bearer {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        match client_async(request, stream).await {
            Ok((stream, _)) => Ok(Self {
                stream,
                next_id: 1,
                pushes: Vec::new(),
            }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Welcomed.
    pub(crate) async fn hello(world: &World, caller: &Caller, device: &str) -> Self {
        let mut socket = Self::open(world).await;
        let welcome = socket
            .ask(json!({"type": "hello", "token": caller.token, "device_id": device}))
            .await;
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        socket
    }

    pub(crate) async fn text(&mut self, text: &str) {
        self.message(Message::text(text)).await;
    }

    /// Sends anything; what happens to it is seen by reading.
    pub(crate) async fn message(&mut self, message: Message) {
        self.stream.send(message).await.ok();
    }

    /// Sends a frame with an id of its own, and does not wait.
    pub(crate) async fn post(&mut self, mut frame: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        frame["id"] = id.into();
        self.text(&frame.to_string()).await;
        id
    }

    /// Sends a frame and waits for its reply. Pushes that come before are kept.
    pub(crate) async fn ask(&mut self, frame: Value) -> Value {
        let id = self.post(frame).await;
        loop {
            let frame = self.frame().await.expect("a reply");
            if frame["reply_to"] == id {
                return frame;
            }
            self.pushes.push(frame);
        }
    }

    /// Sends a text as it is; the next reply is the answer to it.
    pub(crate) async fn answer(&mut self, text: &str) -> Value {
        self.text(text).await;
        self.frame().await.expect("an answer")
    }

    pub(crate) async fn send(&mut self, room: &str, key: &str, text: &str) -> Value {
        self.ask(send(room, key, text)).await
    }

    /// The next frame; `Err` = the connection ended, with this code.
    pub(crate) async fn frame(&mut self) -> Result<Value, u16> {
        loop {
            match tokio::time::timeout(PATIENCE, self.stream.next())
                .await
                .expect("a frame in time")
            {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(frame)))) => {
                    let code = frame.code.into();
                    // The closing handshake, to its end: the server is the first to close the connection.
                    while let Some(Ok(_)) = tokio::time::timeout(PATIENCE, self.stream.next()).await.unwrap() {}
                    return Err(code);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(BROKEN),
            }
        }
    }

    /// Reads on to the end of the connection.
    pub(crate) async fn closed(&mut self) -> u16 {
        loop {
            if let Err(code) = self.frame().await {
                return code;
            }
        }
    }

    /// Everything that was pushed so far, with a ping as a barrier.
    pub(crate) async fn pushed(&mut self) -> Vec<Value> {
        let pong = self.ask(json!({"type": "ping"})).await;
        assert_eq!(pong["type"], "pong", "{pong}");
        std::mem::take(&mut self.pushes)
    }
}

/// A `message.send` of a text.
pub(crate) fn send(room: &str, key: &str, text: &str) -> Value {
    json!({"type": "message.send", "conversation_id": room, "client_message_id": key, "message_type": "TEXT",
           "content": {"text": text}})
}

/// The texts and events of `message.new` pushes.
pub(crate) fn words(pushes: &[Value]) -> Vec<String> {
    let messages = pushes.iter().filter(|push| push["type"] == "message.new");
    let contents = messages.map(|push| &push["message"]["content"]);
    contents
        .map(|content| {
            content["text"]
                .as_str()
                .or(content["event"].as_str())
                .unwrap()
                .to_owned()
        })
        .collect()
}
