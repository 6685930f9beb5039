//! Random walks of five users with three devices each through the real services, writers and delivery, compared after
//! every step with a model that anybody can read: what each user sees in lists and histories, and what each device
//! holds that knows only what it was pushed and told by sync. So two ways to one state are compared, as well as both
//! with the model.
//! `costs` asks the database what the same services cost it.
//!
//! `ONESCRIBE_MODEL_SEED=7 cargo test --test model` walks one seed again, `ONESCRIBE_MODEL_SEEDS=500` walks more.

#[cfg(test)]
mod costs;
#[cfg(test)]
#[path = "../support/database.rs"]
#[expect(dead_code, reason = "other test binaries use the rest of it")]
mod database;
#[cfg(test)]
mod device;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod model;
#[cfg(test)]
mod own;
#[cfg(test)]
mod stack;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod walk;
