//! One hub per arbiter: it holds the sessions of that arbiter, knows who of them listens to which conversation, and
//! fills their outboxes in the order in which the conversations produced things.
//!
//! Never here: a decision about a conversation, an encoding per session, a wait for a client.
//! Invariants: INV-SEQ-3 (one mailbox, walked through in order), and a push costs as much as there are sessions that
//! listen here, however many members there are.

mod actor;
mod desk;
mod outgoing;
mod replies;
mod rest;
mod roster;

pub(super) use actor::{Answered, Deliver, Ping, Register, Sweep, Typing};
pub use actor::{HUB_MAILBOX_MAX, Hub};
#[cfg(test)]
pub(super) use actor::{Panic, Tire};
#[cfg(test)]
pub(super) use desk::Desk;
#[cfg(test)]
pub(super) use rest::REST_MAX;
