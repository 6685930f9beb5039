//! How often one principal may ask and one address may connect, at both doors together.
//!
//! | what | whose allowance | over it |
//! | --- | --- | --- |
//! | a REST request with a good token; a hello; a frame, also one that cannot be understood | the principal's requests | `rate_limited` |
//! | `message.ack`, `ping`, `auth` | the principal's quiet frames: as many again | `rate_limited` |
//! | `typing` | the same | dropped in silence: it is the first thing that is shed |
//! | a WebSocket upgrade | the connects of its address | `rate_limited` |
//!
//! What keeps a client in order (acks, pings, a new token) is counted apart, so that neither a busy sender loses its
//! place nor a busy receiver its voice. The admin key is not limited. A bad token is answered `unauthenticated` and
//! not counted: if it were, one broken client would lock out everybody behind the same address.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::nanos::Nanos;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::state::{InMemoryState, NotKeyed, StateStore};
use governor::{Quota, RateLimiter};

use super::address;
use crate::domain::{Code, Principal};
use crate::service::ServiceError;

/// The most principals, or addresses, that are told apart; all further ones share one allowance. One takes some 50
/// bytes, and is forgotten when its allowance is whole again: with the default settings after ten seconds.
pub const RATE_KEYS_MAX: usize = 200_000;
/// How often what need not be remembered is forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(5);
/// A connection that is turned away is asked to come back within this time at the most.
const COME_BACK_MAX: Duration = Duration::from_mins(1);

/// How often.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// In the long run; 0 = no limit.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

/// Every allowance of this process.
pub struct Rates {
    requests: Option<Allowances<Principal>>,
    quiet: Option<Allowances<Principal>>,
    connects: Option<Allowances<IpAddr>>,
    /// A connect storm that is turned away comes back spread over the time in which an allowance becomes whole again.
    spread_ms: u64,
}

impl Rates {
    /// `requests` for each principal, `connects` for each address.
    #[must_use]
    pub fn new(requests: Rate, connects: Rate) -> Self {
        let whole_after = Duration::from_secs((connects.burst / connects.per_second.max(1)).into());
        Self {
            requests: Allowances::new(requests, DefaultClock::default()),
            quiet: Allowances::new(requests, DefaultClock::default()),
            connects: Allowances::new(connects, DefaultClock::default()),
            spread_ms: millis(whole_after.min(COME_BACK_MAX)),
        }
    }

    /// Something is asked for.
    ///
    /// # Errors
    /// `rate_limited`, with the time after which it may be asked for again.
    pub fn request(&self, principal: Principal) -> Result<(), ServiceError> {
        check(self.requests.as_ref(), &principal, 0, "limits.requests_per_second")
    }

    /// A frame that keeps a client in order.
    ///
    /// # Errors
    /// As [`Rates::request`].
    pub fn quiet(&self, principal: Principal) -> Result<(), ServiceError> {
        check(self.quiet.as_ref(), &principal, 0, "limits.requests_per_second")
    }

    /// Somebody connects.
    ///
    /// # Errors
    /// As [`Rates::request`]; the times of many who are refused are spread.
    pub fn connect(&self, address: IpAddr) -> Result<(), ServiceError> {
        let household = address::household(address);
        check(
            self.connects.as_ref(),
            &household,
            self.spread_ms,
            "limits.connects_per_second",
        )
    }

    /// Forgets who has been quiet, and tells the operator how many were refused; never comes back.
    pub async fn keep(&self) {
        loop {
            tokio::time::sleep(FORGET_EVERY).await;
            let [requests, quiet] = [&self.requests, &self.quiet].map(|own| own.as_ref().map_or(0, Allowances::tidy));
            let connects = self.connects.as_ref().map_or(0, Allowances::tidy);
            if requests + quiet + connects > 0 {
                tracing::warn!(
                    requests,
                    quiet,
                    connects,
                    "refused by the rate limits in the last seconds"
                );
            }
        }
    }
}

fn check<K: Hash + Eq + Clone>(
    allowances: Option<&Allowances<K>>,
    key: &K,
    spread_ms: u64,
    setting: &str,
) -> Result<(), ServiceError> {
    let Some(wait) = allowances.and_then(|allowances| allowances.take(key).err()) else {
        return Ok(());
    };
    let mut refusal = ServiceError::new(Code::RateLimited, format!("more than {setting}; nothing was done"));
    let spread = if spread_ms == 0 {
        0
    } else {
        rand::random_range(0..=spread_ms)
    };
    refusal.extra.retry_after_ms = Some(millis(wait) + 1 + spread);
    Err(refusal)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// One allowance for each key.
struct Allowances<K: Hash + Eq + Clone, C: Clock = DefaultClock> {
    limiter: RateLimiter<K, Bounded<K>, C, governor::middleware::NoOpMiddleware<C::Instant>>,
    refused: AtomicU64,
}

impl<K: Hash + Eq + Clone, C: Clock> Allowances<K, C> {
    /// `None` = no limit.
    fn new(rate: Rate, clock: C) -> Option<Self> {
        let burst = NonZeroU32::new(rate.burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(NonZeroU32::new(rate.per_second)?).allow_burst(burst);
        Some(Self {
            limiter: RateLimiter::new(quota, Bounded::default(), clock),
            refused: AtomicU64::new(0),
        })
    }

    /// Takes one; the error is how long to wait for the next.
    fn take(&self, key: &K) -> Result<(), Duration> {
        self.limiter.check_key(key).map_err(|not_until| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            not_until.wait_time_from(self.limiter.clock().now())
        })
    }

    /// Forgets whose allowance is whole; how many were refused since the last time.
    fn tidy(&self) -> u64 {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
        self.refused.swap(0, Ordering::Relaxed)
    }
}

/// Never more than [`RATE_KEYS_MAX`] keys: those that come when it is full share what is left over.
struct Bounded<K: Hash + Eq + Clone> {
    known: DashMapStateStore<K>,
    rest: InMemoryState,
}

impl<K: Hash + Eq + Clone> Default for Bounded<K> {
    fn default() -> Self {
        Self {
            known: DashMapStateStore::default(),
            rest: InMemoryState::default(),
        }
    }
}

impl<K: Hash + Eq + Clone> StateStore for Bounded<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        if !self.known.contains_key(key) && self.known.len() >= RATE_KEYS_MAX {
            return self.rest.measure_and_replace(&NotKeyed::NonKey, measure);
        }
        self.known.measure_and_replace(key, measure)
    }
}

