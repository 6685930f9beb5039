//! One run from the first connection to the report.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::LoadError;
use super::device::{Device, Sending};
use super::groups::{self, Group};
use super::pacer::{Pacer, SLOW_TICK, TICK};
use super::plan::{Pace, Plan, Target};
use super::process::{self, Watched};
use super::shared::{Phase, Queue, Shared};
use super::summary::{Curves, DeliveryCheck, Ended, Load, PlanSummary, Server, Summary, Trouble};
use super::tally::{Second, Tally, float};
use super::wire::Id;

/// How often the connecting and the draining are looked at.
const LOOK: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);
const FORMAT: u32 = 1;

/// Hears how a run goes on.
pub trait Listener {
    /// So many of the groups are made.
    fn groups(&self, made: u32, of: u32);
    /// So many of the connections are up.
    fn connections(&self, made: u32, of: u32);
    /// A second is over.
    fn second(&self, second: &Second);
    /// The last answers and deliveries are awaited.
    fn draining(&self, unsettled: usize);
}

/// Runs a plan. `token` makes the token of a user, named by external id; `interrupt` ends the run early.
///
/// # Errors
/// Where there is nothing to report: the plan cannot be, or the run could not begin.
pub async fn run(
    plan: &Plan,
    token: &dyn Fn(&str) -> Result<String, String>,
    listener: &dyn Listener,
    interrupt: impl AsyncFnMut(),
) -> Result<Summary, LoadError> {
    let target = plan.check()?;
    let address = resolve(&target).await?;
    let run: u32 = rand::random();
    let token = |user: u32| {
        let name = format!("{}{user}", plan.user_prefix);
        token(&name).map_err(|why| LoadError::Token(name, why))
    };
    let of = plan.shape.conversations;
    let groups = groups::make(plan, &target, run, &token, &|made| listener.groups(made, of)).await?;
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let timed = (micros(plan.warm_up), micros(plan.warm_up + plan.duration));
    let tally = Tally::new(timed).map_err(|error| LoadError::Setup(error.to_string()))?;
    let shared = Rc::new(Shared::new(target, address, run, plan, tally));
    let devices = devices(plan, &shared, &groups, &token)?;
    let mut course = Course {
        plan,
        watched: Watched {
            server: plan.pid.or_else(|| process::listening(address)),
            also: plan.also_pids.clone(),
        },
        senders: senders(&devices, plan),
        shared,
        listener,
        seconds: Vec::new(),
        offline_since: None,
    };
    LocalSet::new().run_until(course.run(devices, interrupt)).await
}

async fn resolve(target: &Target) -> Result<SocketAddr, LoadError> {
    let found = lookup_host(&target.host).await;
    let found = found
        .map_err(|error| LoadError::Setup(format!("{} is not known here ({error}): is --url right?", target.host)));
    found?
        .next()
        .ok_or_else(|| LoadError::Setup(format!("{} has no address: is --url right?", target.host)))
}

/// One device a connection, with its conversations and senders, all of them known to the ledger.
fn devices(
    plan: &Plan,
    shared: &Rc<Shared>,
    groups: &[Group],
    token: &dyn Fn(u32) -> Result<String, LoadError>,
) -> Result<Vec<Device>, LoadError> {
    let shape = &plan.shape;
    let mut ledger = shared.ledger.borrow_mut();
    let mut of_user: Vec<Vec<usize>> = (0..shape.users()).map(|_| Vec::new()).collect();
    let at = |user: u32| usize::try_from(user).unwrap_or(usize::MAX);
    for (conversation, group) in (0..).zip(groups) {
        let index = ledger.add_conversation(group.id.0, group.head);
        for user in shape.members_of(conversation) {
            if let Some(conversations) = of_user.get_mut(at(user)) {
                conversations.push(index);
            }
        }
    }
    let mut devices = Vec::new();
    let mut first_of_user = vec![None; of_user.len()];
    for (index, (user, number)) in shape.connected().into_iter().enumerate() {
        let conversations = of_user.get(at(user)).map(Vec::as_slice).unwrap_or_default();
        let ids: Vec<Id> = conversations
            .iter()
            .filter_map(|index| groups.get(*index))
            .map(|group| group.id)
            .collect();
        let name = format!("{}{user}/load-{number}", plan.user_prefix);
        ledger.add_connection(name, conversations);
        let device_id = format!("load-{number}");
        devices.push(Device::new(Rc::clone(shared), index, token(user)?, device_id, ids));
        if let Some(first @ None) = first_of_user.get_mut(at(user)) {
            *first = Some(index);
        }
    }
    for sender in 0..shape.senders() {
        let place = shape.sender(sender);
        let index = first_of_user.get(at(place.user)).copied().flatten();
        let own = of_user.get(at(place.user)).map(Vec::as_slice).unwrap_or_default();
        let conversation = own.iter().position(|index| *index == at(place.conversation));
        let device = index.and_then(|index| Some((index, devices.get_mut(index)?)));
        let (Some((index, device)), Some(place)) = (device, conversation) else {
            return Err(LoadError::Setup(format!(
                "sender {sender} has no device: this is a bug"
            )));
        };
        ledger.add_sender(index);
        device.sendings.push(Sending { sender, place, next: 0 });
    }
    Ok(devices)
}

