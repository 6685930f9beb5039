//! The log of events for other systems.

use std::collections::BTreeMap;
use std::ops::Bound;

use async_trait::async_trait;

use super::MemoryStore;
use super::conversations::unread_above;
use super::tables::{ConversationRow, Tables};
use crate::domain::{
    ChangeLine, ChangeSeq, ConversationId, EventNo, Kind, Message, MessageType, PlacedNotice, Principal,
    PrincipalStatus, PrincipalType, SentLine, Seq, Timestamp,
};
use crate::storage::{
    AuditedCursor, AuditedEvent, EventCursor, EventStore, Lag, LagPage, LogState, Missable, Placed, Placement, Placer,
    PushDue, PushPlacement, StoreResult, Unplaced,
};

/// What the log is made of.
#[derive(Default)]
pub(super) struct EventTables {
    pub(super) log: LogState,
    pub(super) cursors: BTreeMap<ConversationId, EventCursor>,
    pub(super) events: BTreeMap<EventNo, PlacedNotice>,
    pub(super) pushes: BTreeMap<ConversationId, PushDue>,
}

fn lag(tables: &Tables, row: &ConversationRow, since: Timestamp) -> Option<Lag> {
    let id = row.header.conversation_id;
    let cursor = tables.events.cursors.get(&id).copied();
    let from = if let Some(cursor) = cursor.filter(|cursor| cursor.active_since == since) {
        (cursor.seq, cursor.change_seq)
    } else {
        let message = row.messages.values().rev().find(|message| message.sent_at < since);
        let change = row.changes.values().rev().find(|change| change.changed_at < since);
        (
            message.map_or(Seq::ZERO, |message| message.seq),
            change.map_or(ChangeSeq::ZERO, |change| change.change_seq),
        )
    };
    let head = (row.head.last_seq, row.head.last_change_seq);
    (from.0 < head.0 || from.1 < head.1).then_some(Lag {
        conversation_id: id,
        kind: row.header.kind,
        row: cursor,
        from,
        head,
    })
}

fn unplaced(row: &ConversationRow, lag: &Lag, limit: u32) -> Unplaced {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let above = |from| (Bound::Excluded(from), Bound::Unbounded);
    let messages = row.messages.range(above(lag.from.0)).map(|(_, message)| message);
    let messages = messages.take_while(|message| message.seq <= lag.head.0).take(limit);
    let changes = row
        .changes
        .range((Bound::Excluded(lag.from.1), Bound::Unbounded))
        .map(|(_, change)| change);
    let changes = changes.take_while(|change| change.change_seq <= lag.head.1).take(limit);
    let place = |id| {
        row.messages
            .values()
            .find(|message| message.message_id == id)
            .map(|message| message.seq)
    };
    Unplaced {
        messages: messages
            .map(|message| SentLine {
                seq: message.seq,
                message_id: message.message_id,
                sender_type: message.sender.kind,
                message_type: message.message_type.clone(),
                sent_at: message.sent_at,
            })
            .collect(),
        changes: changes
            .map(|change| ChangeLine {
                change_seq: change.change_seq,
                change_type: change.change_type,
                message_id: change.message_id,
                message_seq: change.message_id.and_then(place),
                changed_at: change.changed_at,
            })
            .collect(),
    }
}

impl EventTables {
    fn place(&mut self, placements: &[Placement], looked: &[PushPlacement], now: Timestamp) -> Placed {
        let mut moved = 0;
        for placement in placements {
            let id = placement.conversation_id;
            if self.cursors.get(&id).copied() != placement.expected {
                moved += 1;
                continue;
            }
            self.append(&placement.notices, now);
            self.cursors.insert(id, placement.cursor);
            if let Some((first, last, due_at)) = placement.push {
                let row = self.pushes.entry(id).or_insert(PushDue {
                    conversation_id: id,
                    told: Seq::new(first.get() - 1),
                    last,
                    due_at,
                });
                row.last = last;
            }
        }
        for push in looked {
            let id = push.due.conversation_id;
            let row = self.pushes.get_mut(&id);
            let row = row.filter(|row| (row.told, row.due_at) == (push.due.told, push.due.due_at));
            let Some(row) = row else {
                moved += 1;
                continue;
            };
            (row.told, row.due_at) = (push.told, push.again_at);
            if row.told >= row.last {
                self.pushes.remove(&id);
            }
            self.append(&push.notices, now);
        }
        Placed {
            newest: self.log.newest,
            moved,
        }
    }

