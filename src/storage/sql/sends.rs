//! The rows of the hot path: what plain sends write. Statements and rows do not depend on the number of members
//! (INV-COST-1): a row per message, and one update per conversation and per sender.

use std::collections::BTreeMap;

use crate::domain::{ConversationId, CountNo, Counters, Event, Head, Message, Principal, PrincipalType, Seq};
use crate::storage::Commit;

/// Messages in one statement.
pub(super) const ROWS_MAX: usize = 1_024;
/// Content in one statement; a single larger one goes alone. MariaDB takes 16 MiB by default.
pub(super) const BYTES_MAX: usize = 4 * 1024 * 1024;

/// New counters of one conversation, and those they were decided on.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadRow<'a> {
    pub(super) conversation_id: ConversationId,
    pub(super) expected: Counters,
    pub(super) head: &'a Head,
    pub(super) member_count: i64,
}

/// How far a sender has read by sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadRow {
    pub(super) conversation_id: ConversationId,
    pub(super) sender: Principal,
    pub(super) seq: Seq,
    pub(super) count_no: CountNo,
}

/// Everything that plain sends write, in the order of the conversation ids, so that two writers cannot wait for
/// each other.
#[derive(Debug, Default)]
pub(super) struct Sends<'a> {
    pub(super) heads: Vec<HeadRow<'a>>,
    pub(super) messages: Vec<&'a Message>,
    pub(super) reads: Vec<ReadRow>,
}

impl<'a> Sends<'a> {
    /// `commits` must be sorted by conversation.
    pub(super) fn of(commits: &[&'a Commit]) -> Self {
        let mut sends = Self::default();
        let mut reads = BTreeMap::new();
        for commit in commits {
            if let Some(expected) = commit.expected {
                sends.heads.push(HeadRow {
                    conversation_id: commit.conversation_id,
                    expected,
                    head: &commit.head,
                    member_count: i64::try_from(commit.member_count).unwrap_or(i64::MAX),
                });
            }
            let first = sends.messages.len();
            for event in &commit.events {
                if let Event::MessageChanged { message, .. } = event {
                    // One that was sent in this very commit is stored as it is at its end.
                    let own = sends.messages.iter_mut().skip(first);
                    own.filter(|sent| sent.message_id == message.message_id)
                        .for_each(|sent| *sent = message);
                }
                if let Event::MessageSent { message, .. } = event {
                    sends.messages.push(message);
                    if message.sender.kind != PrincipalType::System {
                        reads.insert(
                            (commit.conversation_id, message.sender),
                            (message.seq, message.count_no),
                        );
                    }
                }
            }
        }
        let row = |((conversation_id, sender), (seq, count_no))| ReadRow {
            conversation_id,
            sender,
            seq,
            count_no,
        };
        sends.reads = reads.into_iter().map(row).collect();
        sends
    }

    /// The messages in parts that fit into one statement.
    pub(super) fn parts(&self) -> Vec<&[&'a Message]> {
        let mut parts = Vec::new();
        let (mut rest, mut bytes, mut rows) = (self.messages.as_slice(), 0, 0);
        for message in &self.messages {
            let size = message.content.as_str().len();
            if rows > 0 && (rows == ROWS_MAX || bytes + size > BYTES_MAX) {
                let (part, after) = rest.split_at(rows);
                parts.push(part);
                (rest, bytes, rows) = (after, 0, 0);
            }
            bytes += size;
            rows += 1;
        }
        if !rest.is_empty() {
            parts.push(rest);
        }
        parts
    }
}

/// Only messages, on a conversation that exists: the hot path.
pub(super) fn is_plain(commit: &Commit) -> bool {
    let messages_only = |event: &Event| matches!(event, Event::MessageSent { .. });
    let changes = commit
        .expected
        .is_some_and(|expected| expected.last_change_seq != commit.head.last_change_seq);
    commit.expected.is_some() && !changes && commit.events.iter().all(messages_only)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{
        Adding, Batch, ClientMessageId, Command, Content, Context, Conversation, Create, Draft, Facts,
        HistoryVisibility, Kind, MessageId, MessageType, Origin, Posting, Timestamp, chain,
    };

    const ANN: Principal = Principal::user(1);

    fn origin() -> Origin {
        Origin {
            principal: ANN,
            device: None,
        }
    }

    fn send(key: &str, content: &str) -> Command {
        Command::Send(crate::domain::Send {
            origin: origin(),
            client_message_id: ClientMessageId::parse(key).unwrap(),
            message_type: MessageType::Text,
            content_hash: chain::content_hash(content),
            content: Content::trusted(content),
            quoted_message_id: None,
            expected_last_seq: None,
        })
    }

    /// What these commands ask the store for, and the state that they lead to.
    fn commit(state: &mut Option<Conversation>, commands: &[Command]) -> Commit {
        let conversation_id = ConversationId::new(7).unwrap();
        let expected = state.as_ref().map(|state| state.head.counters());
        let mut id = state.as_ref().map_or(0, |state| state.head.last_seq.get());
        let mut draft = Draft::new(conversation_id, state.as_ref());
        for command in commands {
            let mut next_id = || {
                id += 1;
                Ok(MessageId::new(id).unwrap())
            };
            let mut context = Context {
                now: Timestamp::default(),
                next_id: &mut next_id,
                facts: &Facts::default(),
            };
            draft.decide(command, &mut context).unwrap();
        }
        let Batch {
            events,
            header,
            head,
            member_count,
        } = draft.finish().unwrap();
        for event in &events {
            Conversation::apply(state, event);
        }
        Commit {
            conversation_id,
            expected,
            events,
            header: Arc::clone(&header),
            head,
            member_count,
        }
    }

    #[test]
    fn only_a_send_that_mentions_somebody_leaves_the_hot_path() {
        let create = Command::Create(Create {
            origin: origin(),
            kind: Kind::Group,
            title: None,
            members: vec![Principal::user(2)],
            creation_key: None,
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::All,
        });
        let mut state = None;
        assert!(!is_plain(&commit(&mut state, &[create])));
        let plain = [
            send("a", "{\"text\":\"words\"}"),
            send("b", "{\"text\":\"x\",\"mentions\":[],\"mention_all\":false}"),
            send("c", "{\"text\":\"\\\"mentions\\\" is a word too\"}"),
        ];
        let plain = commit(&mut state, &plain);
        assert!(is_plain(&plain));
        let sends = Sends::of(&[&plain]);
        let rows = (sends.heads.len(), sends.parts().len(), sends.reads.len());
        assert_eq!(
            rows,
            (1, 1, 1),
            "one statement: a counter, one list of messages, one position"
        );
        let mention = "{\"text\":\"x\",\"mentions\":[{\"user_id\":\"2\",\"offset\":0,\"length\":1}]}";
        assert!(!is_plain(&commit(&mut state, &[send("d", mention)])));
    }
}
