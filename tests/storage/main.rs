//! The contract of the store, held by every implementation: `suite` lists it, one file per store says on what it runs,
//! and the rest is about what only real databases can do.
#![cfg(test)]

#[path = "../support/database.rs"]
mod database;
#[path = "../support/proxy.rs"]
#[expect(dead_code, reason = "other test binaries use the rest of it")]
mod proxy;
#[path = "../support/queries.rs"]
mod queries;

#[path = "../support/s3.rs"]
mod s3;

mod actions;
mod audits;
mod builder;
mod commits;
mod conversations;
mod cuts;
mod events;
mod files;
mod hooks;
mod jobs;
mod keys;
mod marks;
mod migrations;
mod nodes;
mod notes;
mod objects;
mod own;
mod pages;
mod people;
mod plans;
mod raw;
mod reminders;
mod scans;
mod suite;
mod sweeps;
mod syncs;
mod touches;

mod memory;
mod mysql;
mod postgres;
mod sqlite;
