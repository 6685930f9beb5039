//! What sessions have missed: told from what is found in the store after a commit that went wrong, or after another writer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::messages::{Answer, SessionReply, Step};
use crate::domain::{
    Change, ChangeSeq, Conversation, DeviceId, Event, Member, Message, MessageId, Outcome, Principal, Touchable,
    visibility,
};

/// What this process has not told its sessions yet: everything between the state that it told last and the one that
/// it found in the store. `own` are the events of its own batch whose outcome was unknown: they name the devices
/// that are spared.
pub(super) fn missed(
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
pub(super) fn beside_their_messages<'a>(
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
    use super::super::batch::tests::{ANN, BOB, CY, add, carry_out, group, remove, send};
    use super::*;
    use crate::domain::{Command, Seq};

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
}
