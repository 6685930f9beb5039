//! The writer on real actix actors with simulated senders: paused time, the store in memory, faults on demand.
#![cfg(test)]

mod passing;
mod recovery;
mod senders;
mod sizes;
mod world;
