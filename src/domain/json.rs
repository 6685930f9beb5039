//! JSON text: what is refused in any request, and the compact form of content.
//!
//! The input has passed a JSON parser already (`serde_json` checks grammar and UTF-8, but lets lone surrogates and
//! `\u0000` through); this module only walks over it.

use std::fmt::Write as _;

use super::error::InvalidField;

/// How deep content may be nested; the object itself is the first level.
pub const DEPTH_MAX: usize = 64;

/// Refuses what no database must ever see, anywhere in a request: `\u0000` (PostgreSQL cannot store it) and lone
/// surrogates (no Unicode text).
///
/// # Errors
/// `invalid_request` in the words of the contract.
pub fn admit(text: &str) -> Result<(), InvalidField> {
    // Raw NULs are no JSON, so only an escape can bring one in. Most requests have no `\u` at all.
    if !text.contains("\\u") {
        return Ok(());
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        out.clear();
        let used = copy_string("request", rest.get(start..).unwrap_or_default(), &mut out)?;
        rest = rest.get(start + used..).unwrap_or_default();
    }
    Ok(())
}

/// The compact form: no insignificant white space, each string in its shortest spelling, all else as it was.
///
/// # Errors
/// When nested over [`DEPTH_MAX`] levels, or for a NUL or a lone surrogate in a string or key.
pub fn compact(field: &'static str, json: &str) -> Result<String, InvalidField> {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut rest = json;
    while let Some(next) = rest.chars().next() {
        let used = match next {
            '"' => copy_string(field, rest, &mut out)?,
            ' ' | '\t' | '\n' | '\r' => 1,
            other => {
                match other {
                    '{' | '[' => depth += 1,
                    '}' | ']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth > DEPTH_MAX {
                    return Err(InvalidField::new(field, "must not be nested over 64 levels"));
                }
                out.push(other);
                other.len_utf8()
            }
        };
        rest = rest.get(used..).unwrap_or_default();
    }
    Ok(out)
}

/// Copies the string literal at the start of `text`; returns how many bytes it has there.
fn copy_string(field: &'static str, text: &str, out: &mut String) -> Result<usize, InvalidField> {
    out.push('"');
    let mut at = 1_usize;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        // No byte of a longer character is one of these.
        let end = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\'));
        let plain = end.ok_or(InvalidField::new(field, "must be JSON"))?;
        out.push_str(rest.get(..plain).unwrap_or_default());
        at += plain;
        if rest.get(plain..).is_some_and(|tail| tail.starts_with('"')) {
            out.push('"');
            return Ok(at + 1);
        }
        at += copy_escape(field, rest.get(plain + 1..).unwrap_or_default(), out)? + 1;
    }
}

/// Copies what follows a backslash; returns how many bytes it has.
fn copy_escape(field: &'static str, text: &str, out: &mut String) -> Result<usize, InvalidField> {
    let invalid = InvalidField::new(field, "has an escape that is no Unicode character");
    let Some(kind) = text.chars().next() else {
        return Err(invalid);
    };
    if kind != 'u' {
        match kind {
            '/' => out.push('/'),
            other => out.extend(['\\', other]),
        }
        return Ok(1);
    }
    let unit = |at: usize| text.get(at..at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let first = unit(1).ok_or(invalid.clone())?;
    let (code, used) = if (0xD800..0xDC00).contains(&first) {
        let second = text.get(5..7).filter(|mark| *mark == "\\u").and_then(|_| unit(7));
        let second = second
            .filter(|unit| (0xDC00..0xE000).contains(unit))
            .ok_or(invalid.clone())?;
        (0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00), 11)
    } else {
        (first, 5)
    };
    match char::from_u32(code).ok_or(invalid)? {
        '\0' => {
            return Err(InvalidField::new(
                field,
                "must not have a NUL (\\u0000) in any string or key",
            ));
        }
        character => push(character, out),
    }
    Ok(used)
}

/// A text as a JSON string, in its shortest spelling.
#[must_use]
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|character| push(character, &mut out));
    out.push('"');
    out
}

