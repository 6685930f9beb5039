//! A message with what others have put on it: reactions and the pin. They are of the standing message only: a recall or
//! a deletion for everyone takes them away with the words.

use std::sync::Arc;

use super::ids::{Emoji, Principal, Timestamp};
use super::message::Message;

/// The most different emojis on one message.
pub const EMOJIS_MAX: usize = 50;
/// The most reactions on one message, all emojis together: the writer holds every one of them while it decides.
pub const REACTIONS_MAX: usize = 2_000;
/// The most pinned messages of one conversation.
pub const PINS_MAX: usize = 100;

/// A message and everything on it, as the conversation's writer handles it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotated {
    /// The message as it is.
    pub message: Arc<Message>,
    /// By the time of the first of each, then by emoji.
    pub reactions: Vec<Reaction>,
    /// Pinned in its conversation.
    pub pinned: bool,
}

/// An emoji on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaction {
    /// Compared byte for byte.
    pub emoji: Emoji,
    /// Who gave it, by time, each once; never empty.
    pub by: Vec<Reactor>,
}

/// Who gave a reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reactor {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub principal: Principal,
}

/// What is on a message, as one viewer sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// By the time of the first of each, then by emoji.
    pub reactions: Vec<Tally>,
    /// Pinned in its conversation.
    pub pinned: bool,
}

/// How often an emoji was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Compared byte for byte.
    pub emoji: Emoji,
    /// By how many; never 0.
    pub count: u64,
    /// The viewer is among them.
    pub me: bool,
}

/// A message as one viewer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The message as it is.
    pub message: Message,
    /// What is on it.
    pub marks: Marks,
}

impl Marked {
    /// A message on which nobody has put anything.
    #[must_use]
    pub fn plain(message: Message) -> Self {
        let marks = Marks::default();
        Self { message, marks }
    }
}

impl Annotated {
    /// A message on which nobody has put anything.
    #[must_use]
    pub const fn plain(message: Arc<Message>) -> Self {
        Self {
            message,
            reactions: Vec::new(),
            pinned: false,
        }
    }

    /// From what is stored, in any order.
    #[must_use]
    pub fn new(message: Arc<Message>, given: impl IntoIterator<Item = (Emoji, Reactor)>, pinned: bool) -> Self {
        let mut annotated = Self {
            pinned,
            ..Self::plain(message)
        };
        for (emoji, reactor) in given {
            annotated.give(&emoji, reactor);
        }
        annotated.sort();
        annotated
    }

    /// Adds a reaction; `false` = this principal has given it already.
    pub fn react(&mut self, emoji: &Emoji, reactor: Reactor) -> bool {
        if self.has_reacted(emoji, reactor.principal) {
            return false;
        }
        self.give(emoji, reactor);
        self.sort();
        true
    }

    /// Takes a reaction away; `false` = this principal has not given it.
    pub fn unreact(&mut self, emoji: &Emoji, principal: Principal) -> bool {
        if !self.has_reacted(emoji, principal) {
            return false;
        }
        if let Some(reaction) = self.reactions.iter_mut().find(|reaction| reaction.emoji == *emoji) {
            reaction.by.retain(|reactor| reactor.principal != principal);
        }
        self.reactions.retain(|reaction| !reaction.by.is_empty());
        self.sort();
        true
    }

    /// All reactions of all emojis.
    #[must_use]
    pub fn reactions_len(&self) -> usize {
        self.reactions.iter().map(|reaction| reaction.by.len()).sum()
    }

    /// As `viewer` sees it.
    #[must_use]
    pub fn marks_for(&self, viewer: Principal) -> Marks {
        self.marks(|reaction| reaction.is_by(viewer))
    }

    /// As those see it who gave none of the reactions.
    #[must_use]
    pub fn marks_for_others(&self) -> Marks {
        self.marks(|_| false)
    }

    /// As those see it who gave exactly these reactions.
    fn marks(&self, mine: impl Fn(&Reaction) -> bool) -> Marks {
        let tally = |reaction: &Reaction| Tally {
            emoji: reaction.emoji.clone(),
            count: u64::try_from(reaction.by.len()).unwrap_or(u64::MAX),
            me: mine(reaction),
        };
        Marks {
            reactions: self.reactions.iter().map(tally).collect(),
            pinned: self.pinned,
        }
    }

