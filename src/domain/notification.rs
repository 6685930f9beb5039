//! What somebody is told in their INBOX and may answer: friend requests, invitations, announcements.
//!
//! A notification is a message of type NOTIFICATION and has its id; the row beside it has its state. Both are decided by the
//! INBOX's writer and stored in one commit, and the content of the message is always the notification as it is.

use super::content::Content;
use super::conversation::word_enum;
use super::decide::principal_json;
use super::ids::{ConversationId, MessageId, Principal, Timestamp};
use super::json;
use super::time::rfc3339;

/// The longest text of a notification, in characters.
pub const NOTIFICATION_TEXT_CHARS_MAX: usize = 1_000;
/// So long after it was accepted a notification is carried out in the background, if whoever accepted it did not wait.
pub const CARRY_OUT_AFTER_MS: i64 = 10_000;
/// The most that a block ends in one commit; what is left is ended by the next.
pub const ENDED_AT_ONCE_MAX: usize = 50;

word_enum!(
    /// What somebody is told.
    NotificationKind {
        /// Somebody wants to be a contact.
        FriendRequest = 1 "FRIEND_REQUEST",
        /// Somebody wants one in a group.
        GroupInvite = 2 "GROUP_INVITE",
        /// The operator has something to say. It can only be read.
        Announcement = 3 "ANNOUNCEMENT",
    }
);
word_enum!(
    /// What has become of it: PENDING, then one of the others for good.
    NotificationState {
        /// It waits for an answer.
        Pending = 1 "PENDING",
        /// It was accepted.
        Accepted = 2 "ACCEPTED",
        /// It was declined.
        Declined = 3 "DECLINED",
        /// It can be answered no more: its time has passed, it was taken back, or it cannot be carried out.
        Expired = 4 "EXPIRED",
    }
);

/// What a user does with a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationAnswer {
    /// Yes.
    Accept,
    /// No.
    Decline,
    /// Seen.
    Read,
}

/// Names what must be asked only once in an INBOX, while it is pending and as long as its answer was no; compared byte for
/// byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotificationKey(String);

impl NotificationKey {
    /// The friend request of a principal.
    #[must_use]
    pub fn friend_request(from: Principal) -> Self {
        Self(format!("friend/{from}"))
    }

    /// The invitation into a group by one of its members.
    #[must_use]
    pub fn invite(from: Principal, group: ConversationId) -> Self {
        Self(format!("invite/{group}/{from}"))
    }

    /// An announcement, by the number of whatever announces it: it is pending for ever, so that it is told once.
    #[must_use]
    pub fn announcement(number: i64) -> Self {
        Self(format!("announcement/{number}"))
    }

    /// The text at rest.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// From rest.
    #[must_use]
    pub const fn trusted(text: String) -> Self {
        Self(text)
    }
}

/// One thing that one user is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The id of the message that tells it.
    pub notification_id: MessageId,
    /// The INBOX in which that stands.
    pub inbox_id: ConversationId,
    /// Who is told.
    pub owner: Principal,
    /// What kind.
    pub kind: NotificationKind,
    /// By whom.
    pub from: Principal,
    /// For people: of a friend request the words of whoever asks, of an invitation the title that the group had.
    pub text: Option<String>,
    /// The group of an invitation.
    pub conversation_id: Option<ConversationId>,
    /// For programs: a JSON object.
    pub payload: Option<Content>,
    /// What has become of it.
    pub state: NotificationState,
    /// While it is pending, and after it was declined until the same is asked again: no second one has it.
    pub key: Option<NotificationKey>,
    /// When its user read it, or answered it unread.
    pub read_at: Option<Timestamp>,
    /// When they were told.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When something is to be done with it: while it is pending, when it expires; once it is accepted, when it is carried
    /// out at the latest, until that is done.
    pub due_at: Option<Timestamp>,
}

