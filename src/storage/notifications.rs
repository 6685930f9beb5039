//! What users are told in their INBOX, at rest: the rows beside the messages.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{MessageId, Notification, NotificationKey, NotificationState, Principal, Timestamp};

/// Where a page of what is due ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueNotification {
    /// The last one's.
    pub due_at: Timestamp,
    /// The last one's.
    pub notification_id: MessageId,
}

impl DueNotification {
    /// Where it stands among those that are due; `None` = nothing is to be done with it.
    #[must_use]
    pub fn of(notification: &Notification) -> Option<Self> {
        Some(Self {
            due_at: notification.due_at?,
            notification_id: notification.notification_id,
        })
    }
}

/// Notifications. They are written by commits of the INBOX of their user.
#[async_trait]
pub trait NotificationStore: Send + Sync {
    /// One, whosever it is.
    async fn notification(&self, id: MessageId) -> StoreResult<Option<Notification>>;
    /// The one of `owner` that has this key.
    async fn notification_by_key(&self, owner: Principal, key: &NotificationKey) -> StoreResult<Option<Notification>>;
    /// What `owner` has pending from somebody: a request, then invitations, the oldest first; at most `limit`.
    async fn pending_from(&self, owner: Principal, from: Principal, limit: u32) -> StoreResult<Vec<Notification>>;
    /// Those of `owner` (in this state, if one is given) with ids below `before`, the newest first, at most `limit`. What
    /// the owner has deleted for themselves or cleared away is left out.
    async fn notifications(
        &self,
        owner: Principal,
        state: Option<NotificationState>,
        before: Option<MessageId>,
        limit: u32,
    ) -> StoreResult<Vec<Notification>>;
    /// Those with which something is to be done by now, after a position, the earliest first, at most `limit`.
    async fn notifications_due(
        &self,
        now: Timestamp,
        after: Option<DueNotification>,
        limit: u32,
    ) -> StoreResult<Vec<Notification>>;
    /// What follows from an accepted one is done: nothing is due any more. Harmless if it is done twice.
    async fn finish_notification(&self, id: MessageId) -> StoreResult<()>;
    /// Those of `ids` that have a row: for `check`.
    async fn notifications_of(&self, ids: &[MessageId]) -> StoreResult<Vec<Notification>>;
    /// Rows with ids above `after`, ascending, at most `limit`: for `check`.
    async fn notifications_after(&self, after: Option<MessageId>, limit: u32) -> StoreResult<Vec<Notification>>;
}
