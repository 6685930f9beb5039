//! The REST door of a whole server in this process, on SQLite: one file per behaviour.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests: what is not there is a failure"
)]

mod accepted_and_refused;
mod bad_input_costs_no_number;
mod direct_once_per_pair;
mod members_come_and_go;
mod paging;
mod principals_and_tokens;
mod refusals_are_problem_documents;
mod resend_returns_first_ack;
mod world;
