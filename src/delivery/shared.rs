//! What all hubs work with, and how each of them is reached.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use actix::dev::SendError;
use actix::{Addr, Handler, Message};
use bytes::Bytes;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::Options;
use super::fan::Fan;
use super::hub::{Deliver, Hub, Ping, Register, Sweep, Typing};
use super::session::Session;
use super::sessions::Sessions;
use crate::clock::Clock;
use crate::domain::{ConversationId, Principal};
use crate::storage::ConversationStore;

/// How many sessions read their memberships at once.
pub const LOADS_MAX: usize = 32;

/// How far somebody has come with writing.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypingState {
    /// When it was last passed on.
    pub(super) at: Instant,
    /// Whether they may reach anybody there; `None` = it is being looked up.
    allowed: Option<bool>,
}

/// What becomes of typing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypingTurn {
    /// It is passed on.
    Allowed,
    /// It comes too soon after the last, or reaches nobody.
    Dropped,
    /// Whether it reaches anybody is to be looked up.
    Unknown,
}

/// What all hubs work with.
pub(super) struct Shared {
    pub(super) store: Arc<dyn ConversationStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: Options,
    pub(super) sessions: Sessions,
    pub(super) loads: Semaphore,
    /// Who writes where.
    pub(super) typing: DashMap<(Principal, ConversationId), TypingState>,
    hubs: RwLock<Vec<HubHandle>>,
}

impl Shared {
    pub(super) fn new(store: Arc<dyn ConversationStore>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self {
            store,
            clock,
            options,
            sessions: Sessions::default(),
            loads: Semaphore::new(LOADS_MAX),
            typing: DashMap::new(),
            hubs: RwLock::default(),
        }
    }

    /// Starts a hub on the present arbiter.
    pub(super) fn start_hub(self: &Arc<Self>) -> HubHandle {
        let mut hubs = self.hubs.write().unwrap_or_else(PoisonError::into_inner);
        let (index, load) = (hubs.len(), Arc::<HubLoad>::default());
        let hub = HubHandle {
            index,
            address: Arc::new(RwLock::new(Hub::start_here(index, Arc::clone(self), Arc::clone(&load)))),
            load,
            shared: Arc::clone(self),
        };
        hubs.push(hub.clone());
        hub
    }

    /// Calls `each` for the hubs that have sessions.
    pub(super) fn each_hub(&self, each: impl Fn(&HubHandle)) {
        let hubs = self.hubs.read().unwrap_or_else(PoisonError::into_inner);
        hubs.iter().filter(|hub| !hub.is_empty()).for_each(each);
    }

    /// One hub.
    pub(super) fn with_hub(&self, index: usize, call: impl Fn(&HubHandle) + Copy) {
        let hubs = self.hubs.read().unwrap_or_else(PoisonError::into_inner);
        hubs.get(index).into_iter().for_each(call);
    }

    /// To every hub; a hub that has too much to do does not get it.
    pub(super) fn spread_sheddable(&self, fan: &Arc<Fan>) {
        self.each_hub(|hub| drop(hub.try_send(Deliver(Arc::clone(fan)))));
    }

    /// Once in `every` for a sender in a conversation.
    pub(super) fn may_type(&self, principal: Principal, conversation: ConversationId, every: Duration) -> TypingTurn {
        let at = Instant::now();
        match self.typing.entry((principal, conversation)) {
            Entry::Vacant(first) => {
                first.insert(TypingState { at, allowed: None });
                TypingTurn::Unknown
            }
            Entry::Occupied(last) if at.duration_since(last.get().at) < every => TypingTurn::Dropped,
            Entry::Occupied(mut last) => {
                last.get_mut().at = at;
                match last.get().allowed {
                    Some(true) => TypingTurn::Allowed,
                    Some(false) => TypingTurn::Dropped,
                    None => TypingTurn::Unknown,
                }
            }
        }
    }

    /// What was looked up; `false` = it is not so any more, since somebody was blocked in the meantime.
    pub(super) fn learn_typing(&self, principal: Principal, conversation: ConversationId, allowed: bool) -> bool {
        let found = self.typing.get_mut(&(principal, conversation));
        found.map(|mut state| state.allowed = Some(allowed)).is_some()
    }

