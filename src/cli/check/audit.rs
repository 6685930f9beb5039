//! One conversation compared with itself: every rule that a store can break, in pages, with bounded memory.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;

use crate::domain::chain::{chain_hash, content_hash, genesis};
use crate::domain::{
    ChangeSeq, ConversationId, CountNo, Digest, FileId, Head, KeyRecord, Kind, Message, MessageId, MessageStatus,
    MessageType, Notification, PrincipalType, Seq, Status,
};
use crate::storage::{Ledger, MarkKind, Store, StoreResult, Stray};

/// Messages or changes that are in memory at once, per conversation.
const PAGE_ROWS: u32 = 500;
/// Findings of one conversation that are told; the first ones say what is wrong.
const FINDINGS_MAX: usize = 20;
/// How often a conversation is read again before a finding is believed.
const READS_MAX: usize = 3;
/// The latest messages, in which most quotes are found without a look-up.
const NEARBY_MAX: usize = 1_000;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    /// Where; `None` = in the log of events.
    pub(super) conversation_id: Option<ConversationId>,
    /// Which message, where it is about one.
    pub(super) seq: Option<Seq>,
    /// What is wrong, and the invariant that it breaks.
    pub(super) what: String,
}

impl Finding {
    /// Rows that stand on a message on which nothing may stand.
    pub(super) fn of(stray: &Stray) -> Self {
        let (rows, not) = match stray.kind {
            MarkKind::Reaction => ("reactions stand on", "never changed"),
            MarkKind::Pin => ("a pin stands on", "never changed"),
            MarkKind::Mention => ("mentions stand for", "never changed"),
            MarkKind::File => ("a file is kept for", "does not show it (INV-FILE-1)"),
        };
        let message = stray.message_id.map_or_else(String::new, |id| format!(" {id}"));
        Self {
            conversation_id: Some(stray.conversation_id),
            seq: stray.seq,
            what: format!("{rows} a message{message} that is not there, gone, or {not}"),
        }
    }
}

