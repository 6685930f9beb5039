//! The judges. They look at the recorded history and the final store only, and use nothing of the domain: numbers,
//! hashes and memberships are computed anew from what is documented.

use std::collections::{BTreeMap, BTreeSet};

use onescribe::storage::memory::Fault;
use sha2::{Digest as _, Sha256};

use crate::history::{Attempt, Payload, Reply, StoredMessage, Told, What};
use crate::snapshot::Stored;
use crate::world::Run;

/// What is wrong, and which invariant it breaks.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) invariant: &'static str,
    pub(crate) text: String,
}

/// Collects what one judge finds.
pub(crate) struct Findings {
    invariant: &'static str,
    pub(crate) list: Vec<Finding>,
}

impl Findings {
    pub(crate) fn of(invariant: &'static str) -> Self {
        Self {
            invariant,
            list: Vec::new(),
        }
    }

    pub(crate) fn unless(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.list.push(Finding {
                invariant: self.invariant,
                text: text(),
            });
        }
    }
}

/// Everything that is wrong with a run.
pub(crate) fn judge(run: &Run) -> Vec<Finding> {
    let judges: [fn(&Run) -> Findings; 16] = [
        every_request_is_answered,
        seqs_have_no_hole,
        what_was_acked_is_stored,
        streams_are_in_order,
        what_is_told_is_stored,
        a_key_has_one_message,
        commits_are_fenced,
        changes_have_no_hole,
        counts_are_right,
        the_chain_holds,
        crate::changes::messages_are_what_the_log_says,
        crate::changes::headers_are_what_the_log_says,
        crate::changes::who_changed_it_was_allowed_to,
        crate::membership::members_are_what_was_said,
        crate::membership::nothing_reaches_who_is_no_member,
        crate::filing::files_are_those_of_standing_messages,
    ];
    judges.into_iter().flat_map(|judge| judge(run).list).collect()
}

fn stored(run: &Run, conversation: i64) -> Option<&Stored> {
    run.stored.iter().find(|stored| stored.conversation == conversation)
}

fn message(run: &Run, conversation: i64, seq: i64) -> Option<&StoredMessage> {
    stored(run, conversation)?
        .messages
        .iter()
        .find(|message| message.seq == seq)
}

fn every_request_is_answered(run: &Run) -> Findings {
    let mut found = Findings::of("ANSWERED");
    found.unless(run.all_answered, || "somebody waits for ever".to_owned());
    found
}

fn seqs_have_no_hole(run: &Run) -> Findings {
    let mut found = Findings::of("INV-SEQ-1");
    let mut ids = BTreeSet::new();
    for place in &run.stored {
        for (message, expected) in place.messages.iter().zip(1..) {
            found.unless(message.seq == expected, || {
                format!("{}: seq {} where {expected} is due", place.conversation, message.seq)
            });
            found.unless(ids.insert(message.message_id), || {
                format!("message_id {} twice", message.message_id)
            });
        }
        let last = place.messages.last().map_or(0, |message| message.seq);
        found.unless(place.last_seq == last, || {
            format!(
                "{}: the head says {}, the newest message is {last}",
                place.conversation, place.last_seq
            )
        });
    }
    found
}

fn what_was_acked_is_stored(run: &Run) -> Findings {
    let mut found = Findings::of("INV-SEQ-2");
    for answered in &run.history.answered {
        let asked = &run.history.asked[answered.request];
        let place = stored(run, asked.conversation);
        match &answered.reply {
            Reply::Sent {
                message_id,
                seq,
                sent_at,
                ..
            } => {
                let there = message(run, asked.conversation, *seq);
                let same = there.is_some_and(|there| {
                    let key = matches!(&asked.what, What::Send { key, .. } if there.key.as_ref() == Some(key));
                    key && there.message_id == *message_id && there.sent_at == *sent_at && there.sender == asked.who
                });
                found.unless(same, || {
                    format!("{asked:?} was answered {:?}, stored is {there:?}", answered.reply)
                });
            }
            Reply::Changed {
                change_seq: Some(change_seq),
            } => {
                let there =
                    place.and_then(|place| place.changes.iter().find(|change| change.change_seq == *change_seq));
                found.unless(there.is_some_and(|change| change.actor == asked.who), || {
                    format!("{asked:?} was answered {:?}, stored is {there:?}", answered.reply)
                });
            }
            Reply::Created => found.unless(place.is_some(), || format!("{asked:?} was answered, nothing is stored")),
            _ => {}
        }
    }
    found
}

