//! Reactions, pins, mentions: what others put on a message, and what becomes of it.

use super::*;
use crate::domain::annotated::{Annotated, EMOJIS_MAX, PINS_MAX, REACTIONS_MAX, Reactor};
use crate::domain::decide::Touchable;
use crate::domain::{Change, Emoji, Mentions, MessageStatus, Touch};

fn emoji(text: &str) -> Emoji {
    Emoji::parse(text).unwrap()
}

fn touch(actor: Principal, message: &Annotated, touch: Touch) -> Command {
    Command::Touch {
        origin: by(actor),
        message_id: message.message.message_id,
        touch,
    }
}

fn react(actor: Principal, message: &Annotated, text: &str, added: bool) -> Command {
    let emoji = emoji(text);
    touch(actor, message, Touch::React { emoji, added })
}

fn pin(actor: Principal, message: &Annotated, pinned: bool) -> Command {
    touch(actor, message, Touch::Pin(pinned))
}

fn recall(actor: Principal, message: &Annotated) -> Command {
    let received_at = message.message.sent_at;
    touch(
        actor,
        message,
        Touch::Recall {
            received_at,
            window_ms: 1,
        },
    )
}

fn edit(actor: Principal, message: &Annotated, content: &str) -> Command {
    touch(actor, message, Touch::Edit(Content::compact(content, 10_000).unwrap()))
}

impl World {
    /// The store has this, among so many pinned messages.
    fn stores(&mut self, annotated: &Annotated, pins: usize) {
        let touchable = Touchable {
            annotated: annotated.clone(),
            hidden_for: Vec::new(),
            standing_below: Seq::new(1),
            pins,
        };
        let id = annotated.message.message_id;
        self.facts.messages.insert(id, Some(touchable));
    }

    /// A message that is said and stored.
    fn said(&mut self, sender: Principal, key: &str) -> Annotated {
        let annotated = Annotated::plain(self.sent(&send(sender, key)));
        self.stores(&annotated, 0);
        annotated
    }

    /// What a touch makes of a message, and its change; the store keeps both.
    fn marks(&mut self, command: &Command) -> (Annotated, Arc<Change>) {
        match self.does(command) {
            Ok(Outcome::Touched(now, Some(change))) => {
                assert_eq!(now.message.change_seq, change.change_seq);
                self.stores(&now, usize::from(now.pinned));
                (Annotated::clone(&now), change)
            }
            other => panic!("{command:?} led to {other:?}"),
        }
    }

    #[track_caller]
    fn changes_nothing(&mut self, command: &Command) {
        let outcome = self.does(command);
        assert!(matches!(outcome, Ok(Outcome::Touched(_, None))), "{outcome:?}");
    }
}

/// Whom the batch says that the messages mention.
fn mentioned(batch: Option<Batch>) -> Vec<Mentions> {
    let events = batch.unwrap().events.into_iter();
    events
        .filter_map(|event| match event {
            Event::Mentioned { now, .. } => Some(now),
            _ => None,
        })
        .collect()
}

#[test]
fn b103_each_reaction_of_each_member_is_one_change_and_a_repeat_none() {
    let mut world = World::group(&[BOB]);
    let message = world.said(ANN, "k");
    let (one, change) = world.marks(&react(BOB, &message, "👍", true));
    assert_eq!(
        change.payload.as_ref().unwrap().as_str(),
        "{\"emoji\":\"👍\",\"principal\":{\"type\":\"USER\",\"id\":\"2\"},\"added\":true}"
    );
    world.changes_nothing(&react(BOB, &one, "👍", true));
    let (two, _) = world.marks(&react(BOB, &one, "👍🏽", true));
    let (three, _) = world.marks(&react(ANN, &two, "👍", true));
    let counts: Vec<_> = three
        .marks_for(ANN)
        .reactions
        .into_iter()
        .map(|tally| (tally.count, tally.me))
        .collect();
    assert_eq!(counts, [(2, true), (1, false)]);
    assert_eq!(three.message.content, message.message.content);
    let (four, change) = world.marks(&react(BOB, &three, "👍", false));
    assert!(change.payload.as_ref().unwrap().as_str().ends_with("\"added\":false}"));
    world.changes_nothing(&react(BOB, &four, "👍", false));
    world.changes_nothing(&react(BOB, &four, "🎉", false));
    assert_eq!(world.state().head.last_change_seq.get(), 4);
}