    /// Who blocks whom is another than before: it is looked up again.
    pub(super) fn forget_typing(&self, conversation: ConversationId, (one, other): (Principal, Principal)) {
        self.typing.remove(&(one, conversation));
        self.typing.remove(&(other, conversation));
    }
}

/// How much a hub has to do.
#[derive(Default)]
pub(super) struct HubLoad {
    sessions: AtomicUsize,
    overruns: AtomicU64,
    /// Sessions that have ended. Beside the mailbox: an end must not get lost when that is full.
    departed: Mutex<Vec<u64>>,
}

impl HubLoad {
    /// How often something found the mailbox full.
    pub(super) fn overruns(&self) -> u64 {
        self.overruns.load(Ordering::SeqCst)
    }

    /// One session fewer here.
    pub(super) fn leave(&self) {
        self.sessions.fetch_sub(1, Ordering::SeqCst);
    }

    /// The sessions that have ended since the last look.
    pub(super) fn departed(&self) -> Vec<u64> {
        std::mem::take(&mut self.departed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A hub, from outside.
#[derive(Clone)]
pub struct HubHandle {
    index: usize,
    /// Changes only when a hub has panicked.
    address: Arc<RwLock<Addr<Hub>>>,
    load: Arc<HubLoad>,
    shared: Arc<Shared>,
}

impl HubHandle {
    /// Its number in this process.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Lets a session in: enters it, replaces an older one of the same device, reads its memberships, queues `welcome`.
    /// `true` = it is welcomed; `false` = the store or the hub did not answer. Called on the hub's own arbiter.
    pub async fn register(&self, session: Arc<Session>, welcome: Bytes) -> bool {
        self.revive();
        let (ready, welcomed) = oneshot::channel();
        let overruns = self.load.overruns();
        // Entered before the memberships are read: a commit that does not see the session is seen by the reading.
        self.load.sessions.fetch_add(1, Ordering::SeqCst);
        self.shared.sessions.enter(&session);
        let register = Register {
            session: Arc::clone(&session),
            welcome,
            ready,
            overruns,
        };
        if self.try_send(register).is_err() {
            self.load.leave();
            self.shared.sessions.leave(&session);
            return false;
        }
        welcomed.await.unwrap_or(false)
    }

    /// The session has ended.
    pub fn unregister(&self, session: &Session) {
        let mut departed = self.load.departed.lock().unwrap_or_else(PoisonError::into_inner);
        departed.push(session.id());
        drop(departed);
        // A hub without room finds it at its next tick.
        drop(self.try_send(Sweep));
    }

    /// Answers behind everything that was queued before; `false` = the hub is behind.
    #[must_use]
    pub fn ping(&self, session: u64, frame: u64) -> bool {
        self.try_send(Ping { session, frame }).is_ok()
    }

    /// Passes typing on; it is the first thing that is shed.
    pub fn typing(&self, session: u64, conversation_id: ConversationId) {
        drop(self.try_send(Typing {
            session,
            conversation_id,
        }));
    }

    fn is_empty(&self) -> bool {
        self.load.sessions.load(Ordering::SeqCst) == 0
    }

    /// What does not fit any more is counted: the hub sees it and cuts its sessions.
    pub(super) fn send<M>(&self, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        Hub: Handler<M>,
    {
        if let Err(SendError::Full(_)) = self.try_send(message) {
            self.load.overruns.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn try_send<M>(&self, message: M) -> Result<(), SendError<M>>
    where
        M: Message<Result = ()> + Send + 'static,
        Hub: Handler<M>,
    {
        let address = self.address.read().unwrap_or_else(PoisonError::into_inner);
        address.try_send(message)
    }

    /// A hub that has panicked took its sessions with it, and nothing else: the next one to come starts a new one.
    fn revive(&self) {
        let alive = self.address.read().unwrap_or_else(PoisonError::into_inner).connected();
        if !alive {
            tracing::error!(hub = self.index, "a hub had panicked; a new one is started");
            let hub = Hub::start_here(self.index, Arc::clone(&self.shared), Arc::clone(&self.load));
            *self.address.write().unwrap_or_else(PoisonError::into_inner) = hub;
        }
    }

    #[cfg(test)]
    pub(super) fn panic(&self) {
        self.send(super::hub::Panic);
    }

    #[cfg(test)]
    pub(super) fn tire(&self) {
        self.send(super::hub::Tire);
    }
}
