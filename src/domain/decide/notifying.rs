//! What a user is told in their INBOX, and what becomes of it. `PENDING → ACCEPTED | DECLINED | EXPIRED`, decided by one
//! writer, so that of two devices that answer at once one is first (B120, INV-NOTE-1). What was accepted and cannot be carried out
//! after all is EXPIRED; that is the only way out of ACCEPTED, and only as long as it is not done.

use std::sync::Arc;

use super::append::Unnumbered;
use super::personal::Actor;
use super::ties::by_the_server;
use super::touch::Toucher;
use super::{Context, Draft, Fact, Outcome, Refusal, Touchable};
use crate::domain::annotated::Annotated;
use crate::domain::chain;
use crate::domain::change::{Change, ChangeType};
use crate::domain::command::{Conclusion, Create, Notify, Origin};
use crate::domain::content::MessageType;
use crate::domain::conversation::Kind;
use crate::domain::error::{DomainError, InvalidField};
use crate::domain::event::Event;
use crate::domain::ids::{MessageId, Principal, Timestamp};
use crate::domain::message::Message;
use crate::domain::notification::{
    CARRY_OUT_AFTER_MS, ENDED_AT_ONCE_MAX, Notification, NotificationAnswer, NotificationKey, NotificationKind,
    NotificationState,
};
use crate::domain::policy::{self, NO_SUCH_NOTIFICATION};

