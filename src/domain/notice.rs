//! What other systems are told of: which messages and changes of a conversation are events for them, and in what order.

use super::annotated::Marked;
use super::change::{Change, ChangeType};
use super::content::MessageType;
use super::conversation::Kind;
use super::ids::{ChangeSeq, ConversationId, EventNo, MessageId, Principal, PrincipalType, Seq, Timestamp};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoticeType {
    /// A message has its number.
    MessageCreated,
    /// A message has other words.
    MessageEdited,
    /// A message was taken back.
    MessageRecalled,
    /// A message was removed for everyone.
    MessageDeleted,
    /// Principals became members.
    MemberAdded,
    /// Principals are members no longer.
    MemberRemoved,
    /// Somebody has a notification in their INBOX.
    NotificationCreated,
    /// Members have not acknowledged a message in time: tell them where no connection is needed.
    PushRequired,
}

impl NoticeType {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::MessageCreated,
        Self::MessageEdited,
        Self::MessageRecalled,
        Self::MessageDeleted,
        Self::MemberAdded,
        Self::MemberRemoved,
        Self::NotificationCreated,
        Self::PushRequired,
    ];

    /// The word of the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MessageCreated => "message.created",
            Self::MessageEdited => "message.edited",
            Self::MessageRecalled => "message.recalled",
            Self::MessageDeleted => "message.deleted",
            Self::MemberAdded => "member.added",
            Self::MemberRemoved => "member.removed",
            Self::NotificationCreated => "notification.created",
            Self::PushRequired => "push.required",
        }
    }

    /// The inverse of [`NoticeType::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The small number that stands for it at rest.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::MessageCreated => 1,
            Self::MessageEdited => 2,
            Self::MessageRecalled => 3,
            Self::MessageDeleted => 4,
            Self::MemberAdded => 5,
            Self::MemberRemoved => 6,
            Self::NotificationCreated => 7,
            Self::PushRequired => 8,
        }
    }

    /// The inverse of [`NoticeType::code`].
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// What a change is to other systems; most are nothing to them.
    #[must_use]
    pub const fn of_change(change: ChangeType) -> Option<Self> {
        match change {
            ChangeType::Edited => Some(Self::MessageEdited),
            ChangeType::Recalled => Some(Self::MessageRecalled),
            ChangeType::Deleted => Some(Self::MessageDeleted),
            ChangeType::MemberAdded => Some(Self::MemberAdded),
            ChangeType::MemberRemoved => Some(Self::MemberRemoved),
            _ => None,
        }
    }
}

/// An event for other systems: a reference. What is told of it is read when it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What kind.
    pub notice_type: NoticeType,
    /// Where.
    pub conversation_id: ConversationId,
    /// The message's place, where it is about a message that was sent.
    pub seq: Option<Seq>,
    /// The change, where it is about one.
    pub change_seq: Option<ChangeSeq>,
    /// The message that it is about.
    pub message_id: Option<MessageId>,
    /// Whom [`NoticeType::PushRequired`] is for; else nobody.
    pub recipients: Vec<Principal>,
}

/// An event with its place in the log of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedNotice {
    /// 1, 2, 3 … in the whole store; in commit order, so nothing ever appears below what is there.
    pub event_no: EventNo,
    /// What.
    pub notice: Notice,
    /// When it got its place.
    pub placed_at: Timestamp,
}

impl PlacedNotice {
    /// Its name for receivers, the same however often and by whatever way it is told. With its time, since a store that
    /// was restored from an older copy gives its places again.
    #[must_use]
    pub fn id(&self) -> String {
        format!("evt_{}_{:x}", self.event_no, self.placed_at.millis())
    }
}

/// An event with what it is about, as that is now: of a recalled message without its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentNotice {
    /// The event.
    pub placed: PlacedNotice,
    /// The message that it is about.
    pub message: Option<Marked>,
    /// The change that it is about.
    pub change: Option<Change>,
    /// Whose INBOX it is about.
    pub owner: Option<Principal>,
    /// Whom a push is for, each with the unread total.
    pub recipients: Vec<(Principal, u64)>,
}

