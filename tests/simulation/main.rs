//! Seeded worlds: the server's own writers, lanes and rules on the store in memory, with concurrent senders, retries,
//! lost answers, failing and ambiguous commits, two owners at once and crashes at every step; judged by checkers that
//! know only what was recorded and what is stored.
//!
//! `ONESCRIBE_SIM_SEEDS=20000 cargo test --test simulation` runs more seeds,
//! `ONESCRIBE_SIM_SEED=7 cargo test --test simulation` one again.

#[cfg(test)]
mod broken;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod filing;
#[cfg(test)]
mod history;
#[cfg(test)]
mod membership;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod workload;
#[cfg(test)]
mod world;
