//! What was asked, answered, tried and told, as plain data: the checkers know nothing of the domain's types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt as _;
use onescribe::conversation::{Answer, CommandError, Committed, Publisher, SessionReply, Step};
use onescribe::domain::{
    Change, Command, ConversationId, DomainError, Event, Member, Message, MessageId, Origin, Outcome, Principal,
};
use onescribe::storage::memory::{Fault, MemoryStore};
use onescribe::storage::{Commit, CommitResult, MessageStore as _, Writer};

/// Kind (1 USER, 2 AGENT, 3 SYSTEM) and id.
pub(crate) type Who = (i16, i64);

pub(crate) fn who(principal: Principal) -> Who {
    (principal.kind.code(), principal.id)
}

/// A message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) message_id: i64,
    pub(crate) seq: i64,
    pub(crate) sender: Who,
    pub(crate) key: Option<String>,
    pub(crate) message_type: String,
    pub(crate) content: String,
    pub(crate) quoted: Option<i64>,
    pub(crate) sent_at: i64,
    pub(crate) count_no: i64,
    pub(crate) content_hash: [u8; 32],
    pub(crate) chain_hash: [u8; 32],
    pub(crate) status: &'static str,
    pub(crate) change_seq: i64,
}

impl StoredMessage {
    pub(crate) fn of(message: &Message) -> Self {
        Self {
            message_id: message.message_id.get(),
            seq: message.seq.get(),
            sender: who(message.sender),
            key: message.client_message_id.as_ref().map(|key| key.as_str().to_owned()),
            message_type: message.message_type.as_str().to_owned(),
            content: message.content.as_str().to_owned(),
            quoted: message.quoted_message_id.map(MessageId::get),
            sent_at: message.sent_at.millis(),
            count_no: message.count_no.get(),
            content_hash: *message.content_hash.as_bytes(),
            chain_hash: *message.chain_hash.as_bytes(),
            status: message.status.as_str(),
            change_seq: message.change_seq.get(),
        }
    }

    /// The same message, whatever has become of its words since.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let as_it_became = Self {
            content: self.content.clone(),
            status: self.status,
            change_seq: self.change_seq,
            ..other.clone()
        };
        *self == as_it_became
    }
}

/// An entry of the change log as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredChange {
    pub(crate) change_seq: i64,
    pub(crate) change_type: String,
    pub(crate) payload: String,
    pub(crate) actor: Who,
    pub(crate) message_id: Option<i64>,
    pub(crate) changed_at: i64,
}

impl StoredChange {
    pub(crate) fn of(change: &Change) -> Self {
        Self {
            change_seq: change.change_seq.get(),
            change_type: change.change_type.as_str().to_owned(),
            payload: change
                .payload
                .as_ref()
                .map_or_else(String::new, |payload| payload.as_str().to_owned()),
            actor: who(change.actor),
            message_id: change.message_id.map(MessageId::get),
            changed_at: change.changed_at.millis(),
        }
    }
}

/// A request as it left a client.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) at: u64,
    pub(crate) conversation: i64,
    pub(crate) who: Who,
    pub(crate) what: What,
}

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Send {
        key: String,
        payload: Payload,
    },
    Create {
        creation_key: Option<String>,
    },
    /// Members, roles, the header, a message that is there.
    Change,
}

/// What makes two sends with one key the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) message_type: String,
    pub(crate) content: String,
    pub(crate) quoted: Option<i64>,
}

/// An answer as it left the server.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) at: u64,
    pub(crate) request: usize,
    pub(crate) reply: Reply,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Sent {
        message_id: i64,
        seq: i64,
        sent_at: i64,
        repeat: bool,
    },
    Changed {
        change_seq: Option<i64>,
    },
    Created,
    KeyReused {
        original: i64,
    },
    /// Final: the rules refuse it.
    Refused(String),
    /// Ask again.
    Retry(String),
}

impl Reply {
    pub(crate) fn of(answer: &Answer) -> Self {
        match answer {
            Ok(Outcome::Created) => Self::Created,
            Ok(Outcome::Sent(message)) => Self::Sent {
                message_id: message.message_id.get(),
                seq: message.seq.get(),
                sent_at: message.sent_at.millis(),
                repeat: false,
            },
            Ok(Outcome::Duplicate(record)) => Self::Sent {
                message_id: record.message_id.get(),
                seq: record.seq.get(),
                sent_at: record.sent_at.millis(),
                repeat: true,
            },
            Ok(
                Outcome::Changed(change)
                | Outcome::Touched(_, change)
                | Outcome::Read { change, .. }
                | Outcome::Acted(_, change)
                | Outcome::Noted(_, change),
            ) => Self::Changed {
                change_seq: change.as_ref().map(|change| change.change_seq.get()),
            },
            Ok(told @ (Outcome::Notified(_) | Outcome::Invitable { .. })) => panic!("nobody asked for {told:?}"),
            Err(CommandError::Refused(DomainError::KeyReused { original })) => Self::KeyReused {
                original: original.get(),
            },
            Err(CommandError::Refused(error @ (DomainError::ClockMovedBackwards { .. } | DomainError::LeaseLost))) => {
                Self::Retry(format!("{error:?}"))
            }
            Err(CommandError::Refused(error)) => Self::Refused(format!("{error:?}")),
            Err(error) => Self::Retry(format!("{error:?}")),
        }
    }
}

