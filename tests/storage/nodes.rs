//! Leases of worker ids.

use std::collections::HashSet;

use onescribe::domain::Timestamp;
use onescribe::storage::StoreError;

use super::builder::NOW;
use super::suite::Fixture;

fn at(offset: i64) -> Timestamp {
    Timestamp::from_millis(NOW + offset)
}

pub(crate) async fn two_nodes_get_different_workers(fixture: &Fixture) {
    let one = fixture.store.claim_worker("node-1", at(0), at(10_000)).await.unwrap();
    let two = fixture.store.claim_worker("node-2", at(0), at(10_000)).await.unwrap();
    assert_ne!(one.worker, two.worker);
    assert!(
        fixture
            .store
            .renew_worker("node-1", one.worker, at(20_000), at(5_000))
            .await
            .unwrap()
    );
    assert!(
        !fixture
            .store
            .renew_worker("node-2", one.worker, at(20_000), at(5_000))
            .await
            .unwrap()
    );
}

async fn claim_at_once(fixture: &Fixture, count: usize, now: Timestamp, until: Timestamp) -> HashSet<u16> {
    let nodes: Vec<String> = (0..count).map(|number| format!("node-{number}-of-{now:?}")).collect();
    let claims = nodes.iter().map(|node| fixture.store.claim_worker(node, now, until));
    let leases = futures_util::future::join_all(claims).await;
    leases.into_iter().map(|lease| lease.unwrap().worker).collect()
}

pub(crate) async fn of_20_claims_at_once_no_two_get_the_same(fixture: &Fixture) {
    assert_eq!(claim_at_once(fixture, 20, at(0), at(10_000)).await.len(), 20);
}

/// Leases the worker ids below `count` to nodes named after them.
async fn lease_the_first(fixture: &Fixture, count: u16) {
    let Some(database) = &fixture.database else { return };
    let rows: Vec<String> = (0..count)
        .map(|number| format!("({number}, '{number}', {}, 0, 0)", NOW + 10_000))
        .collect();
    let insert = "INSERT INTO im_node (worker, node_id, lease_until, last_issued, updated_at) VALUES ";
    super::raw::execute(&database.url, &format!("{insert}{}", rows.join(", "))).await;
    if database.url.starts_with("sqlite") {
        // There a text in a column of bytes stays a text.
        super::raw::execute(&database.url, "UPDATE im_node SET node_id = CAST(node_id AS BLOB)").await;
    }
}

pub(crate) async fn the_1025th_node_is_refused_until_a_lease_ends(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut workers = HashSet::new();
    // A thousand claims take a while on a disk, so there all but the last are made at once.
    let made = if fixture.database.is_some() { 1_000 } else { 0 };
    lease_the_first(fixture, made).await;
    for number in made..1_024 {
        // One of them ends first.
        let until = if number == 1_007 { at(9_000) } else { at(10_000) };
        let lease = store
            .claim_worker(&format!("node-{number}"), at(0), until)
            .await
            .unwrap();
        assert!((made..1_024).contains(&lease.worker) && workers.insert(lease.worker));
    }
    let refused = store.claim_worker("one too many", at(8_999), at(20_000)).await;
    assert!(matches!(refused, Err(StoreError::NoFreeWorker)), "{refused:?}");
    let heir = store.claim_worker("heir", at(9_000), at(20_000)).await.unwrap().worker;
    assert!(
        !store.renew_worker("node-1007", heir, at(99_000), at(0)).await.unwrap(),
        "it has gone to the heir"
    );
    store.release_worker("node-1007", heir, at(0)).await.unwrap();
    assert!(
        store.renew_worker("heir", heir, at(20_000), at(0)).await.unwrap(),
        "a late release frees nothing"
    );
    let heirs = claim_at_once(fixture, 10, at(10_000), at(20_000)).await;
    assert!(heirs.len() == 10 && !heirs.contains(&heir));
}

pub(crate) async fn a_released_worker_stays_released(fixture: &Fixture) {
    let lease = fixture.store.claim_worker("node", at(0), at(10_000)).await.unwrap();
    fixture.store.release_worker("node", lease.worker, at(0)).await.unwrap();
    assert!(
        !fixture
            .store
            .renew_worker("node", lease.worker, at(20_000), at(0))
            .await
            .unwrap()
    );
}

pub(crate) async fn b09_a_claim_tells_the_newest_time_that_any_node_gave(fixture: &Fixture) {
    let store = &*fixture.store;
    let one = store.claim_worker("node-1", at(0), at(10_000)).await.unwrap();
    assert_eq!(one.not_before, Timestamp::default());
    store
        .renew_worker("node-1", one.worker, at(20_000), at(7_000))
        .await
        .unwrap();
    store
        .renew_worker("node-1", one.worker, at(20_000), at(6_000))
        .await
        .unwrap();
    let two = store.claim_worker("node-2", at(0), at(10_000)).await.unwrap();
    assert_eq!(two.not_before, at(7_000));
    store.release_worker("node-1", one.worker, at(9_000)).await.unwrap();
    let three = store.claim_worker("node-3", at(0), at(10_000)).await.unwrap();
    assert_eq!(three.not_before, at(9_000));
}
