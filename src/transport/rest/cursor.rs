//! Cursors: where a list goes on. Opaque to clients; a tag lets us tell our own from everything else.
//!
//! A cursor holds nothing that its owner may not know and gives no right, so the tag need not be secret: it says that
//! the server made it, for this list, and that nothing fell off on the way.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::domain::{
    ActionType, ConversationId, DeviceId, EventNo, InvalidField, JobId, MessageId, Principal, PrincipalType, Seq,
    Timestamp, WebhookName,
};
use crate::service::{ActionPosition, ListPosition, MemberPosition, PinPosition};

/// Bytes of the hash that are kept.
const TAG_BYTES: usize = 6;
/// A cursor is longer than this only when it is not ours.
const CURSOR_BYTES_MAX: usize = 160;

/// Of `GET /v1/conversations`.
pub(super) fn of_list(position: &ListPosition) -> String {
    let numbers = [
        i64::from(position.pinned),
        position.last_activity_at.millis(),
        position.conversation_id.get(),
    ];
    mark("conversations", numbers)
}

/// The inverse of [`of_list`].
pub(super) fn list(cursor: &str) -> Result<ListPosition, InvalidField> {
    let [pinned, last_activity_at, id] = read("conversations", cursor)?;
    Ok(ListPosition {
        pinned: pinned != 0,
        last_activity_at: Timestamp::from_millis(last_activity_at),
        conversation_id: ConversationId::new(id).ok_or(FOREIGN)?,
    })
}

/// Of `GET /v1/conversations/{id}/members`.
pub(super) fn of_members(conversation_id: ConversationId, position: &MemberPosition) -> String {
    let numbers = [
        position.joined_seq.get(),
        i64::from(position.principal.kind.code()),
        position.principal.id,
    ];
    mark(&format!("members/{conversation_id}"), numbers)
}

/// The inverse of [`of_members`].
pub(super) fn members(conversation_id: ConversationId, cursor: &str) -> Result<MemberPosition, InvalidField> {
    let [joined_seq, kind, id] = read(&format!("members/{conversation_id}"), cursor)?;
    let kind = principal_type(kind)?;
    Ok(MemberPosition {
        joined_seq: Seq::new(joined_seq),
        principal: Principal { kind, id },
    })
}

/// Of `GET /v1/me/actions`.
pub(super) fn of_actions(position: &ActionPosition) -> String {
    let numbers = [i64::from(position.action_type.code()), position.message_id.get(), 0];
    mark("actions", numbers)
}

/// The inverse of [`of_actions`].
pub(super) fn actions(cursor: &str) -> Result<ActionPosition, InvalidField> {
    let [kind, id, _] = read("actions", cursor)?;
    let kind = i16::try_from(kind).ok().and_then(ActionType::from_code);
    Ok(ActionPosition {
        action_type: kind.ok_or(FOREIGN)?,
        message_id: MessageId::new(id).ok_or(FOREIGN)?,
    })
}

/// Of `GET /v1/conversations/{id}/pins`.
pub(super) fn of_pins(conversation_id: ConversationId, position: &PinPosition) -> String {
    let numbers = [position.pinned_at.millis(), position.message_id.get(), 0];
    mark(&format!("pins/{conversation_id}"), numbers)
}

/// The inverse of [`of_pins`].
pub(super) fn pins(conversation_id: ConversationId, cursor: &str) -> Result<PinPosition, InvalidField> {
    let [pinned_at, id, _] = read(&format!("pins/{conversation_id}"), cursor)?;
    Ok(PinPosition {
        pinned_at: Timestamp::from_millis(pinned_at),
        message_id: MessageId::new(id).ok_or(FOREIGN)?,
    })
}

/// Of `GET /v1/notifications`.
pub(super) fn of_notifications(last: MessageId) -> String {
    mark("notifications", [last.get(), 0, 0])
}

/// The inverse of [`of_notifications`].
pub(super) fn notifications(cursor: &str) -> Result<MessageId, InvalidField> {
    let [id, ..] = read("notifications", cursor)?;
    MessageId::new(id).ok_or(FOREIGN)
}

/// Of `GET /v1/contacts`.
pub(super) fn of_contacts(last: Principal) -> String {
    of_principal("contacts", last)
}

/// The inverse of [`of_contacts`].
pub(super) fn contacts(cursor: &str) -> Result<Principal, InvalidField> {
    principal("contacts", cursor)
}

/// Of `GET /v1/me/blocks`.
pub(super) fn of_blocks(last: Principal) -> String {
    of_principal("blocks", last)
}

/// The inverse of [`of_blocks`].
pub(super) fn blocks(cursor: &str) -> Result<Principal, InvalidField> {
    principal("blocks", cursor)
}

fn of_principal(list: &str, last: Principal) -> String {
    mark(list, [i64::from(last.kind.code()), last.id, 0])
}

fn principal(list: &str, cursor: &str) -> Result<Principal, InvalidField> {
    let [kind, id, _] = read(list, cursor)?;
    Ok(Principal {
        kind: principal_type(kind)?,
        id,
    })
}

fn principal_type(code: i64) -> Result<PrincipalType, InvalidField> {
    let kind = i16::try_from(code).ok().and_then(PrincipalType::from_code);
    kind.ok_or(FOREIGN)
}

/// Of `GET /v1/me/devices`: a name may have characters that a query string has to encode, so it is told in hex.
pub(super) fn of_devices(last: &DeviceId) -> String {
    signed("devices", &hex(last.as_str().as_bytes()))
}

/// The inverse of [`of_devices`].
pub(super) fn devices(cursor: &str) -> Result<DeviceId, InvalidField> {
    DeviceId::parse(&name("devices", cursor)?).map_err(|_| FOREIGN)
}

