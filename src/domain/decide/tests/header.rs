//! Title, settings, roles, the end; and what the admin key says in the name of others.

use super::*;
use crate::domain::Status;
use crate::domain::decide::Fact;

/// ANN owns, BOB is an admin, CY a member.
fn three() -> World {
    let mut world = World::group(&[BOB, CY]);
    world.does(&set_role(ANN, BOB, Role::Admin)).unwrap();
    world
}

fn posting(actor: Principal, posting: Posting) -> Command {
    update(
        actor,
        HeaderPatch {
            posting: Some(posting),
            ..HeaderPatch::default()
        },
    )
}

/// Which device is spared each change.
fn spared(batch: Option<&Batch>) -> Vec<bool> {
    let spares = |event: &Event| match event {
        Event::Changed { device, .. } => Some(device.is_some()),
        _ => None,
    };
    batch
        .iter()
        .flat_map(|batch| &batch.events)
        .filter_map(spares)
        .collect()
}

fn is_forbidden(error: &DomainError) -> bool {
    matches!(error, DomainError::Forbidden(_))
}

#[test]
fn a_new_title_is_one_change_and_one_system_message() {
    let mut world = three();
    let (outcomes, batch) = world.do_all(&[rename(BOB, Some("new \"name\""))]);
    assert_eq!(
        told(batch.as_ref()),
        [
            "header ACTIVE",
            "changed 2 CONVERSATION_UPDATED {\"title\":\"new \\\"name\\\"\"}",
            "sent 3 {\"event\":\"title_changed\",\"actor\":{\"type\":\"USER\",\"id\":\"2\"}}",
        ]
    );
    assert!(matches!(&outcomes[0], Ok(Outcome::Changed(Some(change))) if change.actor == BOB));
    assert_eq!(spared(batch.as_ref()), [true], "its reply tells the change");
    assert_eq!(world.state().header.title.as_deref(), Some("new \"name\""));
    world.does(&rename(ANN, None)).unwrap();
    assert_eq!(world.state().header.title, None, "null unsets");
}

#[test]
fn other_fields_are_only_a_change_that_tells_all_of_them() {
    let mut world = three();
    world.now += 5;
    let patch = HeaderPatch {
        title: Some(Some("room".to_owned())),
        avatar_url: Some(Some("https://example.org/a.png".to_owned())),
        history_visibility: Some(HistoryVisibility::Joined),
        posting: Some(Posting::Admins),
        adding: Some(Adding::All),
    };
    let (_, batch) = world.do_all(&[update(ANN, patch)]);
    let fields = "\"avatar_url\":\"https://example.org/a.png\",\"history_visibility\":\"JOINED\",\"posting\":\"ADMINS\",\"adding\":\"ALL\"";
    assert_eq!(
        told(batch.as_ref()),
        [
            "header ACTIVE".to_owned(),
            format!("changed 2 CONVERSATION_UPDATED {{{fields}}}"),
        ],
        "the title stays as it was"
    );
    let header = &world.state().header;
    assert_eq!((header.posting, header.adding), (Posting::Admins, Adding::All));
    assert_eq!(header.updated_at.millis(), START + 5);
    assert_eq!(world.state().head.last_seq.get(), 2, "no message");
}

#[test]
fn what_is_so_already_changes_nothing() {
    let mut world = three();
    let nothing = [
        rename(ANN, Some("room")),
        update(ANN, HeaderPatch::default()),
        posting(BOB, Posting::All),
        set_role(ANN, BOB, Role::Admin),
        set_role(ANN, ANN, Role::Owner),
    ];
    let (outcomes, batch) = world.do_all(&nothing);
    assert!(
        outcomes.iter().all(|outcome| *outcome == Ok(Outcome::Changed(None))),
        "{outcomes:?}"
    );
    assert!(batch.is_none());
    world.does(&dissolve(ANN)).unwrap();
    assert_eq!(world.does(&dissolve(ANN)), Ok(Outcome::Changed(None)));
}

