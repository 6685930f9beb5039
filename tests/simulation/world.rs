//! One deterministic world: nodes with their writers and lanes, clients, clocks and one store, moved step by step.
//! The writers are the server's own; what drives them here is a choice of the seed instead of an executor.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use onescribe::clock::ManualClock;
use onescribe::conversation::{Answer, Committer, ConversationWriter, Parts, Pending, ReplyTo, SessionReply, run_lane};
use onescribe::domain::snowflake::{EPOCH_MS, Snowflake};
use onescribe::domain::{Command, ConversationId, Timestamp};
use onescribe::ids::Ids;
use onescribe::storage::memory::MemoryStore;
use onescribe::storage::{Store, Writer};
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::faults::{Dice, Knobs, SeededFaults};
use crate::filing::{self, Filed};
use crate::history::{Ear, History, Recorder, Reply, Witness};
use crate::snapshot::{self, Stored};
use crate::workload::Workload;

/// The most steps before misfortune ends and everybody is served.
const STEPS_MAX: u64 = 4_000;
/// Steps of the sweep of files, per mille of all steps.
const SWEEPS: usize = 60;
/// The most steps after that.
const CALM_STEPS_MAX: u64 = 40_000;

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A run that is over: what the checkers look at.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) history: History,
    pub(crate) stored: Vec<Stored>,
    pub(crate) filed: Filed,
    /// One node, and no writer ever forgot anything: it must have told everything.
    pub(crate) one_lasting_owner: bool,
    /// Nobody waited for ever.
    pub(crate) all_answered: bool,
}

/// The place of one writer: idle or at work.
struct Seat {
    number: u32,
    mail: VecDeque<Pending>,
    writer: Option<ConversationWriter>,
    at_work: Option<Running<ConversationWriter>>,
}

impl Seat {
    fn has_work(&self) -> bool {
        let reload = self.writer.as_ref().is_some_and(ConversationWriter::must_reload);
        self.at_work.is_some() || !self.mail.is_empty() || reload
    }
}

struct Node {
    parts: Arc<Parts>,
    ear: Arc<Ear>,
    clock: Arc<ManualClock>,
    lanes: Vec<Running<()>>,
    seats: BTreeMap<ConversationId, Seat>,
}

pub(crate) struct World {
    dice: Dice,
    knobs: Knobs,
    recorder: Recorder,
    faults: Arc<SeededFaults>,
    store: MemoryStore,
    nodes: Vec<Node>,
    workload: Workload,
    callers: Vec<(usize, oneshot::Receiver<Answer>)>,
    node_starts: u32,
    writer_starts: u32,
    step: u64,
    millis: i64,
    /// Misfortune is over.
    calm: bool,
    /// A writer or a node is not the first one.
    crashed: bool,
}

impl World {
    pub(crate) fn new(dice: Dice, knobs: Knobs) -> Self {
        let recorder = Recorder::new();
        let faults = Arc::new(SeededFaults::new(dice.clone(), knobs.clone(), recorder.clone()));
        let store = MemoryStore::with_faults(Arc::<SeededFaults>::clone(&faults));
        let workload = Workload::new(&dice, &knobs);
        let mut world = Self {
            dice,
            knobs,
            recorder,
            faults,
            store,
            nodes: Vec::new(),
            workload,
            callers: Vec::new(),
            node_starts: 0,
            writer_starts: 0,
            step: 0,
            millis: EPOCH_MS + 1_000,
            calm: false,
            crashed: false,
        };
        filing::upload_all(&world.store.observer(), Timestamp::from_millis(world.millis));
        for number in 0..world.knobs.nodes {
            let node = world.start_node(number);
            world.nodes.push(node);
        }
        world
    }

    /// The whole life of a world.
    pub(crate) fn run(dice: Dice, knobs: Knobs) -> Run {
        let mut world = Self::new(dice, knobs);
        while world.step < STEPS_MAX && !world.workload.is_done() {
            world.step();
        }
        world.finish()
    }

    /// Misfortune ends; everybody gets an answer.
    pub(crate) fn finish(mut self) -> Run {
        self.calm = true;
        self.faults.heal();
        self.store.land_all();
        self.workload.stop_inventing();
        let end = self.step + CALM_STEPS_MAX;
        while self.step < end && !self.is_quiet() {
            self.step += 1;
            self.pass_time();
            self.client_asks();
            self.poll_everything();
            self.collect_answers();
        }
        let all_answered = self.is_quiet();
        let observer = self.store.observer();
        let stored = snapshot::take(&observer);
        Run {
            filed: filing::take(&observer, &stored),
            stored,
            history: self.recorder.lock().clone(),
            one_lasting_owner: self.knobs.nodes == 1 && !self.crashed,
            all_answered,
        }
    }

