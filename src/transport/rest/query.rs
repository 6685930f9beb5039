//! Ids in paths and numbers in query strings.

use actix_web::{FromRequest as _, HttpRequest, web};

use crate::domain::{
    ActionType, ConversationId, DeviceId, DomainError, Emoji, EventNo, FileId, InvalidField, JobId, MessageId,
    Principal, PrincipalType, Seq, WebhookName, policy,
};
use crate::protocol::fields::{limit, query_number};
use crate::protocol::rest::{LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
use crate::protocol::webhooks::delivery_id;

/// The parameters of a query string. Of repeated ones the last counts, unknown ones are ignored.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query string of a request.
    pub(super) fn of(request: &HttpRequest) -> Result<Self, InvalidField> {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(request.query_string());
        let pairs = pairs.map_err(|_| InvalidField::new("query", "must be name=value pairs"))?;
        Ok(Self(pairs.into_inner()))
    }

    /// A parameter as text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let last = self.0.iter().rev().find(|(key, _)| key == name);
        last.map(|(_, value)| value.as_str())
    }

    /// A parameter as a number.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<i64>, InvalidField> {
        self.text(name).map(|text| query_number(name, text)).transpose()
    }

    /// A parameter as a seq.
    pub(super) fn seq(&self, name: &'static str) -> Result<Option<Seq>, InvalidField> {
        Ok(self.number(name)?.map(Seq::new))
    }

    /// `limit` of a list.
    pub(super) fn list_limit(&self) -> Result<u32, InvalidField> {
        limit(self.number("limit")?, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX)
    }
}

/// `{conversation_id}` of the path; what is no id names nothing.
pub(super) fn conversation_id(request: &HttpRequest) -> Result<ConversationId, DomainError> {
    ConversationId::parse(segment(request, "conversation_id")).ok_or(DomainError::ConversationNotFound)
}

/// `{message_id}` of the path.
pub(super) fn message_id(request: &HttpRequest) -> Result<MessageId, DomainError> {
    MessageId::parse(segment(request, "message_id")).ok_or(DomainError::NotFound("no such message"))
}

/// `{notification_id}` of the path.
pub(super) fn notification_id(request: &HttpRequest) -> Result<MessageId, DomainError> {
    MessageId::parse(segment(request, "notification_id")).ok_or(policy::NO_SUCH_NOTIFICATION)
}

/// `{file_id}` of the path.
pub(super) fn file_id(request: &HttpRequest) -> Result<FileId, DomainError> {
    FileId::parse(segment(request, "file_id")).ok_or(DomainError::NotFound("no such file, or none that you may see"))
}

/// `{action_type}` of the path.
pub(super) fn action_type(request: &HttpRequest) -> Result<ActionType, InvalidField> {
    action(segment(request, "action_type"))
}

/// The word of an action, of a path or of a query string.
pub(super) fn action(word: &str) -> Result<ActionType, InvalidField> {
    const HINT: &str = "must be DELETE, FAVORITE or REMINDER";
    ActionType::parse(word).ok_or(InvalidField::new("action_type", HINT))
}

/// The emoji that ends the path, percent-encoded UTF-8 or as it is. Taken from the request line: a path that was decoded
/// leniently would turn what is no UTF-8 into a character that nobody sent (B103).
pub(super) fn emoji(request: &HttpRequest) -> Result<Emoji, InvalidField> {
    let last = request.uri().path().rsplit('/').next().unwrap_or_default();
    let text = percent_decoded(last).ok_or(InvalidField::new("emoji", "must be percent-encoded UTF-8"))?;
    Emoji::parse(&text)
}

fn percent_decoded(segment: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next()?)? * 16 + digit(bytes.next()?)?,
            plain => plain,
        });
    }
    String::from_utf8(decoded).ok()
}

/// `{type}/{id}` of the path.
pub(super) fn principal(request: &HttpRequest, unknown: &'static str) -> Result<Principal, DomainError> {
    PrincipalType::parse(segment(request, "type"))
        .and_then(|kind| Principal::parse(kind, segment(request, "id")))
        .ok_or(DomainError::NotFound(unknown))
}

/// `{id}` of the path, of one of this kind.
pub(super) fn user(request: &HttpRequest, kind: PrincipalType) -> Result<Principal, DomainError> {
    Principal::parse(kind, segment(request, "id")).ok_or(DomainError::NotFound("no such user or agent"))
}

/// `{name}` of the path, of a webhook that should be there.
pub(super) fn webhook(request: &HttpRequest) -> Result<WebhookName, DomainError> {
    webhook_to_make(request).map_err(|_| DomainError::NotFound("no webhook of this name"))
}

/// `{name}` of the path, of a webhook that may be new.
pub(super) fn webhook_to_make(request: &HttpRequest) -> Result<WebhookName, InvalidField> {
    WebhookName::parse(segment(request, "name"))
}

/// `{job_id}` of the path.
pub(super) fn job_id(request: &HttpRequest) -> Result<JobId, DomainError> {
    JobId::parse(segment(request, "job_id")).ok_or(DomainError::NotFound("no such job"))
}

/// `{delivery_id}` of the path.
pub(super) fn delivery(request: &HttpRequest) -> Result<EventNo, DomainError> {
    delivery_id(segment(request, "delivery_id")).ok_or(DomainError::NotFound("no such delivery"))
}

/// `{device_id}` of the path, decoded: it may hold any visible ASCII.
pub(super) async fn device_id(request: &HttpRequest) -> Result<DeviceId, DomainError> {
    let decoded = web::Path::<String>::extract(request).await;
    let device = decoded.ok().and_then(|text| DeviceId::parse(&text).ok());
    device.ok_or(DomainError::NotFound("no such device"))
}

/// As it stands in the path. Ids are digits, which nobody has to encode, so nothing is decoded.
fn segment<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    request.match_info().get(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b103_an_emoji_in_a_path_is_decoded_strictly() {
        let thumb = Some("👍🏽".to_owned());
        assert_eq!(percent_decoded("%F0%9F%91%8D%f0%9f%8f%bd"), thumb);
        assert_eq!(percent_decoded("👍🏽"), thumb);
        assert_eq!(percent_decoded("a+b%2F%25"), Some("a+b/%".to_owned()));
        for bad in ["%", "%F", "%zz", "%F0%9F", "%ED%A0%80", "%FF"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }
}
