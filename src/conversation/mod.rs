//! THE SINGLE WRITER: one actor owns one conversation; it alone numbers and commits what happens there.
//!
//! `actor` is the mailbox, `writer` the way of one batch, `batch` its pure decisions, `facts` what the store is
//! asked first, `gap` what sessions are told after one that went wrong, `committer` the transactions
//! that batches of many conversations share, `backlog` the bound on what waits for all of them, `pending` a command until
//! it is answered.
//!
//! Never here: how facts reach clients (a [`Publisher`] is passed in), SQL, HTTP.
//! Invariants: INV-SEQ-2 (a number given to a client is stored), INV-OWN-1 (after a fence or an unknown outcome the
//! state is loaded anew, no seq is tried twice), and memory changes only after the commit.

pub mod actor;
pub mod backlog;
pub mod batch;
pub mod committer;
mod facts;
mod gap;
mod messages;
mod pending;
pub mod writer;

pub use actor::{ConversationActor, Do};
pub use backlog::{BACKLOG_BYTES, Backlog};
pub use committer::{Committer, Lane, run_lane};
pub use messages::{Answer, CommandError, Committed, Publisher, ReplyTo, SessionReply, Step};
pub use pending::Pending;
pub use writer::{ConversationWriter, Parts};
