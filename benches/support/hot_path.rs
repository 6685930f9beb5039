//! One message on its way through the code that waits for nothing: read from its frame, decided, put together for the
//! store, written as a push.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use onescribe::delivery::wire;
use onescribe::domain::{
    Adding, Batch, ClientMessageId, Command, Context, Conversation, ConversationId, Create, DeviceId, Digest, Draft,
    Facts, HistoryVisibility, Kind, Message, MessageId, Origin, Posting, Principal, Send, Timestamp, chain,
};
use onescribe::protocol::frame::{self, Frame};
use onescribe::protocol::reply::Push;
use onescribe::protocol::view;
use onescribe::storage::Commit;
use onescribe::storage::sql::assemble;

const CONTENT_BYTES_MAX: usize = 65_536;
const MEMBERS: i64 = 8;
/// Conversations that meet in one transaction, with one message each.
const COMMITS: i64 = 256;
const FRAME: &str = r#"{"id":1000000001,"type":"message.send","conversation_id":"7","client_message_id":"2f8dd7b4-7a0c-4d3b-9a51-0f4c7a1c6d10","message_type":"TEXT","content":{"text":"2f8dd7b4-7a0c-4d3b-9a51-0f4c7a1c6d10 and then some words, as many as people use in a sentence or two of an ordinary chat"}}"#;

/// What the cases work on.
pub(crate) struct HotPath {
    conversation: Conversation,
    command: Command,
    message: Arc<Message>,
    commits: Vec<Commit>,
}

impl HotPath {
    pub(crate) fn new() -> Result<Self> {
        let mut conversation = None;
        let create = decided(7, None, &create())?;
        for event in &create.events {
            Conversation::apply(&mut conversation, event);
        }
        let conversation = conversation.context("a created conversation exists")?;
        let command = Command::Send(send()?);
        let batch = decided(7, Some(&conversation), &command)?;
        let message = batch.events.iter().find_map(|event| match event {
            onescribe::domain::Event::MessageSent { message, .. } => Some(Arc::clone(message)),
            _ => None,
        });
        let commits: Result<Vec<Commit>> = (1..=COMMITS).map(|id| commit(id, &command)).collect();
        Ok(Self {
            message: message.context("a send becomes a message")?,
            conversation,
            command,
            commits: commits?,
        })
    }

    /// From the text of a frame to a checked, hashed send.
    pub(crate) fn read() -> bool {
        let incoming = frame::parse(black_box(FRAME), CONTENT_BYTES_MAX);
        matches!(black_box(incoming.frame), Ok(Frame::Send { .. }))
    }

    /// One send, alone in its batch.
    pub(crate) fn decide(&self) -> Result<Batch> {
        decided(7, Some(black_box(&self.conversation)), black_box(&self.command))
    }

    /// The hash that [`HotPath::read`] computes.
    pub(crate) fn content_hash(&self) -> Digest {
        chain::content_hash(black_box(self.message.content.as_str()))
    }

    /// The hash that [`HotPath::decide`] computes.
    pub(crate) fn chain_hash(&self) -> Digest {
        chain::chain_hash(black_box(&self.message.chain_hash), black_box(&self.message))
    }

    /// The finished frame that every receiver gets.
    pub(crate) fn encode(&self) -> Bytes {
        let message = view::Message::unmarked(black_box(&self.message));
        wire::text(&Push::message(message))
    }

    /// The one statement of a transaction with [`HotPath::commits`] messages, with all its parameters.
    pub(crate) fn assemble(&self) -> usize {
        assemble(black_box(&self.commits))
    }

    /// Messages in one transaction of [`HotPath::assemble`].
    pub(crate) const fn commits(&self) -> usize {
        self.commits.len()
    }
}

fn origin() -> Result<Origin> {
    Ok(Origin {
        principal: Principal::user(1),
        device: Some(DeviceId::parse("phone")?),
    })
}

fn create() -> Command {
    Command::Create(Create {
        origin: Origin {
            principal: Principal::user(1),
            device: None,
        },
        kind: Kind::Group,
        title: None,
        members: (2..=MEMBERS).map(Principal::user).collect(),
        creation_key: None,
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    })
}

fn send() -> Result<Send> {
    let Ok(Frame::Send { message, .. }) = frame::parse(FRAME, CONTENT_BYTES_MAX).frame else {
        anyhow::bail!("the frame is not understood");
    };
    Ok(Send {
        origin: origin()?,
        client_message_id: ClientMessageId::parse(message.client_message_id.as_str())?,
        message_type: message.message_type,
        content: message.content,
        content_hash: message.content_hash,
        quoted_message_id: message.quoted_message_id,
        expected_last_seq: message.expected_last_seq,
    })
}

fn decided(conversation_id: i64, base: Option<&Conversation>, command: &Command) -> Result<Batch> {
    let mut id = 1_000;
    let mut next_id = || {
        id += 1;
        MessageId::new(id).ok_or(onescribe::domain::DomainError::ConversationNotFound)
    };
    let mut context = Context {
        now: Timestamp::from_millis(1_790_000_000_000),
        next_id: &mut next_id,
        facts: &Facts::default(),
    };
    let mut draft = Draft::new(ConversationId::new(conversation_id).context("ids are positive")?, base);
    match draft.decide(command, &mut context) {
        Ok(_) => draft.finish().context("it was decided"),
        Err(refusal) => anyhow::bail!("refused: {refusal:?}"),
    }
}

fn commit(conversation_id: i64, command: &Command) -> Result<Commit> {
    let mut conversation = None;
    for event in &decided(conversation_id, None, &create())?.events {
        Conversation::apply(&mut conversation, event);
    }
    let expected = conversation.as_ref().map(|state| state.head.counters());
    let batch = decided(conversation_id, conversation.as_ref(), command)?;
    Ok(Commit {
        conversation_id: ConversationId::new(conversation_id).context("ids are positive")?,
        expected,
        events: batch.events,
        header: batch.header,
        head: batch.head,
        member_count: batch.member_count,
    })
}
