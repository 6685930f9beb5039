//! The checker is checked: each promise is broken once on purpose, and the checker must say so and nothing else.

use serde_json::{Value, json};

use super::history::{Connection, Copy, Finding, History, Posted, Rule, Seen, content_of};

const ROOM: &str = "77";

/// `USER 1` sends three messages and `USER 2` receives them, everything as promised.
fn faultless() -> History {
    let texts = ["one", "two", "three"];
    let stored: Vec<Seen> = (1..).zip(texts).map(|(seq, text)| message(seq, text)).collect();
    let posted = (1..).zip(texts).map(|(frame, text)| posted(frame, text)).collect();
    let acks: Vec<Value> = (1..)
        .zip(&stored)
        .map(|(frame, seen)| ack(frame, seen, false))
        .collect();
    History {
        connections: vec![
            Connection::new(1, "sender", posted, &acks),
            Connection::new(2, "receiver", Vec::new(), &stored.iter().map(push).collect::<Vec<_>>()),
        ],
        copies: vec![Copy {
            name: "receiver".to_owned(),
            messages: stored.clone(),
        }],
        stored,
        ..History::default()
    }
}

fn message(seq: u64, text: &str) -> Seen {
    Seen {
        conversation: ROOM.to_owned(),
        seq,
        message_id: format!("{}", 1000 + seq),
        sender: "USER 1".to_owned(),
        key: Some(format!("key of {text}")),
        content: content_of(text),
        chain_hash: format!("hash {seq}"),
    }
}

fn posted(frame: u64, text: &str) -> Posted {
    Posted {
        frame,
        conversation: ROOM.to_owned(),
        key: format!("key of {text}"),
        text: text.to_owned(),
    }
}

fn ack(frame: u64, seen: &Seen, duplicate: bool) -> Value {
    json!({"type": "message.sent", "reply_to": frame, "message_id": seen.message_id, "seq": seen.seq,
           "duplicate": duplicate})
}

fn push(seen: &Seen) -> Value {
    let content: Value = serde_json::from_str(&seen.content).unwrap();
    let message = json!({"conversation_id": seen.conversation, "seq": seen.seq, "message_id": seen.message_id,
                         "sender": {"type": "USER", "id": "1"}, "client_message_id": seen.key, "content": content,
                         "chain_hash": seen.chain_hash});
    json!({"type": "message.new", "message": message})
}

fn receiver(seqs: &[&Seen]) -> Connection {
    Connection::new(
        2,
        "receiver",
        Vec::new(),
        &seqs.iter().map(|seen| push(seen)).collect::<Vec<_>>(),
    )
}

fn rules(history: &History) -> Vec<Rule> {
    let mut rules: Vec<Rule> = history.check().into_iter().map(|Finding { rule, .. }| rule).collect();
    rules.dedup();
    rules
}

#[test]
fn a_faultless_history_has_no_findings() {
    assert_eq!(faultless().check(), []);
}

#[test]
fn a_lost_ack_is_found() {
    let mut history = faultless();
    history.connections.truncate(1);
    history.copies.clear();
    history.stored.pop();
    assert_eq!(rules(&history), [Rule::AckedIsStored]);
}

#[test]
fn an_ack_of_another_message_is_found() {
    let mut history = faultless();
    history.connections.truncate(1);
    history.copies.clear();
    history.stored[2].message_id = "9".to_owned();
    assert_eq!(rules(&history), [Rule::AckedIsStored]);
}

#[test]
fn a_double_is_found() {
    let mut history = faultless();
    let mut again = message(4, "three");
    again.message_id = "2000".to_owned();
    history.copies[0].messages.push(again.clone());
    history.stored.push(again);
    assert_eq!(rules(&history), [Rule::NoDouble]);
}

#[test]
fn one_id_on_two_messages_is_found() {
    let mut history = faultless();
    history.connections.clear();
    history.copies.clear();
    history.requests = faultless().connections[0].attempts.clone();
    history.stored[1].message_id = history.stored[0].message_id.clone();
    assert!(rules(&history).contains(&Rule::NoDouble));
}

#[test]
fn a_hole_is_found() {
    let mut history = faultless();
    history.connections.clear();
    history.copies.clear();
    history.requests = faultless().connections[0].attempts.clone();
    history.requests.remove(1);
    history.stored.remove(1);
    assert_eq!(rules(&history), [Rule::NoHole]);
}

#[test]
fn a_seq_given_twice_is_found() {
    let mut history = faultless();
    history.connections.clear();
    history.copies.clear();
    history.requests = faultless().connections[0].attempts.clone();
    history.stored[2].seq = 2;
    assert!(rules(&history).contains(&Rule::NoHole));
}

