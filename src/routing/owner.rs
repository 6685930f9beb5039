//! Who owns a conversation: the node among the live nodes, and the arbiter inside a node. Pure and stable for ever.
//!
//! Every node of a cluster must answer the same, also while old and new releases run side by side, so the hash is
//! part of the contract between nodes and its values are pinned by tests:
//!
//! - node: rendezvous hashing. The weight of a node for a conversation is XXH3-64 (seed 0) over ten bytes: the
//!   conversation id (8, little endian), then the node id (2, little endian). The highest weight owns; of two equal
//!   ones the lower node id. So a node that leaves hands over its own conversations and moves no other.
//! - arbiter: XXH3-64 (seed 0) over the conversation id (8, little endian), scaled to the number of arbiters by
//!   taking the high 64 bits of `hash * arbiters`. It does not depend on the node, so the conversations of one node
//!   still spread over all of its arbiters.

use xxhash_rust::xxh3::xxh3_64;

use crate::domain::ConversationId;

/// A node of the cluster: the worker id that it leases from the store (below 1,024).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u16);

impl NodeId {
    /// The node that holds this worker id.
    #[must_use]
    pub const fn new(worker: u16) -> Self {
        Self(worker)
    }

    /// The worker id.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The node that owns the conversation; `None` when there are no nodes. The order of `nodes` does not matter.
#[must_use]
pub fn owner_of(conversation_id: ConversationId, nodes: &[NodeId]) -> Option<NodeId> {
    nodes
        .iter()
        .copied()
        .max_by_key(|node| (weight(conversation_id, *node), std::cmp::Reverse(*node)))
}

fn weight(conversation_id: ConversationId, node: NodeId) -> u64 {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = conversation_id.get().to_le_bytes();
    let [n0, n1] = node.0.to_le_bytes();
    xxh3_64(&[c0, c1, c2, c3, c4, c5, c6, c7, n0, n1])
}

/// The arbiter (below `arbiters`) on which the conversation's actor runs; 0 when there is none or one.
#[must_use]
pub fn arbiter_of(conversation_id: ConversationId, arbiters: usize) -> usize {
    let hash = xxh3_64(&conversation_id.get().to_le_bytes());
    let scaled = (u128::from(hash) * u128::try_from(arbiters).unwrap_or_default()) >> u64::BITS;
    usize::try_from(scaled).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(id: i64) -> ConversationId {
        ConversationId::new(id).unwrap()
    }

    /// Ids as they are in the wild: snowflakes of one worker, a few milliseconds apart.
    fn snowflakes(count: i64) -> impl Iterator<Item = ConversationId> {
        (0..count).map(|n| conversation(((1_700_000_000 + n * 7) << 22) | (3 << 12) | (n % 5)))
    }

    fn nodes(ids: impl IntoIterator<Item = u16>) -> Vec<NodeId> {
        ids.into_iter().map(NodeId::new).collect()
    }

    #[test]
    fn hash_values_are_the_same_in_every_release() {
        let five = nodes(0..5);
        let owners =
            [1, 2, 3, 7_290_538_472_341_504, i64::MAX].map(|id| owner_of(conversation(id), &five).unwrap().get());
        assert_eq!(owners, [4, 2, 2, 1, 1]);
        let arbiters = [1, 2, 3, 7_290_538_472_341_504, i64::MAX].map(|id| arbiter_of(conversation(id), 16));
        assert_eq!(arbiters, [2, 2, 4, 0, 10]);
        assert_eq!(weight(conversation(1), NodeId::new(1)), 0x3b8b_326b_bcf9_4f2f);
    }

    #[test]
    fn owner_does_not_depend_on_the_order_of_the_nodes() {
        let (up, down) = (nodes(0..16), nodes((0..16).rev()));
        assert!(snowflakes(1_000).all(|id| owner_of(id, &up) == owner_of(id, &down)));
    }

    #[test]
    fn no_nodes_no_owner_and_one_node_owns_everything() {
        assert_eq!(owner_of(conversation(7), &[]), None);
        let one = nodes([42]);
        assert!(snowflakes(100).all(|id| owner_of(id, &one) == Some(NodeId::new(42))));
    }

    #[test]
    fn only_the_conversations_of_the_leaving_node_move() {
        let before = nodes(0..16);
        let after = nodes((0..16).filter(|id| *id != 5));
        let mut moved = 0;
        for id in snowflakes(10_000) {
            let (old, new) = (owner_of(id, &before).unwrap(), owner_of(id, &after).unwrap());
            assert!(
                old == new || old == NodeId::new(5),
                "{id} moved from {old:?} to {new:?}"
            );
            moved += i32::from(old != new);
        }
        assert!((500..750).contains(&moved), "{moved} of 10,000 moved, 625 expected");
    }

    #[test]
    fn nodes_and_their_arbiters_get_equal_shares() {
        let four = nodes([0, 1, 700, 1_023]);
        let mut counts = std::collections::HashMap::new();
        for id in snowflakes(32_000) {
            *counts
                .entry((owner_of(id, &four).unwrap(), arbiter_of(id, 4)))
                .or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 16, "every arbiter of every node has some");
        assert!(
            counts.values().all(|count| (1_800..2_200).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn arbiter_is_always_below_their_number() {
        assert_eq!(arbiter_of(conversation(7), 0), 0);
        for arbiters in 1..70 {
            assert!(snowflakes(500).all(|id| arbiter_of(id, arbiters) < arbiters));
        }
    }
}
