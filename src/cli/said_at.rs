//! When something was first said: `said_at` at the end of a content. `import` puts it there, `export` takes it off again,
//! so that a store that goes through both says the same words at the same time.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::domain::time::parse_rfc3339;

const KEY: &str = "said_at";
/// What it adds to a content at the most; a content of full size has room for it.
pub(super) const SAID_AT_BYTES_MAX: usize = 64;

/// The compact content with `said_at` at its end, unless it has one.
pub(super) fn with(compact: &str, at: &str) -> String {
    let Some(open) = compact.strip_suffix('}').filter(|_| !has(compact)) else {
        return compact.to_owned();
    };
    let comma = if open == "{" { "" } else { "," };
    format!("{open}{comma}\"{KEY}\":\"{at}\"}}")
}

/// The compact content as it was before [`with`], and the time; as it is where `said_at` is not at its end or no time.
pub(super) fn without(compact: &str) -> (Cow<'_, str>, Option<&str>) {
    // A quote inside a string has a backslash before it, so what is found is the last key of the object.
    let split = |start: &str| {
        let (before, after) = compact.rsplit_once(&format!("{start}\"{KEY}\":\""))?;
        let at = after.strip_suffix("\"}").filter(|at| parse_rfc3339(at).is_some())?;
        let open = if start == "{" { "{" } else { before };
        let rest = format!("{open}}}");
        (with(&rest, at) == compact).then_some((Cow::Owned(rest), Some(at)))
    };
    split(",")
        .or_else(|| split("{"))
        .unwrap_or((Cow::Borrowed(compact), None))
}

fn has(compact: &str) -> bool {
    let members = serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(compact);
    members.is_ok_and(|members| members.contains_key(KEY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2018-11-05T19:30:43Z";

    #[test]
    fn what_is_put_on_comes_off_again() {
        for content in [
            "{\"text\":\"hi\"}",
            "{}",
            "{\"a\":{\"said_at\":\"2018-11-05T19:30:43Z\"}}",
            "{\"text\":\"a,\\\"said_at\\\":\\\"2018-11-05T19:30:43Z\"}",
            "{\"b\":1,\"a\":[1e400,{}],\"b\":2}",
        ] {
            let with = with(content, AT);
            assert!(
                with.ends_with(",\"said_at\":\"2018-11-05T19:30:43Z\"}") || content == "{}",
                "{with}"
            );
            assert_eq!(without(&with), (content.into(), Some(AT)), "{with}");
            assert_eq!(without(content), (content.into(), None), "{content}");
        }
    }

    #[test]
    fn a_said_at_of_somebody_elses_making_stays() {
        for content in [
            "{\"said_at\":\"2018-11-05T19:30:43Z\",\"text\":\"hi\"}",
            "{\"text\":\"hi\",\"said_at\":\"yesterday\"}",
            "{\"text\":\"hi\",\"said_at\":null}",
            "{\"said_at\":1,\"text\":\"hi\",\"said_at\":\"2018-11-05T19:30:43Z\"}",
            "{\"\\u0073aid_at\":1,\"text\":\"hi\"}",
        ] {
            assert_eq!(with(content, AT), content);
            assert_eq!(without(content), (content.into(), None), "{content}");
        }
    }
}
