//! What belongs to one user alone, at rest.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{
    Action, ActionType, Actionable, ConversationId, MessageId, Position, Principal, Receipt, Seq, Timestamp,
};

/// Where a page of a user's actions ends: by type, then the newest message first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionPosition {
    /// The last one's.
    pub action_type: ActionType,
    /// The last one's.
    pub message_id: MessageId,
}

/// A reminder whose time has come, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueReminder {
    /// Who is reminded.
    pub principal: Principal,
    /// Since when: the time that it was set for, or the end of a claim that was not settled.
    pub due_at: Timestamp,
    /// Of what, as its user set it.
    pub action: Action,
}

impl DueReminder {
    /// Where it stands among those that are due.
    #[must_use]
    pub fn position(&self) -> DuePosition {
        DuePosition {
            due_at: self.due_at,
            message_id: Some(self.action.message_id),
            principal: self.principal,
        }
    }
}

/// Where a page of due reminders ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePosition {
    /// The last one's.
    pub due_at: Timestamp,
    /// The last one's; `None` = before the first of that time.
    pub message_id: Option<MessageId>,
    /// The last one's.
    pub principal: Principal,
}

/// What belongs to one user alone. It is written by commits of the user's INBOX.
#[async_trait]
pub trait PersonalStore: Send + Sync {
    /// Where `principal` stands, and what would be unread with everything up to `seq` (cut to the head) read; `None` =
    /// not a member. The cost depends neither on the history nor on the number of members.
    async fn position(&self, id: ConversationId, principal: Principal, seq: Seq) -> StoreResult<Option<Position>>;
    /// What an action on a message has to know; `None` = no such message.
    async fn actionable(&self, message: MessageId, principal: Principal) -> StoreResult<Option<Actionable>>;
    /// The active actions of `principal` on messages that they may see, after a position, by type (only this one, if one is
    /// given), then the newest message first; at most `limit`. What they have deleted for themselves stands here as
    /// deleted and as nothing else.
    async fn actions(
        &self,
        principal: Principal,
        action_type: Option<ActionType>,
        after: Option<ActionPosition>,
        limit: u32,
    ) -> StoreResult<Vec<Action>>;
    /// How far the present members have come, in order of joining; at most `limit`.
    async fn receipts(&self, id: ConversationId, limit: u32) -> StoreResult<Vec<Receipt>>;
    /// Reminders that are due, neither settled nor claimed, after a position, the oldest first, at most `limit`.
    async fn due_reminders(
        &self,
        now: Timestamp,
        after: Option<DuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<DueReminder>>;
    /// Takes a reminder that is to be told, until a time that lies ahead: `true` is answered to one caller only. Unless it
    /// is settled, the reminder is due again at that time: whoever took it may have died with it.
    async fn claim_reminder(&self, due: &DueReminder, until: Timestamp) -> StoreResult<bool>;
    /// A reminder that was claimed until this time is never due again; `false` = it is the claimer's no longer.
    async fn settle_reminder(&self, due: &DueReminder, until: Timestamp) -> StoreResult<bool>;
}
