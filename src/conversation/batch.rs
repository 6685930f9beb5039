//! The pure part of the writer: what to ask the store first, what a batch becomes, what follows from a commit that
//! went wrong. No actor, no wait: the simulation runs exactly this code.

use std::collections::HashMap;
use std::sync::Arc;

use super::messages::{Answer, CommandError, Step};
use crate::domain::{
    Batch, Change, ChangeSeq, ClientMessageId, Command, Context, Conversation, ConversationId, DeviceId, DomainError,
    Draft, Event, Fact, Facts, Message, MessageId, Outcome, Principal, Refusal, Timestamp,
};

/// The most commands that one commit of a conversation may hold.
pub const BATCH_COMMANDS_MAX: usize = 512;
/// The most bytes of content that one commit of a conversation may hold.
pub const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What came of looking at a batch.
#[derive(Debug)]
pub enum Plan {
    /// Nothing is missing.
    Ready(Planned),
    /// The store has to be asked this first.
    Needs(Vec<Fact>),
}

/// A decided batch.
#[derive(Debug)]
pub struct Planned {
    /// What is to be committed; `None` = nothing.
    pub batch: Option<Batch>,
    /// One per command.
    pub outcomes: Vec<Result<Outcome, DomainError>>,
    /// How many events there are after each command.
    pub marks: Vec<usize>,
}

/// Decides all commands, one after the other, on top of `base`.
pub fn plan<'c>(
    conversation_id: ConversationId,
    base: Option<&Conversation>,
    commands: impl Iterator<Item = &'c Command>,
    facts: &Facts,
    now: Timestamp,
    next_id: &mut dyn FnMut() -> Result<MessageId, DomainError>,
) -> Plan {
    let mut draft = Draft::new(conversation_id, base);
    let mut context = Context { now, next_id, facts };
    let mut planned = Planned {
        batch: None,
        outcomes: Vec::new(),
        marks: Vec::new(),
    };
    let mut needs = Vec::new();
    for command in commands {
        match draft.decide(command, &mut context) {
            Ok(outcome) => planned.outcomes.push(Ok(outcome)),
            Err(Refusal::Rejected(error)) => planned.outcomes.push(Err(error)),
            Err(Refusal::Needs(fact)) => needs.push(fact),
        }
        planned.marks.push(draft.events_len());
    }
    if needs.is_empty() {
        planned.batch = draft.finish();
        Plan::Ready(planned)
    } else {
        Plan::Needs(needs)
    }
}

impl Planned {
    /// The answers when everything was stored (or nothing had to be).
    pub fn answers(self) -> Vec<Answer> {
        self.outcomes
            .into_iter()
            .map(|outcome| outcome.map_err(CommandError::Refused))
            .collect()
    }

    /// The answers when nothing of the batch was stored. What was decided before the first event stands; what came
    /// after it stood on something that did not become true.
    pub fn answers_without_commit(self, error: &CommandError) -> Vec<Answer> {
        let stands = std::iter::once(0)
            .chain(self.marks)
            .map(|events_before| events_before == 0);
        let outcomes = self.outcomes.into_iter().zip(stands);
        let answer = |(outcome, stands): (Result<Outcome, DomainError>, bool)| match outcome {
            Ok(Outcome::Duplicate(record)) if stands => Ok(Outcome::Duplicate(record)),
            Ok(Outcome::Changed(None)) if stands => Ok(Outcome::Changed(None)),
            Err(refused) if stands => Err(CommandError::Refused(refused)),
            _ => Err(error.clone()),
        };
        outcomes.map(answer).collect()
    }

