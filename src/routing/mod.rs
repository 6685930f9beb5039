//! WHO OWNS A CONVERSATION: a stable hash gives the node and the arbiter; the registry gives the running actor.

pub mod bus;
pub mod node;
pub mod owner;
pub mod registry;

pub use bus::Bus;
pub use owner::{NodeId, arbiter_of, owner_of};
pub use registry::Registry;