impl Finding {
    /// The row of a notification without the message that should tell it.
    pub(super) fn untold(row: &Notification) -> Self {
        Self {
            conversation_id: Some(row.inbox_id),
            seq: None,
            what: format!(
                "notification {} is told by no message of this inbox",
                row.notification_id
            ),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conversation_id {
            Some(id) => write!(f, "conversation {id}")?,
            None => write!(f, "the log of events")?,
        }
        if let Some(seq) = self.seq {
            write!(f, " seq {seq}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) conversations: u64,
    pub(super) messages: u64,
    pub(super) changes: u64,
    pub(super) members: u64,
    pub(super) quotes: u64,
    /// Messages on which reactions stand.
    pub(super) reacted: u64,
    /// Events in the log for other systems.
    pub(super) events: u64,
    /// Notifications, each beside its message.
    pub(super) notifications: u64,
    /// References of messages to files.
    pub(super) references: u64,
}

/// Reads one conversation and compares. On a live store a reading may see one thing before and the next after a
/// commit, so a finding counts only when every one of several readings has it.
pub(super) async fn conversation(store: &dyn Store, id: ConversationId) -> StoreResult<(Counts, Vec<Finding>)> {
    let mut counts = Counts::default();
    let mut believed: Option<BTreeSet<Finding>> = None;
    for _ in 0..READS_MAX {
        let Some(ledger) = store.ledger(id).await? else {
            return Ok((counts, Vec::new()));
        };
        let mut reading = Reading::new(store, &ledger);
        reading.messages().await?;
        reading.changes().await?;
        reading.members();
        reading.marks().await?;
        counts = reading.counts;
        let found: BTreeSet<Finding> = reading.findings.into_iter().collect();
        let both = match believed {
            Some(before) => before.intersection(&found).cloned().collect(),
            None => found,
        };
        if both.is_empty() {
            return Ok((counts, Vec::new()));
        }
        believed = Some(both);
    }
    let mut findings: Vec<Finding> = believed.unwrap_or_default().into_iter().collect();
    let more = findings.len().saturating_sub(FINDINGS_MAX);
    findings.truncate(FINDINGS_MAX);
    if more > 0 {
        findings.push(Finding {
            conversation_id: Some(id),
            seq: None,
            what: format!("and {more} more findings"),
        });
    }
    Ok((counts, findings))
}

/// One reading of one conversation, up to the head that was read first.
struct Reading<'a> {
    store: &'a dyn Store,
    ledger: &'a Ledger,
    id: ConversationId,
    head: Head,
    /// What the messages read so far come to.
    at: Head,
    /// The message before was there, so its chain hash can be trusted as a base.
    unbroken: bool,
    nearby: VecDeque<MessageId>,
    counts: Counts,
    findings: Vec<Finding>,
}

impl<'a> Reading<'a> {
    fn new(store: &'a dyn Store, ledger: &'a Ledger) -> Self {
        let id = ledger.header.conversation_id;
        Self {
            store,
            ledger,
            id,
            head: ledger.head,
            at: Head::empty(id, ledger.header.created_at),
            unbroken: true,
            nearby: VecDeque::new(),
            counts: Counts {
                conversations: 1,
                ..Counts::default()
            },
            findings: Vec::new(),
        }
    }

    fn find(&mut self, seq: Option<Seq>, what: impl Into<String>) {
        self.findings.push(Finding {
            conversation_id: Some(self.id),
            seq,
            what: what.into(),
        });
    }

    async fn messages(&mut self) -> StoreResult<()> {
        let mut after = Seq::ZERO;
        loop {
            let page = self.store.messages_after(self.id, after, PAGE_ROWS).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let known = page.partition_point(|message| message.seq <= self.head.last_seq);
            let (page, above) = page.split_at(known);
            for message in page {
                self.message(message).await?;
            }
            self.keys(page).await?;
            self.notifications(page).await?;
            self.files(page).await?;
            if !above.is_empty() {
                self.above_the_head().await?;
                break;
            }
        }
        self.totals();
        Ok(())
    }

    /// Messages above the head that was read first are new ones, unless the head has not moved since.
    async fn above_the_head(&mut self) -> StoreResult<()> {
        let now = self.store.ledger(self.id).await?;
        if now.is_some_and(|now| now.head.last_seq == self.head.last_seq) {
            let next = self.head.last_seq.next();
            self.find(Some(next), "stands above the head of the conversation (INV-SEQ-1)");
        }
        Ok(())
    }

    async fn message(&mut self, message: &Message) -> StoreResult<()> {
        let seq = message.seq;
        self.counts.messages += 1;
        let expected = self.at.last_seq.next();
        self.unbroken &= seq == expected;
        if seq != expected {
            self.find(
                Some(expected),
                format!("is missing; the next one there is {seq} (INV-SEQ-1)"),
            );
        }
        if message.conversation_id != self.id {
            self.find(
                Some(seq),
                format!("says that it is of conversation {}", message.conversation_id),
            );
        }
        self.counted(message, expected);
        self.hashes(message);
        self.quote(message).await?;
        if message.change_seq > self.head.last_change_seq {
            let what = format!("names change {}, which does not exist (INV-CHG-1)", message.change_seq);
            self.find(Some(seq), what);
        }
        self.at.last_seq = seq;
        self.at.last_activity_at = message.sent_at;
        if !matches!(message.status, MessageStatus::Recalled | MessageStatus::Deleted) {
            self.at.last_message_seq = seq;
        }
        Ok(())
    }

    fn counted(&mut self, message: &Message, expected: Seq) {
        let step = i64::from(message.sender.kind != PrincipalType::System);
        let count = CountNo::new(self.at.last_count_no.get() + step);
        // Behind a hole the count cannot be known.
        if message.seq == expected && message.count_no != count {
            let what = format!("has count_no {} instead of {count} (INV-UNREAD-1)", message.count_no);
            self.find(Some(message.seq), what);
        }
        self.at.last_count_no = message.count_no;
    }

    fn hashes(&mut self, message: &Message) {
        // Other words than at first are no finding where the status says so, and a notification is compared with its row.
        let is_text = message.status == MessageStatus::Normal && !self.is_notification(message);
        if is_text && content_hash(message.content.as_str()) != message.content_hash {
            self.find(Some(message.seq), "has other words than its content_hash says");
        }
        let base: Digest = if self.at.last_seq == Seq::ZERO {
            genesis(self.id)
        } else {
            self.at.chain_hash
        };
        if self.unbroken && chain_hash(&base, message) != message.chain_hash {
            self.find(
                Some(message.seq),
                "its chain_hash does not follow from the message before",
            );
        }
        self.at.chain_hash = message.chain_hash;
        self.unbroken = true;
    }

    async fn quote(&mut self, message: &Message) -> StoreResult<()> {
        if let Some(quoted) = message.quoted_message_id {
            self.counts.quotes += 1;
            if !self.nearby.contains(&quoted) {
                let found = self.store.message(quoted).await?;
                let good = found.is_some_and(|found| found.conversation_id == self.id && found.seq < message.seq);
                if !good {
                    let what = format!("quotes {quoted}, which is no earlier message of this conversation");
                    self.find(Some(message.seq), what);
                }
            }
        }
        self.nearby.push_back(message.message_id);
        if self.nearby.len() > NEARBY_MAX {
            self.nearby.pop_front();
        }
        Ok(())
    }

    /// Asks the store for each key of the page: it must know exactly this message by it.
    async fn keys(&mut self, page: &[Message]) -> StoreResult<()> {
        let keyed = page.iter().filter_map(|message| {
            let key = message.client_message_id.clone()?;
            Some(((message.sender, key), message))
        });
        let (asked, keyed): (Vec<_>, Vec<&Message>) = keyed.unzip();
        let mut by_key: HashMap<_, Vec<KeyRecord>> = HashMap::new();
        for (key, record) in self.store.keys(self.id, &asked).await? {
            by_key.entry(key).or_default().push(record);
        }
        for (key, message) in asked.iter().zip(keyed) {
            let records = by_key.get(key).map_or(&[][..], Vec::as_slice);
            let other = records.iter().find(|record| record.message_id != message.message_id);
            if let Some(other) = other {
                let what = format!("has the key of seq {} as well (INV-IDEM-1)", other.seq);
                self.find(Some(message.seq), what);
            } else if records.is_empty() {
                self.find(Some(message.seq), "is not found by its key (INV-IDEM-1)");
            }
        }
        Ok(())
    }

    fn is_notification(&self, message: &Message) -> bool {
        self.ledger.header.kind == Kind::Inbox && message.message_type == MessageType::Notification
    }

    /// A message of an INBOX says what the row of its notification says, and has the hash of what that was at first.
    async fn notifications(&mut self, page: &[Message]) -> StoreResult<()> {
        let told = page.iter().filter(|message| self.is_notification(message));
        let told: Vec<&Message> = told
            .filter(|message| message.status != MessageStatus::Deleted)
            .collect();
        if told.is_empty() {
            return Ok(());
        }
        let ids: Vec<MessageId> = told.iter().map(|message| message.message_id).collect();
        let rows = self.store.notifications_of(&ids).await?.into_iter();
        let rows: HashMap<MessageId, Notification> = rows.map(|row| (row.notification_id, row)).collect();
        for message in told {
            let Some(row) = rows.get(&message.message_id).filter(|row| row.inbox_id == self.id) else {
                self.find(Some(message.seq), "tells a notification that is not there");
                continue;
            };
            if row.content() != message.content {
                self.find(
                    Some(message.seq),
                    "says something else than the row of its notification",
                );
            }
            if content_hash(row.first_content().as_str()) != message.content_hash {
                self.find(
                    Some(message.seq),
                    "its notification is another than its content_hash says",
                );
            }
        }
        Ok(())
    }

    /// Each file that a message shows is kept for it. What other types of messages called a file before there were any is
    /// not: of those only files that are there count.
    async fn files(&mut self, page: &[Message]) -> StoreResult<()> {
        let shown = page.iter().flat_map(|message| {
            let files = message.content.files().into_iter();
            files.map(move |file| (message, file))
        });
        let shown: Vec<(&Message, FileId)> = shown.collect();
        let messages: Vec<MessageId> = shown.iter().map(|(message, _)| message.message_id).collect();
        let kept = self.store.references(&messages).await?;
        let missing = shown
            .into_iter()
            .filter(|(message, file)| !kept.contains(&(message.message_id, *file)));
        let missing: Vec<(&Message, FileId)> = missing.collect();
        let files: Vec<FileId> = missing.iter().map(|(_, file)| *file).collect();
        let there = self.store.files(&files).await?;
        for (message, file) in missing {
            let is_file = matches!(message.message_type, MessageType::Attachment(_));
            if is_file || there.iter().any(|known| known.file_id == file) {
                let what = format!("shows file {file}, which is not kept for it (INV-FILE-1)");
                self.find(Some(message.seq), what);
            }
        }
        Ok(())
    }

    fn totals(&mut self) {
        let (head, at) = (self.head, self.at);
        if at.last_seq != head.last_seq {
            let next = Some(at.last_seq.next());
            let what = format!("is missing; the head is {} (INV-SEQ-1)", head.last_seq);
            return self.find(next, what);
        }
        if at.last_count_no != head.last_count_no {
            let (is, must) = (head.last_count_no, at.last_count_no);
            self.find(
                None,
                format!("its last_count_no is {is} instead of {must} (INV-UNREAD-1)"),
            );
        }
        if at.last_message_seq != head.last_message_seq {
            let (is, must) = (head.last_message_seq, at.last_message_seq);
            self.find(None, format!("its last_message_seq is {is} instead of {must}"));
        }
        if at.last_activity_at != head.last_activity_at {
            self.find(None, "its last_activity_at is not the time of its last message");
        }
        if at.chain_hash != head.chain_hash {
            self.find(None, "its chain_hash is not that of its last message");
        }
    }

    async fn changes(&mut self) -> StoreResult<()> {
        let last = self.head.last_change_seq;
        let mut at = ChangeSeq::ZERO;
        while at < last {
            let page = self.store.changes_after(self.id, at, PAGE_ROWS).await?;
            let seqs: Vec<ChangeSeq> = page.iter().map(|change| change.change_seq).collect();
            if seqs.is_empty() {
                break;
            }
            for seq in seqs.into_iter().take_while(|seq| *seq <= last) {
                self.counts.changes += 1;
                if seq != at.next() {
                    self.find(
                        None,
                        format!(
                            "change {} is missing; the next one there is {seq} (INV-CHG-1)",
                            at.next()
                        ),
                    );
                }
                at = seq;
            }
            if page.last().is_some_and(|change| change.change_seq > last) {
                break;
            }
        }
        if at != last {
            self.find(
                None,
                format!("change {} is missing; the last one is {last} (INV-CHG-1)", at.next()),
            );
        }
        Ok(())
    }

    /// What others have put on messages stands on messages that are there.
    async fn marks(&mut self) -> StoreResult<()> {
        for stray in self.store.strays(self.id, PAGE_ROWS).await? {
            self.findings.push(Finding::of(&stray));
        }
        Ok(())
    }

    fn members(&mut self) {
        let ledger = self.ledger;
        self.counts.members = ledger.member_rows;
        if ledger.member_count != ledger.member_rows {
            let (is, must) = (ledger.member_count, ledger.member_rows);
            self.find(None, format!("its member_count is {is}, but {must} are in it"));
        }
        if ledger.highest_read_seq > self.head.last_seq {
            let (is, head) = (ledger.highest_read_seq, self.head.last_seq);
            self.find(
                None,
                format!("somebody has read up to {is}, beyond the head {head} (INV-READ-1)"),
            );
        }
        if ledger.highest_cleared_seq > self.head.last_seq {
            let (is, head) = (ledger.highest_cleared_seq, self.head.last_seq);
            self.find(
                None,
                format!("somebody has cleared up to {is}, beyond the head {head} (INV-VIS-1)"),
            );
        }
        if ledger.miscounted > 0 {
            let what = format!(
                "{} members have other counts at what they have read or cleared than the messages there (INV-UNREAD-1)",
                ledger.miscounted
            );
            self.find(None, what);
        }
        let header = &ledger.header;
        let owned = header.kind == Kind::Group && header.status == Status::Active && ledger.member_rows > 0;
        if owned && header.owner.is_none() {
            self.find(None, "is a group with members and without an owner");
        }
    }
}
