//! A lean WebSocket client for load: frames are written with the mask 0 (allowed, and then masking costs nothing),
//! many frames in one write; of what comes in only what is counted is looked at.

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const READ_BYTES: usize = 64 * 1024;
const OPCODE_TEXT: u8 = 1;
const OPCODE_PING: u8 = 9;
const OPCODE_PONG: u8 = 10;

/// One connection of one device.
pub(crate) struct Socket {
    stream: TcpStream,
    /// What was read; `done` bytes of it are dealt with.
    inbound: Vec<u8>,
    done: usize,
    outbound: Vec<u8>,
}

impl Socket {
    /// Connects and says hello.
    pub(crate) async fn connect(address: &str, token: &str, device: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut socket = Self {
            stream,
            inbound: Vec::new(),
            done: 0,
            outbound: Vec::new(),
        };
        let upgrade = format!(
            "GET /v1/ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.stream.write_all(upgrade.as_bytes()).await?;
        socket.read_upgrade().await?;
        let hello = format!(r#"{{"id":1,"type":"hello","token":"{token}","device_id":"{device}","platform":"load"}}"#);
        socket.push(hello.as_bytes());
        socket.flush().await?;
        loop {
            if let Some(text) = socket.next_text()? {
                ensure!(
                    find(text, b"\"welcome\"").is_some(),
                    "no welcome: {}",
                    String::from_utf8_lossy(text)
                );
                return Ok(socket);
            }
            socket.read().await?;
        }
    }

    async fn read_upgrade(&mut self) -> Result<()> {
        loop {
            self.read().await?;
            if let Some(end) = find(&self.inbound, b"\r\n\r\n") {
                let head = self.inbound.get(..end).unwrap_or_default();
                ensure!(
                    head.starts_with(b"HTTP/1.1 101"),
                    "no upgrade: {}",
                    String::from_utf8_lossy(head)
                );
                self.done = end + 4;
                return Ok(());
            }
        }
    }

    /// Puts a text frame into the next write.
    pub(crate) fn push(&mut self, text: &[u8]) {
        self.push_frame(OPCODE_TEXT, text);
    }

    fn push_frame(&mut self, opcode: u8, payload: &[u8]) {
        self.outbound.push(0x80 | opcode);
        match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
            (Ok(length @ ..=125), _) => self.outbound.push(0x80 | length),
            (_, Ok(length)) => {
                self.outbound.push(0x80 | 0x7E);
                self.outbound.extend(length.to_be_bytes());
            }
            _ => unreachable!("the load has short frames only"),
        }
        self.outbound.extend([0; 4]);
        self.outbound.extend(payload);
    }

    /// Writes what was pushed.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.outbound).await?;
        self.outbound.clear();
        Ok(())
    }

    /// Waits for bytes. May be dropped while it waits: nothing is lost.
    pub(crate) async fn read(&mut self) -> Result<()> {
        self.inbound.drain(..self.done);
        self.done = 0;
        self.inbound.reserve(READ_BYTES);
        let count = self.stream.read_buf(&mut self.inbound).await?;
        ensure!(count > 0, "the server closed the connection");
        Ok(())
    }

    /// The next text frame that is there as a whole. Pings are answered with the next write.
    pub(crate) fn next_text(&mut self) -> Result<Option<&[u8]>> {
        loop {
            let Some(frame) = Frame::first(self.inbound.get(self.done..).unwrap_or_default()) else {
                return Ok(None);
            };
            let payload = self.done + frame.header..self.done + frame.header + frame.length;
            self.done = payload.end;
            match frame.opcode {
                OPCODE_TEXT => return Ok(self.inbound.get(payload)),
                OPCODE_PING => {
                    let payload = self.inbound.get(payload).unwrap_or_default().to_vec();
                    self.push_frame(OPCODE_PONG, &payload);
                }
                OPCODE_PONG => {}
                other => bail!(
                    "the server sent a frame with opcode {other}: {:?}",
                    self.inbound.get(payload)
                ),
            }
        }
    }
}

struct Frame {
    opcode: u8,
    header: usize,
    length: usize,
}

impl Frame {
    /// The frame at the beginning, if it is there as a whole. Servers do not mask.
    fn first(bytes: &[u8]) -> Option<Self> {
        let [first, second, ..] = *bytes else { return None };
        let (header, length) = match second {
            126 => (4, u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
            127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
            short => (2, u64::from(short)),
        };
        let length = usize::try_from(length).ok()?;
        (bytes.len() >= header + length).then_some(Self {
            opcode: first & 0x0f,
            header,
            length,
        })
    }
}

/// Where `needle` begins.
pub(crate) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

/// The number after `name`, quoted or not.
pub(crate) fn number(text: &[u8], name: &[u8]) -> Result<i64> {
    let after = find(text, name).map(|at| text.get(at + name.len()..).unwrap_or_default());
    let digits = after
        .unwrap_or_default()
        .iter()
        .skip_while(|byte| **byte == b'"')
        .take_while(|b| b.is_ascii_digit());
    let mut value = None;
    for digit in digits {
        value = Some(value.unwrap_or(0) * 10 + i64::from(digit - b'0'));
    }
    value.with_context(|| {
        format!(
            "no {} in {}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(text)
        )
    })
}
