//! What is encoded, and how often.

use std::sync::Arc;

use super::support::session;
use super::world::{ANN, BOB, CY, World, say};
use crate::conversation::{Committed, Step};
use crate::delivery::fan::{Item, fans};
use crate::delivery::sessions::Sessions;
use crate::domain::{
    Annotated, Change, ChangeSeq, ChangeType, ConversationId, Emoji, Event, Message, Principal, Reactor, Timestamp,
};

const DEE: Principal = Principal::user(4);
const OFFLINE: Principal = Principal::user(5);

/// A message on which these reactions stand, as a writer tells of it.
fn committed(reactions: &[(&str, &[Principal])], hidden_from: &[Principal]) -> Committed {
    let mut world = World::new();
    let mut committed = world.decide(vec![(say(ANN, "d", "words"), None)]);
    let sent = committed.steps.iter().find_map(|step| match step {
        Step::Event(Event::MessageSent { message, .. }) => Some(Message::clone(message)),
        _ => None,
    });
    let mut message = sent.unwrap();
    message.change_seq = ChangeSeq::new(9);
    let change = Change {
        conversation_id: ConversationId::new(7).unwrap(),
        change_seq: message.change_seq,
        change_type: ChangeType::Edited,
        message_id: Some(message.message_id),
        payload: None,
        actor: ANN,
        changed_at: Timestamp::default(),
    };
    let given = reactions.iter().flat_map(|(emoji, by)| {
        by.iter().map(|principal| {
            let (at, principal) = (Timestamp::default(), *principal);
            (Emoji::parse(emoji).unwrap(), Reactor { at, principal })
        })
    });
    let message = Arc::new(message);
    let changed = Event::Changed {
        change: Arc::new(change),
        message: Some(Arc::new(Annotated::new(Arc::clone(&message), given, false))),
        hidden_from: hidden_from.to_vec(),
        device: None,
    };
    let sent = Event::MessageSent { message, device: None };
    committed.steps = vec![Step::Event(changed), Step::Event(sent)];
    committed
}

fn online(principals: &[Principal]) -> Sessions {
    let sessions = Sessions::default();
    for (id, principal) in (1..).zip(principals) {
        sessions.enter(&session(id, *principal, "d"));
    }
    sessions
}

#[actix::test]
async fn a_message_is_encoded_once_for_all_who_gave_the_same_reactions() {
    let committed = committed(&[("a", &[ANN, BOB, CY, OFFLINE]), ("b", &[CY, DEE])], &[DEE]);
    let sessions = online(&[ANN, BOB, CY, DEE]);
    let fans = fans(&committed, &sessions, usize::MAX);
    let [Item::Push { frame, reacted, .. }, Item::Push { reacted: as_new, .. }] = fans[0].items.as_slice() else {
        panic!("{fans:?}")
    };
    let me = |frame: &bytes::Bytes| String::from_utf8_lossy(frame).matches("\"me\":true").count();
    let mut who: Vec<_> = reacted.keys().copied().collect();
    who.sort_unstable();
    assert_eq!(
        who,
        [ANN, BOB, CY],
        "nobody who is offline, nobody from whom it is hidden"
    );
    assert_eq!((me(frame.get()), me(&reacted[&ANN]), me(&reacted[&CY])), (0, 1, 2));
    assert_eq!(reacted[&ANN].as_ptr(), reacted[&BOB].as_ptr(), "one frame for both");
    assert_eq!(
        as_new.len(),
        4,
        "found in the store with what is on it already: its news show that too"
    );
}

#[actix::test]
async fn a_push_of_what_nobody_reacted_to_is_one_frame() {
    let committed = committed(&[], &[]);
    let fans = fans(&committed, &online(&[ANN, BOB]), usize::MAX);
    let items = fans[0].items.iter();
    assert!(
        items
            .clone()
            .all(|item| matches!(item, Item::Push { reacted, .. } if reacted.is_empty()))
    );
    assert_eq!(items.count(), 2);
}
