//! Who is called when something happens, and what became of each call.

use std::fmt;

use super::error::InvalidField;
use super::ids::{ConversationId, EventNo, Timestamp, WebhookId};
use super::notice::NoticeType;

/// The longest name of a webhook, in characters.
pub const WEBHOOK_NAME_CHARS_MAX: usize = 64;
/// The fewest bytes of a secret, as the Standard Webhooks specification says …
pub const SECRET_BYTES_MIN: usize = 24;
/// … and the most.
pub const SECRET_BYTES_MAX: usize = 64;
/// Secrets of one webhook that sign at a time; the oldest go.
pub const SECRETS_MAX: usize = 3;
/// How long the first failure of a delivery delays the next try …
const FIRST_DELAY_MS: i64 = 1_000;
/// … and the longest delay; each is twice the one before.
const LONGEST_DELAY_MS: i64 = 3_600_000;

/// What the operator calls a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookName(String);

impl WebhookName {
    /// Letters, digits, `.`, `_` and `-`, so that it needs no encoding in a path.
    ///
    /// # Errors
    /// `invalid_request`
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        const HINT: &str = "must have 1 to 64 letters, digits, dots, dashes or underscores";
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > WEBHOOK_NAME_CHARS_MAX || !text.bytes().all(is_plain) {
            return Err(InvalidField::new("name", HINT));
        }
        Ok(Self(text.to_owned()))
    }

    /// As given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The kinds of event that somebody wants; none = all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeSet(i64);

impl NoticeSet {
    /// Of these; none = all.
    #[must_use]
    pub fn of(types: &[NoticeType]) -> Self {
        Self(types.iter().fold(0, |set, kind| set | 1 << kind.code()))
    }

    /// Is this wanted?
    #[must_use]
    pub const fn wants(self, kind: NoticeType) -> bool {
        self.0 == 0 || self.0 & (1 << kind.code()) != 0
    }

    /// Those that are named.
    pub fn named(self) -> impl Iterator<Item = NoticeType> {
        NoticeType::ALL
            .into_iter()
            .filter(move |kind| self.0 & (1 << kind.code()) != 0)
    }

    /// As it is stored.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The inverse of [`NoticeSet::get`].
    #[must_use]
    pub const fn from_bits(bits: i64) -> Self {
        Self(bits)
    }
}

/// What a receiver checks our calls with.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret {
    /// `whsec_` and base64.
    pub text: String,
    /// Since when.
    pub created_at: Timestamp,
    /// A newer one is there; this one signs beside it until then.
    pub retires_at: Option<Timestamp>,
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookSecret(…, retires_at: {:?})", self.retires_at)
    }
}

/// Who is called, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Ours: a webhook that is removed and made anew is another.
    pub webhook_id: WebhookId,
    /// The operator's.
    pub name: WebhookName,
    /// Where.
    pub url: String,
    /// What for.
    pub notices: NoticeSet,
    /// The newest last.
    pub secrets: Vec<WebhookSecret>,
    /// There are deliveries for what is wanted up to here.
    pub event_no: EventNo,
    /// One more with whatever the operator does.
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the operator changed it last.
    pub updated_at: Timestamp,
}

impl Webhook {
    /// Those that sign at this time, the newest first.
    pub fn signing(&self, now: Timestamp) -> impl Iterator<Item = &WebhookSecret> {
        let signs = move |secret: &&WebhookSecret| secret.retires_at.is_none_or(|until| until > now);
        self.secrets.iter().rev().filter(signs)
    }

    /// Takes a new secret; those that sign now go on to do so until `retires_at`. The same again changes nothing.
    pub fn rotate(&mut self, text: &str, now: Timestamp, retires_at: Timestamp) {
        if self.secrets.last().is_some_and(|newest| newest.text == text) {
            return;
        }
        self.secrets
            .retain(|secret| secret.text != text && secret.retires_at.is_none_or(|until| until > now));
        for secret in &mut self.secrets {
            secret.retires_at.get_or_insert(retires_at);
        }
        let surplus = (self.secrets.len() + 1).saturating_sub(SECRETS_MAX);
        self.secrets.drain(..surplus);
        self.secrets.push(WebhookSecret {
            text: text.to_owned(),
            created_at: now,
            retires_at: None,
        });
    }
}

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// To be tried, for the first time or again.
    Pending,
    /// The receiver took it, or there was nothing to tell any more.
    Delivered,
    /// Given up after too many tries.
    Dead,
}

