//! How a device comes in: a connection, `hello`, `welcome`.

use std::time::Duration;

use tokio::time::timeout;

use super::shared::Shared;
use super::socket::{Broken, Socket};
use super::wire::Frame;

/// How long the answer to `hello` may take.
const WELCOME_MAX: Duration = Duration::from_secs(10);
const HELLO_ID: u64 = 1;
/// A code that no waiting heals.
const UNAUTHENTICATED: &str = "unauthenticated";

/// A connection whose pushes have begun.
pub(super) async fn connect(shared: &Shared, token: &str, device_id: &str) -> Result<Socket, Broken> {
    let _turn = shared.connecting.acquire().await;
    let path = format!("{}/v1/ws", shared.target.path);
    let mut socket = Socket::connect(shared.address, &shared.target.host, &path).await?;
    socket.push(format!(
        r#"{{"id":{HELLO_ID},"type":"hello","token":"{token}","device_id":"{device_id}","platform":"load"}}"#
    ))?;
    let greeted = timeout(WELCOME_MAX, welcome(shared, &mut socket)).await;
    greeted.unwrap_or_else(|_| Err(Broken::new("no welcome within 10 s")))?;
    Ok(socket)
}

async fn welcome(shared: &Shared, socket: &mut Socket) -> Result<(), Broken> {
    loop {
        socket.flush()?;
        let Some(text) = socket.next()? else {
            socket.ready().await?;
            continue;
        };
        let frame = understood(&text)?;
        match (frame.kind, frame.code) {
            ("welcome", _) => return Ok(()),
            (_, Some(UNAUTHENTICATED)) => {
                let detail = frame.detail.unwrap_or_default();
                shared.give_up(format!("the server takes the groups but not the sockets: {detail}"));
                return Err(Broken::new(UNAUTHENTICATED));
            }
            (_, Some(code)) => {
                return Err(Broken {
                    sort: code.to_owned(),
                    after: frame.retry_after_ms.map(Duration::from_millis),
                });
            }
            _ => {}
        }
    }
}

/// A frame of the contract.
pub(super) fn understood(text: &str) -> Result<Frame<'_>, Broken> {
    serde_json::from_str(text).map_err(|error| Broken::new(format!("a frame that is not understood: {error}")))
}
