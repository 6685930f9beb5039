//! A conversation from its beginning to its end, page by page.

use std::collections::{HashMap, HashSet, VecDeque};

use super::Export;
use super::line::{AboutLine, MemberLine, SaidLine, Who};
use crate::cli::import::{IMPORTER, MEMBERS_AT_ONCE};
use crate::domain::{
    ConversationId, ExternalId, HistoryVisibility, Kind, Member, Message, MessageId, MessageStatus, MessageType,
    Principal, PrincipalType, Seq,
};
use crate::storage::{MemberPosition, Store, StoreResult};

/// Messages that are in memory at once.
const PAGE: u32 = 200;
/// Names of principals that are remembered.
const NAMES_KEPT_MAX: usize = 10_000;

/// Why a message is left out.
#[derive(Clone, Copy)]
enum Why {
    Recalled,
    Deleted,
    /// It is still growing.
    Streaming,
    ByServer,
}

/// What was left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) recalled: u64,
    pub(super) deleted: u64,
    pub(super) streaming: u64,
    pub(super) by_server: u64,
    pub(super) inboxes: u64,
    pub(super) quotes: u64,
}

/// External ids that were looked up.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<Principal, Option<ExternalId>>);

/// The present members of a conversation, in order of joining, read as far as they are needed.
struct Members {
    conversation_id: ConversationId,
    page: VecDeque<Member>,
    after: Option<MemberPosition>,
    is_last: bool,
}

impl Export<'_> {
    /// Writes a conversation, unless it is an INBOX.
    pub(super) async fn conversation(&mut self, id: ConversationId) -> anyhow::Result<()> {
        let Some((header, _)) = self.store.access(id, Principal::SYSTEM).await? else {
            return Ok(());
        };
        if header.kind == Kind::Inbox {
            self.tally.left_out.inboxes += 1;
            return Ok(());
        }
        self.tally.conversations += 1;
        let mut members = Members::of(id);
        // Where members see what was said since they joined, they are listed where they did.
        let in_place = header.kind == Kind::Group && header.history_visibility == HistoryVisibility::Joined;
        let founders = in_place.then(|| Seq::ZERO.next().next());
        let first = members.next(self.store, founders).await?;
        let first = self.listed(first).await?;
        self.folder.line(&AboutLine::first(&header, first))?;
        self.list(&mut members, founders).await?;
        let mut after = Seq::ZERO;
        loop {
            let page = self.store.messages_after(id, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let quotable = self.quotable(&page).await?;
            for message in &page {
                if let Some(why) = left_out(message) {
                    self.tally.left_out.count(why);
                    continue;
                }
                if in_place {
                    self.list(&mut members, Some(message.seq)).await?;
                }
                self.say(message, &quotable).await?;
            }
        }
        self.list(&mut members, None).await
    }

    async fn say(&mut self, message: &Message, quotable: &HashSet<MessageId>) -> anyhow::Result<()> {
        let quoted = message.quoted_message_id.filter(|quoted| quotable.contains(quoted));
        if quoted != message.quoted_message_id {
            self.tally.left_out.quotes += 1;
        }
        let files = self.files(message).await?;
        let author = self.names.who(self.store, message.sender).await?;
        self.folder.line(&SaidLine::new(message, author, quoted, files)?)?;
        self.tally.messages += 1;
        Ok(())
    }

    /// Lists those who joined before a message, or all who are left.
    async fn list(&mut self, members: &mut Members, before: Option<Seq>) -> anyhow::Result<()> {
        loop {
            let part = members.next(self.store, before).await?;
            if part.is_empty() {
                return Ok(());
            }
            let part = self.listed(part).await?;
            self.folder.line(&AboutLine::more(members.conversation_id, part))?;
        }
    }

    async fn listed(&mut self, mut part: Vec<Member>) -> StoreResult<Vec<MemberLine>> {
        part.sort_unstable_by_key(|member| member.principal);
        let mut lines = Vec::with_capacity(part.len());
        for member in part {
            // The agent that makes the groups of an import is in each of them, and will be again.
            if !self.names.is_importer(self.store, member.principal).await? {
                let who = self.names.who(self.store, member.principal).await?;
                lines.push(MemberLine::new(who, member.role));
            }
        }
        Ok(lines)
    }

    /// Those of the quoted messages of a page that are in the export, too.
    async fn quotable(&self, page: &[Message]) -> StoreResult<HashSet<MessageId>> {
        let quoted: HashSet<MessageId> = page.iter().filter_map(|message| message.quoted_message_id).collect();
        let quoted: Vec<MessageId> = quoted.into_iter().collect();
        let found = match quoted.as_slice() {
            [] => Vec::new(),
            quoted => self.store.messages_of(quoted).await?,
        };
        let kept = found.iter().filter(|message| left_out(message).is_none());
        Ok(kept.map(|message| message.message_id).collect())
    }
}

