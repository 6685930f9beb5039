//! Real processes: the built binary, real databases, real sockets; and then `kill -9`, a lost answer, a full disk.
//!
//! Each test records what its clients saw; [`history`] judges that record against a fresh read of the store, and knows
//! nothing else. The workload is seeded; what happens between the processes is not, so a run that fails is looked at
//! by its record: the findings name every message.
#![cfg(test)]

mod acceptances;
mod announcements;
mod bench;
mod disk;
mod events;
mod export;
mod files;
mod full_disk;
mod hang_up;
mod history;
mod history_tests;
mod instance;
mod kill;
mod lost_answers;
mod outage;
mod reminders;
mod shutdown;
mod slow_client;
mod stalled_database;
mod stopped_process;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod thousands;
mod two_processes;
mod workload;
