//! THE DOORS: what comes in over HTTP and WebSocket becomes a call of `service`, what comes out of it becomes bytes.
//!
//! Never here: a rule, a statement, anything that one door does and the other does not.
//! Invariants: a bound before every parse (`limits`); a token is looked at before anything that was sent with it; who
//! asks too often is told so before anything is done (`rates`), whichever door it knocks at.

mod address;
mod catching_up;
pub mod limits;
pub mod rates;
pub mod rest;
pub mod ws;
