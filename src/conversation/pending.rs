//! A command on its way through the writer, until whoever gave it has an answer.

use std::sync::Arc;

use super::backlog::Room;
use super::messages::{Answer, CommandError, Publisher, ReplyTo, SessionReply};
use crate::domain::Command;

/// A command that waits, and whoever waits for its answer.
pub struct Pending {
    /// What is asked.
    pub command: Command,
    reply: Reply,
    /// Its part of what may wait; given back with it.
    room: Option<Room>,
}

impl Pending {
    /// Dropping it unanswered (a panic, a stop) answers that the outcome is unknown.
    pub fn new(command: Command, to: ReplyTo, publisher: Arc<dyn Publisher>) -> Self {
        Self {
            command,
            reply: Reply {
                to: Some(to),
                publisher,
            },
            room: None,
        }
    }

    /// Keeps its place in the backlog until it is answered.
    #[must_use]
    pub fn with(mut self, room: Room) -> Self {
        self.room = Some(room);
        self
    }

    /// Answers outside a commit.
    pub fn answer(mut self, answer: Answer) {
        self.reply.give(answer);
    }

    /// A session's answer goes out with the pushes; then it is not given again.
    pub(super) fn take_session(&mut self) -> Option<SessionReply> {
        self.reply.take_session()
    }
}

struct Reply {
    to: Option<ReplyTo>,
    publisher: Arc<dyn Publisher>,
}

impl Reply {
    fn give(&mut self, answer: Answer) {
        match self.to.take() {
            // A caller that has hung up does not wait any more.
            Some(ReplyTo::Caller(caller)) => drop(caller.send(answer)),
            Some(ReplyTo::Session(session)) => self.publisher.answer(session, answer),
            None => {}
        }
    }

    fn take_session(&mut self) -> Option<SessionReply> {
        match self.to.take() {
            Some(ReplyTo::Session(session)) => Some(session),
            other => {
                self.to = other;
                None
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // A caller sees its channel closed.
        if let Some(ReplyTo::Session(session)) = self.to.take() {
            self.publisher.answer(session, Err(CommandError::Unavailable));
        }
    }
}
