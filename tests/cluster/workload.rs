//! The seeded workload: senders who pipeline and repeat, receivers who keep a copy. Both record what they see.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::history::{Attempt, Connection, Copy, History, Posted, Seen};
use crate::support::client::{Client, Login};
use crate::support::patiently;
use crate::support::rest::Rest;

/// The pause before what was refused is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The most that one page of history gives.
const PAGE: usize = 200;
/// Repeats of what was acked before, in each turn of a sender.
const REPEATS: usize = 2;
/// The most sends of one sender that are unanswered at once.
const WINDOW_MAX: usize = 8;

/// The conversations of a run, in which everybody is a member.
pub(crate) type Rooms = Arc<[String]>;

/// Makes `count` groups with the users `1..=users`.
pub(crate) async fn make_rooms(url: &str, count: usize, users: u64) -> Rooms {
    let owner = Rest::new(url, 1);
    let mut rooms = Vec::new();
    for number in 0..count {
        rooms.push(owner.group(&format!("room {number}"), 2..=users).await);
    }
    rooms.into()
}

/// A fresh read of everything, as a member who sees it all.
pub(crate) async fn read_all(url: &str, rooms: &Rooms) -> Vec<Seen> {
    let reader = Rest::new(url, 1);
    let pages = join_all(rooms.iter().map(|room| reader.history_after(room, 0))).await;
    pages.iter().flatten().map(Seen::of).collect()
}

#[derive(Clone, Debug)]
struct Message {
    room: String,
    key: String,
    acked: bool,
}

/// `USER user` on one device: sends, and sends again with the same key what was not acked.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) user: u64,
    rng: SmallRng,
    rooms: Rooms,
    /// All that it ever wanted to say.
    messages: Vec<Message>,
    line: Option<Client>,
    /// What went out on the present connection.
    posted: Vec<Posted>,
    pub(crate) record: Vec<Connection>,
}

impl Sender {
    pub(crate) fn new(user: u64, seed: u64, rooms: &Rooms) -> Self {
        Self {
            user,
            rng: SmallRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(user)),
            rooms: Arc::clone(rooms),
            messages: Vec::new(),
            line: None,
            posted: Vec::new(),
            record: Vec::new(),
        }
    }

    /// Connects; a connection that it has is broken off.
    pub(crate) async fn connect(&mut self, url: &str) {
        self.leave();
        self.line = Some(Client::connect(url, Login::new(self.user, "sender")).await);
    }

    /// The present connection.
    pub(crate) fn line(&self) -> &Client {
        self.line.as_ref().expect("the sender is connected")
    }

    /// Breaks the connection, if there is one, and keeps its record.
    pub(crate) fn leave(&mut self) {
        let Some(line) = self.line.take() else { return };
        let (name, posted) = (format!("sender {}", self.user), std::mem::take(&mut self.posted));
        self.record
            .push(line.with_log(|log| Connection::new(self.user, &name, posted, &log.frames)));
    }

    /// One turn: what is open, some repeats, and `new` messages; until all is answered or the connection ends.
    /// A seeded number of sends may be unanswered at any time.
    pub(crate) async fn turn(&mut self, new: usize) {
        let window = self.rng.random_range(1..=WINDOW_MAX);
        let mut queue: Vec<usize> = self.open().collect();
        for _ in 0..REPEATS.min(self.messages.len()) {
            queue.push(self.rng.random_range(0..self.messages.len()));
        }
        let first = self.posted.len();
        for turn in 0..queue.len() + new {
            if turn == queue.len() {
                queue.push(self.think());
            }
            self.post(queue[turn]).await;
            if let Some(before) = self.posted.len().checked_sub(window).filter(|before| *before >= first) {
                answered(self.line(), &self.posted[before..=before]).await;
            }
            if self.line().with_log(|log| log.closed.is_some()) {
                break;
            }
        }
        answered(self.line(), &self.posted[first..]).await;
        let acked: Vec<bool> = self.line().with_log(|log| {
            let replies = self.posted[first..].iter().map(|sent| log.reply(sent.frame));
            replies
                .map(|reply| reply.is_some_and(|reply| reply["type"] == "message.sent"))
                .collect()
        });
        for (at, acked) in queue.into_iter().zip(acked) {
            self.messages[at].acked |= acked;
        }
    }

    /// Sends what is open until it is acked.
    pub(crate) async fn settle(&mut self) {
        patiently("every send to be acked in the end", async {
            while self.open().next().is_some() {
                assert_eq!(
                    self.line().with_log(|log| log.closed),
                    None,
                    "{} lost its connection",
                    self.user
                );
                self.turn(0).await;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        })
        .await;
    }

    /// The messages that are not acked yet.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> {
        self.messages
            .iter()
            .enumerate()
            .filter(|(_, message)| !message.acked)
            .map(|(at, _)| at)
    }

    /// A new message.
    fn think(&mut self) -> usize {
        let room = self.rooms[self.rng.random_range(0..self.rooms.len())].clone();
        let key = format!("{}-{}", self.user, self.messages.len());
        self.messages.push(Message {
            room,
            key,
            acked: false,
        });
        self.messages.len() - 1
    }

    async fn post(&mut self, at: usize) {
        let Message { room, key, .. } = self.messages[at].clone();
        let text = format!("text of {key}");
        let frame = self.line().send(&room, &key, &text).await;
        self.posted.push(Posted {
            frame,
            conversation: room,
            key,
            text,
        });
    }
}

