//! Real processes: the built binary, real databases, real sockets; and then `kill -9`, a lost answer, a full disk.
//!
//! Each test records what its clients saw; [`history`] judges that record against a fresh read of the store, and knows
//! nothing else.
#![cfg(test)]

mod history;
mod history_tests;
#[path = "../support/mod.rs"]
mod support;
