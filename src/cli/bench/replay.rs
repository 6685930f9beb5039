//! Words of a file of JSON Lines, as `onescribe import` reads them.

use std::path::Path;

use anyhow::Context as _;

use crate::cli::import::{Again, Survey};
use crate::domain::MessageType;
use crate::load::Words;

/// Lines that are replayed, and their bytes; with more of them the first are taken.
const LINES_MAX: usize = 100_000;
const BYTES_MAX: usize = 256 << 20;

/// The contents of the first lines, room by room.
pub(super) fn words(file: &Path, content_bytes_max: usize) -> anyhow::Result<Words> {
    let cannot = || format!("cannot read {}", file.display());
    let survey = Survey::of(file, content_bytes_max).with_context(cannot)?;
    let (mut contents, mut bytes) = (Vec::new(), 0);
    for place in survey.rooms.iter().flat_map(|room| &room.lines) {
        if contents.len() == LINES_MAX || bytes > BYTES_MAX {
            break;
        }
        let Again::Said(said, _) = survey.read(*place).with_context(cannot)? else {
            continue;
        };
        // Files are not there, and what is no text is not for a load of words.
        if said.message_type != MessageType::Text || said.has_files() {
            continue;
        }
        let content: Box<str> = said.content(&[]).as_str().into();
        bytes += content.len();
        contents.push(content);
    }
    let skipped = survey
        .skipped
        .named
        .first()
        .map_or("nothing is said in it", String::as_str)
        .to_owned();
    Words::of_contents(contents).with_context(|| format!("{} has no good line: {skipped}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_words_and_one_without_a_good_line_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat.jsonl");
        let line = |text: &str| {
            format!("{{\"room\":\"r\",\"at\":\"2026-11-29T12:00:00Z\",\"author\":\"a\",\"text\":\"{text}\"}}\n")
        };
        std::fs::write(&file, line("Is the kettle on?") + "nothing\n" + &line("好")).unwrap();
        assert_eq!(words(&file, 65_536).unwrap().extent().0, 2);
        std::fs::write(&file, "nothing\n").unwrap();
        let error = format!("{:#}", words(&file, 65_536).unwrap_err());
        assert!(error.contains("no good line: line 1"), "{error}");
        std::fs::write(&file, "").unwrap();
        assert!(format!("{:#}", words(&file, 65_536).unwrap_err()).contains("nothing is said in it"));
    }
}
