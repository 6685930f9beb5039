//! Tests of the checkers: a sound run is broken in one place, and the judge of that invariant has to say so.

use std::collections::BTreeMap;

use crate::checks::judge;
use crate::history::{Reply, Told, What};
use crate::seeds;
use crate::snapshot::Stored;
use crate::world::Run;

/// Breaks something; `None` = this run has nothing of the kind.
type Break = fn(&mut Run) -> Option<()>;

/// Where to look for a run that can be broken that way.
const SEEDS: u64 = 300;

fn assert_found(invariant: &str, name: &str, break_it: Break) {
    for seed in 0..SEEDS {
        let mut run = seeds::run(seed);
        if break_it(&mut run).is_some() {
            let findings = judge(&run);
            assert!(
                findings.iter().any(|found| found.invariant == invariant),
                "seed {seed}, {name}: not found by {invariant}, only {findings:?}"
            );
            return;
        }
    }
    panic!("{name}: no run could be broken that way");
}

macro_rules! breaks {
    ($($name:ident: $invariant:literal = $break_it:expr;)+) => { $(
        #[test]
        fn $name() {
            assert_found($invariant, stringify!($name), $break_it);
        }
    )+ };
}

/// A group in which enough was said.
fn place(run: &mut Run) -> Option<&mut Stored> {
    run.stored
        .iter_mut()
        .find(|place| place.is_group && place.messages.len() > 5 && place.changes.len() > 1)
}

/// A stream that told enough.
fn told(run: &mut Run) -> Option<&mut Vec<Told>> {
    let count = |told: &Vec<Told>| told.iter().filter(|step| matches!(step, Told::Message { .. })).count();
    run.history.streams.values_mut().find(|told| count(told) > 4)
}

/// The places of messages in a stream.
fn messages(told: &[Told]) -> Vec<usize> {
    (0..told.len())
        .filter(|at| matches!(told[*at], Told::Message { .. }))
        .collect()
}

/// An answer that gives a message, and which it is in the list.
fn ack(run: &Run) -> Option<usize> {
    run.history
        .answered
        .iter()
        .position(|answered| matches!(answered.reply, Reply::Sent { .. }))
}