    fn is_quiet(&self) -> bool {
        let working = self.nodes.iter().any(|node| node.seats.values().any(Seat::has_work));
        !working && self.workload.is_done()
    }

    pub(crate) fn step(&mut self) {
        self.step += 1;
        match self.dice.below(100) {
            0..60 => self.poll_something(),
            60..90 => self.client_asks(),
            _ => self.pass_time(),
        }
        self.collect_answers();
        self.misfortune();
    }

    fn misfortune(&mut self) {
        let node = self.dice.below(self.nodes.len());
        if self.dice.per_mille(self.knobs.crash_node) {
            self.crash_node(node);
        }
        if self.dice.per_mille(self.knobs.crash_seat) {
            let seats: Vec<ConversationId> = self.nodes[node].seats.keys().copied().collect();
            if let Some(id) = self.dice.pick(&seats) {
                self.crash_seat(node, *id);
            }
        }
        if self.dice.per_mille(self.knobs.passivate) {
            let is_idle = |seat: &Seat| !seat.has_work();
            self.nodes[node].seats.retain(|_, seat| !is_idle(seat));
            self.recorder.corner("passivated");
        }
        if self.dice.per_mille(SWEEPS) {
            let now = Timestamp::from_millis(self.millis);
            if let Some(corner) = filing::sweep(&self.store.observer(), &self.dice, now) {
                self.recorder.corner(corner);
            }
        }
        if self.dice.per_mille(self.knobs.database_stops) {
            self.faults.toggle_database();
            self.recorder.corner("database stopped or started");
        }
    }

    fn pass_time(&mut self) {
        let passed = i64::try_from(self.dice.below(4)).unwrap();
        self.millis += passed;
        for node in &self.nodes {
            node.clock.advance(passed);
        }
        if !self.calm && self.dice.per_mille(self.knobs.clock_jumps * 10) {
            let node = self.dice.below(self.nodes.len());
            let jump = *self.dice.pick(&[-3, -5, -40, 7]).unwrap();
            self.nodes[node].clock.advance(jump);
        }
    }

