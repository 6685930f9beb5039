//! The small tables: principals, devices, nodes, settings; and the reads of `check`.

use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use super::events::{audited_cursors, audited_events};
use super::tables::{ConversationRow, DeviceRow, Tables, WorkerRow};
use crate::domain::snowflake::{WORKERS_MAX, time_of};
use crate::domain::{
    ChangeSeq, ConversationId, DeviceId, EventNo, ExternalId, Header, Message, MessageId, Principal, PrincipalStatus,
    PrincipalType, Profile, ProfilePatch, Seq, Timestamp,
};
use crate::storage::{
    AuditStore, AuditedCursor, AuditedEvent, Device, DeviceCursor, DeviceStore, Lease, Ledger, MarkKind, NodeStore,
    PrincipalStore, SettingStore, StoreError, StoreResult, Stray, StrayReactions, Totals,
};

fn unnamed(principal: Principal) -> Profile {
    Profile {
        principal,
        external_id: None,
        display_name: None,
        avatar_url: None,
        status: PrincipalStatus::Active,
    }
}

fn update(tables: &mut Tables, principal: Principal, patch: &ProfilePatch) -> bool {
    let Some(profile) = tables.principals.get_mut(&principal) else {
        return true;
    };
    if let Some(external_id) = &patch.external_id {
        let key = |id: &ExternalId| (principal.kind, id.clone());
        let holder = external_id.as_ref().and_then(|id| tables.external_ids.get(&key(id)));
        if holder.is_some_and(|holder| *holder != principal) {
            return false;
        }
        if let Some(former) = &profile.external_id {
            tables.external_ids.remove(&key(former));
        }
        if let Some(id) = external_id {
            tables.external_ids.insert(key(id), principal);
        }
        profile.external_id.clone_from(external_id);
    }
    if let Some(name) = &patch.display_name {
        profile.display_name.clone_from(name);
    }
    if let Some(url) = &patch.avatar_url {
        profile.avatar_url.clone_from(url);
    }
    profile.status = patch.status.unwrap_or(profile.status);
    true
}

#[async_trait]
impl PrincipalStore for MemoryStore {
    async fn provision(&self, principals: &[Principal], now: Timestamp) -> StoreResult<()> {
        self.call(|tables| {
            for principal in principals {
                let fresh = || unnamed(*principal);
                tables.principals.entry(*principal).or_insert_with(fresh);
                tables.known_since.entry(*principal).or_insert(now);
            }
        })
        .await
    }

    async fn known(&self, principals: &[Principal]) -> StoreResult<Vec<Principal>> {
        self.call(|tables| {
            let known = principals
                .iter()
                .filter(|principal| tables.principals.contains_key(principal));
            known.copied().collect()
        })
        .await
    }

    async fn by_external_id(&self, kind: PrincipalType, external_id: &ExternalId) -> StoreResult<Option<Principal>> {
        self.call(|tables| tables.external_ids.get(&(kind, external_id.clone())).copied())
            .await
    }

    async fn adopt_external_id(
        &self,
        principal: Principal,
        external_id: &ExternalId,
        now: Timestamp,
    ) -> StoreResult<Principal> {
        self.call(|tables| {
            let key = (principal.kind, external_id.clone());
            if let Some(holder) = tables.external_ids.get(&key) {
                return Ok(*holder);
            }
            let profile = tables.principals.entry(principal).or_insert_with(|| unnamed(principal));
            tables.known_since.entry(principal).or_insert(now);
            if profile.external_id.is_some() {
                return Err(StoreError::Inconsistent(format!("{principal} has another external_id")));
            }
            profile.external_id = Some(external_id.clone());
            tables.external_ids.insert(key, principal);
            Ok(principal)
        })
        .await?
    }

    async fn profile(&self, principal: Principal) -> StoreResult<Option<Profile>> {
        self.call(|tables| tables.principals.get(&principal).cloned()).await
    }

