//! Makes commits as the domain would: through `Draft`, so that the rows are exactly those of the program.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use onescribe::domain::{
    Adding, Batch, ClientMessageId, Command, Content, Context, Conversation, ConversationId, Create, CreationKey,
    DomainError, Draft, Facts, FileId, HistoryVisibility, Kind, MessageId, MessageType, Origin, Outcome, Posting,
    Principal, Send, Ties, Timestamp, Touch, chain,
};
use onescribe::storage::{Commit, CommitResult, Store, Writer};

/// 2026-01-01, in milliseconds.
pub(crate) const NOW: i64 = 1_767_225_600_000;

/// Ids that no other test of this process has.
pub(crate) fn next_id() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new((NOW - onescribe::domain::snowflake::EPOCH_MS) << 22);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A new id of a conversation.
pub(crate) fn conversation_id() -> ConversationId {
    ConversationId::new(next_id()).unwrap()
}

pub(crate) fn key(text: &str) -> ClientMessageId {
    ClientMessageId::parse(text).unwrap()
}

pub(crate) fn origin(principal: Principal) -> Origin {
    Origin {
        principal,
        device: None,
    }
}

pub(crate) fn send(sender: Principal, client_message_id: &str, text: &str) -> Command {
    send_raw(
        sender,
        client_message_id,
        &serde_json::json!({ "text": text }).to_string(),
    )
}

pub(crate) fn send_raw(sender: Principal, client_message_id: &str, raw: &str) -> Command {
    let content = Content::parse(raw, &MessageType::Text, 1 << 20).unwrap();
    Command::Send(Send {
        origin: origin(sender),
        client_message_id: key(client_message_id),
        message_type: MessageType::Text,
        content_hash: chain::content_hash(content.as_str()),
        content,
        quoted_message_id: None,
        expected_last_seq: None,
    })
}

/// Whoever is asked for may read every file that these commands name: the rights are told by the rules' own tests.
fn files_of(commands: &[Command]) -> HashMap<(FileId, Principal), bool> {
    let mut files = HashMap::new();
    for command in commands {
        let (who, content) = match command {
            Command::Send(send) => (send.origin.principal, &send.content),
            Command::Touch {
                origin,
                touch: Touch::Edit(content),
                ..
            } => (origin.principal, content),
            _ => continue,
        };
        files.extend(content.files().into_iter().map(|file| ((file, who), true)));
    }
    files
}

pub(crate) fn group(creator: Principal, members: &[Principal]) -> Command {
    create(Kind::Group, creator, members, None)
}

pub(crate) fn create(
    kind: Kind,
    creator: Principal,
    members: &[Principal],
    creation_key: Option<CreationKey>,
) -> Command {
    Command::Create(Create {
        origin: origin(creator),
        kind,
        title: (kind == Kind::Group).then(|| "Ä group 🎉".to_owned()),
        members: members.to_vec(),
        creation_key,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    })
}

/// The two of a new DIRECT, between whom there is nothing.
fn strangers(command: &Command) -> Option<((Principal, Principal), Ties)> {
    let Command::Create(create) = command else { return None };
    let other = *create.members.first()?;
    let one = create.origin.principal;
    (create.kind == Kind::Direct).then(|| ((one.min(other), one.max(other)), Ties::default()))
}

