//! The log of events compared with itself and with the conversations that it tells of (INV-OUT-1).

use std::collections::HashMap;

use super::audit::Finding;
use crate::domain::{ChangeSeq, ConversationId, EventNo, NoticeType, Seq, Timestamp};
use crate::storage::{AuditedCursor, AuditedEvent, LogState, Store, StoreResult};

/// Events that are in memory at once.
const PAGE_EVENTS: u32 = 1_000;
/// Conversations whose order is in memory; beyond it they are forgotten, and what follows is compared from there on.
const CONVERSATIONS_MAX: usize = 1_000_000;

/// How far the walk has heard of a conversation.
#[derive(Clone, Copy)]
struct Heard {
    /// The newest message that was told, and when.
    seq: Seq,
    placed_at: Timestamp,
    change_seq: ChangeSeq,
    /// Messages up to here have events, as was read with the newest of them, and in which period.
    placed: Seq,
    active_since: Timestamp,
}

impl Heard {
    /// Since when every message has its event: a period of events may begin in the middle of a conversation.
    fn is_whole(&self) -> bool {
        self.placed_at >= self.active_since
    }
}

/// From the oldest event that is kept to the newest, also beside those who place and those who remove.
pub(super) struct Walk<'a> {
    store: &'a dyn Store,
    /// Read before the first event: up to here there are events.
    state: LogState,
    /// `None` = there was none yet.
    at: Option<EventNo>,
    heard: HashMap<ConversationId, Heard>,
}

impl<'a> Walk<'a> {
    pub(super) async fn begin(store: &'a dyn Store) -> StoreResult<Self> {
        Ok(Self {
            store,
            state: store.log_state().await?,
            at: None,
            heard: HashMap::new(),
        })
    }

    /// The next events: how many, and what is wrong with them. `None` = there are no more.
    pub(super) async fn page(&mut self) -> StoreResult<Option<(u64, Vec<Finding>)>> {
        let after = self.at.unwrap_or(EventNo::ZERO);
        let page = self.store.audited_events(after, PAGE_EVENTS).await?;
        if page.is_empty() {
            return Ok(None);
        }
        let mut findings = Vec::new();
        for event in &page {
            let event_no = event.placed.event_no;
            if self.at == Some(event_no) {
                // The message is there twice, and was found to be.
                continue;
            }
            if let Some(at) = self.at.filter(|at| event_no != at.next())
                && self.is_kept(at).await?
            {
                let what = format!(
                    "event {} is missing; the next one there is {event_no} (INV-OUT-1)",
                    at.next()
                );
                findings.push(in_the_log(what));
            }
            self.at = Some(event_no);
            let order = self.out_of_order(event);
            let wrong = leads_nowhere(event).or(order);
            findings.extend(wrong.map(|what| Finding {
                conversation_id: Some(event.placed.notice.conversation_id),
                seq: event.placed.notice.seq,
                what: format!("event {event_no} {what}"),
            }));
        }
        Ok(Some((u64::try_from(page.len()).unwrap_or_default(), findings)))
    }

    /// What is known once there are no more.
    pub(super) async fn end(self) -> StoreResult<Vec<Finding>> {
        let newest = self.store.log_state().await?.newest;
        let mut findings = Vec::new();
        if let Some(at) = self.at {
            if at < self.state.newest && self.is_kept(at).await? {
                let (next, newest) = (at.next(), self.state.newest);
                findings.push(in_the_log(format!(
                    "event {next} is missing; the newest is {newest} (INV-OUT-1)"
                )));
            }
            if at > newest {
                let what = format!("event {at} stands above the newest place {newest}: it is given again (INV-OUT-1)");
                findings.push(in_the_log(what));
            }
        }
        for webhook in self.store.webhooks().await? {
            if webhook.event_no > newest {
                let (name, is) = (webhook.name.as_str(), webhook.event_no);
                findings.push(in_the_log(format!(
                    "the webhook {name} is at event {is}, beyond the newest {newest}"
                )));
            }
        }
        let behind = |(id, heard): (&ConversationId, &Heard)| {
            let lacks = heard.is_whole() && heard.seq < heard.placed;
            lacks.then(|| Finding {
                conversation_id: Some(*id),
                seq: Some(heard.seq.next()),
                what: format!(
                    "has no event, although those up to {} have their place (INV-OUT-1)",
                    heard.placed
                ),
            })
        };
        findings.extend(self.heard.iter().filter_map(behind));
        Ok(findings)
    }

