//! Who uploads at present: so many at once, and nobody more than half of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::{Code, Principal};
use crate::service::ServiceError;

/// When to come again if there is no seat.
const RETRY_AFTER_MS: u64 = 2_000;

/// The seats that are taken.
pub(super) struct Seats {
    most: usize,
    taken: Mutex<HashMap<Principal, usize>>,
}

/// One of them, as long as it is kept.
pub struct Seat {
    seats: Arc<Seats>,
    principal: Principal,
}

impl Seats {
    /// As many as this.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// Takes one.
    ///
    /// # Errors
    /// `overloaded`: come again.
    pub(super) fn take(self: &Arc<Self>, principal: Principal) -> Result<Seat, ServiceError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (
            taken.values().sum::<usize>(),
            taken.get(&principal).copied().unwrap_or_default(),
        );
        if all >= self.most || own >= self.most.div_ceil(2) {
            let mut refusal = ServiceError::new(Code::Overloaded, "too many uploads are under way; try again");
            refusal.extra.retry_after_ms = Some(RETRY_AFTER_MS);
            return Err(refusal);
        }
        taken.insert(principal, own + 1);
        Ok(Seat {
            seats: Arc::clone(self),
            principal,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_seats_and_nobody_has_more_than_half_of_them() {
        let seats = Seats::new(4);
        let take = |id| seats.take(Principal::user(id));
        let (first, _second) = (take(1).ok(), take(1).unwrap());
        let refusal = take(1).err().unwrap();
        assert_eq!(
            (refusal.code, refusal.extra.retry_after_ms),
            (Code::Overloaded, Some(2_000))
        );
        let _others = (take(2).unwrap(), take(3).unwrap());
        assert!(take(4).is_err(), "all are taken");
        drop(first);
        assert!(take(4).is_ok(), "one is free again");
        assert_eq!(seats.taken.lock().unwrap().len(), 3, "who has left is forgotten");
    }
}
