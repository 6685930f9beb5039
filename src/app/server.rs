//! The server: the core with its doors open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer};
use anyhow::{Context as _, anyhow};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing_actix_web::TracingLogger;
use uuid::Uuid;

use super::announcing::{Teller, announce};
use super::core::{Core, workers};
use super::files::{files, keep_tidy, open_blobs, sweep};
use super::people::People;
use super::relaying::{Relaying, caller};
use super::{keys, store};
use crate::auth::{Authenticator, OperatorKey, Signer};
use crate::blobs::Blobs;
use crate::clock::SystemClock;
use crate::config::{self, Config};
use crate::delivery::outbox::Bounds;
use crate::delivery::{Delivery, Options};
use crate::protocol::reply;
use crate::relay::{Hinting, Hints, Relay};
use crate::service::{Announcements, Devices, Epoch, Files, Health, Inbox, Messages, Reminder, Reminders, Sync, Users};
use crate::storage::Store;
use crate::telemetry::RequestSpan;
use crate::transport::limits::Limits;
use crate::transport::rates::{Rate, Rates};
use crate::transport::rest::{self, Rest, problems};
use crate::transport::ws::{self, Door, Greetings};

/// The least time for which the doors stay open after readiness has turned red, so that whoever asks (a load balancer)
/// sees that before it sees a closed door.
const RED_BEFORE_CLOSED: Duration = Duration::from_millis(500);

/// A running server.
pub struct Server {
    address: SocketAddr,
    core: Core,
    doors: Doors,
    relaying: Relaying,
    /// What the doors get of the time of a shutdown: the rest is for the writers and the lease.
    patience: Duration,
}

/// What stands between the clients and the core.
struct Doors {
    delivery: Arc<Delivery>,
    health: Arc<Health>,
    handle: ServerHandle,
    serving: JoinHandle<std::io::Result<()>>,
    reminders: JoinHandle<()>,
    keepers: [JoinHandle<()>; 4],
    tending: JoinHandle<()>,
    teller: Teller,
    /// Dropped, they stop the reminders and the watch over notifications.
    watching: [oneshot::Sender<()>; 2],
}

impl Server {
    /// Starts every part, in order. Runs inside an actix system.
    ///
    /// # Errors
    /// In words for the operator: which part could not start. What had started is stopped again.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        config.check_doors()?;
        let store = store::open(&config.database, config.database.auto_migrate).await?;
        store::say_how_durable(store.as_ref()).await?;
        let authenticator = keys::authenticator(&config.auth, store.as_ref()).await?;
        let signer = keys::own_signer(&config.auth, store.as_ref()).await?;
        let blobs = open_blobs(&config, true)?;
        let settings = Arc::<dyn Store>::clone(&store);
        let epoch = Epoch::read(settings, Arc::new(SystemClock), &Uuid::now_v7().to_string()).await?;
        let delivery = Arc::new(deliver(&config, &store));
        let hints = Arc::<Hints>::default();
        let publisher = Hinting::new(Arc::<Delivery>::clone(&delivery), Arc::clone(&hints));
        let http = caller(&config)?;
        let core = Core::start(&config, store, Arc::new(publisher)).await?;
        let relaying = Relaying::start(&config, &core, hints, http);
        let door = door(&config, &core, authenticator, delivery, epoch);
        let health = Arc::new(Health::new(Arc::<dyn Store>::clone(&core.store)));
        match open_doors(&config, &core, door, health, blobs, (signer, relaying.relay())) {
            Ok((address, doors)) => Ok(Self {
                address,
                core,
                doors,
                relaying,
                patience: Duration::from_secs(config.server.shutdown_secs) * 3 / 4,
            }),
            Err(error) => {
                relaying.stop(core).await;
                Err(error)
            }
        }
    }

    /// Where it listens; with port 0 the port that was free.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when this process can never again give out ids, since another has its worker id.
    pub async fn lease_lost(&mut self) {
        self.core.lease_lost().await;
    }

    /// Says that it is not ready, takes no new sessions, finishes what was accepted, says goodbye to every session, closes
    /// the doors, gives the worker id back. Whoever waits bounds it with `server.shutdown_secs`.
    pub async fn stop(self) {
        let doors = self.doors;
        doors.health.begin_draining();
        self.relaying.relay().answer_waiting();
        doors.keepers.iter().for_each(JoinHandle::abort);
        tracing::info!("stopping: no new sessions, finishing what was accepted");
        drop(doors.watching);
        let reminders = doors.reminders.abort_handle();
        if timeout(self.patience / 4, doors.reminders).await.is_err() {
            reminders.abort();
        }
        // Every step of it can be done again.
        doors.tending.abort();
        doors.teller.stop(self.patience / 4).await;
        let seen_red = sleep(RED_BEFORE_CLOSED.min(self.patience / 4));
        tokio::join!(doors.delivery.shut_down(self.patience), seen_red);
        doors.handle.stop(true).await;
        match doors.serving.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the HTTP server did not end well"),
            Err(error) => tracing::warn!(%error, "the HTTP server did not end well"),
        }
        self.relaying.stop(self.core).await;
        tracing::info!("stopped");
    }
}