#[test]
fn an_emoji_with_quotes_is_escaped_in_the_payload() {
    let mut world = World::group(&[BOB]);
    let message = world.said(ANN, "k");
    let (_, change) = world.marks(&react(BOB, &message, "\"\\", true));
    let payload: serde_json::Value = serde_json::from_str(change.payload.as_ref().unwrap().as_str()).unwrap();
    assert_eq!(payload["emoji"], "\"\\");
}

#[test]
fn reactions_of_one_batch_build_on_each_other() {
    let mut world = World::group(&[BOB]);
    let message = world.said(ANN, "k");
    let (outcomes, _) = world.do_all(&[
        react(BOB, &message, "a", true),
        react(ANN, &message, "a", true),
        react(BOB, &message, "a", true),
        react(BOB, &message, "a", false),
    ]);
    let Ok(Outcome::Touched(last, Some(_))) = &outcomes[3] else {
        panic!("{outcomes:?}")
    };
    assert!(matches!(outcomes[2], Ok(Outcome::Touched(_, None))));
    assert_eq!(last.reactions.len(), 1);
    assert!(last.reactions[0].is_by(ANN) && !last.reactions[0].is_by(BOB));
}

#[test]
fn only_admins_of_a_group_pin_and_in_a_direct_both() {
    let mut world = World::group(&[BOB]);
    let message = world.said(BOB, "k");
    assert!(matches!(
        world.refusal(&pin(BOB, &message, true)),
        DomainError::Forbidden(_)
    ));
    let (pinned, change) = world.marks(&pin(ANN, &message, true));
    assert!(pinned.pinned);
    assert_eq!(change.payload.as_ref().unwrap().as_str(), "{\"pinned\":true}");
    world.changes_nothing(&pin(ANN, &pinned, true));
    assert!(matches!(
        world.refusal(&pin(BOB, &pinned, false)),
        DomainError::Forbidden(_)
    ));
    let (unpinned, _) = world.marks(&pin(ANN, &pinned, false));
    world.changes_nothing(&pin(ANN, &unpinned, false));
    let mut direct = World::empty();
    direct.does(&create(Kind::Direct, &[BOB])).unwrap();
    let words = direct.said(ANN, "k");
    let (pinned, _) = direct.marks(&pin(BOB, &words, true));
    direct.marks(&pin(ANN, &pinned, false));
}

#[test]
fn strangers_learn_nothing_and_the_admin_key_puts_nothing_on_a_message() {
    let mut world = World::group(&[BOB]);
    let message = world.said(ANN, "k");
    for command in [react(STRANGER, &message, "a", true), pin(STRANGER, &message, true)] {
        assert!(matches!(world.refusal(&command), DomainError::NotFound(_)));
    }
    let operator = Principal::SYSTEM;
    for command in [react(operator, &message, "a", true), pin(operator, &message, true)] {
        assert!(matches!(world.refusal(&command), DomainError::Forbidden(_)));
    }
}

#[test]
fn a_recall_takes_reactions_and_pin_away_and_nothing_is_put_on_what_is_gone() {
    let mut world = World::group(&[BOB]);
    let message = world.said(BOB, "k");
    let (message, _) = world.marks(&react(ANN, &message, "a", true));
    let (message, _) = world.marks(&pin(ANN, &message, true));
    let (recalled, _) = world.marks(&recall(BOB, &message));
    assert_eq!(recalled, Annotated::plain(Arc::clone(&recalled.message)));
    for command in [
        react(ANN, &recalled, "a", true),
        react(ANN, &recalled, "a", false),
        pin(ANN, &recalled, true),
        pin(ANN, &recalled, false),
    ] {
        assert_eq!(world.refusal(&command), DomainError::Recalled);
    }
    let (deleted, _) = world.marks(&touch(ANN, &recalled, Touch::Delete));
    assert_eq!(deleted.message.status, MessageStatus::Deleted);
    for command in [react(ANN, &deleted, "a", true), pin(ANN, &deleted, true)] {
        assert!(matches!(world.refusal(&command), DomainError::NotFound(_)));
    }
}

#[test]
fn an_edit_keeps_what_is_on_the_message() {
    let mut world = World::group(&[BOB]);
    let message = world.said(BOB, "k");
    let (message, _) = world.marks(&react(ANN, &message, "a", true));
    let (message, _) = world.marks(&pin(ANN, &message, true));
    let (edited, _) = world.marks(&edit(BOB, &message, "{\"text\":\"other\"}"));
    assert_eq!((edited.reactions.len(), edited.pinned), (1, true));
}

