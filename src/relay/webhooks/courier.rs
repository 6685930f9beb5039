//! Calls one webhook: makes deliveries of the events that it wants, and delivers them: of one conversation one after the
//! other, of many at the same time.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::call::{Answer, Call};
use super::lanes::{Lanes, Waiting};
use super::signature::sign;
use super::{lease, lease_times, renewed_at};
use crate::domain::{Delivery, DeliveryState, EventNo, PlacedNotice, Webhook, WebhookId};
use crate::protocol::events::Event;
use crate::relay::present::present;
use crate::relay::{RETRY_AFTER, Shared};
use crate::storage::{Holder, StoreResult};

/// Calls under way at a time; of one conversation one.
const PARALLEL: usize = 16;
/// After so many failures in a row one call at a time is enough to find out whether the receiver is back.
const FAILURES_TILL_ALONE: u32 = 10;
/// Deliveries that wait in memory; further events wait in their log.
const WAITING_MAX: usize = 50_000;
/// Events that are read from the log at once.
const EVENTS_PER_STEP: u32 = 500;
/// Deliveries that are read at once.
const PENDING_PER_STEP: u32 = 5_000;
/// What was delivered is written down after so long …
const WRITE_DOWN_AFTER: Duration = Duration::from_millis(20);
/// … or when it is so much. A crash in between delivers it again, with the same id.
const WRITE_DOWN_AT: usize = 100;
/// With so much not written down nothing more is delivered.
const UNWRITTEN_MAX: usize = 1_000;
/// How often it is looked whether the operator has changed something in another process.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What was read without being wanted is written down so often.
const MOVE_EVERY: Duration = Duration::from_secs(5);
/// The longest that a receiver may ask to be left alone for.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);
/// How long a shutdown waits for calls under way.
const STOP_WAIT_MAX: Duration = Duration::from_secs(3);

/// What came of one delivery.
enum Outcome {
    Delivered,
    /// There is nothing to tell any more.
    Moot,
    Failed {
        why: String,
        retry_after: Option<Duration>,
    },
    /// The store did not answer, or not in time: it was not tried.
    NotTried,
}

type Calls<'a> = FuturesUnordered<BoxFuture<'a, (Waiting, Outcome)>>;

/// Calls that have ended and were not looked at yet.
type Ended = VecDeque<(Waiting, Outcome)>;

/// Does something while the calls go on: one that was given a connection to the store and does not go on would keep it from
/// everybody, and from whoever waits here.
async fn beside<T>(calls: &mut Calls<'_>, ended: &mut Ended, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(call) = calls.next(), if !calls.is_empty() => ended.push_back(call),
        }
    }
}

/// The one who calls a webhook.
pub(super) struct Courier<'a> {
    shared: &'a Shared,
    hook: Arc<Webhook>,
    lanes: Lanes,
    /// What is in the log up to here is in the lanes, or not wanted.
    read_to: EventNo,
    moved_at: Instant,
    /// Lanes and webhook have to be read anew, once no call is under way.
    stale: bool,
    delivered: Vec<EventNo>,
    first_delivered_at: Instant,
    failures: u32,
    lease_until: Instant,
    look_at: Instant,
}

impl<'a> Courier<'a> {
    /// The lease was just taken.
    pub(super) fn new(shared: &'a Shared, hook: Webhook) -> Self {
        let now = Instant::now();
        Self {
            shared,
            hook: Arc::new(hook),
            lanes: Lanes::default(),
            read_to: EventNo::ZERO,
            moved_at: now,
            stale: true,
            delivered: Vec::new(),
            first_delivered_at: now,
            failures: 0,
            lease_until: now + lease(shared),
            look_at: now,
        }
    }

