//! The table itself. The columns are those of [`WHO`].

use super::stage::Outcome::{self, Closed, Forbidden, Invalid, NotAMember, NotFound, Ok, Unauthenticated};
use super::stage::Who;

/// The columns.
pub(crate) const WHO: [Who; 7] = [
    Who::Stranger,
    Who::ExMember,
    Who::Member,
    Who::Admin,
    Who::Owner,
    Who::AgentOfThatNumber,
    Who::AdminKey,
];

/// Those who have a token.
pub(crate) const PRINCIPALS: [Who; 6] = [WHO[0], WHO[1], WHO[2], WHO[3], WHO[4], WHO[5]];
/// Those who are in the group.
pub(crate) const MEMBERS: [Who; 3] = [Who::Member, Who::Admin, Who::Owner];

/// What everybody is answered.
pub(crate) struct Call {
    /// `METHOD /path?query`
    pub(crate) call: &'static str,
    /// JSON, or nothing.
    pub(crate) body: &'static str,
    /// One for each column.
    pub(crate) expected: [Outcome; 7],
}

impl Call {
    pub(crate) fn route(&self) -> String {
        self.call.split('?').next().unwrap_or_default().to_owned()
    }
}

const fn row(call: &'static str, body: &'static str, expected: [Outcome; 7]) -> Call {
    Call { call, body, expected }
}

/// Anybody with a token.
const ANYBODY: [Outcome; 7] = [Ok, Ok, Ok, Ok, Ok, Ok, Unauthenticated];
/// Whoever is in the conversation.
const IN_IT: [Outcome; 7] = [NotAMember, NotAMember, Ok, Ok, Ok, NotAMember, Unauthenticated];
/// Admins and the owner.
const ADMINS: [Outcome; 7] = [NotAMember, NotAMember, Forbidden, Ok, Ok, NotAMember, Unauthenticated];
/// The owner.
const OWNER: [Outcome; 7] = [
    NotAMember,
    NotAMember,
    Forbidden,
    Forbidden,
    Ok,
    NotAMember,
    Unauthenticated,
];
/// Whoever sees the message: to others there is none.
const SEES_IT: [Outcome; 7] = [NotFound, NotFound, Ok, Ok, Ok, NotFound, Unauthenticated];
/// Who is told by the notification: to others there is none.
const ITS_OWNER: [Outcome; 7] = [NotFound, NotFound, NotFound, NotFound, Ok, NotFound, Unauthenticated];
/// Its sender, who is MEMBER.
const SENDER: [Outcome; 7] = [NotFound, NotFound, Ok, Forbidden, Forbidden, NotFound, Unauthenticated];
/// Whoever uploaded it, who is MEMBER.
const UPLOADER: [Outcome; 7] = [NotFound, NotFound, Ok, NotFound, NotFound, NotFound, Unauthenticated];
/// Anybody with a token may, but what is asked here cannot be done.
const BUT_NOT_SO: [Outcome; 7] = [Invalid, Invalid, Invalid, Invalid, Invalid, Invalid, Unauthenticated];
/// Admins, the owner and the operator.
const REMOVES_IT: [Outcome; 7] = [NotFound, NotFound, Forbidden, Ok, Ok, NotFound, Ok];
/// Admins and the owner, in a group.
const PINS_IT: [Outcome; 7] = [NotFound, NotFound, Forbidden, Ok, Ok, NotFound, Unauthenticated];
/// The operator.
const OPERATOR: [Outcome; 7] = [
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    Ok,
];
/// The operator, who names something that is not there.
const OPERATOR_BUT_NOTHING_THERE: [Outcome; 7] = [
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    Unauthenticated,
    NotFound,
];
/// The whole world.
const OPEN: [Outcome; 7] = [Ok; 7];

const TEXT: &str = r#"{"client_message_id": "{key}", "message_type": "TEXT", "content": {"text": "x"}}"#;