#[test]
fn a_second_answer_to_one_key_is_found() {
    let mut history = faultless();
    let acks = [ack(1, &history.stored[0], false), ack(2, &history.stored[0], false)];
    history.connections[0] = Connection::new(1, "sender", vec![posted(1, "one"), posted(2, "one")], &acks);
    history.requests = faultless().connections[0].attempts.split_off(1);
    let found = rules(&history);
    assert!(found.contains(&Rule::SameAnswer), "acked as new twice: {found:?}");

    let mut history = faultless();
    let retry = Connection::new(1, "retry", vec![posted(1, "one")], &[ack(1, &history.stored[1], true)]);
    history.connections.push(retry);
    assert_eq!(rules(&history), [Rule::AckedIsStored, Rule::SameAnswer]);
}

#[test]
fn a_message_that_nobody_sent_is_found() {
    let mut history = faultless();
    let ghost = message(4, "ghost");
    history.copies[0].messages.push(ghost.clone());
    history.stored.push(ghost);
    assert_eq!(rules(&history), [Rule::StoredWasSent]);
}

#[test]
fn a_copy_that_lacks_or_invents_is_found() {
    let mut history = faultless();
    history.copies[0].messages.remove(1);
    assert_eq!(rules(&history), [Rule::CopyEqualsStore]);
    let mut history = faultless();
    history.copies[0].messages.push(message(4, "invented"));
    assert_eq!(rules(&history), [Rule::CopyEqualsStore]);
}

#[test]
fn a_reordered_a_repeated_and_a_missing_push_are_found() {
    let mut history = faultless();
    let [one, two, three] = [0, 1, 2].map(|at: usize| history.stored[at].clone());
    history.connections[1] = receiver(&[&one, &three, &two]);
    assert_eq!(rules(&history), [Rule::PushesRise]);
    history.connections[1] = receiver(&[&one, &two, &two, &three]);
    assert_eq!(rules(&history), [Rule::PushesRise]);
    history.connections[1] = receiver(&[&one, &three]);
    assert_eq!(rules(&history), [Rule::PushesWhole]);
    history.pushes_may_lack = true;
    assert_eq!(rules(&history), []);
}

#[test]
fn an_ack_that_overtakes_a_push_is_found() {
    let mut history = faultless();
    let mut theirs = message(4, "theirs");
    theirs.sender = "USER 2".to_owned();
    history.copies[0].messages.push(theirs.clone());
    let frames = [
        push(&history.stored[0]),
        ack(1, &theirs, false),
        push(&history.stored[1]),
        push(&history.stored[2]),
    ];
    history.connections[1] = Connection::new(2, "receiver", vec![posted(1, "theirs")], &frames);
    history.stored.push(theirs);
    assert_eq!(rules(&history), [Rule::PushesRise]);
}

#[test]
fn a_push_of_what_is_not_stored_is_found() {
    let mut history = faultless();
    let early = message(4, "never stored");
    let [one, two, three] = [0, 1, 2].map(|at: usize| history.stored[at].clone());
    history.connections[1] = receiver(&[&one, &two, &three, &early]);
    assert_eq!(rules(&history), [Rule::PushedIsStored]);
}

#[test]
fn own_sends_without_an_answer_are_no_missing_push() {
    let mut history = faultless();
    let frames = [ack(1, &history.stored[0], false), ack(3, &history.stored[2], false)];
    let sent = vec![posted(1, "one"), posted(2, "two"), posted(3, "three")];
    history.connections[0] = Connection::new(1, "sender", sent, &frames);
    assert_eq!(history.check(), []);
}

#[test]
fn sends_that_overtake_each_other_are_found() {
    let mut history = faultless();
    let frames = [
        ack(1, &history.stored[1], false),
        ack(2, &history.stored[0], false),
        ack(3, &history.stored[2], false),
    ];
    let sent = vec![posted(1, "two"), posted(2, "one"), posted(3, "three")];
    history.connections[0] = Connection::new(1, "sender", sent, &frames);
    assert_eq!(rules(&history), [Rule::PushesRise, Rule::SendsInOrder]);
}

#[test]
fn an_error_that_forbids_the_retry_is_found() {
    let mut history = faultless();
    let refused = json!({"type": "error", "reply_to": 1, "code": "internal", "retryable": false});
    history
        .connections
        .push(Connection::new(1, "sender", vec![posted(1, "one")], &[refused]));
    assert_eq!(rules(&history), [Rule::Retryable]);
}
