//! The log of events for other systems: reads, and its small rows. How events get their places: see [`super::placing`].
//!
//! What is asked a few times a second is planned each time (`persistent(false)`): PostgreSQL would keep a plan that was made
//! on empty tables, and read all of them when they have grown.

use std::collections::HashMap;

use sqlx::QueryBuilder;

use super::rows::Columns;
use super::{Dialect, SqlStore, bounded};
use crate::domain::{
    ChangeLine, ChangeSeq, ChangeType, ConversationId, EventNo, Kind, MessageType, Notice, NoticeType, PlacedNotice,
    Principal, PrincipalType, SentLine, Seq, Timestamp,
};
use crate::storage::{EventCursor, Lag, LagPage, LogState, StoreError, StoreResult, Unplaced};

/// Conversations in one statement: SQLite bounds the parts of an OR.
const CONVERSATIONS_PER_STATEMENT: usize = 100;
/// The first window of seqs or numbers in which it is looked where a period began; the next ones are twice as wide.
const PERIOD_WINDOW: i64 = 64;

/// The columns that [`Found::of`] reads, of a conversation `c` with its cursor `e` and its newest change `g`.
macro_rules! lag_columns {
    () => {
        "c.conversation_id, c.kind, c.created_at, c.last_seq, c.last_change_seq, c.last_activity_at, e.seq, \
         e.change_seq, e.active_since, g.changed_at"
    };
}

macro_rules! lag_joins {
    () => {
        " LEFT JOIN im_event_cursor e ON e.conversation_id = c.conversation_id \
         LEFT JOIN im_change g ON g.conversation_id = c.conversation_id AND g.change_seq = c.last_change_seq"
    };
}

/// How the lines of a numbered log are read.
struct Lines {
    /// Up to the condition.
    select: &'static str,
    conversation: &'static str,
    number: &'static str,
}

/// Columns as `Columns::sent_line` reads them, after the conversation.
const MESSAGES: Lines = Lines {
    select: "SELECT m.conversation_id, m.seq, m.message_id, m.sender_type, m.message_type, m.sent_at
             FROM im_message m WHERE ",
    conversation: "m.conversation_id",
    number: "m.seq",
};

/// Columns as `Columns::change_line` reads them, after the conversation.
const CHANGES: Lines = Lines {
    select: "SELECT g.conversation_id, g.change_seq, g.change_type, g.message_id, m.seq, g.changed_at FROM im_change g
             LEFT JOIN im_message m ON m.message_id = g.message_id AND m.conversation_id = g.conversation_id WHERE ",
    conversation: "g.conversation_id",
    number: "g.change_seq",
};

/// A conversation, before it is known where its events begin.
struct Found {
    conversation_id: ConversationId,
    kind: Kind,
    created_at: Timestamp,
    head: (Seq, ChangeSeq),
    newest_at: (Timestamp, Timestamp),
    row: Option<EventCursor>,
}

/// `1:1001 2:7`: types and ids.
pub(super) fn recipients_text(recipients: &[Principal]) -> Option<String> {
    let one = |principal: &Principal| format!("{}:{}", principal.kind.code(), principal.id);
    let text: Vec<String> = recipients.iter().map(one).collect();
    (!text.is_empty()).then(|| text.join(" "))
}

/// The inverse of [`recipients_text`].
fn recipients(text: &str) -> Option<Vec<Principal>> {
    let one = |word: &str| {
        let (kind, id) = word.split_once(':')?;
        let kind = PrincipalType::from_code(kind.parse().ok()?)?;
        Some(Principal {
            kind,
            id: id.parse().ok()?,
        })
    };
    text.split_ascii_whitespace().map(one).collect()
}