    fn holder(&self) -> Holder<'a> {
        Holder {
            webhook_id: self.hook.webhook_id,
            holder: &self.shared.holder,
        }
    }

    /// Calls until it has to stop, the webhook is gone, or another process has the lease. Answers which webhook it was.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) -> WebhookId {
        let mut calls: Calls<'a> = FuturesUnordered::new();
        let mut ended = Ended::new();
        let mut newest = self.shared.newest.subscribe();
        let mut changed = self.shared.changed.subscribe();
        let mut wait_until = Instant::now();
        while !*stop.borrow() {
            if wait_until <= Instant::now() {
                let idle = calls.is_empty() && ended.is_empty();
                match beside(&mut calls, &mut ended, self.turn(idle)).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(%error, webhook = self.hook.name.as_str(), "a webhook has to wait");
                        wait_until = Instant::now() + RETRY_AFTER;
                    }
                }
            }
            while let Some((waiting, outcome)) = ended.pop_front() {
                beside(&mut calls, &mut ended, self.ended(waiting, outcome)).await;
            }
            self.start(&mut calls);
            let next_at = self.next_at(calls.len()).max(wait_until);
            tokio::select! {
                _ = stop.changed() => {}
                Some(done) = calls.next(), if !calls.is_empty() => ended.push_back(done),
                _ = newest.changed() => {}
                _ = changed.changed() => self.look_at = Instant::now(),
                () = sleep_until(next_at) => {}
            }
        }
        let webhook_id = self.hook.webhook_id;
        self.finish(calls, ended).await;
        webhook_id
    }

    /// Everything but the calls. `false` = there is nothing to do here any more.
    async fn turn(&mut self, idle: bool) -> StoreResult<bool> {
        if !self.renew().await? || !self.look().await? {
            return Ok(false);
        }
        if self.stale && idle {
            self.write_down().await?;
            self.load().await?;
        }
        let waits_long = self.first_delivered_at.elapsed() >= WRITE_DOWN_AFTER;
        if self.delivered.len() >= WRITE_DOWN_AT || waits_long || idle {
            self.write_down().await?;
        }
        if !self.stale {
            self.read_on().await?;
        }
        Ok(true)
    }

    async fn renew(&mut self) -> StoreResult<bool> {
        let began = Instant::now();
        if began + renewed_at(self.shared) < self.lease_until {
            return Ok(true);
        }
        let (now, until) = lease_times(self.shared);
        let holds = self.shared.store.lease_webhook(self.holder(), now, until).await?;
        if holds {
            self.lease_until = began + lease(self.shared);
        }
        Ok(holds)
    }

    /// What has the operator done?
    async fn look(&mut self) -> StoreResult<bool> {
        if Instant::now() < self.look_at {
            return Ok(true);
        }
        let found = self.shared.store.webhook(&self.hook.name).await?;
        self.look_at = Instant::now() + LOOK_EVERY;
        let Some(found) = found.filter(|found| found.webhook_id == self.hook.webhook_id) else {
            return Ok(false);
        };
        self.stale |= found.version != self.hook.version;
        Ok(true)
    }

    /// Reads the webhook and what waits for it. What was read before is forgotten.
    async fn load(&mut self) -> StoreResult<()> {
        let found = self.shared.store.webhook(&self.hook.name).await?;
        let Some(hook) = found.filter(|found| found.webhook_id == self.hook.webhook_id) else {
            return Ok(());
        };
        let (mut lanes, mut after) = (Lanes::default(), EventNo::ZERO);
        loop {
            let pending = self
                .shared
                .store
                .pending(hook.webhook_id, after, hook.event_no, PENDING_PER_STEP);
            let pending = pending.await?;
            let Some(last) = pending.last() else { break };
            after = last.event_no;
            for delivery in &pending {
                lanes.add(delivery.into());
            }
        }
        (self.lanes, self.read_to, self.stale) = (lanes, hook.event_no, false);
        self.hook = Arc::new(hook);
        self.failures = 0;
        Ok(())
    }

    /// Makes deliveries of what is new in the log.
    async fn read_on(&mut self) -> StoreResult<()> {
        let known = *self.shared.newest.borrow();
        if self.lanes.len() >= WAITING_MAX || known <= self.read_to {
            return self.move_on(false).await;
        }
        let events = self.shared.store.events_after(self.read_to, EVENTS_PER_STEP).await?;
        let Some(last) = events.last().map(|last| last.event_no) else {
            // Everything up to there was removed.
            self.read_to = known;
            return self.move_on(false).await;
        };
        if events.first().is_some_and(|first| first.event_no > self.read_to.next()) {
            let webhook = self.hook.name.as_str();
            tracing::warn!(
                webhook,
                "events were removed before there were deliveries of them (events.keep_secs)"
            );
        }
        let now = self.shared.clock.now();
        let wanted = events
            .iter()
            .filter(|placed| self.hook.notices.wants(placed.notice.notice_type));
        let new = |placed: &PlacedNotice| Delivery::new(placed.event_no, placed.notice.conversation_id, now);
        let deliveries: Vec<Delivery> = wanted.map(new).collect();
        self.read_to = last;
        if deliveries.is_empty() {
            return self.move_on(false).await;
        }
        self.hand_over(&deliveries).await
    }

    /// Writes down what was read without being wanted.
    async fn move_on(&mut self, now: bool) -> StoreResult<()> {
        let is_time = now || self.moved_at.elapsed() >= MOVE_EVERY;
        if self.stale || self.read_to <= self.hook.event_no || !is_time {
            return Ok(());
        }
        self.hand_over(&[]).await
    }

    async fn hand_over(&mut self, deliveries: &[Delivery]) -> StoreResult<()> {
        let (store, up_to) = (&self.shared.store, self.read_to);
        match store.hand_over(self.holder(), &self.hook, deliveries, up_to).await {
            Ok(true) => {}
            // Whatever it was, it is read anew.
            Ok(false) => {
                self.stale = true;
                return Ok(());
            }
            Err(error) => {
                self.stale = true;
                return Err(error);
            }
        }
        self.moved_at = Instant::now();
        Arc::make_mut(&mut self.hook).event_no = up_to;
        for delivery in deliveries {
            self.lanes.add(delivery.into());
        }
        Ok(())
    }

    async fn write_down(&mut self) -> StoreResult<()> {
        if self.delivered.is_empty() {
            return Ok(());
        }
        let now = self.shared.clock.now();
        self.shared.store.delivered(self.holder(), &self.delivered, now).await?;
        self.delivered.clear();
        Ok(())
    }

    fn parallel(&self) -> usize {
        if self.failures < FAILURES_TILL_ALONE {
            PARALLEL
        } else {
            1
        }
    }

    /// A call that begins later may last longer than the lease.
    fn begin_by(&self) -> Option<Instant> {
        self.lease_until.checked_sub(self.shared.options.call_timeout)
    }

    fn can_start(&self, under_way: usize) -> bool {
        let is_full = under_way >= self.parallel() || self.delivered.len() >= UNWRITTEN_MAX;
        !self.stale && !is_full && self.begin_by() > Some(Instant::now())
    }

    fn start(&mut self, calls: &mut Calls<'a>) {
        while self.can_start(calls.len()) {
            let Some(waiting) = self.lanes.take_due(self.shared.clock.now()) else {
                return;
            };
            let (shared, hook, begin_by) = (self.shared, Arc::clone(&self.hook), self.begin_by());
            calls.push(Box::pin(async move {
                let outcome = deliver(shared, &hook, waiting.event_no, begin_by).await;
                let outcome = outcome.unwrap_or_else(|error| {
                    tracing::warn!(%error, webhook = hook.name.as_str(), "a delivery has to wait");
                    Outcome::NotTried
                });
                (waiting, outcome)
            }));
        }
    }

    /// When there is something to do, unless something happens before.
    fn next_at(&self, under_way: usize) -> Instant {
        let mut next_at = self.look_at;
        if !self.delivered.is_empty() {
            next_at = next_at.min(self.first_delivered_at + WRITE_DOWN_AFTER);
        }
        if let Some(due_at) = self.lanes.next_due().filter(|_| self.can_start(under_way)) {
            next_at = next_at.min(Instant::now() + due_at.since(self.shared.clock.now()));
        }
        let log_is_ahead = *self.shared.newest.borrow() > self.read_to && self.lanes.len() < WAITING_MAX;
        if !self.stale && log_is_ahead {
            next_at = Instant::now();
        }
        next_at
    }

    async fn ended(&mut self, waiting: Waiting, outcome: Outcome) {
        match outcome {
            Outcome::Delivered | Outcome::Moot => {
                self.failures = 0;
                if self.delivered.is_empty() {
                    self.first_delivered_at = Instant::now();
                }
                self.delivered.push(waiting.event_no);
                self.lanes.done(waiting.conversation_id);
            }
            Outcome::Failed { why, retry_after } => self.failed(waiting, why, retry_after).await,
            Outcome::NotTried => {
                let due_at = self.shared.clock.now().plus(RETRY_AFTER);
                self.lanes.again(Waiting { due_at, ..waiting });
            }
        }
    }

    async fn failed(&mut self, waiting: Waiting, why: String, retry_after: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        let now = self.shared.clock.now();
        let mut delivery = Delivery {
            attempts: waiting.attempts,
            ..Delivery::new(waiting.event_no, waiting.conversation_id, waiting.created_at)
        };
        delivery.fail(why, now, self.shared.options.attempts_max, rand::random());
        let wish = now.plus(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        delivery.next_attempt_at = delivery.next_attempt_at.max(wish);
        if let Err(error) = self.shared.store.failed(self.holder(), &delivery).await {
            // It is tried again all the same; only the count of its tries is one too low after a restart.
            tracing::warn!(%error, "a failed delivery could not be written down");
        }
        let webhook = self.hook.name.as_str();
        let why = delivery.last_error.as_deref().unwrap_or_default();
        if delivery.state == DeliveryState::Dead {
            tracing::warn!(webhook, event_no = %waiting.event_no, why, "a delivery is given up: it can be redelivered");
            self.lanes.done(waiting.conversation_id);
        } else {
            tracing::debug!(webhook, event_no = %waiting.event_no, why, "a delivery failed");
            self.lanes.again((&delivery).into());
        }
    }

    async fn finish(mut self, mut calls: Calls<'a>, mut ended: Ended) {
        let ending = async {
            loop {
                while let Some((waiting, outcome)) = ended.pop_front() {
                    beside(&mut calls, &mut ended, self.ended(waiting, outcome)).await;
                }
                match calls.next().await {
                    Some(done) => ended.push_back(done),
                    None => break,
                }
            }
        };
        // What does not end in time is broken off before another process may begin, and delivered again with the same id.
        timeout(STOP_WAIT_MAX, ending).await.ok();
        drop(calls);
        let ended = async {
            self.write_down().await?;
            self.move_on(true).await?;
            self.shared.store.release_webhook(self.holder()).await
        };
        if let Err(error) = ended.await {
            tracing::warn!(%error, webhook = self.hook.name.as_str(), "a webhook was not left in order");
        }
    }
}