/// What has to be known of a message to make an event of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentLine {
    /// Its place.
    pub seq: Seq,
    /// Its name.
    pub message_id: MessageId,
    /// Who speaks.
    pub sender_type: PrincipalType,
    /// What kind of message.
    pub message_type: MessageType,
    /// When.
    pub sent_at: Timestamp,
}

/// What has to be known of a change to make an event of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeLine {
    /// Its number.
    pub change_seq: ChangeSeq,
    /// What kind of change.
    pub change_type: ChangeType,
    /// The message that it is about.
    pub message_id: Option<MessageId>,
    /// The place of that message.
    pub message_seq: Option<Seq>,
    /// When.
    pub changed_at: Timestamp,
}

/// A piece of a conversation's log, as events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// In order.
    pub notices: Vec<Notice>,
    /// The messages up to here are among them.
    pub seq: Seq,
    /// The changes up to here are among them.
    pub change_seq: ChangeSeq,
    /// The first and the last message that members should not miss.
    pub push: Option<(Seq, Seq)>,
}

/// The next piece of a conversation's log: all of `messages` and `changes`, which follow on `from` without a hole, or as
/// much of them as can be told before more is read. `cut` = there are more messages than those.
///
/// Messages come in the order of their seqs, changes in that of their numbers, and no change before the message that it
/// is about; beyond that the times decide.
#[must_use]
pub fn told(
    conversation_id: ConversationId,
    kind: Kind,
    from: (Seq, ChangeSeq),
    (messages, cut): (&[SentLine], bool),
    changes: &[ChangeLine],
) -> Told {
    let mut told = Told {
        seq: from.0,
        change_seq: from.1,
        ..Told::default()
    };
    let (mut messages, mut changes) = (messages.iter().peekable(), changes.iter().peekable());
    loop {
        let sent_first = match (messages.peek(), changes.peek()) {
            (None, None) => break,
            (Some(_), None) => true,
            (None, Some(_)) if cut => break,
            (None, Some(change)) if change.message_seq > Some(told.seq) => break,
            (None, Some(_)) => false,
            (Some(message), Some(change)) => {
                message.sent_at <= change.changed_at || change.message_seq > Some(told.seq)
            }
        };
        if sent_first {
            if let Some(message) = messages.next() {
                told.take_message(conversation_id, kind, message);
            }
        } else if let Some(change) = changes.next() {
            told.take_change(conversation_id, change);
        }
    }
    told
}

impl Told {
    fn take_message(&mut self, conversation_id: ConversationId, kind: Kind, message: &SentLine) {
        let is_notification = kind == Kind::Inbox && message.message_type == MessageType::Notification;
        self.seq = message.seq;
        self.notices.push(Notice {
            notice_type: if is_notification {
                NoticeType::NotificationCreated
            } else {
                NoticeType::MessageCreated
            },
            conversation_id,
            seq: Some(message.seq),
            change_seq: None,
            message_id: Some(message.message_id),
            recipients: Vec::new(),
        });
        // What counts as unread, and what stands in an INBOX to be noticed.
        if is_notification || message.sender_type != PrincipalType::System {
            let first = self.push.map_or(message.seq, |(first, _)| first);
            self.push = Some((first, message.seq));
        }
    }

