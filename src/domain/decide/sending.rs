//! A message gets its number, or its first answer again.

use super::append::Unnumbered;
use super::referring::may_refer;
use super::{Context, Draft, Fact, Outcome, Refusal};
use crate::domain::command::Send;
use crate::domain::error::DomainError;
use crate::domain::ids::{FileId, Seq};
use crate::domain::mention::Mentions;
use crate::domain::message::KeyRecord;
use crate::domain::{policy, visibility};

/// By whose right something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// The sender's own.
    Own,
    /// The admin key speaks in the sender's name.
    AdminKey,
}

impl Draft<'_> {
    pub(super) fn send(
        &mut self,
        send: &Send,
        authority: Authority,
        context: &mut Context<'_>,
    ) -> Result<Outcome, Refusal> {
        let sender = send.origin.principal;
        let used = (sender, send.client_message_id.clone());
        let known = self
            .keys
            .get(&used)
            .or_else(|| self.base.and_then(|base| base.recent.get(sender, &used.1)));
        if let Some(record) = known.or_else(|| context.facts.keys.get(&used).and_then(Option::as_ref)) {
            return repeat(send, record).map_err(Refusal::from);
        }
        // The repeat of a key wins over every refusal, so a refusal needs to know that the key is new.
        let files = send.content.files();
        self.may_send(send, &files, authority, context)
            .map_err(|refusal| match refusal {
                Refusal::Rejected(_) if !context.facts.keys.contains_key(&used) => {
                    Refusal::Needs(Fact::Key(sender, used.1.clone()))
                }
                refusal => refusal,
            })?;
        let message_id = (context.next_id)()?;
        let message = self.append(Unnumbered {
            message_id,
            sender,
            client_message_id: Some(send.client_message_id.clone()),
            message_type: send.message_type.clone(),
            content: send.content.clone(),
            content_hash: send.content_hash,
            quoted_message_id: send.quoted_message_id,
            sent_at: context.now,
            device: send.origin.device.clone(),
        })?;
        self.mention(&message, Mentions::Nobody);
        self.refer(&message, &[], &files, context.now);
        self.keys.insert(used, message.record());
        Ok(Outcome::Sent(message))
    }

    fn may_send(
        &self,
        send: &Send,
        files: &[FileId],
        authority: Authority,
        context: &Context<'_>,
    ) -> Result<(), Refusal> {
        let sender = send.origin.principal;
        let (header, head) = self.existing()?;
        let member = self.member(sender);
        match authority {
            Authority::Own => {
                policy::may_send(&header, member.as_ref().ok_or(DomainError::NotAMember)?)?;
                self.not_blocked(sender, context)?;
            }
            Authority::AdminKey => policy::may_send_for(&header, sender, member.as_ref())?,
        }
        if let Some(quoted) = send.quoted_message_id {
            let fact = context
                .facts
                .quotes
                .get(&(quoted, sender))
                .ok_or(Refusal::Needs(Fact::Quote(quoted, sender)))?;
            // The server itself sees everything that is there.
            let first = member.map_or(Seq::ZERO, |member| visibility::first_shared(&header, &member));
            let visible = fact.filter(|quote| !quote.gone && quote.seq >= first);
            visible.ok_or(DomainError::NotFound("no such message to quote in this conversation"))?;
        }
        may_refer(files, sender, context)?;
        if send.expected_last_seq.is_some_and(|expected| expected != head.last_seq) {
            return Err(DomainError::PreconditionFailed {
                last_seq: head.last_seq,
            }
            .into());
        }
        Ok(())
    }
}

/// Same key, same payload: the first answer. Same key, other payload: a conflict (B27).
///
/// # Errors
/// [`DomainError::KeyReused`].
pub fn repeat(send: &Send, record: &KeyRecord) -> Result<Outcome, DomainError> {
    let same = record.content_hash == send.content_hash
        && record.message_type == send.message_type
        && record.quoted_message_id == send.quoted_message_id;
    if same {
        Ok(Outcome::Duplicate(record.clone()))
    } else {
        Err(DomainError::KeyReused {
            original: record.message_id,
        })
    }
}
