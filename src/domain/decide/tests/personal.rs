//! What a user does for themselves, decided by their INBOX.

use super::*;
use crate::domain::{
    Action, ActionType, Actionable, ChangeType, CountNo, Membership, Personal, Position, Refusal as Refused,
};

/// Another conversation.
const ROOM: ConversationId = ConversationId::new(70).unwrap();

impl World {
    /// BOB's INBOX.
    fn inbox() -> Self {
        let mut world = Self::empty();
        let creation = Create {
            origin: by(BOB),
            ..creation(Kind::Inbox, &[])
        };
        world.does(&Command::Create(creation)).unwrap();
        world
    }

    /// The ROOM has 10 messages, all by others and all counted; BOB has read `read` of them.
    fn stands(&mut self, read: i64, asked: i64) {
        let at = asked.min(10);
        let position = Position {
            membership: Membership {
                member: Member {
                    principal: BOB,
                    role: Role::Member,
                    joined_seq: Seq::ZERO,
                    joined_at: Timestamp::default(),
                },
                last_read_seq: Seq::new(read),
                last_read_count_no: CountNo::new(read),
                cleared_seq: Seq::ZERO,
                cleared_count_no: CountNo::ZERO,
                marked_unread: false,
                muted: false,
                pinned: false,
            },
            peer: None,
            at: Seq::new(at),
            at_count_no: CountNo::new(at),
            unread_count: u64::try_from(10 - at.max(read)).unwrap(),
        };
        let key = (ROOM, BOB, Seq::new(asked));
        self.facts.positions.insert(key, Some(position));
    }

    fn is_marked(&mut self, asked: i64) {
        let key = (ROOM, BOB, Seq::new(asked));
        if let Some(Some(position)) = self.facts.positions.get_mut(&key) {
            position.membership.marked_unread = true;
        }
    }

    /// The message at this seq of the ROOM, on which BOB has not acted.
    fn finds(&mut self, seq: i64) {
        let found = Actionable {
            conversation_id: ROOM,
            seq: Seq::new(seq),
            counts: true,
            visible: true,
            actions: Vec::new(),
        };
        self.facts.actionables.insert((message_id(seq), BOB), Some(found));
    }

    fn found(&mut self, seq: i64) -> &mut Actionable {
        let found = self.facts.actionables.get_mut(&(message_id(seq), BOB));
        found.unwrap().as_mut().unwrap()
    }
}

fn act(act: Personal) -> Command {
    let origin = by(BOB);
    Command::Personal { origin, act }
}

fn read(seq: i64) -> Command {
    act(Personal::Read {
        conversation_id: ROOM,
        seq: Seq::new(seq),
    })
}

fn clear(seq: i64) -> Command {
    act(Personal::Clear {
        conversation_id: ROOM,
        up_to_seq: Seq::new(seq),
    })
}

fn settings(muted: Option<bool>, marked_unread: Option<bool>) -> Command {
    act(Personal::Settings {
        conversation_id: ROOM,
        muted,
        pinned: None,
        marked_unread,
    })
}

fn put(seq: i64, action_type: ActionType, remind_at: Option<i64>) -> Command {
    act(Personal::Set {
        message_id: message_id(seq),
        action_type,
        remind_at: remind_at.map(Timestamp::from_millis),
        payload: None,
    })
}

fn take_back(seq: i64, action_type: ActionType) -> Command {
    let message_id = message_id(seq);
    act(Personal::Unset {
        message_id,
        action_type,
    })
}