/// INV-SEQ-3: one life of a writer tells every message and every change once and without a gap; the lives of one node
/// go on where the one before was, or later.
fn streams_are_in_order(run: &Run) -> Findings {
    let mut found = Findings::of("INV-SEQ-3");
    let mut told_by_node: BTreeMap<(i64, usize, u32), (i64, i64)> = BTreeMap::new();
    for (stream, told) in &run.history.streams {
        let node = told_by_node
            .entry((stream.conversation, stream.node, stream.life))
            .or_default();
        let (mut seq, mut change_seq) = (None, None);
        for step in told {
            match step {
                Told::Message { message, .. } => {
                    let due = seq.map_or(message.seq > node.0, |seq: i64| message.seq == seq + 1);
                    found.unless(due, || {
                        format!("{stream:?}: seq {} was told after {seq:?}", message.seq)
                    });
                    seq = Some(message.seq);
                    node.0 = message.seq;
                }
                Told::Change(change, _) => {
                    let due = change_seq.map_or(change.change_seq > node.1, |last: i64| change.change_seq == last + 1);
                    found.unless(due, || {
                        format!("{stream:?}: change {} was told after {change_seq:?}", change.change_seq)
                    });
                    change_seq = Some(change.change_seq);
                    node.1 = change.change_seq;
                }
                Told::Answer(Reply::Sent {
                    seq: acked,
                    repeat: false,
                    ..
                }) => {
                    found.unless(seq.is_some_and(|seq| seq >= *acked), || {
                        format!("{stream:?}: the answer with seq {acked} overtook what was told up to {seq:?}")
                    });
                }
                _ => {}
            }
        }
    }
    found
}

/// What was told of a message is the message, and its words of that moment.
fn words_agree(told: &StoredMessage, stored: &StoredMessage) -> bool {
    let untouched = sha256(&[told.content.as_bytes()]) == told.content_hash;
    let words = match told.change_seq {
        0 => untouched,
        now if now == stored.change_seq => told.content == stored.content && told.status == stored.status,
        earlier => earlier < stored.change_seq,
    };
    words && told.is_same(stored)
}

fn what_is_told_is_stored(run: &Run) -> Findings {
    let mut found = Findings::of("INV-SEQ-2");
    let mut told_messages: BTreeSet<i64> = BTreeSet::new();
    for (stream, told) in &run.history.streams {
        for step in told {
            match step {
                Told::Message {
                    message: told,
                    stored: durable,
                } => {
                    let there = message(run, stream.conversation, told.seq);
                    told_messages.insert(told.message_id);
                    found.unless(*durable, || {
                        format!("{stream:?}: seq {} was told before it was stored", told.seq)
                    });
                    found.unless(there.is_some_and(|there| words_agree(told, there)), || {
                        format!("{stream:?}: told {told:?}, stored is {there:?}")
                    });
                }
                Told::Change(change, about) => {
                    let there = stored(run, stream.conversation).is_some_and(|place| place.changes.contains(change));
                    found.unless(there, || format!("{stream:?}: told {change:?}, which is not stored"));
                    if let Some(told) = about {
                        let there = message(run, stream.conversation, told.seq);
                        let agrees = there.is_some_and(|there| words_agree(told, there))
                            && change.message_id == Some(told.message_id)
                            && told.change_seq >= change.change_seq;
                        found.unless(agrees, || {
                            format!("{stream:?}: told {change:?} of {told:?}, stored is {there:?}")
                        });
                    }
                }
                _ => {}
            }
        }
    }
    if run.one_lasting_owner {
        everything_is_told(run, &told_messages, &mut found);
    }
    found
}

/// But for what landed when nobody waited for it any more: the next write finds it.
fn everything_is_told(run: &Run, told: &BTreeSet<i64>, found: &mut Findings) {
    let late = |attempt: &&Attempt| matches!(attempt.fault, Fault::UnknownStoredLater(_));
    let late: BTreeSet<i64> = run
        .history
        .attempts
        .iter()
        .filter(late)
        .flat_map(|attempt| attempt.messages.iter().map(|(id, _)| *id))
        .collect();
    for place in &run.stored {
        for message in &place.messages {
            found.unless(
                told.contains(&message.message_id) || late.contains(&message.message_id),
                || format!("{}: seq {} was never told", place.conversation, message.seq),
            );
        }
    }
}

