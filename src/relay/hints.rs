//! Which conversations have moved, as this process's writers tell: so that their events need not be looked for.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::conversation::{Answer, Committed, Publisher, SessionReply, Step};
use crate::domain::{ConversationId, Event, NoticeType};

/// The most conversations that wait here; beyond it the walk over all of them finds the rest.
const HINTS_MAX: usize = 100_000;

/// The conversations that have moved.
#[derive(Default)]
pub struct Hints {
    wanted: AtomicBool,
    moved: Mutex<HashSet<ConversationId>>,
    lost: AtomicBool,
    wake: Notify,
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, HashSet<ConversationId>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Are there others who want to know? Else hints are not kept.
    pub(super) fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::SeqCst);
        if !wanted {
            self.lock().clear();
        }
    }

    /// This one has moved.
    pub(super) fn add(&self, id: ConversationId) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut moved = self.lock();
        if moved.len() < HINTS_MAX {
            moved.insert(id);
        } else {
            self.lost.store(true, Ordering::Relaxed);
        }
        drop(moved);
        self.wake.notify_one();
    }

    /// At most so many of them; they are not here any more.
    pub(super) fn take(&self, max: usize) -> Vec<ConversationId> {
        let mut moved = self.lock();
        let taken: Vec<ConversationId> = moved.iter().take(max).copied().collect();
        for id in &taken {
            moved.remove(id);
        }
        taken
    }

    /// Were there too many? Then the walk has to begin anew.
    pub(super) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::Relaxed)
    }

    /// Waits until something has moved since the last time.
    pub(super) async fn moved(&self) {
        self.wake.notified().await;
    }
}

/// Tells the relay what has moved, and somebody else all of it.
pub struct Hinting {
    next: Arc<dyn Publisher>,
    hints: Arc<Hints>,
}

impl Hinting {
    /// Before `next`.
    #[must_use]
    pub fn new(next: Arc<dyn Publisher>, hints: Arc<Hints>) -> Self {
        Self { next, hints }
    }
}

/// Is this something to other systems?
fn is_notice(step: &Step) -> bool {
    match step {
        Step::Event(Event::MessageSent { .. }) => true,
        Step::Event(Event::Changed { change, .. }) => NoticeType::of_change(change.change_type).is_some(),
        _ => false,
    }
}

impl Publisher for Hinting {
    fn committed(&self, committed: Committed) {
        if self.hints.wanted.load(Ordering::Relaxed) && committed.steps.iter().any(is_notice) {
            self.hints.add(committed.conversation_id);
        }
        self.next.committed(committed);
    }

    fn answer(&self, to: SessionReply, answer: Answer) {
        self.next.answer(to, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: i64) -> ConversationId {
        ConversationId::new(id).unwrap()
    }

    #[test]
    fn a_conversation_that_moved_often_is_named_once_and_none_as_long_as_nobody_wants_to_know() {
        let hints = Hints::default();
        hints.add(id(1));
        assert_eq!(hints.take(9), []);
        hints.want(true);
        for _ in 0..3 {
            hints.add(id(1));
            hints.add(id(2));
        }
        assert_eq!(hints.take(1).len(), 1);
        assert_eq!(hints.take(9).len(), 1);
        hints.add(id(1));
        hints.want(false);
        assert_eq!(hints.take(9), []);
    }

    #[test]
    fn what_is_too_much_is_left_to_the_walk() {
        let hints = Hints::default();
        hints.want(true);
        for number in 1..=i64::try_from(HINTS_MAX).unwrap() {
            hints.add(id(number));
        }
        assert!(!hints.take_lost());
        hints.add(id(i64::MAX));
        assert!(hints.take_lost() && !hints.take_lost());
        assert_eq!(hints.take(usize::MAX).len(), HINTS_MAX);
    }
}