    async fn update_profile(&self, principal: Principal, patch: &ProfilePatch, _: Timestamp) -> StoreResult<bool> {
        self.call(|tables| update(tables, principal, patch)).await
    }

    async fn share_conversation(&self, one: Principal, other: Principal) -> StoreResult<bool> {
        self.call(|tables| {
            let mut all = tables.conversations.values();
            all.any(|row| row.present(one).is_some() && row.present(other).is_some())
        })
        .await
    }
}

fn acknowledge(tables: &mut Tables, principal: Principal, device: &DeviceId, ack: &DeviceCursor) {
    let row = tables.conversations.get(&ack.conversation_id);
    let Some(row) = row.filter(|row| row.present(principal).is_some()) else {
        return;
    };
    let key = (principal, device.clone(), ack.conversation_id);
    let cursor = tables.cursors.entry(key).or_insert((Seq::ZERO, ChangeSeq::ZERO));
    cursor.0 = cursor.0.max(ack.seq.min(row.head.last_seq));
    cursor.1 = cursor.1.max(ack.change_seq.min(row.head.last_change_seq));
}

#[async_trait]
impl DeviceStore for MemoryStore {
    async fn touch_device(
        &self,
        principal: Principal,
        device: &DeviceId,
        platform: Option<&str>,
        now: Timestamp,
    ) -> StoreResult<()> {
        self.call(|tables| {
            let row = tables.devices.entry((principal, device.clone())).or_insert(DeviceRow {
                platform: None,
                last_seen_at: now,
            });
            row.last_seen_at = now;
            if let Some(platform) = platform {
                row.platform = Some(platform.to_owned());
            }
        })
        .await
    }

    async fn acknowledge(
        &self,
        principal: Principal,
        device: &DeviceId,
        acks: &[DeviceCursor],
        _: Timestamp,
    ) -> StoreResult<()> {
        self.call(|tables| {
            for ack in acks {
                acknowledge(tables, principal, device, ack);
            }
        })
        .await
    }

    async fn devices(&self, principal: Principal, after: Option<&DeviceId>, limit: u32) -> StoreResult<Vec<Device>> {
        self.call(|tables| {
            let own = tables.devices.iter().filter(|((who, _), _)| *who == principal);
            let behind = own.filter(|((_, device_id), _)| after.is_none_or(|after| device_id > after));
            let device = |((_, device_id), row): (&(Principal, DeviceId), &DeviceRow)| Device {
                device_id: device_id.clone(),
                platform: row.platform.clone(),
                last_seen_at: row.last_seen_at,
            };
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            behind.take(limit).map(device).collect()
        })
        .await
    }

    async fn forget_device(&self, principal: Principal, device: &DeviceId) -> StoreResult<bool> {
        self.call(|tables| {
            let cursors = tables.cursors.len();
            tables
                .cursors
                .retain(|(who, which, _), _| *who != principal || which != device);
            let known = tables.devices.remove(&(principal, device.clone())).is_some();
            known || tables.cursors.len() < cursors
        })
        .await
    }

    async fn reset_cursors(
        &self,
        principal: Principal,
        device: &DeviceId,
        conversations: &[ConversationId],
        _: Timestamp,
    ) -> StoreResult<()> {
        self.call(|tables| {
            for id in conversations {
                let cursor = tables.cursors.get_mut(&(principal, device.clone(), *id));
                if let Some(cursor) = cursor {
                    *cursor = (Seq::ZERO, ChangeSeq::ZERO);
                }
            }
        })
        .await
    }

    async fn cursors(&self, principal: Principal, device: &DeviceId) -> StoreResult<Vec<DeviceCursor>> {
        self.call(|tables| {
            let own = tables
                .cursors
                .iter()
                .filter(|((who, which, _), _)| *who == principal && which == device);
            own.map(|((_, _, conversation_id), (seq, change_seq))| DeviceCursor {
                conversation_id: *conversation_id,
                seq: *seq,
                change_seq: *change_seq,
            })
            .collect()
        })
        .await
    }
}