/// Waits for the answers, or the end of the connection.
async fn answered(line: &Client, posted: &[Posted]) {
    let mut next = 0;
    line.until("the answers to its sends", |log| {
        while posted.get(next).is_some_and(|sent| log.reply(sent.frame).is_some()) {
            next += 1;
        }
        next == posted.len() || log.closed.is_some()
    })
    .await;
}

/// `USER user` on a device that only listens and keeps a copy: pushes, and history for what it missed.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) user: u64,
    rooms: Rooms,
    held: BTreeMap<String, BTreeMap<u64, Vec<Seen>>>,
    line: Option<Client>,
    /// Frames of the present connection that are in the copy already.
    taken: usize,
    pub(crate) record: Vec<Connection>,
}

impl Receiver {
    pub(crate) fn new(user: u64, rooms: &Rooms) -> Self {
        let held = BTreeMap::new();
        Self {
            user,
            rooms: Arc::clone(rooms),
            held,
            line: None,
            taken: 0,
            record: Vec::new(),
        }
    }

    /// Connects first and reads then what it missed: nothing can fall between.
    pub(crate) async fn connect(&mut self, url: &str) {
        self.leave();
        self.line = Some(Client::connect(url, Login::new(self.user, "receiver")).await);
        self.catch_up().await;
    }

    /// The present connection.
    pub(crate) fn line(&self) -> &Client {
        self.line.as_ref().expect("the receiver is connected")
    }

    /// Reads everything after its position, page by page. The end of the connection ends it.
    pub(crate) async fn catch_up(&mut self) {
        for room in self.rooms.iter() {
            let mut position = self.position(room);
            loop {
                let ask = json!({"type": "history", "conversation_id": room, "after_seq": position, "limit": PAGE});
                let line = self.line.as_ref().expect("the receiver is connected");
                let Some(page) = line.ask(ask).await else { return };
                let items = page["items"].as_array().unwrap_or_else(|| panic!("no items: {page}"));
                for seen in items.iter().map(Seen::of) {
                    position = seen.seq;
                    hold(&mut self.held, seen);
                }
                if page["has_more"] != true {
                    break;
                }
            }
        }
    }

    /// Waits until it was pushed everything up to these heads, and takes it into the copy.
    pub(crate) async fn until(&mut self, heads: &BTreeMap<String, u64>) {
        let wanted: BTreeMap<&String, u64> = heads
            .iter()
            .map(|(room, head)| (room, *head))
            .filter(|(room, head)| self.position(room) < *head)
            .collect();
        let what = format!("the pushes up to {wanted:?}");
        let mut seen = self.taken;
        let mut left = wanted;
        let line = self.line.as_ref().expect("the receiver is connected");
        line.until(&what, |log| {
            for frame in &log.frames[seen..] {
                let message = &frame["message"];
                left.retain(|room, head| {
                    message["conversation_id"] != room.as_str() || message["seq"].as_u64() < Some(*head)
                });
            }
            seen = log.frames.len();
            left.is_empty()
        })
        .await;
        self.absorb();
    }

    /// Breaks the connection, if there is one, and keeps its record.
    pub(crate) fn leave(&mut self) {
        self.absorb();
        if let Some(line) = self.line.take() {
            self.record.push(self.recorded(&line));
            self.taken = 0;
        }
    }

    /// The record of the present connection so far.
    fn recorded(&self, line: &Client) -> Connection {
        let name = format!("receiver {}", self.user);
        line.with_log(|log| Connection::new(self.user, &name, Vec::new(), &log.frames))
    }

