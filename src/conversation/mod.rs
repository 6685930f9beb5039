//! THE SINGLE WRITER: one actor owns one conversation; it alone numbers and commits what happens there.
//!
//! Never here: how facts reach clients (a [`Publisher`] is passed in), SQL, HTTP.
//! Invariants: INV-SEQ-2 (a number given to a client is stored), INV-OWN-1, and memory changes only after the commit.

mod messages;

pub use messages::{Answer, CommandError, Committed, Publisher, ReplyTo, SessionReply, Step};