/// Why a message is not written.
fn left_out(message: &Message) -> Option<Why> {
    match (message.status, &message.message_type) {
        (MessageStatus::Recalled, _) => Some(Why::Recalled),
        (MessageStatus::Deleted, _) => Some(Why::Deleted),
        (MessageStatus::Streaming, _) => Some(Why::Streaming),
        (_, MessageType::System | MessageType::Notification) => Some(Why::ByServer),
        (MessageStatus::Normal | MessageStatus::Edited, _) => None,
    }
}

impl LeftOut {
    fn count(&mut self, why: Why) {
        *match why {
            Why::Recalled => &mut self.recalled,
            Why::Deleted => &mut self.deleted,
            Why::Streaming => &mut self.streaming,
            Why::ByServer => &mut self.by_server,
        } += 1;
    }
}

impl Names {
    async fn external_id(&mut self, store: &dyn Store, principal: Principal) -> StoreResult<Option<&ExternalId>> {
        if !self.0.contains_key(&principal) {
            if self.0.len() == NAMES_KEPT_MAX {
                self.0.clear();
            }
            let profile = store.profile(principal).await?;
            self.0
                .insert(principal, profile.and_then(|profile| profile.external_id));
        }
        Ok(self.0.get(&principal).and_then(Option::as_ref))
    }

    async fn who(&mut self, store: &dyn Store, principal: Principal) -> StoreResult<Who> {
        Ok(Who::new(principal, self.external_id(store, principal).await?))
    }

    async fn is_importer(&mut self, store: &dyn Store, principal: Principal) -> StoreResult<bool> {
        let external_id = self.external_id(store, principal).await?;
        Ok(principal.kind == PrincipalType::Agent && external_id.is_some_and(|id| id.as_str() == IMPORTER))
    }
}

impl Members {
    const fn of(conversation_id: ConversationId) -> Self {
        Self {
            conversation_id,
            page: VecDeque::new(),
            after: None,
            is_last: false,
        }
    }

    /// The next ones, as many as one line lists; with `before` only those who joined before that message.
    async fn next(&mut self, store: &dyn Store, before: Option<Seq>) -> StoreResult<Vec<Member>> {
        let mut part = Vec::new();
        while part.len() < MEMBERS_AT_ONCE {
            if self.page.is_empty() && !self.is_last {
                let limit = u32::try_from(MEMBERS_AT_ONCE).unwrap_or(u32::MAX);
                let page = store.members(self.conversation_id, self.after, limit).await?;
                self.is_last = page.len() < MEMBERS_AT_ONCE;
                self.after = page.last().map(|last| MemberPosition {
                    joined_seq: last.joined_seq,
                    principal: last.principal,
                });
                self.page = page.into();
            }
            let is_before = |member: &mut Member| before.is_none_or(|before| member.joined_seq < before);
            match self.page.pop_front_if(is_before) {
                Some(member) => part.push(member),
                None => break,
            }
        }
        Ok(part)
    }
}
