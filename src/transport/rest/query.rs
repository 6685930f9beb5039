//! Ids in paths and numbers in query strings.

use actix_web::{FromRequest as _, HttpRequest, web};

use crate::domain::{
    ActionType, ConversationId, DeviceId, DomainError, InvalidField, MessageId, Principal, PrincipalType, Seq,
};
use crate::protocol::fields::{limit, query_number};
use crate::protocol::rest::{LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};

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

/// `{action_type}` of the path.
pub(super) fn action_type(request: &HttpRequest) -> Result<ActionType, InvalidField> {
    action(segment(request, "action_type"))
}

/// The word of an action, of a path or of a query string.
pub(super) fn action(word: &str) -> Result<ActionType, InvalidField> {
    const HINT: &str = "must be DELETE, FAVORITE or REMINDER";
    ActionType::parse(word).ok_or(InvalidField::new("action_type", HINT))
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
