//! Saying something, and reading what was said.

use std::sync::Arc;

use super::ask::ask_keyed;
use super::conversations::Page;
use super::error::ServiceError;
use crate::clock::Clock;
use crate::conversation::{CommandError, ReplyTo, SessionReply};
use crate::domain::{
    Annotated, Change, Code, Command, ConversationId, DomainError, Header, Marked, Membership, Message, MessageId,
    MessageStatus, Origin, Outcome, Principal, Send, Seq, Touch, visibility,
};
use crate::routing::Bus;
use crate::storage::{ConversationStore, PageQuery, PinPosition, PinQuery, Store};

/// Which part of a conversation's history is asked for. The bounds are exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Where.
    pub conversation_id: ConversationId,
    /// Older than this.
    pub before_seq: Option<Seq>,
    /// Newer than this. When given, the oldest of the range are taken, else the newest.
    pub after_seq: Option<Seq>,
    /// At most so many; the door has cut it to its maximum.
    pub limit: u32,
}

/// A page of history, ascending by seq.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// What the viewer may see of the range.
    pub items: Vec<Marked>,
    /// There is more of the range on the far side.
    pub has_more: bool,
}

/// What a message has on the wire besides its content, at the most.
pub(super) const MESSAGE_OVERHEAD_BYTES: usize = 2_048;

impl HistoryPage {
    /// The page cut to about `bytes_max`, at least one message; what is cut off is on the far side (`oldest_first`: the
    /// newer end).
    #[must_use]
    pub fn within(mut self, bytes_max: usize, oldest_first: bool) -> Self {
        let size = |item: &Marked| item.message.content.as_str().len() + MESSAGE_OVERHEAD_BYTES;
        let mut bytes = 0_usize;
        let mut fits = |item: &Marked| {
            bytes += size(item);
            bytes <= bytes_max
        };
        let kept = if oldest_first {
            self.items.iter().take_while(|item| fits(item)).count()
        } else {
            self.items.iter().rev().take_while(|item| fits(item)).count()
        };
        let kept = kept.max(1);
        if kept < self.items.len() {
            self.has_more = true;
            if oldest_first {
                self.items.truncate(kept);
            } else {
                self.items.drain(..self.items.len() - kept);
            }
        }
        self
    }
}

/// What became of a send.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The message; of a repeat: the first one, as it is now.
    pub message: Marked,
    /// The key was used before.
    pub duplicate: bool,
}

/// What became of an act on a message.
#[derive(Clone, Debug)]
pub struct Touched {
    /// The message as it is now, with everything on it.
    pub message: Arc<Annotated>,
    /// The change that was made.
    pub change: Option<Arc<Change>>,
}

/// Use cases around messages.
pub struct Messages {
    pub(super) store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    recall_window_ms: i64,
}

impl Messages {
    /// Reads from `store`, writes through `bus`; a sender may recall for `recall_window_secs`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, bus: Arc<dyn Bus>, clock: Arc<dyn Clock>, recall_window_secs: u64) -> Self {
        let recall_window_ms = i64::try_from(recall_window_secs.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self {
            store,
            bus,
            clock,
            recall_window_ms,
        }
    }

    /// Sends, and waits until it is stored.
    ///
    /// # Errors
    /// As the writer says. `unavailable` = the outcome is unknown: ask again with the same key.
    pub async fn send(&self, conversation_id: ConversationId, send: Send) -> Result<Sent, ServiceError> {
        let sender = send.origin.principal;
        self.keyed(conversation_id, sender, Command::Send(send)).await
    }

    /// Sends in the name of another, by the admin key.
    ///
    /// # Errors
    /// As [`Messages::send`].
    pub async fn send_for(&self, conversation_id: ConversationId, send: Send) -> Result<Sent, ServiceError> {
        let sender = send.origin.principal;
        self.keyed(conversation_id, sender, Command::SendFor(send)).await
    }

    async fn keyed(
        &self,
        conversation_id: ConversationId,
        sender: Principal,
        command: Command,
    ) -> Result<Sent, ServiceError> {
        match ask_keyed(self.bus.as_ref(), conversation_id, command).await {
            Ok(Outcome::Sent(message)) => Ok(Sent {
                message: Marked::plain(Arc::unwrap_or_clone(message)),
                duplicate: false,
            }),
            Ok(Outcome::Duplicate(record)) => Ok(Sent {
                message: self.as_seen(sender, record.message_id).await?,
                duplicate: true,
            }),
            Ok(other) => Err(ServiceError::internal(&format!("a send led to {other:?}"))),
            Err(error) => Err(self.refusal(sender, error).await),
        }
    }