    fn append(&mut self, notices: &[crate::domain::Notice], now: Timestamp) {
        for notice in notices {
            self.log.newest = self.log.newest.next();
            let placed = PlacedNotice {
                event_no: self.log.newest,
                notice: notice.clone(),
                placed_at: now,
            };
            self.events.insert(placed.event_no, placed);
        }
    }

    fn forget(&mut self, before: Timestamp, limit: u32) -> u64 {
        let mut forgotten = 0;
        while let Some(oldest) = self.events.first_entry() {
            if oldest.get().placed_at >= before || forgotten == u64::from(limit) {
                break;
            }
            oldest.remove();
            forgotten += 1;
        }
        forgotten
    }
}

#[async_trait]
impl Placer for MemoryStore {
    async fn place(
        &mut self,
        placements: &[Placement],
        pushes: &[PushPlacement],
        now: Timestamp,
    ) -> StoreResult<Placed> {
        self.call(|tables| tables.events.place(placements, pushes, now)).await
    }
}

pub(super) fn audited_events(tables: &Tables, after: EventNo, limit: u32) -> Vec<AuditedEvent> {
    let audited = |placed: &PlacedNotice| {
        let notice = &placed.notice;
        let change = tables
            .conversations
            .get(&notice.conversation_id)
            .and_then(|row| row.changes.get(&notice.change_seq?));
        AuditedEvent {
            placed: placed.clone(),
            message: notice.message_id.and_then(|id| tables.message_places.get(&id).copied()),
            change: change.map(|change| (change.change_type, change.message_id)),
            cursor: tables.events.cursors.get(&notice.conversation_id).copied(),
        }
    };
    let above = tables.events.events.range((Bound::Excluded(after), Bound::Unbounded));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    above.take(limit).map(|(_, placed)| audited(placed)).collect()
}

pub(super) fn audited_cursors(tables: &Tables, after: Option<ConversationId>, limit: u32) -> Vec<AuditedCursor> {
    let head = |id| {
        let head = tables.conversations.get(id).map(|row| row.head);
        head.map(|head| (head.last_seq, head.last_change_seq))
    };
    let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
    let above = tables.events.cursors.range((lower, Bound::Unbounded));
    above
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
        .map(|(id, cursor)| AuditedCursor {
            conversation_id: *id,
            cursor: *cursor,
            head: head(id),
        })
        .collect()
}

fn is_missable(message: &Message, sent_before: Timestamp) -> bool {
    let is_noticed = message.sender.kind != PrincipalType::System || message.message_type == MessageType::Notification;
    is_noticed && !message.status.is_gone() && message.sent_at <= sent_before
}

fn is_absent(tables: &Tables, row: &ConversationRow, message: Missable, who: Principal) -> bool {
    let id = row.header.conversation_id;
    let acknowledged = tables
        .cursors
        .iter()
        .any(|((principal, _, place), (seq, _))| (*principal, *place) == (who, id) && *seq >= message.seq);
    let is_sender = row
        .messages
        .get(&message.seq)
        .is_some_and(|message| message.sender == who);
    let profile = tables.principals.get(&who);
    let wants = row
        .present(who)
        .is_some_and(|own| !own.muted && own.last_read_seq < message.seq && own.cleared_seq < message.seq);
    wants
        && !acknowledged
        && !is_sender
        && !tables.is_hidden(message.message_id, who)
        && profile.is_none_or(|profile| profile.status == PrincipalStatus::Active)
}

