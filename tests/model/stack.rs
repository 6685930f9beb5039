//! The server without its doors: services, writers and delivery on a store.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Arbiter, Context, Handler, Recipient};
use onescribe::clock::{Clock as _, ManualClock};
use onescribe::conversation::{Committer, Parts, run_lane};
use onescribe::delivery::outbox::Bounds;
use onescribe::delivery::session::{Introduced, Refused, Session};
use onescribe::delivery::{Delivery, HubHandle, Options};
use onescribe::domain::snowflake::{EPOCH_MS, Snowflake};
use onescribe::domain::{DeviceId, Name, Origin, Principal, PrincipalType, Subject, Timestamp};
use onescribe::ids::Ids;
use onescribe::routing::{Bus, Registry};
use onescribe::service::{
    Contacts, Conversations, Devices, Epoch, Inbox, Messages, NotificationParts, Notifications, Principals, Sync, Terms,
};
use onescribe::storage::Store;

use super::model::{User, WINDOW_SECS};

const TERMS: Terms = Terms {
    expire: Duration::from_hours(720),
    ask_again: Duration::from_hours(24),
};
const HOUR: Duration = Duration::from_hours(1);
const BOUNDS: Bounds = Bounds {
    bytes: 64 << 20,
    age: HOUR,
};

/// One run of a server.
pub(crate) struct Stack {
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) messages: Arc<Messages>,
    pub(crate) sync: Sync,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) contacts: Contacts,
    pub(crate) devices: Arc<Devices>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) hub: HubHandle,
    refusals: Recipient<Refused>,
}

struct Deaf;

impl Actor for Deaf {
    type Context = Context<Self>;
}

impl Handler<Refused> for Deaf {
    type Result = ();

    fn handle(&mut self, _: Refused, _: &mut Context<Self>) {}
}

/// A clock that no test of time shares.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(EPOCH_MS + 1_000_000)))
}

impl Stack {
    /// Starts on what is stored. The clock must have moved since an earlier run gave ids.
    pub(crate) async fn start(store: &Arc<dyn Store>, clock: &Arc<ManualClock>) -> Self {
        let (store, clock) = (Arc::clone(store), Arc::clone(clock));
        let flake = Snowflake::new(1, clock.now()).unwrap();
        let ids = Arc::new(Ids::new(clock.clone(), flake, Timestamp::from_millis(i64::MAX)));
        let options = Options {
            bounds: BOUNDS,
            bytes_total: usize::MAX,
            heartbeat: HOUR,
        };
        let delivery = Arc::new(Delivery::new(store.clone(), clock.clone(), options));
        let (committer, lanes) = Committer::new(1);
        for lane in lanes {
            let store = store.clone();
            actix::spawn(run_lane(lane, move || store.writer()));
        }
        let parts = Arc::new(Parts {
            store: store.clone(),
            committer,
            ids: ids.clone(),
            clock: clock.clone(),
            publisher: delivery.clone(),
        });
        let bus: Arc<dyn Bus> = Arc::new(Registry::new(vec![Arbiter::current()], parts, HOUR));
        let principals = Arc::new(Principals::new(store.clone(), ids.clone(), clock.clone(), true));
        let devices = Arc::new(Devices::new(store.clone(), clock.clone(), 10_000));
        let epoch = Arc::new(Epoch::read(store.clone(), clock.clone(), "epoch").await.unwrap());
        let inbox = Arc::new(Inbox::new(store.clone(), bus.clone(), ids.clone()));
        let conversations = Conversations::new(store.clone(), bus.clone(), ids, principals.clone());
        let conversations = Arc::new(conversations);
        let parts = NotificationParts {
            store: store.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
            principals: principals.clone(),
            conversations: conversations.clone(),
            inbox: inbox.clone(),
        };
        let notifications = Arc::new(Notifications::new(parts, TERMS));
        let (own, told) = (inbox.clone(), notifications.clone());
        Self {
            contacts: Contacts::new(store.clone(), bus.clone(), principals, own, told),
            notifications,
            inbox,
            conversations,
            messages: Arc::new(Messages::new(store.clone(), bus, clock.clone(), WINDOW_SECS)),
            sync: Sync::new(store, clock, devices.clone(), epoch),
            devices,
            hub: delivery.start_hub(),
            delivery,
            refusals: Deaf.start().recipient(),
        }
    }

    /// A connection that has said hello.
    pub(crate) async fn connect(&self, user: User, device: &str) -> Arc<Session> {
        let (id, outbox) = self.delivery.open(None);
        let session = Arc::new(Session::new(Introduced {
            id,
            hub: self.hub.index(),
            principal: principal(user),
            device: DeviceId::parse(device).unwrap(),
            outbox,
            refusals: self.refusals.clone(),
        }));
        let welcome = onescribe::delivery::wire::text(&"welcome");
        assert!(self.hub.register(Arc::clone(&session), welcome).await);
        session
    }

    pub(crate) fn disconnect(&self, session: &Session) {
        session.outbox().end();
        self.hub.unregister(session);
        self.delivery.closed(session.id());
    }
}

pub(crate) fn principal(user: User) -> Principal {
    Principal::user(i64::try_from(user).unwrap() + 1)
}

pub(crate) fn subject(user: User) -> Subject {
    Subject {
        kind: PrincipalType::User,
        name: Name::Id(principal(user).id),
    }
}

pub(crate) fn origin(user: User, device: &str) -> Origin {
    Origin {
        principal: principal(user),
        device: Some(DeviceId::parse(device).unwrap()),
    }
}
