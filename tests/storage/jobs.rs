//! Jobs: one process at a time works on one, and each step can be done again without harm.

use onescribe::domain::announcement::fingerprint;
use onescribe::domain::{Announcement, Audience, ClientRequestId, Content, Job, JobId, JobState, Principal, Timestamp};
use onescribe::storage::{JobHolder, JobProgress, Store};

use super::builder::{NOW, next_id};
use super::suite::Fixture;

const ANN: Principal = Principal::user(1);
const BOT: Principal = Principal::agent(1);

fn at(offset: i64) -> Timestamp {
    Timestamp::from_millis(NOW + offset)
}

fn announcement(key: &str, audience: Audience) -> Announcement {
    let payload = Content::trusted("{\"at\":12,\"ä\":\"友\"}");
    let job = Job {
        job_id: JobId::new(next_id()).unwrap(),
        state: JobState::Running,
        done: 0,
        total: 7,
        missed: 0,
        created_at: at(1),
        updated_at: at(2),
    };
    Announcement {
        job,
        fingerprint: fingerprint(&audience, "ü\nb", Some(&payload)),
        audience,
        text: "ü\nb".to_owned(),
        payload: Some(payload),
        client_request_id: ClientRequestId::parse(key).unwrap(),
        after: None,
    }
}

async fn made(store: &dyn Store, key: &str) -> Announcement {
    let made = announcement(key, Audience::named([BOT, ANN]));
    assert!(store.add_job(&made).await.unwrap());
    made
}

fn held<'a>(announcement: &Announcement, holder: &'a str) -> JobHolder<'a> {
    JobHolder {
        job_id: announcement.job.job_id,
        holder,
    }
}

pub(crate) async fn an_announcement_comes_back_as_it_was_and_its_key_is_given_once(fixture: &Fixture) {
    let store = &*fixture.store;
    let named = made(store, "Key").await;
    assert!(!store.add_job(&announcement("Key", Audience::All)).await.unwrap());
    let mut all = announcement("key", Audience::All);
    all.payload = None;
    assert!(store.add_job(&all).await.unwrap(), "keys are compared byte for byte");
    for made in [&named, &all] {
        let key = &made.client_request_id;
        assert_eq!(
            store.job_by_key(key).await.unwrap(),
            Some((made.job.clone(), made.fingerprint))
        );
        assert_eq!(store.job(made.job.job_id).await.unwrap().as_ref(), Some(&made.job));
        let taken = store.take_job(held(made, "me"), at(5), at(6)).await.unwrap();
        assert_eq!(taken.as_ref(), Some(made));
    }
    assert_eq!(
        store.jobs(None, 10).await.unwrap(),
        [all.job.clone(), named.job.clone()]
    );
    assert_eq!(store.jobs(None, 1).await.unwrap(), [all.job.clone()]);
    assert_eq!(store.jobs(Some(all.job.job_id), 10).await.unwrap(), [named.job]);
    assert_eq!(store.job(JobId::new(1).unwrap()).await.unwrap(), None);
}

pub(crate) async fn a_job_is_held_by_one_until_the_lease_ends_or_is_given_back(fixture: &Fixture) {
    let store = &*fixture.store;
    let (one, other) = (made(store, "one").await, made(store, "other").await);
    let take = async |who, now, until| {
        let taken = store.take_job(held(&one, who), at(now), at(until)).await.unwrap();
        taken.is_some()
    };
    let to_do = async |who, now| store.jobs_to_do(who, at(now), 10).await.unwrap();
    let (first, second) = (one.job.job_id, other.job.job_id);
    assert!(take("me", 10, 100).await && take("me", 20, 100).await);
    assert_eq!(to_do("me", 50).await, [first, second]);
    assert_eq!(to_do("you", 99).await, [second]);
    assert!(!take("you", 99, 200).await);
    assert_eq!(to_do("you", 100).await, [first, second]);
    assert!(take("you", 100, 200).await);
    let progress = JobProgress {
        after: Some(ANN),
        done: 1,
        missed: 0,
    };
    assert!(
        !store
            .advance_job(held(&one, "me"), progress, at(101), at(300))
            .await
            .unwrap()
    );
    assert!(
        !store
            .end_job(held(&one, "me"), JobState::Failed, at(101))
            .await
            .unwrap()
    );
    store.release_jobs("me").await.unwrap();
    assert!(!take("me", 102, 300).await, "it is not theirs to give");
    store.release_jobs("you").await.unwrap();
    assert!(take("me", 102, 300).await);
    assert_eq!(store.jobs_to_do("me", at(103), 1).await.unwrap(), [first]);
}

