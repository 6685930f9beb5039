//! The final store as plain data.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use onescribe::domain::{ChangeSeq, ConversationId, Seq};
use onescribe::storage::memory::MemoryStore;
use onescribe::storage::{AuditStore as _, ConversationStore as _, MessageStore as _};
use serde_json::{Value, json};

use crate::history::{StoredChange, StoredMessage, Who, who};

/// One conversation as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) conversation: i64,
    pub(crate) is_group: bool,
    pub(crate) is_dissolved: bool,
    pub(crate) owner: Option<Who>,
    pub(crate) last_seq: i64,
    pub(crate) last_change_seq: i64,
    pub(crate) last_count_no: i64,
    pub(crate) last_message_seq: i64,
    /// Title, settings and status by their names on the wire.
    pub(crate) header: BTreeMap<&'static str, Value>,
    pub(crate) chain_hash: [u8; 32],
    pub(crate) member_count: u64,
    pub(crate) members: BTreeMap<Who, StoredMember>,
    pub(crate) messages: Vec<StoredMessage>,
    pub(crate) changes: Vec<StoredChange>,
}

/// A present member as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredMember {
    pub(crate) role: &'static str,
    pub(crate) joined_seq: i64,
    pub(crate) last_read_seq: i64,
    pub(crate) last_read_count_no: i64,
}

/// What a store in memory answers at once.
macro_rules! now {
    ($call:expr) => {
        $call.now_or_never().unwrap().unwrap()
    };
}
pub(crate) use now;

pub(crate) fn exists(store: &MemoryStore, id: ConversationId) -> bool {
    now!(store.ledger(id)).is_some()
}

pub(crate) fn take(store: &MemoryStore) -> Vec<Stored> {
    now!(store.conversation_ids(None, u32::MAX))
        .into_iter()
        .map(|id| one(store, id))
        .collect()
}

fn one(store: &MemoryStore, id: ConversationId) -> Stored {
    let ledger = now!(store.ledger(id)).unwrap();
    let members = now!(store.members(id, None, u32::MAX));
    let messages = now!(store.messages_after(id, Seq::ZERO, u32::MAX));
    let changes = now!(store.changes_after(id, ChangeSeq::ZERO, u32::MAX));
    let member = |principal| {
        let membership = now!(store.seen(id, principal)).unwrap().membership.unwrap();
        StoredMember {
            role: membership.member.role.as_str(),
            joined_seq: membership.member.joined_seq.get(),
            last_read_seq: membership.last_read_seq.get(),
            last_read_count_no: membership.last_read_count_no.get(),
        }
    };
    Stored {
        conversation: id.get(),
        is_group: ledger.header.kind.as_str() == "GROUP",
        is_dissolved: ledger.header.status.as_str() == "DISSOLVED",
        owner: ledger.header.owner.map(who),
        last_seq: ledger.head.last_seq.get(),
        last_change_seq: ledger.head.last_change_seq.get(),
        last_count_no: ledger.head.last_count_no.get(),
        last_message_seq: ledger.head.last_message_seq.get(),
        header: BTreeMap::from([
            ("title", json!(ledger.header.title)),
            ("avatar_url", json!(ledger.header.avatar_url)),
            ("history_visibility", json!(ledger.header.history_visibility.as_str())),
            ("posting", json!(ledger.header.posting.as_str())),
            ("adding", json!(ledger.header.adding.as_str())),
            ("status", json!(ledger.header.status.as_str())),
        ]),
        chain_hash: *ledger.head.chain_hash.as_bytes(),
        member_count: ledger.member_count,
        members: members
            .iter()
            .map(|found| (who(found.principal), member(found.principal)))
            .collect(),
        messages: messages.iter().map(StoredMessage::of).collect(),
        changes: changes.iter().map(StoredChange::of).collect(),
    }
}