/// A commit that reached the store.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) conversation: i64,
    /// The counters it was decided on: last seq and last change seq.
    pub(crate) expected: Option<(i64, i64)>,
    pub(crate) messages: Vec<(i64, i64)>,
    pub(crate) changes: Vec<StoredChange>,
    pub(crate) fault: Fault,
}

/// One life of one writer on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    pub(crate) conversation: i64,
    pub(crate) node: usize,
    /// Grows with every restart of the node.
    pub(crate) life: u32,
    /// Grows with every start of the writer.
    pub(crate) seat: u32,
}

/// One thing that a writer told its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Born(Vec<Who>),
    /// `stored` = it was in the store when it was told.
    Message {
        message: StoredMessage,
        stored: bool,
    },
    /// With the message that it is about.
    Change(StoredChange, Option<StoredMessage>),
    Joined(Vec<Who>),
    Left(Who),
    Answer(Reply),
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) now: u64,
    pub(crate) asked: Vec<Asked>,
    pub(crate) answered: Vec<Answered>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) streams: BTreeMap<StreamId, Vec<Told>>,
    /// What happened at all, so that a run that tests nothing is noticed.
    pub(crate) corners: BTreeSet<String>,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

/// Writes the history. Clones write the same one.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Mutex<History>>);

impl Recorder {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap()
    }

    pub(crate) fn corner(&self, name: &str) {
        let mut history = self.lock();
        if !history.corners.contains(name) {
            history.corners.insert(name.to_owned());
        }
    }

    /// Answers the request's number.
    pub(crate) fn ask(&self, conversation: ConversationId, command: &Command) -> usize {
        let mut history = self.lock();
        let at = history.tick();
        let (origin, what) = what(command);
        history.asked.push(Asked {
            at,
            conversation: conversation.get(),
            who: who(origin.principal),
            what,
        });
        history.asked.len() - 1
    }

    pub(crate) fn answer(&self, request: usize, reply: &Reply) {
        let mut history = self.lock();
        let at = history.tick();
        history.answered.push(Answered {
            at,
            request,
            reply: reply.clone(),
        });
        drop(history);
        let text = match reply {
            Reply::Sent { repeat: false, .. } => "sent",
            Reply::Sent { repeat: true, .. } => "repeat",
            Reply::Changed { change_seq: None } => "nothing to change",
            Reply::Changed { .. } => "changed",
            Reply::Created => "created",
            Reply::KeyReused { .. } => "key reused",
            Reply::Refused(text) | Reply::Retry(text) => text.split([' ', '{', '(']).next().unwrap_or_default(),
        };
        self.corner(&format!("answer: {text}"));
    }

    pub(crate) fn attempt(&self, commit: &Commit, fault: Fault) {
        let mut history = self.lock();
        let mut attempt = Attempt {
            conversation: commit.conversation_id.get(),
            expected: commit
                .expected
                .map(|counters| (counters.last_seq.get(), counters.last_change_seq.get())),
            messages: Vec::new(),
            changes: Vec::new(),
            fault,
        };
        for event in &commit.events {
            match event {
                Event::MessageSent { message, .. } => {
                    attempt.messages.push((message.message_id.get(), message.seq.get()));
                }
                Event::Changed { change, .. } => attempt.changes.push(StoredChange::of(change)),
                _ => {}
            }
        }
        history.attempts.push(attempt);
        drop(history);
        let name = match fault {
            Fault::UnknownStoredLater(_) => "UnknownStoredLater".to_owned(),
            other => format!("{other:?}"),
        };
        self.corner(&format!("commit: {name}"));
    }
}

