//! Who has to be told of a message where no connection is needed: members who have not acknowledged it in time.
//!
//! A message waits in its conversation for `push.after_secs`. Then everybody is named, once, who has neither read nor
//! acknowledged it on any device, whatever came before it; what came meanwhile waits in turn, so that one conversation names
//! them once in so long, and a message is never a reason twice (B116). Whether somebody is connected is not asked: a device
//! that is there acknowledges, and other processes have connections, too.

use std::time::Duration;

use tokio::sync::watch;

use super::{RETRY_AFTER, Shared, pause};
use crate::domain::{Notice, NoticeType, Principal, Timestamp};
use crate::storage::{Missable, Placer, PushDue, PushPlacement, StoreResult};

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);
/// Conversations that are looked at in one step.
const DUE_PER_STEP: u32 = 20;
/// Members that one event names; for more there are several events.
const RECIPIENTS_MAX: u32 = 100;
/// A message that is too young is looked for again after so long.
const TOO_YOUNG: Duration = Duration::from_secs(1);

/// Looks until it has to stop.
pub(super) async fn run(shared: &Shared, mut stop: watch::Receiver<bool>) {
    let mut placer = shared.store.placer();
    let mut interest = shared.interest.subscribe();
    let mut wait = EVERY;
    while pause(&mut stop, wait).await {
        wait = EVERY;
        if interest.borrow_and_update().active_since.is_none() {
            continue;
        }
        if let Err(error) = step(shared, placer.as_mut()).await {
            tracing::warn!(%error, "members who were away have to wait");
            wait = RETRY_AFTER;
        }
    }
}

async fn step(shared: &Shared, placer: &mut dyn Placer) -> StoreResult<()> {
    let now = shared.clock.now();
    for due in shared.store.pushes_due(now, DUE_PER_STEP).await? {
        let placement = look(shared, due, now).await?;
        let placed = placer.place(&[], &[placement], now).await?;
        shared.know(placed.newest);
    }
    Ok(())
}

/// Who has missed the newest message that is old enough.
async fn look(shared: &Shared, due: PushDue, now: Timestamp) -> StoreResult<PushPlacement> {
    let store = shared.store.as_ref();
    let after = shared.options.push_after;
    let old_enough = now.minus(after);
    let range = (due.told, due.last);
    let found = store.missable(due.conversation_id, range, old_enough).await?;
    let mut placement = PushPlacement {
        due,
        notices: Vec::new(),
        told: due.told,
        again_at: now.plus(after),
    };
    let Some(message) = found else {
        // All of them are gone, or the newest is too young.
        let is_young = store
            .missable(due.conversation_id, range, Timestamp::from_millis(i64::MAX))
            .await?
            .is_some();
        placement.told = if is_young { due.told } else { due.last };
        placement.again_at = now.plus(TOO_YOUNG);
        return Ok(placement);
    };
    placement.told = message.seq;
    let mut last = None;
    loop {
        let absent = store.absent(due.conversation_id, message, last, RECIPIENTS_MAX).await?;
        let whole = absent.len() >= usize::try_from(RECIPIENTS_MAX).unwrap_or(usize::MAX);
        last = absent.last().copied();
        if last.is_some() {
            placement.notices.push(notice(due, message, absent));
        }
        if !whole {
            return Ok(placement);
        }
    }
}

fn notice(due: PushDue, message: Missable, recipients: Vec<Principal>) -> Notice {
    Notice {
        notice_type: NoticeType::PushRequired,
        conversation_id: due.conversation_id,
        seq: Some(message.seq),
        change_seq: None,
        message_id: Some(message.message_id),
        recipients,
    }
}
