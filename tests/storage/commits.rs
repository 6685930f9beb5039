//! What becomes of commits.

use onescribe::domain::{ChangeSeq, Command, CreationKey, Kind, Principal, Seq};
use onescribe::storage::{CommitError, Store, Writer};

use super::builder::{Held, commit_one, create, origin, send};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);
const BOT: Principal = Principal::agent(2);

fn add(actor: Principal, members: &[Principal]) -> Command {
    Command::AddMembers {
        origin: origin(actor),
        members: members.to_vec(),
    }
}

/// The store and the state in memory agree on everything.
async fn assert_stored(store: &dyn Store, held: &Held) {
    let loaded = store.load(held.id).await.unwrap().unwrap();
    let state = held.state.as_ref().unwrap();
    assert_eq!(loaded.header, state.header);
    assert_eq!(loaded.head, state.head);
    assert_eq!(loaded.members, state.members);
    let messages = store.messages_after(held.id, Seq::ZERO, 10_000).await.unwrap();
    let seqs: Vec<i64> = messages.iter().map(|message| message.seq.get()).collect();
    assert_eq!(
        seqs,
        (1..=state.head.last_seq.get()).collect::<Vec<_>>(),
        "no hole, no double"
    );
}

pub(crate) async fn what_is_committed_comes_back_as_it_was(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN, BOT]).await;
    let commit = held.decide(&[send(ANNA, "k1", "hello 😀"), send(BOT, "k2", "wêlt")]);
    assert_eq!(commit_one(&mut *writer, &commit).await, Ok(()));
    held.apply(&commit);
    assert_stored(store, &held).await;
    let stored = store.messages_after(held.id, Seq::new(1), 10).await.unwrap();
    let sent = commit.events.iter().filter_map(|event| match event {
        onescribe::domain::Event::MessageSent { message, .. } => Some((**message).clone()),
        _ => None,
    });
    assert_eq!(stored, sent.collect::<Vec<_>>());
}

pub(crate) async fn a_commit_on_an_old_seq_is_fenced(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let late = held.clone().decide(&[send(BEN, "late", "too late")]);
    held.commit(&mut *writer, &[send(ANNA, "first", "first")]).await;
    assert_eq!(commit_one(&mut *writer, &late).await, Err(CommitError::Fenced));
    assert_stored(store, &held).await;
    assert_eq!(
        store
            .seen(held.id, BEN)
            .await
            .unwrap()
            .unwrap()
            .membership
            .unwrap()
            .last_read_seq,
        Seq::new(1)
    );
    // Without the help of the unique key: the seq of the message is free, the counter it was decided on is not right.
    let mut late = held.decide(&[send(BEN, "late", "too late")]);
    late.expected.as_mut().unwrap().last_seq = Seq::new(1);
    assert_eq!(commit_one(&mut *writer, &late).await, Err(CommitError::Fenced));
    assert_stored(store, &held).await;
}

pub(crate) async fn a_commit_on_an_old_change_seq_is_fenced(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    held.commit(&mut *writer, &[add(ANNA, &[BOT])]).await;
    // The seq fits; only the change is not known to whoever decided this.
    let mut stale = held.clone();
    stale.state.as_mut().unwrap().head.last_change_seq = ChangeSeq::ZERO;
    let late = stale.decide(&[send(BEN, "late", "too late")]);
    assert_eq!(commit_one(&mut *writer, &late).await, Err(CommitError::Fenced));
    assert_stored(store, &held).await;
}

pub(crate) async fn a_commit_on_nothing_is_fenced(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let mut held = Held::new();
    let creation = held.decide(&[super::builder::group(ANNA, &[])]);
    held.apply(&creation);
    let commit = held.decide(&[send(ANNA, "k", "nobody is here")]);
    assert_eq!(commit_one(&mut *writer, &commit).await, Err(CommitError::Fenced));
    assert!(fixture.store.load(held.id).await.unwrap().is_none());
}

/// Groups of Anna that are stored.
async fn groups(writer: &mut dyn Writer, count: usize) -> Vec<Held> {
    let mut held: Vec<Held> = (0..count).map(|_| Held::new()).collect();
    let commits: Vec<_> = held
        .iter()
        .map(|one| one.decide(&[super::builder::group(ANNA, &[BEN])]))
        .collect();
    assert_eq!(writer.commit(&commits).await, vec![Ok(()); count]);
    for (one, commit) in held.iter_mut().zip(&commits) {
        one.apply(commit);
    }
    held
}

pub(crate) async fn a_used_key_stops_its_own_batch_only(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = groups(&mut *writer, 40).await;
    let bad = [3, 17, 18, 39];
    for index in bad {
        held[index].commit(&mut *writer, &[send(ANNA, "used", "before")]).await;
        held[index].forget_keys();
    }
    let sends = [
        send(ANNA, "new", "one"),
        send(ANNA, "used", "after"),
        send(BEN, "used", "by another"),
    ];
    let commits: Vec<_> = held.iter().map(|one| one.decide(&sends)).collect();
    let results = writer.commit(&commits).await;
    for (index, result) in results.iter().enumerate() {
        if bad.contains(&index) {
            assert_eq!(*result, Err(CommitError::KeyTaken), "{index}");
        } else {
            assert_eq!(*result, Ok(()), "{index}");
            held[index].apply(&commits[index]);
        }
    }
    for one in &held {
        assert_stored(store, one).await;
    }
}

