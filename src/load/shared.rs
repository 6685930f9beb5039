//! What all devices of a run share. One thread runs them all, so nothing here is locked.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use super::ledger::Ledger;
use super::plan::{Pace, Target};
use super::tally::Tally;
use super::words::Words;

/// Connections that are made at once.
const CONNECTING_AT_ONCE: usize = 64;
/// Messages that not every receiver has: no more are sent until some are settled.
const UNSETTLED_MAX: usize = 1_000_000;
/// Planned sends that may wait on our side; more, and what is planned is dropped and said.
const PLANNED_MAX: usize = 1_000_000;

/// Where the run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Connections are made.
    Connecting,
    /// Messages are sent.
    Sending,
    /// The last answers and deliveries are awaited.
    Draining,
    /// Everybody goes home.
    Done,
}

/// The planned sends of one device: which of its senders, and when.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) planned: RefCell<VecDeque<(usize, u64)>>,
    pub(super) wake: Notify,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target: Target,
    pub(super) address: SocketAddr,
    pub(super) run: u32,
    pub(super) pace: Pace,
    pub(super) words: Words,
    pub(super) ledger: RefCell<Ledger>,
    pub(super) tally: RefCell<Tally>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) connecting: Semaphore,
    /// When time 0 was.
    pub(super) started: Cell<Instant>,
    /// Connections that are up, and the last trouble of one that is not.
    pub(super) online: Cell<u32>,
    pub(super) trouble: RefCell<String>,
    /// Why nothing can go on.
    pub(super) fatal: RefCell<Option<String>>,
    /// Sends without an answer.
    pub(super) unanswered: Cell<usize>,
    /// Planned sends that wait on our side.
    pub(super) waiting: Cell<usize>,
    pub(super) dropped: Cell<u64>,
}

impl Shared {
    pub(super) fn new(target: Target, address: SocketAddr, run: u32, plan: &super::Plan, tally: Tally) -> Self {
        Self {
            target,
            address,
            run,
            pace: plan.pace,
            words: plan.words.clone(),
            ledger: RefCell::default(),
            tally: RefCell::new(tally),
            phase: watch::Sender::new(Phase::Connecting),
            connecting: Semaphore::new(CONNECTING_AT_ONCE),
            started: Cell::new(Instant::now()),
            online: Cell::new(0),
            trouble: RefCell::default(),
            fatal: RefCell::default(),
            unanswered: Cell::new(0),
            waiting: Cell::new(0),
            dropped: Cell::new(0),
        }
    }

    /// Microseconds since the run began.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.get().elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn is(&self, phase: Phase) -> bool {
        *self.phase.borrow() == phase
    }

    /// May one more message be under way?
    pub(super) fn has_room(&self) -> bool {
        self.ledger.borrow().unsettled() + self.unanswered.get() < UNSETTLED_MAX
    }

    /// Messages that are planned, not answered, or not everywhere yet.
    pub(super) fn under_way(&self) -> usize {
        self.ledger.borrow().unsettled() + self.unanswered.get() + self.waiting.get()
    }

    /// Plans a send for a device.
    pub(super) fn plan(&self, queue: &Queue, sender: usize, at: u64) {
        if self.waiting.get() >= PLANNED_MAX {
            self.dropped.set(self.dropped.get() + 1);
            return;
        }
        self.waiting.set(self.waiting.get() + 1);
        queue.planned.borrow_mut().push_back((sender, at));
        queue.wake.notify_one();
    }

    /// Ends everything at once, for this reason.
    pub(super) fn give_up(&self, why: String) {
        self.fatal.borrow_mut().get_or_insert(why);
        self.phase.send_replace(Phase::Done);
    }
}
