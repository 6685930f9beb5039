//! Follows the conversations that have moved, and gives their events places.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::interest::Interest;
use super::{RETRY_AFTER, Shared};
use crate::domain::{ConversationId, Seq, Timestamp, notice};
use crate::storage::{EventCursor, Lag, Placement, Placer, StoreResult, Unplaced};

/// Conversations whose events are placed in one transaction.
const CONVERSATIONS_PER_PASS: usize = 200;
/// Messages, and as many changes, of one conversation in one transaction; the rest comes with the next one.
const LINES_PER_CONVERSATION: u32 = 500;
/// What moves while a pass is under way, and for so long after it, is placed with the next one.
const BETWEEN_PASSES: Duration = Duration::from_millis(10);
/// Conversations that one step of the walk looks at.
const WALK_PAGE: u32 = 1_000;
/// The pause between two steps of the first walk after a start …
const WALK_QUICKLY: Duration = Duration::from_millis(5);
/// … and of those that follow: they find what another process had not placed when it was killed.
const WALK_SLOWLY: Duration = Duration::from_secs(1);

/// The one who places, of this process.
pub(super) struct Placing {
    shared: Arc<Shared>,
    placer: Box<dyn Placer>,
    walk: Walk,
}

/// Over all conversations, by id.
struct Walk {
    after: Option<ConversationId>,
    next_at: Instant,
    pause: Duration,
}

impl Walk {
    fn quickly() -> Self {
        Self {
            after: None,
            next_at: Instant::now(),
            pause: WALK_QUICKLY,
        }
    }
}

impl Placing {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let placer = shared.store.placer();
        Self {
            shared,
            placer,
            walk: Walk::quickly(),
        }
    }

    /// Places until it has to stop.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut interest = self.shared.interest.subscribe();
        let mut former = Interest::default();
        while !*stop.borrow_and_update() {
            let wanted = *interest.borrow_and_update();
            self.shared.hints.want(wanted.active_since.is_some());
            if former.active_since != wanted.active_since || self.shared.hints.take_lost() {
                self.walk = Walk::quickly();
            }
            former = wanted;
            let next_at = self.step(wanted).await;
            tokio::select! {
                _ = stop.changed() => {}
                _ = interest.changed() => {}
                () = async { sleep(BETWEEN_PASSES).await; self.shared.hints.moved().await } => {}
                () = until(next_at) => {}
            }
        }
    }

    /// What has moved, and a step of the walk when it is time for one. Answers when to go on at the latest.
    async fn step(&mut self, wanted: Interest) -> Option<Instant> {
        let since = wanted.active_since?;
        let moved = self.shared.hints.take(CONVERSATIONS_PER_PASS);
        let done = async {
            self.place_moved(wanted, since, &moved).await?;
            self.walk_on(wanted, since).await
        };
        match done.await {
            Ok(()) if moved.len() == CONVERSATIONS_PER_PASS => Some(Instant::now()),
            Ok(()) => Some(self.walk.next_at),
            Err(error) => {
                tracing::warn!(%error, "events have to wait for their places");
                for id in moved {
                    self.shared.hints.add(id);
                }
                sleep(RETRY_AFTER).await;
                Some(Instant::now())
            }
        }
    }

    async fn place_moved(&mut self, wanted: Interest, since: Timestamp, moved: &[ConversationId]) -> StoreResult<()> {
        if moved.is_empty() {
            return Ok(());
        }
        let lags = self.shared.store.lags_of(moved, since).await?;
        self.place(wanted, since, &lags).await
    }

    async fn walk_on(&mut self, wanted: Interest, since: Timestamp) -> StoreResult<()> {
        if Instant::now() < self.walk.next_at {
            return Ok(());
        }
        let page = self.shared.store.lags(self.walk.after, WALK_PAGE, since).await?;
        for lags in page.lags.chunks(CONVERSATIONS_PER_PASS) {
            self.place(wanted, since, lags).await?;
        }
        self.walk.after = page.last;
        if page.last.is_none() {
            self.walk.pause = WALK_SLOWLY;
        }
        self.walk.next_at = Instant::now() + self.walk.pause;
        Ok(())
    }

    async fn place(&mut self, wanted: Interest, since: Timestamp, lags: &[Lag]) -> StoreResult<()> {
        if lags.is_empty() {
            return Ok(());
        }
        let found = self.shared.store.unplaced(lags, LINES_PER_CONVERSATION).await?;
        let now = self.shared.clock.now();
        let due_at = now.plus(self.shared.options.push_after);
        let placements: Vec<Placement> = lags
            .iter()
            .zip(&found)
            .filter_map(|(lag, found)| placement(lag, found, since, wanted.push.then_some(due_at)))
            .collect();
        let placed = self.placer.place(&placements, &[], now).await?;
        self.shared.know(placed.newest);
        let at_head = |lag: &Lag| {
            let own = placements.iter().find(|own| own.conversation_id == lag.conversation_id);
            own.is_some_and(|own| (own.cursor.seq, own.cursor.change_seq) == lag.head)
        };
        // Another process was faster, or there is more than one pass takes.
        for lag in lags.iter().filter(|lag| placed.moved > 0 || !at_head(lag)) {
            self.shared.hints.add(lag.conversation_id);
        }
        Ok(())
    }
}

/// `None` = nothing can be placed now.
fn placement(lag: &Lag, found: &Unplaced, since: Timestamp, push_at: Option<Timestamp>) -> Option<Placement> {
    let read_up_to = found.messages.last().map_or(lag.from.0, |line| line.seq);
    let cut = read_up_to < lag.head.0;
    let told = notice::told(
        lag.conversation_id,
        lag.kind,
        lag.from,
        (&found.messages, cut),
        &found.changes,
    );
    let cursor = EventCursor {
        seq: told.seq,
        change_seq: told.change_seq,
        active_since: since,
    };
    let push = told
        .push
        .zip(push_at)
        .map(|((first, last), at): ((Seq, Seq), _)| (first, last, at));
    ((told.seq, told.change_seq) != lag.from).then_some(Placement {
        conversation_id: lag.conversation_id,
        expected: lag.row,
        cursor,
        notices: told.notices,
        push,
    })
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