#[test]
fn the_header_belongs_to_admins_and_roles_and_the_end_to_the_owner() {
    let mut world = three();
    for command in [rename(CY, Some("mine")), posting(CY, Posting::Admins)] {
        assert!(is_forbidden(&world.refusal(&command)), "{command:?}");
    }
    for actor in [BOB, CY] {
        for command in [
            set_role(actor, CY, Role::Admin),
            set_role(actor, actor, Role::Owner),
            set_role(actor, ANN, Role::Member),
            set_role(actor, STRANGER, Role::Member),
            dissolve(actor),
        ] {
            assert!(is_forbidden(&world.refusal(&command)), "{command:?}");
        }
    }
    for command in [
        rename(STRANGER, Some("x")),
        set_role(STRANGER, CY, Role::Admin),
        dissolve(STRANGER),
        dissolve(Principal::agent(1)),
    ] {
        assert_eq!(world.refusal(&command), DomainError::NotAMember, "{command:?}");
    }
    assert!(matches!(
        world.refusal(&set_role(ANN, STRANGER, Role::Admin)),
        DomainError::NotFound(_)
    ));
    assert!(
        is_forbidden(&world.refusal(&set_role(ANN, ANN, Role::Admin))),
        "an owner cannot just step down: nobody would own the group"
    );
}

#[test]
fn a_role_is_one_change_and_one_system_message() {
    let mut world = World::group(&[BOB]);
    let (_, batch) = world.do_all(&[set_role(ANN, BOB, Role::Admin)]);
    let bob = "{\"type\":\"USER\",\"id\":\"2\"}";
    assert_eq!(
        told(batch.as_ref()),
        [
            "role USER:2 ADMIN".to_owned(),
            format!("changed 1 MEMBER_UPDATED {{\"principal\":{bob},\"role\":\"ADMIN\"}}"),
            format!(
                "sent 2 {{\"event\":\"role_changed\",\"actor\":{{\"type\":\"USER\",\"id\":\"1\"}},\"members\":[{bob}]}}"
            ),
        ]
    );
    assert_eq!(spared(batch.as_ref()), [true]);
    assert_eq!(world.member(BOB).role, Role::Admin);
    world.does(&set_role(ANN, BOB, Role::Member)).unwrap();
    assert_eq!(world.member(BOB).role, Role::Member);
}

#[test]
fn a_transfer_is_a_change_for_each_of_the_two_and_one_system_message() {
    let mut world = three();
    let (outcomes, batch) = world.do_all(&[set_role(ANN, CY, Role::Owner), rename(CY, Some("x")), dissolve(ANN)]);
    let events = told(batch.as_ref());
    let kinds: Vec<&str> = events.iter().map(|event| event.split(" {").next().unwrap()).collect();
    assert_eq!(
        kinds[..6],
        [
            "role USER:3 OWNER",
            "changed 2 MEMBER_UPDATED",
            "header ACTIVE",
            "role USER:1 ADMIN",
            "changed 3 MEMBER_UPDATED",
            "sent 3",
        ]
    );
    assert!(matches!(&outcomes[0], Ok(Outcome::Changed(Some(change))) if change.change_seq.get() == 2));
    assert_eq!(
        spared(batch.as_ref())[..2],
        [true, false],
        "the reply tells the first of the two changes, so the other one is pushed"
    );
    assert!(outcomes[1].is_ok(), "the new owner may at once");
    assert!(matches!(&outcomes[2], Err(Refusal::Rejected(error)) if is_forbidden(error)));
    let owners = world.state().members.iter().filter(|member| member.role == Role::Owner);
    assert_eq!((world.state().header.owner, owners.count()), (Some(CY), 1));
    assert_eq!(world.member(ANN).role, Role::Admin);
}

#[test]
fn posting_and_adding_act_within_the_same_batch() {
    let mut world = three();
    world.knows_key_is_new(CY, "a");
    world.knows_key_is_new(CY, "b");
    let (outcomes, _) = world.do_all(&[
        send(CY, "a"),
        posting(ANN, Posting::Admins),
        send(CY, "b"),
        send(BOB, "c"),
        set_role(ANN, CY, Role::Admin),
        send(CY, "b"),
    ]);
    assert!(outcomes[0].is_ok() && outcomes[3].is_ok() && outcomes[5].is_ok());
    assert!(matches!(&outcomes[2], Err(Refusal::Rejected(error)) if is_forbidden(error)));
}

#[test]
fn a_dissolved_group_is_closed_to_everything_but_reading() {
    let mut world = three();
    let (_, batch) = world.do_all(&[dissolve(ANN)]);
    let events = told(batch.as_ref());
    assert_eq!(
        events,
        [
            "header DISSOLVED",
            "changed 2 CONVERSATION_UPDATED {\"status\":\"DISSOLVED\"}",
            "sent 3 {\"event\":\"dissolved\",\"actor\":{\"type\":\"USER\",\"id\":\"1\"}}",
        ]
    );
    assert_eq!(world.state().members.len(), 3, "nobody is sent away");
    assert_eq!(world.state().header.owner, Some(ANN));
    world.knows_key_is_new(CY, "k");
    for command in [
        rename(ANN, Some("late")),
        rename(ANN, Some("room")),
        set_role(ANN, BOB, Role::Member),
        remove(ANN, CY),
        remove(CY, CY),
        add(ANN, &[DEE]),
        send(CY, "k"),
    ] {
        assert_eq!(world.refusal(&command), DomainError::Closed, "{command:?}");
    }
    assert!(
        is_forbidden(&world.refusal(&rename(CY, Some("x")))),
        "rights come before state"
    );
    assert_eq!(world.state().header.status, Status::Dissolved);
}

