//! What this process has accepted and not answered yet: bounded as a whole, whatever the number of conversations, and
//! refused early while the store does not answer at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::batch::weight;
use crate::domain::Command;

/// The most bytes that wait, unless another bound is set (`limits.backlog_bytes`).
pub const BACKLOG_BYTES: usize = 128 * 1024 * 1024;
/// What a command takes besides its content: its way there and back.
const COMMAND_BYTES: usize = 1024;
/// When nothing at all was answered for so long although something waits, the store is taken to be stalled: what comes
/// is refused at once instead of being kept waiting for as long as a commit may take.
const STALLED_AFTER: Duration = Duration::from_secs(3);

/// The commands of all conversations that wait for their answers.
pub struct Backlog {
    bytes_max: usize,
    bytes: AtomicUsize,
    since: Instant,
    /// When something was last answered, or came while nothing waited.
    moved_ms: AtomicU64,
}

impl Backlog {
    /// At most `bytes_max` wait.
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            bytes: AtomicUsize::new(0),
            since: Instant::now(),
            moved_ms: AtomicU64::new(0),
        })
    }

    /// Room for a command until it is answered; `None` = too much waits, or nothing moves.
    #[must_use]
    pub fn admit(self: &Arc<Self>, command: &Command) -> Option<Room> {
        let bytes = weight(command) + COMMAND_BYTES;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before == 0 {
            // One command always fits, however large.
            self.moved();
        } else if before + bytes > self.bytes_max || self.still_for() >= STALLED_AFTER {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(Room {
            backlog: Arc::clone(self),
            bytes,
        })
    }

    /// How much waits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn moved(&self) {
        self.moved_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn still_for(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.moved_ms.load(Ordering::Relaxed)))
    }
}

/// A command's place. Given back when it is answered, or dropped.
pub struct Room {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.backlog.moved();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ClientMessageId, Content, MessageType, Origin, Principal, Send, chain};

    fn send(bytes: usize) -> Command {
        let text = format!("{{\"text\":\"{}\"}}", "x".repeat(bytes));
        let message_type = MessageType::parse("TEXT").unwrap();
        let content = Content::parse(&text, &message_type, 1 << 20).unwrap();
        Command::Send(Send {
            origin: Origin {
                principal: Principal::user(1),
                device: None,
            },
            client_message_id: ClientMessageId::parse("k").unwrap(),
            message_type,
            content_hash: chain::content_hash(content.as_str()),
            content,
            quoted_message_id: None,
            expected_last_seq: None,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn b85_all_conversations_together_have_a_bound_and_an_answer_makes_room() {
        let backlog = Backlog::new(10_000);
        let first = backlog.admit(&send(4_000)).unwrap();
        let second = backlog.admit(&send(2_000)).unwrap();
        assert!(backlog.admit(&send(4_000)).is_none());
        assert!(backlog.admit(&send(10)).is_some(), "a small one still fits");
        drop(first);
        let third = backlog.admit(&send(4_000));
        assert!(third.is_some());
        drop((second, third));
        assert_eq!(backlog.bytes(), 0);
        assert!(backlog.admit(&send(100_000)).is_some(), "one always fits");
    }

    #[tokio::test(start_paused = true)]
    async fn while_nothing_is_answered_what_comes_is_refused_early() {
        let backlog = Backlog::new(1 << 20);
        let waiting = backlog.admit(&send(1)).unwrap();
        tokio::time::advance(STALLED_AFTER / 2).await;
        let next = backlog.admit(&send(1)).unwrap();
        tokio::time::advance(STALLED_AFTER / 2).await;
        assert!(backlog.admit(&send(1)).is_none(), "that more came is no sign of life");
        drop(waiting);
        assert!(backlog.admit(&send(1)).is_some());
        drop(next);
        tokio::time::advance(STALLED_AFTER * 2).await;
        assert!(
            backlog.admit(&send(1)).is_some(),
            "a server that was idle is not stalled"
        );
    }
}
