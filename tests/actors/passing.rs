//! INBOXes that are told something in passing: an announcement to 100,000 must not leave 100,000 actors behind.

use std::time::Duration;

use onescribe::domain::{
    Adding, Command, ConversationId, Create, CreationKey, HistoryVisibility, Kind, NotificationKey, NotificationKind,
    Notify, Outcome, Posting, Principal,
};
use onescribe::storage::memory::MemoryStore;
use tokio::time::sleep;

use crate::world::{IDLE, Node, ROOM, origin, run, send};

const ANN: Principal = Principal::user(1);
const BOB: Principal = Principal::user(2);
const INBOX: ConversationId = ConversationId::new(7).unwrap();
/// What was told something in passing is gone by then.
const SOON: Duration = Duration::from_secs(3);

fn inbox(owner: Principal) -> Command {
    Command::Create(Create {
        origin: origin(owner),
        kind: Kind::Inbox,
        title: None,
        members: Vec::new(),
        creation_key: Some(CreationKey::inbox(owner)),
        history_visibility: HistoryVisibility::Shared,
        posting: Posting::All,
        adding: Adding::Admins,
    })
}

fn notify(kind: NotificationKind, key: NotificationKey) -> Command {
    Command::Notify(Notify {
        to: ANN,
        kind,
        from: BOB,
        key,
        ask_again_ms: 0,
        text: Some("x".to_owned()),
        conversation_id: None,
        payload: None,
        expires_at: None,
    })
}

fn announcement(number: i64) -> Command {
    notify(NotificationKind::Announcement, NotificationKey::announcement(number))
}

#[test]
fn an_inbox_that_only_got_an_announcement_does_not_stay_in_memory() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.group(ROOM, &[ANN, BOB]).await;
        node.ask(ROOM, send(ANN, "a", "x")).await.unwrap();
        node.ask(INBOX, inbox(ANN)).await.unwrap();
        node.ask(INBOX, announcement(1)).await.unwrap();
        sleep(SOON).await;
        assert_eq!(node.registry.len(), 1, "the room stays");
        // Loaded for the next one, and told the same twice.
        assert!(matches!(
            node.ask(INBOX, announcement(2)).await,
            Ok(Outcome::Notified(_))
        ));
        assert!(matches!(
            node.ask(INBOX, announcement(2)).await,
            Ok(Outcome::Noted(_, None))
        ));
        sleep(SOON).await;
        assert_eq!(node.registry.len(), 1);
        assert_eq!(node.journal.seqs(INBOX), [1, 2]);
    });
}

#[test]
fn an_inbox_that_is_used_stays_whatever_it_is_told_besides() {
    run(async {
        let node = Node::start(&MemoryStore::new(), 1);
        node.ask(INBOX, inbox(ANN)).await.unwrap();
        node.ask(INBOX, announcement(1)).await.unwrap();
        let request = notify(NotificationKind::FriendRequest, NotificationKey::friend_request(BOB));
        node.ask(INBOX, request).await.unwrap();
        node.ask(INBOX, announcement(2)).await.unwrap();
        sleep(SOON).await;
        assert_eq!(node.registry.len(), 1);
        sleep(IDLE).await;
        assert!(node.registry.is_empty());
    });
}
