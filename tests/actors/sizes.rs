//! What every batch costs in memory.

use std::sync::Arc;

use onescribe::clock::ManualClock;
use onescribe::conversation::{Answer, Committed, Committer, ConversationWriter, Parts, Publisher, SessionReply};
use onescribe::domain::Timestamp;
use onescribe::domain::snowflake::Snowflake;
use onescribe::ids::Ids;
use onescribe::storage::memory::MemoryStore;

use super::world::ROOM;

/// A batch of one message is the commonest there is, and its future is made, moved and freed for each. With room for
/// what is seldom needed it was twice as large.
const SERVING_BYTES_MAX: usize = 1_536;

struct Nobody;

impl Publisher for Nobody {
    fn committed(&self, _: Committed) {}
    fn answer(&self, _: SessionReply, _: Answer) {}
}

#[test]
fn serving_a_batch_takes_little_memory() {
    let clock = Arc::new(ManualClock::new(Timestamp::default()));
    let flake = Snowflake::new(1, Timestamp::default()).unwrap();
    let parts = Parts {
        store: Arc::new(MemoryStore::default()),
        committer: Committer::new(1).0,
        ids: Arc::new(Ids::new(Arc::<ManualClock>::clone(&clock), flake, Timestamp::default())),
        clock,
        publisher: Arc::new(Nobody),
    };
    let mut writer = ConversationWriter::new(ROOM, Arc::new(parts));
    let bytes = size_of_val(&writer.serve(Vec::new()));
    assert!(bytes <= SERVING_BYTES_MAX, "{bytes} bytes");
}
