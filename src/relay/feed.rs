//! The feed: the log of events to read, for those who cannot be called.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::present::present;
use crate::domain::{Code, EventNo, PresentNotice};
use crate::service::ServiceError;
use crate::storage::{LogState, Store};

/// The longest that a question may wait for an event.
pub const FEED_WAIT_MAX: Duration = Duration::from_mins(1);
/// About so large may the contents of one answer be; it always has room for one step.
pub const FEED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Events that are read in one step.
const STEP: u32 = 50;
/// That the feed is asked is written down so often.
const ASKED_EVERY: Duration = Duration::from_mins(1);

/// The log of events, page by page.
pub struct Feed {
    shared: Arc<Shared>,
}

/// A page of the log.
#[derive(Clone, Debug)]
pub struct FeedPage {
    /// Ascending.
    pub items: Vec<PresentNotice>,
    /// Ask with this next: also where nothing of what is up to here has to be told any more.
    pub next_after: EventNo,
    /// The newest event.
    pub newest: EventNo,
}

impl Feed {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Events after `after` (0 = from the oldest that is kept), at most `limit`. Where there is none yet it waits for one.
    /// The first question ever begins the log.
    ///
    /// # Errors
    /// `history_reset` when events after `after` were removed, or `after` is of another store; it carries the oldest and
    /// the newest event. `unavailable`.
    pub async fn page(&self, after: EventNo, limit: u32, wait: Duration) -> Result<FeedPage, ServiceError> {
        let state = self.ask().await?;
        check_place(self.shared.store.as_ref(), after, state).await?;
        let from = after;
        let until = Instant::now() + wait.min(FEED_WAIT_MAX);
        let mut newest = self.shared.newest.subscribe();
        let mut closing = self.shared.closing.subscribe();
        loop {
            let page = self.read(from, limit).await?;
            if page.next_after > from || Instant::now() >= until || *closing.borrow() {
                return Ok(page);
            }
            // Whichever comes first: it is known here, the time is up, or the server stops. Then it is looked once more.
            tokio::select! {
                _ = timeout_at(until, newest.wait_for(|newest| *newest > from)) => {}
                _ = closing.wait_for(|closing| *closing) => {}
            }
        }
    }

    /// Notes that somebody asks.
    async fn ask(&self) -> Result<LogState, ServiceError> {
        let (store, now) = (&self.shared.store, self.shared.clock.now());
        let state = store.log_state().await?;
        if now.since(state.feed_asked_at) >= ASKED_EVERY {
            store.feed_asked(now).await?;
            self.shared.interest.look();
        }
        if state.active_since.is_none() {
            store.wake_log(now).await?;
            self.shared.interest.look();
        }
        Ok(state)
    }

    async fn read(&self, from: EventNo, limit: u32) -> Result<FeedPage, ServiceError> {
        let store = self.shared.store.as_ref();
        let mut page = FeedPage {
            items: Vec::new(),
            next_after: from,
            newest: EventNo::ZERO,
        };
        let (mut left, mut bytes) = (limit, 0);
        while left > 0 && bytes < FEED_BYTES_MAX {
            let step = left.min(STEP);
            let placed = store.events_after(page.next_after, step).await?;
            let Some(last) = placed.last().map(|last| last.event_no) else {
                break;
            };
            let whole = placed.len() >= usize::try_from(step).unwrap_or(usize::MAX);
            let told = present(store, &placed).await?.into_iter().flatten();
            for told in told {
                bytes += told
                    .message
                    .as_ref()
                    .map_or(0, |marked| marked.message.content.as_str().len());
                page.items.push(told);
            }
            (page.next_after, left) = (last, left - step);
            if !whole {
                break;
            }
        }
        self.shared.know(page.next_after);
        page.newest = *self.shared.newest.borrow();
        Ok(page)
    }
}

/// Can the log be read on from here?
///
/// # Errors
/// `history_reset` when events after `after` were removed, or there is no such place.
pub(super) async fn check_place(store: &dyn Store, after: EventNo, state: LogState) -> Result<(), ServiceError> {
    if after == EventNo::ZERO {
        return Ok(());
    }
    let oldest = store.oldest_event().await?.unwrap_or_else(|| state.newest.next());
    let detail = if after > state.newest {
        "this place is not in the log: it is of another store, or of a later copy of this one"
    } else if after.next() < oldest {
        "events after this place were removed (events.keep_secs)"
    } else {
        return Ok(());
    };
    let mut error = ServiceError::new(Code::HistoryReset, format!("after: {detail}; begin anew with after=0"));
    error.extra.events = Some(Box::new((oldest, state.newest)));
    Err(error)
}
