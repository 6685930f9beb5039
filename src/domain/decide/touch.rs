//! What happens to a message that is there: edit, recall, delete for everyone, and what is put on it. Each is one change.
//!
//! `NORMAL → EDITED → RECALLED`, or `DELETED`; RECALLED and DELETED are final against every race (B60, B62), since one
//! writer decides one after the other.

use std::sync::Arc;

use super::append::{Subject, principal_json};
use super::referring::{beyond, may_refer};
use super::{Context, Draft, Fact, Outcome, Refusal, Touchable};
use crate::domain::annotated::Annotated;
use crate::domain::change::ChangeType;
use crate::domain::command::{Origin, Touch};
use crate::domain::content::{Content, MessageType};
use crate::domain::conversation::{Header, Kind};
use crate::domain::error::DomainError;
use crate::domain::ids::{MessageId, Principal, Seq, Timestamp};
use crate::domain::member::{Member, Role};
use crate::domain::message::{Message, MessageStatus};
use crate::domain::{Event, policy, visibility};

const NO_SUCH_MESSAGE: DomainError = DomainError::NotFound("no such message");

/// Who touches a message, and with what rights.
pub(super) struct Toucher<'a> {
    pub(super) origin: &'a Origin,
    pub(super) header: &'a Header,
    /// `None` = the admin key.
    pub(super) member: Option<Member>,
    pub(super) now: Timestamp,
}

impl Toucher<'_> {
    fn manages(&self) -> bool {
        self.header.kind == Kind::Group && self.member.is_some_and(|member| member.role >= Role::Admin)
    }

    fn sent(&self, message: &Message) -> bool {
        self.member.is_some() && message.sender == self.origin.principal
    }
}