    /// What it holds.
    pub(crate) fn copy(&self) -> Copy {
        let messages = self
            .held
            .values()
            .flat_map(BTreeMap::values)
            .flatten()
            .cloned()
            .collect();
        Copy {
            name: format!("receiver {}", self.user),
            messages,
        }
    }

    fn absorb(&mut self) {
        let Some(line) = &self.line else { return };
        let (new, taken) = line.with_log(|log| {
            let new = log.frames[self.taken..]
                .iter()
                .filter(|frame| frame["type"] == "message.new");
            (
                new.map(|frame| Seen::of(&frame["message"])).collect::<Vec<_>>(),
                log.frames.len(),
            )
        });
        self.taken = taken;
        for seen in new {
            hold(&mut self.held, seen);
        }
    }

    /// Up to here it holds everything.
    fn position(&self, room: &str) -> u64 {
        let Some(held) = self.held.get(room) else { return 0 };
        (1..)
            .zip(held.keys())
            .take_while(|(number, seq)| number == *seq)
            .last()
            .map_or(0, |(number, _)| number)
    }
}

/// Two different messages with one seq are both kept: the checker will find them.
fn hold(held: &mut BTreeMap<String, BTreeMap<u64, Vec<Seen>>>, seen: Seen) {
    let there = held
        .entry(seen.conversation.clone())
        .or_default()
        .entry(seen.seq)
        .or_default();
    if !there.contains(&seen) {
        there.push(seen);
    }
}

/// The highest seq of each conversation.
pub(crate) fn heads(stored: &[Seen]) -> BTreeMap<String, u64> {
    let mut heads = BTreeMap::new();
    for seen in stored {
        let head = heads.entry(seen.conversation.clone()).or_default();
        *head = seen.seq.max(*head);
    }
    heads
}

/// Senders and receivers of one run.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) rooms: Rooms,
    pub(crate) senders: Vec<Sender>,
    pub(crate) receivers: Vec<Receiver>,
    /// Sends over REST that belong to the same run.
    pub(crate) requests: Vec<Attempt>,
}

impl Crowd {
    /// Makes the rooms, with the first users as senders and the following ones as receivers.
    pub(crate) async fn gather(url: &str, seed: u64, rooms: usize, senders: u64, receivers: u64) -> Self {
        let rooms = make_rooms(url, rooms, senders + receivers).await;
        Self {
            senders: (1..=senders).map(|user| Sender::new(user, seed, &rooms)).collect(),
            receivers: (senders + 1..=senders + receivers)
                .map(|user| Receiver::new(user, &rooms))
                .collect(),
            rooms,
            requests: Vec::new(),
        }
    }

    /// Connects the receivers that are not connected, and reads what they missed.
    pub(crate) async fn connect_receivers(&mut self, url: &str) {
        join_all(self.receivers.iter_mut().map(|receiver| receiver.connect(url))).await;
    }

    /// Connects every sender anew.
    pub(crate) async fn connect_senders(&mut self, url: &str) {
        join_all(self.senders.iter_mut().map(|sender| sender.connect(url))).await;
    }

    /// A turn of every sender at once.
    pub(crate) async fn turn(&mut self, new: usize) {
        join_all(self.senders.iter_mut().map(|sender| sender.turn(new))).await;
    }

    /// Every sender sends what is open until it is acked.
    pub(crate) async fn settle(&mut self) {
        join_all(self.senders.iter_mut().map(Sender::settle)).await;
    }

    /// Waits until the connected receivers have everything that a fresh read shows, and gives the whole record.
    pub(crate) async fn history(&mut self, url: &str) -> History {
        let stored = read_all(url, &self.rooms).await;
        let heads = heads(&stored);
        join_all(self.receivers.iter_mut().map(|receiver| receiver.until(&heads))).await;
        self.receivers.iter_mut().for_each(Receiver::leave);
        self.senders.iter_mut().for_each(Sender::leave);
        let senders = self.senders.iter().flat_map(|sender| sender.record.iter().cloned());
        let receivers = self
            .receivers
            .iter()
            .flat_map(|receiver| receiver.record.iter().cloned());
        History {
            connections: senders.chain(receivers).collect(),
            requests: self.requests.clone(),
            copies: self.receivers.iter().map(Receiver::copy).collect(),
            stored,
            pushes_may_lack: false,
        }
    }
}
