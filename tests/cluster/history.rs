//! The checker. It judges what clients recorded against a fresh read of the store, from the promises alone.
//!
//! It knows neither the server nor the workload: only what was sent, every frame that came back, the copies that
//! receivers ended with, and what is stored.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use serde_json::Value;

/// A message as somebody sees it: pushed, read or stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) conversation: String,
    pub(crate) seq: u64,
    pub(crate) message_id: String,
    /// `USER 7`
    pub(crate) sender: String,
    pub(crate) key: Option<String>,
    /// The whole content, as JSON.
    pub(crate) content: String,
    /// Proves that nothing before it differs either.
    pub(crate) chain_hash: String,
}

impl Seen {
    /// From a message object of the contract.
    pub(crate) fn of(message: &Value) -> Self {
        let text = |field: &Value| {
            field
                .as_str()
                .unwrap_or_else(|| panic!("a text is missing in {message}"))
                .to_owned()
        };
        let sender = &message["sender"];
        Self {
            conversation: text(&message["conversation_id"]),
            seq: message["seq"].as_u64().unwrap_or_else(|| panic!("no seq in {message}")),
            message_id: text(&message["message_id"]),
            sender: format!("{} {}", text(&sender["type"]), text(&sender["id"])),
            key: message["client_message_id"].as_str().map(str::to_owned),
            content: message["content"].to_string(),
            chain_hash: text(&message["chain_hash"]),
        }
    }
}

/// One attempt to send.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) sender: String,
    pub(crate) conversation: String,
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) answer: Answer,
}

impl Attempt {
    fn identity(&self) -> Identity<'_> {
        (&self.conversation, &self.sender, &self.key)
    }
}

/// (conversation, sender, key): one message for ever.
type Identity<'a> = (&'a str, &'a str, &'a str);

/// What the sender was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is stored.
    Acked {
        message_id: String,
        seq: u64,
        duplicate: bool,
    },
    /// An error.
    Refused { code: String, retryable: bool },
    /// The connection ended first: nobody knows.
    Unknown,
}

impl Answer {
    /// From a reply frame (or its absence).
    pub(crate) fn of(frame: Option<&Value>) -> Self {
        let Some(frame) = frame else { return Self::Unknown };
        if frame["type"] == "message.sent" {
            return Self::Acked {
                message_id: frame["message_id"].as_str().expect("a message_id").to_owned(),
                seq: frame["seq"].as_u64().expect("a seq"),
                duplicate: frame["duplicate"].as_bool().expect("duplicate"),
            };
        }
        Self::Refused {
            code: frame["code"]
                .as_str()
                .unwrap_or_else(|| panic!("neither ack nor error: {frame}"))
                .to_owned(),
            retryable: frame["retryable"] == true,
        }
    }

    /// May the same key be tried again?
    pub(crate) fn open(&self) -> bool {
        !matches!(self, Self::Acked { .. })
    }
}

/// One thing that a connection was told, in the order in which it came.
#[derive(Clone, Debug)]
enum Told {
    Push(Seen),
    /// Index into the attempts of the connection.
    Ack(usize),
}

/// The record of one connection: what went out, in order, and what came in, in order.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// For findings.
    pub(crate) name: String,
    pub(crate) attempts: Vec<Attempt>,
    told: Vec<Told>,
}

/// A `message.send` that went out with this frame id.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) frame: u64,
    pub(crate) conversation: String,
    pub(crate) key: String,
    pub(crate) text: String,
}