sql_impl! {
impl Columns<'r> {
    /// `seq, change_seq, active_since`
    pub(super) fn maybe_event_cursor(&mut self) -> StoreResult<Option<EventCursor>> {
        let (seq, change_seq, since) = (self.maybe_big()?, self.maybe_big()?, self.maybe_big()?);
        Ok(seq.zip(change_seq).zip(since).map(|((seq, change_seq), since)| EventCursor {
            seq: Seq::new(seq),
            change_seq: ChangeSeq::new(change_seq),
            active_since: Timestamp::from_millis(since),
        }))
    }

    fn found(&mut self) -> StoreResult<Found> {
        let conversation_id = self.conversation_id()?;
        let kind = self.kind()?;
        let created_at = self.time()?;
        let head = (self.seq()?, ChangeSeq::new(self.big()?));
        let active_at = self.time()?;
        let row = self.maybe_event_cursor()?;
        let changed_at = Timestamp::from_millis(self.maybe_big()?.unwrap_or_default());
        Ok(Found { conversation_id, kind, created_at, head, newest_at: (active_at, changed_at), row })
    }

    /// `event_no, notice_type, conversation_id, seq, change_seq, message_id, recipients, placed_at`
    pub(super) fn placed_notice(&mut self) -> StoreResult<PlacedNotice> {
        let bad = |what: &str| StoreError::Inconsistent(format!("the {what} of an event cannot be read"));
        let event_no = EventNo::new(self.big()?);
        let notice = Notice {
            notice_type: NoticeType::from_code(self.small()?).ok_or_else(|| bad("type"))?,
            conversation_id: self.conversation_id()?,
            seq: self.maybe_big()?.map(Seq::new),
            change_seq: self.maybe_big()?.map(ChangeSeq::new),
            message_id: self.maybe_message_id()?,
            recipients: match self.maybe_text()? {
                Some(text) => recipients(&text).ok_or_else(|| bad("recipients"))?,
                None => Vec::new(),
            },
        };
        Ok(PlacedNotice { event_no, notice, placed_at: self.time()? })
    }

    fn sent_line(&mut self) -> StoreResult<SentLine> {
        Ok(SentLine {
            seq: self.seq()?,
            message_id: self.message_id()?,
            sender_type: self.principal_type()?,
            message_type: MessageType::parse(&self.text()?)
                .map_err(|_| StoreError::Inconsistent("message_type cannot be read".into()))?,
            sent_at: self.time()?,
        })
    }

    fn change_line(&mut self) -> StoreResult<ChangeLine> {
        Ok(ChangeLine {
            change_seq: ChangeSeq::new(self.big()?),
            change_type: ChangeType::parse(&self.text()?)
                .ok_or_else(|| StoreError::Inconsistent("change_type cannot be read".into()))?,
            message_id: self.maybe_message_id()?,
            message_seq: self.maybe_big()?.map(Seq::new),
            changed_at: self.time()?,
        })
    }
}
}