fn held<'a>(tables: &'a mut Tables, node: &str, worker: u16) -> Option<&'a mut WorkerRow> {
    tables.workers.get_mut(&worker).filter(|row| row.node == node)
}

/// The newest time of which an id is known to have been given (B09).
fn newest_issued(tables: &Tables) -> Timestamp {
    let issued = tables.workers.values().map(|row| row.last_issued).max();
    let message = tables.message_places.last_key_value().map(|(id, _)| time_of(id.get()));
    let conversation = tables.conversations.last_key_value().map(|(id, _)| time_of(id.get()));
    issued.max(message).max(conversation).unwrap_or_default()
}

#[async_trait]
impl NodeStore for MemoryStore {
    async fn claim_worker(&self, node: &str, now: Timestamp, lease_until: Timestamp) -> StoreResult<Lease> {
        self.call(|tables| {
            let is_free = |worker: &u16| tables.workers.get(worker).is_none_or(|row| row.lease_until <= now);
            // Ids that nobody has had come first: a former holder with a slow clock may still believe in its lease.
            let free = (0..WORKERS_MAX)
                .filter(is_free)
                .min_by_key(|worker| tables.workers.contains_key(worker));
            let worker = free.ok_or(StoreError::NoFreeWorker)?;
            let not_before = newest_issued(tables);
            let row = tables.workers.entry(worker).or_insert(WorkerRow {
                node: String::new(),
                lease_until,
                last_issued: Timestamp::default(),
            });
            node.clone_into(&mut row.node);
            row.lease_until = lease_until;
            Ok(Lease { worker, not_before })
        })
        .await?
    }

    async fn renew_worker(
        &self,
        node: &str,
        worker: u16,
        lease_until: Timestamp,
        last_issued: Timestamp,
    ) -> StoreResult<bool> {
        self.call(|tables| {
            let Some(row) = held(tables, node, worker) else {
                return false;
            };
            row.lease_until = lease_until;
            row.last_issued = row.last_issued.max(last_issued);
            true
        })
        .await
    }

    async fn release_worker(&self, node: &str, worker: u16, last_issued: Timestamp) -> StoreResult<()> {
        self.call(|tables| {
            if let Some(row) = held(tables, node, worker) {
                row.node.clear();
                row.lease_until = Timestamp::default();
                row.last_issued = row.last_issued.max(last_issued);
            }
        })
        .await
    }
}

#[async_trait]
impl SettingStore for MemoryStore {
    async fn setting_or(&self, name: &str, value: &str) -> StoreResult<String> {
        self.call(|tables| {
            let kept = tables
                .settings
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
            kept.clone()
        })
        .await
    }

    async fn setting(&self, name: &str) -> StoreResult<Option<String>> {
        self.call(|tables| tables.settings.get(name).cloned()).await
    }

    async fn set_setting(&self, name: &str, value: &str) -> StoreResult<()> {
        self.call(|tables| {
            if let Some(kept) = tables.settings.get_mut(name) {
                value.clone_into(kept);
            }
        })
        .await
    }

    async fn ping(&self) -> StoreResult<()> {
        self.call(|_| ()).await
    }
}

/// A message of `row` on which reactions and a pin may stand.
fn bears_marks(row: &ConversationRow, message_id: MessageId) -> (bool, Option<Seq>) {
    let message = row.messages.values().find(|message| message.message_id == message_id);
    let bears = |message: &&Arc<Message>| !message.status.is_gone() && message.change_seq > ChangeSeq::ZERO;
    (message.as_ref().is_some_and(bears), message.map(|message| message.seq))
}

