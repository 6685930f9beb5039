//! The pure part of the writer: what to ask the store first, what a batch becomes, what follows from a commit that
//! went wrong. No actor, no wait: the simulation runs exactly this code.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::messages::{Answer, CommandError, SessionReply, Step};
use crate::domain::{
    Batch, Change, ChangeSeq, ClientMessageId, Command, Context, Conversation, ConversationId, DeviceId, DomainError,
    Draft, Event, Fact, Facts, Member, Message, MessageId, Outcome, Personal, Principal, Refusal, Timestamp, Touch,
    Touchable, visibility,
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
        Command::AddMembers { members, .. } => members.len() * size_of::<Principal>(),
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
        Command::Touch { .. }
        | Command::RemoveMember { .. }
        | Command::Update { .. }
        | Command::SetRole { .. }
        | Command::Dissolve { .. }
        | Command::Personal { .. } => 0,
    }
}

/// What this process has not told its sessions yet: everything between the state that it told last and the one that
/// it found in the store. `own` are the events of its own batch whose outcome was unknown: they name the devices
/// that are spared.
pub fn missed(
    told: &Conversation,
    found: &Conversation,
    messages: Vec<Message>,
    changes: Vec<(Change, Option<Touchable>)>,
    own: &[Event],
) -> Vec<Event> {
    let mut spared_by_message: HashMap<MessageId, Option<DeviceId>> = HashMap::new();
    let mut spared_by_change: HashMap<ChangeSeq, (&Change, Option<DeviceId>)> = HashMap::new();
    // What the other one of a pair is told of stands before its change, and in no log.
    let mut reads: HashMap<ChangeSeq, Event> = HashMap::new();
    let mut read = None;
    for event in own {
        match event {
            Event::MessageSent { message, device } => {
                spared_by_message.insert(message.message_id, device.clone());
            }
            Event::Changed { change, device, .. } => {
                spared_by_change.insert(change.change_seq, (change, device.clone()));
                reads.extend(read.take().map(|read| (change.change_seq, read)));
            }
            Event::ReadMoved { .. } => read = Some(event.clone()),
            _ => {}
        }
    }
    // Who left and came back in between is both: what was said meanwhile is not for them (INV-VIS-1).
    let stayed = |one: &Member, other: Option<Member>| other.is_some_and(|other| other.joined_seq == one.joined_seq);
    let mut gone: Vec<Principal> = told
        .members
        .iter()
        .filter(|member| !stayed(member, found.members.get(member.principal)))
        .map(|member| member.principal)
        .collect();
    gone.sort_unstable();
    let mut events: Vec<Event> = gone
        .into_iter()
        .map(|principal| Event::MemberRemoved { principal, left: false })
        .collect();
    events.extend(changes.into_iter().flat_map(|(change, subject)| {
        let ours = spared_by_change
            .remove(&change.change_seq)
            .filter(|(own, _)| **own == change);
        let read = reads.remove(&change.change_seq).filter(|_| ours.is_some());
        let changed = Event::Changed {
            device: ours.and_then(|(_, device)| device),
            change: Arc::new(change),
            hidden_from: subject.as_ref().map_or_else(Vec::new, |subject| {
                let (members, seq) = (found.members.iter(), subject.annotated.message.seq);
                visibility::blind_to(&found.header, members, seq, &subject.hidden_for)
            }),
            message: subject.map(|subject| Arc::new(subject.annotated)),
        };
        read.into_iter().chain(std::iter::once(changed))
    }));
    let mut new: Vec<Member> = found
        .members
        .iter()
        .filter(|member| !stayed(member, told.members.get(member.principal)))
        .collect();
    new.sort_unstable_by_key(|member| (member.joined_seq, member.principal));
    let mut new = new.into_iter().peekable();
    for message in messages {
        // Members from here on: they see nothing of what was said before they came.
        let members: Vec<Member> =
            std::iter::from_fn(|| new.next_if(|member| member.joined_seq <= message.seq)).collect();
        if !members.is_empty() {
            events.push(Event::MembersAdded { members });
        }
        events.push(Event::MessageSent {
            device: spared_by_message.remove(&message.message_id).flatten(),
            message: Arc::new(message),
        });
    }
    let members: Vec<Member> = new.collect();
    if !members.is_empty() {
        events.push(Event::MembersAdded { members });
    }
    events
}

