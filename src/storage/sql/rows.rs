//! From rows to the domain. Columns are read by position, in the order of the column lists below.

use std::sync::Arc;

use sqlx::Row as _;

use super::Dialect;
use crate::domain::{
    Adding, Change, ChangeSeq, ChangeType, ClientMessageId, Content, ConversationId, CountNo, Digest, Emoji,
    ExternalId, Head, Header, HistoryVisibility, Kind, Member, Membership, Message, MessageId, MessageStatus,
    MessageType, Posting, Principal, PrincipalStatus, PrincipalType, Profile, Role, Seq, Status, Timestamp,
};
use crate::storage::{StoreError, StoreResult};

/// The columns of a conversation `c` that [`Columns::header`] and then [`Columns::head`] read.
macro_rules! conversation_columns {
    () => {
        "c.conversation_id, c.kind, c.title, c.avatar_url, c.owner_type, c.owner_id, c.history_visibility, \
         c.posting, c.adding, c.status, c.created_at, c.updated_at, \
         c.last_seq, c.last_change_seq, c.last_count_no, c.chain_hash, c.last_message_seq, c.last_activity_at"
    };
}

/// The columns of a member `r` that [`Columns::member`] reads.
macro_rules! member_columns {
    () => {
        "r.principal_type, r.principal_id, r.role, r.joined_seq, r.joined_at"
    };
}

/// The columns of a member `r` that [`Columns::membership`] reads.
macro_rules! membership_columns {
    () => {
        "r.principal_type, r.principal_id, r.role, r.joined_seq, r.joined_at, r.last_read_seq, r.last_read_count_no, \
         r.cleared_seq, r.cleared_count_no, r.marked_unread, r.muted, r.pinned"
    };
}

/// What the member `r` has not read of `c`: by subtraction, so that it costs the same whatever the history is (sending
/// moves the sender's position, so nothing above it is one's own).
macro_rules! unread_column {
    () => {
        concat!(
            "c.last_count_no - CASE WHEN r.cleared_seq > r.last_read_seq THEN r.cleared_count_no \
             ELSE r.last_read_count_no END - (SELECT COUNT(*) FROM im_gone g \
             WHERE g.conversation_id = c.conversation_id AND g.seq > ",
            unread_floor!(),
            ") \
             - (SELECT COUNT(*) FROM im_user_action a JOIN im_message d ON d.message_id = a.message_id \
             WHERE a.principal_type = r.principal_type AND a.principal_id = r.principal_id \
             AND a.conversation_id = r.conversation_id AND a.seq > ",
            unread_floor!(),
            " AND ",
            deletion_counts!(),
            ")"
        )
    };
}

/// Up to here the member `r` has nothing unread.
macro_rules! unread_floor {
    () => {
        "CASE WHEN r.cleared_seq > r.last_read_seq THEN r.cleared_seq ELSE r.last_read_seq END"
    };
}

/// The action `a` takes the message `d` off one's unread ones, and nothing else has done so.
macro_rules! deletion_counts {
    () => {
        "a.action_type = 1 AND a.status = 1 AND d.sender_type <> 3 AND d.status NOT IN (3, 4)"
    };
}

/// How many of the unread messages of `c` mention the member `r`, or everybody (0, 0). Two look-ups by key: one with OR
/// would read every mention of the conversation on some databases.
macro_rules! mention_column {
    () => {
        concat!(
            "(SELECT COUNT(*) FROM im_mention n WHERE n.conversation_id = r.conversation_id \
             AND n.principal_type = r.principal_type AND n.principal_id = r.principal_id AND n.seq > ",
            unread_floor!(), mention_shown!(), ") + (SELECT COUNT(*) FROM im_mention n \
             WHERE n.conversation_id = r.conversation_id AND n.principal_type = 0 AND n.principal_id = 0 AND n.seq > ",
            unread_floor!(), mention_shown!(), ")"
        )
    };
}

