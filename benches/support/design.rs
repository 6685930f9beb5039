//! A way to number and store a message, seen from one sender: it hands over a draft and waits until it is stored.

use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use uuid::Uuid;

/// How many members each conversation has; the senders write in their names.
pub(crate) const MEMBERS: i64 = 8;

/// What a client gives.
pub(crate) struct Draft {
    pub(crate) conversation_id: i64,
    pub(crate) sender_id: i64,
    pub(crate) client_message_id: String,
    pub(crate) content: String,
}

impl Draft {
    /// A text of about 150 bytes with a key of 36 random characters.
    pub(crate) fn new(conversation_id: i64, sender_id: i64) -> Self {
        let client_message_id = Uuid::new_v4().to_string();
        let content = format!(
            r#"{{"text":"{client_message_id} and then some words, as many as people use in a sentence or two of an ordinary chat"}}"#
        );
        Self {
            conversation_id,
            sender_id,
            client_message_id,
            content,
        }
    }
}

/// What the sender is told once the message is stored.
#[derive(Clone, Copy)]
pub(crate) struct Acked {
    pub(crate) conversation_id: i64,
    pub(crate) message_id: i64,
    pub(crate) seq: i64,
}

/// One sender of a design.
#[async_trait]
pub(crate) trait Sender: Send {
    /// Numbers and stores; returns when the database has committed.
    async fn send(&mut self, draft: Draft) -> Result<Acked>;
}

/// Message ids for the designs that have no generator of their own: ascending, as snowflakes are.
pub(crate) fn next_message_id() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1 << 40);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
