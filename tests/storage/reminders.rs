//! Reminders that are due: claimed by one, told, settled; or due again.

use onescribe::domain::{ActionType, Message, Personal, Timestamp};
use onescribe::storage::{DueReminder, Store};

use super::own::{BEN, Inbox, four, unset};
use super::suite::Fixture;

fn remind(message: &Message, due: i64) -> Personal {
    Personal::Set {
        message_id: message.message_id,
        action_type: ActionType::Reminder,
        remind_at: Some(Timestamp::from_millis(due)),
        payload: None,
    }
}

/// Whatever is due, a page of one at a time, to the end; what could be claimed of it.
async fn claim_all(store: &dyn Store, now: i64, until: Timestamp) -> Vec<DueReminder> {
    let (mut claimed, mut after) = (Vec::new(), None);
    while let [due] = &store
        .due_reminders(Timestamp::from_millis(now), after, 1)
        .await
        .unwrap()[..]
    {
        after = Some(due.position());
        assert_eq!(due.principal, BEN);
        if store.claim_reminder(due, until).await.unwrap() {
            claimed.push(due.clone());
        }
    }
    claimed
}

/// Their seqs, and the times that their user set.
fn told(claimed: &[DueReminder]) -> Vec<(i64, i64)> {
    let told = |due: &DueReminder| (due.action.seq.get(), due.action.remind_at.unwrap().millis());
    claimed.iter().map(told).collect()
}

pub(crate) async fn b115_a_due_reminder_is_given_to_one_claimer_once(fixture: &Fixture) {
    let store = &*fixture.store;
    let (_, messages) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    let remind = |at: usize, due: i64| remind(&messages[at], due);
    inbox
        .does(store, &[remind(0, 30), remind(1, 10), remind(2, 20), remind(3, 15)])
        .await;
    inbox.does(store, &[unset(&messages[3], ActionType::Reminder)]).await;
    let until = Timestamp::from_millis(1_000);
    let claim = async |now: i64| {
        let claimed = claim_all(store, now, until).await;
        for due in &claimed {
            assert!(store.settle_reminder(due, until).await.unwrap());
            assert!(!store.settle_reminder(due, until).await.unwrap(), "once");
        }
        told(&claimed)
    };
    assert_eq!(claim(9).await, []);
    let at_once = tokio::join!(claim(20), claim(20), claim(20));
    let mut claimed = [at_once.0, at_once.1, at_once.2].concat();
    claimed.sort_unstable();
    assert_eq!(claimed, [(3, 10), (4, 20)], "each once");
    assert_eq!(claim(29).await, []);
    let kept = store.actionable(messages[1].message_id, BEN).await.unwrap().unwrap();
    let kept = kept.action(ActionType::Reminder).unwrap();
    assert_eq!(
        (kept.active, kept.remind_at),
        (true, Some(Timestamp::from_millis(10))),
        "as it was set"
    );
    inbox.does(store, &[remind(1, 40)]).await;
    assert_eq!(claim(100).await, [(2, 30), (3, 40)], "another time is due anew");
    assert_eq!(claim(1_000_000).await, [], "what is settled is never due again");
}

pub(crate) async fn b115_a_claim_that_nobody_settles_runs_out_and_the_reminder_is_due_again(fixture: &Fixture) {
    let store = &*fixture.store;
    let (_, messages) = four(fixture).await;
    let mut inbox = Inbox::of(store, BEN).await;
    let remind = |at: usize, due: i64| remind(&messages[at], due);
    let time = Timestamp::from_millis;
    inbox
        .does(store, &[remind(0, 10), remind(1, 20), remind(2, 30), remind(3, 40)])
        .await;
    let dead = claim_all(store, 50, time(100)).await;
    assert_eq!(told(&dead), [(2, 10), (3, 20), (4, 30), (5, 40)]);
    assert_eq!(told(&claim_all(store, 99, time(200)).await), [], "claimed");
    // While it is claimed, its user takes one back and sets another anew.
    inbox
        .does(store, &[unset(&messages[2], ActionType::Reminder), remind(3, 60)])
        .await;
    assert!(store.settle_reminder(&dead[0], time(100)).await.unwrap());
    for lost in &dead[2..] {
        assert!(!store.settle_reminder(lost, time(100)).await.unwrap());
    }
    let again = claim_all(store, 100, time(200)).await;
    assert_eq!(told(&again), [(5, 60), (3, 20)], "with the times that were set");
    assert!(
        !store.settle_reminder(&dead[1], time(100)).await.unwrap(),
        "it is another's now"
    );
    let third = claim_all(store, 200, time(300)).await;
    assert_eq!(told(&third), [(3, 20), (5, 60)]);
    let kept = store.actions(BEN, Some(ActionType::Reminder), None, 10).await.unwrap();
    let kept: Vec<_> = kept
        .iter()
        .map(|action| action.remind_at.map(Timestamp::millis))
        .collect();
    assert_eq!(kept, [Some(60), Some(20), Some(10)]);
}
