//! The contract in memory: the model of actor tests and the simulation is held to it as well.

use std::future::{Ready, ready};
use std::sync::Arc;

use crate::suite::Fixture;

fn fixture() -> Ready<Option<Fixture>> {
    ready(Some(Fixture {
        store: Arc::new(onescribe::storage::memory::MemoryStore::new()),
        database: None,
    }))
}

crate::suite::contract!(fixture());
