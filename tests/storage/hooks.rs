//! Webhooks and their deliveries: one process at a time calls a webhook, and each step can be done again without harm.

use onescribe::domain::DeliveryState::{Dead, Delivered, Pending};
use onescribe::domain::{
    ConversationId, Delivery, DeliveryState, EventNo, NoticeSet, NoticeType, Timestamp, Webhook, WebhookId,
    WebhookName, WebhookSecret,
};
use onescribe::storage::{Holder, Store};

use super::builder::{NOW, next_id};
use super::suite::Fixture;

fn at(offset: i64) -> Timestamp {
    Timestamp::from_millis(NOW + offset)
}

pub(crate) fn webhook(name: &str) -> Webhook {
    Webhook {
        webhook_id: WebhookId::new(next_id()).unwrap(),
        name: WebhookName::parse(name).unwrap(),
        url: "https://receiver/ä?a=b".to_owned(),
        notices: NoticeSet::of(&[NoticeType::MessageCreated]),
        secrets: vec![WebhookSecret {
            text: "whsec_\"x\"".to_owned(),
            created_at: at(1),
            retires_at: Some(at(2)),
        }],
        event_no: EventNo::new(10),
        version: 1,
        created_at: at(3),
        updated_at: at(4),
    }
}

pub(crate) async fn made(store: &dyn Store, name: &str) -> Webhook {
    let webhook = webhook(name);
    assert!(store.add_webhook(&webhook).await.unwrap());
    webhook
}

pub(crate) fn holder<'a>(webhook: &Webhook, holder: &'a str) -> Holder<'a> {
    Holder {
        webhook_id: webhook.webhook_id,
        holder,
    }
}

pub(crate) fn delivery(event_no: i64, conversation: i64) -> Delivery {
    let conversation_id = ConversationId::new(conversation).unwrap();
    Delivery::new(EventNo::new(event_no), conversation_id, at(5))
}

/// A webhook of mine with deliveries of the events 11 to 15.
async fn with_deliveries(store: &dyn Store) -> Webhook {
    let mut webhook = made(store, "one").await;
    assert!(
        store
            .lease_webhook(holder(&webhook, "me"), at(0), at(1_000))
            .await
            .unwrap()
    );
    let new: Vec<Delivery> = (11..16).map(|event_no| delivery(event_no, event_no % 2 + 1)).collect();
    let me = holder(&webhook, "me");
    assert!(store.hand_over(me, &webhook, &new, EventNo::new(17)).await.unwrap());
    webhook.event_no = EventNo::new(17);
    webhook
}

async fn states(store: &dyn Store, webhook: &Webhook) -> Vec<(i64, DeliveryState)> {
    let found = store.deliveries(webhook.webhook_id, None, None, 100).await.unwrap();
    found
        .iter()
        .map(|delivery| (delivery.event_no.get(), delivery.state))
        .collect()
}

async fn pending(store: &dyn Store, webhook: &Webhook) -> Vec<i64> {
    let (all, none) = (EventNo::new(i64::MAX), EventNo::ZERO);
    let found = store.pending(webhook.webhook_id, none, all, 100).await.unwrap();
    found.iter().map(|delivery| delivery.event_no.get()).collect()
}

pub(crate) async fn a_webhook_comes_back_as_it_was_and_its_name_is_given_once(fixture: &Fixture) {
    let store = &*fixture.store;
    let b = made(store, "b").await;
    let a = made(store, "B").await;
    assert!(!store.add_webhook(&webhook("b")).await.unwrap());
    assert_eq!(store.webhook(&b.name).await.unwrap(), Some(b.clone()));
    assert_eq!(store.webhooks().await.unwrap(), [a.clone(), b.clone()]);
    assert!(store.remove_webhook(a.webhook_id).await.unwrap());
    assert!(!store.remove_webhook(a.webhook_id).await.unwrap());
    assert_eq!(store.webhooks().await.unwrap(), [b]);
}

pub(crate) async fn of_two_changes_of_a_webhook_at_once_one_is_kept(fixture: &Fixture) {
    let store = &*fixture.store;
    let former = made(store, "one").await;
    let with = |url: &str| Webhook {
        url: url.to_owned(),
        updated_at: at(9),
        event_no: EventNo::new(1),
        ..former.clone()
    };
    assert!(store.change_webhook(&with("https://first")).await.unwrap());
    assert!(!store.change_webhook(&with("https://second")).await.unwrap());
    let found = store.webhook(&former.name).await.unwrap().unwrap();
    assert_eq!(
        (found.url.as_str(), found.version, found.updated_at),
        ("https://first", 2, at(9))
    );
    assert_eq!(found.event_no, former.event_no, "how far it is, is its caller's");
}

pub(crate) async fn a_lease_is_held_by_one_until_it_ends_or_is_given_back(fixture: &Fixture) {
    let store = &*fixture.store;
    let webhook = made(store, "one").await;
    let lease = |name: &'static str, now, until| store.lease_webhook(holder(&webhook, name), at(now), at(until));
    assert!(lease("me", 0, 100).await.unwrap());
    assert!(lease("me", 50, 150).await.unwrap());
    assert!(!lease("other", 149, 300).await.unwrap());
    assert!(lease("other", 150, 300).await.unwrap());
    assert!(!lease("me", 200, 400).await.unwrap());
    store.release_webhook(holder(&webhook, "me")).await.unwrap();
    assert!(!lease("me", 200, 400).await.unwrap(), "it was not theirs to give");
    store.release_webhook(holder(&webhook, "other")).await.unwrap();
    assert!(lease("me", 200, 400).await.unwrap());
}

