//! The acts whose cost is counted, in groups of one size.

use futures_util::future::join_all;
use onescribe::domain::{
    Adding, ChangeSeq, ConversationId, DeviceId, HistoryVisibility, NewConversation, Posting, Seq,
};
use onescribe::service::{DeviceCursor, SyncQuery};

use super::saying::send;
use super::stack::{Stack, origin, principal, subject};

/// Groups of the user whose list is read.
pub(crate) const GROUPS: usize = 5;
/// Users of the model are counted from 0: the sender, and the reader.
const SENDER: usize = 0;
const READER: usize = 1;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Send,
    /// Of a message with a file that its sender has uploaded.
    SendFile,
    Read,
    List,
    Sync,
}

pub(crate) struct Groups {
    ids: Vec<ConversationId>,
    /// In each of them.
    messages: usize,
}

impl Groups {
    pub(crate) async fn new(stack: &Stack, members: usize, messages: usize) -> Self {
        let mut ids = Vec::new();
        for _ in 0..GROUPS {
            let new = NewConversation::Group {
                title: "room".to_owned(),
                members: (0..members).map(subject).collect(),
                client_request_id: None,
                history_visibility: HistoryVisibility::Shared,
                posting: Posting::All,
                adding: Adding::All,
            };
            let made = stack.conversations.create(origin(SENDER, "d"), new).await.unwrap();
            let id = made.seen.header.conversation_id;
            let key = |n: usize| format!("k{n}");
            let say = |n: usize| send(origin(SENDER, "d"), &key(n), "hello");
            join_all((0..messages).map(|n| stack.messages.send(id, say(n)))).await;
            ids.push(id);
        }
        Self { ids, messages }
    }

    /// The `n`-th act of its kind.
    pub(crate) async fn act(&mut self, stack: &Stack, act: Act, n: usize, behind: &SyncQuery) {
        let group = self.ids[n % GROUPS];
        match act {
            Act::Send | Act::SendFile => {
                self.messages += 1;
                let key = format!("k{}", 1_000_000 + self.messages);
                // The first file is the first user's.
                let words = if matches!(act, Act::Send) { "hello" } else { "look #0" };
                let send = send(origin(SENDER, "d"), &key, words);
                stack.messages.send(group, send).await.unwrap();
            }
            Act::Read => {
                // Each moves the position.
                let seq = Seq::new(i64::try_from(2 + n / GROUPS).unwrap());
                stack.inbox.read(origin(READER, "d"), group, seq).await.unwrap();
            }
            Act::List => {
                let list = stack.conversations.list(principal(READER), None, 20).await.unwrap();
                assert!(list.items.len() >= GROUPS);
            }
            Act::Sync => {
                let page = stack.sync.sync(principal(READER), behind.clone()).await.unwrap();
                let messages = page.entries.iter().map(|entry| entry.messages.len());
                assert_eq!(messages.sum::<usize>(), GROUPS);
            }
        }
    }

    /// What the reader's device asks that lacks one message of each group.
    pub(crate) async fn behind_by_one(&self, stack: &Stack) -> SyncQuery {
        let list = stack.conversations.list(principal(READER), None, 20).await.unwrap();
        let cursors = list.items.iter().map(|seen| DeviceCursor {
            conversation_id: seen.header.conversation_id,
            seq: Seq::new((seen.head.last_seq.get() - 1).max(0)),
            change_seq: ChangeSeq::new(seen.head.last_change_seq.get()),
        });
        SyncQuery {
            device: DeviceId::parse("d").unwrap(),
            store_epoch: None,
            cursors: Some(cursors.collect()),
            message_limit: 50,
            conversation_limit: 100,
            bytes_max: 1 << 20,
        }
    }
}
