//! What events are about, read when they are told: what was recalled in the meantime leaves without its words.

use std::collections::{BTreeSet, HashMap};

use crate::domain::{
    Change, ChangeSeq, ConversationId, Marked, MessageId, Notice, NoticeType, PlacedNotice, PresentNotice, Principal,
};
use crate::storage::{Missable, Store, StoreResult, Stretch};

/// In the order of `placed`; `None` = there is nothing to tell any more: nobody has to be told of a message that was
/// recalled, or that they have read.
pub(super) async fn present(store: &dyn Store, placed: &[PlacedNotice]) -> StoreResult<Vec<Option<PresentNotice>>> {
    let messages = messages(store, placed).await?;
    let changes = changes(store, placed).await?;
    let mut told = Vec::with_capacity(placed.len());
    for placed in placed {
        let notice = &placed.notice;
        let message = notice.message_id.and_then(|id| messages.get(&id)).cloned();
        let change = notice
            .change_seq
            .and_then(|number| changes.get(&(notice.conversation_id, number)));
        let mut present = PresentNotice {
            placed: placed.clone(),
            message,
            change: change.cloned(),
            owner: None,
            recipients: Vec::new(),
        };
        let is_told = match notice.notice_type {
            NoticeType::PushRequired => push(store, &mut present).await?,
            NoticeType::NotificationCreated => {
                let members = store.members(notice.conversation_id, None, 1).await?;
                present.owner = members.first().map(|member| member.principal);
                present.message.is_some()
            }
            NoticeType::MessageCreated => present.message.is_some(),
            _ => present.change.is_some(),
        };
        told.push(is_told.then_some(present));
    }
    Ok(told)
}

async fn messages(store: &dyn Store, placed: &[PlacedNotice]) -> StoreResult<HashMap<MessageId, Marked>> {
    let ids: BTreeSet<MessageId> = placed.iter().filter_map(|placed| placed.notice.message_id).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<MessageId> = ids.into_iter().collect();
    let messages = store.messages_of(&ids).await?;
    let marked = store.marked(Principal::SYSTEM, messages).await?;
    Ok(marked
        .into_iter()
        .map(|marked| (marked.message.message_id, marked))
        .collect())
}

async fn changes(
    store: &dyn Store,
    placed: &[PlacedNotice],
) -> StoreResult<HashMap<(ConversationId, ChangeSeq), Change>> {
    let stretch = |placed: &PlacedNotice| {
        let up_to = placed.notice.change_seq?;
        Some(Stretch {
            conversation_id: placed.notice.conversation_id,
            after: ChangeSeq::new(up_to.get().saturating_sub(1)),
            up_to,
        })
    };
    let stretches: Vec<Stretch> = placed.iter().filter_map(stretch).collect();
    if stretches.is_empty() {
        return Ok(HashMap::new());
    }
    let logged = store.log(&stretches, Principal::SYSTEM).await?;
    Ok(logged
        .into_iter()
        .map(|logged| ((logged.change.conversation_id, logged.change.change_seq), logged.change))
        .collect())
}

/// `false` = nobody has to be told.
async fn push(store: &dyn Store, present: &mut PresentNotice) -> StoreResult<bool> {
    let Some(message) = present
        .message
        .as_ref()
        .filter(|marked| !marked.message.status.is_gone())
    else {
        return Ok(false);
    };
    let is_notification = message.message.message_type == crate::domain::MessageType::Notification;
    let still = still_absent(store, &present.placed.notice).await?;
    let totals: HashMap<Principal, u64> = store.unread_totals(&still).await?.into_iter().collect();
    // Whoever has nothing unread has read this, too; what is in an INBOX is not counted.
    let recipient = |who: &Principal| {
        let total = totals.get(who).copied();
        let total = if is_notification {
            Some(total.unwrap_or_default())
        } else {
            total
        };
        total.map(|total| (*who, total))
    };
    present.recipients = still.iter().filter_map(recipient).collect();
    Ok(!present.recipients.is_empty())
}

/// Those of the named who have neither read nor acknowledged it since: a receiver may have been down for long.
async fn still_absent(store: &dyn Store, notice: &Notice) -> StoreResult<Vec<Principal>> {
    let named = &notice.recipients;
    let ends = named.first().copied().zip(named.last().copied());
    let (Some((first, last)), Some((seq, message_id))) = (ends, notice.seq.zip(notice.message_id)) else {
        return Ok(Vec::new());
    };
    let message = Missable { seq, message_id };
    let limit = u32::try_from(named.len()).unwrap_or(u32::MAX);
    let (mut still, mut after) = (
        Vec::new(),
        Principal {
            id: first.id - 1,
            ..first
        },
    );
    // Mostly one step; in between there may be others by now, who have unmuted.
    loop {
        let absent = store
            .absent(notice.conversation_id, message, Some(after), limit)
            .await?;
        let Some(end) = absent.last().copied() else { break };
        still.extend(absent.into_iter().filter(|who| named.contains(who)));
        if end >= last {
            break;
        }
        after = end;
    }
    Ok(still)
}
