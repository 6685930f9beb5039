//! The pure part of the writer: what to ask the store first, what a batch becomes, what follows from a commit that
//! went wrong. No actor, no wait: the simulation runs exactly this code.

use super::messages::{Answer, CommandError, SessionReply, Step};
use crate::domain::{
    Batch, ClientMessageId, Command, Context, Conversation, ConversationId, DomainError, Draft, Event, Fact, Facts,
    MessageId, Outcome, Personal, Principal, Refusal, Timestamp, Touch,
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
            Ok(nothing) if stands && nothing.is_unchanged() => Ok(nothing),
            Err(refused) if stands => Err(CommandError::Refused(refused)),
            _ => Err(error.clone()),
        };
        outcomes.map(answer).collect()
    }

    /// The answers when another writer was there, or may have been: what is stored under a command's own key is
    /// answered as stored, the rest is to be asked again. A seq is never tried twice (B06).
    pub fn answers_after_reload<'c>(self, commands: impl Iterator<Item = &'c Command>, facts: &Facts) -> Vec<Answer> {
        let stored = |command: &Command| match command {
            Command::Send(send) | Command::SendFor(send) => {
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
    pub fn steps(events: Vec<Event>, marks: &[usize], answers: &[(Option<SessionReply>, Answer)]) -> Vec<Step> {
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
        Command::Send(send) | Command::SendFor(send) => Some((send.origin.principal, send.client_message_id.clone())),
        _ => None,
    };
    commands.filter_map(key).collect()
}

/// Bytes of content that a command brings.
pub fn weight(command: &Command) -> usize {
    match command {
        Command::Send(send) | Command::SendFor(send) => send.content.as_str().len(),
        Command::Create(create) => create.members.len() * size_of::<Principal>(),
        Command::AddMembers { members, .. } | Command::Invite { members, .. } => members.len() * size_of::<Principal>(),
        Command::Touch {
            touch: Touch::Edit(content),
            ..
        } => content.as_str().len(),
        Command::Personal {
            act: Personal::Set {
                payload: Some(payload), ..
            },
            ..
        } => payload.as_str().len(),
        Command::Notify(notify) => {
            notify.text.as_ref().map_or(0, String::len)
                + notify.payload.as_ref().map_or(0, |payload| payload.as_str().len())
        }
        Command::Conclude(_)
        | Command::Join { .. }
        | Command::HeedBlocks
        | Command::Touch { .. }
        | Command::RemoveMember { .. }
        | Command::Update { .. }
        | Command::SetRole { .. }
        | Command::Dissolve { .. }
        | Command::Personal { .. } => 0,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::domain::{
        Adding, Content, Create, DeviceId, HistoryVisibility, Kind, MessageType, Origin, Posting, Send, chain,
    };

    pub(crate) const ANN: Principal = Principal::user(1);
    pub(crate) const BOB: Principal = Principal::user(2);
    pub(crate) const CY: Principal = Principal::user(3);

    pub(crate) fn by(principal: Principal) -> Origin {
        let device = Some(DeviceId::parse("phone").unwrap());
        Origin { principal, device }
    }

    pub(crate) fn send(sender: Principal, key: &str) -> Command {
        Command::Send(Send {
            origin: by(sender),
            client_message_id: ClientMessageId::parse(key).unwrap(),
            message_type: MessageType::Text,
            content: Content::trusted("{}"),
            content_hash: chain::content_hash("{}"),
            quoted_message_id: None,
            expected_last_seq: None,
        })
    }

    pub(crate) fn remove(actor: Principal, target: Principal) -> Command {
        let origin = by(actor);
        Command::RemoveMember { origin, target }
    }

    pub(crate) fn add(actor: Principal, member: Principal) -> Command {
        let (origin, members) = (by(actor), vec![member]);
        Command::AddMembers { origin, members }
    }

    /// Carries commands out, one batch each; gives the events.
    pub(crate) fn carry_out(state: &mut Option<Conversation>, commands: &[Command]) -> Vec<Event> {
        let mut all = Vec::new();
        for command in commands {
            let seq = state.as_ref().map_or(0, |state| state.head.last_seq.get());
            let mut id = 100 * (seq + 1);
            let mut next_id = || {
                id += 1;
                Ok(MessageId::new(id).unwrap())
            };
            let conversation_id = ConversationId::new(7).unwrap();
            let (facts, now) = (Facts::default(), Timestamp::from_millis(1));
            let commands = std::iter::once(command);
            let plan = plan(conversation_id, state.as_ref(), commands, &facts, now, &mut next_id);
            let Plan::Ready(Planned { batch: Some(batch), .. }) = plan else {
                panic!("{command:?} led to {plan:?}");
            };
            for event in &batch.events {
                Conversation::apply(state, event);
            }
            all.extend(batch.events);
        }
        all
    }

    pub(crate) fn group() -> Option<Conversation> {
        let mut state = None;
        let create = Create {
            origin: by(ANN),
            kind: Kind::Group,
            title: Some("room".to_owned()),
            members: vec![BOB],
            creation_key: None,
            history_visibility: HistoryVisibility::Joined,
            posting: Posting::All,
            adding: Adding::Admins,
        };
        carry_out(&mut state, &[Command::Create(create)]);
        state
    }

    #[test]
    fn of_an_uncommitted_batch_only_what_stood_before_it_is_answered() {
        let state = group();
        let facts = Facts {
            keys: HashMap::from([((CY, ClientMessageId::parse("x").unwrap()), None)]),
            ..Facts::default()
        };
        let mut next_id = || Ok(MessageId::new(5).unwrap());
        let commands = [
            add(ANN, BOB),
            send(CY, "x"),
            send(ANN, "k"),
            send(ANN, "k"),
            add(ANN, BOB),
        ];
        let id = ConversationId::new(7).unwrap();
        let plan = plan(
            id,
            state.as_ref(),
            commands.iter(),
            &facts,
            Timestamp::from_millis(1),
            &mut next_id,
        );
        let Plan::Ready(planned) = plan else { panic!("{plan:?}") };
        let answers = planned.answers_without_commit(&CommandError::Unavailable);
        assert_eq!(answers[0], Ok(Outcome::Changed(None)));
        assert_eq!(answers[1], Err(CommandError::Refused(DomainError::NotAMember)));
        assert!(
            answers[2..]
                .iter()
                .all(|answer| *answer == Err(CommandError::Unavailable)),
            "{answers:?}"
        );
    }
}