fn strays(row: &ConversationRow) -> Vec<Stray> {
    let conversation_id = row.header.conversation_id;
    let pins = row.pins.keys().filter_map(|message_id| {
        let (bears, seq) = bears_marks(row, *message_id);
        let (kind, message_id) = (MarkKind::Pin, Some(*message_id));
        (!bears).then_some(Stray {
            kind,
            conversation_id,
            message_id,
            seq,
        })
    });
    let mentions = row.mentions.keys().filter_map(|seq| {
        let message = row.messages.get(seq);
        let stands = message.is_some_and(|message| !message.status.is_gone());
        (!stands).then_some(Stray {
            kind: MarkKind::Mention,
            conversation_id,
            message_id: message.map(|message| message.message_id),
            seq: Some(*seq),
        })
    });
    pins.chain(mentions).collect()
}

fn stray_reactions(tables: &Tables) -> StrayReactions {
    let mut page = StrayReactions::default();
    for row in tables.conversations.values() {
        for message_id in row.reactions.keys() {
            let (bears, seq) = bears_marks(row, *message_id);
            page.messages += 1;
            if !bears {
                page.strays.push(Stray {
                    kind: MarkKind::Reaction,
                    conversation_id: row.header.conversation_id,
                    message_id: Some(*message_id),
                    seq,
                });
            }
        }
    }
    page
}

#[async_trait]
impl AuditStore for MemoryStore {
    async fn strays(&self, id: ConversationId, _: u32) -> StoreResult<Vec<Stray>> {
        self.call(|tables| tables.conversations.get(&id).map(strays).unwrap_or_default())
            .await
    }

    async fn stray_reactions(&self, _: Option<MessageId>, _: u32) -> StoreResult<StrayReactions> {
        self.call(|tables| stray_reactions(tables)).await // all of them at once: this is a model
    }

    async fn conversation_ids(&self, after: Option<ConversationId>, limit: u32) -> StoreResult<Vec<ConversationId>> {
        self.call(|tables| {
            let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
            let above = tables.conversations.range((lower, Bound::Unbounded));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            above.take(limit).map(|(id, _)| *id).collect()
        })
        .await
    }

    async fn totals(&self) -> StoreResult<Totals> {
        self.call(|tables| Totals {
            conversations: u64::try_from(tables.conversations.len()).unwrap_or(u64::MAX),
            principals: u64::try_from(tables.principals.len()).unwrap_or(u64::MAX),
        })
        .await
    }

    async fn audited_events(&self, after: EventNo, limit: u32) -> StoreResult<Vec<AuditedEvent>> {
        self.call(|tables| audited_events(tables, after, limit)).await
    }

    async fn audited_cursors(&self, after: Option<ConversationId>, limit: u32) -> StoreResult<Vec<AuditedCursor>> {
        self.call(|tables| audited_cursors(tables, after, limit)).await
    }

    async fn ledger(&self, id: ConversationId) -> StoreResult<Option<Ledger>> {
        self.call(|tables| {
            let row = tables.conversations.get(&id)?;
            let present = row.members.values().filter(|row| row.present);
            let read = present.clone().map(|row| row.membership.last_read_seq).max();
            let cleared = present.clone().map(|row| row.membership.cleared_seq).max();
            let count = |seq: Seq| {
                row.messages
                    .get(&seq)
                    .map(|message| message.count_no)
                    .unwrap_or_default()
            };
            let miscounted = present.clone().filter(|member| {
                let own = &member.membership;
                count(own.last_read_seq) != own.last_read_count_no || count(own.cleared_seq) != own.cleared_count_no
            });
            let miscounted = u64::try_from(miscounted.count()).unwrap_or(u64::MAX);
            Some(Ledger {
                header: Header::clone(&row.header),
                head: row.head,
                member_count: u64::try_from(row.member_count).unwrap_or(u64::MAX),
                member_rows: u64::try_from(present.count()).unwrap_or(u64::MAX),
                highest_read_seq: read.unwrap_or_default(),
                highest_cleared_seq: cleared.unwrap_or_default(),
                miscounted,
            })
        })
        .await
    }
}