/// Of `GET /admin/v1/webhooks`.
pub(super) fn of_webhooks(last: &WebhookName) -> String {
    signed("webhooks", &hex(last.as_str().as_bytes()))
}

/// The inverse of [`of_webhooks`].
pub(super) fn webhooks(cursor: &str) -> Result<WebhookName, InvalidField> {
    WebhookName::parse(&name("webhooks", cursor)?).map_err(|_| FOREIGN)
}

/// A name that was told in hex.
fn name(list: &str, cursor: &str) -> Result<String, InvalidField> {
    let place = place(list, cursor)?;
    let byte = |at| place.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..place.len()).step_by(2).map(byte).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(FOREIGN)
}

/// Of `GET /admin/v1/webhooks/{name}/deliveries`.
pub(super) fn of_deliveries(name: &WebhookName, last: EventNo) -> String {
    mark(&format!("deliveries/{}", name.as_str()), [last.get(), 0, 0])
}

/// The inverse of [`of_deliveries`].
pub(super) fn deliveries(name: &WebhookName, cursor: &str) -> Result<EventNo, InvalidField> {
    let [event_no, ..] = read(&format!("deliveries/{}", name.as_str()), cursor)?;
    Ok(EventNo::new(event_no))
}

/// Of `GET /admin/v1/jobs`.
pub(super) fn of_jobs(last: JobId) -> String {
    mark("jobs", [last.get(), 0, 0])
}

/// The inverse of [`of_jobs`].
pub(super) fn jobs(cursor: &str) -> Result<JobId, InvalidField> {
    let [id, ..] = read("jobs", cursor)?;
    JobId::new(id).ok_or(FOREIGN)
}

const FOREIGN: InvalidField = InvalidField::new("cursor", "must be a next_cursor of this list");

fn mark(list: &str, [a, b, c]: [i64; 3]) -> String {
    signed(list, &format!("{a:x}.{b:x}.{c:x}"))
}

fn signed(list: &str, place: &str) -> String {
    let tag = tag(list, place);
    format!("{place}.{tag}")
}

/// What a cursor of ours says.
fn place<'a>(list: &str, cursor: &'a str) -> Result<&'a str, InvalidField> {
    if cursor.len() > CURSOR_BYTES_MAX {
        return Err(FOREIGN);
    }
    let (place, given) = cursor.rsplit_once('.').ok_or(FOREIGN)?;
    if given == tag(list, place) {
        Ok(place)
    } else {
        Err(FOREIGN)
    }
}

fn read(list: &str, cursor: &str) -> Result<[i64; 3], InvalidField> {
    let mut numbers = place(list, cursor)?
        .split('.')
        .map(|hex| i64::from_str_radix(hex, 16).map_err(|_| FOREIGN));
    let mut next = || numbers.next().ok_or(FOREIGN)?;
    Ok([next()?, next()?, next()?])
}

fn tag(list: &str, place: &str) -> String {
    let hash = Sha256::digest(format!("onescribe/cursor/1/{list}/{place}"));
    hex(hash.get(..TAG_BYTES).unwrap_or_default())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").ok(); // writing to a String cannot fail
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: i64) -> ConversationId {
        ConversationId::new(id).unwrap()
    }

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        let position = ListPosition {
            pinned: true,
            last_activity_at: Timestamp::from_millis(1_795_953_600_123),
            conversation_id: id(i64::MAX),
        };
        assert_eq!(list(&of_list(&position)), Ok(position));
        let position = MemberPosition {
            joined_seq: Seq::new(7),
            principal: Principal::agent(i64::MAX),
        };
        assert_eq!(members(id(1), &of_members(id(1), &position)), Ok(position));
        let position = ActionPosition {
            action_type: ActionType::Reminder,
            message_id: MessageId::new(i64::MAX).unwrap(),
        };
        assert_eq!(actions(&of_actions(&position)), Ok(position));
        let position = PinPosition {
            pinned_at: Timestamp::from_millis(1),
            message_id: MessageId::new(i64::MAX).unwrap(),
        };
        assert_eq!(pins(id(1), &of_pins(id(1), &position)), Ok(position));
        let last = Principal::agent(i64::MAX);
        assert_eq!(contacts(&of_contacts(last)), Ok(last));
        assert_eq!(blocks(&of_blocks(last)), Ok(last));
        let last = MessageId::new(i64::MAX).unwrap();
        assert_eq!(notifications(&of_notifications(last)), Ok(last));
        let last = JobId::new(i64::MAX).unwrap();
        assert_eq!(jobs(&of_jobs(last)), Ok(last));
        for name in ["a", "phone.1 & co%", &"~".repeat(64)] {
            let device = DeviceId::parse(name).unwrap();
            assert_eq!(devices(&of_devices(&device)), Ok(device));
        }
    }

    #[test]
    fn b69_what_the_server_did_not_make_is_refused() {
        let position = ListPosition {
            pinned: false,
            last_activity_at: Timestamp::from_millis(5),
            conversation_id: id(7),
        };
        let good = of_list(&position);
        let longer = format!("{good}0");
        let altered = good.replacen('5', "6", 1);
        for bad in [
            "",
            "garbage",
            "-1",
            "0.5.7",
            "0.5.7.",
            "é",
            &"9".repeat(21),
            &"9".repeat(200),
            &longer,
            &altered,
        ] {
            assert_eq!(list(bad), Err(FOREIGN), "{bad:?}");
            assert_eq!(devices(bad), Err(FOREIGN), "{bad:?}");
        }
        let member = MemberPosition {
            joined_seq: Seq::new(7),
            principal: Principal::user(1),
        };
        let member = of_members(id(1), &member);
        assert!(
            list(&member).is_err() && members(id(2), &member).is_err(),
            "of another list"
        );
    }
}