/// Where the sends of each sender are planned.
fn senders(devices: &[Device], plan: &Plan) -> Vec<(Rc<Queue>, usize)> {
    let mut places: Vec<(u32, Rc<Queue>, usize)> = Vec::with_capacity(devices.len());
    for device in devices {
        let sendings = device.sendings.iter().enumerate();
        places.extend(sendings.map(|(index, sending)| (sending.sender, Rc::clone(&device.queue), index)));
    }
    places.sort_by_key(|(sender, _, _)| *sender);
    let closed = matches!(plan.pace, Pace::Closed { .. });
    places
        .into_iter()
        .filter(|_| !closed)
        .map(|(_, queue, index)| (queue, index))
        .collect()
}

/// A run under way.
struct Course<'a> {
    plan: &'a Plan,
    shared: Rc<Shared>,
    watched: Watched,
    senders: Vec<(Rc<Queue>, usize)>,
    listener: &'a dyn Listener,
    seconds: Vec<Second>,
    offline_since: Option<Instant>,
}

impl Course<'_> {
    async fn run(&mut self, devices: Vec<Device>, mut interrupt: impl AsyncFnMut()) -> Result<Summary, LoadError> {
        let mut tasks = JoinSet::new();
        for device in devices {
            tasks.spawn_local(device.run());
        }
        let ended = tokio::select! {
            ended = self.course() => ended?,
            () = interrupt() => Ended::Interrupted,
        };
        if ended == Ended::Interrupted {
            if self.shared.is(Phase::Connecting) {
                return Err(LoadError::Setup(
                    "stopped before the first message: there is nothing to report".to_owned(),
                ));
            }
            self.tick(self.shared.started.get().elapsed() <= self.plan.warm_up);
        }
        // What is under way is still awaited, but not by somebody who asks twice.
        self.shared.phase.send_replace(Phase::Draining);
        tokio::select! {
            () = self.drain() => {}
            () = interrupt() => {}
        }
        self.tick(false);
        self.shared.phase.send_replace(Phase::Done);
        while tasks.join_next().await.is_some() {}
        Ok(self.summary(ended))
    }

    /// Connects, warms up and counts.
    async fn course(&mut self) -> Result<Ended, LoadError> {
        self.connect().await?;
        let started = Instant::now();
        self.shared.started.set(started);
        self.shared.phase.send_replace(Phase::Sending);
        let tick = if self.senders.is_empty() { SLOW_TICK } else { TICK };
        let pacer = Pacer::start(started, tick);
        let mut pacer = pacer.map_err(|error| LoadError::Setup(format!("no thread for the clock: {error}")))?;
        self.shared.tally.borrow_mut().tick(0, true, 0, self.watched.sample());
        let counted_from = started + self.plan.warm_up;
        let until = counted_from + self.plan.duration;
        // Seconds end where the counted time begins and ends.
        let mut next = started + part_of_a_second(self.plan.warm_up);
        let mut planned = 0;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(next) => {
                    self.tick(next <= counted_from);
                    if Instant::now() >= until {
                        // What was planned and not looked at yet, because the load was late, is sent all the same.
                        self.plan_to(&mut planned, self.plan.warm_up + self.plan.duration);
                        return Ok(Ended::Complete);
                    }
                    if let Some(why) = self.is_hopeless() {
                        return Ok(Ended::GaveUp(why));
                    }
                    next = (next + SECOND).min(until);
                }
                due = pacer.next() => {
                    let Some(due) = due else { return Ok(Ended::GaveUp("the clock stopped".to_owned())) };
                    self.plan_tick(&mut planned, due);
                }
            }
        }
    }

    async fn connect(&self) -> Result<(), LoadError> {
        let of = self.plan.shape.connections();
        let (mut made, mut since) = (0, Instant::now());
        loop {
            let online = self.shared.online.get();
            if online != made {
                (made, since) = (online, Instant::now());
                self.listener.connections(made, of);
            }
            if let Some(why) = self.shared.fatal.borrow().clone() {
                return Err(LoadError::Setup(why));
            }
            if online >= of {
                return Ok(());
            }
            if since.elapsed() > self.plan.reconnect_for {
                let trouble = self.shared.trouble.borrow();
                let hint = connect_hint(&trouble);
                return Err(LoadError::Setup(format!(
                    "only {online} of {of} connections could be made: {trouble}{hint}"
                )));
            }
            sleep(LOOK).await;
        }
    }

    /// Notes how late this tick is looked at, and plans the sends of its millisecond.
    fn plan_tick(&self, planned: &mut u64, due: Duration) {
        let at = u64::try_from(due.as_micros()).unwrap_or(u64::MAX);
        self.shared.tally.borrow_mut().late(self.shared.now(), at);
        self.plan_to(planned, due + TICK);
    }

    /// Plans the sends before `end`, each for the millisecond in which it is due.
    fn plan_to(&self, planned: &mut u64, end: Duration) {
        let Pace::Open { per_second } = self.plan.pace else {
            return;
        };
        let per_second = u64::from(per_second);
        let millis = u64::try_from(end.as_millis()).unwrap_or(u64::MAX);
        let to = per_second.saturating_mul(millis) / 1_000;
        let senders = u64::try_from(self.senders.len()).unwrap_or(1).max(1);
        for number in *planned..to {
            let sender = usize::try_from(number % senders).ok();
            if let Some((queue, sending)) = sender.and_then(|index| self.senders.get(index)) {
                let at = ((number + 1) * 1_000).div_ceil(per_second) - 1;
                self.shared.plan(queue, *sending, at * 1_000);
            }
        }
        *planned = (*planned).max(to);
    }

    fn tick(&mut self, warm_up: bool) {
        let (now, online) = (self.shared.now(), u64::from(self.shared.online.get()));
        let second = self
            .shared
            .tally
            .borrow_mut()
            .tick(now, warm_up, online, self.watched.sample());
        self.listener.second(&second);
        self.seconds.push(second);
    }

    /// Why there is no use in going on.
    fn is_hopeless(&mut self) -> Option<String> {
        if let Some(why) = self.shared.fatal.borrow().clone() {
            return Some(why);
        }
        if self.shared.online.get() > 0 {
            self.offline_since = None;
            return None;
        }
        let since = *self.offline_since.get_or_insert_with(Instant::now);
        let trouble = self.shared.trouble.borrow();
        (since.elapsed() >= self.plan.reconnect_for).then(|| {
            let seconds = since.elapsed().as_secs();
            format!("the server is gone: no connection for {seconds} s ({trouble})")
        })
    }

    /// Waits until every message is answered and everywhere.
    async fn drain(&self) {
        let until = Instant::now() + self.plan.drain_max;
        let offline_until = Instant::now() + self.plan.reconnect_for;
        loop {
            let unsettled = self.shared.under_way();
            let now = Instant::now();
            if unsettled == 0 || now >= until || self.shared.online.get() == 0 && now >= offline_until {
                return;
            }
            if self.offline_since.is_some() && self.shared.online.get() == 0 {
                return;
            }
            self.listener.draining(unsettled);
            sleep(LOOK).await;
        }
    }

    fn summary(&self, ended: Ended) -> Summary {
        let ledger = self.shared.ledger.take();
        let mut tally = self.shared.tally.borrow_mut();
        // The last line is that of the drain.
        let during = self.seconds.split_last().map(|(_, during)| during).unwrap_or_default();
        let counted: Vec<&Second> = during.iter().filter(|second| !second.warm_up).collect();
        let counted_s: f64 = counted.iter().map(|second| second.length_s).sum();
        let sum = |of: fn(&Second) -> u64| counted.iter().map(|second| of(second)).sum::<u64>();
        let mean = |of: fn(&Second) -> f64| {
            counted.iter().map(|second| of(second) * second.length_s).sum::<f64>() / counted_s.max(0.001)
        };
        let (acked, delivered) = (sum(|second| second.acked), sum(|second| second.delivered));
        let (late, slip) = (tally.late.percentiles(), tally.slip.percentiles());
        let (ack, delivery) = (tally.ack.percentiles(), tally.delivery.percentiles());
        let last_delivery = tally.last_delivery.percentiles();
        Summary {
            format: FORMAT,
            url: self.plan.url.clone(),
            plan: plan_summary(self.plan),
            ended,
            counted_s,
            acked,
            acked_per_s: float(acked) / counted_s.max(0.001),
            delivered,
            delivered_per_s: float(delivered) / counted_s.max(0.001),
            ack,
            delivery,
            last_delivery,
            curves: Curves {
                ack: tally.ack.curve(),
                delivery: tally.delivery.curve(),
                last_delivery: tally.last_delivery.curve(),
            },
            trouble: Trouble {
                by_sort: tally.sorts.clone(),
                reconnects: tally.counts.reconnects,
                duplicates: tally.duplicates,
                refused: tally.refused,
                first_refused: tally.first_refused.clone(),
                unanswered: u64::try_from(self.shared.unanswered.get()).unwrap_or(u64::MAX),
                never_sent: self.shared.dropped.get() + u64::try_from(self.shared.waiting.get()).unwrap_or_default(),
            },
            delivery_check: DeliveryCheck {
                acked: tally.counts.acked,
                delivered: tally.counts.delivered,
                findings: ledger.close(),
            },
            load: Load::judge(mean(|second| second.load_cores), late, slip),
            server: self.server(&counted, acked, delivered, counted_s),
            seconds: during.to_vec(),
        }
    }

    fn server(&self, counted: &[&Second], acked: u64, delivered: u64, counted_s: f64) -> Option<Server> {
        let pid = self.watched.server?;
        let cpu = |of: fn(&Second) -> Option<f64>| {
            let seconds = counted.iter().filter_map(|second| Some(of(second)? * second.length_s));
            seconds.sum::<f64>()
        };
        let (own, also) = (cpu(|second| second.server_cores), cpu(|second| second.also_cores));
        let has_also = !self.watched.also.is_empty();
        let memory = || counted.iter().filter_map(|second| second.server_rss_bytes);
        let micros = |cpu: f64, count: u64| cpu * 1e6 / float(count.max(1));
        Some(Server {
            pid,
            cores: own / counted_s.max(0.001),
            cpu_us_per_acked: micros(own, acked),
            cpu_us_per_delivery: micros(own, delivered),
            also_cores: has_also.then(|| also / counted_s.max(0.001)),
            also_cpu_us_per_acked: has_also.then(|| micros(also, acked)),
            rss_bytes_first: memory().next().unwrap_or_default(),
            rss_bytes_max: memory().max().unwrap_or_default(),
        })
    }
}