/// What was found after a commit that went wrong, each message followed by the answers of sessions that are about it:
/// an answer never comes after something that the conversation produced later. Answers about nothing of it are last.
pub fn beside_their_messages<'a>(
    found: Vec<Event>,
    answers: impl Iterator<Item = (Option<SessionReply>, &'a Answer)>,
) -> Vec<Step> {
    let mut about: HashMap<Option<MessageId>, Vec<Step>> = HashMap::new();
    let there: HashSet<MessageId> = found.iter().filter_map(message_of).collect();
    for (session, answer) in answers {
        let Some(session) = session else { continue };
        let message = match answer {
            Ok(Outcome::Sent(message)) => Some(message.message_id),
            Ok(Outcome::Duplicate(record)) => Some(record.message_id),
            _ => None,
        };
        let message = message.filter(|id| there.contains(id));
        about
            .entry(message)
            .or_default()
            .push(Step::Answer(session, answer.clone()));
    }
    let mut steps = Vec::new();
    for event in found {
        let answers = message_of(&event).and_then(|id| about.remove(&Some(id)));
        steps.push(Step::Event(event));
        steps.extend(answers.into_iter().flatten());
    }
    steps.extend(about.into_values().flatten());
    steps
}

fn message_of(event: &Event) -> Option<MessageId> {
    match event {
        Event::MessageSent { message, .. } => Some(message.message_id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        Adding, Content, Create, DeviceId, HistoryVisibility, Kind, MessageType, Origin, Posting, Send, Seq, chain,
    };

    const ANN: Principal = Principal::user(1);
    const BOB: Principal = Principal::user(2);
    const CY: Principal = Principal::user(3);

    fn by(principal: Principal) -> Origin {
        let device = Some(DeviceId::parse("phone").unwrap());
        Origin { principal, device }
    }

    fn send(sender: Principal, key: &str) -> Command {
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

    fn remove(actor: Principal, target: Principal) -> Command {
        let origin = by(actor);
        Command::RemoveMember { origin, target }
    }

    fn add(actor: Principal, member: Principal) -> Command {
        let (origin, members) = (by(actor), vec![member]);
        Command::AddMembers { origin, members }
    }

    /// Carries commands out, one batch each; gives the events.
    fn carry_out(state: &mut Option<Conversation>, commands: &[Command]) -> Vec<Event> {
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

    fn group() -> Option<Conversation> {
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

    /// What is told of `commands`, in short, to a process that missed all of them.
    fn told_of(commands: &[Command]) -> Vec<String> {
        let mut state = group();
        let before = state.clone().unwrap();
        let events = carry_out(&mut state, commands);
        let (mut messages, mut changes) = (Vec::new(), Vec::new());
        for event in &events {
            match event {
                Event::MessageSent { message, .. } => messages.push(Message::clone(message)),
                Event::Changed { change, .. } => changes.push((Change::clone(change), None)),
                _ => {}
            }
        }
        let told = missed(&before, state.as_ref().unwrap(), messages, changes, &[]);
        let tell = |event: &Event| match event {
            Event::MemberRemoved { principal, .. } => format!("gone {principal}"),
            Event::MembersAdded { members } => format!("new {} at {}", members[0].principal, members[0].joined_seq),
            Event::Changed { change, .. } => format!("change {}", change.change_seq),
            Event::MessageSent { message, device } => format!("message {} {}", message.seq, device.is_some()),
            other => panic!("{other:?}"),
        };
        told.iter().map(tell).collect()
    }

    #[test]
    fn who_joined_in_the_gap_is_told_nothing_of_before() {
        let told = told_of(&[send(ANN, "secret"), add(ANN, CY), send(ANN, "hello")]);
        assert_eq!(
            told,
            [
                "change 1",
                "message 2 false",
                "new USER:3 at 3",
                "message 3 false",
                "message 4 false"
            ]
        );
    }

    #[test]
    fn who_left_and_came_back_in_the_gap_is_told_nothing_of_meanwhile() {
        let told = told_of(&[remove(ANN, BOB), send(ANN, "secret"), add(ANN, BOB)]);
        let expected = [
            "gone USER:2",
            "change 1",
            "change 2",
            "message 2 false",
            "message 3 false",
            "new USER:2 at 4",
            "message 4 false",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn who_left_in_the_gap_is_told_nothing_more() {
        assert_eq!(told_of(&[send(ANN, "a"), remove(ANN, BOB)])[0], "gone USER:2");
    }

    #[test]
    fn own_messages_found_after_an_unknown_outcome_spare_their_device() {
        let mut state = group();
        let before = state.clone().unwrap();
        let own = carry_out(&mut state, &[send(BOB, "k")]);
        let [Event::MessageSent { message, .. }] = own.as_slice() else {
            panic!("{own:?}")
        };
        let told = missed(
            &before,
            state.as_ref().unwrap(),
            vec![Message::clone(message)],
            Vec::new(),
            &own,
        );
        assert!(matches!(&told[..], [Event::MessageSent { device: Some(_), message }] if message.seq == Seq::new(2)));
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
