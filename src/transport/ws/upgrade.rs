//! `GET /v1/ws`: the handshake. A bearer header may replace the hello's token; a bad one ends here, with 401.

use std::any::Any;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use actix::{AsyncContext, Context};
use actix_web::dev::Extensions;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use actix_web_actors::ws::handshake;
use socket2::SockRef;

use super::Door;
use super::actor::SessionActor;
use super::body::OutboxBody;
use super::inbound::{Gate, Inbound};
use crate::delivery::HubHandle;
use crate::domain::{Code, InvalidField};
use crate::service::ServiceError;
use crate::transport::address;
use crate::transport::rest::{Problem, bearer};

/// What the kernel may hold for a client that does not read (it takes twice that). Left to itself it takes up to 4 MiB,
/// more than all that this process lets wait for the client.
const SOCKET_BYTES: usize = 128 * 1024;

/// A second handle of a connection's socket: its frames are written with it, and it can be ended while it is stuck.
struct SecondHandle(Arc<TcpStream>);

/// For `HttpServer::on_connect`: keeps a second handle of the socket with the connection.
pub fn remember_socket(connection: &dyn Any, data: &mut Extensions) {
    let Some(stream) = connection.downcast_ref::<actix_web::rt::net::TcpStream>() else {
        return;
    };
    match stream.as_fd().try_clone_to_owned() {
        Ok(second) => drop(data.insert(SecondHandle(Arc::new(TcpStream::from(second))))),
        // Out of descriptors: it can ask over HTTP, and is refused a WebSocket.
        Err(error) => tracing::warn!(%error, "no second handle for a connection; raise the limit of open files"),
    }
}

/// Makes a connection of a request. `hub` is the one of this worker.
pub(super) async fn upgrade(
    request: HttpRequest,
    payload: Payload,
    door: Data<Door>,
    hub: Data<HubHandle>,
) -> Result<HttpResponse, Problem> {
    if let Some(address) = address::client(&request, &door.trusted_proxies) {
        door.rates.connect(address)?;
    }
    let claims = match bearer(&request) {
        Some(token) => {
            let claims = door.authenticator.verify(token, door.clock.now());
            Some(claims.map_err(|error| ServiceError::new(Code::Unauthenticated, error.to_string()))?)
        }
        None => None,
    };
    let no_handshake = InvalidField::new("upgrade", "this path speaks WebSocket (RFC 6455, version 13) only");
    let mut response = handshake(&request).map_err(|_| no_handshake)?;
    if door.delivery.is_closing() {
        return Err(ServiceError::new(Code::Unavailable, "the server restarts; come back in a moment").into());
    }
    let Some(SecondHandle(socket)) = request.conn_data::<SecondHandle>() else {
        return Err(ServiceError::new(
            Code::Unavailable,
            "the server has no room for a connection; come back later",
        )
        .into());
    };
    if let Err(error) = SockRef::from(&**socket).set_send_buffer_size(SOCKET_BYTES) {
        tracing::debug!(%error, "the send buffer of a connection keeps its size");
    }
    let (id, outbox) = door.delivery.open(Some(Arc::clone(socket)));
    let body = OutboxBody::new(Arc::clone(&outbox), Arc::clone(socket));
    let gate = Rc::<Gate>::default();
    let inbound = Inbound::new(payload, door.limits.frame_bytes, Rc::clone(&gate));
    let actor = SessionActor::new(id, door.into_inner(), hub.get_ref().clone(), outbox, gate, claims);
    let mut context = Context::new();
    context.add_stream(inbound);
    drop(context.run(actor));
    Ok(response.body(body))
}
