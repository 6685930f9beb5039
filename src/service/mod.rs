//! USE CASES, called by REST and WebSocket alike: one layer under both doors, so that both give the same answers.
//!
//! It speaks the domain: what goes in was parsed at the door, what comes out is written by `protocol`.
//! Never here: HTTP, frames, JSON, SQL, a decision about a conversation (its writer decides).
//! Invariants: INV-VIS-1 (every read checks the viewer's rights on its way out), INV-IDEM-1 (a retry is the same act).

mod announcements;
mod announcing;
mod ask;
mod contacts;
mod conversations;
mod devices;
mod epoch;
mod error;
mod files;
mod forward;
mod health;
mod inbox;
mod messages;
mod notifications;
mod principals;
mod reminders;
mod sweep;
mod sync;
mod tending;
#[cfg(test)]
mod tests;
mod users;

pub use announcements::Announcements;
pub use announcing::Announcing;
pub use ask::REPLY_TIMEOUT;
pub use contacts::Contacts;
pub use conversations::{ConversationChanged, Conversations, Made, MembersChanged, Page};
pub use devices::Devices;
pub use epoch::{EPOCH_SETTING, EPOCH_STALE_MS_MAX, Epoch};
pub use error::{Extra, ServiceError};
pub use files::{Announced, Body, FileOptions, Files, Invitation, Seat};
pub use forward::Forwarded;
pub use health::Health;
pub use inbox::{Inbox, ReadUpTo, Receipts};
pub use messages::{HistoryPage, HistoryQuery, Messages, Sent, Touched};
pub use notifications::{Asked, NotificationParts, Notifications, Terms};
pub use principals::{PRINCIPALS_CACHED_MAX, Principals, STATUS_KNOWN_FOR};
pub use reminders::{Reminder, Reminders};
pub use sweep::{Objects, Sweep, Swept};
pub use sync::{
    SYNC_CHANGES_MAX, SYNC_CURSORS_MAX, Sync, SyncChange, SyncEntry, SyncPage, SyncQuery, UNREAD_LISTED_MAX,
    UnreadTotal,
};
pub use tending::Tending;
pub use users::{Disconnect, Users};

// Readers' words of the store that the doors pass on.
pub use crate::domain::NewConversation;
pub use crate::storage::{
    ActionPosition, Device, DeviceCursor, ListPosition, MemberPosition, PinPosition, Seen, Totals, Unread,
};