/// Tells one event, as it is now. The call does not begin after `begin_by`: reading may take its time, and the process may
/// stand still.
async fn deliver(
    shared: &Shared,
    hook: &Webhook,
    event_no: EventNo,
    begin_by: Option<Instant>,
) -> StoreResult<Outcome> {
    let store = shared.store.as_ref();
    let before = EventNo::new(event_no.get().saturating_sub(1));
    let placed = store.events_after(before, 1).await?;
    let placed: Vec<PlacedNotice> = placed
        .into_iter()
        .filter(|placed| placed.event_no == event_no)
        .collect();
    let told = present(store, &placed).await?.into_iter().next().flatten();
    let Some(told) = told else {
        return Ok(Outcome::Moot);
    };
    let (id, now) = (told.placed.id(), shared.clock.now());
    let body = serde_json::to_string(&Event::from(&told)).unwrap_or_default();
    let Some(signatures) = sign(hook, &id, now, &body) else {
        let why = "it cannot be signed: set another secret".to_owned();
        return Ok(Outcome::Failed { why, retry_after: None });
    };
    let call = Call {
        url: hook.url.clone(),
        webhook_id: id,
        timestamp: now.millis().div_euclid(1_000),
        signatures,
        body,
    };
    if begin_by < Some(Instant::now()) {
        return Ok(Outcome::NotTried);
    }
    Ok(match shared.post.post(&call).await {
        Answer::Taken => Outcome::Delivered,
        Answer::Failed { why, retry_after } => Outcome::Failed { why, retry_after },
    })
}