/// INV-IDEM-1: one message per key for ever, and every answer about the key agrees with it.
fn a_key_has_one_message(run: &Run) -> Findings {
    let mut found = Findings::of("INV-IDEM-1");
    let mut by_key: BTreeMap<(i64, (i16, i64), &str), &StoredMessage> = BTreeMap::new();
    for place in &run.stored {
        for message in &place.messages {
            let Some(key) = &message.key else { continue };
            let earlier = by_key.insert((place.conversation, message.sender, key), message);
            found.unless(earlier.is_none(), || {
                format!("{key} of {:?} is stored twice", message.sender)
            });
        }
    }
    let mut acked_at: BTreeMap<i64, u64> = BTreeMap::new();
    for answered in &run.history.answered {
        let asked = &run.history.asked[answered.request];
        let What::Send { key, payload } = &asked.what else {
            continue;
        };
        let there = by_key.get(&(asked.conversation, asked.who, key.as_str())).copied();
        let acked_before = there
            .and_then(|there| acked_at.get(&there.message_id))
            .is_some_and(|at| *at < asked.at);
        let same = there.is_some_and(|there| is_payload_of(there, payload));
        let agrees = match &answered.reply {
            Reply::Sent { message_id, .. } => same && there.is_some_and(|there| there.message_id == *message_id),
            Reply::KeyReused { original } => !same && there.is_some_and(|there| there.message_id == *original),
            // Who has seen the answer once never gets a refusal for the same key.
            Reply::Refused(_) => !acked_before,
            Reply::Retry(_) => true,
            Reply::Created | Reply::Changed { .. } => false,
        };
        found.unless(agrees, || {
            format!("{asked:?} was answered {:?}, stored is {there:?}", answered.reply)
        });
        if let Reply::Sent { message_id, .. } = answered.reply {
            acked_at.entry(message_id).or_insert(answered.at);
        }
    }
    one_conversation_per_creation_key(run, &mut found);
    found
}

/// What was first sent, whatever became of the words.
fn is_payload_of(message: &StoredMessage, payload: &Payload) -> bool {
    message.message_type == payload.message_type
        && message.quoted == payload.quoted
        && message.content_hash == sha256(&[payload.content.as_bytes()])
}

fn one_conversation_per_creation_key(run: &Run, found: &mut Findings) {
    let mut by_key: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for asked in &run.history.asked {
        if let What::Create {
            creation_key: Some(key),
        } = &asked.what
            && stored(run, asked.conversation).is_some()
        {
            by_key.entry(key).or_default().insert(asked.conversation);
        }
    }
    for (key, places) in by_key {
        found.unless(places.len() == 1, || format!("the creation key {key} made {places:?}"));
    }
}

/// INV-OWN-1: a commit is stored whole or not at all, and only on the counters that it was decided on: there is an order
/// of commits, each on what the one before left, that brings everything that is stored.
fn commits_are_fenced(run: &Run) -> Findings {
    let mut found = Findings::of("INV-OWN-1");
    for place in &run.stored {
        let seqs: BTreeMap<i64, i64> = place
            .messages
            .iter()
            .map(|message| (message.message_id, message.seq))
            .collect();
        let is_there = |(id, seq): &(i64, i64)| seqs.get(id) == Some(seq);
        let mut by_counters: BTreeMap<Option<(i64, i64)>, Vec<&Attempt>> = BTreeMap::new();
        let mut landed = 0;
        let here = run.history.attempts.iter();
        for attempt in here.filter(|attempt| attempt.conversation == place.conversation) {
            let there = attempt.messages.iter().filter(|message| is_there(message)).count();
            let all_changes = attempt.changes.iter().all(|change| place.changes.contains(change));
            found.unless(there == 0 || (there == attempt.messages.len() && all_changes), || {
                format!("half of it is stored: {attempt:?}")
            });
            // No message_id is given twice, so one message tells. A commit without any may be a twin of one that landed:
            // two nodes can decide the same at the same moment.
            if there > 0 || (attempt.messages.is_empty() && all_changes) {
                by_counters.entry(attempt.expected).or_default().push(attempt);
                landed += usize::from(there > 0);
            }
        }
        let end = (place.last_seq, place.last_change_seq);
        found.unless(leads_to(end, None, landed, &by_counters), || {
            format!(
                "{}: no order of these commits leads to {end:?}: {by_counters:?}",
                place.conversation
            )
        });
    }
    found
}

