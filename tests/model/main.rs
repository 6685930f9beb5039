//! Random walks of five users with three devices each through the real services, writers and delivery, compared after
//! every step with a model that anybody can read: what each user sees in lists and histories, and what each device
//! holds that knows only what it was pushed and told by sync. So two ways to one state are compared, as well as both
//! with the model.
//! In memory commits fail besides, are lost or come late, and time stands still until everybody waits for it.
//! `hybrid` does every command once and compares what a client makes of the events with what it would fetch anew.
//! `costs` asks the database what the same services cost it, `statements` counts what it is asked.
//!
//! `ONESCRIBE_MODEL_SEED=7 cargo test --test model` walks one seed again, `ONESCRIBE_MODEL_SEEDS=500` walks more, and
//! `ONESCRIBE_MODEL_STEPS=100` walks so far.

#[cfg(test)]
mod acts;
#[cfg(test)]
mod costs;
#[cfg(test)]
#[path = "../support/database.rs"]
#[expect(dead_code, reason = "other test binaries use the rest of it")]
mod database;
#[cfg(test)]
mod device;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod hybrid;
#[cfg(test)]
mod model;
#[cfg(test)]
mod own;
#[cfg(test)]
#[path = "../support/queries.rs"]
mod queries;
#[cfg(test)]
mod reminding;
#[cfg(test)]
mod saying;
#[cfg(test)]
mod stack;
#[cfg(test)]
mod statements;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod walk;