pub(crate) async fn a_fenced_conversation_never_fails_its_neighbours(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = groups(&mut *writer, 20).await;
    let commits: Vec<_> = held.iter().map(|one| one.decide(&[send(BEN, "k", "one")])).collect();
    for index in [0, 11] {
        held[index].commit(&mut *writer, &[send(ANNA, "faster", "first")]).await;
    }
    let results = writer.commit(&commits).await;
    for (index, result) in results.iter().enumerate() {
        let expected = if index == 0 || index == 11 {
            Err(CommitError::Fenced)
        } else {
            Ok(())
        };
        assert_eq!(*result, expected, "{index}");
        if result.is_ok() {
            held[index].apply(&commits[index]);
        }
    }
    for one in &held {
        assert_stored(store, one).await;
    }
}

pub(crate) async fn a_mixed_batch_is_stored_as_a_whole(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = groups(&mut *writer, 3).await;
    held.push(Held::new());
    let carla = Principal::user(3);
    let commands: [Vec<Command>; 4] = [
        vec![send(ANNA, "a", "plain")],
        vec![
            send(ANNA, "a", "before"),
            add(ANNA, &[carla]),
            send(carla, "c", "hi"),
            send(BEN, "b", "hello"),
        ],
        vec![Command::RemoveMember {
            origin: origin(BEN),
            target: BEN,
        }],
        vec![super::builder::group(BEN, &[BOT]), send(BOT, "x", "first words")],
    ];
    let commits: Vec<_> = held
        .iter()
        .zip(&commands)
        .map(|(one, commands)| one.decide(commands))
        .collect();
    assert_eq!(writer.commit(&commits).await, vec![Ok(()); 4]);
    for (one, commit) in held.iter_mut().zip(&commits) {
        one.apply(commit);
        assert_stored(store, one).await;
    }
    let changes = store.changes_after(held[1].id, ChangeSeq::ZERO, 10).await.unwrap();
    assert_eq!(changes.len(), 1);
    let carla = store
        .seen(held[1].id, carla)
        .await
        .unwrap()
        .unwrap()
        .membership
        .unwrap();
    assert_eq!(
        (carla.member.joined_seq, carla.last_read_seq),
        (Seq::new(3), Seq::new(4))
    );
}

pub(crate) async fn large_batches_are_stored_in_order(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let sends: Vec<_> = (0..2_500).map(|n| send(BEN, &format!("k{n}"), "short")).collect();
    held.commit(&mut *writer, &sends).await;
    // Beyond what one statement may carry.
    let long = "ä".repeat(300_000);
    let sends: Vec<_> = (0..20).map(|n| send(ANNA, &format!("k{n}"), &long)).collect();
    held.commit(&mut *writer, &sends).await;
    assert_stored(store, &held).await;
}

pub(crate) async fn two_batches_of_one_conversation_are_stored_one_after_the_other(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let first = held.decide(&[send(ANNA, "1", "one")]);
    held.apply(&first);
    let second = held.decide(&[send(BEN, "2", "two")]);
    held.apply(&second);
    assert_eq!(writer.commit(&[first, second]).await, vec![Ok(()), Ok(())]);
    assert_stored(store, &held).await;
}

pub(crate) async fn of_100_creations_with_one_key_one_wins(fixture: &Fixture) {
    let key = CreationKey::direct(ANNA, BEN);
    let creation = create(Kind::Direct, ANNA, &[BEN], Some(key.clone()));
    let lanes = (0..5).map(|_| {
        let (mut writer, creation) = (fixture.store.writer(), creation.clone());
        async move {
            let commits: Vec<_> = (0..20)
                .map(|_| Held::new().decide(std::slice::from_ref(&creation)))
                .collect();
            let results = writer.commit(&commits).await;
            commits
                .into_iter()
                .map(|commit| commit.conversation_id)
                .zip(results)
                .collect::<Vec<_>>()
        }
    });
    let results = futures_util::future::join_all(lanes).await.concat();
    let won: Vec<_> = results.iter().filter(|(_, result)| result.is_ok()).collect();
    assert_eq!(won.len(), 1);
    assert!(
        results
            .iter()
            .all(|(_, result)| matches!(result, Ok(()) | Err(CommitError::Exists))),
        "{results:?}"
    );
    assert_eq!(fixture.store.by_creation_key(&key).await.unwrap(), Some(won[0].0));
    assert_eq!(fixture.store.ids_of(BEN).await.unwrap(), vec![won[0].0]);
}

pub(crate) async fn an_id_of_a_conversation_is_given_once(fixture: &Fixture) {
    let mut writer = fixture.store.writer();
    let held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let again = Held {
        state: None,
        ..held.clone()
    }
    .decide(&[super::builder::group(BEN, &[])]);
    assert_eq!(commit_one(&mut *writer, &again).await, Err(CommitError::Exists));
    assert_stored(&*fixture.store, &held).await;
}

pub(crate) async fn a_group_of_5000_is_created_and_loaded(fixture: &Fixture) {
    let store = &*fixture.store;
    let members: Vec<_> = (10..5_009).map(Principal::user).collect();
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &members).await;
    held.commit(&mut *writer, &[send(Principal::user(4_000), "k", "hello all")])
        .await;
    assert_stored(store, &held).await;
    let seen = store.seen(held.id, ANNA).await.unwrap().unwrap();
    assert_eq!(seen.member_count, 5_000);
    assert_eq!(store.members(held.id, None, 10_000).await.unwrap().len(), 5_000);
}