impl Draft<'_> {
    pub(super) fn touch(
        &mut self,
        origin: &Origin,
        message_id: MessageId,
        touch: &Touch,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let (header, _) = self.existing()?;
        let member = self.member(origin.principal);
        let by_admin_key = origin.principal == Principal::SYSTEM;
        // To a stranger no message exists.
        if member.is_none() && !by_admin_key {
            return Err(NO_SUCH_MESSAGE.into());
        }
        let touchable = self.touchable(message_id, context)?;
        let touchable = touchable.ok_or(NO_SUCH_MESSAGE)?;
        let first = member.map_or(Seq::ZERO, |member| visibility::first_shared(&header, &member));
        let message = &touchable.annotated.message;
        if message.status == MessageStatus::Deleted || touchable.is_hidden_for(origin.principal) || message.seq < first
        {
            return Err(NO_SUCH_MESSAGE.into());
        }
        let by = Toucher {
            origin,
            header: &header,
            member,
            now: context.now,
        };
        if brings_something(touch) {
            self.not_blocked(origin.principal, context)?;
        }
        match touch {
            Touch::Edit(content) => self.edit(&by, touchable, content, context),
            Touch::Recall { received_at, window_ms } => self.recall(&by, touchable, *received_at, *window_ms),
            Touch::Delete => self.delete(&by, touchable),
            Touch::React { emoji, added } => self.react(&by, touchable, emoji, *added),
            Touch::Pin(pinned) => self.pin(&by, touchable, *pinned),
        }
    }

    /// The message as this draft has left it, else as the store has it. One that was born in this draft is in no store.
    pub(super) fn touchable(&self, id: MessageId, context: &Context<'_>) -> Result<Option<Touchable>, Refusal> {
        let fact = context.facts.messages.get(&id);
        let drafted = self.touched.get(&id);
        match (fact.map(Option::as_ref), drafted) {
            (None, None) => Err(Refusal::Needs(Fact::Message(id))),
            (Some(Some(fact)), Some(touched)) => Ok(Some(Touchable {
                annotated: touched.annotated.clone(),
                ..fact.clone()
            })),
            (Some(fact), None) => Ok(fact.cloned()),
            (_, Some(touched)) => Ok(Some(touched.clone())),
        }
    }

    fn edit(
        &mut self,
        by: &Toucher<'_>,
        touchable: Touchable,
        content: &Content,
        context: &Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let message = &touchable.annotated.message;
        if message.message_type == MessageType::System || !by.sent(message) {
            return Err(DomainError::Forbidden("only its sender may edit a message").into());
        }
        content.check(&message.message_type).map_err(DomainError::from)?;
        policy::open(by.header)?;
        if message.status == MessageStatus::Recalled {
            return Err(DomainError::Recalled.into());
        }
        if message.content == *content {
            return Ok(unchanged(touchable));
        }
        // What the message shows already, its sender may go on showing.
        let new = beyond(&content.files(), &message.content.files());
        may_refer(&new, message.sender, context)?;
        let edited = Message {
            content: content.clone(),
            status: MessageStatus::Edited,
            edited_at: Some(by.now),
            ..Message::clone(message)
        };
        self.replace(by, touchable, edited, ChangeType::Edited)
    }

    fn recall(
        &mut self,
        by: &Toucher<'_>,
        touchable: Touchable,
        received_at: Timestamp,
        window_ms: i64,
    ) -> Result<Outcome, Refusal> {
        let message = &touchable.annotated.message;
        if message.message_type == MessageType::System || !(by.sent(message) || by.manages()) {
            return Err(DomainError::Forbidden("only its sender or an admin may recall a message").into());
        }
        policy::open(by.header)?;
        if message.status == MessageStatus::Recalled {
            return Ok(unchanged(touchable));
        }
        let age_ms = received_at.millis().saturating_sub(message.sent_at.millis());
        if !by.manages() && age_ms > window_ms {
            let window_secs = window_ms / 1_000;
            return Err(DomainError::RecallTooLate { window_secs }.into());
        }
        let who = principal_json(by.origin.principal);
        let recalled = Message {
            content: Content::trusted(&format!("{{\"recalled\":true,\"recalled_by\":{who}}}")),
            status: MessageStatus::Recalled,
            ..Message::clone(message)
        };
        self.replace(by, touchable, recalled, ChangeType::Recalled)
    }

    fn delete(&mut self, by: &Toucher<'_>, touchable: Touchable) -> Result<Outcome, Refusal> {
        let message = &touchable.annotated.message;
        let may = by.manages() && message.message_type != MessageType::System;
        if by.member.is_some() && !may {
            return Err(DomainError::Forbidden("only an admin of the group may delete a message for everyone").into());
        }
        // The operator takes words away that must not stay, wherever they stand.
        if by.member.is_some() {
            policy::open(by.header)?;
        }
        let deleted = Message {
            content: Content::trusted("{\"deleted\":true}"),
            status: MessageStatus::Deleted,
            ..Message::clone(message)
        };
        self.replace(by, touchable, deleted, ChangeType::Deleted)
    }

    /// The message is another from here on. Reactions and pin are of the standing message: they go with its words.
    fn replace(
        &mut self,
        by: &Toucher<'_>,
        mut touchable: Touchable,
        message: Message,
        change_type: ChangeType,
    ) -> Result<Outcome, Refusal> {
        let last_message_seq = self.standing(&message, touchable.standing_below)?;
        let was = Arc::clone(&touchable.annotated.message);
        if message.status.is_gone() {
            self.pins.1 += usize::from(touchable.annotated.pinned);
            touchable.annotated = Annotated::plain(Arc::new(message));
        } else {
            touchable.annotated.message = Arc::new(message);
        }
        let outcome = self.settle(by, touchable, change_type, None, |message| Event::MessageChanged {
            message,
            last_message_seq,
        })?;
        if let Outcome::Touched(now, _) = &outcome {
            self.mention(&now.message, was.content.mentions(&was.message_type));
            self.refer(&now.message, &was.content.files(), &now.message.content.files(), by.now);
        }
        Ok(outcome)
    }

    /// The one way in which a touch becomes a change: numbers it, and says who may not see what it is about.
    pub(super) fn settle(
        &mut self,
        by: &Toucher<'_>,
        mut touchable: Touchable,
        change_type: ChangeType,
        payload: Option<Content>,
        fact: impl FnOnce(Arc<Message>) -> Event,
    ) -> Result<Outcome, Refusal> {
        Arc::make_mut(&mut touchable.annotated.message).change_seq = self.next_change_seq()?;
        let annotated = Arc::new(touchable.annotated.clone());
        let hidden_for = touchable.hidden_for.clone();
        let message = &annotated.message;
        self.touched.insert(message.message_id, touchable);
        self.events.push(fact(Arc::clone(message)));
        let subject = Subject {
            hidden_from: visibility::blind_to(by.header, self.present(), message.seq, &hidden_for),
            annotated: Arc::clone(&annotated),
        };
        let change = self.change(change_type, payload, by.origin, by.now, Some(subject))?;
        Ok(Outcome::Touched(annotated, Some(change)))
    }

    /// The newest message that stands when `message` has become what it is now (B59).
    fn standing(&mut self, message: &Message, below: Seq) -> Result<Seq, DomainError> {
        let head = self.head.as_mut().ok_or(DomainError::ConversationNotFound)?;
        if message.status.is_gone() && head.last_message_seq == message.seq {
            let mut newest = below;
            // What this draft has taken away is still standing in the facts.
            while let Some(gone) = self
                .touched
                .values()
                .find(|touched| touched.annotated.message.seq == newest && touched.annotated.message.status.is_gone())
            {
                newest = gone.standing_below;
            }
            head.last_message_seq = newest;
        }
        Ok(head.last_message_seq)
    }
}

/// Does it put something new before the other one of a DIRECT, who may have blocked the actor? What was there can always
/// be taken back.
const fn brings_something(touch: &Touch) -> bool {
    match touch {
        Touch::Edit(_) | Touch::React { added: true, .. } | Touch::Pin(true) => true,
        Touch::Recall { .. } | Touch::Delete | Touch::React { added: false, .. } | Touch::Pin(false) => false,
    }
}

pub(super) fn unchanged(touchable: Touchable) -> Outcome {
    Outcome::Touched(Arc::new(touchable.annotated), None)
}
