//! USE CASES, called by REST and WebSocket alike: one layer under both doors, so that both give the same answers.
//!
//! It speaks the domain: what goes in was parsed at the door, what comes out is written by `protocol`.
//! Never here: HTTP, frames, JSON, SQL, a decision about a conversation (its writer decides).
//! Invariants: INV-VIS-1 (every read checks the viewer's rights on its way out), INV-IDEM-1 (a retry is the same act).

mod ask;
mod conversations;
mod devices;
mod error;
mod health;
mod inbox;
mod messages;
mod principals;
mod reminders;
#[cfg(test)]
mod tests;
mod users;

pub use ask::REPLY_TIMEOUT;
pub use conversations::{ConversationChanged, Conversations, Made, MembersChanged, Page};
pub use devices::Devices;
pub use error::{Extra, ServiceError};
pub use health::Health;
pub use inbox::{Inbox, ReadUpTo, Receipts};
pub use messages::{HistoryPage, HistoryQuery, Messages, Sent, Touched};
pub use principals::{PRINCIPALS_CACHED_MAX, Principals, STATUS_KNOWN_FOR};
pub use reminders::{Reminder, Reminders};
pub use users::{Disconnect, Users};

// Readers' words of the store that the doors pass on.
pub use crate::domain::NewConversation;
pub use crate::storage::{ActionPosition, DeviceCursor, ListPosition, MemberPosition, Seen, Totals};
