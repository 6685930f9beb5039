//! The seam between nodes: a command goes to the owner of its conversation. One node is a cluster of one.

use crate::conversation::ReplyTo;
use crate::domain::{Command, ConversationId};

/// Brings a command to the writer that owns the conversation.
pub trait Bus: Send + Sync {
    /// Never waits: commands of one caller arrive in the order of the calls. Whatever goes wrong is answered
    /// through `reply`.
    fn dispatch(&self, conversation_id: ConversationId, command: Command, reply: ReplyTo);
}
