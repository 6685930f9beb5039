//! What a device that was away has to be told, conversation by conversation.
//!
//! # Why nothing is missed and nothing comes twice while others write
//!
//! The head of a conversation is read in one row, and before its messages and changes. A commit moves the head together
//! with what it adds, so everything up to that head is there when it is asked for, and every change up to it is about a
//! message up to it. Messages and changes are bounded by that head, and `next` is that head: what is committed later is
//! newer than `next`. A message may be shown in a state that a later change has made; the client sees by its
//! `change_seq` that this change says nothing new, and counts it when it comes.
//!
//! A device's stored cursors are read before the heads: an acknowledgement that falls between cannot put a cursor
//! beyond a head.

mod contents;
mod plan;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plan::{Draft, Plan, Start};

use super::devices::Devices;
use super::epoch::Epoch;
use super::error::ServiceError;
use crate::clock::Clock;
use crate::domain::{
    Change, ChangeSeq, Code, ConversationId, DeviceId, InvalidField, Marked, Principal, Seq, Timestamp,
};
use crate::storage::{DeviceCursor, Seen, Standing, Store, Stretch, Unread, Window};

/// The most cursors of one request.
pub const SYNC_CURSORS_MAX: usize = 20_000;
/// The most changes of one conversation in one answer; the rest comes with the next one.
pub const SYNC_CHANGES_MAX: u32 = 100;
/// The most conversations that the answer about unread counts lists; its total counts all of them.
pub const UNREAD_LISTED_MAX: usize = 1_000;
/// Messages and changes that are looked through with one pair of statements: a page of conversations that has more is
/// looked through in several steps, and no further than its answer has room.
const ROWS_PER_STEP: u64 = 4_000;

/// What a device asks.
#[derive(Clone, Debug)]
pub struct SyncQuery {
    /// Which device.
    pub device: DeviceId,
    /// Of which store its history is; `None` = it has none.
    pub store_epoch: Option<String>,
    /// How far it is; `None` = as far as it acknowledged. What is not named counts as (0, 0).
    pub cursors: Option<Vec<DeviceCursor>>,
    /// The most messages of one conversation; the door has cut it to its maximum.
    pub message_limit: u32,
    /// The most conversations; the door has cut it to its maximum.
    pub conversation_limit: u32,
    /// About so large may the answer be; it always has room for one message and one change.
    pub bytes_max: usize,
}

/// A page of what a device has missed.
#[derive(Clone, Debug)]
pub struct SyncPage {
    /// Now.
    pub server_time: Timestamp,
    /// The name of this store.
    pub store_epoch: String,
    /// The latest activity first.
    pub entries: Vec<SyncEntry>,
    /// Conversations that the device knows and in which the viewer is no longer.
    pub removed: Vec<ConversationId>,
    /// There is more: ask again with the `next` of the entries.
    pub has_more: bool,
}

/// A conversation in which something is newer than the device's cursor.
#[derive(Clone, Debug)]
pub struct SyncEntry {
    /// As the viewer sees it; its head bounds messages and changes.
    pub seen: Seen,
    /// The newest after the cursor, ascending.
    pub messages: Vec<Marked>,
    /// From the cursor on, ascending, without a hole.
    pub changes: Vec<SyncChange>,
    /// Between these (both exclusive) are older ones, to be fetched from history.
    pub missing: Option<(Seq, Seq)>,
    /// The cursor to use from now on.
    pub next: (Seq, ChangeSeq),
    /// What the device has of it is not of this history: it begins anew with this entry.
    pub history_reset: bool,
}

/// A change as the viewer may see it.
#[derive(Clone, Debug)]
pub struct SyncChange {
    /// The entry of the log.
    pub change: Change,
    /// It is about something that they may not see: they learn only its number.
    pub hidden: bool,
    /// The message that it is about, as it is now.
    pub message: Option<Marked>,
}

/// Unread counts over all conversations.
#[derive(Clone, Debug)]
pub struct UnreadTotal {
    /// Of all that are not muted; the INBOX does not count.
    pub total: u64,
    /// Those with something unread, the latest activity first; at most [`UNREAD_LISTED_MAX`].
    pub conversations: Vec<Unread>,
}