impl Notification {
    /// Its time has passed, although nobody has said so yet.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.state == NotificationState::Pending && self.due_at.is_some_and(|due| due <= now)
    }

    /// Its user has declined it less than `wait_ms` ago.
    #[must_use]
    pub fn was_declined_within(&self, wait_ms: i64, now: Timestamp) -> bool {
        self.state == NotificationState::Declined && now.millis() < self.updated_at.millis().saturating_add(wait_ms)
    }

    /// It was accepted, and what follows from that may not be done yet.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.state == NotificationState::Accepted && self.due_at.is_some()
    }

    /// In its final state: nothing is due, and its key is free again.
    #[must_use]
    pub fn ended(&self, state: NotificationState, now: Timestamp) -> Self {
        Self {
            state,
            key: None,
            due_at: None,
            updated_at: now,
            ..self.clone()
        }
    }

    /// As the wire has it: the content of its message, and the payload of its changes.
    #[must_use]
    pub fn content(&self) -> Content {
        let text = self.text.as_deref().map_or_else(|| "null".to_owned(), json::text);
        let group = self.conversation_id.map(|id| format!("\"{id}\""));
        let read_at = self.read_at.map(|at| format!("\"{}\"", rfc3339(at)));
        let payload = self
            .payload
            .as_ref()
            .map(|payload| format!(",\"payload\":{}", payload.as_str()));
        Content::trusted(&format!(
            "{{\"notification_id\":\"{}\",\"kind\":\"{}\",\"from\":{},\"text\":{text},\"conversation_id\":{},\
             \"state\":\"{}\",\"read_at\":{},\"created_at\":\"{}\"{}}}",
            self.notification_id,
            self.kind.as_str(),
            principal_json(self.from),
            group.as_deref().unwrap_or("null"),
            self.state.as_str(),
            read_at.as_deref().unwrap_or("null"),
            rfc3339(self.created_at),
            payload.as_deref().unwrap_or_default(),
        ))
    }

    /// The content that its message was first stored with: its `content_hash` is of this.
    #[must_use]
    pub fn first_content(&self) -> Content {
        let first = Self {
            state: NotificationState::Pending,
            read_at: None,
            ..self.clone()
        };
        first.content()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Notification {
        let from = Principal::user(7);
        Notification {
            notification_id: MessageId::new(9).unwrap(),
            inbox_id: ConversationId::new(3).unwrap(),
            owner: Principal::user(8),
            kind: NotificationKind::FriendRequest,
            from,
            text: Some("it's \"me\"".to_owned()),
            conversation_id: None,
            payload: None,
            state: NotificationState::Pending,
            key: Some(NotificationKey::friend_request(from)),
            read_at: None,
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(1),
            due_at: Some(Timestamp::from_millis(5)),
        }
    }

    #[test]
    fn the_content_has_the_names_of_the_contract() {
        let request = request();
        assert_eq!(
            request.content().as_str(),
            "{\"notification_id\":\"9\",\"kind\":\"FRIEND_REQUEST\",\"from\":{\"type\":\"USER\",\"id\":\"7\"},\
             \"text\":\"it's \\\"me\\\"\",\"conversation_id\":null,\"state\":\"PENDING\",\"read_at\":null,\
             \"created_at\":\"1970-01-01T00:00:00.001Z\"}"
        );
        let ended = request.ended(NotificationState::Declined, Timestamp::from_millis(2));
        assert_ne!(ended.content(), request.content());
        assert_eq!(ended.first_content(), request.content());
        assert_eq!((ended.key, ended.due_at), (None, None));
    }

    #[test]
    fn only_what_is_pending_is_overdue_and_only_what_was_accepted_is_unfinished() {
        let (request, late) = (request(), Timestamp::from_millis(5));
        assert!(!request.is_overdue(Timestamp::from_millis(4)) && request.is_overdue(late));
        assert!(!request.is_unfinished());
        let accepted = Notification {
            state: NotificationState::Accepted,
            ..request.clone()
        };
        assert!(accepted.is_unfinished() && !accepted.is_overdue(late));
        assert!(!request.ended(NotificationState::Accepted, late).is_unfinished());
    }
}
