//! Principals, devices, settings.

use onescribe::domain::{
    ChangeSeq, Command, DeviceId, ExternalId, Principal, PrincipalStatus, PrincipalType, ProfilePatch, Seq, Timestamp,
};
use onescribe::storage::{DeviceCursor, Totals};

use super::builder::{Held, NOW, conversation_id, origin, send};
use super::suite::Fixture;

const ANNA: Principal = Principal::user(1);
const BEN: Principal = Principal::user(2);

fn now() -> Timestamp {
    Timestamp::from_millis(NOW)
}

pub(crate) async fn provisioning_twice_changes_nothing(fixture: &Fixture) {
    let store = &*fixture.store;
    let name = ExternalId::parse("anna").unwrap();
    store.adopt_external_id(ANNA, &name, now()).await.unwrap();
    let both = [ANNA, Principal::agent(1), ANNA];
    store.provision(&both, now()).await.unwrap();
    store.provision(&both, now()).await.unwrap();
    let mut known = store.known(&[ANNA, BEN, Principal::agent(1)]).await.unwrap();
    known.sort_unstable();
    assert_eq!(known, [ANNA, Principal::agent(1)]);
    assert_eq!(
        store.by_external_id(PrincipalType::User, &name).await.unwrap(),
        Some(ANNA)
    );
    store.provision(&[], now()).await.unwrap();
    assert!(store.known(&[]).await.unwrap().is_empty());
}

pub(crate) async fn thousands_are_provisioned_at_once(fixture: &Fixture) {
    let all: Vec<_> = (1..=5_000).map(Principal::user).collect();
    let halves = [&all[..3_000], &all[2_000..]];
    let provision = halves.map(|half| fixture.store.provision(half, now()));
    for done in futures_util::future::join_all(provision).await {
        done.unwrap();
    }
    assert_eq!(fixture.store.known(&all).await.unwrap().len(), 5_000);
}

pub(crate) async fn of_100_askers_for_an_external_id_all_get_one_answer(fixture: &Fixture) {
    let name = ExternalId::parse("5f0c-uuid").unwrap();
    let ask = (1..=100).map(|number| fixture.store.adopt_external_id(Principal::user(number), &name, now()));
    let answers = futures_util::future::join_all(ask).await;
    let owner = fixture
        .store
        .by_external_id(PrincipalType::User, &name)
        .await
        .unwrap()
        .unwrap();
    for answer in answers {
        assert_eq!(answer.unwrap(), owner);
    }
}

pub(crate) async fn a_setting_is_made_once(fixture: &Fixture) {
    let values: Vec<String> = (0..20).map(|number| format!("value {number} 😀")).collect();
    let ask = values
        .iter()
        .map(|value| fixture.store.setting_or("store_epoch", value));
    let answers = futures_util::future::join_all(ask).await;
    let kept = fixture.store.setting_or("store_epoch", "late").await.unwrap();
    assert!(values.contains(&kept));
    for answer in answers {
        assert_eq!(answer.unwrap(), kept);
    }
    fixture.store.ping().await.unwrap();
}

fn cursor(held: &Held, seq: i64, change_seq: i64) -> DeviceCursor {
    DeviceCursor {
        conversation_id: held.id,
        seq: Seq::new(seq),
        change_seq: ChangeSeq::new(change_seq),
    }
}

pub(crate) async fn cursors_never_go_back_nor_beyond_the_head(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[]).await;
    let added = Command::AddMembers {
        origin: origin(ANNA),
        members: vec![BEN],
    };
    held.commit(&mut *writer, &[send(ANNA, "1", "x"), added]).await;
    let phone = DeviceId::parse("phone").unwrap();
    let steps = [
        (vec![cursor(&held, 2, 0)], cursor(&held, 2, 0)),
        (vec![cursor(&held, 1, 1)], cursor(&held, 2, 1)),
        (
            vec![cursor(&held, 1, 0), cursor(&held, 3, 0), cursor(&held, 2, 0)],
            cursor(&held, 3, 1),
        ),
        (vec![cursor(&held, 9_999, 9_999)], cursor(&held, 3, 1)),
    ];
    for (acks, expected) in steps {
        store.acknowledge(ANNA, &phone, &acks, now()).await.unwrap();
        assert_eq!(store.cursors(ANNA, &phone).await.unwrap(), vec![expected]);
    }
    assert!(
        store
            .cursors(ANNA, &DeviceId::parse("web").unwrap())
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.cursors(BEN, &phone).await.unwrap().is_empty());
    store.acknowledge(ANNA, &phone, &[], now()).await.unwrap();
}

pub(crate) async fn acknowledgements_of_strangers_are_passed_over(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let mine = Held::group(&mut *writer, BEN, &[]).await;
    held.commit(
        &mut *writer,
        &[Command::RemoveMember {
            origin: origin(BEN),
            target: BEN,
        }],
    )
    .await;
    let phone = DeviceId::parse("phone").unwrap();
    let nowhere = DeviceCursor {
        conversation_id: conversation_id(),
        ..cursor(&held, 1, 0)
    };
    let acks = [cursor(&held, 1, 0), nowhere, cursor(&mine, 1, 0)];
    store.acknowledge(BEN, &phone, &acks, now()).await.unwrap();
    assert_eq!(store.cursors(BEN, &phone).await.unwrap(), vec![cursor(&mine, 1, 0)]);
}

