//! FACTS ON THEIR WAY: what was committed reaches every device of every member that is online, in order, once.
//!
//! conversation -> one [`hub`] per arbiter -> one [`outbox`] per connection on that arbiter. A commit is encoded once
//! and shared; what waits for a connection is merged into one write.
//! Never here: a decision, a right (membership follows the commits), a wait for a client.
//! Invariants: INV-SEQ-3 (live events reach a session in seq order), INV-VIS-1 (nothing that follows a removal reaches
//! the removed).

mod budget;
pub mod fan;
pub mod hub;
pub mod outbox;
mod publisher;
mod queue;
pub mod session;
pub mod sessions;
mod shared;
#[cfg(test)]
pub(crate) mod tests;
pub mod wire;

use std::time::Duration;

pub use publisher::Delivery;
pub use shared::{HubHandle, LOADS_MAX};

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What may wait for one connection.
    pub bounds: outbox::Bounds,
    /// What may wait for all connections together (`limits.outbound_total_bytes`).
    pub bytes_total: usize,
    /// `server.heartbeat_secs`
    pub heartbeat: Duration,
}

impl Options {
    /// So much is handed to a connection before it is let write. Small outbound queues ask for small pieces: a client
    /// that reads must never be taken for a slow one.
    fn turn_bytes(&self) -> usize {
        fan::FAN_BYTES_MAX.min(self.bounds.bytes / 4)
    }
}
