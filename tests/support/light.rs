//! A device that costs next to nothing, so that there can be thousands: it says hello, and reads only when it is asked to.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::client::BROKEN;
use super::tokens::user_token;

/// Little, so that a client that does not read is noticed soon.
const RECEIVE_BYTES: u32 = 4_096;
const OP_TEXT: u8 = 0x81;
const OP_CLOSE: u8 = 0x88;

/// A connected device.
#[derive(Debug)]
pub(crate) struct Light {
    stream: TcpStream,
}

/// Why it was not let in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The status of the upgrade, and the seconds of its Retry-After.
    Status(u16, Option<u64>),
    /// The connection ended.
    Broken,
}

impl Light {
    /// `USER user` on the device `light`.
    pub(crate) async fn connect(url: &str, user: u64) -> Result<Self, Refusal> {
        Self::try_connect(url, user).await.unwrap_or(Err(Refusal::Broken))
    }

    async fn try_connect(url: &str, user: u64) -> std::io::Result<Result<Self, Refusal>> {
        let host = url.trim_start_matches("http://");
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(RECEIVE_BYTES)?;
        let mut stream = socket.connect(host.parse().expect("an address")).await?;
        let upgrade = format!(
            "GET /v1/ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(upgrade.as_bytes()).await?;
        let head = head(&mut stream).await?;
        if !head.starts_with("http/1.1 101") {
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            let after = head
                .lines()
                .find_map(|line| line.strip_prefix("retry-after: ")?.trim().parse().ok());
            return Ok(Err(Refusal::Status(status.unwrap_or_default(), after)));
        }
        let hello = json!({"id": 1, "type": "hello", "token": user_token(user), "device_id": "light"}).to_string();
        stream.write_all(&masked(hello.as_bytes())).await?;
        let mut light = Self { stream };
        match light.frame().await? {
            (OP_TEXT, welcome) if String::from_utf8_lossy(&welcome).contains("\"welcome\"") => Ok(Ok(light)),
            _ => Ok(Err(Refusal::Broken)),
        }
    }

    /// Reads on to the end, and gives the close code.
    pub(crate) async fn closed(&mut self) -> u16 {
        loop {
            match self.frame().await {
                Ok((OP_CLOSE, payload)) if payload.len() >= 2 => return u16::from_be_bytes([payload[0], payload[1]]),
                Ok(_) => {}
                Err(_) => return BROKEN,
            }
        }
    }

    /// Reads one byte; `false` = the connection has ended.
    pub(crate) async fn sip(&mut self) -> bool {
        self.stream.read_u8().await.is_ok()
    }

    async fn frame(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let first = self.stream.read_u8().await?;
        let length = match self.stream.read_u8().await? {
            126 => self.stream.read_u16().await?.into(),
            127 => self.stream.read_u64().await?,
            short => short.into(),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await?;
        Ok((first, payload))
    }
}

/// The head of the answer in small letters, and not a byte more.
async fn head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// A text frame with a mask of zeros.
fn masked(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let mut frame = vec![OP_TEXT, 0x80 | 0x7E];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text);
    frame
}