/// The member `r` has not deleted the message with the mention `n` for themselves.
macro_rules! mention_shown {
    () => {
        " AND NOT EXISTS (SELECT 1 FROM im_user_action a WHERE a.principal_type = r.principal_type \
         AND a.principal_id = r.principal_id AND a.conversation_id = r.conversation_id AND a.seq = n.seq \
         AND a.action_type = 1 AND a.status = 1)"
    };
}

/// 1 when the member `r` has deleted the message `m` for themselves.
macro_rules! hidden_column {
    () => {
        "(SELECT COUNT(*) FROM im_user_action a WHERE a.principal_type = r.principal_type \
         AND a.principal_id = r.principal_id AND a.action_type = 1 AND a.message_id = m.message_id AND a.status = 1)"
    };
}

/// The columns of a conversation `c`, its member `r` and its newest message `m` that `conversations::seen_from` reads.
macro_rules! seen_columns {
    () => {
        concat!(
            conversation_columns!(),
            ", c.member_count, ",
            membership_columns!(),
            ", ",
            unread_column!(),
            ", ",
            mention_column!(),
            ", ",
            hidden_column!(),
            ", ",
            message_columns!()
        )
    };
}

/// The columns of a message `m` that [`Columns::message`] reads.
macro_rules! message_columns {
    () => {
        "m.message_id, m.conversation_id, m.seq, m.sender_type, m.sender_id, m.client_message_id, m.message_type, \
         m.content, m.quoted_message_id, m.status, m.sent_at, m.edited_at, m.change_seq, m.count_no, \
         m.content_hash, m.chain_hash"
    };
}

/// Reads the columns of a row from left to right.
pub(super) struct Columns<'r, DB: Dialect> {
    row: &'r DB::Row,
    next: usize,
}

impl<'r, DB: Dialect> Columns<'r, DB> {
    pub(super) fn new(row: &'r DB::Row) -> Self {
        Self { row, next: 0 }
    }
}

fn bad(what: &str) -> StoreError {
    StoreError::Inconsistent(format!("{what} cannot be read"))
}

fn text_of(bytes: Vec<u8>, what: &str) -> StoreResult<String> {
    String::from_utf8(bytes).map_err(|_| bad(what))
}