fn unread_total(tables: &Tables, who: Principal) -> u64 {
    let rows = tables
        .conversations
        .values()
        .filter(|row| row.header.kind != Kind::Inbox);
    let unread = rows.filter_map(|row| {
        let own = row.present(who).filter(|own| !own.muted)?;
        Some(unread_above(tables, row, who, own.last_read_seq.max(own.cleared_seq)))
    });
    unread.sum()
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn log_state(&self) -> StoreResult<LogState> {
        self.call(|tables| tables.events.log).await
    }

    async fn wake_log(&self, now: Timestamp) -> StoreResult<()> {
        self.call(|tables| {
            tables.events.log.active_since.get_or_insert(now);
        })
        .await
    }

    async fn feed_asked(&self, now: Timestamp) -> StoreResult<()> {
        self.call(|tables| tables.events.log.feed_asked_at = now).await
    }

    async fn rest_log(&self, unasked_since: Timestamp) -> StoreResult<()> {
        self.call(|tables| {
            let log = &mut tables.events.log;
            if log.feed_asked_at < unasked_since && tables.webhooks.webhooks.is_empty() {
                log.active_since = None;
            }
        })
        .await
    }

    async fn lags_of(&self, ids: &[ConversationId], active_since: Timestamp) -> StoreResult<Vec<Lag>> {
        self.call(|tables| {
            let rows = ids.iter().filter_map(|id| tables.conversations.get(id));
            rows.filter_map(|row| lag(tables, row, active_since)).collect()
        })
        .await
    }

    async fn lags(&self, after: Option<ConversationId>, limit: u32, active_since: Timestamp) -> StoreResult<LagPage> {
        self.call(|tables| {
            let start = after.map_or(Bound::Unbounded, Bound::Excluded);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let rows: Vec<_> = tables
                .conversations
                .range((start, Bound::Unbounded))
                .take(limit)
                .collect();
            LagPage {
                last: rows.last().map(|(id, _)| **id).filter(|_| rows.len() == limit),
                lags: rows
                    .iter()
                    .filter_map(|(_, row)| lag(tables, row, active_since))
                    .collect(),
            }
        })
        .await
    }

    async fn unplaced(&self, lags: &[Lag], limit: u32) -> StoreResult<Vec<Unplaced>> {
        self.call(|tables| {
            let of = |lag: &Lag| {
                let row = tables.conversations.get(&lag.conversation_id);
                row.map(|row| unplaced(row, lag, limit)).unwrap_or_default()
            };
            lags.iter().map(of).collect()
        })
        .await
    }

    async fn events_after(&self, after: EventNo, limit: u32) -> StoreResult<Vec<PlacedNotice>> {
        self.call(|tables| {
            let events = tables.events.events.range((Bound::Excluded(after), Bound::Unbounded));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            events.take(limit).map(|(_, event)| event.clone()).collect()
        })
        .await
    }

    async fn oldest_event(&self) -> StoreResult<Option<EventNo>> {
        self.call(|tables| tables.events.events.first_key_value().map(|(event_no, _)| *event_no))
            .await
    }

    async fn forget_events(&self, before: Timestamp, limit: u32) -> StoreResult<u64> {
        self.call(|tables| {
            let forgotten = tables.events.forget(before, limit);
            let oldest = tables.events.events.first_key_value().map(|(event_no, _)| *event_no);
            let is_kept = |event_no: EventNo| oldest.is_none_or(|oldest| oldest <= event_no);
            tables
                .webhooks
                .deliveries
                .retain(|(_, event_no), _| forgotten == 0 || is_kept(*event_no));
            forgotten
        })
        .await
    }

    async fn pushes_due(&self, now: Timestamp, limit: u32) -> StoreResult<Vec<PushDue>> {
        self.call(|tables| {
            let mut due: Vec<PushDue> = tables
                .events
                .pushes
                .values()
                .filter(|row| row.due_at <= now)
                .copied()
                .collect();
            due.sort_by_key(|row| (row.due_at, row.conversation_id));
            due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            due
        })
        .await
    }

    async fn missable(
        &self,
        conversation_id: ConversationId,
        (after, up_to): (Seq, Seq),
        sent_before: Timestamp,
    ) -> StoreResult<Option<Missable>> {
        self.call(|tables| {
            let row = tables.conversations.get(&conversation_id)?;
            let mut newest = row.messages.values().rev().filter(|message| message.seq <= up_to);
            let found = newest.find(|message| is_missable(message, sent_before))?;
            (found.seq > after).then_some(Missable {
                seq: found.seq,
                message_id: found.message_id,
            })
        })
        .await
    }

    async fn absent(
        &self,
        conversation_id: ConversationId,
        message: Missable,
        after: Option<Principal>,
        limit: u32,
    ) -> StoreResult<Vec<Principal>> {
        self.call(|tables| {
            let Some(row) = tables.conversations.get(&conversation_id) else {
                return Vec::new();
            };
            let members = row.members.keys().copied().filter(|who| Some(*who) > after);
            let absent = members.filter(|who| is_absent(tables, row, message, *who));
            absent.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
        })
        .await
    }

    async fn unread_totals(&self, principals: &[Principal]) -> StoreResult<Vec<(Principal, u64)>> {
        self.call(|tables| {
            let totals = principals.iter().map(|who| (*who, unread_total(tables, *who)));
            totals.filter(|(_, total)| *total > 0).collect()
        })
        .await
    }
}