/// Use cases around catching up.
pub struct Sync {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    devices: Arc<Devices>,
    epoch: Arc<Epoch>,
}

/// How far the device is, and what it knows at all.
struct Cursors {
    at: BTreeMap<ConversationId, DeviceCursor>,
    /// The cursors are the stored ones.
    stored: bool,
    known: BTreeSet<ConversationId>,
}

impl Cursors {
    fn new(given: Option<Vec<DeviceCursor>>, stored: Vec<DeviceCursor>) -> Self {
        let mut known: BTreeSet<ConversationId> = stored.iter().map(|cursor| cursor.conversation_id).collect();
        let is_stored = given.is_none();
        let at = given.unwrap_or(stored).into_iter();
        let at: BTreeMap<ConversationId, DeviceCursor> = at.map(|cursor| (cursor.conversation_id, cursor)).collect();
        known.extend(at.keys());
        Self {
            at,
            stored: is_stored,
            known,
        }
    }

    fn of(&self, id: ConversationId) -> (Seq, ChangeSeq) {
        let cursor = self.at.get(&id);
        cursor.map_or((Seq::ZERO, ChangeSeq::ZERO), |cursor| (cursor.seq, cursor.change_seq))
    }

    fn start(&self, id: ConversationId) -> Start {
        Start {
            cursor: self.of(id),
            named: self.at.contains_key(&id),
            stored: self.stored,
        }
    }

    /// Newer, or not of this history.
    fn lags(&self, standing: &Standing) -> bool {
        self.of(standing.conversation_id) != (standing.last_seq, standing.last_change_seq)
    }
}

