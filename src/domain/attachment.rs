//! Which files a message refers to: `content.attachments[].file_id`, whatever the type of the message.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::content::Object;
use super::error::InvalidField;
use super::ids::FileId;

/// The most attachments of one message.
pub const ATTACHMENTS_MAX: usize = 50;

const FIELD: &str = "content.attachments";
/// The key in compact form, which spells it in one way only.
const KEY: &str = "\"attachments\"";

/// The rules of IMAGE, FILE, VOICE and VIDEO: there are attachments, and each is a file.
pub(super) fn required(object: &Object<'_>) -> Result<(), InvalidField> {
    if object.get("text").is_some() && object.text("text").is_none() {
        return Err(InvalidField::new("content.text", "must be a string"));
    }
    let list = list(object).ok_or(InvalidField::new(
        FIELD,
        "must be a list of {\"file_id\", \"name\", \"media_type\", \"size\"}",
    ))?;
    if list.is_empty() || list.len() > ATTACHMENTS_MAX {
        return Err(InvalidField::new(FIELD, "must have 1 to 50 entries"));
    }
    let files = files_in(&list)?;
    if files.len() == list.len() {
        Ok(())
    } else {
        Err(InvalidField::new(FIELD, "each needs a file_id, a decimal string"))
    }
}

/// The rules of every other type: what looks like an attachment with a file is one. Anything else of that name is the
/// client's own.
pub(super) fn allowed(object: &Object<'_>) -> Result<(), InvalidField> {
    let files = files_in(&list(object).unwrap_or_default())?;
    if files.len() > ATTACHMENTS_MAX {
        return Err(InvalidField::new(FIELD, "must have at most 50 entries with a file_id"));
    }
    Ok(())
}

/// The files of content in compact form, in order, each once. Content that was stored before there were files may have
/// something else there: then there are none.
pub(super) fn files(compact: &str) -> Vec<FileId> {
    // Most messages have none: a look is cheaper than a parse.
    if !compact.contains(KEY) {
        return Vec::new();
    }
    let object = Object::parse(compact);
    let list = object.as_ref().and_then(list).unwrap_or_default();
    let mut files = files_in(&list).unwrap_or_default();
    files.sort_unstable();
    files.dedup();
    files
}

