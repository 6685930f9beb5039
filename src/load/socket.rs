//! One WebSocket that never waits inside: what is there is read, what can be written is written, and the caller waits
//! for both at once. So a server that does not read cannot keep the load from reading.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes, WebSocket};

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Bytes of one read: small, since thousands of connections have one buffer each.
const READ_BYTES: usize = 16 * 1024;
/// Bytes that may wait for a server that does not read.
const WRITE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why there is no connection (any more).
#[derive(Debug)]
pub(super) struct Broken {
    /// A short name, to count by.
    pub(super) sort: String,
    /// When the server asks to come back.
    pub(super) after: Option<Duration>,
}

impl Broken {
    pub(super) fn new(sort: impl Into<String>) -> Self {
        Self {
            sort: sort.into(),
            after: None,
        }
    }
}

/// A stream whose reads and writes answer at once.
#[derive(Debug)]
struct Instantly(TcpStream);

impl Read for Instantly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Instantly {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Socket {
    web: WebSocket<Instantly>,
    /// Something is to be written.
    pending: bool,
}

impl Socket {
    /// Connects to `address` and asks for `path`; `host` is what the server is called.
    pub(super) async fn connect(address: SocketAddr, host: &str, path: &str) -> Result<Self, Broken> {
        let connecting = async {
            let stream = TcpStream::connect(address)
                .await
                .map_err(|error| broken(&error.into()))?;
            stream.set_nodelay(true).map_err(|error| broken(&error.into()))?;
            let done = client_async(format!("ws://{host}{path}"), stream).await;
            done.map_err(|error| broken(&error))
        };
        let connected = timeout(CONNECT_MAX, connecting).await;
        let (stream, _) = connected.map_err(|_| Broken::new("no connection within 10 s"))??;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .max_write_buffer_size(WRITE_BYTES_MAX);
        // Nothing is lost between the two: a server says nothing before it is greeted.
        let web = WebSocket::from_raw_socket(Instantly(stream.into_inner()), Role::Client, Some(config));
        Ok(Self { web, pending: false })
    }

    /// Puts a text into the next write.
    pub(super) fn push(&mut self, text: String) -> Result<(), Broken> {
        self.pending = true;
        match self.web.write(Message::text(text)) {
            Err(error) if !is_later(&error) => Err(broken(&error)),
            _ => Ok(()),
        }
    }

    /// Writes what the network takes now.
    pub(super) fn flush(&mut self) -> Result<(), Broken> {
        if !self.pending {
            return Ok(());
        }
        match self.web.flush() {
            Ok(()) => {
                self.pending = false;
                Ok(())
            }
            Err(error) if is_later(&error) => Ok(()),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Waits until something can be read, or written if there is something to write.
    pub(super) async fn ready(&self) -> Result<(), Broken> {
        let interest = if self.pending {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        let ready = self.web.get_ref().0.ready(interest).await;
        ready.map(|_| ()).map_err(|error| broken(&error.into()))
    }

    /// The next text that is there. Pings are answered with the next write.
    pub(super) fn next(&mut self) -> Result<Option<Utf8Bytes>, Broken> {
        loop {
            match self.web.read() {
                Ok(Message::Text(text)) => return Ok(Some(text)),
                Ok(Message::Close(frame)) => {
                    let code = frame.map_or(1_005, |frame| u16::from(frame.code));
                    return Err(Broken::new(format!("closed with {code}")));
                }
                Ok(_) => self.pending = true,
                Err(error) if is_later(&error) => return Ok(None),
                Err(error) => return Err(broken(&error)),
            }
        }
    }

    /// Says goodbye, as far as the network takes it now.
    pub(super) fn close(&mut self) {
        // Whoever is gone already needs no goodbye.
        self.web.close(None).ok();
        self.web.flush().ok();
    }
}

fn is_later(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == ErrorKind::WouldBlock)
}

fn broken(error: &Error) -> Broken {
    match error {
        Error::Http(response) => {
            let retry_after = response
                .headers()
                .get("retry-after")
                .and_then(|value| value.to_str().ok()?.parse().ok());
            Broken {
                sort: format!("upgrade refused with {}", response.status().as_u16()),
                after: retry_after.map(Duration::from_secs),
            }
        }
        Error::Io(error) => Broken::new(match error.kind() {
            ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                "connection lost".to_owned()
            }
            _ => error.to_string(),
        }),
        Error::ConnectionClosed | Error::AlreadyClosed => Broken::new("connection lost"),
        Error::Protocol(tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            Broken::new("connection lost")
        }
        other => Broken::new(other.to_string()),
    }
}
