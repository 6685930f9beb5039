//! The contract of the store, held by every implementation: `suite` has the tests, the others say on what they run.

#[path = "../support/database.rs"]
mod database;

mod builder;
mod suite;

mod mysql;
mod postgres;
mod sqlite;
