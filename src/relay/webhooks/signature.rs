//! Signatures as the Standard Webhooks specification says.

use standardwebhooks::Webhook as Key;

use crate::domain::webhook::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use crate::domain::{InvalidField, Timestamp, Webhook};

const HINT: &str =
    "must be whsec_ and base64 of 24 to 64 bytes; printf 'whsec_%s' $(openssl rand -base64 32) makes one";

/// Is this a secret?
///
/// # Errors
/// `invalid_request`
pub(crate) fn check_secret(text: &str) -> Result<(), InvalidField> {
    let invalid = InvalidField::new("secret", HINT);
    let bytes = text
        .strip_prefix("whsec_")
        .and_then(decoded_len)
        .ok_or(invalid.clone())?;
    let fits = (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes);
    if fits && Key::new(text).is_ok() {
        Ok(())
    } else {
        Err(invalid)
    }
}

/// How many bytes padded base64 stands for, if it is that.
fn decoded_len(base64: &str) -> Option<usize> {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len().is_multiple_of(4) && padding <= 2).then(|| base64.len() / 4 * 3 - padding)
}

/// One signature for each secret that signs now, so that a receiver may check with the old or the new one.
pub(super) fn sign(hook: &Webhook, id: &str, now: Timestamp, body: &str) -> Option<String> {
    let seconds = now.millis().div_euclid(1_000);
    let signature = |text: &str| Key::new(text).ok()?.sign(id, seconds, body.as_bytes()).ok();
    let signatures: Option<Vec<String>> = hook.signing(now).map(|secret| signature(&secret.text)).collect();
    signatures.filter(|all| !all.is_empty()).map(|all| all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EventNo, NoticeSet, WebhookId, WebhookName, WebhookSecret};

    /// The example that the specification's own tools have, so that both sides cannot be wrong in the same way.
    #[test]
    fn the_example_of_the_specification_has_its_signature() {
        let hook = Webhook {
            webhook_id: WebhookId::new(1).unwrap(),
            name: WebhookName::parse("one").unwrap(),
            url: String::new(),
            notices: NoticeSet::default(),
            secrets: vec![WebhookSecret {
                text: "whsec_plJ3nmyCDGBKInavdOK15jsl".to_owned(),
                created_at: Timestamp::default(),
                retires_at: None,
            }],
            event_no: EventNo::ZERO,
            version: 1,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        };
        let now = Timestamp::from_millis(1_731_705_121_999);
        let body = r#"{"event_type":"ping","data":{"success":true}}"#;
        let signatures = sign(&hook, "msg_loFOjxBNrRLzqYUf", now, body);
        assert_eq!(
            signatures.as_deref(),
            Some("v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=")
        );
    }
}
