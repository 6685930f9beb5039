//! Reactions, pins and mentions: what others have put on a message.

use onescribe::domain::{ChangeSeq, Emoji, Marked, Marks, Message, MessageId, Principal, Seq, Timestamp, Touch};
use onescribe::storage::{PageQuery, PinQuery};

use super::builder::{Held, send};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);
const BOT: Principal = Principal::agent(2);

async fn three(fixture: &Fixture) -> (Held, Vec<Message>) {
    let mut writer = fixture.store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN, BOT]).await;
    let sends = ["one", "two", "three"].map(|words| send(ANNA, words, words));
    held.commit(&mut *writer, &sends).await;
    let messages = fixture.store.messages_after(held.id, Seq::new(1), 10).await.unwrap();
    (held, messages)
}

fn react(text: &str, added: bool) -> Touch {
    let emoji = Emoji::parse(text).unwrap();
    Touch::React { emoji, added }
}

fn recall() -> Touch {
    let received_at = Timestamp::default();
    Touch::Recall {
        received_at,
        window_ms: 0,
    }
}

fn told(marks: &Marks) -> Vec<(&str, u64, bool)> {
    let all = marks.reactions.iter();
    all.map(|tally| (tally.emoji.as_str(), tally.count, tally.me)).collect()
}

async fn page(fixture: &Fixture, held: &Held, viewer: Principal) -> Vec<Marked> {
    let query = PageQuery {
        conversation_id: held.id,
        viewer,
        after: Seq::new(1),
        before: None,
        oldest_first: true,
        limit: 10,
    };
    fixture.store.page(query).await.unwrap()
}

async fn pinned(fixture: &Fixture, held: &Held) -> Vec<i64> {
    let query = PinQuery {
        conversation_id: held.id,
        viewer: BEN,
        first: Seq::new(1),
        after: None,
        limit: 100,
    };
    let pins = fixture.store.pins(query).await.unwrap();
    pins.iter().map(|(_, item)| item.message.seq.get()).collect()
}

pub(crate) async fn b103_reactions_are_kept_byte_for_byte_and_counted_for_each_viewer(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let (store, id) = (fixture.store.as_ref(), messages[1].message_id);
    for emoji in ["❤", "👍🏽", "👍", "❤️", "A", "a", "a ", "\u{301}"] {
        held.touch(store, BEN, id, react(emoji, true)).await;
    }
    held.touch(store, BOT, id, react("👍", true)).await;
    held.touch(store, ANNA, id, react("👍", true)).await;
    held.touch(store, BEN, id, react("👍🏽", false)).await;
    let seen = page(fixture, &held, BEN).await;
    assert_eq!(
        told(&seen[1].marks),
        [
            ("❤", 1, true),
            ("👍", 3, true),
            ("❤️", 1, true),
            ("A", 1, true),
            ("a", 1, true),
            ("a ", 1, true),
            ("\u{301}", 1, true)
        ]
    );
    assert_eq!(seen[1].message.change_seq, ChangeSeq::new(11));
    assert_eq!(seen[0], Marked::plain(messages[0].clone()));
    let other = page(fixture, &held, BOT).await;
    assert_eq!(told(&other[1].marks)[..2], [("❤", 1, false), ("👍", 3, true)]);
    // USER 2 and AGENT 2 are different, and a writer that loads anew holds what the last one held.
    let annotated = store.touchable(held.id, id).await.unwrap().unwrap().annotated;
    assert_eq!(
        (annotated.reactions_len(), annotated.marks_for(BOT)),
        (9, other[1].marks.clone())
    );
    let found = store.marks(BEN, &[id, messages[0].message_id]).await.unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(id, seen[1].marks.clone())]);
}

pub(crate) async fn reactions_of_one_moment_stand_in_the_order_of_their_bytes(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let (store, id) = (fixture.store.as_ref(), messages[0].message_id);
    let now = held.now;
    for emoji in ["z", "é", "Z", "👍"] {
        held.now = now;
        held.touch(store, BEN, id, react(emoji, true)).await;
    }
    let seen = page(fixture, &held, ANNA).await;
    let writer = store.touchable(held.id, id).await.unwrap().unwrap();
    assert_eq!(seen[0].marks, writer.annotated.marks_for(ANNA));
    let order: Vec<_> = told(&seen[0].marks).into_iter().map(|(emoji, ..)| emoji).collect();
    assert_eq!(order, ["Z", "z", "é", "👍"]);
}

