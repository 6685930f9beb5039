//! Pages of messages, and single ones.

use onescribe::domain::{MessageId, Principal, Seq};
use onescribe::storage::PageQuery;

use super::builder::{Held, next_id, send};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);

pub(crate) async fn pages_are_ascending_and_their_bounds_exclusive(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    let sends: Vec<_> = (2..=20).map(|n| send(ANNA, &format!("{n}"), "x")).collect();
    held.commit(&mut *writer, &sends).await;
    let page = async |after: i64, before: Option<i64>, oldest_first: bool, limit: u32| {
        let query = PageQuery {
            conversation_id: held.id,
            viewer: ANNA,
            after: Seq::new(after),
            before: before.map(Seq::new),
            oldest_first,
            limit,
        };
        let page = fixture.store.page(query).await.unwrap();
        page.iter().map(|item| item.message.seq.get()).collect::<Vec<_>>()
    };
    assert_eq!(page(0, None, false, 3).await, [18, 19, 20]);
    assert_eq!(page(0, None, true, 3).await, [1, 2, 3]);
    assert_eq!(page(0, Some(5), false, 3).await, [2, 3, 4]);
    assert_eq!(page(17, None, true, 50).await, [18, 19, 20]);
    assert_eq!(page(3, Some(8), true, 3).await, [4, 5, 6]);
    assert_eq!(page(3, Some(8), false, 3).await, [5, 6, 7]);
    assert_eq!(page(20, None, true, 3).await, [0_i64; 0]);
    assert_eq!(page(7, Some(8), false, 3).await, [0_i64; 0]);
    assert_eq!(page(0, Some(i64::MAX), false, 1).await, [20]);
}

pub(crate) async fn a_message_is_found_by_its_id(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    held.commit(&mut *writer, &[send(ANNA, "k", "x")]).await;
    let stored = fixture
        .store
        .messages_after(held.id, Seq::new(1), 1)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        fixture.store.message(stored.message_id).await.unwrap(),
        Some(stored.clone())
    );
    assert_eq!(
        fixture.store.message(MessageId::new(next_id()).unwrap()).await.unwrap(),
        None
    );
    assert!(!fixture.store.hidden(stored.message_id, ANNA).await.unwrap());
}

pub(crate) async fn a_quote_is_looked_for_in_its_conversation(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    held.commit(&mut *writer, &[send(ANNA, "k", "x")]).await;
    let other = Held::group(&mut *writer, ANNA, &[]).await;
    let id = fixture.store.messages_after(held.id, Seq::new(1), 1).await.unwrap()[0].message_id;
    let found = fixture.store.quotable(held.id, id, ANNA).await.unwrap().unwrap();
    assert_eq!((found.seq, found.gone), (Seq::new(2), false));
    assert_eq!(fixture.store.quotable(other.id, id, ANNA).await.unwrap(), None);
}
