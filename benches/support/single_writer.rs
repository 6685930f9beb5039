//! Our own write path without a network in front: registry, conversation actors on two arbiters, committer lanes and
//! the SQL store. It does more than its rivals: it checks content and rights, computes both hashes, remembers keys,
//! and moves the sender's read position.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Arbiter;
use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use onescribe::clock::{Clock, SystemClock};
use onescribe::conversation::{
    Answer, CommandError, Committed, Committer, Parts, Publisher, ReplyTo, SessionReply, run_lane,
};
use onescribe::domain::snowflake::Snowflake;
use onescribe::domain::{
    Adding, ClientMessageId, Command, Content, ConversationId, Create, HistoryVisibility, Kind, MessageType, Origin,
    Outcome, Posting, Principal, Send, Timestamp, chain,
};
use onescribe::ids::Ids;
use onescribe::routing::{Bus, Registry};
use onescribe::storage::{Commit, CommitResult, Store, Writer};
use tokio::sync::oneshot;

use crate::design::{Acked, Draft, MEMBERS, Sender};

const ARBITERS: usize = 2;
const IDLE_AFTER: Duration = Duration::from_mins(5);
const CONTENT_BYTES_MAX: usize = 65_536;

/// Nobody listens.
struct Silence;

impl Publisher for Silence {
    fn committed(&self, _: Committed) {}
    fn answer(&self, _: SessionReply, _: Answer) {}
}

/// What the lanes have handed to the database.
#[derive(Default)]
struct Written {
    transactions: AtomicUsize,
    messages: AtomicUsize,
}

/// A lane's writer that counts. A call is one transaction unless something is refused.
struct Counting(Box<dyn Writer>, Arc<Written>);

#[async_trait]
impl Writer for Counting {
    async fn commit(&mut self, commits: &[Commit]) -> Vec<CommitResult> {
        let messages = commits.iter().map(|commit| commit.events.len()).sum();
        self.1.transactions.fetch_add(1, Ordering::Relaxed);
        self.1.messages.fetch_add(messages, Ordering::Relaxed);
        self.0.commit(commits).await
    }
}

/// The running write path.
#[derive(Clone)]
pub(crate) struct SingleWriter {
    bus: Arc<dyn Bus>,
    ids: Arc<Ids>,
    written: Arc<Written>,
}

impl SingleWriter {
    /// Starts actors and lanes on arbiters of the current actix system.
    pub(crate) fn start(store: Arc<dyn Store>) -> Result<Self> {
        let arbiters: Vec<_> = (0..ARBITERS).map(|_| Arbiter::new().handle()).collect();
        let written = Arc::<Written>::default();
        let (committer, lanes) = Committer::new(store.lanes());
        for (lane, arbiter) in lanes.into_iter().zip(arbiters.iter().cycle()) {
            let (store, written) = (Arc::clone(&store), Arc::clone(&written));
            let writer = move || -> Box<dyn Writer> { Box::new(Counting(store.writer(), Arc::clone(&written))) };
            arbiter.spawn(run_lane(lane, writer));
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let flake = Snowflake::new(1, Timestamp::from_millis(0)).context("worker 1 is a worker")?;
        let ids = Arc::new(Ids::new(Arc::clone(&clock), flake, Timestamp::from_millis(i64::MAX)));
        let parts = Parts {
            store,
            committer,
            ids: Arc::clone(&ids),
            clock,
            publisher: Arc::new(Silence),
        };
        let bus = Arc::new(Registry::new(arbiters, Arc::new(parts), IDLE_AFTER));
        Ok(Self { bus, ids, written })
    }

    /// How many transactions the lanes have handed to the database so far, and how many messages.
    pub(crate) fn written(&self) -> (usize, usize) {
        let Written { transactions, messages } = &*self.written;
        (transactions.load(Ordering::Relaxed), messages.load(Ordering::Relaxed))
    }

    /// Makes groups of [`MEMBERS`] users.
    pub(crate) async fn add_conversations(&self, count: usize) -> Result<Vec<i64>> {
        try_join_all((0..count).map(|_| self.add_conversation())).await
    }

    async fn add_conversation(&self) -> Result<i64> {
        let id = self.ids.conversation_id()?;
        let create = Create {
            origin: origin(1),
            kind: Kind::Group,
            title: None,
            members: (2..=MEMBERS).map(Principal::user).collect(),
            creation_key: None,
            history_visibility: HistoryVisibility::Shared,
            posting: Posting::All,
            adding: Adding::Admins,
        };
        self.ask(id, Command::Create(create)).await??;
        Ok(id.get())
    }

    async fn ask(&self, id: ConversationId, command: Command) -> Result<Answer> {
        let (reply, answer) = oneshot::channel();
        self.bus.dispatch(id, command, ReplyTo::Caller(reply));
        answer.await.context("the actor gave no answer")
    }
}

fn origin(user: i64) -> Origin {
    Origin {
        principal: Principal::user(user),
        device: None,
    }
}

#[async_trait]
impl Sender for SingleWriter {
    async fn send(&mut self, draft: Draft) -> Result<Acked> {
        let id = ConversationId::new(draft.conversation_id).context("ids are positive")?;
        let content = Content::parse(&draft.content, &MessageType::Text, CONTENT_BYTES_MAX)?;
        let send = Send {
            origin: origin(draft.sender_id),
            client_message_id: ClientMessageId::parse(&draft.client_message_id)?,
            message_type: MessageType::Text,
            content_hash: chain::content_hash(content.as_str()),
            content,
            quoted_message_id: None,
            expected_last_seq: None,
        };
        match self.ask(id, Command::Send(send)).await? {
            Ok(Outcome::Sent(message)) => Ok(Acked {
                conversation_id: draft.conversation_id,
                message_id: message.message_id.get(),
                seq: message.seq.get(),
            }),
            Ok(other) => bail!("not sent: {other:?}"),
            Err(CommandError::Refused(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }
}