fn what(command: &Command) -> (&Origin, What) {
    match command {
        Command::Send(send) | Command::SendFor(send) => (
            &send.origin,
            What::Send {
                key: send.client_message_id.as_str().to_owned(),
                payload: Payload {
                    message_type: send.message_type.as_str().to_owned(),
                    content: send.content.as_str().to_owned(),
                    quoted: send.quoted_message_id.map(MessageId::get),
                },
            },
        ),
        Command::Create(create) => (
            &create.origin,
            What::Create {
                creation_key: create.creation_key.as_ref().map(|key| key.as_str().to_owned()),
            },
        ),
        Command::AddMembers { origin, .. }
        | Command::RemoveMember { origin, .. }
        | Command::Update { origin, .. }
        | Command::SetRole { origin, .. }
        | Command::Dissolve { origin }
        | Command::Touch { origin, .. }
        | Command::Invite { origin, .. }
        | Command::Personal { origin, .. } => (origin, What::Change),
        Command::Notify(_) | Command::Conclude(_) | Command::Join { .. } | Command::HeedBlocks => {
            panic!("the workload does not ask for {command:?}")
        }
    }
}

/// Writes down what becomes of commits.
pub(crate) struct Witness {
    pub(crate) writer: Box<dyn Writer>,
    pub(crate) recorder: Recorder,
}

#[async_trait::async_trait]
impl Writer for Witness {
    async fn commit(&mut self, commits: &[Commit]) -> Vec<CommitResult> {
        let results = self.writer.commit(commits).await;
        for error in results.iter().filter_map(|result| result.err()) {
            self.recorder.corner(&format!("result: {error:?}"));
        }
        results
    }
}

/// The ear of one node: what its writers tell, and the answers for its sessions.
pub(crate) struct Ear {
    pub(crate) node: usize,
    pub(crate) life: u32,
    /// The writer that is running at this moment.
    pub(crate) seat: Mutex<u32>,
    pub(crate) recorder: Recorder,
    pub(crate) observer: MemoryStore,
    /// Answers on their way to sessions: the request's number and the answer.
    pub(crate) answers: Mutex<Vec<(usize, Reply)>>,
}

impl Ear {
    fn told(&self, event: &Event) -> Option<Told> {
        let all = |members: &[Member]| members.iter().map(|member| who(member.principal)).collect();
        match event {
            Event::Created { members, .. } => Some(Told::Born(all(members))),
            Event::MessageSent { message, .. } => {
                let there = self.observer.message(message.message_id).now_or_never();
                Some(Told::Message {
                    message: StoredMessage::of(message),
                    stored: there
                        .and_then(Result::ok)
                        .flatten()
                        .is_some_and(|there| StoredMessage::of(&there).is_same(&StoredMessage::of(message))),
                })
            }
            Event::Changed { change, message, .. } => {
                self.recorder
                    .corner(&format!("change: {}", change.change_type.as_str()));
                let message = message.as_ref().map(|annotated| StoredMessage::of(&annotated.message));
                Some(Told::Change(StoredChange::of(change), message))
            }
            Event::MembersAdded { members } => Some(Told::Joined(all(members))),
            Event::MemberRemoved { principal, .. } => Some(Told::Left(who(*principal))),
            Event::RoleChanged { .. }
            | Event::HeaderChanged { .. }
            | Event::MessageChanged { .. }
            | Event::ReadMoved { .. }
            | Event::SettingsChanged { .. }
            | Event::ActionChanged { .. }
            | Event::Mentioned { .. }
            | Event::Referenced { .. }
            | Event::Reacted { .. }
            | Event::Pinned { .. }
            | Event::Notified { .. }
            | Event::NotificationChanged { .. }
            | Event::ContactMade { .. }
            | Event::ContactEnded { .. }
            | Event::BlockChanged { .. }
            | Event::BlocksHeeded { .. } => None,
        }
    }

    fn give(&self, to: SessionReply, answer: &Answer) -> Reply {
        let reply = Reply::of(answer);
        let request = usize::try_from(to.frame).unwrap();
        self.recorder.answer(request, &reply);
        self.answers.lock().unwrap().push((request, reply.clone()));
        reply
    }

    fn stream(&self, conversation: i64) -> StreamId {
        StreamId {
            conversation,
            node: self.node,
            life: self.life,
            seat: *self.seat.lock().unwrap(),
        }
    }
}

impl Publisher for Ear {
    fn committed(&self, committed: Committed) {
        let stream = self.stream(committed.conversation_id.get());
        let mut told = Vec::new();
        for step in &committed.steps {
            match step {
                Step::Event(event) => told.extend(self.told(event)),
                Step::Answer(to, answer) => told.push(Told::Answer(self.give(*to, answer))),
            }
        }
        self.recorder.lock().streams.entry(stream).or_default().extend(told);
    }

    fn answer(&self, to: SessionReply, answer: Answer) {
        let reply = self.give(to, &answer);
        let conversation = self.recorder.lock().asked[usize::try_from(to.frame).unwrap()].conversation;
        let stream = self.stream(conversation);
        self.recorder
            .lock()
            .streams
            .entry(stream)
            .or_default()
            .push(Told::Answer(reply));
    }
}