sql_impl! {
impl Columns<'r> {
    fn get<T>(&mut self) -> StoreResult<T>
    where
        T: sqlx::Decode<'r, DB> + sqlx::Type<DB>,
    {
        let index = self.next;
        self.next += 1;
        self.row.try_get(index).map_err(|error| super::store_error(&error))
    }

    /// Passes over columns that belong to something absent.
    pub(super) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    pub(super) fn big(&mut self) -> StoreResult<i64> {
        self.get()
    }

    pub(super) fn maybe_big(&mut self) -> StoreResult<Option<i64>> {
        self.get()
    }

    pub(super) fn small(&mut self) -> StoreResult<i16> {
        self.get()
    }

    pub(super) fn maybe_small(&mut self) -> StoreResult<Option<i16>> {
        self.get()
    }

    pub(super) fn flag(&mut self) -> StoreResult<bool> {
        self.get()
    }

    /// A number of things; what is missing or below 0 is 0.
    pub(super) fn count(&mut self) -> StoreResult<u64> {
        Ok(self.maybe_big()?.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
    }

    /// A length; 0 where there is nothing. PostgreSQL counts it in 32 bits: add `0 * ` a big column, and it has 64.
    pub(super) fn bytes(&mut self) -> StoreResult<usize> {
        Ok(self.maybe_big()?.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default())
    }

    pub(super) fn text(&mut self) -> StoreResult<String> {
        self.get()
    }

    pub(super) fn maybe_text(&mut self) -> StoreResult<Option<String>> {
        self.get()
    }

    /// `external_id, display_name, avatar_url, status`
    pub(super) fn profile(&mut self, principal: Principal) -> StoreResult<Profile> {
        let external_id = self.get::<Option<Vec<u8>>>()?.map(|bytes| text_of(bytes, "an external_id")).transpose()?;
        let external_id = external_id.map(|text| ExternalId::parse(&text).map_err(|_| bad("an external_id")));
        Ok(Profile {
            principal,
            external_id: external_id.transpose()?,
            display_name: self.maybe_text()?,
            avatar_url: self.maybe_text()?,
            status: PrincipalStatus::from_code(self.small()?).ok_or_else(|| bad("the status of a principal"))?,
        })
    }

    pub(super) fn key(&mut self) -> StoreResult<String> {
        text_of(self.get()?, "a key")
    }

    pub(super) fn maybe_key(&mut self) -> StoreResult<Option<String>> {
        self.get::<Option<Vec<u8>>>()?.map(|bytes| text_of(bytes, "a key")).transpose()
    }

    pub(super) fn time(&mut self) -> StoreResult<Timestamp> {
        Ok(Timestamp::from_millis(self.get()?))
    }

    pub(super) fn seq(&mut self) -> StoreResult<Seq> {
        Ok(Seq::new(self.get()?))
    }

    pub(super) fn digest(&mut self) -> StoreResult<Digest> {
        let bytes: Vec<u8> = self.get()?;
        Digest::from_slice(&bytes).ok_or_else(|| bad("a hash"))
    }

    pub(super) fn maybe_digest(&mut self) -> StoreResult<Option<Digest>> {
        let bytes: Option<Vec<u8>> = self.get()?;
        bytes.map(|bytes| Digest::from_slice(&bytes).ok_or_else(|| bad("a hash"))).transpose()
    }

    fn code<T>(&mut self, from_code: fn(i16) -> Option<T>, what: &str) -> StoreResult<T> {
        from_code(self.small()?).ok_or_else(|| bad(what))
    }

    pub(super) fn conversation_id(&mut self) -> StoreResult<ConversationId> {
        ConversationId::new(self.get()?).ok_or_else(|| bad("a conversation_id"))
    }

    pub(super) fn message_id(&mut self) -> StoreResult<MessageId> {
        MessageId::new(self.get()?).ok_or_else(|| bad("a message_id"))
    }

    pub(super) fn maybe_message_id(&mut self) -> StoreResult<Option<MessageId>> {
        let id: Option<i64> = self.get()?;
        id.map(|id| MessageId::new(id).ok_or_else(|| bad("a message_id"))).transpose()
    }

    pub(super) fn principal(&mut self) -> StoreResult<Principal> {
        let kind = self.principal_type()?;
        Ok(Principal { kind, id: self.get()? })
    }

    pub(super) fn principal_type(&mut self) -> StoreResult<PrincipalType> {
        self.code(PrincipalType::from_code, "a principal_type")
    }

    pub(super) fn kind(&mut self) -> StoreResult<Kind> {
        self.code(Kind::from_code, "kind")
    }

    pub(super) fn header(&mut self) -> StoreResult<Header> {
        Ok(Header {
            conversation_id: self.conversation_id()?,
            kind: self.kind()?,
            title: self.get()?,
            avatar_url: self.get()?,
            owner: match (self.maybe_small()?, self.maybe_big()?) {
                (Some(kind), Some(id)) => Some(Principal {
                    kind: PrincipalType::from_code(kind).ok_or_else(|| bad("owner_type"))?,
                    id,
                }),
                _ => None,
            },
            history_visibility: self.code(HistoryVisibility::from_code, "history_visibility")?,
            posting: self.code(Posting::from_code, "posting")?,
            adding: self.code(Adding::from_code, "adding")?,
            status: self.code(Status::from_code, "status")?,
            created_at: self.time()?,
            updated_at: self.time()?,
        })
    }

    pub(super) fn head(&mut self) -> StoreResult<Head> {
        Ok(Head {
            last_seq: self.seq()?,
            last_change_seq: ChangeSeq::new(self.get()?),
            last_count_no: CountNo::new(self.get()?),
            chain_hash: self.digest()?,
            last_message_seq: self.seq()?,
            last_activity_at: self.time()?,
        })
    }

    pub(super) fn member(&mut self) -> StoreResult<Member> {
        Ok(Member {
            principal: self.principal()?,
            role: self.code(Role::from_code, "role")?,
            joined_seq: self.seq()?,
            joined_at: self.time()?,
        })
    }

    /// `None` where the outer join found no member.
    pub(super) fn maybe_member(&mut self) -> StoreResult<Option<Member>> {
        let kind: Option<i16> = self.row.try_get(self.next).map_err(|error| super::store_error(&error))?;
        if kind.is_none() {
            self.skip(5);
            return Ok(None);
        }
        self.member().map(Some)
    }

    /// `None` where the outer join found no member.
    pub(super) fn maybe_membership(&mut self) -> StoreResult<Option<Membership>> {
        let Some(member) = self.maybe_member()? else {
            self.skip(7);
            return Ok(None);
        };
        Ok(Some(Membership {
            member,
            last_read_seq: self.seq()?,
            last_read_count_no: CountNo::new(self.get()?),
            cleared_seq: self.seq()?,
            cleared_count_no: CountNo::new(self.get()?),
            marked_unread: self.get()?,
            muted: self.get()?,
            pinned: self.get()?,
        }))
    }

    pub(super) fn status(&mut self) -> StoreResult<MessageStatus> {
        self.code(MessageStatus::from_code, "status")
    }

    pub(super) fn message(&mut self) -> StoreResult<Message> {
        Ok(Message {
            message_id: self.message_id()?,
            conversation_id: self.conversation_id()?,
            seq: self.seq()?,
            sender: self.principal()?,
            client_message_id: self.maybe_client_message_id()?,
            message_type: MessageType::parse(&self.text()?).map_err(|_| bad("message_type"))?,
            content: Content::trusted(&self.text()?),
            quoted_message_id: self.maybe_message_id()?,
            status: self.status()?,
            sent_at: self.time()?,
            edited_at: self.maybe_big()?.map(Timestamp::from_millis),
            change_seq: ChangeSeq::new(self.get()?),
            count_no: CountNo::new(self.get()?),
            content_hash: self.digest()?,
            chain_hash: self.digest()?,
        })
    }

    /// `None` where the outer join found no message.
    pub(super) fn maybe_message(&mut self) -> StoreResult<Option<Message>> {
        let id: Option<i64> = self.row.try_get(self.next).map_err(|error| super::store_error(&error))?;
        if id.is_some() { self.message().map(Some) } else { Ok(None) }
    }

    fn maybe_client_message_id(&mut self) -> StoreResult<Option<ClientMessageId>> {
        let bytes: Option<Vec<u8>> = self.get()?;
        bytes
            .map(|bytes| {
                let text = text_of(bytes, "client_message_id")?;
                ClientMessageId::parse(&text).map_err(|_| bad("client_message_id"))
            })
            .transpose()
    }

    /// `None` where the outer join found no reaction; its other columns are to be skipped then.
    pub(super) fn maybe_emoji(&mut self) -> StoreResult<Option<Emoji>> {
        let bytes: Option<Vec<u8>> = self.get()?;
        bytes.map(|bytes| Emoji::parse(&text_of(bytes, "an emoji")?).map_err(|_| bad("an emoji"))).transpose()
    }

    pub(super) fn change(&mut self) -> StoreResult<Change> {
        Ok(Change {
            conversation_id: self.conversation_id()?,
            change_seq: ChangeSeq::new(self.get()?),
            change_type: ChangeType::parse(&self.text()?).ok_or_else(|| bad("change_type"))?,
            message_id: self.maybe_message_id()?,
            payload: self.maybe_text()?.map(|payload| Content::trusted(&payload)),
            actor: self.principal()?,
            changed_at: self.time()?,
        })
    }

    pub(super) fn shared_header(&mut self) -> StoreResult<Arc<Header>> {
        self.header().map(Arc::new)
    }
}
}
