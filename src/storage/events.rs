//! The log of events for other systems, at rest.
//!
//! The messages and changes of the conversations are the outbox: they are numbered without holes and stored in the commit
//! that makes them true. A row per conversation says how far its events have their place in the store-wide log
//! ([`EventStore`]); [`Placer`] gives them one, in a transaction in which all who do so pass one after the other
//! (INV-OUT-1). So a send costs not one row more (INV-COST-1), and a place never appears below what was read before (B46).

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{
    ChangeLine, ChangeSeq, ChangeType, ConversationId, EventNo, Kind, MessageId, Notice, PlacedNotice, Principal,
    SentLine, Seq, Timestamp,
};

/// The log as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// The newest event.
    pub newest: EventNo,
    /// Since when events are placed; `None` = nobody wants any, so none are.
    pub active_since: Option<Timestamp>,
    /// When the feed was asked last.
    pub feed_asked_at: Timestamp,
}

/// How far the events of a conversation are placed, as the row says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCursor {
    /// Messages up to here.
    pub seq: Seq,
    /// Changes up to here.
    pub change_seq: ChangeSeq,
    /// [`LogState::active_since`] at that time: in another period it says nothing.
    pub active_since: Timestamp,
}

/// A conversation whose head is beyond its placed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Which.
    pub conversation_id: ConversationId,
    /// What it is.
    pub kind: Kind,
    /// Its row, if it has one.
    pub row: Option<EventCursor>,
    /// What was there up to here needs no event (any more).
    pub from: (Seq, ChangeSeq),
    /// The head, both of one moment.
    pub head: (Seq, ChangeSeq),
}

/// A page of a walk over all conversations.
#[derive(Clone, Debug, Default)]
pub struct LagPage {
    /// Looked at up to this one; `None` = there are no more.
    pub last: Option<ConversationId>,
    /// Those that lag.
    pub lags: Vec<Lag>,
}

/// What of a conversation's log has to get its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unplaced {
    /// Ascending, without a hole.
    pub messages: Vec<SentLine>,
    /// Ascending, without a hole.
    pub changes: Vec<ChangeLine>,
}

/// Events of one conversation that get their place together.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Where.
    pub conversation_id: ConversationId,
    /// Nothing is placed unless the row is still this one.
    pub expected: Option<EventCursor>,
    /// The row afterwards.
    pub cursor: EventCursor,
    /// In order.
    pub notices: Vec<Notice>,
    /// The first and last message that members should not miss, and when to look who has; what is looked for earlier
    /// stays as it is.
    pub push: Option<(Seq, Seq, Timestamp)>,
}

/// A conversation in which it is to be looked who has missed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushDue {
    /// Where.
    pub conversation_id: ConversationId,
    /// Up to here it was looked before.
    pub told: Seq,
    /// Up to here are messages that members should not miss.
    pub last: Seq,
    /// When.
    pub due_at: Timestamp,
}

/// What came of looking.
#[derive(Clone, Debug)]
pub struct PushPlacement {
    /// Nothing is placed unless the row is still this one, but for `last`.
    pub due: PushDue,
    /// In order.
    pub notices: Vec<Notice>,
    /// Up to here it was looked.
    pub told: Seq,
    /// When to look again, unless everything up to `last` was looked for.
    pub again_at: Timestamp,
}

/// What was placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The newest event of the log now.
    pub newest: EventNo,
    /// Of those asked for, so many had moved meanwhile, and nothing of them was placed: read them anew.
    pub moved: usize,
}

/// Gives events their places. Used by one task that is never cancelled in a call (B19).
#[async_trait]
pub trait Placer: Send {
    /// One transaction: places what has not moved, all or nothing of it.
    async fn place(
        &mut self,
        placements: &[Placement],
        pushes: &[PushPlacement],
        now: Timestamp,
    ) -> StoreResult<Placed>;
}

/// The message of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missable {
    /// Its place.
    pub seq: Seq,
    /// Which.
    pub message_id: MessageId,
}

/// An event for `check`, with what its references lead to; all of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedEvent {
    /// The event.
    pub placed: PlacedNotice,
    /// Where the message that it names stands.
    pub message: Option<(ConversationId, Seq)>,
    /// The change with its number: what kind, and of which message.
    pub change: Option<(ChangeType, Option<MessageId>)>,
    /// How far the events of its conversation are placed.
    pub cursor: Option<EventCursor>,
}

/// How far the events of a conversation are placed, for `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditedCursor {
    /// Which.
    pub conversation_id: ConversationId,
    /// Its row.
    pub cursor: EventCursor,
    /// The head of the conversation at that moment; `None` = there is no such conversation.
    pub head: Option<(Seq, ChangeSeq)>,
}

/// The log: reads, and its small rows.
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Where the log stands.
    async fn log_state(&self) -> StoreResult<LogState>;
    /// Events are wanted from `now` on; nothing changes where they are already.
    async fn wake_log(&self, now: Timestamp) -> StoreResult<()>;
    /// The feed was asked.
    async fn feed_asked(&self, now: Timestamp) -> StoreResult<()>;
    /// Events are wanted no more, if there is no webhook and the feed was not asked since `unasked_since`.
    async fn rest_log(&self, unasked_since: Timestamp) -> StoreResult<()>;
    /// Those of `ids` that lag, in the period that began at `active_since`.
    async fn lags_of(&self, ids: &[ConversationId], active_since: Timestamp) -> StoreResult<Vec<Lag>>;
    /// Those that lag among the next `limit` conversations after `after`, by id.
    async fn lags(&self, after: Option<ConversationId>, limit: u32, active_since: Timestamp) -> StoreResult<LagPage>;
    /// For each of `lags`, in their order, the next messages and changes: of each at most `limit`.
    async fn unplaced(&self, lags: &[Lag], limit: u32) -> StoreResult<Vec<Unplaced>>;
    /// Events after a place, ascending, at most `limit`.
    async fn events_after(&self, after: EventNo, limit: u32) -> StoreResult<Vec<PlacedNotice>>;
    /// The oldest event that is kept.
    async fn oldest_event(&self) -> StoreResult<Option<EventNo>>;
    /// Removes the oldest events, if they were placed before `before`, at most `limit`, and what of deliveries is about
    /// them. Answers how many.
    async fn forget_events(&self, before: Timestamp, limit: u32) -> StoreResult<u64>;
    /// Conversations in which it is time to look who has missed something, the earliest first, at most `limit`.
    async fn pushes_due(&self, now: Timestamp, limit: u32) -> StoreResult<Vec<PushDue>>;
    /// The newest message after `after` and up to `up_to` that members should not miss (sent by USER or AGENT, or a
    /// notification; not gone) and that is as old as `sent_before`.
    async fn missable(
        &self,
        conversation_id: ConversationId,
        (after, up_to): (Seq, Seq),
        sent_before: Timestamp,
    ) -> StoreResult<Option<Missable>>;
    /// Present members after a principal, by type and id, who have neither read nor acknowledged `seq` on any device, and
    /// who want to know of it: not muted, not its sender, not cleared or deleted by them, not disabled. At most `limit`.
    async fn absent(
        &self,
        conversation_id: ConversationId,
        message: Missable,
        after: Option<Principal>,
        limit: u32,
    ) -> StoreResult<Vec<Principal>>;
    /// The unread totals of these, muted conversations left out (the same number as in [`super::SyncStore::unread`]); those
    /// with nothing unread are left out.
    async fn unread_totals(&self, principals: &[Principal]) -> StoreResult<Vec<(Principal, u64)>>;
}