    /// Sends and does not wait: the answer travels to the session with the pushes of the same commit. Sends of one
    /// session get their seqs in the order of the calls.
    pub fn dispatch(&self, conversation_id: ConversationId, send: Send, reply: SessionReply) {
        self.bus
            .dispatch(conversation_id, Command::Send(send), ReplyTo::Session(reply));
    }

    /// What becomes of a message by an edit, a recall or a deletion, and the change; none where nothing had to change.
    ///
    /// # Errors
    /// As the writer says; `not_found` for a message that the caller may not see.
    pub async fn touch(&self, origin: Origin, message_id: MessageId, touch: Touch) -> Result<Touched, ServiceError> {
        let conversation_id = self.place_of(message_id).await?;
        let command = Command::Touch {
            origin,
            message_id,
            touch,
        };
        // Asked twice, each of them is the same act: the second changes nothing.
        match ask_keyed(self.bus.as_ref(), conversation_id, command).await {
            Ok(Outcome::Touched(message, change)) => Ok(Touched { message, change }),
            Ok(other) => Err(ServiceError::internal(&format!("an act on a message led to {other:?}"))),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Messages::touch`], but the answer travels to the session with the pushes of the same commit.
    pub fn dispatch_touch(
        &self,
        conversation_id: ConversationId,
        origin: Origin,
        message_id: MessageId,
        touch: Touch,
        reply: SessionReply,
    ) {
        let command = Command::Touch {
            origin,
            message_id,
            touch,
        };
        self.bus.dispatch(conversation_id, command, ReplyTo::Session(reply));
    }

    /// A recall that is received at this moment (B64).
    #[must_use]
    pub fn recall_now(&self) -> Touch {
        Touch::Recall {
            received_at: self.clock.now(),
            window_ms: self.recall_window_ms,
        }
    }

    /// The conversation of a message. Rights are judged there.
    ///
    /// # Errors
    /// `not_found`
    pub async fn place_of(&self, id: MessageId) -> Result<ConversationId, ServiceError> {
        let message = self.store.message(id).await?;
        let message = message.ok_or_else(|| ServiceError::new(Code::NotFound, "no such message"))?;
        Ok(message.conversation_id)
    }

    /// A writer's refusal with everything that it has to carry: `original` is the first message of a reused key, as `sender` sees it.
    pub async fn refusal(&self, sender: Principal, error: CommandError) -> ServiceError {
        let CommandError::Refused(DomainError::KeyReused { original }) = error else {
            return error.into();
        };
        match self.as_seen(sender, original).await {
            Ok(message) => {
                let mut refusal = ServiceError::from(error);
                refusal.extra.original = Some(Box::new(message));
                refusal
            }
            Err(unreadable) => unreadable,
        }
    }

    /// A message of the caller's own key, as it is now: shown also when it was deleted or its sender removed, since a
    /// repeat wins over every other answer. Not for anybody but its sender.
    pub(super) async fn as_seen(&self, sender: Principal, id: MessageId) -> Result<Marked, ServiceError> {
        let message = self.store.message(id).await?;
        let message =
            message.ok_or_else(|| ServiceError::internal(&format!("message {id} has a key but is not stored")))?;
        self.marked(sender, message).await
    }

    async fn marked(&self, viewer: Principal, message: Message) -> Result<Marked, ServiceError> {
        let marked = self.store.marked(viewer, vec![message]).await?;
        let found = marked.into_iter().next();
        found.ok_or_else(|| ServiceError::internal(&"a message was lost while its marks were read"))
    }

    /// A page of what `viewer` may see.
    ///
    /// # Errors
    /// `not_found`, `not_a_member`.
    pub async fn history(&self, viewer: Principal, query: HistoryQuery) -> Result<HistoryPage, ServiceError> {
        let (header, member) = member_access(self.store.as_ref(), query.conversation_id, viewer).await?;
        let below_first = Seq::new(visibility::first_visible(&header, &member).get().saturating_sub(1));
        let oldest_first = query.after_seq.is_some();
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let page = PageQuery {
            conversation_id: query.conversation_id,
            viewer,
            after: query.after_seq.unwrap_or_default().max(below_first),
            before: query.before_seq,
            oldest_first,
            limit: query.limit.saturating_add(1), // one more tells whether there is more
        };
        let mut items = self.store.page(page).await?;
        let has_more = items.len() > limit;
        if has_more && oldest_first {
            items.truncate(limit);
        } else if has_more {
            items.drain(..items.len() - limit);
        }
        Ok(HistoryPage { items, has_more })
    }

    /// The pinned messages that `viewer` may see, the newest pin first.
    ///
    /// # Errors
    /// `not_found`, `not_a_member`.
    pub async fn pins(
        &self,
        viewer: Principal,
        conversation_id: ConversationId,
        after: Option<PinPosition>,
        limit: u32,
    ) -> Result<Page<Marked, PinPosition>, ServiceError> {
        let (header, member) = member_access(self.store.as_ref(), conversation_id, viewer).await?;
        let query = PinQuery {
            conversation_id,
            viewer,
            first: visibility::first_visible(&header, &member),
            after,
            limit: limit.saturating_add(1), // one more tells whether there is more
        };
        let found = Page::cut(self.store.pins(query).await?, limit, |(last, _)| *last);
        Ok(Page {
            items: found.items.into_iter().map(|(_, item)| item).collect(),
            next: found.next,
        })
    }

    /// One message.
    ///
    /// # Errors
    /// `not_found` for everything that `viewer` may not see, whatever the reason.
    pub async fn get(&self, viewer: Principal, id: MessageId) -> Result<Marked, ServiceError> {
        let message = self.visible(viewer, id).await?;
        let message = message.ok_or_else(|| ServiceError::new(Code::NotFound, "no such message"))?;
        self.marked(viewer, message).await
    }

    async fn visible(&self, viewer: Principal, id: MessageId) -> Result<Option<Message>, ServiceError> {
        let Some(message) = self.store.message(id).await? else {
            return Ok(None);
        };
        let Some((header, Some(member))) = self.store.access(message.conversation_id, viewer).await? else {
            return Ok(None);
        };
        let seen = message.status != MessageStatus::Deleted
            && message.seq >= visibility::first_visible(&header, &member)
            && !self.store.hidden(id, viewer).await?;
        Ok(seen.then_some(message))
    }
}

/// The header and the viewer's membership, or why the viewer may not read here.
pub(super) async fn member_access(
    store: &dyn ConversationStore,
    id: ConversationId,
    viewer: Principal,
) -> Result<(Header, Membership), ServiceError> {
    let (header, member) = store
        .access(id, viewer)
        .await?
        .ok_or(DomainError::ConversationNotFound)?;
    Ok((header, member.ok_or(DomainError::NotAMember)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ChangeSeq, Content, CountNo, MessageType, Timestamp, chain};

    fn page(sizes: &[usize]) -> HistoryPage {
        let conversation_id = ConversationId::new(7).unwrap();
        let message = |(at, size): (usize, &usize)| {
            Marked::plain(Message {
                message_id: MessageId::new(1).unwrap(),
                conversation_id,
                seq: Seq::new(i64::try_from(at).unwrap() + 1),
                sender: Principal::user(1),
                client_message_id: None,
                message_type: MessageType::Text,
                content: Content::trusted(&"x".repeat(*size)),
                quoted_message_id: None,
                status: MessageStatus::Normal,
                sent_at: Timestamp::default(),
                edited_at: None,
                change_seq: ChangeSeq::ZERO,
                count_no: CountNo::ZERO,
                content_hash: chain::content_hash(""),
                chain_hash: chain::genesis(conversation_id),
            })
        };
        let items = sizes.iter().enumerate().map(message).collect();
        HistoryPage { items, has_more: false }
    }

    #[test]
    fn a_page_is_cut_on_its_far_side_and_never_to_nothing() {
        let kept = |page: HistoryPage| {
            let seqs: Vec<i64> = page.items.iter().map(|item| item.message.seq.get()).collect();
            (seqs, page.has_more)
        };
        let max = 2 * (1_000 + MESSAGE_OVERHEAD_BYTES);
        assert_eq!(kept(page(&[1_000; 2]).within(max, true)), (vec![1, 2], false));
        assert_eq!(kept(page(&[1_000; 3]).within(max, true)), (vec![1, 2], true));
        assert_eq!(kept(page(&[1_000; 3]).within(max, false)), (vec![2, 3], true));
        assert_eq!(kept(page(&[1_000; 3]).within(1, false)), (vec![3], true));
        assert_eq!(kept(page(&[]).within(1, true)), (vec![], false));
    }
}