pub(crate) async fn many_cursors_are_acknowledged_at_once(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let held: Vec<Held> = (0..450).map(|_| Held::new()).collect();
    let commits: Vec<_> = held
        .iter()
        .map(|one| one.decide(&[super::builder::group(ANNA, &[])]))
        .collect();
    assert!(writer.commit(&commits).await.iter().all(Result::is_ok));
    let phone = DeviceId::parse("phone").unwrap();
    let mut acks: Vec<_> = held.iter().map(|one| cursor(one, 1, 0)).collect();
    store.acknowledge(ANNA, &phone, &acks, now()).await.unwrap();
    let mut stored = store.cursors(ANNA, &phone).await.unwrap();
    stored.sort_unstable_by_key(|cursor| cursor.conversation_id);
    acks.sort_unstable_by_key(|cursor| cursor.conversation_id);
    assert_eq!(stored, acks);
}

pub(crate) async fn a_device_is_touched_with_and_without_a_platform(fixture: &Fixture) {
    let phone = DeviceId::parse("phone").unwrap();
    for platform in [None, Some("web"), None, Some("iOS 🍎")] {
        fixture.store.touch_device(ANNA, &phone, platform, now()).await.unwrap();
    }
}

pub(crate) async fn a_profile_is_changed_field_by_field(fixture: &Fixture) {
    let store = &*fixture.store;
    assert_eq!(store.profile(ANNA).await.unwrap(), None);
    store.provision(&[ANNA, Principal::agent(1)], now()).await.unwrap();
    let fresh = store.profile(ANNA).await.unwrap().unwrap();
    assert_eq!((fresh.principal, fresh.status), (ANNA, PrincipalStatus::Active));
    assert_eq!(
        (&fresh.external_id, &fresh.display_name, &fresh.avatar_url),
        (&None, &None, &None)
    );
    let full = ProfilePatch {
        external_id: Some(Some(ExternalId::parse("5f0c-键").unwrap())),
        display_name: Some(Some("Ann 安 😀".to_owned())),
        avatar_url: Some(Some("https://example.org/a.png".to_owned())),
        status: Some(PrincipalStatus::Disabled),
    };
    assert!(store.update_profile(ANNA, &full, now()).await.unwrap());
    let stored = store.profile(ANNA).await.unwrap().unwrap();
    assert_eq!(Some(stored.external_id.clone()), full.external_id);
    assert_eq!(
        (Some(stored.display_name.clone()), stored.status),
        (full.display_name, PrincipalStatus::Disabled)
    );
    assert!(
        store
            .update_profile(ANNA, &ProfilePatch::default(), now())
            .await
            .unwrap()
    );
    assert_eq!(store.profile(ANNA).await.unwrap().unwrap(), stored, "absent leaves");
    let unset = ProfilePatch {
        external_id: Some(None),
        display_name: Some(None),
        avatar_url: Some(None),
        status: Some(PrincipalStatus::Active),
    };
    assert!(store.update_profile(ANNA, &unset, now()).await.unwrap());
    assert_eq!(store.profile(ANNA).await.unwrap().unwrap(), fresh, "null unsets");
    let agent = store.profile(Principal::agent(1)).await.unwrap().unwrap();
    assert_eq!(agent.display_name, None, "the agent with the same number is another");
}

pub(crate) async fn an_external_id_has_one_holder_of_its_kind(fixture: &Fixture) {
    let store = &*fixture.store;
    let name = ExternalId::parse("anna").unwrap();
    store.adopt_external_id(ANNA, &name, now()).await.unwrap();
    store.provision(&[BEN, Principal::agent(2)], now()).await.unwrap();
    let claim = ProfilePatch {
        external_id: Some(Some(name.clone())),
        display_name: Some(Some("not Anna".to_owned())),
        ..ProfilePatch::default()
    };
    assert!(!store.update_profile(BEN, &claim, now()).await.unwrap());
    let ben = store.profile(BEN).await.unwrap().unwrap();
    assert_eq!(
        (ben.external_id, ben.display_name),
        (None, None),
        "nothing of it is stored"
    );
    assert!(
        store.update_profile(ANNA, &claim, now()).await.unwrap(),
        "one's own again"
    );
    assert!(store.update_profile(Principal::agent(2), &claim, now()).await.unwrap());
    let other = ProfilePatch {
        external_id: Some(Some(ExternalId::parse("Anna").unwrap())),
        ..ProfilePatch::default()
    };
    assert!(store.update_profile(ANNA, &other, now()).await.unwrap());
    assert_eq!(store.by_external_id(PrincipalType::User, &name).await.unwrap(), None);
    assert!(
        store.update_profile(BEN, &claim, now()).await.unwrap(),
        "it is free now"
    );
    assert_eq!(
        store.by_external_id(PrincipalType::User, &name).await.unwrap(),
        Some(BEN)
    );
}

pub(crate) async fn present_members_share_a_conversation(fixture: &Fixture) {
    let store = &*fixture.store;
    let mut writer = store.writer();
    let mut held = Held::group(&mut *writer, ANNA, &[BEN]).await;
    let shares = async |one, other| store.share_conversation(one, other).await.unwrap();
    assert!(shares(ANNA, BEN).await && shares(BEN, ANNA).await);
    assert!(!shares(ANNA, Principal::agent(2)).await);
    let leave = Command::RemoveMember {
        origin: origin(BEN),
        target: BEN,
    };
    held.commit(&mut *writer, &[leave]).await;
    assert!(!shares(ANNA, BEN).await && !shares(BEN, ANNA).await);
}

pub(crate) async fn totals_count_what_is_there(fixture: &Fixture) {
    let store = &*fixture.store;
    assert_eq!(store.totals().await.unwrap(), Totals::default());
    let mut writer = store.writer();
    Held::group(&mut *writer, ANNA, &[BEN]).await;
    store.provision(&[ANNA, BEN, Principal::agent(1)], now()).await.unwrap();
    let totals = store.totals().await.unwrap();
    assert_eq!((totals.conversations, totals.principals), (1, 3));
}