    fn take_change(&mut self, conversation_id: ConversationId, change: &ChangeLine) {
        self.change_seq = change.change_seq;
        if let Some(notice_type) = NoticeType::of_change(change.change_type) {
            self.notices.push(Notice {
                notice_type,
                conversation_id,
                seq: None,
                change_seq: Some(change.change_seq),
                message_id: change.message_id,
                recipients: Vec::new(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: ConversationId = ConversationId::new(7).unwrap();

    fn sent(seq: i64, at: i64) -> SentLine {
        SentLine {
            seq: Seq::new(seq),
            message_id: MessageId::new(100 + seq).unwrap(),
            sender_type: PrincipalType::User,
            message_type: MessageType::Text,
            sent_at: Timestamp::from_millis(at),
        }
    }

    fn changed(change_seq: i64, change_type: ChangeType, about: Option<i64>, at: i64) -> ChangeLine {
        ChangeLine {
            change_seq: ChangeSeq::new(change_seq),
            change_type,
            message_id: about.and_then(|seq| MessageId::new(100 + seq)),
            message_seq: about.map(Seq::new),
            changed_at: Timestamp::from_millis(at),
        }
    }

    fn words(told: &Told) -> Vec<String> {
        let word = |notice: &Notice| {
            let number = notice
                .seq
                .map_or_else(|| format!("c{}", notice.change_seq.unwrap()), |seq| format!("m{seq}"));
            format!("{} {number}", notice.notice_type.as_str())
        };
        told.notices.iter().map(word).collect()
    }

    fn of(messages: &[SentLine], changes: &[ChangeLine]) -> Told {
        told(
            ROOM,
            Kind::Group,
            (Seq::ZERO, ChangeSeq::ZERO),
            (messages, false),
            changes,
        )
    }

    #[test]
    fn every_type_is_known_by_its_word_and_by_its_number() {
        for kind in NoticeType::ALL {
            assert_eq!(NoticeType::parse(kind.as_str()), Some(kind));
            assert_eq!(NoticeType::from_code(kind.code()), Some(kind));
        }
        assert_eq!(NoticeType::parse("message.read"), None);
    }

    #[test]
    fn messages_and_changes_come_in_the_order_of_their_numbers_and_beyond_that_of_their_times() {
        let messages = [sent(1, 10), sent(2, 20), sent(3, 40)];
        let changes = [
            changed(1, ChangeType::Edited, Some(1), 30),
            changed(2, ChangeType::Recalled, Some(2), 50),
        ];
        let told = of(&messages, &changes);
        let expected = [
            "message.created m1",
            "message.created m2",
            "message.edited c1",
            "message.created m3",
            "message.recalled c2",
        ];
        assert_eq!(words(&told), expected);
        assert_eq!((told.seq.get(), told.change_seq.get()), (3, 2));
    }

    #[test]
    fn no_change_comes_before_its_message_also_when_the_clock_went_back() {
        let messages = [sent(1, 100), sent(2, 90)];
        let changes = [changed(1, ChangeType::Edited, Some(2), 50)];
        let expected = ["message.created m1", "message.created m2", "message.edited c1"];
        assert_eq!(words(&of(&messages, &changes)), expected);
    }

    #[test]
    fn a_change_whose_message_is_not_read_yet_waits_for_it() {
        let changes = [
            changed(1, ChangeType::Edited, Some(1), 10),
            changed(2, ChangeType::Edited, Some(3), 11),
            changed(3, ChangeType::Edited, Some(1), 12),
        ];
        let part = of(&[sent(1, 1)], &changes);
        assert_eq!(words(&part), ["message.created m1", "message.edited c1"]);
        assert_eq!((part.seq.get(), part.change_seq.get()), (1, 1));
        // More messages stand between: their changes come after them.
        let from = (Seq::ZERO, ChangeSeq::ZERO);
        let cut = told(ROOM, Kind::Group, from, (&[sent(1, 1)], true), &changes);
        assert_eq!(words(&cut), ["message.created m1"]);
    }

    #[test]
    fn what_is_nothing_to_other_systems_moves_the_cursor_all_the_same() {
        let changes = [
            changed(1, ChangeType::Reaction, Some(1), 2),
            changed(2, ChangeType::MemberUpdated, None, 3),
            changed(3, ChangeType::MemberAdded, None, 4),
        ];
        let told = of(&[sent(1, 1)], &changes);
        assert_eq!(words(&told), ["message.created m1", "member.added c3"]);
        assert_eq!(told.change_seq.get(), 3);
    }

    #[test]
    fn a_notification_is_told_as_one_and_what_the_server_says_needs_no_push() {
        let mut system = sent(1, 1);
        system.sender_type = PrincipalType::System;
        let notification = SentLine {
            message_type: MessageType::Notification,
            ..SentLine {
                seq: Seq::new(2),
                ..system.clone()
            }
        };
        let lines = [system, notification];
        let told = told(ROOM, Kind::Inbox, (Seq::ZERO, ChangeSeq::ZERO), (&lines, false), &[]);
        assert_eq!(words(&told), ["message.created m1", "notification.created m2"]);
        assert_eq!(told.push, Some((Seq::new(2), Seq::new(2))));
        assert_eq!(of(&lines, &[]).push, None);
        assert_eq!(
            of(&[sent(1, 1), sent(2, 1)], &[]).push,
            Some((Seq::new(1), Seq::new(2)))
        );
    }
}