impl Connection {
    /// From the raw record of `user`'s connection.
    pub(crate) fn new(user: u64, name: &str, posted: Vec<Posted>, frames: &[Value]) -> Self {
        let mut replies = HashMap::new();
        for frame in frames {
            if let Some(id) = frame["reply_to"].as_u64() {
                let earlier = replies.insert(id, frame);
                assert!(earlier.is_none(), "{name}: frame {id} was answered twice: {frame}");
            }
        }
        let at: HashMap<u64, usize> = posted.iter().enumerate().map(|(at, sent)| (sent.frame, at)).collect();
        let told = frames.iter().filter_map(|frame| match frame["type"].as_str() {
            Some("message.new") => Some(Told::Push(Seen::of(&frame["message"]))),
            Some("message.sent") => frame["reply_to"]
                .as_u64()
                .and_then(|id| at.get(&id))
                .map(|at| Told::Ack(*at)),
            _ => None,
        });
        let told = told.collect();
        let attempts = posted.into_iter().map(|sent| Attempt {
            sender: format!("USER {user}"),
            answer: Answer::of(replies.get(&sent.frame).copied()),
            conversation: sent.conversation,
            key: sent.key,
            text: sent.text,
        });
        Self {
            name: name.to_owned(),
            attempts: attempts.collect(),
            told,
        }
    }

    /// The messages that were pushed, in order of arrival.
    pub(crate) fn pushes(&self) -> impl Iterator<Item = &Seen> {
        self.told.iter().filter_map(|told| match told {
            Told::Push(seen) => Some(seen),
            Told::Ack(_) => None,
        })
    }
}

/// What a receiver holds in the end: all that it was ever pushed or read.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) name: String,
    pub(crate) messages: Vec<Seen>,
}

/// The whole record of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) connections: Vec<Connection>,
    /// Sends over REST: no order among them.
    pub(crate) requests: Vec<Attempt>,
    pub(crate) copies: Vec<Copy>,
    /// A fresh read of everything.
    pub(crate) stored: Vec<Seen>,
    /// Two processes that do not know of each other push only what they wrote themselves.
    pub(crate) pushes_may_lack: bool,
}

/// Which promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// P1: an acked message is stored as it was acked.
    AckedIsStored,
    /// P2: 1, 2, 3 … without a hole or a repeat.
    NoHole,
    /// P3: one key, one message.
    NoDouble,
    /// P3: one key, one answer.
    SameAnswer,
    /// What is stored was sent so.
    StoredWasSent,
    /// P4: a copy is what a fresh read shows.
    CopyEqualsStore,
    /// P5: per connection and conversation the seqs rise.
    PushesRise,
    /// P5: and leave nothing out.
    PushesWhole,
    /// What is pushed is stored (B14).
    PushedIsStored,
    /// P6: the order of sending is the order of the seqs.
    SendsInOrder,
    /// P11: whatever is no ack may be tried again.
    Retryable,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.rule, self.what)
    }
}

/// How many findings a failing test prints.
const FINDINGS_SHOWN: usize = 12;

impl History {
    /// Fails with the first findings.
    pub(crate) fn assert_kept(&self) {
        let findings = self.check();
        let shown: Vec<String> = findings.iter().take(FINDINGS_SHOWN).map(Finding::to_string).collect();
        assert!(
            findings.is_empty(),
            "{} broken promises:\n{}",
            findings.len(),
            shown.join("\n")
        );
    }

    /// Every broken promise, in a fixed order.
    pub(crate) fn check(&self) -> Vec<Finding> {
        let mut found = Found::default();
        let stored = self.check_store(&mut found);
        self.check_answers(&stored, &mut found);
        for connection in &self.connections {
            check_order(connection, &mut found);
            self.check_pushes(connection, &stored, &mut found);
        }
        for copy in &self.copies {
            self.check_copy(copy, &mut found);
        }
        found.0.sort();
        found.0
    }

    fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.connections
            .iter()
            .flat_map(|connection| &connection.attempts)
            .chain(&self.requests)
    }

    /// P2 and P3 on the store alone; and nothing is there that nobody sent.
    fn check_store(&self, found: &mut Found) -> Stored<'_> {
        let mut stored = Stored::new();
        let (mut ids, mut keys) = (HashMap::new(), HashMap::new());
        let mut asked: HashMap<Identity<'_>, BTreeSet<&str>> = HashMap::new();
        for attempt in self.attempts() {
            asked.entry(attempt.identity()).or_default().insert(&attempt.text);
        }
        for seen in &self.stored {
            if let Some(other) = stored.entry(&seen.conversation).or_default().insert(seen.seq, seen) {
                found.add(
                    Rule::NoHole,
                    format!("seq {} is there twice: {other:?} and {seen:?}", seen.seq),
                );
            }
            if let Some(other) = ids.insert(&seen.message_id, seen) {
                found.add(
                    Rule::NoDouble,
                    format!("one message_id, two messages: {other:?} and {seen:?}"),
                );
            }
            let Some(key) = &seen.key else { continue };
            let identity = (seen.conversation.as_str(), seen.sender.as_str(), key.as_str());
            if let Some(other) = keys.insert(identity, seen) {
                found.add(Rule::NoDouble, format!("one key, two messages: {other:?} and {seen:?}"));
            }
            let said = asked.get(&identity);
            if !said.is_some_and(|texts| texts.iter().any(|text| content_of(text) == seen.content)) {
                found.add(Rule::StoredWasSent, format!("{seen:?}, but {said:?} was sent"));
            }
        }
        for (conversation, messages) in &stored {
            let last = messages.keys().last().copied().unwrap_or(0);
            let missing: Vec<u64> = (1..=last).filter(|seq| !messages.contains_key(seq)).collect();
            if !missing.is_empty() {
                found.add(
                    Rule::NoHole,
                    format!("{conversation} has {last} as its last seq, but not {missing:?}"),
                );
            }
        }
        stored
    }

    /// P1, P3, P11.
    fn check_answers(&self, stored: &Stored<'_>, found: &mut Found) {
        let mut first: HashMap<Identity<'_>, (&str, u64)> = HashMap::new();
        let mut new = HashSet::new();
        for attempt in self.attempts() {
            let (message_id, seq, duplicate) = match &attempt.answer {
                Answer::Acked {
                    message_id,
                    seq,
                    duplicate,
                } => (message_id, *seq, *duplicate),
                Answer::Refused { retryable: false, .. } => {
                    found.add(Rule::Retryable, format!("{attempt:?}"));
                    continue;
                }
                Answer::Refused { .. } | Answer::Unknown => continue,
            };
            let there = stored
                .get(attempt.conversation.as_str())
                .and_then(|messages| messages.get(&seq));
            let same = there.is_some_and(|seen| {
                seen.message_id == *message_id
                    && seen.sender == attempt.sender
                    && seen.key.as_ref() == Some(&attempt.key)
                    && seen.content == content_of(&attempt.text)
            });
            if !same {
                found.add(Rule::AckedIsStored, format!("{attempt:?}, but there is {there:?}"));
            }
            let answer = (message_id.as_str(), seq);
            if *first.entry(attempt.identity()).or_insert(answer) != answer {
                found.add(
                    Rule::SameAnswer,
                    format!("{attempt:?}, but before {:?}", first.get(&attempt.identity())),
                );
            }
            if !duplicate && !new.insert(attempt.identity()) {
                found.add(Rule::SameAnswer, format!("acked as new a second time: {attempt:?}"));
            }
        }
    }

    /// P5, and B14: what is pushed is stored, in order, once, and nothing between is left out.
    fn check_pushes(&self, connection: &Connection, stored: &Stored<'_>, found: &mut Found) {
        let mut rising: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let mut known: HashSet<(&str, u64)> = HashSet::new();
        for told in &connection.told {
            let (conversation, seq, new) = match told {
                Told::Push(seen) => {
                    let there = stored
                        .get(seen.conversation.as_str())
                        .and_then(|messages| messages.get(&seen.seq));
                    if there.is_none_or(|there| *there != seen) {
                        found.add(
                            Rule::PushedIsStored,
                            format!("{}: {seen:?}, but {there:?}", connection.name),
                        );
                    }
                    (&seen.conversation, seen.seq, true)
                }
                Told::Ack(at) => match connection.attempts.get(*at).map(|attempt| (attempt, &attempt.answer)) {
                    Some((attempt, Answer::Acked { seq, duplicate, .. })) => (&attempt.conversation, *seq, !duplicate),
                    _ => continue,
                },
            };
            known.insert((conversation, seq));
            if new {
                rising.entry(conversation).or_default().push(seq);
            }
        }
        for (conversation, seqs) in rising {
            for (one, next) in seqs.iter().zip(seqs.iter().skip(1)).filter(|(one, next)| one >= next) {
                found.add(
                    Rule::PushesRise,
                    format!("{}: {conversation}: {one} and then {next}", connection.name),
                );
            }
            let range = seqs.iter().min().copied().unwrap_or(0)..=seqs.iter().max().copied().unwrap_or(0);
            let missing: Vec<u64> = range
                .filter(|seq| !known.contains(&(conversation, *seq)) && !own(connection, stored, conversation, *seq))
                .collect();
            if !self.pushes_may_lack && !missing.is_empty() {
                found.add(
                    Rule::PushesWhole,
                    format!("{}: {conversation} lacks {missing:?}", connection.name),
                );
            }
        }
    }

    /// P4.
    fn check_copy(&self, copy: &Copy, found: &mut Found) {
        let theirs: BTreeSet<&Seen> = copy.messages.iter().collect();
        let conversations: HashSet<&str> = theirs.iter().map(|seen| seen.conversation.as_str()).collect();
        let fresh: BTreeSet<&Seen> = self
            .stored
            .iter()
            .filter(|seen| conversations.contains(seen.conversation.as_str()))
            .collect();
        if theirs != fresh {
            let lacking: Vec<_> = fresh.difference(&theirs).take(3).collect();
            let extra: Vec<_> = theirs.difference(&fresh).take(3).collect();
            let what = format!("{}: lacks {lacking:?}, has beyond the store {extra:?}", copy.name);
            found.add(Rule::CopyEqualsStore, what);
        }
    }
}

