//! The whole of delivery from outside: takes facts from the writers, connections from the doors, and ends them all.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::Options;
use super::budget::{self, LOOK_EVERY};
use super::fan::{self, Fan, Item};
use super::hub::{Answered, Deliver};
use super::outbox::{CONTROL_GRACE, Outbox};
use super::shared::{HubHandle, Shared};
use super::wire::{self, Close};
use crate::clock::Clock;
use crate::conversation::{Answer, Committed, Publisher, SessionReply, Step};
use crate::domain::{Action, DeviceId, Event, Marked, Principal};
use crate::protocol::reply::Push;
use crate::storage::ConversationStore;

/// The first client is asked to come back so long after a restart …
const RECONNECT_FIRST_MS: u64 = 500;
/// … each further one so much later (B91) …
const RECONNECT_STEP_MS: u64 = 5;
/// … and none later than this.
const RECONNECT_LAST_MS: u64 = 60_000;
/// How often a shutdown looks whether it may go on.
const SHUTDOWN_TICK: Duration = Duration::from_millis(20);

/// Delivery of one process.
pub struct Delivery {
    shared: Arc<Shared>,
    /// Every connection, also those that have not said hello.
    connections: DashMap<u64, Arc<Outbox>>,
    next_connection: AtomicU64,
    closing: AtomicBool,
}

impl Delivery {
    /// `store` tells in which conversations a new session's principal is.
    #[must_use]
    pub fn new(store: Arc<dyn ConversationStore>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self {
            shared: Arc::new(Shared::new(store, clock, options)),
            connections: DashMap::new(),
            next_connection: AtomicU64::new(1),
            closing: AtomicBool::new(false),
        }
    }

    /// Starts the hub of the present arbiter: once per worker, on its own thread.
    #[must_use]
    pub fn start_hub(&self) -> HubHandle {
        self.shared.start_hub()
    }

    /// A connection is there: its number, and the way out. `socket` is a second handle of the connection's.
    pub fn open(&self, socket: Option<Arc<TcpStream>>) -> (u64, Arc<Outbox>) {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let outbox = Arc::new(Outbox::new(self.shared.options.bounds, socket));
        self.connections.insert(id, Arc::clone(&outbox));
        if self.is_closing() {
            outbox.close(Close::Restart);
        }
        (id, outbox)
    }

    /// The connection is gone.
    pub fn closed(&self, id: u64) {
        self.connections.remove(&id);
    }

    /// The device may not be connected any more (4010).
    pub fn kick(&self, principal: Principal, device: &DeviceId) {
        if let Some(session) = self.shared.sessions.of_device(principal, device) {
            session.outbox().close(Close::Kicked);
        }
    }

    /// The principal may not be connected any more, on any device (4010).
    pub fn kick_all(&self, principal: Principal) {
        for session in self.shared.sessions.of(principal) {
            session.outbox().close(Close::Kicked);
        }
    }

    /// Has `principal` a connection here that is told of what happens?
    #[must_use]
    pub fn is_reached(&self, principal: Principal) -> bool {
        self.shared.sessions.is_reached(principal)
    }

    /// Tells the devices of `principal` that a reminder is due.
    pub fn remind(&self, principal: Principal, message: &Marked, action: &Action) {
        let fired = Push::ReminderFired {
            message: message.into(),
            action: action.into(),
        };
        let fan = Arc::new(Fan {
            conversation_id: action.conversation_id,
            items: vec![Item::Own {
                principal,
                frame: wire::text(&fired),
            }],
        });
        self.shared.each_hub(|hub| hub.send(Deliver(Arc::clone(&fan))));
    }

    /// Has the device a connection here?
    #[must_use]
    pub fn is_connected(&self, principal: Principal, device: &DeviceId) -> bool {
        let session = self.shared.sessions.of_device(principal, device);
        session.is_some_and(|session| session.outbox().is_open())
    }

    /// Keeps what waits for all connections together within its bound; never comes back.
    pub async fn keep_within_bounds(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let all = self.connections.iter().map(|connection| Arc::clone(&connection));
            let cut = budget::relieve(all, self.shared.options.bytes_total, Instant::now());
            if cut > 0 {
                tracing::warn!(
                    cut,
                    "more than limits.outbound_total_bytes was waiting: slow clients will sync"
                );
            }
        }
    }

    /// How many bytes may wait for one connection.
    #[must_use]
    pub fn outbound_bytes(&self) -> usize {
        self.shared.options.bounds.bytes
    }

    /// How many sessions have said hello.
    #[must_use]
    pub fn online(&self) -> usize {
        self.shared.sessions.count()
    }

    /// Is the server about to stop? Then nothing new is accepted.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Ends every connection: nothing new is accepted, what was accepted is answered (for at most `patience`), then
    /// `bye` and 1012 go out, with a time to come back that is spread over the clients.
    pub async fn shut_down(&self, patience: Duration) {
        self.closing.store(true, Ordering::SeqCst);
        let until = Instant::now() + patience;
        while self.shared.sessions.waiting() > 0 && Instant::now() < until {
            tokio::time::sleep(SHUTDOWN_TICK).await;
        }
        let waits = (0..).map(|at: u64| RECONNECT_LAST_MS.min(RECONNECT_FIRST_MS + at * RECONNECT_STEP_MS));
        for (connection, reconnect_after_ms) in self.connections.iter().zip(waits) {
            let bye = Push::Bye {
                reason: "restart",
                reconnect_after_ms,
            };
            connection.close_with(wire::text(&bye), Close::Restart);
        }
        let until = Instant::now() + CONTROL_GRACE * 2;
        while !self.connections.is_empty() && Instant::now() < until {
            tokio::time::sleep(SHUTDOWN_TICK).await;
        }
    }
}

impl Publisher for Delivery {
    fn committed(&self, committed: Committed) {
        if self.shared.sessions.count() == 0 {
            return;
        }
        for step in &committed.steps {
            if let Step::Event(Event::BlocksHeeded { pair, .. }) = step {
                self.shared.forget_typing(committed.conversation_id, *pair);
            }
        }
        let bytes_max = self.shared.options.turn_bytes();
        for fan in fan::fans(&committed, &self.shared.sessions, bytes_max) {
            let fan = Arc::new(fan);
            self.shared.each_hub(|hub| hub.send(Deliver(Arc::clone(&fan))));
        }
    }

    fn answer(&self, to: SessionReply, answer: Answer) {
        self.shared
            .with_hub(to.hub, |hub| hub.send(Answered(to, answer.clone())));
    }
}
