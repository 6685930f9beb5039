//! Chance and misfortune, both from one seed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use onescribe::storage::Commit;
use onescribe::storage::memory::{Fault, Faults};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::history::Recorder;

/// The only source of chance in a run.
#[derive(Clone)]
pub(crate) struct Dice(Arc<Mutex<Xoshiro256PlusPlus>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed))))
    }

    /// 0, 1, …, `limit` - 1.
    pub(crate) fn below(&self, limit: usize) -> usize {
        self.0.lock().unwrap().random_range(0..limit)
    }

    pub(crate) fn per_mille(&self, chance: usize) -> bool {
        chance > 0 && self.below(1000) < chance
    }

    pub(crate) fn pick<'a, T>(&self, list: &'a [T]) -> Option<&'a T> {
        (!list.is_empty()).then(|| &list[self.below(list.len())])
    }
}

/// How rough one run is. Chances are per mille.
#[derive(Clone, Debug)]
pub(crate) struct Knobs {
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    pub(crate) conversations: usize,
    pub(crate) sends: usize,
    /// A request goes to a node that is not the owner.
    pub(crate) strays: usize,
    pub(crate) commit_fails: usize,
    pub(crate) commit_is_ambiguous: usize,
    pub(crate) answer_is_lost: usize,
    /// Per step.
    pub(crate) crash_node: usize,
    pub(crate) crash_seat: usize,
    pub(crate) passivate: usize,
    pub(crate) database_stops: usize,
    pub(crate) clock_jumps: usize,
    pub(crate) polls_to_wait_max: u32,
}

impl Knobs {
    /// Some seeds are calm, some are rough in one way, some in every way.
    pub(crate) fn draw(dice: &Dice) -> Self {
        let rough = |chance: usize| if dice.below(2) == 0 { 0 } else { dice.below(chance) + 1 };
        Self {
            nodes: 1 + dice.below(3).min(1),
            clients: 2 + dice.below(4),
            conversations: 1 + dice.below(3),
            sends: 6 + dice.below(16),
            strays: rough(500),
            commit_fails: rough(150),
            commit_is_ambiguous: rough(350),
            answer_is_lost: rough(200),
            crash_node: rough(8),
            crash_seat: rough(12),
            passivate: rough(30),
            database_stops: rough(4),
            clock_jumps: rough(10),
            polls_to_wait_max: u32::try_from(dice.below(4)).unwrap(),
        }
    }

    /// Nothing goes wrong by itself.
    pub(crate) fn calm() -> Self {
        Self {
            nodes: 1,
            clients: 3,
            conversations: 1,
            sends: 2,
            strays: 0,
            commit_fails: 0,
            commit_is_ambiguous: 0,
            answer_is_lost: 0,
            crash_node: 0,
            crash_seat: 0,
            passivate: 0,
            database_stops: 0,
            clock_jumps: 0,
            polls_to_wait_max: 2,
        }
    }
}

/// What goes wrong in the store.
pub(crate) struct SeededFaults {
    dice: Dice,
    knobs: Knobs,
    recorder: Recorder,
    healed: AtomicBool,
    down: AtomicBool,
}

impl SeededFaults {
    pub(crate) fn new(dice: Dice, knobs: Knobs, recorder: Recorder) -> Self {
        Self {
            dice,
            knobs,
            recorder,
            healed: AtomicBool::new(false),
            down: AtomicBool::new(false),
        }
    }

    /// From here on nothing goes wrong.
    pub(crate) fn heal(&self) {
        self.healed.store(true, Ordering::SeqCst);
        self.down.store(false, Ordering::SeqCst);
    }

    /// Stops a running database, starts a stopped one.
    pub(crate) fn toggle_database(&self) {
        self.down.fetch_xor(true, Ordering::SeqCst);
    }

    fn roll(&self) -> Fault {
        if self.healed.load(Ordering::SeqCst) {
            return Fault::None;
        }
        if self.down.load(Ordering::SeqCst) || self.dice.per_mille(self.knobs.commit_fails) {
            return Fault::FailBefore;
        }
        if !self.dice.per_mille(self.knobs.commit_is_ambiguous) {
            return Fault::None;
        }
        match self.dice.below(4) {
            0 => Fault::UnknownStored,
            1 => Fault::UnknownNotStored,
            _ => Fault::UnknownStoredLater(u32::try_from(1 + self.dice.below(12)).unwrap()),
        }
    }
}

impl Faults for SeededFaults {
    fn on_commit(&self, commit: &Commit) -> Fault {
        let fault = self.roll();
        self.recorder.attempt(commit, fault);
        fault
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }

    fn polls_to_wait(&self) -> u32 {
        if self.healed.load(Ordering::SeqCst) || self.knobs.polls_to_wait_max == 0 {
            return 0;
        }
        u32::try_from(
            self.dice
                .below(1 + usize::try_from(self.knobs.polls_to_wait_max).unwrap()),
        )
        .unwrap()
    }
}
