//! Removes what is older than it has to be kept, a little at a time.

use std::time::Duration;

use tokio::sync::watch;

use super::{Shared, pause};
use crate::storage::StoreResult;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(30);
/// What one step removes at most …
const STEP: u32 = 1_000;
/// … and the pause before the next one, when it was as much as that.
const BETWEEN_STEPS: Duration = Duration::from_millis(50);

/// Removes until it has to stop.
pub(super) async fn run(shared: &Shared, mut stop: watch::Receiver<bool>) {
    let mut wait = EVERY;
    while pause(&mut stop, wait).await {
        wait = match step(shared).await {
            Ok(true) => BETWEEN_STEPS,
            Ok(false) => EVERY,
            Err(error) => {
                tracing::warn!(%error, "old events cannot be removed");
                EVERY
            }
        };
    }
}

/// `true` = there is more.
async fn step(shared: &Shared) -> StoreResult<bool> {
    let now = shared.clock.now();
    let before = now.minus(shared.options.keep);
    let events = shared.store.forget_events(before, STEP).await?;
    let delivered = now.minus(shared.options.delivered_keep);
    let deliveries = shared.store.forget_deliveries(delivered, STEP).await?;
    shared.store.rest_log(before).await?;
    Ok(events.max(deliveries) >= u64::from(STEP))
}
