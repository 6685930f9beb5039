//! What the operator has to say to many: a job that tells one after the other, and how far it has come.

use std::collections::BTreeSet;

use super::chain::{self, Digest};
use super::command::Notify;
use super::content::Content;
use super::conversation::word_enum;
use super::decide::principal_json;
use super::ids::{ClientRequestId, JobId, Principal, Timestamp};
use super::json;
use super::notification::{NotificationKey, NotificationKind};
use super::subject::Subject;

/// The most principals that an announcement may name.
pub const AUDIENCE_MAX: usize = 10_000;

word_enum!(
    /// What has become of a job.
    JobState {
        /// It is being done, or will be.
        Running = 1 "RUNNING",
        /// It is done.
        Done = 2 "DONE",
        /// It can never be done.
        Failed = 3 "FAILED",
    }
);

/// Work in the background, as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Which one.
    pub job_id: JobId,
    /// What has become of it.
    pub state: JobState,
    /// Receivers that have been dealt with.
    pub done: u64,
    /// Receivers that there are.
    pub total: u64,
    /// Of those that were dealt with: whom it was impossible to tell, since their INBOX is damaged.
    pub missed: u64,
    /// When it was given.
    pub created_at: Timestamp,
    /// When it moved last.
    pub updated_at: Timestamp,
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Every USER who was known when the announcement was made, disabled ones included: they find it when they are back.
    All,
    /// These, in order and each once.
    Named(Vec<Principal>),
}

impl Audience {
    /// Of those that are named, each once.
    #[must_use]
    pub fn named(principals: impl IntoIterator<Item = Principal>) -> Self {
        let each_once: BTreeSet<Principal> = principals.into_iter().collect();
        Self::Named(each_once.into_iter().collect())
    }

    /// The next of those that are named.
    #[must_use]
    pub fn after(named: &[Principal], after: Option<Principal>, limit: usize) -> Vec<Principal> {
        let from = after.map_or(0, |after| named.partition_point(|one| *one <= after));
        named.iter().skip(from).take(limit).copied().collect()
    }
}

/// What the operator asks for.
#[derive(Clone, Debug)]
pub struct NewAnnouncement {
    /// Who is to be told; `None` = all users.
    pub audience: Option<Vec<Subject>>,
    /// For people.
    pub text: String,
    /// For programs: a JSON object.
    pub payload: Option<Content>,
    /// The same one is the same announcement.
    pub client_request_id: ClientRequestId,
}

/// An announcement on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// How far it has come.
    pub job: Job,
    /// Who is told.
    pub audience: Audience,
    /// For people.
    pub text: String,
    /// For programs: a JSON object.
    pub payload: Option<Content>,
    /// By which the operator may give it twice.
    pub client_request_id: ClientRequestId,
    /// Of everything that was asked for.
    pub fingerprint: Digest,
    /// Whoever comes up to here, in the order of principals, has been dealt with.
    pub after: Option<Principal>,
}

impl Announcement {
    /// What each receiver is told. Told twice, it is the same: its key is the job's, and it is pending for ever.
    #[must_use]
    pub fn notify(&self, to: Principal) -> Notify {
        Notify {
            to,
            kind: NotificationKind::Announcement,
            from: Principal::SYSTEM,
            key: NotificationKey::announcement(self.job.job_id.get()),
            ask_again_ms: 0,
            text: Some(self.text.clone()),
            conversation_id: None,
            payload: self.payload.clone(),
            expires_at: None,
        }
    }
}

/// Two announcements with the same fingerprint are the same in everything but their key.
#[must_use]
pub fn fingerprint(audience: &Audience, text: &str, payload: Option<&Content>) -> Digest {
    let audience = match audience {
        Audience::All => "\"ALL\"".to_owned(),
        Audience::Named(named) => {
            let named: Vec<String> = named.iter().map(|one| principal_json(*one)).collect();
            format!("[{}]", named.join(","))
        }
    };
    let payload = payload.map_or("null", Content::as_str);
    let text = json::text(text);
    chain::content_hash(&format!(
        "{{\"audience\":{audience},\"text\":{text},\"payload\":{payload}}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_has_each_once_in_order_and_is_walked_page_by_page() {
        let [ann, ben, bot] = [Principal::user(1), Principal::user(2), Principal::agent(1)];
        let Audience::Named(named) = Audience::named([bot, ben, ann, ben]) else {
            panic!("they are named");
        };
        assert_eq!(named, [ann, ben, bot]);
        assert_eq!(Audience::after(&named, None, 2), [ann, ben]);
        assert_eq!(Audience::after(&named, Some(ben), 2), [bot]);
        assert_eq!(Audience::after(&named, Some(Principal::user(7)), 2), [bot]);
        assert_eq!(Audience::after(&named, Some(bot), 2), []);
    }

    #[test]
    fn whatever_is_asked_for_is_in_the_fingerprint() {
        let payload = Content::trusted("{\"at\":12}");
        let of =
            |audience: &[Principal], text, payload| fingerprint(&Audience::named(audience.to_vec()), text, payload);
        let (ann, bot) = (Principal::user(1), Principal::agent(1));
        let first = of(&[ann, bot], "x", Some(&payload));
        assert_eq!(first, of(&[bot, ann, ann], "x", Some(&payload)), "in another order");
        for other in [
            of(&[ann], "x", Some(&payload)),
            of(&[ann, bot], "y", Some(&payload)),
            of(&[ann, bot], "x", None),
            fingerprint(&Audience::All, "x", Some(&payload)),
        ] {
            assert_ne!(first, other);
        }
    }
}