pub(crate) async fn a_last_message_shows_what_is_on_it(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let store = fixture.store.as_ref();
    held.touch(store, BEN, messages[2].message_id, react("ok", true)).await;
    held.touch(store, ANNA, messages[2].message_id, Touch::Pin(true)).await;
    let (other, _) = three(fixture).await;
    for viewer in [ANNA, BEN] {
        let seen = store.seen(held.id, viewer).await.unwrap().unwrap();
        let last = seen.last_message.unwrap();
        assert_eq!(
            (told(&last.marks), last.marks.pinned),
            (vec![("ok", 1, viewer == BEN)], true)
        );
        let listed = store.list(viewer, None, 50).await.unwrap();
        let last_of = |held: &Held| {
            let found = listed.iter().find(|seen| seen.header.conversation_id == held.id);
            found.and_then(|seen| seen.last_message.clone()).unwrap()
        };
        assert_eq!(last_of(&held), last);
        assert_eq!(last_of(&other).marks, Marks::default());
    }
}

pub(crate) async fn pins_are_listed_newest_first_page_by_page(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let store = fixture.store.as_ref();
    for at in [1, 0, 2] {
        held.touch(store, ANNA, messages[at].message_id, Touch::Pin(true)).await;
    }
    held.touch(store, BEN, messages[0].message_id, react("ok", true)).await;
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let query = PinQuery {
            conversation_id: held.id,
            viewer: BEN,
            first: Seq::new(1),
            after,
            limit: 1,
        };
        let pins = store.pins(query).await.unwrap();
        let [(position, item)] = pins.as_slice() else { break };
        assert!(item.marks.pinned);
        assert_eq!(position.message_id, item.message.message_id);
        found.push((item.message.seq, item.marks.reactions.len()));
        after = Some(*position);
    }
    let [one, two, three] = [0, 1, 2].map(|at| messages[at].seq);
    assert_eq!(found, [(three, 0), (one, 1), (two, 0)]);
    let late = PinQuery {
        conversation_id: held.id,
        viewer: BEN,
        first: messages[1].seq,
        after: None,
        limit: 10,
    };
    assert_eq!(
        store.pins(late).await.unwrap().len(),
        2,
        "not what came before one's time"
    );
    let newest = messages[2].message_id;
    let touchable = store.touchable(held.id, newest).await.unwrap().unwrap();
    assert_eq!((touchable.pins, touchable.annotated.pinned), (3, true));
    held.touch(store, ANNA, newest, Touch::Pin(false)).await;
    assert_eq!(pinned(fixture, &held).await, [one.get(), two.get()]);
}

pub(crate) async fn what_is_recalled_or_deleted_has_nothing_on_it_any_more(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let store = fixture.store.as_ref();
    for (at, gone) in [(0, recall()), (1, Touch::Delete)] {
        let id = messages[at].message_id;
        held.touch(store, BEN, id, react("a", true)).await;
        held.touch(store, ANNA, id, react("b", true)).await;
        held.touch(store, ANNA, id, Touch::Pin(true)).await;
        held.touch(store, ANNA, id, gone).await;
        let annotated = store.touchable(held.id, id).await.unwrap().unwrap().annotated;
        assert_eq!((annotated.reactions.len(), annotated.pinned), (0, false));
    }
    let ids: Vec<MessageId> = messages.iter().map(|message| message.message_id).collect();
    assert!(store.marks(BEN, &ids).await.unwrap().is_empty());
    assert!(pinned(fixture, &held).await.is_empty());
}

pub(crate) async fn reactions_of_one_batch_do_not_take_back_the_number_of_an_edit_after_them(fixture: &Fixture) {
    let (mut held, messages) = three(fixture).await;
    let (store, id) = (fixture.store.as_ref(), messages[0].message_id);
    let edit = Touch::Edit(onescribe::domain::Content::trusted("{\"text\":\"uno\"}"));
    let acts = [
        (BEN, react("a", true)),
        (BOT, react("a", true)),
        (BEN, react("a", false)),
        (ANNA, edit),
    ];
    held.touch_all(store, id, acts.into_iter().collect()).await;
    let annotated = store.touchable(held.id, id).await.unwrap().unwrap().annotated;
    assert_eq!(annotated.message.change_seq, ChangeSeq::new(4));
    assert_eq!(annotated.message.content.as_str(), "{\"text\":\"uno\"}");
    assert_eq!(told(&annotated.marks_for(BOT)), [("a", 1, true)]);
}