/// `(last_read_seq, unread_count, change_type)` of the answer to a read.
fn position_of(outcome: &Result<Outcome, Refusal>) -> (i64, u64, Option<ChangeType>) {
    match outcome {
        Ok(Outcome::Read {
            last_read_seq,
            unread_count,
            change,
        }) => (
            last_read_seq.get(),
            *unread_count,
            change.as_ref().map(|change| change.change_type),
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn b72_the_highest_of_many_reports_wins_whatever_their_order() {
    let mut world = World::inbox();
    for asked in [3, 7, 5, 99] {
        world.stands(2, asked);
    }
    let (outcomes, batch) = world.do_all(&[read(3), read(7), read(5), read(7), read(99)]);
    let answers: Vec<_> = outcomes.iter().map(position_of).collect();
    let moved = Some(ChangeType::Read);
    assert_eq!(
        answers,
        [(3, 7, moved), (7, 3, moved), (7, 3, None), (7, 3, None), (10, 0, moved)]
    );
    let payload = "{\"conversation_id\":\"70\",\"last_read_seq\":3,\"unread_count\":7}";
    assert_eq!(
        told(batch.as_ref())[..2],
        ["read 3 3".to_owned(), format!("changed 1 READ {payload}")]
    );
    assert_eq!(world.state().head.last_change_seq.get(), 3);
}

#[test]
fn b79_reading_takes_the_mark_away_also_where_nothing_moves() {
    let mut world = World::inbox();
    for asked in [2, 3, 5] {
        world.stands(3, asked);
        world.is_marked(asked);
    }
    assert_eq!(position_of(&world.does(&read(2))), (3, 7, None), "below is nothing");
    assert_eq!(
        position_of(&world.does(&read(3))),
        (3, 7, Some(ChangeType::SettingsUpdated))
    );
    let (outcomes, batch) = world.do_all(&[read(5), read(5)]);
    let answers: Vec<_> = outcomes.iter().map(position_of).collect();
    assert_eq!(answers, [(5, 5, Some(ChangeType::Read)), (5, 5, None)]);
    assert_eq!(batch.unwrap().events.len(), 2);
}

#[test]
fn settings_that_do_not_differ_change_nothing_and_only_what_differs_is_written() {
    let mut world = World::inbox();
    world.stands(0, 0);
    let (outcomes, batch) = world.do_all(&[
        settings(Some(false), None),
        settings(Some(true), Some(true)),
        settings(Some(true), Some(false)),
    ]);
    let changed: Vec<bool> = outcomes
        .iter()
        .map(|outcome| matches!(outcome, Ok(Outcome::Changed(Some(_)))))
        .collect();
    assert_eq!(changed, [false, true, true]);
    let told = told(batch.as_ref());
    assert!(
        told[2].contains("muted: None") && told[2].contains("marked_unread: Some(false)"),
        "{told:?}"
    );
    assert!(told[3].contains("\"muted\":true,\"pinned\":false,\"marked_unread\":false,\"cleared_seq\":0"));
}

#[test]
fn clearing_never_goes_back_and_what_follows_counts_above_it() {
    let mut world = World::inbox();
    for asked in [2, 4, 6] {
        world.stands(1, asked);
    }
    let (outcomes, batch) = world.do_all(&[clear(6), clear(4), read(2), read(4)]);
    assert!(matches!(outcomes[1], Ok(Outcome::Changed(None))));
    assert_eq!(
        position_of(&outcomes[2]),
        (2, 4, Some(ChangeType::Read)),
        "what is cleared is not unread"
    );
    assert_eq!(position_of(&outcomes[3]), (4, 4, Some(ChangeType::Read)));
    assert!(told(batch.as_ref())[1].contains("\"cleared_seq\":6"));
}

#[test]
fn what_the_same_batch_deletes_or_brings_back_counts_in_its_reads() {
    let mut world = World::inbox();
    world.stands(0, 2);
    world.stands(0, 6);
    for seq in [1, 5, 7] {
        world.finds(seq);
    }
    world.found(7).actions = vec![Action {
        action_type: ActionType::Delete,
        message_id: message_id(7),
        conversation_id: ROOM,
        seq: Seq::new(7),
        active: true,
        remind_at: None,
        payload: None,
        updated_at: Timestamp::default(),
    }];
    let delete = |seq| put(seq, ActionType::Delete, None);
    let (outcomes, _) = world.do_all(&[
        delete(1),
        delete(5),
        delete(5),
        take_back(7, ActionType::Delete),
        read(2),
        read(6),
    ]);
    assert_eq!(
        position_of(&outcomes[4]),
        (2, 8, Some(ChangeType::Read)),
        "8 above 2, one deleted, one back"
    );
    assert_eq!(
        position_of(&outcomes[5]),
        (6, 5, Some(ChangeType::Read)),
        "4 above 6, one back"
    );
}

#[test]
fn an_action_is_set_once_and_kept_when_it_is_taken_back() {
    let mut world = World::inbox();
    world.finds(4);
    let (outcomes, batch) = world.do_all(&[
        take_back(4, ActionType::Reminder),
        put(4, ActionType::Reminder, Some(START)),
        put(4, ActionType::Reminder, Some(START)),
        put(4, ActionType::Reminder, Some(START + 1)),
        take_back(4, ActionType::Reminder),
        take_back(4, ActionType::Reminder),
    ]);
    let states: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(Outcome::Acted(action, change)) => {
                (action.active, action.remind_at.map(Timestamp::millis), change.is_some())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let (first, second) = (Some(START), Some(START + 1));
    assert_eq!(
        states,
        [
            (false, None, false),
            (true, first, true),
            (true, first, false),
            (true, second, true),
            (false, second, true),
            (false, second, false)
        ]
    );
    let told = told(batch.as_ref());
    assert_eq!(told[0], "action REMINDER ACTIVE");
    assert!(
        told[1].contains("\"remind_at\":\"2026-11-29T12:00:00.000Z\",\"payload\":null"),
        "{told:?}"
    );
    let timeless = world.refusal(&put(4, ActionType::Reminder, None));
    assert!(matches!(timeless, DomainError::Invalid(invalid) if invalid.field == "remind_at"));
}

#[test]
fn what_i_do_not_see_i_cannot_mark_but_what_i_marked_i_can_take_back() {
    let mut world = World::inbox();
    world.finds(4);
    let (outcomes, _) = world.do_all(&[
        put(4, ActionType::Favorite, None),
        put(4, ActionType::Delete, None),
        put(4, ActionType::Favorite, None),
        take_back(4, ActionType::Delete),
        put(4, ActionType::Favorite, None),
    ]);
    assert!(outcomes[0].is_ok() && outcomes[4].is_ok());
    assert!(
        matches!(&outcomes[2], Err(Refused::Rejected(DomainError::NotFound(_)))),
        "deleted in this batch"
    );
    let mut cleared = World::inbox();
    cleared.finds(4);
    cleared.found(4).visible = false;
    let refused = cleared.refusal(&put(4, ActionType::Favorite, None));
    assert!(matches!(refused, DomainError::NotFound(_)));
}

#[test]
fn only_its_user_writes_to_an_inbox_and_only_in_conversations_of_theirs() {
    let mut world = World::inbox();
    let by_other = Command::Personal {
        origin: by(CY),
        act: Personal::Read {
            conversation_id: ROOM,
            seq: Seq::new(1),
        },
    };
    assert!(matches!(world.refusal(&by_other), DomainError::Forbidden(_)));
    world.knows_key_is_new(BOB, "k");
    assert!(matches!(world.refusal(&send(BOB, "k")), DomainError::Forbidden(_)));
    world.facts.positions.insert((ROOM, BOB, Seq::new(1)), None);
    assert_eq!(world.refusal(&read(1)), DomainError::NotAMember);
    world.facts.actionables.insert((message_id(9), BOB), None);
    let missing = world.refusal(&put(9, ActionType::Favorite, None));
    assert!(matches!(missing, DomainError::NotFound(_)));
    let mut group = World::group(&[BOB]);
    assert!(matches!(group.refusal(&read(1)), DomainError::Forbidden(_)));
}
