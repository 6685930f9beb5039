//! The judges of belonging. Who was a member when is read off the SYSTEM messages.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::checks::Findings;
use crate::history::{StoredMessage, Told, Who};
use crate::snapshot::Stored;
use crate::world::Run;

/// Who came and went with which seq.
struct Timeline {
    /// From this seq on (the `member_added` itself is theirs), up to but without that one.
    spans: BTreeMap<Who, Vec<(i64, Option<i64>)>>,
    /// `(event, members)` of each membership message, in order.
    moves: Vec<(String, Vec<Who>)>,
}

impl Timeline {
    fn of(place: &Stored) -> Self {
        let mut timeline = Self {
            spans: BTreeMap::new(),
            moves: Vec::new(),
        };
        if !place.is_group {
            timeline.spans = place.members.keys().map(|member| (*member, vec![(0, None)])).collect();
            return timeline;
        }
        for message in place.messages.iter().filter(|message| message.sender.0 == 3) {
            let Ok(content) = serde_json::from_str::<Value>(&message.content) else {
                continue;
            };
            timeline.take(
                message.seq,
                content["event"].as_str().unwrap_or_default(),
                principals(&content["members"]),
            );
        }
        timeline
    }

    fn take(&mut self, seq: i64, event: &str, members: Vec<Who>) {
        for member in &members {
            let spans = self.spans.entry(*member).or_default();
            match event {
                "conversation_created" | "member_added" => spans.push((seq, None)),
                "member_removed" => {
                    if let Some(open) = spans.last_mut() {
                        open.1 = Some(seq);
                    }
                }
                _ => {}
            }
        }
        if matches!(event, "member_added" | "member_removed") {
            self.moves.push((event.to_uppercase(), members));
        }
    }

    fn is_member_at(&self, who: Who, seq: i64) -> bool {
        let spans = self.spans.get(&who).into_iter().flatten();
        spans
            .into_iter()
            .any(|(from, until)| *from <= seq && until.is_none_or(|until| seq < until))
    }

    fn members_at(&self, seq: i64) -> BTreeSet<Who> {
        self.spans
            .keys()
            .copied()
            .filter(|who| self.is_member_at(*who, seq))
            .collect()
    }
}

pub(crate) fn principals(list: &Value) -> Vec<Who> {
    let kind = |name: Option<&str>| match name {
        Some("USER") => 1,
        Some("AGENT") => 2,
        _ => 3,
    };
    let principal = |value: &Value| Some((kind(value["type"].as_str()), value["id"].as_str()?.parse().ok()?));
    list.as_array().into_iter().flatten().filter_map(principal).collect()
}

/// Members, their number, their roles, their changes and their read positions agree with what was said.
pub(crate) fn members_are_what_was_said(run: &Run) -> Findings {
    let mut found = Findings::of("MEMBERS");
    for place in &run.stored {
        let timeline = Timeline::of(place);
        let id = place.conversation;
        let present: BTreeSet<Who> = place.members.keys().copied().collect();
        let said = timeline.members_at(i64::MAX);
        found.unless(present == said, || {
            format!("{id}: members are {present:?}, said was {said:?}")
        });
        found.unless(usize::try_from(place.member_count) == Ok(present.len()), || {
            format!("{id}: wrong member_count")
        });
        for message in place.messages.iter().filter(|message| message.sender.0 != 3) {
            found.unless(timeline.is_member_at(message.sender, message.seq), || {
                format!(
                    "{id}: seq {} is by {:?}, who was no member",
                    message.seq, message.sender
                )
            });
        }
        let is_move = |kind: &str| kind.starts_with("MEMBER_") && kind != "MEMBER_UPDATED";
        let logged: Vec<(String, Vec<Who>)> = place
            .changes
            .iter()
            .filter(|change| is_move(&change.change_type))
            .map(|change| {
                (
                    change.change_type.clone(),
                    principals(&json(&change.payload)["members"]),
                )
            })
            .collect();
        found.unless(logged == timeline.moves, || {
            format!("{id}: logged {logged:?}, said {:?}", timeline.moves)
        });
        owner_is_one(place, &mut found);
        positions_are_in_range(place, &timeline, &mut found);
    }
    found
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn owner_is_one(place: &Stored, found: &mut Findings) {
    let owners: Vec<Who> = place
        .members
        .iter()
        .filter(|(_, member)| member.role == "OWNER")
        .map(|(who, _)| *who)
        .collect();
    // Who dissolves a group still owns it; the last one who leaves leaves it to nobody.
    let fits = if place.is_group && !place.members.is_empty() {
        owners.len() == 1 && place.owner == owners.first().copied()
    } else {
        owners.is_empty() && place.owner.is_none() && place.is_dissolved == place.is_group
    };
    found.unless(fits, || {
        format!(
            "{}: owners are {owners:?}, the header says {:?}",
            place.conversation, place.owner
        )
    });
}

/// INV-READ-1, and that who sends has read up to there.
fn positions_are_in_range(place: &Stored, timeline: &Timeline, found: &mut Findings) {
    for (who, member) in &place.members {
        let own = place
            .messages
            .iter()
            .rev()
            .find(|message| message.sender == *who)
            .map_or(0, |message| message.seq);
        let read = member.last_read_seq;
        found.unless(read >= own.max(member.joined_seq) && read <= place.last_seq, || {
            format!(
                "{}: {who:?} has read up to {read}, own seq {own}, head {}",
                place.conversation, place.last_seq
            )
        });
        let count_no = place
            .messages
            .iter()
            .find(|message| message.seq == read)
            .map_or(0, |message| message.count_no);
        found.unless(member.last_read_count_no == count_no, || {
            format!(
                "{}: {who:?} has last_read_count_no {}",
                place.conversation, member.last_read_count_no
            )
        });
        let joined = timeline
            .spans
            .get(who)
            .and_then(|spans| spans.last())
            .map(|(from, _)| *from);
        found.unless(joined == Some(member.joined_seq), || {
            format!(
                "{}: {who:?} has joined_seq {}, said was {joined:?}",
                place.conversation, member.joined_seq
            )
        });
    }
}

/// Whoever hears a node hears nothing with a seq at which they were no member. A writer that starts anew is taken to be
/// heard by the members of that moment.
pub(crate) fn nothing_reaches_who_is_no_member(run: &Run) -> Findings {
    let mut found = Findings::of("REMOVED");
    for (stream, told) in &run.history.streams {
        let Some(place) = run
            .stored
            .iter()
            .find(|place| place.conversation == stream.conversation)
        else {
            continue;
        };
        let timeline = Timeline::of(place);
        let first = told.iter().find_map(|step| match step {
            Told::Message { message, .. } => Some(message.seq),
            _ => None,
        });
        let mut listeners = first.map(|first| timeline.members_at(first - 1)).unwrap_or_default();
        for step in told {
            match step {
                Told::Born(members) => listeners = members.iter().copied().collect(),
                Told::Joined(members) => listeners.extend(members),
                Told::Left(member) => drop(listeners.remove(member)),
                Told::Message { message, .. } => hears(&listeners, message, &timeline, &mut found),
                Told::Change(..) | Told::Answer(_) => {}
            }
        }
    }
    found
}

fn hears(listeners: &BTreeSet<Who>, message: &StoredMessage, timeline: &Timeline, found: &mut Findings) {
    for listener in listeners {
        found.unless(timeline.is_member_at(*listener, message.seq), || {
            format!("{listener:?} hears seq {}, at which they are no member", message.seq)
        });
    }
}
