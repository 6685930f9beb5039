//! Many rows as one JSON parameter, for SQLite (json_each) and MySQL (JSON_TABLE). Bytes travel as hexadecimal digits.

use std::fmt::Write as _;

use serde::Serialize;

use super::sends::{HeadRow, ReadRow};
use crate::domain::{Message, MessageId, Timestamp};

fn rows<T: Serialize>(rows: impl Iterator<Item = T>) -> Result<String, sqlx::Error> {
    let rows: Vec<T> = rows.collect();
    serde_json::to_string(&rows).map_err(|error| sqlx::Error::Encode(error.into()))
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            write!(out, "{byte:02x}").ok(); // writing to a String cannot fail
            out
        })
}

/// `conversation_id`, both counters as expected, then the new head and the number of members.
pub(super) fn heads(heads: &[HeadRow<'_>]) -> Result<String, sqlx::Error> {
    rows(heads.iter().map(|row| {
        (
            row.conversation_id.get(),
            row.expected.last_seq.get(),
            row.expected.last_change_seq.get(),
            row.head.last_seq.get(),
            row.head.last_change_seq.get(),
            row.head.last_count_no.get(),
            hex(row.head.chain_hash.as_bytes()),
            row.head.last_message_seq.get(),
            row.head.last_activity_at.millis(),
            row.member_count,
        )
    }))
}

/// `conversation_id`, sender type and id, `seq`, `count_no`.
pub(super) fn reads(reads: &[ReadRow]) -> Result<String, sqlx::Error> {
    rows(reads.iter().map(|row| {
        (
            row.conversation_id.get(),
            row.sender.kind.code(),
            row.sender.id,
            row.seq.get(),
            row.count_no.get(),
        )
    }))
}

/// The columns of `im_message` in their order.
pub(super) fn messages(messages: &[&Message]) -> Result<String, sqlx::Error> {
    rows(messages.iter().map(|row| {
        (
            row.message_id.get(),
            row.conversation_id.get(),
            row.seq.get(),
            row.sender.kind.code(),
            row.sender.id,
            row.client_message_id.as_ref().map(|key| hex(key.as_str().as_bytes())),
            row.message_type.as_str(),
            row.content.as_str(),
            row.quoted_message_id.map(MessageId::get),
            row.status.code(),
            row.sent_at.millis(),
            row.edited_at.map(Timestamp::millis),
            row.change_seq.get(),
            row.count_no.get(),
            hex(row.content_hash.as_bytes()),
            hex(row.chain_hash.as_bytes()),
        )
    }))
}
