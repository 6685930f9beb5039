//! Sending a message on: an ordinary send by the caller into each of the conversations.

use futures_util::future::join_all;

use super::error::ServiceError;
use super::messages::{Messages, Sent};
use crate::domain::{
    ClientMessageId, ConversationId, DomainError, MessageId, MessageStatus, MessageType, Origin, Send, chain,
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
    /// the first copies and makes those that are missing.
    ///
    /// # Errors
    /// `not_found` for a message that the caller may not see; `message_recalled`; `forbidden` for what the server made.
    /// What a conversation refuses stands with it and stops no other.
    pub async fn forward(
        &self,
        origin: Origin,
        id: MessageId,
        to: &[ConversationId],
        key: &ClientMessageId,
    ) -> Result<Vec<Forwarded>, ServiceError> {
        let message = self.get(origin.principal, id).await?.message;
        if message.status == MessageStatus::Recalled {
            return Err(DomainError::Recalled.into());
        }
        if matches!(message.message_type, MessageType::System | MessageType::Notification) {
            return Err(DomainError::Forbidden("what the server made cannot be forwarded").into());
        }
        let copy = Send {
            origin,
            client_message_id: key.clone(),
            message_type: message.message_type,
            content_hash: chain::content_hash(message.content.as_str()),
            content: message.content,
            quoted_message_id: None,
            expected_last_seq: None,
        };
        let send = async |conversation_id: ConversationId| Forwarded {
            conversation_id,
            outcome: self.send(conversation_id, copy.clone()).await,
        };
        Ok(join_all(to.iter().map(|conversation_id| send(*conversation_id))).await)
    }
}
