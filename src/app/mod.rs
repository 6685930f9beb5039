//! THE COMPOSITION ROOT: builds every part from the configuration, in order, and stops them in reverse.
//!
//! `store` opens the database, `keys` finds out how tokens are signed, `core` starts what decides and stores,
//! `server` puts the doors in front of it. Dependencies are passed in here and nowhere else.
//!
//! Never here: a rule, a statement, a word of the wire.

mod announcing;
mod core;
mod epoch;
mod files;
mod keys;
mod people;
mod relaying;
mod server;
mod store;
#[cfg(test)]
mod tests;

pub use self::core::{Core, NoDelivery};
pub use epoch::renew_epoch;
pub use files::{files, open_blobs};
pub use keys::{Signer, signer, signer_with};
pub use server::Server;
pub use store::open;

// What the commands say to the parts.
pub use crate::conversation::{Answer, CommandError};
pub use crate::service::{Announced, EPOCH_STALE_MS_MAX, Files, NewConversation, ServiceError};

use crate::config::{Log, LogFormat};
use crate::telemetry::{self, Format};

/// Starts to write logs.
pub fn start_logs(log: Log) {
    let format = match log.format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    telemetry::start(format, log.level.as_str());
}