fn deliver(config: &Config, store: &Arc<dyn Store>) -> Delivery {
    let options = Options {
        bounds: Bounds {
            bytes: config.limits.outbound_bytes,
            age: Duration::from_secs(config.limits.outbound_secs),
        },
        bytes_total: config.limits.outbound_total_bytes,
        heartbeat: Duration::from_secs(config.server.heartbeat_secs),
    };
    Delivery::new(Arc::<dyn Store>::clone(store), Arc::new(SystemClock), options)
}

fn open_doors(
    config: &Config,
    core: &Core,
    door: Door,
    health: Arc<Health>,
    blobs: Arc<Blobs>,
    (signer, relay): (Option<Signer>, &Relay),
) -> anyhow::Result<(SocketAddr, Doors)> {
    let delivery = Arc::clone(&door.delivery);
    let people = People::new(config, core, &door.inbox);
    let (tending, tended) = people.tend(core);
    let (announcements, teller) = announce(core, &people.notifications);
    let sweep = sweep(config, core, Arc::clone(&blobs));
    let parts = (people, announcements, files(config, core, Arc::clone(&blobs)));
    let rest = Arc::new(rest(config, core, &door, Arc::clone(&health), (signer, relay), parts));
    let reminders = Reminders::new(
        Arc::clone(&core.store),
        Arc::clone(&door.messages),
        Arc::clone(&core.clock),
    );
    let rates = Arc::clone(&door.rates);
    let door = Arc::new(door);
    let server = &config.server;
    let bound = HttpServer::new({
        let delivery = Arc::clone(&delivery);
        // Runs once on the thread of each worker.
        move || {
            App::new()
                .wrap(from_fn(problems))
                .wrap(TracingLogger::<RequestSpan>::new())
                .configure(ws::routes(Arc::clone(&door), delivery.start_hub()))
                .configure(rest::routes(Arc::clone(&rest)))
        }
    })
    .workers(workers(config))
    .max_connections(server.connections_per_worker)
    .backlog(server.backlog)
    .client_request_timeout(Duration::from_secs(server.request_timeout_secs))
    .keep_alive(Duration::from_secs(server.keep_alive_secs))
    .shutdown_timeout(server.shutdown_secs)
    .tcp_nodelay(true)
    .on_connect(ws::remember_socket)
    .disable_signals()
    .bind(server.listen)
    .with_context(|| format!("cannot listen on {} (server.listen)", server.listen))?;
    let address = bound.addrs().first().copied();
    let address = address.ok_or_else(|| anyhow!("the HTTP server has no address"))?;
    let running = bound.run();
    let handle = running.handle();
    let (watching, stop) = oneshot::channel();
    let doors = Doors {
        reminders: actix_rt::spawn(remind(reminders, Arc::clone(&delivery), stop)),
        tending,
        teller,
        watching: [watching, tended],
        keepers: [
            actix_rt::spawn(async move { rates.keep().await }),
            actix_rt::spawn({
                let delivery = Arc::clone(&delivery);
                async move { delivery.keep_within_bounds().await }
            }),
            actix_rt::spawn(async move { sweep.watch().await }),
            actix_rt::spawn(keep_tidy(blobs)),
        ],
        delivery,
        health,
        handle,
        serving: actix_rt::spawn(running),
    };
    Ok((address, doors))
}