impl DeliveryState {
    const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// The word of the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Delivered => "DELIVERED",
            Self::Dead => "DEAD",
        }
    }

    /// The inverse of [`DeliveryState::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The small number that stands for it at rest.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::Pending => 1,
            Self::Delivered => 2,
            Self::Dead => 3,
        }
    }

    /// The inverse of [`DeliveryState::code`].
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// One event for one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which event.
    pub event_no: EventNo,
    /// Of which conversation: they are delivered in order.
    pub conversation_id: ConversationId,
    /// Where it stands.
    pub state: DeliveryState,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// When it is tried (again).
    pub next_attempt_at: Timestamp,
    /// Why the last try failed.
    pub last_error: Option<String>,
    /// Since when it waits.
    pub created_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Delivery {
    /// One that has not been tried.
    #[must_use]
    pub const fn new(event_no: EventNo, conversation_id: ConversationId, now: Timestamp) -> Self {
        Self {
            event_no,
            conversation_id,
            state: DeliveryState::Pending,
            attempts: 0,
            next_attempt_at: now,
            last_error: None,
            created_at: now,
            finished_at: None,
        }
    }

    /// A try has failed. `chance` is from 0 to 1, and spreads those that failed together.
    pub fn fail(&mut self, error: String, now: Timestamp, attempts_max: u32, chance: f64) {
        self.attempts = self.attempts.saturating_add(1);
        self.last_error = Some(error);
        if self.attempts >= attempts_max {
            self.state = DeliveryState::Dead;
            self.finished_at = Some(now);
        } else {
            let delay = delay_ms(self.attempts, chance);
            self.next_attempt_at = Timestamp::from_millis(now.millis().saturating_add(delay));
        }
    }
}

/// How long to wait after so many failures: from half of the full delay to all of it.
fn delay_ms(attempts: u32, chance: f64) -> i64 {
    let doubled = attempts.saturating_sub(1).min(30);
    let full = FIRST_DELAY_MS.saturating_mul(1 << doubled).min(LONGEST_DELAY_MS);
    let half = full / 2;
    // Below 2^53, so nothing is lost; the result is between the two.
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "below 2^53"
    )]
    let part = (half as f64 * chance.clamp(0.0, 1.0)) as i64;
    half + part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn webhook() -> Webhook {
        Webhook {
            webhook_id: WebhookId::new(1).unwrap(),
            name: WebhookName::parse("one").unwrap(),
            url: String::new(),
            notices: NoticeSet::default(),
            secrets: Vec::new(),
            event_no: EventNo::ZERO,
            version: 0,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    fn signing(hook: &Webhook, now: i64) -> Vec<&str> {
        hook.signing(at(now)).map(|secret| secret.text.as_str()).collect()
    }

    #[test]
    fn names_need_no_encoding_in_a_path() {
        for good in ["a", "push-gateway_2.eu", &"x".repeat(64)] {
            assert_eq!(WebhookName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "a b", "ä", "a%20b", &"x".repeat(65)] {
            assert!(WebhookName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whoever_names_no_event_wants_all() {
        let all = NoticeSet::of(&[]);
        assert!(NoticeType::ALL.into_iter().all(|kind| all.wants(kind)));
        let some = NoticeSet::of(&[NoticeType::MessageEdited, NoticeType::PushRequired]);
        let wanted: Vec<_> = NoticeType::ALL.into_iter().filter(|kind| some.wants(*kind)).collect();
        assert_eq!(wanted, some.named().collect::<Vec<_>>());
        assert_eq!(NoticeSet::from_bits(some.get()), some);
        assert_eq!(wanted.len(), 2);
    }

    #[test]
    fn a_new_secret_signs_beside_the_old_one_until_that_retires() {
        let mut hook = webhook();
        hook.rotate("one", at(0), at(100));
        hook.rotate("one", at(5), at(105));
        assert_eq!(hook.secrets.len(), 1);
        hook.rotate("two", at(10), at(110));
        assert_eq!(signing(&hook, 109), ["two", "one"]);
        assert_eq!(signing(&hook, 110), ["two"]);
        // Back to the first: it is the newest now, and the second one retires.
        hook.rotate("one", at(20), at(120));
        assert_eq!(
            (signing(&hook, 119), signing(&hook, 120)),
            (vec!["one", "two"], vec!["one"])
        );
        for n in 0..5 {
            hook.rotate(&format!("{n}"), at(30), at(130));
        }
        assert_eq!(signing(&hook, 31), ["4", "3", "2"]);
        assert!(!format!("{hook:?}").contains("\"4\""));
    }

    #[test]
    fn each_failure_doubles_the_delay_up_to_an_hour_and_the_last_one_ends_it() {
        let mut delivery = Delivery::new(EventNo::new(1), ConversationId::new(1).unwrap(), at(0));
        let mut delays = Vec::new();
        for _ in 0..15 {
            delivery.fail("HTTP 500".to_owned(), at(0), 16, 1.0);
            delays.push(delivery.next_attempt_at.millis());
        }
        let hour = 3_600_000;
        assert_eq!(delays[..5], [1_000, 2_000, 4_000, 8_000, 16_000]);
        assert_eq!(delays[11..], [2_048_000, hour, hour, hour]);
        assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Pending, 15));
        delivery.fail("HTTP 500".to_owned(), at(7), 16, 1.0);
        assert_eq!(
            (delivery.state, delivery.finished_at),
            (DeliveryState::Dead, Some(at(7)))
        );
        assert_eq!((delay_ms(1, 0.0), delay_ms(1, 0.5)), (500, 750));
        assert_eq!(delay_ms(u32::MAX, 1.0), hour);
    }

    #[test]
    fn every_state_is_known_by_its_word_and_by_its_number() {
        for state in DeliveryState::ALL {
            assert_eq!(DeliveryState::parse(state.as_str()), Some(state));
            assert_eq!(DeliveryState::from_code(state.code()), Some(state));
        }
    }
}
