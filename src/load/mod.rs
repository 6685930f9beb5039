//! THE LOAD: many clients at once against any server that speaks the wire contract, and a proof of what they got.
//!
//! `plan` and `shape` say who is where; `groups` makes the conversations; one `device` a connection sends and receives;
//! `ledger` proves that everybody got everything once and in order; `tally` counts and times; `summary` is the report.
//! It knows the contract and nothing of the inside, so it measures a remote server like our own.
//!
//! Latency counts from when a message was planned to be sent, so a stall of the server is not hidden by the load
//! waiting with it. The load runs on one thread, says when it was itself too slow, and then its figures do not count.
//!
//! Never here: a word of the inside of the server, printing, the choice of what a person sees.

mod device;
mod greeting;
mod groups;
mod key;
mod ledger;
mod pacer;
mod plan;
mod process;
mod row;
mod run;
mod shape;
mod shared;
mod socket;
mod summary;
mod tally;
mod wire;
mod words;

pub use ledger::Findings;
pub use plan::{Pace, Plan, PlanError};
pub use run::{Listener, run};
pub use shape::Shape;
pub use summary::{Curves, DeliveryCheck, Ended, Load, PlanSummary, Server, Summary, Trouble, Verdict};
pub use tally::{Percentiles, Second, float};
pub use words::Words;

/// Why there is no report at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run could not begin.
    #[error("{0}")]
    Setup(String),
    /// Tokens cannot be made.
    #[error("no token for {0}: {1}")]
    Token(String, String),
}