breaks! {
    a_hole_in_the_numbers_is_found: "INV-SEQ-1" = |run| {
        place(run)?.messages.remove(2);
        Some(())
    };
    a_number_given_twice_is_found: "INV-SEQ-1" = |run| {
        let place = place(run)?;
        place.messages[3].seq = place.messages[2].seq;
        Some(())
    };
    a_message_id_given_twice_is_found: "INV-SEQ-1" = |run| {
        let place = place(run)?;
        place.messages[3].message_id = place.messages[2].message_id;
        Some(())
    };
    a_head_that_ran_ahead_is_found: "INV-SEQ-1" = |run| {
        place(run)?.last_seq += 1;
        Some(())
    };
    a_lost_ack_is_found: "INV-SEQ-2" = |run| {
        let at = ack(run)?;
        let Reply::Sent { message_id, .. } = run.history.answered[at].reply else { return None };
        for place in &mut run.stored {
            place.messages.retain(|message| message.message_id != message_id);
        }
        Some(())
    };
    an_ack_with_another_seq_is_found: "INV-SEQ-2" = |run| {
        let at = ack(run)?;
        let Reply::Sent { seq, .. } = &mut run.history.answered[at].reply else { return None };
        *seq += 1;
        Some(())
    };
    an_acked_change_that_is_not_stored_is_found: "INV-SEQ-2" = |run| {
        let changed = |reply: &Reply| matches!(reply, Reply::Changed { change_seq: Some(_) });
        let at = run.history.answered.iter().position(|answered| changed(&answered.reply))?;
        run.history.answered[at].reply = Reply::Changed { change_seq: Some(999) };
        Some(())
    };
    a_push_before_the_commit_is_found: "INV-SEQ-2" = |run| {
        let told = told(run)?;
        let at = messages(told)[1];
        let Told::Message { stored, .. } = &mut told[at] else { return None };
        *stored = false;
        Some(())
    };
    a_push_with_other_words_is_found: "INV-SEQ-2" = |run| {
        let told = told(run)?;
        let at = messages(told)[1];
        let Told::Message { message, .. } = &mut told[at] else { return None };
        message.content.push(' ');
        Some(())
    };
    a_push_that_never_came_is_found: "INV-SEQ-2" = |run| {
        if !run.one_lasting_owner {
            return None;
        }
        let told = told(run)?;
        told.truncate(*messages(told).last()?);
        Some(())
    };
    pushes_in_another_order_are_found: "INV-SEQ-3" = |run| {
        let told = told(run)?;
        let at = messages(told);
        told.swap(at[1], at[2]);
        Some(())
    };
    a_push_that_comes_twice_is_found: "INV-SEQ-3" = |run| {
        let told = told(run)?;
        let at = messages(told)[1];
        told.insert(at, told[at].clone());
        Some(())
    };
    a_gap_in_the_pushes_is_found: "INV-SEQ-3" = |run| {
        let told = told(run)?;
        let at = messages(told)[2];
        told.remove(at);
        Some(())
    };
    an_answer_that_overtakes_is_found: "INV-SEQ-3" = |run| {
        let told = told(run)?;
        let is_ack = |step: &Told| matches!(step, Told::Answer(Reply::Sent { repeat: false, .. }));
        let at = told.iter().position(is_ack)?;
        let ack = told.remove(at);
        told.insert(0, ack);
        Some(())
    };
    a_key_stored_twice_is_found: "INV-IDEM-1" = |run| {
        let place = place(run)?;
        let first = place.messages.iter().position(|message| message.key.is_some())?;
        let sender = place.messages[first].sender;
        let other = place.messages.iter().rposition(|message| message.sender == sender).filter(|other| *other != first)?;
        place.messages[other].key = place.messages[first].key.clone();
        Some(())
    };
    two_answers_about_one_key_are_found: "INV-IDEM-1" = |run| {
        let repeat = |reply: &Reply| matches!(reply, Reply::Sent { repeat: true, .. });
        let at = run.history.answered.iter().position(|answered| repeat(&answered.reply))?;
        let Reply::Sent { message_id, .. } = &mut run.history.answered[at].reply else { return None };
        *message_id += 1;
        Some(())
    };
    an_ack_for_other_words_is_found: "INV-IDEM-1" = |run| {
        let at = ack(run)?;
        let request = run.history.answered[at].request;
        let What::Send { payload, .. } = &mut run.history.asked[request].what else { return None };
        payload.content.push('!');
        Some(())
    };
    a_conflict_that_names_another_message_is_found: "INV-IDEM-1" = |run| {
        let reused = |reply: &Reply| matches!(reply, Reply::KeyReused { .. });
        let at = run.history.answered.iter().position(|answered| reused(&answered.reply))?;
        run.history.answered[at].reply = Reply::KeyReused { original: 1 };
        Some(())
    };
    a_refusal_after_the_ack_is_found: "INV-IDEM-1" = |run| {
        let mut acked: BTreeMap<(i64, String), u64> = BTreeMap::new();
        for at in 0..run.history.answered.len() {
            let answered = &run.history.answered[at];
            let request = &run.history.asked[answered.request];
            let (What::Send { key, .. }, Reply::Sent { .. }) = (&request.what, &answered.reply) else { continue };
            let key = (request.conversation, key.clone());
            if acked.get(&key).is_some_and(|at| *at < request.at) {
                run.history.answered[at].reply = Reply::Refused("NotAMember".to_owned());
                return Some(());
            }
            acked.entry(key).or_insert(answered.at);
        }
        None
    };
    two_conversations_of_one_creation_key_are_found: "INV-IDEM-1" = |run| {
        let place = run.stored.first()?.clone();
        let key = |asked: &crate::history::Asked| match &asked.what {
            What::Create { creation_key: Some(key) } => Some((asked.conversation, key.clone())),
            _ => None,
        };
        let asked: Vec<(i64, String)> = run.history.asked.iter().filter_map(key).collect();
        let (_, own) = asked.iter().find(|(id, _)| *id == place.conversation)?;
        let (rival, _) = asked.iter().find(|(id, key)| *id != place.conversation && key == own)?;
        run.stored.push(Stored { conversation: *rival, ..place });
        Some(())
    };
    a_commit_on_other_counters_is_found: "INV-OWN-1" = |run| {
        let conversation = place(run)?.conversation;
        let stored = place(run)?.messages.last()?.message_id;
        let attempt = run.history.attempts.iter_mut().find(|attempt| {
            attempt.conversation == conversation && attempt.messages.iter().any(|(id, _)| *id == stored)
        })?;
        attempt.expected = attempt.expected.map(|(seq, change_seq)| (seq - 1, change_seq));
        attempt.expected.map(drop)
    };
    half_a_commit_is_found: "INV-OWN-1" = |run| {
        let conversation = place(run)?.conversation;
        let ids: Vec<i64> = place(run)?.messages.iter().map(|message| message.message_id).collect();
        let attempt = run.history.attempts.iter_mut().find(|attempt| {
            attempt.conversation == conversation && attempt.messages.iter().any(|(id, _)| ids.contains(id))
        })?;
        attempt.messages.push((1, 1));
        Some(())
    };
    a_message_that_no_commit_brought_is_found: "INV-OWN-1" = |run| {
        let conversation = place(run)?.conversation;
        let stored = place(run)?.messages.last()?.message_id;
        run.history.attempts.retain(|attempt| {
            attempt.conversation != conversation || attempt.messages.iter().all(|(id, _)| *id != stored)
        });
        Some(())
    };
    a_hole_in_the_changes_is_found: "INV-CHG-1" = |run| {
        place(run)?.changes.remove(0);
        Some(())
    };
    a_change_counter_that_fell_back_is_found: "INV-CHG-1" = |run| {
        place(run)?.last_change_seq -= 1;
        Some(())
    };
    a_wrong_count_is_found: "COUNT-NO" = |run| {
        place(run)?.messages[4].count_no += 1;
        Some(())
    };
    a_wrong_link_of_the_chain_is_found: "CHAIN" = |run| {
        place(run)?.messages[4].chain_hash[0] ^= 1;
        Some(())
    };
    altered_words_are_found: "CHAIN" = |run| {
        let message = place(run)?.messages.iter_mut().find(|message| message.change_seq == 0)?;
        message.content.push(' ');
        Some(())
    };
    another_sender_is_found: "CHAIN" = |run| {
        place(run)?.messages[4].sender.1 += 1;
        Some(())
    };
    two_swapped_messages_are_found_by_the_chain: "CHAIN" = |run| {
        let place = place(run)?;
        place.messages.swap(3, 4);
        (place.messages[3].seq, place.messages[4].seq) = (4, 5);
        Some(())
    };
    a_member_that_nobody_added_is_found: "MEMBERS" = |run| {
        let place = place(run)?;
        let member = place.members.values().next()?.clone();
        place.members.insert((1, 999), member);
        Some(())
    };
    a_sender_that_is_no_member_is_found: "MEMBERS" = |run| {
        let message = place(run)?.messages.iter_mut().rfind(|message| message.key.is_some())?;
        message.sender = (1, 999);
        Some(())
    };
    a_change_without_its_message_is_found: "MEMBERS" = |run| {
        let change = place(run)?.changes.iter_mut().find(|change| change.change_type == "MEMBER_ADDED")?;
        change.change_type = "MEMBER_REMOVED".to_owned();
        Some(())
    };
    a_read_position_beyond_the_head_is_found: "MEMBERS" = |run| {
        let place = place(run)?;
        place.members.values_mut().next()?.last_read_seq = place.last_seq + 1;
        Some(())
    };
    two_owners_are_found: "MEMBERS" = |run| {
        let place = place(run)?;
        place.members.values_mut().find(|member| member.role != "OWNER")?.role = "OWNER";
        Some(())
    };
    a_push_to_who_was_removed_is_found: "REMOVED" = |run| {
        let told = run.history.streams.values_mut().find(|told| {
            let left = told.iter().position(|step| matches!(step, Told::Left(_)));
            left.is_some_and(|left| messages(&told[left..]).len() > 1)
        })?;
        told.retain(|step| !matches!(step, Told::Left(_)));
        Some(())
    };
    a_push_of_what_was_said_before_the_joining_is_found: "REMOVED" = |run| {
        let told = run.history.streams.values_mut().find(|told| {
            let joined = told.iter().position(|step| matches!(step, Told::Joined(_)));
            joined.is_some_and(|joined| !messages(&told[..joined]).is_empty())
        })?;
        let joined = told.iter().position(|step| matches!(step, Told::Joined(_)))?;
        let step = told.remove(joined);
        let first = messages(told)[0];
        told.insert(first, step);
        Some(())
    };
    a_change_of_a_message_that_is_not_in_the_log_is_found: "INV-CHG-1" = |run| {
        let message = place(run)?.messages.iter_mut().find(|message| message.status == "NORMAL")?;
        message.status = "EDITED";
        Some(())
    };
    words_that_outlive_their_recall_are_found: "INV-CHG-1" = |run| {
        let all = run.stored.iter_mut().flat_map(|place| &mut place.messages);
        let message = all.into_iter().find(|message| message.status == "RECALLED")?;
        message.content = "{\"text\":\"still here\"}".to_owned();
        Some(())
    };
    an_edit_after_the_recall_is_found: "INV-CHG-1" = |run| {
        let place = run.stored.iter_mut().find(|place| {
            let last = place.changes.last();
            last.is_some_and(|last| last.change_type == "EDITED")
                && place.changes.iter().any(|change| change.change_type == "RECALLED")
        })?;
        let recalled = place.changes.iter().find(|change| change.change_type == "RECALLED")?.message_id;
        place.changes.last_mut()?.message_id = recalled;
        Some(())
    };
    a_last_message_that_was_recalled_is_found: "INV-CHG-1" = |run| {
        let place = place(run)?;
        place.last_message_seq -= 1;
        Some(())
    };
    a_setting_that_nobody_made_is_found: "HEADER" = |run| {
        let place = run.stored.iter_mut().find(|place| {
            place.changes.iter().any(|change| change.payload.contains("\"posting\":"))
        })?;
        place.header.insert("posting", "NOBODY".into());
        Some(())
    };
    an_end_that_was_not_logged_is_found: "HEADER" = |run| {
        let place = place(run)?;
        place.is_dissolved = !place.is_dissolved;
        Some(())
    };
    a_role_that_nobody_gave_is_found: "RIGHTS" = |run| {
        let member = place(run)?.members.values_mut().find(|member| member.role == "MEMBER")?;
        member.role = "ADMIN";
        Some(())
    };
    a_change_by_somebody_without_the_right_is_found: "RIGHTS" = |run| {
        let place = run.stored.iter_mut().find(|place| {
            place.changes.iter().any(|change| change.change_type == "CONVERSATION_UPDATED")
        })?;
        let change = place.changes.iter_mut().find(|change| change.change_type == "CONVERSATION_UPDATED")?;
        change.actor = (1, 999);
        Some(())
    };
    a_reference_that_was_lost_is_found: "INV-FILE-1" = |run| {
        let first = *run.filed.references.first()?;
        run.filed.references.remove(&first);
        Some(())
    };
    a_reference_of_a_message_that_shows_nothing_is_found: "INV-FILE-1" = |run| {
        let message = place(run)?.messages[0].message_id;
        run.filed.references.insert((message, 1));
        Some(())
    };
    a_file_that_went_while_a_message_shows_it_is_found: "INV-FILE-1" = |run| {
        let (_, file) = *run.filed.references.first()?;
        run.filed.there.remove(&file);
        Some(())
    };
    somebody_who_waits_for_ever_is_found: "ANSWERED" = |run| {
        run.all_answered = false;
        Some(())
    };
}