/// conversation -> seq -> message
type Stored<'a> = BTreeMap<&'a str, BTreeMap<u64, &'a Seen>>;

#[derive(Default)]
struct Found(Vec<Finding>);

impl Found {
    fn add(&mut self, rule: Rule, what: String) {
        self.0.push(Finding { rule, what });
    }
}

/// Is it a send of this very connection that was not acked? Then its device is spared the push and knows that it
/// has to ask again.
fn own(connection: &Connection, stored: &Stored<'_>, conversation: &str, seq: u64) -> bool {
    let seen = stored.get(conversation).and_then(|messages| messages.get(&seq));
    seen.is_some_and(|seen| {
        connection.attempts.iter().any(|attempt| {
            attempt.sender == seen.sender
                && attempt.conversation == conversation
                && Some(&attempt.key) == seen.key.as_ref()
                && attempt.answer.open()
        })
    })
}

/// P6: what one connection sent for the first time has rising seqs in the order of sending.
fn check_order(connection: &Connection, found: &mut Found) {
    let mut last: HashMap<&str, (u64, &str)> = HashMap::new();
    for attempt in &connection.attempts {
        let Answer::Acked {
            seq, duplicate: false, ..
        } = attempt.answer
        else {
            continue;
        };
        if let Some((before, key)) = last.insert(&attempt.conversation, (seq, &attempt.key))
            && before >= seq
        {
            let what = format!(
                "{}: {key} got {before}, {} after it {seq}",
                connection.name, attempt.key
            );
            found.add(Rule::SendsInOrder, what);
        }
    }
}

/// What a TEXT with this text is stored as.
pub(crate) fn content_of(text: &str) -> String {
    serde_json::json!({"text": text}).to_string()
}
