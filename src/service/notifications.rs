//! What users are told in their INBOX and what follows when they accept: contacts and their DIRECT, a place in a group.
//!
//! The INBOX decides; what was accepted is carried out right after that, and in the background if this process dies in
//! between: every step of it can be done twice without harm.

use std::sync::Arc;
use std::time::Duration;

use super::ask::ask_keyed;
use super::conversations::{Conversations, Page};
use super::error::ServiceError;
use super::inbox::Inbox;
use super::messages::member_access;
use super::principals::Principals;
use crate::clock::Clock;
use crate::conversation::CommandError;
use crate::domain::{
    Code, Command, Conclusion, ConversationId, DomainError, InvalidField, MessageId, Name, NewConversation,
    Notification, NotificationAnswer, NotificationKey, NotificationKind, NotificationState, Notify, Origin, Outcome,
    Personal, Principal, Subject, Timestamp, policy,
};
use crate::routing::Bus;
use crate::storage::Store;

/// What came of asking somebody.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As it is now.
    pub notification: Notification,
    /// It was made just now.
    pub created: bool,
}

/// Use cases around notifications.
pub struct Notifications {
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    principals: Arc<Principals>,
    conversations: Arc<Conversations>,
    inbox: Arc<Inbox>,
    terms: Terms,
}

/// How long what applies.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// For so long a request or an invitation can be answered.
    pub expire: Duration,
    /// So long after a no the same person does not ask the same again.
    pub ask_again: Duration,
}

/// What the notifications of a server work with.
pub struct NotificationParts {
    /// Where facts are kept.
    pub store: Arc<dyn Store>,
    /// The way to the writers.
    pub bus: Arc<dyn Bus>,
    /// By which they expire.
    pub clock: Arc<dyn Clock>,
    /// Who is who.
    pub principals: Arc<Principals>,
    /// Makes the DIRECT of two contacts.
    pub conversations: Arc<Conversations>,
    /// Finds the INBOX of a user.
    pub inbox: Arc<Inbox>,
}

impl Notifications {
    /// Requests and invitations are dealt with on these terms.
    #[must_use]
    pub fn new(parts: NotificationParts, terms: Terms) -> Self {
        Self {
            store: parts.store,
            bus: parts.bus,
            clock: parts.clock,
            principals: parts.principals,
            conversations: parts.conversations,
            inbox: parts.inbox,
            terms,
        }
    }

    /// Asks somebody to be a contact. While the request is pending it is that one; who was asked before by the same person
    /// accepts by asking back; of two who are contacts already it is the request that made them so; and for a while after it was
    /// declined it is that one.
    ///
    /// # Errors
    /// `invalid_request` when it is oneself; `forbidden` when one of the two has blocked the other; `already_exists` when
    /// they are contacts and that request is there no more.
    pub async fn request(&self, origin: Origin, to: &Subject, text: Option<String>) -> Result<Asked, ServiceError> {
        let from = origin.principal;
        let to = self.principals.resolve_one(to).await?;
        if to == from {
            return Err(InvalidField::new("to", "nobody is their own contact").into());
        }
        if let Some(accepted) = self.accept_mirrored(&origin, to).await? {
            let created = false;
            return Ok(Asked {
                notification: accepted,
                created,
            });
        }
        let notify = Notify {
            to,
            kind: NotificationKind::FriendRequest,
            from,
            key: NotificationKey::friend_request(from),
            ask_again_ms: self.ask_again_ms(),
            text,
            conversation_id: None,
            payload: None,
            expires_at: Some(self.expires_at()),
        };
        let mut asked = self.notify(notify).await?;
        // Both may have asked at once; then each of them finds the request of the other here, or one of them does.
        if asked.created && self.accept_mirrored(&origin, to).await?.is_some() {
            let now = self.store.notification(asked.notification.notification_id).await?;
            asked.notification = now.unwrap_or(asked.notification);
        }
        Ok(asked)
    }

