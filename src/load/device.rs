//! One device of one user: connects, sends what is to be sent, notes what it gets, comes back when it is cut off.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::greeting::{self, understood};
use super::key::Key;
use super::ledger::{Seat, Way};
use super::plan::Pace;
use super::shared::{Phase, Queue, Shared};
use super::socket::{Broken, Socket};
use super::wire::{Frame, Id, Message};

/// The first and the longest pause before a connection is made again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The pause before a retry where the server names none.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The pause of a sender whose message was refused for good.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// The pause of everybody while too much is under way.
const FULL_PAUSE: Duration = Duration::from_millis(5);
/// Sends of one device in open loop that are under way at once.
const FLIGHTS_MAX: usize = 16_384;
/// Frames that one device deals with before the others have their turn.
const FRAMES_AT_ONCE: usize = 256;
/// Messages of one page of history.
const PAGE: u32 = 200;
/// Refusals that are named.
const REFUSED_NAMED_MAX: usize = 5;
const HISTORY_ID: u64 = 2;
const FIRST_FLIGHT: u64 = 1_000;

/// One sender of a device.
#[derive(Debug)]
pub(super) struct Sending {
    /// Its index in the run.
    pub(super) sender: u32,
    /// Its conversation, among those of the device.
    pub(super) place: usize,
    /// The number of its next message.
    pub(super) next: u64,
}

/// A message on its way.
#[derive(Debug)]
struct Flight {
    sending: usize,
    number: u64,
    planned: u64,
}

/// What is to be done later.
#[derive(Debug)]
enum Later {
    Resend(u64),
    SendNext(usize),
    AskOn,
}

pub(super) struct Device {
    pub(super) shared: Rc<Shared>,
    pub(super) index: usize,
    pub(super) token: String,
    pub(super) device_id: String,
    pub(super) conversations: Vec<Id>,
    pub(super) sendings: Vec<Sending>,
    pub(super) queue: Rc<Queue>,
    places: HashMap<Id, usize>,
    flights: BTreeMap<u64, Flight>,
    next_flight: u64,
    /// Closed loop: senders with room in their window, an entry for each message.
    open: VecDeque<usize>,
    later: BTreeMap<(Instant, u64), Later>,
    laters: u64,
    /// Conversations whose messages are to be asked for after a break.
    asking: VecDeque<usize>,
    /// Open loop: planned sends had to wait for the server.
    held: bool,
}

enum End {
    Done,
    Broken(Broken),
}

impl Device {
    pub(super) fn new(
        shared: Rc<Shared>,
        index: usize,
        token: String,
        device_id: String,
        conversations: Vec<Id>,
    ) -> Self {
        Self {
            places: conversations.iter().copied().zip(0..).collect(),
            shared,
            index,
            token,
            device_id,
            conversations,
            sendings: Vec::new(),
            queue: Rc::default(),
            flights: BTreeMap::new(),
            next_flight: FIRST_FLIGHT,
            open: VecDeque::new(),
            later: BTreeMap::new(),
            laters: 0,
            asking: VecDeque::new(),
            held: false,
        }
    }

    /// Lives until the run is over.
    pub(super) async fn run(mut self) {
        if let Pace::Closed { window } = self.shared.pace {
            let senders = 0..self.sendings.len();
            self.open = (0..window).flat_map(|_| senders.clone()).collect();
        }
        let mut phase = self.shared.phase.subscribe();
        let (mut was_online, mut pause) = (false, BACK_OFF.0);
        while !self.shared.is(Phase::Done) {
            let mut after = None;
            match greeting::connect(&self.shared, &self.token, &self.device_id).await {
                Ok(mut socket) => {
                    pause = BACK_OFF.0;
                    self.shared.online.set(self.shared.online.get() + 1);
                    if was_online {
                        self.come_back();
                    }
                    was_online = true;
                    let end = self.live(&mut socket, &mut phase).await;
                    self.shared.online.set(self.shared.online.get().saturating_sub(1));
                    let End::Broken(broken) = end else { return };
                    self.shared.ledger.borrow_mut().broke_off(self.index);
                    after = broken.after;
                    self.note_trouble(&broken);
                }
                Err(broken) => {
                    after = broken.after.or(after);
                    self.note_trouble(&broken);
                }
            }
            let chance = rand::rng().random_range(0.5..1.5);
            let wait = after.unwrap_or_default().max(pause.mul_f64(chance));
            pause = (pause * 2).min(BACK_OFF.1);
            tokio::select! {
                () = sleep(wait) => {}
                _ = phase.wait_for(|phase| *phase == Phase::Done) => return,
            }
        }
    }

    fn note_trouble(&self, broken: &Broken) {
        self.shared.tally.borrow_mut().sort(&broken.sort);
        self.shared.trouble.borrow_mut().clone_from(&broken.sort);
    }

