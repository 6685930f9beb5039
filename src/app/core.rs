//! Everything but the doors: ids, writers, the bus. The server stands on it, and so does `import`.

use std::sync::Arc;
use std::time::Duration;

use actix::Arbiter;
use anyhow::Context as _;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::conversation::{Answer, Committed, Committer, Lane, Parts, Publisher, ReplyTo, SessionReply, run_lane};
use crate::domain::{Command, ConversationId};
use crate::ids::Ids;
use crate::routing::node::Node;
use crate::routing::{Bus, Registry};
use crate::service::{Conversations, Principals};
use crate::storage::Store;

/// How long lanes may take to finish the commits under way.
const LANES_STOP: Duration = Duration::from_secs(5);

/// The parts that decide and store. Dropping it stops nothing: call [`Core::stop`].
pub struct Core {
    /// Where facts are kept.
    pub store: Arc<dyn Store>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<Ids>,
    /// The way to the writers.
    pub bus: Arc<dyn Bus>,
    /// Who is who.
    pub principals: Arc<Principals>,
    /// Makes and finds conversations.
    pub conversations: Arc<Conversations>,
    node: Arc<Node>,
    keeper: JoinHandle<()>,
    arbiters: Vec<Arbiter>,
    committer: Committer,
    /// Each is told, or dropped, when its lane has ended.
    lanes: Vec<oneshot::Receiver<()>>,
}

impl Core {
    /// Joins the nodes of this store and starts what writes. Runs inside an actix system.
    ///
    /// # Errors
    /// When no worker id can be had: all are taken, or the store does not answer.
    pub async fn start(config: &Config, store: Arc<dyn Store>, publisher: Arc<dyn Publisher>) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let lease = Duration::from_secs(config.database.lease_secs);
        let node = Node::join(Arc::clone(&store), Arc::clone(&clock), lease).await;
        let node = Arc::new(node.context("this process cannot get a worker id, so it could not give out message ids")?);
        tracing::info!(worker = node.worker(), "joined the nodes of this store");
        let keeper = actix_rt::spawn({
            let node = Arc::clone(&node);
            async move { node.keep().await }
        });
        let ids = node.ids();
        let lanes = if config.database.lanes == 0 {
            store.lanes()
        } else {
            config.database.lanes
        };
        let (committer, lanes) = Committer::new(lanes);
        let arbiters: Vec<Arbiter> = (0..workers(config)).map(|_| Arbiter::new()).collect();
        let lanes = start_lanes(lanes, &arbiters, &store);
        let parts = Arc::new(Parts {
            store: Arc::clone(&store),
            committer: committer.clone(),
            ids: Arc::clone(&ids),
            clock: Arc::clone(&clock),
            publisher,
        });
        let idle_after = Duration::from_secs(config.conversation.idle_secs);
        let handles = arbiters.iter().map(Arbiter::handle).collect();
        let registry = Registry::new(handles, parts, idle_after);
        let bus: Arc<dyn Bus> = Arc::new(registry.bounded(config.limits.backlog_bytes));
        let principals = Arc::new(Principals::new(
            Arc::<dyn Store>::clone(&store),
            Arc::clone(&ids),
            Arc::clone(&clock),
            config.auth.auto_provision,
        ));
        Ok(Self {
            conversations: Arc::new(Conversations::new(
                Arc::clone(&store),
                Arc::clone(&bus),
                Arc::clone(&ids),
                Arc::clone(&principals),
            )),
            store,
            clock,
            ids,
            bus,
            principals,
            node,
            keeper,
            arbiters,
            committer,
            lanes,
        })
    }

    /// Asks a conversation's writer. Commands reach it in the order of the calls; a closed channel means that the
    /// outcome is unknown.
    #[must_use]
    pub fn ask(&self, conversation_id: ConversationId, command: Command) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.bus.dispatch(conversation_id, command, ReplyTo::Caller(sender));
        receiver
    }

    /// Returns when another process has our worker id: this one can never again give out ids.
    pub async fn lease_lost(&mut self) {
        // A keeper that panicked renews nothing either.
        (&mut self.keeper).await.ok();
    }

    /// Stops the parts. Whoever asks for something must have stopped before.
    ///
    /// The worker id and the connections for reads go first, since those belong to the threads on which they were made:
    /// while the threads still run, they end in good order. Nothing needs an id any more, and lanes have their own.
    pub async fn stop(self) {
        self.keeper.abort();
        self.node.leave().await;
        self.store.close().await;
        drop((self.conversations, self.bus));
        // Before their threads stop: a commit that has begun is finished.
        let ended = async {
            self.committer.end().await;
            for lane in self.lanes {
                lane.await.ok();
            }
        };
        if timeout(LANES_STOP, ended).await.is_err() {
            tracing::warn!("a commit is still under way; whoever waits for it asks again with the same key");
        }
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        for arbiter in self.arbiters {
            // Joins a thread, so it must not hold up this one.
            spawn_blocking(move || arbiter.join().ok()).await.ok();
        }
    }
}

/// Starts the lanes where the writers run.
fn start_lanes(lanes: Vec<Lane>, arbiters: &[Arbiter], store: &Arc<dyn Store>) -> Vec<oneshot::Receiver<()>> {
    let start = |(lane, arbiter): (Lane, &Arbiter)| {
        let (ended, end) = oneshot::channel();
        let store = Arc::clone(store);
        arbiter.spawn(async move {
            run_lane(lane, move || store.writer()).await;
            // At a stop that has waited for too long nobody listens.
            ended.send(()).ok();
        });
        end
    };
    lanes.into_iter().zip(arbiters.iter().cycle()).map(start).collect()
}

/// Threads for connections, and as many for writers.
pub(super) fn workers(config: &Config) -> usize {
    match config.server.workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        workers => workers,
    }
}

/// For commands that have no sessions to tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDelivery;

impl Publisher for NoDelivery {
    fn committed(&self, _: Committed) {}

    fn answer(&self, _: SessionReply, _: Answer) {}
}