    /// Has this principal given this reaction?
    #[must_use]
    pub fn has_reacted(&self, emoji: &Emoji, principal: Principal) -> bool {
        let reaction = self.reactions.iter().find(|reaction| reaction.emoji == *emoji);
        reaction.is_some_and(|reaction| reaction.is_by(principal))
    }

    fn give(&mut self, emoji: &Emoji, reactor: Reactor) {
        match self.reactions.iter_mut().find(|reaction| reaction.emoji == *emoji) {
            Some(reaction) => reaction.by.push(reactor),
            None => self.reactions.push(Reaction {
                emoji: emoji.clone(),
                by: vec![reactor],
            }),
        }
    }

    /// The order that reads have too, so that a push and a read show the same.
    fn sort(&mut self) {
        for reaction in &mut self.reactions {
            reaction.by.sort_unstable();
        }
        let first = |reaction: &Reaction| reaction.by.first().map(|reactor| reactor.at);
        self.reactions
            .sort_by(|one, other| (first(one), &one.emoji).cmp(&(first(other), &other.emoji)));
    }
}

impl Reaction {
    /// Has this principal given it?
    #[must_use]
    pub fn is_by(&self, principal: Principal) -> bool {
        self.by.iter().any(|reactor| reactor.principal == principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        ChangeSeq, Content, ConversationId, CountNo, MessageId, MessageStatus, MessageType, Seq, chain,
    };

    const ANN: Principal = Principal::user(1);
    const BOB: Principal = Principal::user(2);

    fn message() -> Arc<Message> {
        let conversation_id = ConversationId::new(7).unwrap();
        Arc::new(Message {
            message_id: MessageId::new(1).unwrap(),
            conversation_id,
            seq: Seq::new(1),
            sender: ANN,
            client_message_id: None,
            message_type: MessageType::Text,
            content: Content::trusted("{}"),
            quoted_message_id: None,
            status: MessageStatus::Normal,
            sent_at: Timestamp::default(),
            edited_at: None,
            change_seq: ChangeSeq::ZERO,
            count_no: CountNo::ZERO,
            content_hash: chain::content_hash(""),
            chain_hash: chain::genesis(conversation_id),
        })
    }

    fn emoji(text: &str) -> Emoji {
        Emoji::parse(text).unwrap()
    }

    fn at(millis: i64, principal: Principal) -> Reactor {
        let at = Timestamp::from_millis(millis);
        Reactor { at, principal }
    }

    fn shown(annotated: &Annotated, viewer: Principal) -> Vec<(String, u64, bool)> {
        let tallies = annotated.marks_for(viewer).reactions.into_iter();
        tallies
            .map(|tally| (tally.emoji.to_string(), tally.count, tally.me))
            .collect()
    }

    #[test]
    fn reactions_stand_in_the_order_of_the_first_of_each() {
        let mut one = Annotated::plain(message());
        assert!(one.react(&emoji("b"), at(1, ANN)) && one.react(&emoji("a"), at(2, BOB)));
        assert!(one.react(&emoji("b"), at(3, BOB)) && !one.react(&emoji("b"), at(4, BOB)));
        assert_eq!(shown(&one, BOB), [("b".to_owned(), 2, true), ("a".to_owned(), 1, true)]);
        assert_eq!((one.reactions_len(), shown(&one, ANN)[1].2), (3, false));
        // Without the first of them, the second counts.
        assert!(one.unreact(&emoji("b"), ANN) && !one.unreact(&emoji("b"), ANN));
        assert_eq!(shown(&one, BOB)[0].0, "a");
        assert!(one.unreact(&emoji("a"), BOB) && one.unreact(&emoji("b"), BOB));
        assert_eq!(one, Annotated::plain(message()));
    }

    #[test]
    fn what_is_stored_in_any_order_comes_back_as_the_writer_had_it() {
        let given = [
            (emoji("a"), at(5, ANN)),
            (emoji("b"), at(5, BOB)),
            (emoji("a"), at(2, BOB)),
        ];
        let mut live = Annotated::plain(message());
        for (emoji, reactor) in &given {
            live.react(emoji, *reactor);
        }
        assert_eq!(Annotated::new(message(), given.into_iter().rev(), false), live);
        assert!(live.marks_for_others().reactions.iter().all(|tally| !tally.me));
    }
}
