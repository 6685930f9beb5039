//! THE DOORS: what comes in over HTTP and WebSocket becomes a call of `service`, what comes out of it becomes bytes.
//!
//! Never here: a rule, a statement, anything that one door does and the other does not.
//! Invariants: a bound before every parse (`limits`); a token is looked at before anything that was sent with it.

mod catching_up;
pub mod limits;
pub mod rest;
pub mod ws;
