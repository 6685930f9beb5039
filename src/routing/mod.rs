//! WHO OWNS A CONVERSATION: a stable hash gives the node and the arbiter; the registry gives the running actor.

pub mod bus;

pub use bus::Bus;
