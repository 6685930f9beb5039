//! The first pass over a file of JSON Lines: which rooms, which authors, where each good line stands, what is bad.
//!
//! Only places are kept, no text: a file may be much larger than memory.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::domain::{ClientMessageId, ClientRequestId, Content, ExternalId, InvalidField, MessageType};

/// The longest line that is looked at, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Bad lines that are named one by one.
const NAMED_MAX: usize = 50;

/// One line of the file: something that was said.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    room: String,
    at: String,
    author: String,
    #[serde(default)]
    thread_reply: bool,
    text: String,
}

/// A line as the writers take it.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) room: ClientRequestId,
    pub(super) author: ExternalId,
    pub(super) content: Content,
    /// It answers what stands just before it in its room.
    pub(super) is_reply: bool,
}

/// Where a good line stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    offset: u64,
    bytes: usize,
    /// Counted from 1, as editors do.
    pub(super) number: u64,
    /// 1 for the first of equal lines, 2 for the second.
    occurrence: u64,
}

/// One room with its lines, in the order of the file.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) name: ClientRequestId,
    pub(super) authors: BTreeSet<ExternalId>,
    pub(super) lines: Vec<Place>,
}

/// Lines that were left out.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    pub(super) count: u64,
    /// `line 7: why`, the first ones.
    pub(super) named: Vec<String>,
}

/// The whole file.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) rooms: Vec<Room>,
    pub(super) lines: u64,
    pub(super) skipped: Skipped,
    file: File,
    content_bytes_max: usize,
}

impl Skipped {
    /// Leaves a line out.
    pub(super) fn add(&mut self, number: u64, why: impl std::fmt::Display) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("line {number}: {why}"));
        }
    }

    /// Adds those that others left out.
    pub(super) fn join(&mut self, other: &Self) {
        self.count += other.count;
        let room = NAMED_MAX.saturating_sub(self.named.len());
        self.named.extend(other.named.iter().take(room).cloned());
    }
}

impl Survey {
    /// Reads the file once.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn of(path: &Path, content_bytes_max: usize) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut survey = Self {
            rooms: Vec::new(),
            lines: 0,
            skipped: Skipped::default(),
            file: file.try_clone()?,
            content_bytes_max,
        };
        let mut by_name: HashMap<ClientRequestId, usize> = HashMap::new();
        let mut seen: HashMap<[u8; 32], u64> = HashMap::new();
        let (mut reader, mut offset, mut number) = (BufReader::new(file), 0, 0);
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes = read_line(&mut reader, &mut line)?;
            if bytes == 0 {
                return Ok(survey);
            }
            number += 1;
            let text = trimmed(&line);
            if !text.is_empty() {
                let occurrence = seen.entry(Sha256::digest(text).into()).or_default();
                *occurrence += 1;
                let place = Place {
                    offset,
                    bytes: text.len(),
                    number,
                    occurrence: *occurrence,
                };
                survey.add(place, text, &mut by_name);
            }
            offset += bytes;
        }
    }

    fn add(&mut self, place: Place, text: &[u8], by_name: &mut HashMap<ClientRequestId, usize>) {
        let said = match said(text, self.content_bytes_max) {
            Ok(said) => said,
            Err(why) => return self.skipped.add(place.number, why),
        };
        let index = *by_name.entry(said.room.clone()).or_insert(self.rooms.len());
        if index == self.rooms.len() {
            self.rooms.push(Room {
                name: said.room,
                authors: BTreeSet::new(),
                lines: Vec::new(),
            });
        }
        if let Some(room) = self.rooms.get_mut(index) {
            room.authors.insert(said.author);
            room.lines.push(place);
            self.lines += 1;
        }
    }

    /// Reads a good line again, with the key that it has in every run.
    ///
    /// # Errors
    /// When the file cannot be read any more or has changed meanwhile.
    pub(super) fn read(&self, place: Place) -> io::Result<(Said, ClientMessageId)> {
        let mut text = vec![0; place.bytes];
        self.file.read_exact_at(&mut text, place.offset)?;
        let changed = |_| io::Error::other(format!("line {} has changed while it was read", place.number));
        let said = said(&text, self.content_bytes_max).map_err(changed)?;
        let mut hash = Sha256::new();
        hash.update(&text);
        hash.update(format!("\n{}", place.occurrence));
        let hex = hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").ok(); // writing to a String cannot fail
            hex
        });
        let key =
            ClientMessageId::parse(&format!("import/{hex}")).map_err(|error| io::Error::other(error.to_string()))?;
        Ok((said, key))
    }
}