    /// After a break: what was under way is sent again with the same keys, what was missed is asked for.
    fn come_back(&mut self) {
        self.shared.tally.borrow_mut().counts.reconnects += 1;
        self.later.retain(|_, later| matches!(later, Later::SendNext(_)));
        let now = Instant::now();
        for id in self.flights.keys().copied().collect::<Vec<_>>() {
            self.do_at(now, Later::Resend(id));
        }
        self.asking = (0..self.conversations.len()).collect();
        self.do_at(now, Later::AskOn);
    }

    fn do_at(&mut self, at: Instant, what: Later) {
        self.later.insert((at, self.laters), what);
        self.laters += 1;
    }

    async fn live(&mut self, socket: &mut Socket, phase: &mut watch::Receiver<Phase>) -> End {
        let queue = Rc::clone(&self.queue);
        loop {
            match self.say(socket).and_then(|wake| socket.flush().map(|()| wake)) {
                Err(broken) => return End::Broken(broken),
                Ok(wake) => {
                    let alarm = async {
                        match wake {
                            Some(at) => sleep_until(at).await,
                            None => std::future::pending().await,
                        }
                    };
                    let ready = tokio::select! {
                        ready = socket.ready() => ready,
                        () = queue.wake.notified() => Ok(()),
                        () = alarm => Ok(()),
                        _ = phase.changed() => Ok(()),
                    };
                    if let Err(broken) = ready {
                        return End::Broken(broken);
                    }
                }
            }
            if self.shared.is(Phase::Done) {
                socket.close();
                return End::Done;
            }
            if let Err(broken) = self.listen(socket).await {
                return End::Broken(broken);
            }
        }
    }