    /// `to` has asked for the same: then there is nothing to ask, and the answer is yes.
    async fn accept_mirrored(&self, origin: &Origin, to: Principal) -> Result<Option<Notification>, ServiceError> {
        let Some(theirs) = self.pending_request(origin.principal, to).await? else {
            return Ok(None);
        };
        let accept = NotificationAnswer::Accept;
        match self.answer(origin.clone(), theirs.notification_id, accept).await {
            Ok(accepted) => Ok(Some(accepted)),
            // It has ended in the meantime, in another way.
            Err(error) if matches!(error.code, Code::AlreadyDecided | Code::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn pending_request(&self, to: Principal, from: Principal) -> Result<Option<Notification>, ServiceError> {
        let key = NotificationKey::friend_request(from);
        let found = self.store.notification_by_key(to, &key).await?;
        Ok(found.filter(|note| note.state == NotificationState::Pending))
    }

    /// Invites principals into a group: those who are in it or have blocked the inviter, or the other way round, are passed
    /// over, and nobody gets a second one while the first is pending. Answers who has been invited, each as it stands.
    ///
    /// # Errors
    /// What the group's writer says; `not_found` also when a principal is not known and none is to be made.
    pub async fn invite(
        &self,
        origin: Origin,
        group: ConversationId,
        to: &[Subject],
    ) -> Result<Vec<Notification>, ServiceError> {
        // Only the writer judges, but a stranger must not make rows of principals by naming them.
        member_access(self.store.as_ref(), group, origin.principal).await?;
        let members = self.principals.resolve_named(to).await?;
        let from = origin.principal;
        let command = Command::Invite { origin, members };
        let (invited, title) = match ask_keyed(self.bus.as_ref(), group, command).await? {
            Outcome::Invitable { principals, title } => (principals, title),
            other => return Err(ServiceError::internal(&format!("an invitation led to {other:?}"))),
        };
        let mut notes = Vec::with_capacity(invited.len());
        for principal in invited {
            let notify = Notify {
                to: principal,
                kind: NotificationKind::GroupInvite,
                from,
                key: NotificationKey::invite(from, group),
                ask_again_ms: self.ask_again_ms(),
                text: title.clone(),
                conversation_id: Some(group),
                payload: None,
                expires_at: Some(self.expires_at()),
            };
            match self.notify(notify).await {
                Ok(asked) => notes.push(asked.notification),
                // One who does not want to hear of it does not keep the others from it.
                Err(error) if error.code == Code::Forbidden && to.len() > 1 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(notes)
    }

    /// Tells somebody something. The same (by its key) is told once while it is pending.
    ///
    /// # Errors
    /// What the writer of the INBOX says.
    pub async fn notify(&self, notify: Notify) -> Result<Asked, ServiceError> {
        match self.inbox.tell(notify).await? {
            Outcome::Notified(notification) => Ok(Asked {
                notification: Arc::unwrap_or_clone(notification),
                created: true,
            }),
            Outcome::Noted(notification, _) => Ok(Asked {
                notification: Arc::unwrap_or_clone(notification),
                created: false,
            }),
            other => Err(ServiceError::internal(&format!("a notification led to {other:?}"))),
        }
    }

    /// The notifications of a user, the newest first.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn list(
        &self,
        owner: Principal,
        state: Option<NotificationState>,
        before: Option<MessageId>,
        limit: u32,
    ) -> Result<Page<Notification, MessageId>, ServiceError> {
        let one_more = limit.saturating_add(1);
        let found = self.store.notifications(owner, state, before, one_more).await?;
        Ok(Page::cut(found, limit, |last: &Notification| last.notification_id))
    }

    /// Accepts, declines or reads. What follows from an acceptance is done when this returns.
    ///
    /// # Errors
    /// `not_found` for what is not one's own; `invalid_request` for an ANNOUNCEMENT that is not only read;
    /// `already_decided` for the opposite of what was answered before, or too late; and why what was accepted cannot be
    /// carried out (`conversation_closed`, `forbidden`): then it is EXPIRED.
    pub async fn answer(
        &self,
        origin: Origin,
        id: MessageId,
        answer: NotificationAnswer,
    ) -> Result<Notification, ServiceError> {
        let owner = origin.principal;
        let found = self.store.notification(id).await?.filter(|note| note.owner == owner);
        let found = found.ok_or(policy::NO_SUCH_NOTIFICATION)?;
        if answer == NotificationAnswer::Accept && found.state == NotificationState::Pending {
            self.check_still_possible(&found).await?;
        }
        let act = Personal::Answer {
            notification_id: id,
            answer,
        };
        // Asked twice, it is the same act: the second changes nothing.
        let note = match ask_keyed(self.bus.as_ref(), found.inbox_id, Command::Personal { origin, act }).await? {
            Outcome::Noted(note, _) => Arc::unwrap_or_clone(note),
            other => return Err(ServiceError::internal(&format!("an answer led to {other:?}"))),
        };
        let wanted = match answer {
            NotificationAnswer::Accept => NotificationState::Accepted,
            NotificationAnswer::Decline => NotificationState::Declined,
            NotificationAnswer::Read => return Ok(note),
        };
        if note.state != wanted {
            return Err(DomainError::AlreadyDecided.into());
        }
        if note.is_unfinished() {
            self.carry_out(&note).await?;
        }
        Ok(note)
    }

    /// An invitation that cannot be accepted any more ends here, so that nobody sees it accepted first. The group's writer
    /// judges once more when it comes to it.
    async fn check_still_possible(&self, note: &Notification) -> Result<(), ServiceError> {
        let Some(group) = note.conversation_id else {
            return Ok(());
        };
        let header = match self.store.access(group, note.from).await? {
            Some((header, inviter)) => policy::may_join(&header, inviter.map(|own| own.member).as_ref()),
            None => Err(DomainError::ConversationNotFound),
        };
        match header {
            Ok(()) => Ok(()),
            Err(error) => self.lapse(note, error.into()).await,
        }
    }

    /// Does what follows from an acceptance; can be done twice.
    async fn carry_out(&self, note: &Notification) -> Result<(), ServiceError> {
        match note.kind {
            NotificationKind::FriendRequest => self.connect(note).await?,
            NotificationKind::GroupInvite => self.join(note).await?,
            NotificationKind::Announcement => {}
        }
        Ok(self.store.finish_notification(note.notification_id).await?)
    }

    /// Two who are contacts have a DIRECT, and if both have asked, both have their answer.
    async fn connect(&self, note: &Notification) -> Result<(), ServiceError> {
        let origin = Origin {
            principal: note.owner,
            device: None,
        };
        let member = Subject {
            kind: note.from.kind,
            name: Name::Id(note.from.id),
        };
        match self
            .conversations
            .create(origin, NewConversation::Direct { member })
            .await
        {
            Ok(_) => {}
            // One of them has blocked the other in this moment.
            Err(error) if error.code == Code::Forbidden => return self.lapse(note, error).await,
            Err(error) => return Err(error),
        }
        if let Some(mirrored) = self.pending_request(note.from, note.owner).await? {
            let conclusion = Conclusion::Mirrored { from: note.owner };
            self.conclude(mirrored.inbox_id, conclusion).await?;
        }
        Ok(())
    }

    async fn join(&self, note: &Notification) -> Result<(), ServiceError> {
        let Some(group) = note.conversation_id else {
            return Err(ServiceError::internal(&"an invitation names no group"));
        };
        let command = Command::Join {
            member: note.owner,
            by: note.from,
            accepted_at: note.updated_at,
        };
        match ask_keyed(self.bus.as_ref(), group, command).await {
            Ok(_) => Ok(()),
            Err(CommandError::Refused(
                error @ (DomainError::Closed | DomainError::Forbidden(_) | DomainError::ConversationNotFound),
            )) => self.lapse(note, error.into()).await,
            Err(error) => Err(error.into()),
        }
    }

    /// It cannot be carried out: it is EXPIRED, and whoever asked is told why.
    async fn lapse(&self, note: &Notification, why: ServiceError) -> Result<(), ServiceError> {
        let conclusion = Conclusion::Lapse(note.notification_id);
        self.conclude(note.inbox_id, conclusion).await?;
        Err(why)
    }

    /// The server itself brings a notification to its end; `true` = something has changed.
    pub(super) async fn conclude(&self, inbox: ConversationId, conclusion: Conclusion) -> Result<bool, ServiceError> {
        let outcome = ask_keyed(self.bus.as_ref(), inbox, Command::Conclude(conclusion)).await?;
        Ok(!outcome.is_unchanged())
    }

    /// Something is to be done with it: it expires, or what follows from it was not carried out.
    pub(super) async fn tend(&self, note: &Notification) -> Result<(), ServiceError> {
        if note.is_unfinished() {
            return self.carry_out(note).await;
        }
        let conclusion = Conclusion::Expire(note.notification_id);
        self.conclude(note.inbox_id, conclusion).await?;
        Ok(())
    }

    fn expires_at(&self) -> Timestamp {
        self.clock.now().plus(self.terms.expire)
    }

    fn ask_again_ms(&self) -> i64 {
        i64::try_from(self.terms.ask_again.as_millis()).unwrap_or(i64::MAX)
    }
}