#[test]
fn a_direct_has_no_title_no_roles_and_no_end() {
    let mut world = World::empty();
    world.does(&create(Kind::Direct, &[BOB])).unwrap();
    for command in [rename(ANN, Some("us")), set_role(ANN, BOB, Role::Admin), dissolve(ANN)] {
        assert!(is_forbidden(&world.refusal(&command)), "{command:?}");
    }
    assert_eq!(world.refusal(&dissolve(STRANGER)), DomainError::NotAMember);
}

#[test]
fn b09_a_clock_that_refuses_ids_changes_nothing() {
    let mut world = three();
    world.refuses = Some(DomainError::LeaseLost);
    for command in [rename(ANN, Some("x")), set_role(ANN, CY, Role::Owner), dissolve(ANN)] {
        let before = world.state().clone();
        let (outcomes, batch) = world.do_all(&[command]);
        assert_eq!(outcomes, [Err(DomainError::LeaseLost.into())]);
        assert!(batch.is_none());
        assert_same(world.state.as_ref(), Some(&before));
    }
    world.does(&posting(ANN, Posting::Admins)).unwrap();
}

fn send_for(sender: Principal, key: &str) -> Command {
    Command::SendFor(sending(sender, key, "words"))
}

#[test]
fn the_admin_key_speaks_as_the_server_anywhere_and_as_members_where_they_are() {
    let mut world = three();
    world.does(&posting(ANN, Posting::Admins)).unwrap();
    let message = world.sent(&send_for(Principal::SYSTEM, "k"));
    assert_eq!((message.sender, message.count_no.get()), (Principal::SYSTEM, 0));
    assert!(matches!(
        world.does(&send_for(Principal::SYSTEM, "k")),
        Ok(Outcome::Duplicate(_))
    ));
    assert_eq!(world.sent(&send_for(CY, "k")).sender, CY, "posting does not bind it");
    world.knows_key_is_new(STRANGER, "k");
    assert_eq!(world.refusal(&send_for(STRANGER, "k")), DomainError::NotAMember);
    world.does(&dissolve(ANN)).unwrap();
    assert!(matches!(
        world.does(&send_for(Principal::SYSTEM, "new")),
        Err(Refusal::Needs(Fact::Key(..)))
    ));
    world.knows_key_is_new(Principal::SYSTEM, "new");
    assert_eq!(world.refusal(&send_for(Principal::SYSTEM, "new")), DomainError::Closed);
    let mut pair = World::empty();
    pair.does(&create(Kind::Direct, &[BOB])).unwrap();
    assert_eq!(pair.sent(&send_for(Principal::SYSTEM, "k")).seq.get(), 1);
}

#[test]
fn history_visibility_acts_at_once_on_what_is_hidden() {
    let mut world = World::group(&[BOB]);
    let message = world.sent(&send(ANN, "old"));
    world.does(&add(ANN, &[CY])).unwrap();
    let visibility = |to| {
        update(
            ANN,
            HeaderPatch {
                history_visibility: Some(to),
                ..HeaderPatch::default()
            },
        )
    };
    let edit = |text: &str| Command::Touch {
        origin: by(ANN),
        message_id: message.message_id,
        touch: crate::domain::Touch::Edit(Content::trusted(&format!("{{\"text\":\"{text}\"}}"))),
    };
    let touchable = super::super::Touchable {
        annotated: crate::domain::Annotated::plain(Arc::clone(&message)),
        hidden_for: Vec::new(),
        standing_below: Seq::ZERO.next(),
        pins: 0,
    };
    world.facts.messages.insert(message.message_id, Some(touchable));
    let commands = [
        edit("a"),
        visibility(HistoryVisibility::Joined),
        edit("b"),
        visibility(HistoryVisibility::Shared),
        edit("c"),
    ];
    let (_, batch) = world.do_all(&commands);
    let hidden: Vec<Vec<Principal>> = batch
        .iter()
        .flat_map(|batch| &batch.events)
        .filter_map(|event| match event {
            Event::Changed {
                message: Some(_),
                hidden_from,
                ..
            } => Some(hidden_from.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(hidden, [vec![], vec![CY], vec![]]);
}
