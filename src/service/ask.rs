//! Asking a conversation's writer and waiting for its answer, but not for ever.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::conversation::{Answer, CommandError, ReplyTo};
use crate::domain::{Command, ConversationId};
use crate::routing::Bus;

/// How long a caller waits for a writer. The command may still be carried out afterwards: the outcome is unknown.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a command that may be repeated is asked again when its writer went away without an answer.
const ASK_AGAIN_MAX: u32 = 2;

/// What came back.
pub(super) enum Reply {
    /// The writer's answer.
    Answered(Answer),
    /// The writer went away before it answered; whether it did the thing is not known.
    Lost,
}

/// Asks once.
pub(super) async fn ask(bus: &dyn Bus, conversation_id: ConversationId, command: Command) -> Reply {
    let (sender, receiver) = oneshot::channel();
    bus.dispatch(conversation_id, command, ReplyTo::Caller(sender));
    match tokio::time::timeout(REPLY_TIMEOUT, receiver).await {
        Ok(Ok(answer)) => Reply::Answered(answer),
        Ok(Err(_closed)) => Reply::Lost,
        Err(_elapsed) => Reply::Answered(Err(CommandError::Unavailable)),
    }
}

/// Asks for something that has a key of its own (INV-IDEM-1), so that it is safe to ask again when a writer is lost.
pub(super) async fn ask_keyed(bus: &dyn Bus, conversation_id: ConversationId, command: Command) -> Answer {
    for _ in 0..ASK_AGAIN_MAX {
        if let Reply::Answered(answer) = ask(bus, conversation_id, command.clone()).await {
            return answer;
        }
    }
    match ask(bus, conversation_id, command).await {
        Reply::Answered(answer) => answer,
        Reply::Lost => Err(CommandError::Unavailable),
    }
}