#[test]
fn what_is_put_on_a_message_has_bounds() {
    let mut world = World::group(&[BOB]);
    let plain = world.said(ANN, "k");
    let given = |text: String, who: usize| {
        let principal = Principal::user(1_000 + i64::try_from(who).unwrap());
        let at = Timestamp::from_millis(START);
        (emoji(&text), Reactor { at, principal })
    };
    let many = (0..EMOJIS_MAX).map(|n| given(format!("e{n}"), 0));
    let many = Annotated::new(Arc::clone(&plain.message), many, false);
    world.stores(&many, 0);
    assert!(matches!(
        world.refusal(&react(BOB, &many, "new", true)),
        DomainError::Forbidden(_)
    ));
    world.does(&react(BOB, &many, "e7", true)).unwrap();
    let full = (0..REACTIONS_MAX).map(|n| given("e".to_owned(), n));
    let full = Annotated::new(Arc::clone(&plain.message), full, false);
    world.stores(&full, 0);
    assert!(matches!(
        world.refusal(&react(BOB, &full, "e", true)),
        DomainError::Forbidden(_)
    ));
    world.changes_nothing(&react(BOB, &full, "e", false));
}

#[test]
fn the_pins_of_a_conversation_are_counted_within_a_batch_too() {
    let mut world = World::group(&[BOB]);
    let messages = ["1", "2", "3"].map(|key| world.said(ANN, key));
    for message in &messages {
        world.stores(message, PINS_MAX - 1);
    }
    let [one, two, three] = &messages;
    let (outcomes, _) = world.do_all(&[
        pin(ANN, one, true),
        pin(ANN, two, true),
        recall(ANN, one),
        pin(ANN, three, true),
        pin(ANN, two, true),
    ]);
    let passed: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(passed, [true, false, true, true, false], "{outcomes:?}");
}

#[test]
fn b63_the_present_text_counts_and_only_members_other_than_its_sender() {
    let mut world = World::group(&[BOB, CY]);
    let to = |ids: &str, all: bool| {
        let list: Vec<String> = ids
            .split_whitespace()
            .map(|id| format!("{{\"user_id\":\"{id}\",\"offset\":0,\"length\":1}}"))
            .collect();
        format!(
            "{{\"text\":\"x\",\"mentions\":[{}],\"mention_all\":{all}}}",
            list.join(",")
        )
    };
    let mut first = sending(ANN, "k", "x");
    first.content = Content::trusted(&to("2 1 99 2", false));
    let (outcomes, batch) = world.do_all(&[Command::Send(first)]);
    assert_eq!(mentioned(batch), [Mentions::These(vec![BOB])]);
    let Ok(Outcome::Sent(message)) = &outcomes[0] else {
        panic!()
    };
    let mut message = Annotated::plain(Arc::clone(message));
    world.stores(&message, 0);
    for (content, now) in [
        (to("2 3", false), vec![Mentions::These(vec![BOB, CY])]),
        (to("3 2", false), vec![]),
        (to("2", true), vec![Mentions::Everybody]),
        ("{\"text\":\"nobody\"}".to_owned(), vec![Mentions::Nobody]),
        (to("3", false), vec![Mentions::These(vec![CY])]),
    ] {
        let (outcomes, batch) = world.do_all(&[edit(ANN, &message, &content)]);
        let Ok(Outcome::Touched(edited, _)) = &outcomes[0] else {
            panic!("{outcomes:?}")
        };
        message = Annotated::clone(edited);
        world.stores(&message, 0);
        assert_eq!(mentioned(batch), now, "{content}");
    }
    let (_, batch) = world.do_all(&[recall(ANN, &message)]);
    assert_eq!(mentioned(batch), [Mentions::Nobody]);
}

#[test]
fn a_text_that_mentions_nobody_is_one_event_as_before() {
    let mut world = World::group(&[BOB]);
    let mut to_a_stranger = sending(ANN, "l", "x");
    let mention = "{\"text\":\"x\",\"mentions\":[{\"user_id\":\"99\",\"offset\":0,\"length\":1}]}";
    to_a_stranger.content = Content::trusted(mention);
    let (_, batch) = world.do_all(&[send(ANN, "k"), Command::Send(to_a_stranger)]);
    assert_eq!(batch.unwrap().events.len(), 2);
}