/// Tells of what is due, until it is stopped.
async fn remind(reminders: Reminders, delivery: Arc<Delivery>, stop: oneshot::Receiver<()>) {
    let tell = |due: &Reminder| delivery.remind(due.principal, &due.message, &due.action);
    let stopped = async { drop(stop.await) };
    reminders
        .watch(|principal| delivery.is_reached(principal), tell, stopped)
        .await;
}

fn rates(limits: &config::Limits) -> Rates {
    let requests = Rate {
        per_second: limits.requests_per_second,
        burst: limits.requests_burst,
    };
    let connects = Rate {
        per_second: limits.connects_per_second,
        burst: limits.connects_burst,
    };
    Rates::new(requests, connects)
}

/// The WebSocket door.
fn door(config: &Config, core: &Core, authenticator: Authenticator, delivery: Arc<Delivery>, epoch: Epoch) -> Door {
    let limits = &config.limits;
    let epoch = Arc::new(epoch);
    let devices = Arc::new(Devices::new(
        Arc::<dyn Store>::clone(&core.store),
        Arc::clone(&core.clock),
        limits.acks_per_frame,
    ));
    Door {
        authenticator: Arc::new(authenticator),
        clock: Arc::clone(&core.clock),
        principals: Arc::clone(&core.principals),
        messages: Arc::new(Messages::new(
            Arc::clone(&core.store),
            Arc::clone(&core.bus),
            Arc::clone(&core.clock),
            config.limits.recall_window_secs,
        )),
        sync: Arc::new(Sync::new(
            Arc::clone(&core.store),
            Arc::clone(&core.clock),
            Arc::clone(&devices),
            Arc::clone(&epoch),
        )),
        inbox: Arc::new(Inbox::new(
            Arc::clone(&core.store),
            Arc::clone(&core.bus),
            Arc::clone(&core.ids),
        )),
        devices,
        delivery,
        greetings: Greetings::default(),
        rates: Arc::new(rates(limits)),
        trusted_proxies: config.server.trusted_proxies.clone(),
        hello_timeout: Duration::from_secs(config.server.hello_timeout_secs),
        heartbeat: Duration::from_secs(config.server.heartbeat_secs),
        limits: reply::Limits {
            content_bytes: limits.content_bytes,
            frame_bytes: limits.frame_bytes,
            acks_per_frame: limits.acks_per_frame,
            recall_window_secs: limits.recall_window_secs,
        },
        epoch,
    }
}

/// The REST door, over the same services as the other one.
fn rest(
    config: &Config,
    core: &Core,
    door: &Door,
    health: Arc<Health>,
    (signer, relay): (Option<Signer>, &Relay),
    (people, announcements, files): (People, Arc<Announcements>, Files),
) -> Rest {
    let delivery = Arc::clone(&door.delivery);
    let users = Users::new(
        Arc::clone(&core.store),
        Arc::clone(&core.clock),
        Arc::clone(&core.principals),
        Box::new(move |principal| delivery.kick_all(principal)),
    );
    Rest {
        authenticator: Arc::clone(&door.authenticator),
        clock: Arc::clone(&core.clock),
        principals: Arc::clone(&core.principals),
        conversations: Arc::clone(&core.conversations),
        messages: Arc::clone(&door.messages),
        devices: Arc::clone(&door.devices),
        inbox: Arc::clone(&door.inbox),
        notifications: people.notifications,
        contacts: people.contacts,
        announcements,
        files: Arc::new(files),
        sync: Arc::clone(&door.sync),
        health,
        users: Arc::new(users),
        delivery: Arc::clone(&door.delivery),
        feed: relay.feed(),
        webhooks: relay.webhooks(),
        signer,
        rates: Arc::clone(&door.rates),
        operator_key: OperatorKey::new(config.admin.api_key.as_ref()),
        limits: Limits {
            content_bytes: config.limits.content_bytes,
            frame_bytes: config.limits.frame_bytes,
        },
    }
}