    /// The answers when another writer was there, or may have been: what is stored under a command's own key is
    /// answered as stored, the rest is to be asked again. A seq is never tried twice (B06).
    pub fn answers_after_reload<'c>(self, commands: impl Iterator<Item = &'c Command>, facts: &Facts) -> Vec<Answer> {
        let stored = |command: &Command| match command {
            Command::Send(send) => {
                let key = (send.origin.principal, send.client_message_id.clone());
                facts
                    .keys
                    .get(&key)
                    .and_then(Option::as_ref)
                    .map(|record| crate::domain::decide::repeat(send, record))
            }
            _ => None,
        };
        let answers = self.answers_without_commit(&CommandError::Unavailable);
        commands
            .zip(answers)
            .map(|(command, answer)| stored(command).map_or(answer, |found| found.map_err(Into::into)))
            .collect()
    }

    /// Events and the answers of sessions, interleaved as the conversation produced them.
    pub fn steps(events: Vec<Event>, marks: &[usize], answers: &[(Option<super::SessionReply>, Answer)]) -> Vec<Step> {
        let mut steps = Vec::with_capacity(events.len() + answers.len());
        let mut events = events.into_iter().enumerate().peekable();
        for (mark, (session, answer)) in marks.iter().zip(answers) {
            while let Some((_, event)) = events.next_if(|(at, _)| at < mark) {
                steps.push(Step::Event(event));
            }
            if let Some(session) = session {
                steps.push(Step::Answer(*session, answer.clone()));
            }
        }
        steps.extend(events.map(|(_, event)| Step::Event(event)));
        steps
    }
}

/// The keys that a batch uses: what has to be looked up before it can be answered after a conflict.
pub fn keys_of<'c>(commands: impl Iterator<Item = &'c Command>) -> Vec<(Principal, ClientMessageId)> {
    let key = |command: &Command| match command {
        Command::Send(send) => Some((send.origin.principal, send.client_message_id.clone())),
        _ => None,
    };
    commands.filter_map(key).collect()
}

/// Bytes of content that a command brings.
pub fn weight(command: &Command) -> usize {
    match command {
        Command::Send(send) => send.content.as_str().len(),
        Command::Create(create) => create.members.len() * size_of::<Principal>(),
        Command::AddMembers { members, .. } => members.len() * size_of::<Principal>(),
        Command::RemoveMember { .. } => 0,
    }
}

/// What this process has not told its sessions yet: everything between the state that it told last and the one that
/// it found in the store. `own` are the events of its own batch whose outcome was unknown: they name the devices
/// that are spared.
pub fn missed(
    told: &Conversation,
    found: &Conversation,
    messages: Vec<Message>,
    changes: Vec<Change>,
    own: &[Event],
) -> Vec<Event> {
    let mut spared_by_message: HashMap<MessageId, Option<DeviceId>> = HashMap::new();
    let mut spared_by_change: HashMap<ChangeSeq, (&Change, Option<DeviceId>)> = HashMap::new();
    for event in own {
        match event {
            Event::MessageSent { message, device } => {
                spared_by_message.insert(message.message_id, device.clone());
            }
            Event::Changed { change, device } => {
                spared_by_change.insert(change.change_seq, (change, device.clone()));
            }
            _ => {}
        }
    }
    let mut gone: Vec<Principal> = told
        .members
        .keys()
        .filter(|who| !found.members.contains_key(who))
        .copied()
        .collect();
    gone.sort_unstable();
    let mut events: Vec<Event> = gone
        .into_iter()
        .map(|principal| Event::MemberRemoved { principal, left: false })
        .collect();
    let mut new: Vec<_> = found
        .members
        .values()
        .filter(|m| !told.members.contains_key(&m.principal))
        .copied()
        .collect();
    new.sort_unstable_by_key(|member| member.principal);
    if !new.is_empty() {
        events.push(Event::MembersAdded { members: new });
    }
    events.extend(changes.into_iter().map(|change| {
        let ours = spared_by_change
            .remove(&change.change_seq)
            .filter(|(own, _)| **own == change);
        Event::Changed {
            device: ours.and_then(|(_, device)| device),
            change: Arc::new(change),
        }
    }));
    events.extend(messages.into_iter().map(|message| Event::MessageSent {
        device: spared_by_message.remove(&message.message_id).flatten(),
        message: Arc::new(message),
    }));
    events
}