/// One line into `line`; returns its length in the file with its end. A line that is too long is not kept whole.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut bytes = reader.take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    while line.last().is_some_and(|last| *last != b'\n') {
        let mut rest = Vec::new();
        let more = reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut rest)?;
        if more == 0 {
            break;
        }
        bytes += more;
        // What is left is no JSON, so the line is named and skipped.
        line.truncate(1);
        line.extend(rest.last());
    }
    u64::try_from(bytes).map_err(io::Error::other)
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.trim_ascii_end()
}

fn said(text: &[u8], content_bytes_max: usize) -> Result<Said, String> {
    #[derive(Serialize)]
    struct Body<'a> {
        text: &'a str,
        said_at: &'a str,
    }
    let line: Line = serde_json::from_slice(text).map_err(|error| format!("is not what is expected: {error}"))?;
    let named = |field: &'static str| move |error: InvalidField| format!("{field} {}", error.hint);
    OffsetDateTime::parse(&line.at, &Rfc3339).map_err(|_| "at must be a time like 2018-11-05T19:30:43Z".to_owned())?;
    let body = Body {
        text: &line.text,
        said_at: &line.at,
    };
    let raw = serde_json::to_string(&body).map_err(|error| error.to_string())?;
    Ok(Said {
        room: ClientRequestId::parse(&line.room).map_err(named("room"))?,
        author: ExternalId::parse(&line.author).map_err(named("author"))?,
        content: Content::parse(&raw, &MessageType::Text, content_bytes_max).map_err(|error| error.to_string())?,
        is_reply: line.thread_reply,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn survey(text: &[u8]) -> Survey {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        Survey::of(file.path(), 65_536).unwrap()
    }

    fn line(room: &str, text: &str) -> String {
        format!("{{\"room\":\"{room}\",\"at\":\"2018-11-05T19:30:43Z\",\"author\":\"u1\",\"text\":\"{text}\"}}")
    }

    #[test]
    fn equal_lines_have_keys_of_their_own_and_the_same_ones_in_every_run() {
        let text = format!("{0}\n{0}\r\n\n{1}", line("a", "hi"), line("b", "hi"));
        let keys = || {
            let survey = survey(text.as_bytes());
            let places: Vec<Place> = survey.rooms.iter().flat_map(|room| room.lines.clone()).collect();
            let numbers: Vec<u64> = places.iter().map(|place| place.number).collect();
            assert_eq!((survey.rooms.len(), numbers), (2, vec![1, 2, 4]));
            places
                .into_iter()
                .map(|place| survey.read(place).unwrap().1)
                .collect::<Vec<_>>()
        };
        let first = keys();
        assert_eq!(first, keys());
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn bad_lines_are_named_and_good_ones_around_them_are_kept() {
        let long = line("a", &"x".repeat(70_000));
        let endless = "x".repeat(9 << 20);
        let bad = [
            "not json",
            "[]",
            "{\"room\":\"a\"}",
            &line("", "hi"),
            &line("a", ""),
            &line("a", "\\u0000"),
            &line("a", "hi").replace("2018-11-05T", ""),
            &line("a", "hi").replace("u1", ""),
            &long,
            &endless,
        ];
        let text = format!("{}\n{}\n{}", line("a", "one"), bad.join("\n"), line("a", "two"));
        let survey = survey(text.as_bytes());
        assert_eq!(survey.lines, 2);
        let (said, _) = survey.read(survey.rooms[0].lines[1]).unwrap();
        assert_eq!(
            said.content.as_str(),
            "{\"text\":\"two\",\"said_at\":\"2018-11-05T19:30:43Z\"}"
        );
        assert_eq!(survey.skipped.count, 10, "{:#?}", survey.skipped);
        for (index, named) in survey.skipped.named.iter().enumerate() {
            assert!(named.starts_with(&format!("line {}: ", index + 2)), "{named}");
        }
    }
}