impl Sync {
    /// Reads from `store`; `devices` notices who asks.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, devices: Arc<Devices>, epoch: Arc<Epoch>) -> Self {
        Self {
            store,
            clock,
            devices,
            epoch,
        }
    }

    /// What `viewer`'s device has missed, one page of it. Called again with the `next` of each entry until `has_more` is
    /// false, and with each `missing` filled from history, it tells every message that the viewer may see and every
    /// change exactly once.
    ///
    /// # Errors
    /// `history_reset` when the device's history is of another store; `invalid_request` when it names more than
    /// [`SYNC_CURSORS_MAX`] cursors.
    pub async fn sync(&self, viewer: Principal, query: SyncQuery) -> Result<SyncPage, ServiceError> {
        if query
            .cursors
            .as_ref()
            .is_some_and(|cursors| cursors.len() > SYNC_CURSORS_MAX)
        {
            return Err(InvalidField::new("cursors", "must have at most 20,000 entries").into());
        }
        let store_epoch = self.epoch.current().await;
        if query.store_epoch.as_ref().is_some_and(|known| *known != store_epoch) {
            let detail = "the history of this device is of another store: drop it and begin at (0, 0)";
            return Err(ServiceError::new(Code::HistoryReset, detail));
        }
        self.devices.notice(viewer, &query.device).await?;
        // This order matters: see the head of this file.
        let stored = self.store.cursors(viewer, &query.device).await?;
        let cursors = Cursors::new(query.cursors, stored);
        let standings = self.store.standings(viewer).await?;
        let mut removed: BTreeSet<ConversationId> = cursors.known.clone();
        for standing in &standings {
            removed.remove(&standing.conversation_id);
        }
        let (chosen, mut has_more) = choose(standings, &cursors, query.conversation_limit);
        let plans = self.plans(viewer, &chosen, &cursors, query.message_limit).await?;
        self.forget_earlier(viewer, &query.device, &plans).await?;
        let drafts = self.drafts(viewer, plans, query.bytes_max).await?;
        has_more |= drafts.cut || drafts.taken.iter().any(Draft::has_more_changes);
        Ok(SyncPage {
            server_time: self.clock.now(),
            store_epoch,
            entries: contents::fill(self.store.as_ref(), viewer, drafts.taken).await?,
            removed: removed.into_iter().collect(),
            has_more,
        })
    }

    /// Unread counts: the same numbers as in the list of conversations.
    ///
    /// # Errors
    /// `unavailable` when the store does not answer.
    pub async fn unread(&self, viewer: Principal) -> Result<UnreadTotal, ServiceError> {
        let mut conversations = self.store.unread(viewer).await?;
        let counted = conversations.iter().filter(|one| !one.muted);
        let total = counted.map(|one| one.unread_count).sum();
        conversations.truncate(UNREAD_LISTED_MAX);
        Ok(UnreadTotal { total, conversations })
    }

    /// A stored cursor of an earlier membership goes back to (0, 0): acknowledgements only move forward, and the device
    /// begins anew. The row stays, so that the device is told of the reset until it has acknowledged something.
    async fn forget_earlier(&self, viewer: Principal, device: &DeviceId, plans: &[Plan]) -> Result<(), ServiceError> {
        let earlier = plans.iter().filter(|plan| plan.forgets_stored);
        let earlier: Vec<ConversationId> = earlier.map(Plan::id).collect();
        if !earlier.is_empty() {
            let now = self.clock.now();
            self.store.reset_cursors(viewer, device, &earlier, now).await?;
        }
        Ok(())
    }

    /// What is to be read of each, in the order of `chosen`. One that the viewer has left in the meantime is passed
    /// over: the next request tells it as removed.
    async fn plans(
        &self,
        viewer: Principal,
        chosen: &[ConversationId],
        cursors: &Cursors,
        message_limit: u32,
    ) -> Result<Vec<Plan>, ServiceError> {
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let seen = self.store.seen_of(chosen, viewer).await?;
        let mut seen: BTreeMap<ConversationId, Seen> = seen
            .into_iter()
            .map(|seen| (seen.header.conversation_id, seen))
            .collect();
        let plan = |id: &ConversationId| Plan::new(seen.remove(id)?, cursors.start(*id), message_limit);
        Ok(chosen.iter().filter_map(plan).collect())
    }

    /// Which messages and changes are told, as far as the answer has room.
    async fn drafts(&self, viewer: Principal, plans: Vec<Plan>, bytes_max: usize) -> Result<Drafts, ServiceError> {
        let mut drafts = Drafts {
            taken: Vec::new(),
            room: bytes_max,
            cut: false,
        };
        let mut plans = plans.into_iter().peekable();
        while plans.peek().is_some() && !drafts.cut {
            let mut step = Vec::new();
            let mut rows = 0;
            while let Some(plan) = plans.next_if(|plan| rows == 0 || rows + plan.rows() <= ROWS_PER_STEP) {
                rows += plan.rows().max(1);
                step.push(plan);
            }
            let windows: Vec<Window> = step.iter().filter_map(Plan::window).collect();
            let stretches: Vec<Stretch> = step.iter().filter_map(Plan::stretch).collect();
            let mut outlines = Vec::new();
            if !windows.is_empty() {
                outlines = self.store.outlines(&windows, viewer).await?;
            }
            let mut log = Vec::new();
            if !stretches.is_empty() {
                log = self.store.log(&stretches, viewer).await?;
            }
            for draft in Draft::sort(step, outlines, log) {
                drafts.take(draft);
            }
        }
        Ok(drafts)
    }
}

/// The entries that fit.
struct Drafts {
    taken: Vec<Draft>,
    room: usize,
    /// Some did not fit.
    cut: bool,
}

impl Drafts {
    /// An entry is told whole, or it is the first of the next answer; the first one is cut to what fits.
    fn take(&mut self, mut draft: Draft) {
        if self.cut {
            return;
        }
        if self.taken.is_empty() {
            draft.cut_to(self.room);
        } else if draft.bytes() > self.room {
            self.cut = true;
            return;
        }
        self.room = self.room.saturating_sub(draft.bytes());
        self.taken.push(draft);
    }
}

/// The first of those in which something is newer, and whether there are more.
fn choose(standings: Vec<Standing>, cursors: &Cursors, limit: u32) -> (Vec<ConversationId>, bool) {
    let mut lagging: Vec<Standing> = standings.into_iter().filter(|one| cursors.lags(one)).collect();
    lagging.sort_unstable_by_key(|one| (Reverse(one.last_activity_at.millis()), Reverse(one.conversation_id)));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = lagging.len() > limit;
    let chosen = lagging.into_iter().take(limit).map(|one| one.conversation_id);
    (chosen.collect(), more)
}
