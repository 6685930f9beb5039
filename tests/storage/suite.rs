//! The contract: each function is one sentence about every store.

use std::sync::Arc;

use onescribe::domain::{Principal, Seq};
use onescribe::storage::Store;

use super::builder::{Held, send};

/// Runs the contract on what `$make` (a future of an optional database) gives.
macro_rules! contract {
    ($make:expr) => {
        crate::suite::contract!(@each $make,
            sent_messages_come_back_as_they_were,
        );
    };
    (@each $make:expr, $($name:ident,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                if let Some(database) = $make.await {
                    let store = onescribe::storage::sql::open(&database.url, Default::default()).await.unwrap();
                    crate::suite::$name(std::sync::Arc::clone(&store)).await;
                    store.close().await;
                }
            }
        )*
    };
}
pub(crate) use contract;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);

pub(crate) async fn sent_messages_come_back_as_they_were(store: Arc<dyn Store>) {
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    held.commit(&mut *writer, &[send(ANNA, "k1", "hello 😀"), send(BEN, "k2", "welt")])
        .await;
    let loaded = store.load(held.id).await.unwrap().unwrap();
    let state = held.state.clone().unwrap();
    assert_eq!(
        (&loaded.header, loaded.head, &loaded.members),
        (&state.header, state.head, &state.members)
    );
    let messages = store.messages_after(held.id, Seq::ZERO, 10).await.unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[1].content.as_str(), "{\"text\":\"hello 😀\"}");
    let seen = store.seen(held.id, BEN).await.unwrap().unwrap();
    assert_eq!(seen.membership.unwrap().last_read_seq, Seq::new(3));
    assert_eq!(seen.last_message.as_ref(), messages.last());
    println!("{:?}", store.durability().await.unwrap());
}