impl<K: Hash + Eq + Clone> ShrinkableKeyedStateStore<K> for Bounded<K> {
    fn retain_recent(&self, drop_below: Nanos) {
        self.known.retain_recent(drop_below);
    }

    fn shrink_to_fit(&self) {
        self.known.shrink_to_fit();
    }

    fn len(&self) -> usize {
        self.known.len()
    }

    fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    const RATE: Rate = Rate {
        per_second: 10,
        burst: 3,
    };

    fn allowances(clock: &FakeRelativeClock) -> Allowances<u32, FakeRelativeClock> {
        Allowances::new(RATE, clock.clone()).unwrap()
    }

    #[test]
    fn a_burst_is_let_through_and_then_so_many_a_second_each_for_itself() {
        let clock = FakeRelativeClock::default();
        let allowances = allowances(&clock);
        assert!((0..3).all(|_| allowances.take(&1).is_ok()));
        assert_eq!(allowances.take(&1), Err(Duration::from_millis(100)));
        assert_eq!(allowances.take(&2), Ok(()), "another one is not held back");
        clock.advance(Duration::from_millis(99));
        assert_eq!(allowances.take(&1), Err(Duration::from_millis(1)));
        clock.advance(Duration::from_millis(1));
        assert_eq!(allowances.take(&1), Ok(()), "who waits as long as it is told is let in");
        assert_eq!(allowances.tidy(), 2, "refused ones are counted");
    }

    #[test]
    fn who_is_quiet_is_forgotten_and_nobody_else() {
        let clock = FakeRelativeClock::default();
        let allowances = allowances(&clock);
        allowances.take(&1).unwrap();
        clock.advance(Duration::from_secs(1));
        (0..3).for_each(|_| allowances.take(&2).unwrap());
        allowances.tidy();
        assert_eq!(allowances.limiter.len(), 1);
        assert!(allowances.take(&2).is_err(), "its allowance was used up and still is");
    }

    #[test]
    fn keys_beyond_the_bound_share_one_allowance_and_known_ones_keep_their_own() {
        let clock = FakeRelativeClock::default();
        let allowances = allowances(&clock);
        let last = u32::try_from(RATE_KEYS_MAX).unwrap();
        (0..last).for_each(|key| allowances.take(&key).unwrap());
        assert!((0..3).all(|more| allowances.take(&(last + more)).is_ok()));
        assert!(allowances.take(&(last + 3)).is_err());
        assert_eq!((allowances.limiter.len(), allowances.take(&7)), (RATE_KEYS_MAX, Ok(())));
    }

    #[test]
    fn zero_a_second_is_no_limit() {
        let no_limit = Rate {
            per_second: 0,
            burst: 1,
        };
        let rates = Rates::new(no_limit, no_limit);
        let ann = Principal::user(1);
        assert!((0..10_000).all(|_| rates.request(ann).is_ok() && rates.quiet(ann).is_ok()));
        assert!((0..10_000).all(|_| rates.connect(IpAddr::from([127, 0, 0, 1])).is_ok()));
    }

    #[test]
    fn quiet_frames_and_requests_do_not_take_from_each_other() {
        let rates = Rates::new(RATE, RATE);
        let ann = Principal::user(1);
        while rates.request(ann).is_ok() {}
        assert!(rates.quiet(ann).is_ok());
        while rates.quiet(ann).is_ok() {}
        assert!(rates.connect(IpAddr::from([127, 0, 0, 1])).is_ok());
        assert!(rates.request(Principal::agent(1)).is_ok(), "USER 1 and AGENT 1 are two");
    }

    #[test]
    fn b91_connects_that_are_turned_away_are_told_different_times() {
        let slow = Rate {
            per_second: 1,
            burst: 20,
        };
        let rates = Rates::new(RATE, slow);
        let address = IpAddr::from([127, 0, 0, 1]);
        while rates.connect(address).is_ok() {}
        let hints = (0..50).map(|_| rates.connect(address).unwrap_err().extra.retry_after_ms.unwrap());
        let hints: std::collections::BTreeSet<u64> = hints.collect();
        assert!(
            hints.len() > 25 && hints.iter().all(|hint| (1..=21_001).contains(hint)),
            "{hints:?}"
        );
    }
}
