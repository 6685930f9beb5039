//! The reply to a frame whose conversation has answered.

use bytes::Bytes;

use super::super::session::{Asked, Sending, Waiting};
use super::super::wire;
use crate::conversation::{Answer, CommandError};
use crate::domain::{KeyRecord, Outcome, Principal};
use crate::protocol::reply::{Read, Sent, Touched};
use crate::protocol::view;

/// The finished frame; an error has to be put into words by the session's actor.
pub(super) fn reply(waiting: &Waiting, viewer: Principal, answer: &Answer) -> Result<Bytes, CommandError> {
    let reply_to = waiting.frame;
    match (&waiting.asked, answer.as_ref().map_err(Clone::clone)?) {
        (Asked::Send(send), Outcome::Sent(message)) => Ok(wire::text(&sent(reply_to, send, &message.record(), false))),
        (Asked::Send(send), Outcome::Duplicate(first)) => Ok(wire::text(&sent(reply_to, send, first, true))),
        (Asked::Touch, Outcome::Touched(about, change)) => {
            let marks = about.marks_for(viewer);
            let message = || view::Message::new(&about.message, &marks);
            let change = change.as_deref();
            Ok(wire::text(&Touched {
                reply_to,
                message: message(),
                change: change.map(|change| view::Change::new(change, Some(message()))),
            }))
        }
        (
            Asked::Read,
            Outcome::Read {
                last_read_seq,
                unread_count,
                change,
            },
        ) => Ok(wire::text(&Read {
            reply_to,
            last_read_seq: last_read_seq.get(),
            unread_count: *unread_count,
            change_seq: change.as_ref().map(|change| change.change_seq.get()),
        })),
        // No answer to what was asked: the client asks again.
        _ => Err(CommandError::Unavailable),
    }
}

fn sent<'a>(reply_to: u64, send: &'a Sending, first: &KeyRecord, duplicate: bool) -> Sent<'a> {
    Sent {
        reply_to,
        message_id: first.message_id.get(),
        conversation_id: send.conversation_id.get(),
        seq: first.seq.get(),
        sent_at: first.sent_at,
        client_message_id: send.client_message_id.as_str(),
        duplicate,
    }
}
