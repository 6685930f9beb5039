//! Where numbers are given: the next seq, the next change_seq.

use std::sync::Arc;

use super::Draft;
use crate::domain::annotated::Annotated;
use crate::domain::chain::{self, Digest};
use crate::domain::change::{Change, ChangeType};
use crate::domain::command::Origin;
use crate::domain::content::{Content, MessageType};
use crate::domain::error::DomainError;
use crate::domain::event::Event;
use crate::domain::ids::{ChangeSeq, ClientMessageId, DeviceId, MessageId, Principal, PrincipalType, Timestamp};
use crate::domain::mention::Mentions;
use crate::domain::message::{Message, MessageStatus};

/// The message that a change is about, and the members who may not see it.
pub(super) struct Subject {
    pub(super) annotated: Arc<Annotated>,
    pub(super) hidden_from: Vec<Principal>,
}

impl Draft<'_> {
    /// What the next change will be numbered.
    pub(super) fn next_change_seq(&self) -> Result<ChangeSeq, DomainError> {
        let head = self.head.as_ref().ok_or(DomainError::ConversationNotFound)?;
        Ok(head.last_change_seq.next())
    }

    /// Numbers a change: the only place that does.
    pub(super) fn change(
        &mut self,
        change_type: ChangeType,
        payload: Option<Content>,
        origin: &Origin,
        now: Timestamp,
        subject: Option<Subject>,
    ) -> Result<Arc<Change>, DomainError> {
        let (about, hidden_from) = subject.map(|subject| (subject.annotated, subject.hidden_from)).unzip();
        let head = self.head.as_mut().ok_or(DomainError::ConversationNotFound)?;
        head.last_change_seq = head.last_change_seq.next();
        let change = Arc::new(Change {
            conversation_id: self.conversation_id,
            change_seq: head.last_change_seq,
            change_type,
            message_id: about.as_ref().map(|about: &Arc<Annotated>| about.message.message_id),
            payload,
            actor: origin.principal,
            changed_at: now,
        });
        self.events.push(Event::Changed {
            change: Arc::clone(&change),
            message: about,
            hidden_from: hidden_from.unwrap_or_default(),
            device: origin.device.clone(),
        });
        Ok(change)
    }

    pub(super) fn system_message(
        &mut self,
        message_id: MessageId,
        event: &str,
        actor: Principal,
        members: &[Principal],
        now: Timestamp,
    ) -> Result<Arc<Message>, DomainError> {
        let list = if members.is_empty() {
            String::new()
        } else {
            format!(",\"members\":{}", principals_json(members))
        };
        let content = format!("{{\"event\":\"{event}\",\"actor\":{}{list}}}", principal_json(actor));
        self.append(Unnumbered {
            message_id,
            sender: Principal::SYSTEM,
            client_message_id: None,
            message_type: MessageType::System,
            content_hash: chain::content_hash(&content),
            content: Content::trusted(&content),
            quoted_message_id: None,
            sent_at: now,
            device: None,
        })
    }

    /// Gives the next seq: the only place that does.
    pub(super) fn append(&mut self, new: Unnumbered) -> Result<Arc<Message>, DomainError> {
        let head = self.head.as_mut().ok_or(DomainError::ConversationNotFound)?;
        let counts = new.sender.kind != PrincipalType::System;
        let mut message = Message {
            message_id: new.message_id,
            conversation_id: self.conversation_id,
            seq: head.last_seq.next(),
            sender: new.sender,
            client_message_id: new.client_message_id,
            message_type: new.message_type,
            content: new.content,
            quoted_message_id: new.quoted_message_id,
            status: MessageStatus::Normal,
            sent_at: new.sent_at,
            edited_at: None,
            change_seq: ChangeSeq::ZERO,
            count_no: if counts {
                head.last_count_no.next()
            } else {
                head.last_count_no
            },
            content_hash: new.content_hash,
            chain_hash: head.chain_hash,
        };
        message.chain_hash = chain::chain_hash(&head.chain_hash, &message);
        head.last_seq = message.seq;
        head.last_message_seq = message.seq;
        head.last_count_no = message.count_no;
        head.chain_hash = message.chain_hash;
        head.last_activity_at = message.sent_at;
        let message = Arc::new(message);
        self.events.push(Event::MessageSent {
            message: Arc::clone(&message),
            device: new.device,
        });
        Ok(message)
    }
}

impl Draft<'_> {
    /// Keeps whom a message mentions, where that is another than before. Nothing of a text that mentions nobody.
    pub(super) fn mention(&mut self, message: &Message, before: Mentions) {
        let mentions = message.content.mentions(&message.message_type);
        // What the server says is never unread, so nothing has to be counted.
        if mentions == before || message.sender.kind == PrincipalType::System {
            return;
        }
        let (seq, sender) = (message.seq, message.sender);
        let now = mentions.only(|principal| principal != sender && self.member(principal).is_some());
        if (&before, &now) != (&Mentions::Nobody, &Mentions::Nobody) {
            self.events.push(Event::Mentioned { seq, before, now });
        }
    }
}

pub(super) struct Unnumbered {
    pub(super) message_id: MessageId,
    pub(super) sender: Principal,
    pub(super) client_message_id: Option<ClientMessageId>,
    pub(super) message_type: MessageType,
    pub(super) content: Content,
    pub(super) content_hash: Digest,
    pub(super) quoted_message_id: Option<MessageId>,
    pub(super) sent_at: Timestamp,
    pub(super) device: Option<DeviceId>,
}

pub(in crate::domain) fn principal_json(principal: Principal) -> String {
    format!(
        "{{\"type\":\"{}\",\"id\":\"{}\"}}",
        principal.kind.as_str(),
        principal.id
    )
}

fn principals_json(principals: &[Principal]) -> String {
    let list: Vec<String> = principals.iter().map(|principal| principal_json(*principal)).collect();
    format!("[{}]", list.join(","))
}

pub(super) fn members_payload(members: &[Principal], reason: &str) -> Content {
    Content::trusted(&format!(
        "{{\"members\":{},\"reason\":\"{reason}\"}}",
        principals_json(members)
    ))
}