impl Draft<'_> {
    pub(super) fn notify(&mut self, notify: &Notify, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        // The first thing that somebody is told makes their INBOX.
        let owner = if self.header.is_some() {
            self.owner()?
        } else {
            notify.to
        };
        let ties = match notify.kind {
            NotificationKind::Announcement => None,
            NotificationKind::FriendRequest | NotificationKind::GroupInvite => {
                Some(self.ties(owner, notify.from, context)?)
            }
        };
        if ties.as_ref().is_some_and(super::Ties::is_blocked) {
            return Err(policy::BLOCKED.into());
        }
        if let Some(request) = ties.and_then(|ties| ties.contact)
            && notify.kind == NotificationKind::FriendRequest
        {
            let accepted = self.note(request, context)?;
            let accepted = accepted.ok_or(DomainError::AlreadyContacts)?;
            return Ok(Outcome::Noted(accepted, None));
        }
        let before = self.keyed(owner, &notify.key, context)?;
        if let Some(before) = &before
            && self.stands(before, notify, context)?
        {
            return Ok(Outcome::Noted(Arc::clone(before), None));
        }
        let notification_id = (context.next_id)()?;
        match before {
            Some(declined) if declined.state != NotificationState::Pending => self.release(&declined),
            Some(pending) => {
                let expired = pending.ended(NotificationState::Expired, context.now);
                self.change_note(&by_the_server(), expired, context)?;
            }
            None => {}
        }
        if self.header.is_none() {
            self.create(&Create::inbox(owner), context)?;
        }
        self.tell(notification_id, owner, notify, context.now)
    }

    /// Is this one the answer to whoever tells the same again? Not if its user cannot see it any more: it would be in the
    /// way until it expires.
    fn stands(&self, before: &Notification, notify: &Notify, context: &Context<'_>) -> Result<bool, Refusal> {
        if before.kind == NotificationKind::Announcement {
            return Ok(true);
        }
        if before.state != NotificationState::Pending {
            return Ok(before.was_declined_within(notify.ask_again_ms, context.now));
        }
        // Known before the first event.
        let message = self.touchable(before.notification_id, context)?;
        let is_hidden = message.is_some_and(|message| message.is_hidden_for(before.owner));
        Ok(!is_hidden && !before.is_overdue(context.now))
    }

    /// The same may be asked again. Nothing else of it is another, so there is no change.
    fn release(&mut self, declined: &Notification) {
        let notification = Arc::new(Notification {
            key: None,
            ..declined.clone()
        });
        self.notes
            .insert(notification.notification_id, Arc::clone(&notification));
        self.events.push(Event::NotificationChanged { notification });
    }

    fn tell(
        &mut self,
        notification_id: MessageId,
        owner: Principal,
        notify: &Notify,
        now: Timestamp,
    ) -> Result<Outcome, Refusal> {
        let (_, head) = self.existing()?;
        let notification = Arc::new(Notification {
            notification_id,
            inbox_id: self.conversation_id,
            owner,
            kind: notify.kind,
            from: notify.from,
            text: notify.text.clone(),
            conversation_id: notify.conversation_id,
            payload: notify.payload.clone(),
            state: NotificationState::Pending,
            key: Some(notify.key.clone()),
            read_at: None,
            created_at: now,
            updated_at: now,
            due_at: notify.expires_at,
        });
        let content = notification.content();
        let message = self.append(Unnumbered {
            message_id: notification_id,
            sender: Principal::SYSTEM,
            client_message_id: None,
            message_type: MessageType::Notification,
            content_hash: chain::content_hash(content.as_str()),
            content,
            quoted_message_id: None,
            sent_at: now,
            device: None,
        })?;
        // It may end in this very draft, and the store knows nothing of it yet.
        let born = Touchable {
            annotated: Annotated::plain(message),
            hidden_for: Vec::new(),
            standing_below: head.last_message_seq,
            pins: 0,
        };
        self.touched.insert(notification_id, born);
        self.notes.insert(notification_id, Arc::clone(&notification));
        self.events.push(Event::Notified {
            notification: Arc::clone(&notification),
        });
        Ok(Outcome::Notified(notification))
    }

    pub(super) fn answer(
        &mut self,
        actor: &Actor<'_>,
        id: MessageId,
        answer: NotificationAnswer,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let owner = actor.origin.principal;
        let note = self.note(id, context)?.filter(|note| note.owner == owner);
        let note = note.ok_or(NO_SUCH_NOTIFICATION)?;
        let message = self.touchable(id, context)?.ok_or(NO_SUCH_NOTIFICATION)?;
        if message.is_hidden_for(owner) {
            return Err(NO_SUCH_NOTIFICATION.into());
        }
        if note.kind == NotificationKind::Announcement && answer != NotificationAnswer::Read {
            return Err(DomainError::from(InvalidField::new("kind", "an ANNOUNCEMENT can only be read")).into());
        }
        let read_at = note.read_at.or(Some(context.now));
        let next = match answer {
            NotificationAnswer::Read if note.read_at.is_some() => None,
            NotificationAnswer::Read => Some(Notification {
                read_at,
                updated_at: context.now,
                ..Notification::clone(&note)
            }),
            _ if note.state != NotificationState::Pending => None,
            _ if note.is_overdue(context.now) => Some(note.ended(NotificationState::Expired, context.now)),
            // It keeps its key: who was told no does not ask again at once.
            NotificationAnswer::Decline => Some(Notification {
                read_at,
                key: note.key.clone(),
                ..note.ended(NotificationState::Declined, context.now)
            }),
            NotificationAnswer::Accept => Some(Notification {
                read_at,
                ..self.accept(&note, context)?
            }),
        };
        let Some(next) = next else {
            return Ok(Outcome::Noted(note, None));
        };
        let (note, change) = self.change_note(&actor.untold(), next, context)?;
        Ok(Outcome::Noted(note, Some(change)))
    }

    /// What follows is carried out elsewhere, and is due until it is done. Two who are contacts are so at once.
    fn accept(&mut self, note: &Notification, context: &Context<'_>) -> Result<Notification, Refusal> {
        let ties = self.ties(note.owner, note.from, context)?;
        // A block may not have come to this one yet.
        if ties.is_blocked() {
            return Ok(note.ended(NotificationState::Expired, context.now));
        }
        if note.kind == NotificationKind::FriendRequest {
            self.befriend((note.owner, note.notification_id), note.from, ties, context);
        }
        let due_at = context.now.millis().saturating_add(CARRY_OUT_AFTER_MS);
        Ok(Notification {
            due_at: Some(Timestamp::from_millis(due_at)),
            ..note.ended(NotificationState::Accepted, context.now)
        })
    }

    pub(super) fn conclude(&mut self, conclusion: &Conclusion, context: &mut Context<'_>) -> Result<Outcome, Refusal> {
        let owner = self.owner()?;
        let (mut notes, state) = match conclusion {
            Conclusion::Expire(id) => {
                let overdue = self.note(*id, context)?.filter(|note| note.is_overdue(context.now));
                (overdue.into_iter().collect(), NotificationState::Expired)
            }
            Conclusion::Lapse(id) => {
                let open = |note: &Arc<Notification>| note.state == NotificationState::Pending || note.is_unfinished();
                let open = self.note(*id, context)?.filter(open);
                (open.into_iter().collect(), NotificationState::Expired)
            }
            Conclusion::Mirrored { from } => {
                let keyed = self.keyed(owner, &NotificationKey::friend_request(*from), context)?;
                let pending = keyed.filter(|note| note.state == NotificationState::Pending);
                (pending.into_iter().collect(), NotificationState::Accepted)
            }
            Conclusion::Withdrawn { from } => (self.pending_from(owner, *from, context)?, NotificationState::Expired),
        };
        notes.retain(|note| note.owner == owner);
        let former = match (conclusion, notes.first()) {
            (Conclusion::Withdrawn { from }, _) => Some(*from),
            // They were contacts as soon as it was accepted.
            (Conclusion::Lapse(_), Some(note)) if note.is_unfinished() && note.conversation_id.is_none() => {
                Some(note.from)
            }
            _ => None,
        };
        let ties = match former {
            Some(from) => Some((from, self.ties(owner, from, context)?)).filter(|(_, ties)| ties.contact.is_some()),
            None => None,
        };
        let mut change = self.end_all(&notes, state, &by_the_server(), context)?;
        if let Some((from, ties)) = ties {
            self.part(owner, from, ties);
            let hidden = self.change(ChangeType::Hidden, None, &by_the_server(), context.now, None)?;
            change = change.or(Some(hidden));
        }
        Ok(Outcome::Changed(change))
    }

    /// They end, each with a change of its own; the last of those.
    pub(super) fn end_all(
        &mut self,
        notes: &[Arc<Notification>],
        state: NotificationState,
        origin: &Origin,
        context: &Context<'_>,
    ) -> Result<Option<Arc<Change>>, Refusal> {
        // Everything that has to be known comes before the first event.
        let mut told = Vec::with_capacity(notes.len());
        for note in notes {
            if self.touchable(note.notification_id, context)?.is_some() {
                told.push(note);
            }
        }
        let mut last = None;
        for note in told {
            let ended = note.ended(state, context.now);
            last = Some(self.change_note(origin, ended, context)?.1);
        }
        Ok(last)
    }

    /// What is pending from somebody: a request, then invitations, as many as one commit ends.
    pub(super) fn pending_from(
        &self,
        owner: Principal,
        from: Principal,
        context: &Context<'_>,
    ) -> Result<Vec<Arc<Notification>>, Refusal> {
        let fact = context.facts.pending_from.get(&(owner, from));
        let fact = fact.ok_or(Refusal::Needs(Fact::PendingFrom(owner, from)))?;
        let stored = fact
            .iter()
            .filter(|note| !self.notes.contains_key(&note.notification_id));
        let drafted = self.notes.values().filter(|note| note.from == from);
        let mut pending: Vec<Arc<Notification>> = stored.cloned().map(Arc::new).chain(drafted.cloned()).collect();
        pending.retain(|note| note.state == NotificationState::Pending && !self.is_deleted(note.notification_id));
        pending.sort_unstable_by_key(|note| (note.kind.code(), note.notification_id));
        pending.truncate(ENDED_AT_ONCE_MAX);
        Ok(pending)
    }

    /// Whose INBOX this is.
    fn owner(&self) -> Result<Principal, DomainError> {
        let (header, _) = self.existing()?;
        let owner = self.present().next().map(|member| member.principal);
        owner
            .filter(|_| header.kind == Kind::Inbox)
            .ok_or(DomainError::Forbidden("notifications are told in an inbox"))
    }

    /// Its message was deleted for everyone in this draft, and its row goes with it.
    fn is_deleted(&self, id: MessageId) -> bool {
        let touched = self.touched.get(&id);
        touched.is_some_and(|touched| touched.annotated.message.status.is_gone())
    }

    /// A notification as this draft leaves it.
    fn note(&self, id: MessageId, context: &Context<'_>) -> Result<Option<Arc<Notification>>, Refusal> {
        if self.is_deleted(id) {
            return Ok(None);
        }
        if let Some(drafted) = self.notes.get(&id) {
            return Ok(Some(Arc::clone(drafted)));
        }
        let fact = context.facts.notifications.get(&id);
        let fact = fact.ok_or(Refusal::Needs(Fact::Notification(id)))?;
        Ok(fact.clone().map(Arc::new))
    }

    /// The one that has this key: it is pending, or was declined.
    fn keyed(
        &self,
        owner: Principal,
        key: &NotificationKey,
        context: &Context<'_>,
    ) -> Result<Option<Arc<Notification>>, Refusal> {
        let stands = |note: &&Arc<Notification>| !self.is_deleted(note.notification_id);
        let drafted = self
            .notes
            .values()
            .filter(stands)
            .find(|note| note.key.as_ref() == Some(key));
        if let Some(drafted) = drafted {
            return Ok(Some(Arc::clone(drafted)));
        }
        let asked = (owner, key.clone());
        let fact = context.facts.keyed.get(&asked);
        let fact = fact.ok_or(Refusal::Needs(Fact::Keyed(asked.0, asked.1)))?;
        // What this draft has ended still has its key in the facts.
        let ended = |id: MessageId| self.notes.contains_key(&id) || self.is_deleted(id);
        let fact = fact.as_ref().filter(|note| !ended(note.notification_id));
        Ok(fact.cloned().map(Arc::new))
    }

    /// The notification is another from here on, and so is what its message says: one change.
    fn change_note(
        &mut self,
        origin: &Origin,
        next: Notification,
        context: &Context<'_>,
    ) -> Result<(Arc<Notification>, Arc<Change>), Refusal> {
        let (header, head) = self.existing()?;
        let id = next.notification_id;
        let mut touchable = self.touchable(id, context)?.ok_or(NO_SUCH_NOTIFICATION)?;
        let next = Arc::new(next);
        let content = next.content();
        touchable.annotated.message = Arc::new(Message {
            content: content.clone(),
            ..Message::clone(&touchable.annotated.message)
        });
        self.notes.insert(id, Arc::clone(&next));
        self.events.push(Event::NotificationChanged {
            notification: Arc::clone(&next),
        });
        let by = Toucher {
            origin,
            header: &header,
            member: self.member(origin.principal),
            now: context.now,
        };
        let last_message_seq = head.last_message_seq;
        let outcome = self.settle(
            &by,
            touchable,
            ChangeType::NotificationUpdated,
            Some(content),
            |message| Event::MessageChanged {
                message,
                last_message_seq,
            },
        )?;
        match outcome {
            Outcome::Touched(_, Some(change)) => Ok((next, change)),
            _ => Err(NO_SUCH_NOTIFICATION.into()),
        }
    }
}