/// So that whole seconds end with the warm-up.
fn part_of_a_second(warm_up: Duration) -> Duration {
    let part = Duration::from_nanos(u64::from(warm_up.subsec_nanos()));
    if part.is_zero() && !warm_up.is_zero() {
        SECOND
    } else {
        part
    }
}

fn connect_hint(trouble: &str) -> &'static str {
    match trouble {
        "rate_limited" | "upgrade refused with 429" => {
            "\nThe server lets in so many connections of one address a second (limits.connects_per_second): set it to 0 for a measurement"
        }
        "closed with 4009" => "\nAnother load uses the same users: give this one --users-named OTHER-",
        _ => "",
    }
}

fn plan_summary(plan: &Plan) -> PlanSummary {
    let (contents, bytes) = plan.words.extent();
    let (window, rate_per_s) = match plan.pace {
        Pace::Closed { window } => (Some(window), None),
        Pace::Open { per_second } => (None, Some(per_second)),
    };
    PlanSummary {
        conversations: plan.shape.conversations,
        members: plan.shape.members,
        users: plan.shape.users(),
        senders: plan.shape.senders(),
        connections: plan.shape.connections(),
        devices: plan.shape.devices,
        window,
        rate_per_s,
        warm_up_s: plan.warm_up.as_secs_f64(),
        duration_s: plan.duration.as_secs_f64(),
        contents,
        mean_content_bytes: bytes / contents.max(1),
    }
}