/// Do commits lead from these counters to the end, `landed` of them with messages?
fn leads_to(
    end: (i64, i64),
    head: Option<(i64, i64)>,
    landed: usize,
    by_counters: &BTreeMap<Option<(i64, i64)>, Vec<&Attempt>>,
) -> bool {
    if head == Some(end) && landed == 0 {
        return true;
    }
    let next = by_counters.get(&head).into_iter().flatten();
    next.into_iter().any(|attempt| {
        let (seq, change_seq) = head.unwrap_or_default();
        let after = (
            attempt.messages.last().map_or(seq, |(_, seq)| *seq),
            attempt.changes.last().map_or(change_seq, |change| change.change_seq),
        );
        let brings = usize::from(!attempt.messages.is_empty());
        head != Some(after) && landed >= brings && leads_to(end, Some(after), landed - brings, by_counters)
    })
}

fn changes_have_no_hole(run: &Run) -> Findings {
    let mut found = Findings::of("INV-CHG-1");
    for place in &run.stored {
        for (change, expected) in place.changes.iter().zip(1..) {
            found.unless(change.change_seq == expected, || {
                format!(
                    "{}: change {} where {expected} is due",
                    place.conversation, change.change_seq
                )
            });
        }
        let last = place.changes.last().map_or(0, |change| change.change_seq);
        found.unless(place.last_change_seq == last, || {
            format!(
                "{}: the head says {}, the newest change is {last}",
                place.conversation, place.last_change_seq
            )
        });
    }
    found
}

/// The basis of INV-UNREAD-1: SYSTEM messages do not count.
fn counts_are_right(run: &Run) -> Findings {
    let mut found = Findings::of("COUNT-NO");
    for place in &run.stored {
        let mut count_no = 0;
        for message in &place.messages {
            count_no += i64::from(message.sender.0 != 3);
            found.unless(message.count_no == count_no, || {
                format!(
                    "{}: seq {} has count_no {}, not {count_no}",
                    place.conversation, message.seq, message.count_no
                )
            });
        }
        found.unless(place.last_count_no == count_no, || {
            format!("{}: the head counts wrong", place.conversation)
        });
    }
    found
}

fn the_chain_holds(run: &Run) -> Findings {
    let mut found = Findings::of("CHAIN");
    for place in &run.stored {
        let mut chain = sha256(&[b"onescribe/chain/1", &place.conversation.to_be_bytes()]);
        for message in &place.messages {
            let content_hash = sha256(&[message.content.as_bytes()]);
            found.unless(message.content_hash == content_hash || message.change_seq > 0, || {
                format!(
                    "{}: the content of seq {} is not what was hashed",
                    place.conversation, message.seq
                )
            });
            chain = link(&chain, message);
            found.unless(message.chain_hash == chain, || {
                format!("{}: the chain breaks at seq {}", place.conversation, message.seq)
            });
        }
        found.unless(place.chain_hash == chain, || {
            format!("{}: the head has another chain_hash", place.conversation)
        });
    }
    found
}

fn link(previous: &[u8; 32], message: &StoredMessage) -> [u8; 32] {
    let key = message.key.as_deref().unwrap_or_default();
    sha256(&[
        previous,
        &message.seq.to_be_bytes(),
        &message.message_id.to_be_bytes(),
        &u8::try_from(message.sender.0).unwrap().to_be_bytes(),
        &message.sender.1.to_be_bytes(),
        &u32::try_from(key.len()).unwrap().to_be_bytes(),
        key.as_bytes(),
        &u32::try_from(message.message_type.len()).unwrap().to_be_bytes(),
        message.message_type.as_bytes(),
        &message.content_hash,
        &message.sent_at.to_be_bytes(),
    ])
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}