sql_impl! {
impl SqlStore {
    pub(super) async fn read_log_state(&self) -> StoreResult<LogState> {
        let query = sqlx::query(sql!("SELECT newest, active_since, feed_asked_at FROM im_event_log WHERE log_id = 1"));
        let row = bounded(query.fetch_one(&self.pool)).await?;
        let mut columns = Columns::<DB>::new(&row);
        let newest = EventNo::new(columns.big()?);
        let active_since = Some(columns.time()?).filter(|since| since.millis() > 0);
        Ok(LogState { newest, active_since, feed_asked_at: columns.time()? })
    }

    pub(super) async fn lags_of_ids(&self, ids: &[ConversationId], since: Timestamp) -> StoreResult<Vec<Lag>> {
        let mut lags = Vec::new();
        for ids in ids.chunks(CONVERSATIONS_PER_STATEMENT) {
            let mut builder = QueryBuilder::<DB>::new(concat!(
                "SELECT ", lag_columns!(), " FROM im_conversation c", lag_joins!(), " WHERE c.conversation_id IN ("
            ));
            let mut list = builder.separated(", ");
            for id in ids {
                list.push_bind(id.get());
            }
            builder.push(")");
            let rows = bounded(builder.build().persistent(false).fetch_all(&self.pool)).await?;
            for row in &rows {
                lags.extend(self.lag(Columns::<DB>::new(row).found()?, since).await?);
            }
        }
        Ok(lags)
    }

    pub(super) async fn lags_after(
        &self,
        after: Option<ConversationId>,
        limit: u32,
        since: Timestamp,
    ) -> StoreResult<LagPage> {
        let query = sqlx::query(sql!(concat!(
            "SELECT ", lag_columns!(), " FROM (SELECT * FROM im_conversation WHERE conversation_id > ?
             ORDER BY conversation_id LIMIT ?) c", lag_joins!(), " ORDER BY c.conversation_id"
        )));
        let query = query.bind(after.map_or(0, ConversationId::get)).bind(i64::from(limit));
        let rows = bounded(query.persistent(false).fetch_all(&self.pool)).await?;
        let mut page = LagPage::default();
        for row in &rows {
            let found = Columns::<DB>::new(row).found()?;
            page.last = Some(found.conversation_id);
            page.lags.extend(self.lag(found, since).await?);
        }
        if rows.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
            page.last = None;
        }
        Ok(page)
    }

    /// `None` = nothing of it needs an event.
    async fn lag(&self, found: Found, since: Timestamp) -> StoreResult<Option<Lag>> {
        let from = match found.row.filter(|row| row.active_since == since) {
            Some(row) => (row.seq, row.change_seq),
            None if found.created_at >= since => (Seq::ZERO, ChangeSeq::ZERO),
            None => (self.first_of_period(&found, since).await?, self.first_change_of_period(&found, since).await?),
        };
        let lags = from.0 < found.head.0 || from.1 < found.head.1;
        Ok(lags.then_some(Lag {
            conversation_id: found.conversation_id,
            kind: found.kind,
            row: found.row,
            from,
            head: found.head,
        }))
    }

    /// The newest message that was there before the period.
    async fn first_of_period(&self, found: &Found, since: Timestamp) -> StoreResult<Seq> {
        if found.newest_at.0 < since {
            return Ok(found.head.0);
        }
        let text = sql!(
            "SELECT MAX(seq) FROM im_message WHERE conversation_id = ? AND seq > ? AND seq <= ? AND sent_at < ?"
        );
        Ok(Seq::new(self.newest_before(text, found.conversation_id, found.head.0.get(), since).await?))
    }

    /// The newest change that was there before the period.
    async fn first_change_of_period(&self, found: &Found, since: Timestamp) -> StoreResult<ChangeSeq> {
        if found.newest_at.1 < since {
            return Ok(found.head.1);
        }
        let text = sql!(
            "SELECT MAX(change_seq) FROM im_change
             WHERE conversation_id = ? AND change_seq > ? AND change_seq <= ? AND changed_at < ?"
        );
        Ok(ChangeSeq::new(self.newest_before(text, found.conversation_id, found.head.1.get(), since).await?))
    }

    /// Walks down from the head, in windows that grow.
    async fn newest_before(
        &self,
        text: &'static str,
        id: ConversationId,
        head: i64,
        since: Timestamp,
    ) -> StoreResult<i64> {
        let (mut high, mut width) = (head, PERIOD_WINDOW);
        while high > 0 {
            let low = high.saturating_sub(width).max(0);
            let query = sqlx::query(text).bind(id.get()).bind(low).bind(high).bind(since.millis());
            let row = bounded(query.fetch_one(&self.pool)).await?;
            if let Some(number) = Columns::<DB>::new(&row).maybe_big()? {
                return Ok(number);
            }
            (high, width) = (low, width.saturating_mul(2));
        }
        Ok(0)
    }

    pub(super) async fn unplaced_of(&self, lags: &[Lag], limit: u32) -> StoreResult<Vec<Unplaced>> {
        let mut found: HashMap<ConversationId, Unplaced> = HashMap::new();
        for lags in lags.chunks(CONVERSATIONS_PER_STATEMENT) {
            let messages = lags.iter().map(|lag| (lag.conversation_id, lag.from.0.get(), lag.head.0.get()));
            for row in self.lines(&MESSAGES, messages, limit).await? {
                let mut columns = Columns::<DB>::new(&row);
                let id = columns.conversation_id()?;
                found.entry(id).or_default().messages.push(columns.sent_line()?);
            }
            let changes = lags.iter().map(|lag| (lag.conversation_id, lag.from.1.get(), lag.head.1.get()));
            for row in self.lines(&CHANGES, changes, limit).await? {
                let mut columns = Columns::<DB>::new(&row);
                let id = columns.conversation_id()?;
                found.entry(id).or_default().changes.push(columns.change_line()?);
            }
        }
        let mut own = |lag: &Lag| {
            let mut unplaced = found.remove(&lag.conversation_id).unwrap_or_default();
            unplaced.messages.sort_unstable_by_key(|line| line.seq);
            unplaced.changes.sort_unstable_by_key(|line| line.change_seq);
            unplaced
        };
        Ok(lags.iter().map(&mut own).collect())
    }

    /// Of each conversation the numbers above the first up to the second, at most `limit`; in no order.
    async fn lines(
        &self,
        lines: &Lines,
        ranges: impl Iterator<Item = (ConversationId, i64, i64)>,
        limit: u32,
    ) -> StoreResult<Vec<DB::Row>> {
        let mut builder = QueryBuilder::<DB>::new(lines.select);
        let mut is_first = true;
        for (conversation_id, from, to) in ranges.filter(|(_, from, to)| from < to) {
            builder.push(if is_first { "(" } else { " OR (" });
            builder.push(lines.conversation).push(" = ").push_bind(conversation_id.get());
            builder.push(" AND ").push(lines.number).push(" > ").push_bind(from);
            let to = to.min(from.saturating_add(i64::from(limit)));
            builder.push(" AND ").push(lines.number).push(" <= ").push_bind(to).push(")");
            is_first = false;
        }
        if is_first {
            return Ok(Vec::new());
        }
        bounded(builder.build().persistent(false).fetch_all(&self.pool)).await
    }

    pub(super) async fn read_events(&self, after: EventNo, limit: u32) -> StoreResult<Vec<PlacedNotice>> {
        let query = sqlx::query(sql!(
            "SELECT event_no, notice_type, conversation_id, seq, change_seq, message_id, recipients, placed_at
             FROM im_event WHERE event_no > ? ORDER BY event_no LIMIT ?"
        ));
        let rows = bounded(query.bind(after.get()).bind(i64::from(limit)).fetch_all(&self.pool)).await?;
        rows.iter().map(|row| Columns::<DB>::new(row).placed_notice()).collect()
    }
}
}