    fn start_node(&mut self, number: usize) -> Node {
        self.node_starts += 1;
        let life = self.node_starts;
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(self.millis)));
        let (committer, receivers) = Committer::new(self.store.lanes());
        let store = self.store.clone();
        let lanes = receivers
            .into_iter()
            .map(|receiver| {
                let (store, recorder) = (store.clone(), self.recorder.clone());
                let witness = move || -> Box<dyn Writer> {
                    let (writer, recorder) = (store.writer(), recorder.clone());
                    Box::new(Witness { writer, recorder })
                };
                let lane: Running<()> = Box::pin(run_lane(receiver, witness));
                lane
            })
            .collect();
        // Each start has its own worker id, as the lease gives it.
        let flake = Snowflake::new(u16::try_from(life).unwrap(), Timestamp::default()).unwrap();
        let ear = Arc::new(Ear {
            node: number,
            life,
            seat: Mutex::new(0),
            recorder: self.recorder.clone(),
            observer: self.store.observer(),
            answers: Mutex::new(Vec::new()),
        });
        let parts = Arc::new(Parts {
            store: Arc::new(self.store.clone()),
            committer,
            ids: Arc::new(Ids::new(
                Arc::<ManualClock>::clone(&clock),
                flake,
                Timestamp::from_millis(i64::MAX),
            )),
            clock: Arc::<ManualClock>::clone(&clock),
            publisher: Arc::<Ear>::clone(&ear),
        });
        Node {
            parts,
            ear,
            clock,
            lanes,
            seats: BTreeMap::new(),
        }
    }

    /// `kill -9`: the writers, the lanes with what they hold, and the answers on their way are gone.
    pub(crate) fn crash_node(&mut self, number: usize) {
        let busy = self.nodes[number].seats.values().any(|seat| seat.at_work.is_some());
        self.recorder
            .corner(if busy { "crash: node at work" } else { "crash: node" });
        self.crashed = true;
        self.nodes[number] = self.start_node(number);
    }

    pub(crate) fn crash_all_seats(&mut self, node: usize) {
        let seats: Vec<ConversationId> = self.nodes[node].seats.keys().copied().collect();
        for id in seats {
            self.crash_seat(node, id);
        }
    }

    /// A writer panics: its neighbours and the lanes go on.
    fn crash_seat(&mut self, node: usize, id: ConversationId) {
        if let Some(seat) = self.nodes[node].seats.remove(&id) {
            self.crashed = true;
            self.recorder.corner(if seat.at_work.is_some() {
                "crash: writer at work"
            } else {
                "crash: writer"
            });
        }
    }

    /// A client asks for something; the request may get lost, and may reach a node that is not the owner.
    fn client_asks(&mut self) {
        let Some((wish, asked)) = self.workload.next(&self.dice, self.step) else {
            return;
        };
        let request = self.recorder.ask(asked.conversation, &asked.command);
        self.workload.asked(request, wish);
        if self.calm || !self.dice.per_mille(self.knobs.answer_is_lost / 2) {
            let owner = usize::try_from(asked.conversation.get()).unwrap() % self.nodes.len();
            // In the end the owner alone serves: one that stays behind for ever is noticed.
            let stray = !self.calm && self.dice.per_mille(self.knobs.strays);
            let node = if stray {
                self.dice.below(self.nodes.len())
            } else {
                owner
            };
            self.deliver(node, asked.conversation, asked.command, request);
        }
    }

    fn deliver(&mut self, node: usize, id: ConversationId, command: Command, request: usize) {
        let frame = u64::try_from(request).unwrap();
        let reply = if self.dice.below(2) == 0 {
            ReplyTo::Session(SessionReply {
                hub: node,
                session: 0,
                frame,
            })
        } else {
            let (sender, receiver) = oneshot::channel();
            self.callers.push((request, receiver));
            ReplyTo::Caller(sender)
        };
        self.writer_starts += 1;
        let number = self.writer_starts;
        let node = &mut self.nodes[node];
        let seat = node.seats.entry(id).or_insert_with(|| Seat {
            number,
            mail: VecDeque::new(),
            writer: Some(ConversationWriter::new(id, Arc::clone(&node.parts))),
            at_work: None,
        });
        seat.mail
            .push_back(Pending::new(command, reply, Arc::<Ear>::clone(&node.ear)));
    }

    fn poll_something(&mut self) {
        let number = self.dice.below(self.nodes.len());
        let node = &self.nodes[number];
        let seats: Vec<ConversationId> = node
            .seats
            .iter()
            .filter(|(_, seat)| seat.has_work())
            .map(|(id, _)| *id)
            .collect();
        let chosen = self.dice.below(node.lanes.len() + seats.len());
        if let Some(seat) = chosen.checked_sub(node.lanes.len()) {
            self.poll_seat(number, seats[seat]);
        } else {
            self.poll_lane(number, chosen);
        }
    }

    fn poll_everything(&mut self) {
        for number in 0..self.nodes.len() {
            let seats: Vec<ConversationId> = self.nodes[number].seats.keys().copied().collect();
            for id in seats {
                self.poll_seat(number, id);
            }
            for lane in 0..self.nodes[number].lanes.len() {
                self.poll_lane(number, lane);
            }
        }
    }

    fn poll_lane(&mut self, node: usize, lane: usize) {
        let polled = self.nodes[node].lanes[lane]
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "a lane ended although its senders live");
    }

    /// An idle writer takes what is in its mail, or some of it; a busy one goes on.
    fn poll_seat(&mut self, node: usize, id: ConversationId) {
        let Some(seat) = self.nodes[node].seats.get_mut(&id).filter(|seat| seat.has_work()) else {
            return;
        };
        if let Some(mut writer) = seat.writer.take() {
            let taken = if seat.mail.is_empty() {
                0
            } else {
                1 + self.dice.below(seat.mail.len())
            };
            let batch: Vec<Pending> = seat.mail.drain(..taken).collect();
            seat.at_work = Some(Box::pin(async move {
                writer.serve(batch).await;
                writer
            }));
        }
        let number = seat.number;
        let Some(mut work) = seat.at_work.take() else { return };
        *self.nodes[node].ear.seat.lock().unwrap() = number;
        let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Some(seat) = self.nodes[node].seats.get_mut(&id) else {
            return;
        };
        match polled {
            Poll::Pending => seat.at_work = Some(work),
            // As the actor does: where nothing is known to exist, nothing stays in memory.
            Poll::Ready(writer) if writer.is_empty() && seat.mail.is_empty() => {
                drop(self.nodes[node].seats.remove(&id));
            }
            Poll::Ready(writer) => seat.writer = Some(writer),
        }
    }

    fn collect_answers(&mut self) {
        let mut arrived: Vec<(usize, Reply)> = Vec::new();
        for node in &self.nodes {
            arrived.append(&mut node.ear.answers.lock().unwrap());
        }
        self.callers
            .retain_mut(|(request, receiver)| match receiver.try_recv() {
                Ok(answer) => {
                    let reply = Reply::of(&answer);
                    self.recorder.answer(*request, &reply);
                    arrived.push((*request, reply));
                    false
                }
                Err(TryRecvError::Empty) => true,
                Err(TryRecvError::Closed) => {
                    arrived.push((*request, Reply::Retry("hung up".to_owned())));
                    false
                }
            });
        for (request, reply) in arrived {
            if self.calm || !self.dice.per_mille(self.knobs.answer_is_lost) {
                self.workload.heard(request, &reply);
            }
        }
        for id in self.workload.expected_places() {
            if snapshot::exists(&self.store.observer(), id) {
                self.workload.found_out(id);
            }
        }
    }
}
