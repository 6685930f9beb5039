//! Announcements and jobs: what is asked for, as domain values, and what is answered, as JSON.

use serde::Serialize;

use super::convert;
use super::fields::{Fields, required};
use super::notifications::text;
use super::rest::payload;
use crate::domain::announcement::AUDIENCE_MAX;
use crate::domain::{self, ClientRequestId, DomainError, InvalidField, NewAnnouncement, Subject, Timestamp};

/// `POST /admin/v1/announcements`
///
/// # Errors
/// `invalid_request` with the field's name, `payload_too_large`.
pub fn announcement(fields: &Fields<'_>, content_bytes: usize) -> Result<NewAnnouncement, DomainError> {
    let audience = audience(fields)?;
    let text = required("text", text(fields)?)?;
    if text.is_empty() {
        return Err(InvalidField::new("text", "must not be empty").into());
    }
    let key = required("client_request_id", fields.text("client_request_id")?)?;
    Ok(NewAnnouncement {
        audience,
        text,
        client_request_id: ClientRequestId::parse(&key)?,
        payload: payload(fields, content_bytes)?,
    })
}

/// `None` = all users.
fn audience(fields: &Fields<'_>) -> Result<Option<Vec<Subject>>, InvalidField> {
    const HINT: &str =
        "must be \"ALL\" or a list of 1 to 10,000 {\"type\": \"USER\" or \"AGENT\", \"id\" or \"external_id\": string}";
    required("audience", fields.raw("audience"))?;
    if fields.text("audience").is_ok_and(|word| word.as_deref() == Some("ALL")) {
        return Ok(None);
    }
    let named = fields.subjects("audience", AUDIENCE_MAX, HINT)?;
    let named = named.filter(|named| !named.is_empty());
    named.map(Some).ok_or(InvalidField::new("audience", HINT))
}

/// Work in the background.
#[derive(Debug, Serialize)]
pub struct Job {
    #[serde(serialize_with = "convert::decimal")]
    job_id: i64,
    state: &'static str,
    done: u64,
    total: u64,
    /// Of `done`: whom it was impossible to tell.
    missed: u64,
    #[serde(serialize_with = "convert::time")]
    created_at: Timestamp,
    #[serde(serialize_with = "convert::time")]
    updated_at: Timestamp,
}

impl From<&domain::Job> for Job {
    fn from(job: &domain::Job) -> Self {
        Self {
            job_id: job.job_id.get(),
            state: job.state.as_str(),
            done: job.done,
            total: job.total,
            missed: job.missed,
            created_at: job.created_at,
            updated_at: job.updated_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Code;

    fn of(body: &serde_json::Value) -> Result<NewAnnouncement, DomainError> {
        announcement(&Fields::parse(&body.to_string()).unwrap(), 100)
    }

    #[test]
    fn an_announcement_is_for_all_or_for_some() {
        let all = of(&serde_json::json!({"audience": "ALL", "text": "x", "client_request_id": "k"})).unwrap();
        assert!(all.audience.is_none() && all.payload.is_none());
        let bot = serde_json::json!({"type": "AGENT", "external_id": "bot"});
        let named =
            serde_json::json!({"audience": [bot, bot], "text": "x\ny", "payload": {"a": 1}, "client_request_id": "k"});
        let named = of(&named).unwrap();
        assert_eq!(named.audience.map(|named| named.len()), Some(2));
        assert_eq!(named.payload.unwrap().as_str(), "{\"a\":1}");
    }

    #[test]
    fn what_is_none_is_refused_by_its_field() {
        let ann = serde_json::json!({"type": "USER", "id": "1"});
        let good = serde_json::json!({"audience": [ann], "text": "x", "client_request_id": "k"});
        let too_many = serde_json::json!(vec![ann; AUDIENCE_MAX + 1]);
        for (field, bad) in [
            ("audience", serde_json::json!(null)),
            ("audience", serde_json::json!("all")),
            ("audience", serde_json::json!([])),
            ("audience", serde_json::json!({"type": "USER", "id": "1"})),
            ("audience", serde_json::json!([{"type": "SYSTEM", "id": "0"}])),
            ("audience", too_many),
            ("text", serde_json::json!(null)),
            ("text", serde_json::json!("")),
            ("text", serde_json::json!("x".repeat(1_001))),
            ("client_request_id", serde_json::json!(null)),
            ("client_request_id", serde_json::json!("")),
            ("payload", serde_json::json!([1])),
            ("payload", serde_json::json!("x")),
        ] {
            let mut body = good.clone();
            body[field] = bad;
            let refusal = of(&body).unwrap_err();
            assert!(
                matches!(&refusal, DomainError::Invalid(invalid) if invalid.field == field),
                "{field}: {refusal}"
            );
        }
        let mut large = good;
        large["payload"] = serde_json::json!({"x": "x".repeat(100)});
        assert_eq!(of(&large).unwrap_err().code(), Code::PayloadTooLarge);
    }
}