/// Inside of a string.
fn push(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        control if control < ' ' => {
            write!(out, "\\u{:04x}", u32::from(control)).ok(); // writing to a String cannot fail
        }
        other => out.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_of_escapes_does_not_matter() {
        let plain = "{\"a\":\"é😀/\\n\\\"\\\\\\u001f\"}";
        let escaped = "{ \"\\u0061\" : \"\\u00e9\\uD83D\\ude00\\/\\u000a\\u0022\\u005C\\u001F\" }";
        assert_eq!(compact("content", plain).as_deref(), Ok(plain));
        assert_eq!(compact("content", escaped).as_deref(), Ok(plain));
        assert_eq!(
            compact("content", "\"\\\\u0000 as letters\"").as_deref(),
            Ok("\"\\\\u0000 as letters\"")
        );
    }

    #[test]
    fn a_text_becomes_a_string_in_its_shortest_spelling() {
        assert_eq!(text("é😀/\n\"\\\u{1f}"), "\"é😀/\\n\\\"\\\\\\u001f\"");
        assert_eq!(text(""), "\"\"");
    }

    #[test]
    fn b102_nul_and_lone_surrogates_are_refused_in_strings_and_keys() {
        for bad in [
            "{\"a\\u0000\":1}",
            "[\"\\u0000\"]",
            "[\"\\ud800\"]",
            "[\"\\udc00 x\"]",
            "[\"\\ud83d\\u0041\"]",
            "[\"\\ud83d\"]",
        ] {
            assert!(compact("content", bad).is_err(), "{bad}");
            assert!(admit(bad).is_err(), "{bad}");
        }
        for good in ["[\"\\\\u0000\"]", "{\"a\":\"\\ud83d\\ude00\"}", "[1,2]"] {
            assert!(admit(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn b105_sixty_four_levels_are_the_limit() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(compact("content", &nested(64)).is_ok());
        assert!(compact("content", &nested(65)).is_err());
        assert!(compact("content", &format!("[{}]", vec!["[]"; 100].join(","))).is_ok());
    }

    mod laws {
        use proptest::collection::vec;
        use proptest::prelude::*;
        use serde_json::Value;

        use super::*;

        fn value() -> impl Strategy<Value = Value> {
            let leaf = prop_oneof![
                Just(Value::Null),
                any::<bool>().prop_map(Value::from),
                any::<i64>().prop_map(Value::from),
                "[^\0]{0,12}".prop_map(Value::from),
            ];
            leaf.prop_recursive(5, 40, 6, |inner| {
                prop_oneof![
                    vec(inner.clone(), 0..6).prop_map(Value::from),
                    vec(("[^\0]{0,6}", inner), 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
                ]
            })
        }

        /// The same value with white space and escapes as chance wants them.
        fn spell(value: &Value, chance: &mut impl Iterator<Item = u8>) -> String {
            let mut out = String::new();
            let mut in_string = false;
            let mut escaped = false;
            let mut hex_digits = 0;
            for c in value.to_string().chars() {
                let roll = chance.next().unwrap_or_default();
                if hex_digits > 0 {
                    hex_digits -= 1;
                } else if in_string && !escaped && c != '"' && c != '\\' && roll.is_multiple_of(3) {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}").unwrap();
                    }
                    continue;
                }
                if escaped && c == 'u' {
                    hex_digits = 4;
                }
                if c == '"' && !escaped {
                    in_string = !in_string;
                }
                escaped = in_string && c == '\\' && !escaped;
                out.push(c);
                if !in_string && !c.is_ascii_alphanumeric() && c != '-' && roll.is_multiple_of(4) {
                    out.push_str([" ", "\n", "\t\r "][usize::from(roll) % 3]);
                }
            }
            out
        }

        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

            #[test]
            fn every_spelling_has_one_compact_form_with_the_same_value(value in value(), chance in vec(any::<u8>(), 1..200)) {
                let spelled = spell(&value, &mut chance.iter().copied().cycle());
                prop_assert!(admit(&spelled).is_ok());
                let compacted = compact("content", &spelled).unwrap();
                prop_assert_eq!(&compacted, &compact("content", &value.to_string()).unwrap());
                prop_assert_eq!(&compacted, &compact("content", &compacted).unwrap());
                prop_assert_eq!(serde_json::from_str::<Value>(&compacted).unwrap(), value);
            }

            #[test]
            fn no_text_makes_it_panic(text in "[\"\\\\u0-9a-fA-F{}\\[\\],: é😀]{0,40}") {
                let admitted = admit(&text).is_ok();
                let compacted = compact("content", &text);
                prop_assert!(admitted || compacted.is_err(), "{:?}", compacted);
            }

            #[test]
            fn the_depth_is_that_of_the_deepest_place(depth in 1..130_usize, width in 1..4_usize) {
                let inner = format!("{}0{}", "{\"[\":[".repeat(depth / 2), "]}".repeat(depth / 2));
                let text = vec![inner; width].join(",");
                let deepest = depth / 2 * 2 + 1;
                prop_assert_eq!(compact("content", &format!("[{text}]")).is_ok(), deepest <= DEPTH_MAX);
            }
        }
    }
}