    /// Deals with everything that has come.
    async fn listen(&mut self, socket: &mut Socket) -> Result<(), Broken> {
        loop {
            let now = self.shared.now();
            for _ in 0..FRAMES_AT_ONCE {
                match socket.next()? {
                    Some(text) => self.hear(&text, now)?,
                    None => return Ok(()),
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Puts everything into the socket that is due; answers when there will be more.
    fn say(&mut self, socket: &mut Socket) -> Result<Option<Instant>, Broken> {
        let now = Instant::now();
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Later::Resend(id) => self.write(socket, id)?,
                Later::SendNext(sending) => self.open.push_back(sending),
                Later::AskOn => self.ask_on(socket)?,
            }
        }
        let wake = self.later.first_key_value().map(|(key, _)| key.0);
        let is_full = match self.shared.pace {
            Pace::Closed { .. } => self.shared.is(Phase::Sending) && self.send_open(socket)?,
            // What was planned is sent, also when the planning is over.
            Pace::Open { .. } => self.send_planned(socket)?,
        };
        let again = is_full.then(|| now + FULL_PAUSE);
        Ok([wake, again].into_iter().flatten().min())
    }

    /// `true` = it had to stop, because too much is under way.
    fn send_open(&mut self, socket: &mut Socket) -> Result<bool, Broken> {
        while !self.open.is_empty() {
            if !self.shared.has_room() {
                return Ok(true);
            }
            if let Some(sending) = self.open.pop_front() {
                self.send(socket, sending, self.shared.now())?;
            }
        }
        Ok(false)
    }

    fn send_planned(&mut self, socket: &mut Socket) -> Result<bool, Broken> {
        loop {
            let planned = self.queue.planned.borrow().front().copied();
            let Some((sending, at)) = planned else {
                self.held = false;
                return Ok(false);
            };
            if self.flights.len() >= FLIGHTS_MAX || !self.shared.has_room() {
                self.held = true;
                return Ok(true);
            }
            self.queue.planned.borrow_mut().pop_front();
            self.shared.waiting.set(self.shared.waiting.get().saturating_sub(1));
            if !self.held {
                self.shared.tally.borrow_mut().slipped(self.shared.now(), at);
            }
            self.send(socket, sending, at)?;
        }
    }

    fn send(&mut self, socket: &mut Socket, sending: usize, planned: u64) -> Result<(), Broken> {
        let Some(sender) = self.sendings.get_mut(sending) else {
            return Ok(());
        };
        let number = sender.next;
        sender.next += 1;
        let id = self.next_flight;
        self.next_flight += 1;
        let flight = Flight {
            sending,
            number,
            planned,
        };
        self.flights.insert(id, flight);
        self.shared.unanswered.set(self.shared.unanswered.get() + 1);
        self.write(socket, id)
    }

    fn write(&self, socket: &mut Socket, id: u64) -> Result<(), Broken> {
        let place = |flight: &Flight| {
            let sending = self.sendings.get(flight.sending)?;
            Some((sending.sender, *self.conversations.get(sending.place)?))
        };
        let flight = self.flights.get(&id).and_then(|flight| Some((flight, place(flight)?)));
        // An answer may have come before the retry was due.
        let Some((flight, (sender, Id(conversation)))) = flight else {
            return Ok(());
        };
        let key = Key {
            run: self.shared.run,
            sender,
            number: flight.number,
            planned: flight.planned,
        };
        let content = self.shared.words.content(sender, flight.number);
        self.shared.tally.borrow_mut().counts.sent += 1;
        socket.push(format!(
            r#"{{"id":{id},"type":"message.send","conversation_id":"{conversation}","client_message_id":"{key}","message_type":"TEXT","content":{content}}}"#
        ))
    }

    /// Asks for the next page of what was missed.
    fn ask_on(&self, socket: &mut Socket) -> Result<(), Broken> {
        let Some(place) = self.asking.front().copied() else {
            return Ok(());
        };
        let Some(Id(conversation)) = self.conversations.get(place) else {
            return Ok(());
        };
        let after = self.shared.ledger.borrow().asks_after(self.seat(place));
        socket.push(format!(
            r#"{{"id":{HISTORY_ID},"type":"history","conversation_id":"{conversation}","after_seq":{after},"limit":{PAGE}}}"#
        ))
    }

    const fn seat(&self, place: usize) -> Seat {
        Seat {
            connection: self.index,
            place,
        }
    }

    fn hear(&mut self, text: &str, now: u64) -> Result<(), Broken> {
        let frame = understood(text)?;
        match frame.kind {
            "message.new" => {
                if let Some(message) = frame.message {
                    self.delivered(&message, Way::Live, now);
                }
            }
            "message.sent" => self.acked(&frame, now),
            "history" => {
                for message in &frame.items {
                    self.delivered(message, Way::Asked, now);
                }
                if !frame.has_more {
                    self.asking.pop_front();
                }
                self.do_at(Instant::now(), Later::AskOn);
            }
            "error" => self.refused(&frame),
            "bye" => {
                return Err(Broken {
                    sort: "bye".to_owned(),
                    after: frame.reconnect_after_ms.map(Duration::from_millis),
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn delivered(&self, message: &Message, way: Way, now: u64) {
        // Conversations of earlier runs are nothing to us.
        let Some(place) = self.places.get(&message.conversation_id) else {
            return;
        };
        let key = message.client_message_id.0.filter(|key| key.run == self.shared.run);
        let arrived = self
            .shared
            .ledger
            .borrow_mut()
            .arrive(self.seat(*place), message.seq, key, way);
        let mut tally = self.shared.tally.borrow_mut();
        if arrived.fresh {
            tally.delivered(now, key.map(|key| key.planned));
        }
        if arrived.by_all
            && let Some(key) = key
        {
            tally.delivered_to_all(now, key.planned);
        }
    }

    fn acked(&mut self, frame: &Frame<'_>, now: u64) {
        let Some(flight) = frame.reply_to.and_then(|id| self.land(id)) else {
            return;
        };
        if matches!(self.shared.pace, Pace::Closed { .. }) {
            self.open.push_back(flight.sending);
        }
        let way = if frame.duplicate { Way::Asked } else { Way::Live };
        let place = frame.conversation_id.and_then(|id| self.places.get(&id));
        let (Some(place), Some(seq)) = (place, frame.seq) else {
            return;
        };
        let key = frame.client_message_id.0;
        let arrived = self.shared.ledger.borrow_mut().arrive(self.seat(*place), seq, key, way);
        let mut tally = self.shared.tally.borrow_mut();
        tally.duplicates += u64::from(frame.duplicate);
        tally.acked(now, flight.planned);
        if arrived.by_all {
            tally.delivered_to_all(now, flight.planned);
        }
    }

    fn land(&mut self, id: u64) -> Option<Flight> {
        let flight = self.flights.remove(&id)?;
        self.shared
            .unanswered
            .set(self.shared.unanswered.get().saturating_sub(1));
        Some(flight)
    }

    fn refused(&mut self, frame: &Frame<'_>) {
        let code = frame.code.unwrap_or("error");
        let mut tally = self.shared.tally.borrow_mut();
        tally.counts.errors += 1;
        tally.sort(code);
        drop(tally);
        let Some(id) = frame.reply_to else { return };
        let pause = frame.retry_after_ms.map_or(RETRY_PAUSE, Duration::from_millis);
        // Whoever is asked to wait does not come back together with all the others.
        let later = Instant::now() + pause.mul_f64(rand::rng().random_range(1.0..1.5));
        if id == HISTORY_ID {
            self.do_at(later, Later::AskOn);
        } else if frame.retryable {
            self.do_at(later, Later::Resend(id));
        } else if let Some(flight) = self.land(id) {
            let mut tally = self.shared.tally.borrow_mut();
            tally.refused += 1;
            if tally.first_refused.len() < REFUSED_NAMED_MAX {
                let detail = frame.detail.as_deref().unwrap_or_default();
                tally
                    .first_refused
                    .push(format!("{}: {code}: {detail}", self.device_id));
            }
            drop(tally);
            if matches!(self.shared.pace, Pace::Closed { .. }) {
                self.do_at(Instant::now() + REFUSED_PAUSE, Later::SendNext(flight.sending));
            }
        }
    }
}
