//! What goes wrong with a commit: one at a time, planned before the act that it befalls.

use std::sync::Mutex;

use onescribe::storage::Commit;
use onescribe::storage::memory::{Fault, Faults};

/// The faults of a store in memory.
#[derive(Default)]
pub(crate) struct Trouble(Mutex<Course>);

#[derive(Clone, Copy, Default)]
struct Course {
    planned: Option<Fault>,
    befell: Option<Fault>,
}

impl Trouble {
    /// Befalls the next commit.
    pub(crate) fn plan(&self, fault: Fault) {
        self.0.lock().unwrap().planned = Some(fault);
    }

    /// What has befallen a commit since the last end; from here on nothing is planned.
    pub(crate) fn end(&self) -> Option<Fault> {
        std::mem::take(&mut *self.0.lock().unwrap()).befell
    }

    /// Something has gone wrong since the last end.
    pub(crate) fn has_struck(&self) -> bool {
        self.0.lock().unwrap().befell.is_some()
    }

    /// Whoever asked was told that the outcome is unknown, and it may have happened all the same.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.0.lock().unwrap().befell, Some(Fault::UnknownStoredLater(_)))
    }
}

impl Faults for Trouble {
    fn on_commit(&self, _: &Commit) -> Fault {
        let mut course = self.0.lock().unwrap();
        let Some(fault) = course.planned.take() else {
            return Fault::None;
        };
        course.befell = Some(fault);
        fault
    }
}
