//! RULES. Pure functions and values: no async, no clock, no database, no actix.
//!
//! Never here: a look at the time, chance, a wait, or a word about how something is stored or sent.
//! Invariants decided here: INV-SEQ-1, INV-IDEM-1, INV-CHG-1, INV-VIS-1 (their texts stand in `lib.rs`).

pub mod annotated;
pub mod announcement;
pub mod attachment;
pub mod chain;
pub mod change;
pub mod code;
pub mod command;
pub mod content;
pub mod conversation;
pub mod decide;
pub mod error;
pub mod event;
pub mod file;
mod file_name;
pub mod ids;
pub mod json;
mod media_type;
pub mod member;
pub mod mention;
pub mod message;
pub mod notice;
pub mod notification;
pub mod personal;
pub mod policy;
pub mod profile;
pub mod snowflake;
pub mod subject;
pub mod ties;
pub mod time;
pub mod visibility;
pub mod webhook;

pub use annotated::{Annotated, Marked, Marks, Reaction, Reactor, Tally};
pub use announcement::{Announcement, Audience, Job, JobState, NewAnnouncement};
pub use chain::Digest;
pub use change::{Change, ChangeType};
pub use code::Code;
pub use command::{Command, Conclusion, Create, HeaderPatch, NewConversation, Notify, Origin, Send, Touch};
pub use content::{Content, MessageType};
pub use conversation::{
    Adding, Conversation, Counters, CreationKey, Head, Header, HistoryVisibility, Kind, Posting, Status,
};
pub use decide::{Batch, Context, Draft, Fact, Facts, Outcome, Quotable, Refusal, Touchable};
pub use error::{DomainError, InvalidField};
pub use event::Event;
pub use file::{Blob, Dimensions, File, FileState};
pub use file_name::{FILE_NAME_BYTES_MAX, FileName};
pub use ids::{
    BlobId, ChangeSeq, ClientMessageId, ClientRequestId, ConversationId, CountNo, DeviceId, Emoji, EventNo, ExternalId,
    FileId, JobId, MessageId, Principal, PrincipalType, Seq, Timestamp, WebhookId,
};
pub use media_type::{MEDIA_TYPE_BYTES_MAX, MediaType};
pub use member::{Member, Members, Membership, Role};
pub use mention::Mentions;
pub use message::{KeyRecord, Message, MessageStatus};
pub use notice::{ChangeLine, Notice, NoticeType, PlacedNotice, PresentNotice, SentLine};
pub use notification::{Notification, NotificationAnswer, NotificationKey, NotificationKind, NotificationState};
pub use personal::{Action, ActionType, Actionable, Personal, Position, Receipt, Settings, SettingsPatch};
pub use profile::{PrincipalStatus, Profile, ProfilePatch};
pub use subject::{Name, Subject};
pub use ties::{Block, Contact, Ties};
pub use webhook::{Delivery, DeliveryState, NoticeSet, Webhook, WebhookName, WebhookSecret};
