//! Sending a message on: an ordinary send by the caller into each of the conversations.

use futures_util::future::{join_all, try_join_all};

use super::error::ServiceError;
use super::messages::{Messages, Sent};
use crate::domain::{
    ClientMessageId, Code, ConversationId, DomainError, KeyRecord, Message, MessageId, MessageStatus, MessageType,
    Origin, Principal, Send, chain,
};

/// What became of one copy.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// Where to.
    pub conversation_id: ConversationId,
    /// The copy, or why there is none.
    pub outcome: Result<Sent, ServiceError>,
}

impl Messages {
    /// Sends a message on, in the order asked. `key` is the key of the copy in each conversation, so a repeat finds
    /// the first copies, whatever has become of the message since, and makes those that are missing.
    ///
    /// # Errors
    /// `not_found` for a message that the caller may not see; `message_recalled`; `forbidden` for what the server made.
    /// Where there are first copies, these stand with the conversations that have none, as does what a conversation
    /// refuses, which stops no other.
    pub async fn forward(
        &self,
        origin: Origin,
        id: MessageId,
        to: &[ConversationId],
        key: &ClientMessageId,
    ) -> Result<Vec<Forwarded>, ServiceError> {
        let sender = origin.principal;
        let source = match self.get(sender, id).await {
            Ok(source) => Ok(source.message),
            Err(error) if error.code == Code::NotFound => Err(error),
            Err(error) => return Err(error),
        };
        let copy = source
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|source| copy(origin, key, source));
        let source = source.as_ref().ok();
        // A message that can be sent on as it was first sent has the payload of the first copies: their writers find them.
        let is_unaltered = copy.is_ok() && source.is_some_and(|source| source.edited_at.is_none());
        let first = if is_unaltered {
            vec![None; to.len()]
        } else {
            try_join_all(to.iter().map(|place| self.first_copy(*place, sender, key))).await?
        };
        if first.iter().all(Option::is_none) {
            copy.as_ref().map_err(Clone::clone)?;
        }
        let send = async |conversation_id: ConversationId, first: Option<KeyRecord>| Forwarded {
            conversation_id,
            outcome: match (first, copy.clone()) {
                (Some(first), _) => self.repeated(sender, &first, source).await,
                (None, Ok(copy)) => self.send(conversation_id, copy).await,
                (None, Err(refusal)) => Err(refusal),
            },
        };
        Ok(join_all(to.iter().zip(first).map(|(place, first)| send(*place, first))).await)
    }

    async fn first_copy(
        &self,
        place: ConversationId,
        sender: Principal,
        key: &ClientMessageId,
    ) -> Result<Option<KeyRecord>, ServiceError> {
        let found = self.store.keys(place, &[(sender, key.clone())]).await?;
        Ok(found.into_iter().next().map(|(_, first)| first))
    }

    async fn repeated(
        &self,
        sender: Principal,
        first: &KeyRecord,
        source: Option<&Message>,
    ) -> Result<Sent, ServiceError> {
        let original = first.message_id;
        if source.is_some_and(|source| !may_be_copy(first, source)) {
            return Err(self.refusal(sender, DomainError::KeyReused { original }.into()).await);
        }
        Ok(Sent {
            message: self.as_seen(sender, original).await?,
            duplicate: true,
        })
    }
}

/// The message as it is sent on.
fn copy(origin: Origin, key: &ClientMessageId, source: &Message) -> Result<Send, ServiceError> {
    if source.status == MessageStatus::Recalled {
        return Err(DomainError::Recalled.into());
    }
    if matches!(source.message_type, MessageType::System | MessageType::Notification) {
        return Err(DomainError::Forbidden("what the server made cannot be forwarded").into());
    }
    Ok(Send {
        origin,
        client_message_id: key.clone(),
        message_type: source.message_type.clone(),
        content_hash: chain::content_hash(source.content.as_str()),
        content: source.content.clone(),
        quoted_message_id: None,
        expected_last_seq: None,
    })
}

/// Can this be what was sent on of `source`, which the sender sees? Of a message that is not theirs to see any more nothing
/// may be told, not even whether the words were the same: there the key alone decides.
fn may_be_copy(first: &KeyRecord, source: &Message) -> bool {
    let words = [source.content_hash, chain::content_hash(source.content.as_str())];
    // What it said between its first words and the present ones is kept nowhere.
    let is_of_words_that_are_gone = source
        .edited_at
        .is_some_and(|edited_at| source.status.is_gone() || first.sent_at <= edited_at);
    first.message_type == source.message_type
        && first.quoted_message_id.is_none()
        && (words.contains(&first.content_hash) || is_of_words_that_are_gone)
}