/// Every call. A path may have several rows.
pub(crate) const CALLS: &[Call] = &[
    row("GET /healthz", "", OPEN),
    row("GET /readyz", "", OPEN),
    row("GET /v1/conversations", "", ANYBODY),
    row(
        "POST /v1/conversations",
        r#"{"kind": "GROUP", "title": "own", "members": []}"#,
        ANYBODY,
    ),
    row("GET /v1/conversations/{conversation_id}", "", IN_IT),
    row(
        "PATCH /v1/conversations/{conversation_id}",
        r#"{"title": "other"}"#,
        ADMINS,
    ),
    row(
        "PATCH /v1/conversations/{conversation_id}",
        r#"{"posting": "ADMINS"}"#,
        ADMINS,
    ),
    row("DELETE /v1/conversations/{conversation_id}", "", OWNER),
    row(
        "POST /v1/conversations/{conversation_id}/invites",
        r#"{"to": [{new}]}"#,
        ADMINS,
    ),
    row("POST /v1/contacts/requests", r#"{"to": {new}}"#, ANYBODY),
    row("GET /v1/contacts", "", ANYBODY),
    row("DELETE /v1/contacts/{type}/{id}", "", ANYBODY),
    row("GET /v1/me/blocks", "", ANYBODY),
    row("PUT /v1/me/blocks/{type}/{id}", "", ANYBODY),
    row("DELETE /v1/me/blocks/{type}/{id}", "", ANYBODY),
    row("GET /v1/notifications", "", ANYBODY),
    row("POST /v1/notifications/{notification_id}/accept", "", ITS_OWNER),
    row("POST /v1/notifications/{notification_id}/decline", "", ITS_OWNER),
    row("POST /v1/notifications/{notification_id}/read", "", ITS_OWNER),
    row("GET /v1/conversations/{conversation_id}/members", "", IN_IT),
    row(
        "POST /v1/conversations/{conversation_id}/members",
        r#"{"members": [{new}]}"#,
        ADMINS,
    ),
    row(
        "DELETE /v1/conversations/{conversation_id}/members/{type}/{id}",
        "",
        ADMINS,
    ),
    row(
        "PATCH /v1/conversations/{conversation_id}/members/{type}/{id}",
        r#"{"role": "ADMIN"}"#,
        OWNER,
    ),
    row(
        "PATCH /v1/conversations/{conversation_id}/members/{type}/{id}",
        r#"{"role": "OWNER"}"#,
        OWNER,
    ),
    row("GET /v1/conversations/{conversation_id}/messages", "", IN_IT),
    row("POST /v1/conversations/{conversation_id}/messages", TEXT, IN_IT),
    row(
        "PUT /v1/conversations/{conversation_id}/me",
        r#"{"muted": true}"#,
        IN_IT,
    ),
    row("POST /v1/conversations/{conversation_id}/read", r#"{"seq": 1}"#, IN_IT),
    row("GET /v1/conversations/{conversation_id}/receipts?seq=1", "", IN_IT),
    // What is cleared is gone for whoever cleared it, so this comes after the reads.
    row(
        "POST /v1/conversations/{conversation_id}/clear",
        r#"{"up_to_seq": 1}"#,
        IN_IT,
    ),
    row("GET /v1/messages/{message_id}", "", SEES_IT),
    row(
        "PATCH /v1/messages/{message_id}",
        r#"{"content": {"text": "other"}}"#,
        SENDER,
    ),
    row("POST /v1/messages/{message_id}/recall", "{}", SEES_IT),
    row("DELETE /v1/messages/{message_id}", "", REMOVES_IT),
    row("PUT /v1/messages/{message_id}/actions/{action_type}", "{}", SEES_IT),
    row("DELETE /v1/messages/{message_id}/actions/{action_type}", "", SEES_IT),
    row("GET /v1/me/actions", "", ANYBODY),
    row("PUT /v1/messages/{message_id}/reactions/{emoji}", "", SEES_IT),
    row("DELETE /v1/messages/{message_id}/reactions/{emoji}", "", SEES_IT),
    row("PUT /v1/messages/{message_id}/pin", "", PINS_IT),
    row("DELETE /v1/messages/{message_id}/pin", "", PINS_IT),
    row("GET /v1/conversations/{conversation_id}/pins", "", IN_IT),
    row(
        "POST /v1/messages/{message_id}/forward",
        r#"{"conversation_ids": ["{conversation_id}"], "client_message_id": "{key}"}"#,
        SEES_IT,
    ),
    row(
        "POST /v1/sync",
        r#"{"device_id": "d", "cursors": [{"conversation_id": "{conversation_id}", "seq": 1, "change_seq": 0}]}"#,
        ANYBODY,
    ),
    row("POST /v1/syncMessages", r#"{"device_id": "d"}"#, ANYBODY),
    row("GET /v1/me/devices", "", ANYBODY),
    row("GET /v1/me/unread", "", ANYBODY),
    row("GET /v1/me", "", ANYBODY),
    row("PATCH /v1/me", r#"{"display_name": "x"}"#, ANYBODY),
    row(
        "POST /v1/me/acks",
        r#"{"device_id": "d", "acks": [{"conversation_id": "{conversation_id}", "seq": 1}]}"#,
        ANYBODY,
    ),
    row("DELETE /v1/me/devices/{device_id}", "", ANYBODY),
    row("GET /v1/users/{type}/{id}", "", SEES_IT),
    // Anybody may, but this is no form.
    row("POST /v1/files", "", BUT_NOT_SO),
    // Anybody may, where there is a bucket.
    row("POST /v1/files/uploads", r#"{"name": "x", "size": 1}"#, BUT_NOT_SO),
    row("POST /v1/files/uploads/{file_id}/complete", "{}", UPLOADER),
    row("GET /v1/files/{file_id}", "", SEES_IT),
    row("GET /v1/files/{file_id}/thumbnail", "", SEES_IT),
    row("GET /admin/v1/users/{id}", "", OPERATOR),
    row("PUT /admin/v1/users/{id}", r#"{"display_name": "x"}"#, OPERATOR),
    row("POST /admin/v1/tokens", r#"{"sub": "7"}"#, OPERATOR),
    row(
        "POST /admin/v1/conversations",
        r#"{"kind": "GROUP", "title": "x", "owner": {new}, "members": []}"#,
        OPERATOR,
    ),
    row(
        "POST /admin/v1/conversations/{conversation_id}/messages",
        TEXT,
        OPERATOR,
    ),
    row("DELETE /admin/v1/messages/{message_id}", "", OPERATOR),
    row("GET /admin/v1/events", "", OPERATOR),
    row("GET /admin/v1/webhooks", "", OPERATOR),
    row(
        "PUT /admin/v1/webhooks/{name}",
        r#"{"url": "https://1.1.1.1/", "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "events": ["notification.created"]}"#,
        OPERATOR,
    ),
    row("GET /admin/v1/webhooks/{name}", "", OPERATOR),
    row("GET /admin/v1/webhooks/{name}/deliveries", "", OPERATOR),
    row(
        "POST /admin/v1/webhooks/{name}/deliveries/{delivery_id}/redeliver",
        "{}",
        OPERATOR_BUT_NOTHING_THERE,
    ),
    row("POST /admin/v1/webhooks/{name}/replay", r#"{"after": 0}"#, OPERATOR),
    row("DELETE /admin/v1/webhooks/{name}", "", OPERATOR),
    row(
        "POST /admin/v1/announcements",
        r#"{"audience": [{peer}], "text": "x", "client_request_id": "{key}"}"#,
        OPERATOR,
    ),
    row("GET /admin/v1/jobs", "", OPERATOR),
    row("GET /admin/v1/jobs/{job_id}", "", OPERATOR_BUT_NOTHING_THERE),
    row("GET /admin/v1/stats", "", OPERATOR),
];

/// What a frame does, by those who have a token.
pub(crate) struct Frame {
    /// Its `type`.
    pub(crate) kind: &'static str,
    /// Its other members.
    pub(crate) fields: &'static str,
    /// One for each of [`PRINCIPALS`].
    pub(crate) expected: [Outcome; 6],
}

const fn frame(kind: &'static str, fields: &'static str, expected: [Outcome; 7]) -> Frame {
    let [stranger, ex_member, member, admin, owner, agent, _] = expected;
    Frame {
        kind,
        fields,
        expected: [stranger, ex_member, member, admin, owner, agent],
    }
}

/// Typing is never answered: what others hear of it is looked at (`frames.rs`).
const HEARD: [Outcome; 7] = IN_IT;

/// Every frame.
pub(crate) const FRAMES: &[Frame] = &[
    frame("hello", r#"{"device_id": "other"}"#, [Invalid; 7]),
    frame("auth", r#"{"token": "{token}"}"#, ANYBODY),
    frame(
        "message.send",
        r#"{"conversation_id": "{conversation_id}", "client_message_id": "{key}", "message_type": "TEXT", "content": {"text": "x"}}"#,
        IN_IT,
    ),
    frame(
        "message.edit",
        r#"{"message_id": "{message_id}", "content": {"text": "other"}}"#,
        SENDER,
    ),
    frame("message.recall", r#"{"message_id": "{message_id}"}"#, SEES_IT),
    frame(
        "message.ack",
        r#"{"acks": [{"conversation_id": "{conversation_id}", "seq": 1}]}"#,
        ANYBODY,
    ),
    frame("read", r#"{"conversation_id": "{conversation_id}", "seq": 1}"#, IN_IT),
    frame("history", r#"{"conversation_id": "{conversation_id}"}"#, IN_IT),
    frame(
        "sync",
        r#"{"device_id": "d", "cursors": [{"conversation_id": "{conversation_id}", "seq": 1, "change_seq": 0}]}"#,
        ANYBODY,
    ),
    frame("ping", "{}", ANYBODY),
    frame("typing", r#"{"conversation_id": "{conversation_id}"}"#, HEARD),
];

/// In a dissolved group members read on, and nobody writes: what is not named here is as above.
pub(crate) const AFTER_THE_END: &[(&str, [Outcome; 7])] = &[
    ("PATCH /v1/conversations/{conversation_id}", closed(ADMINS)),
    ("POST /v1/conversations/{conversation_id}/members", closed(ADMINS)),
    ("POST /v1/conversations/{conversation_id}/invites", closed(ADMINS)),
    (
        "DELETE /v1/conversations/{conversation_id}/members/{type}/{id}",
        closed(ADMINS),
    ),
    (
        "PATCH /v1/conversations/{conversation_id}/members/{type}/{id}",
        closed(OWNER),
    ),
    ("POST /v1/conversations/{conversation_id}/messages", closed(IN_IT)),
    ("PATCH /v1/messages/{message_id}", closed(SENDER)),
    ("POST /v1/messages/{message_id}/recall", closed(SEES_IT)),
    (
        "DELETE /v1/messages/{message_id}",
        but_for_the_operator(closed(REMOVES_IT)),
    ),
    ("PUT /v1/messages/{message_id}/reactions/{emoji}", closed(SEES_IT)),
    ("DELETE /v1/messages/{message_id}/reactions/{emoji}", closed(SEES_IT)),
    ("PUT /v1/messages/{message_id}/pin", closed(PINS_IT)),
    ("DELETE /v1/messages/{message_id}/pin", closed(PINS_IT)),
    (
        "POST /admin/v1/conversations/{conversation_id}/messages",
        closed(OPERATOR),
    ),
];

/// The operator takes messages away also where everything else has ended.
const fn but_for_the_operator(row: [Outcome; 7]) -> [Outcome; 7] {
    let mut row = row;
    row[row.len() - 1] = Ok;
    row
}

/// Rights come before state: who was refused before is refused in the same way.
const fn closed(row: [Outcome; 7]) -> [Outcome; 7] {
    let mut closed = row;
    let mut at = 0;
    while at < closed.len() {
        if matches!(closed[at], Ok) {
            closed[at] = Closed;
        }
        at += 1;
    }
    closed
}