    /// Was this event not removed as too old while the walk went on?
    async fn is_kept(&self, event_no: EventNo) -> StoreResult<bool> {
        Ok(self
            .store
            .oldest_event()
            .await?
            .is_some_and(|oldest| oldest <= event_no))
    }

    fn out_of_order(&mut self, event: &AuditedEvent) -> Option<String> {
        let notice = &event.placed.notice;
        let Some(cursor) = event.cursor else {
            return Some("is of a conversation none of whose events has its place (INV-OUT-1)".to_owned());
        };
        if notice.seq > Some(cursor.seq) || notice.change_seq > Some(cursor.change_seq) {
            let (seq, change_seq) = (cursor.seq, cursor.change_seq);
            return Some(format!(
                "is beyond what is placed: message {seq}, change {change_seq} (INV-OUT-1)"
            ));
        }
        if self.heard.len() >= CONVERSATIONS_MAX {
            self.heard.clear();
        }
        let heard = self.heard.entry(notice.conversation_id).or_insert(Heard {
            seq: Seq::ZERO,
            placed_at: Timestamp::default(),
            change_seq: ChangeSeq::ZERO,
            placed: cursor.seq,
            active_since: cursor.active_since,
        });
        let before = *heard;
        match (notice.notice_type, notice.seq, notice.change_seq) {
            (NoticeType::MessageCreated | NoticeType::NotificationCreated, Some(seq), _) => {
                (heard.seq, heard.placed_at) = (seq, event.placed.placed_at);
                (heard.placed, heard.active_since) = (cursor.seq, cursor.active_since);
                let is_next = seq == before.seq.next();
                let may_leave_out = before.seq == Seq::ZERO || before.placed_at < cursor.active_since;
                let follows = is_next || (may_leave_out && seq > before.seq);
                (!follows).then(|| format!("follows that of seq {} (INV-OUT-1)", before.seq))
            }
            (NoticeType::PushRequired, ..) => None,
            (_, _, Some(change_seq)) => {
                heard.change_seq = change_seq;
                let follows = change_seq > before.change_seq;
                (!follows).then(|| {
                    format!(
                        "of change {change_seq} follows that of change {} (INV-OUT-1)",
                        before.change_seq
                    )
                })
            }
            _ => None,
        }
    }
}

/// Is it about something that is not there?
fn leads_nowhere(event: &AuditedEvent) -> Option<String> {
    let notice = &event.placed.notice;
    let of_message = notice.seq.map(|seq| (notice.conversation_id, seq));
    let leads = match notice.notice_type {
        NoticeType::MessageCreated | NoticeType::NotificationCreated => event.message == of_message,
        NoticeType::PushRequired => event.message == of_message && !notice.recipients.is_empty(),
        _ => event.change.is_some_and(|(kind, about)| {
            let is_here = event.message.is_none_or(|(id, _)| id == notice.conversation_id);
            let is_there = about.is_some() == event.message.is_some();
            NoticeType::of_change(kind) == Some(notice.notice_type) && about == notice.message_id && is_here && is_there
        }),
    };
    let leads = leads && (notice.change_seq.is_some() || event.message.is_some());
    (!leads).then(|| format!("({}) is about nothing that is there", notice.notice_type.as_str()))
}

/// Are events placed that have not happened? They would never be told.
pub(super) fn beyond(audited: &AuditedCursor) -> Option<Finding> {
    let cursor = audited.cursor;
    let what = match audited.head {
        None => "its events have a place, but it is not there (INV-OUT-1)".to_owned(),
        Some((seq, change_seq)) if cursor.seq > seq || cursor.change_seq > change_seq => format!(
            "its events are placed up to message {} and change {}, beyond the heads {seq} and {change_seq} (INV-OUT-1)",
            cursor.seq, cursor.change_seq
        ),
        Some(_) => return None,
    };
    Some(Finding {
        conversation_id: Some(audited.conversation_id),
        seq: None,
        what,
    })
}

fn in_the_log(what: String) -> Finding {
    Finding {
        conversation_id: None,
        seq: None,
        what,
    }
}