pub(crate) async fn deliveries_are_handed_over_once_and_again_without_harm(fixture: &Fixture) {
    let store = &*fixture.store;
    let webhook = with_deliveries(store).await;
    let me = holder(&webhook, "me");
    assert_eq!(
        store.webhook(&webhook.name).await.unwrap().unwrap().event_no,
        EventNo::new(17)
    );
    assert_eq!(pending(store, &webhook).await, [11, 12, 13, 14, 15]);
    let part = store
        .pending(webhook.webhook_id, EventNo::new(11), EventNo::new(14), 2)
        .await
        .unwrap();
    assert_eq!(part, [delivery(12, 1), delivery(13, 2)]);
    // Another version, another place, another holder: nothing moves.
    for (who, version, event_no) in [("me", 2, 17), ("me", 1, 16), ("other", 1, 17)] {
        let stale = Webhook {
            version,
            event_no: EventNo::new(event_no),
            ..webhook.clone()
        };
        let handed = store
            .hand_over(holder(&webhook, who), &stale, &[], EventNo::new(99))
            .await;
        assert!(!handed.unwrap(), "{who} {version} {event_no}");
    }
    // What was handed over already is to be delivered anew: that is how a replay begins.
    store
        .delivered(me, &[EventNo::new(11), EventNo::new(12)], at(6))
        .await
        .unwrap();
    store
        .replay_webhook(webhook.webhook_id, EventNo::new(11))
        .await
        .unwrap();
    let again = store.webhook(&webhook.name).await.unwrap().unwrap();
    assert_eq!((again.event_no, again.version), (EventNo::new(11), 2));
    assert!(
        store
            .hand_over(me, &again, &[delivery(12, 1)], EventNo::new(12))
            .await
            .unwrap()
    );
    assert_eq!(pending(store, &webhook).await, [12, 13, 14, 15]);
}

pub(crate) async fn what_became_of_a_delivery_is_kept_for_whoever_holds_the_lease(fixture: &Fixture) {
    let store = &*fixture.store;
    let webhook = with_deliveries(store).await;
    let (me, other) = (holder(&webhook, "me"), holder(&webhook, "other"));
    store.delivered(other, &[EventNo::new(11)], at(6)).await.unwrap();
    let mut failed = delivery(13, 2);
    failed.fail("HTTP 500".to_owned(), at(7), 3, 1.0);
    store.failed(other, &failed).await.unwrap();
    assert_eq!(pending(store, &webhook).await, [11, 12, 13, 14, 15]);
    store
        .delivered(me, &[EventNo::new(11), EventNo::new(15), EventNo::new(99)], at(6))
        .await
        .unwrap();
    store.failed(me, &failed).await.unwrap();
    let mut dead = delivery(14, 1);
    dead.fail("no answer in time".to_owned(), at(8), 1, 0.0);
    store.failed(me, &dead).await.unwrap();
    let expected = [
        (15, Delivered),
        (14, Dead),
        (13, Pending),
        (12, Pending),
        (11, Delivered),
    ];
    assert_eq!(states(store, &webhook).await, expected);
    let found = store
        .deliveries(webhook.webhook_id, None, Some(EventNo::new(15)), 2)
        .await
        .unwrap();
    assert_eq!(found, [dead, failed]);
    assert_eq!((found[1].attempts, found[1].next_attempt_at), (1, at(1_007)));
    let delivered = store
        .deliveries(webhook.webhook_id, Some(Delivered), None, 1)
        .await
        .unwrap();
    assert_eq!(
        (delivered[0].event_no.get(), delivered[0].finished_at),
        (15, Some(at(6)))
    );
}

pub(crate) async fn a_delivery_is_tried_anew_when_the_operator_says_so(fixture: &Fixture) {
    let store = &*fixture.store;
    let webhook = with_deliveries(store).await;
    let me = holder(&webhook, "me");
    let mut dead = delivery(14, 1);
    dead.fail("HTTP 500".to_owned(), at(8), 1, 0.0);
    store.failed(me, &dead).await.unwrap();
    assert!(
        !store
            .redeliver(webhook.webhook_id, EventNo::new(99), at(9))
            .await
            .unwrap()
    );
    assert!(
        store
            .redeliver(webhook.webhook_id, EventNo::new(14), at(9))
            .await
            .unwrap()
    );
    let again = store
        .pending(webhook.webhook_id, EventNo::new(13), EventNo::new(14), 9)
        .await
        .unwrap();
    let expected = Delivery {
        next_attempt_at: at(9),
        ..delivery(14, 1)
    };
    assert_eq!(again, [expected]);
    let found = store.webhook(&webhook.name).await.unwrap().unwrap();
    assert_eq!(found.version, webhook.version + 1, "whoever calls it looks anew");
}

pub(crate) async fn old_deliveries_go_and_those_of_a_webhook_that_is_gone(fixture: &Fixture) {
    let store = &*fixture.store;
    let webhook = with_deliveries(store).await;
    let me = holder(&webhook, "me");
    let delivered: Vec<EventNo> = [11, 12, 13].map(EventNo::new).to_vec();
    store.delivered(me, &delivered, at(6)).await.unwrap();
    store.delivered(me, &[EventNo::new(15)], at(8)).await.unwrap();
    assert_eq!(store.forget_deliveries(at(6), 100).await.unwrap(), 0);
    assert_eq!(store.forget_deliveries(at(7), 2).await.unwrap(), 2);
    assert_eq!(store.forget_deliveries(at(7), 2).await.unwrap(), 1);
    assert_eq!(states(store, &webhook).await, [(15, Delivered), (14, Pending)]);
    store.remove_webhook(webhook.webhook_id).await.unwrap();
    store.forget_deliveries(at(0), 100).await.unwrap();
    assert_eq!(states(store, &webhook).await, []);
}