/// The same content with other files in the place of these; all else stays byte for byte.
pub(super) fn replaced(compact: &str, new: &HashMap<FileId, FileId>) -> String {
    let object = Object::parse(compact);
    let list = object.as_ref().and_then(list).unwrap_or_default();
    let (mut out, mut rest) = (String::with_capacity(compact.len()), compact);
    for entry in list.iter().filter_map(|entry| Object::parse(entry.get())) {
        let Some(raw) = entry.get("file_id") else { continue };
        let file = entry.text("file_id").and_then(|text| FileId::parse(&text));
        // The value lies in what is left of the content: entries come in order.
        let at = raw.as_ptr().addr().checked_sub(rest.as_ptr().addr());
        if let (Some(new), Some(at)) = (file.and_then(|file| new.get(&file)), at)
            && let (Some(before), Some(after)) = (rest.get(..at), rest.get(at + raw.len()..))
        {
            out.push_str(before);
            out.push('"');
            out.push_str(&new.to_string());
            out.push('"');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

fn list<'a>(object: &Object<'a>) -> Option<Vec<&'a RawValue>> {
    serde_json::from_str(object.get("attachments")?).ok()
}

/// The `file_id` of each entry that has one.
fn files_in(list: &[&RawValue]) -> Result<Vec<FileId>, InvalidField> {
    let entries = list.iter().filter_map(|entry| Object::parse(entry.get()));
    let mut files = Vec::new();
    for entry in entries.filter(|entry| entry.get("file_id").is_some()) {
        let file = entry.text("file_id").and_then(|text| FileId::parse(&text));
        files.push(file.ok_or(InvalidField::new(FIELD, "each file_id must be a decimal string"))?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use crate::domain::{Content, FileId, MessageType};

    fn parsed(kind: &str, raw: &str) -> Option<Content> {
        Content::parse(raw, &MessageType::parse(kind).unwrap(), 100_000).ok()
    }

    fn files(kind: &str, raw: &str) -> Option<Vec<i64>> {
        parsed(kind, raw).map(|content| content.files().into_iter().map(FileId::get).collect())
    }

    #[test]
    fn files_are_found_in_every_type_of_message_each_once() {
        let two = "{\"text\":\"x\",\"card_type\":\"c\",\"card_data\":1,\"ciphertext\":\"AAEC\",\"attachments\":\
                   [{\"file_id\":\"9\",\"name\":\"a\"},{\"file_id\":\"7\"},{\"name\":\"b\",\"file_id\":\"9\"}]}";
        for kind in ["IMAGE", "FILE", "VOICE", "VIDEO", "TEXT", "CARD", "ENCRYPTED", "MY_OWN"] {
            assert_eq!(files(kind, two), Some(vec![7, 9]), "{kind}");
        }
        let escaped = "{\"text\":\"x\",\"\\u0061ttachments\":[{\"\\u0066ile_id\":\"\\u0037\"}]}";
        assert_eq!(files("TEXT", escaped), Some(vec![7]));
        let repeated = "{\"text\":\"x\",\"attachments\":[{\"file_id\":\"1\"}],\"attachments\":[{\"file_id\":\"2\",\"file_id\":\"3\"}]}";
        assert_eq!(
            files("TEXT", repeated),
            Some(vec![3]),
            "the last of repeated keys counts"
        );
    }

    #[test]
    fn what_is_no_list_of_files_is_the_clients_own_but_where_files_are_the_message() {
        for own in [
            "{\"text\":\"x\",\"attachments\":7}",
            "{\"text\":\"x\",\"attachments\":null}",
            "{\"text\":\"x\",\"attachments\":[1,\"a\",[],{\"file_id\":null},{\"url\":\"https://a.example\"}]}",
            "{\"text\":\"the word \\\"attachments\\\":[{\\\"file_id\\\":\\\"1\\\"}]\"}",
            "{\"text\":\"x\",\"inner\":{\"attachments\":[{\"file_id\":\"1\"}]}}",
        ] {
            assert_eq!(files("TEXT", own), Some(vec![]), "{own}");
            assert_eq!(files("MY_OWN", own), Some(vec![]), "{own}");
            assert_eq!(files("FILE", own), None, "{own}");
        }
    }

    #[test]
    fn other_files_take_the_places_of_these_and_nothing_else_moves() {
        let raw = "{\"attachments\":[{\"file_id\":\"1\"}],\"text\":\"\\\"file_id\\\":\\\"7\\\"\",\"attachments\":\
                   [{\"file_id\":\"8\",\"file_id\":\"7\",\"n\":1e400},{\"file_id\":\"9\"},5,{\"n\":\"7\",\"file_id\":\"7\"}]}";
        let new = [(7, 70), (8, 80), (1, 10)].map(|(old, new)| (FileId::new(old).unwrap(), FileId::new(new).unwrap()));
        let content = Content::parse(raw, &MessageType::Text, 1_000).unwrap();
        assert_eq!(
            content.with_files(&new.into()).as_str(),
            "{\"attachments\":[{\"file_id\":\"1\"}],\"text\":\"\\\"file_id\\\":\\\"7\\\"\",\"attachments\":\
             [{\"file_id\":\"8\",\"file_id\":\"70\",\"n\":1e400},{\"file_id\":\"9\"},5,{\"n\":\"7\",\"file_id\":\"70\"}]}"
        );
    }

    #[test]
    fn a_file_id_is_a_decimal_string_and_there_are_at_most_fifty() {
        let entries = |entries: &str| format!("{{\"text\":\"x\",\"attachments\":[{entries}]}}");
        for bad in [
            "7",
            "\"\"",
            "\"0\"",
            "\"-7\"",
            "\"7.0\"",
            "\" 7\"",
            "\"9223372036854775808\"",
            "{}",
            "true",
        ] {
            let raw = entries(&format!("{{\"file_id\":{bad}}}"));
            assert!(
                parsed("TEXT", &raw).is_none() && parsed("FILE", &raw).is_none(),
                "{bad}"
            );
        }
        let many = |count: usize| {
            let list: Vec<String> = (1..=count).map(|n| format!("{{\"file_id\":\"{n}\"}}")).collect();
            entries(&list.join(","))
        };
        for kind in ["TEXT", "FILE"] {
            assert_eq!(files(kind, &many(50)).map(|files| files.len()), Some(50));
            assert_eq!(files(kind, &many(51)), None);
        }
        assert_eq!(files("FILE", &entries("")), None);
        assert_eq!(files("FILE", &entries("{\"file_id\":\"1\"},{\"name\":\"x\"}")), None);
        assert_eq!(
            files("FILE", "{\"text\":7,\"attachments\":[{\"file_id\":\"1\"}]}"),
            None
        );
    }
}