pub(crate) async fn a_job_goes_on_where_it_was_and_its_words_are_forgotten_at_its_end(fixture: &Fixture) {
    let store = &*fixture.store;
    let made = made(store, "one").await;
    let me = held(&made, "me");
    store.take_job(me, at(10), at(20)).await.unwrap().unwrap();
    let progress = JobProgress {
        after: Some(BOT),
        done: 5,
        missed: 1,
    };
    assert!(store.advance_job(me, progress, at(11), at(40)).await.unwrap());
    assert_eq!(
        store.jobs_to_do("you", at(39), 10).await.unwrap(),
        [],
        "the lease goes on"
    );
    let again = store
        .take_job(held(&made, "you"), at(40), at(50))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((again.after, again.job.done, again.job.missed), (Some(BOT), 5, 1));
    assert_eq!((again.job.total, again.job.updated_at), (7, at(11)));
    assert!(store.end_job(held(&made, "you"), JobState::Done, at(45)).await.unwrap());
    assert!(!store.end_job(held(&made, "you"), JobState::Done, at(45)).await.unwrap());
    let ended = store.job(made.job.job_id).await.unwrap().unwrap();
    assert_eq!(
        (ended.state, ended.done, ended.total, ended.updated_at),
        (JobState::Done, 5, 5, at(45))
    );
    assert_eq!(store.jobs_to_do("you", at(100), 10).await.unwrap(), []);
    assert!(
        store
            .take_job(held(&made, "you"), at(100), at(200))
            .await
            .unwrap()
            .is_none()
    );
    let key = store.job_by_key(&made.client_request_id).await.unwrap();
    assert_eq!(key.map(|(_, fingerprint)| fingerprint), Some(made.fingerprint));
}

pub(crate) async fn a_job_that_failed_still_says_how_many_it_was_for(fixture: &Fixture) {
    let store = &*fixture.store;
    let made = made(store, "one").await;
    store
        .take_job(held(&made, "me"), at(10), at(20))
        .await
        .unwrap()
        .unwrap();
    assert!(
        store
            .end_job(held(&made, "me"), JobState::Failed, at(11))
            .await
            .unwrap()
    );
    let failed = store.job(made.job.job_id).await.unwrap().unwrap();
    assert_eq!((failed.state, failed.done, failed.total), (JobState::Failed, 0, 7));
}

pub(crate) async fn users_are_those_who_were_known_in_order(fixture: &Fixture) {
    let store = &*fixture.store;
    let users: Vec<Principal> = [5, 3, 4, i64::MAX].map(Principal::user).to_vec();
    store.provision(&users, at(10)).await.unwrap();
    store.provision(&[BOT], at(10)).await.unwrap();
    store
        .provision(&[Principal::user(1), Principal::user(5)], at(11))
        .await
        .unwrap();
    let known = async |after: Option<i64>, moment, limit| {
        let after = after.map(Principal::user);
        let found = store.users_after(after, at(moment), limit).await.unwrap();
        found.iter().map(|user| user.id).collect::<Vec<_>>()
    };
    assert_eq!(known(None, 10, 10).await, [3, 4, 5, i64::MAX]);
    assert_eq!(known(None, 10, 2).await, [3, 4]);
    assert_eq!(known(Some(4), 10, 10).await, [5, i64::MAX]);
    assert_eq!(known(Some(i64::MAX), 11, 10).await, [0_i64; 0]);
    assert_eq!(known(None, 11, 1).await, [1]);
    for (moment, count) in [(9, 0), (10, 4), (11, 5)] {
        assert_eq!(store.users_known(at(moment)).await.unwrap(), count);
    }
}

/// Only of a database: somebody else has written there.
pub(crate) async fn a_job_that_cannot_be_read_is_taken_and_can_be_ended(fixture: &Fixture) {
    let store = &*fixture.store;
    let made = made(store, "one").await;
    let url = &fixture.database.as_ref().expect("a database").url;
    super::raw::execute(url, "UPDATE im_job SET audience = 'everybody'").await;
    let taken = store.take_job(held(&made, "me"), at(10), at(20)).await;
    assert!(taken.is_err_and(|error| error.to_string().contains("inconsistent")));
    assert!(
        store
            .end_job(held(&made, "me"), JobState::Failed, at(11))
            .await
            .unwrap()
    );
    let left = super::raw::select(url, "SELECT audience, body, COALESCE(payload, '-') FROM im_job", 3).await;
    assert_eq!(left, [["", "", "-"]]);
}