/// A conversation in memory, as its writer holds it.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) id: ConversationId,
    pub(crate) state: Option<Conversation>,
    pub(crate) now: i64,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self {
            id: conversation_id(),
            state: None,
            now: NOW,
        }
    }

    /// What these commands ask the store for.
    pub(crate) fn decide(&self, commands: &[Command]) -> Commit {
        self.try_decide(commands, Facts::default()).expect("the rules allow it")
    }

    fn try_decide(&self, commands: &[Command], known: Facts) -> Result<Commit, DomainError> {
        let mut draft = Draft::new(self.id, self.state.as_ref());
        let facts = Facts {
            keys: commands
                .iter()
                .filter_map(|command| match command {
                    Command::Send(send) => Some(((send.origin.principal, send.client_message_id.clone()), None)),
                    _ => None,
                })
                .collect(),
            ties: commands.iter().filter_map(strangers).chain(known.ties).collect(),
            messages: known.messages,
            files: files_of(commands),
            ..Facts::default()
        };
        let mut ids = || Ok(MessageId::new(next_id()).unwrap());
        for command in commands {
            let mut context = Context {
                now: Timestamp::from_millis(self.now),
                next_id: &mut ids,
                facts: &facts,
            };
            match draft.decide(command, &mut context) {
                Ok(Outcome::Duplicate(_)) | Err(onescribe::domain::Refusal::Needs(_)) => panic!("not in these tests"),
                Ok(_) => {}
                Err(onescribe::domain::Refusal::Rejected(error)) => return Err(error),
            }
        }
        let Batch {
            events,
            header,
            head,
            member_count,
        } = draft.finish().expect("something to commit");
        Ok(Commit {
            conversation_id: self.id,
            expected: self.state.as_ref().map(|state| state.head.counters()),
            events,
            header,
            head,
            member_count,
        })
    }

    /// As a writer that was loaded anew: it does not know which keys were used.
    pub(crate) fn forget_keys(&mut self) {
        if let Some(state) = &mut self.state {
            state.recent = onescribe::domain::conversation::RecentKeys::default();
        }
    }

    /// What was committed becomes true.
    pub(crate) fn apply(&mut self, commit: &Commit) {
        for event in &commit.events {
            Conversation::apply(&mut self.state, event);
        }
    }

    /// Decides, stores and applies.
    pub(crate) async fn commit(&mut self, writer: &mut dyn Writer, commands: &[Command]) {
        self.now += 1;
        let commit = self.decide(commands);
        assert_eq!(writer.commit(std::slice::from_ref(&commit)).await, vec![Ok(())]);
        self.apply(&commit);
    }

    /// Does something to a stored message, and stores that.
    pub(crate) async fn touch(&mut self, store: &dyn Store, actor: Principal, id: MessageId, touch: Touch) {
        self.touch_all(store, id, vec![(actor, touch)]).await;
    }

    /// Several touches of one message, in one commit.
    pub(crate) async fn touch_all(&mut self, store: &dyn Store, id: MessageId, acts: Vec<(Principal, Touch)>) {
        let facts = Facts {
            messages: HashMap::from([(id, store.touchable(self.id, id).await.unwrap())]),
            ..Facts::default()
        };
        let command = |(actor, touch): (Principal, Touch)| Command::Touch {
            origin: origin(actor),
            message_id: id,
            touch,
        };
        let commands: Vec<Command> = acts.into_iter().map(command).collect();
        self.now += 1;
        let commit = self.try_decide(&commands, facts).expect("the rules allow it");
        assert_eq!(store.writer().commit(std::slice::from_ref(&commit)).await, vec![Ok(())]);
        self.apply(&commit);
    }

    /// The writer of a DIRECT looks at its blocks.
    pub(crate) async fn heed_blocks(&mut self, store: &dyn Store, (one, other): (Principal, Principal)) {
        let facts = Facts {
            ties: HashMap::from([((one, other), store.ties(one, other).await.unwrap())]),
            ..Facts::default()
        };
        let commit = self
            .try_decide(&[Command::HeedBlocks], facts)
            .expect("the rules allow it");
        assert_eq!(store.writer().commit(std::slice::from_ref(&commit)).await, vec![Ok(())]);
        self.apply(&commit);
    }

    /// A group that is stored.
    pub(crate) async fn group(writer: &mut dyn Writer, creator: Principal, members: &[Principal]) -> Self {
        let mut held = Self::new();
        held.commit(writer, &[group(creator, members)]).await;
        held
    }
}

pub(crate) async fn commit_one(writer: &mut dyn Writer, commit: &Commit) -> CommitResult {
    let mut results = writer.commit(std::slice::from_ref(commit)).await;
    assert_eq!(results.len(), 1);
    results.remove(0)
}

pub(crate) fn header(held: &Held) -> Arc<onescribe::domain::Header> {
    Arc::clone(&held.state.as_ref().unwrap().header)
}
