//! The first pass over a file of JSON Lines: which rooms, which authors, where each good line stands, what is bad.
//!
//! Only places are kept, no text: a file may be much larger than memory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::line::{self, About, Entry, Quotes, Said, Who};
use crate::domain::{ClientMessageId, ClientRequestId, Kind, Role};

/// The longest line that is looked at, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Bad lines that are named one by one.
const NAMED_MAX: usize = 50;

/// Where a good line stands.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Place {
    offset: u64,
    bytes: usize,
    /// Counted from 1, as editors do.
    pub(super) number: u64,
    /// 1 for the first of equal lines, 2 for the second.
    occurrence: u64,
}

/// One room with its lines, in the order of the file.
#[derive(Debug)]
pub(in crate::cli) struct Room {
    pub(super) name: ClientRequestId,
    /// Of its first line.
    pub(super) number: u64,
    /// What its first line about it says.
    pub(super) about: Option<About>,
    /// Who is in it before anything is said: those who are listed by then, and authors who are listed nowhere before
    /// they speak.
    pub(super) founders: BTreeSet<Who>,
    pub(super) authors: BTreeSet<Who>,
    /// All who are listed; `None` where nobody is, not even as an empty list.
    pub(super) members: Option<BTreeSet<Who>>,
    /// Those of them who are more than that.
    pub(super) roles: Vec<(Who, Role)>,
    /// What is said, and who is listed after something was said.
    pub(in crate::cli) lines: Vec<Place>,
    /// How many of the lines are said.
    pub(super) said: u64,
    /// The names of lines that others answer.
    pub(super) answered: HashSet<Box<str>>,
}

/// Lines that were left out.
#[derive(Debug, Default)]
pub(in crate::cli) struct Skipped {
    pub(super) count: u64,
    /// `line 7: why`, the first ones.
    pub(in crate::cli) named: Vec<String>,
}

/// The whole file.
#[derive(Debug)]
pub(in crate::cli) struct Survey {
    pub(in crate::cli) rooms: Vec<Room>,
    /// How many are said.
    pub(super) lines: u64,
    /// A line brings files.
    pub(super) has_files: bool,
    pub(in crate::cli) skipped: Skipped,
    file: File,
    content_bytes_max: usize,
}

/// A good line, read again.
#[derive(Debug)]
pub(in crate::cli) enum Again {
    /// With the key that it has in every run.
    Said(Box<Said>, ClientMessageId),
    /// They join here.
    Joined(Vec<Who>),
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
    pub(in crate::cli) fn of(path: &Path, content_bytes_max: usize) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut survey = Self {
            rooms: Vec::new(),
            lines: 0,
            has_files: false,
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
        let entry = match line::parse(text, self.content_bytes_max) {
            Ok(entry) => entry,
            Err(why) => return self.skipped.add(place.number, why),
        };
        let name = match &entry {
            Entry::Said(said) => &said.room,
            Entry::About(about) => &about.room,
        };
        let index = *by_name.entry(name.clone()).or_insert(self.rooms.len());
        if index == self.rooms.len() {
            self.rooms.push(Room::new(name.clone(), place.number));
        }
        let Some(room) = self.rooms.get_mut(index) else { return };
        match entry {
            Entry::Said(said) => {
                self.has_files |= !said.files.is_empty();
                room.say(*said, place);
                self.lines += 1;
            }
            Entry::About(about) => room.describe(*about, place),
        }
    }

    /// Reads a good line again.
    ///
    /// # Errors
    /// When the file cannot be read any more or has changed meanwhile.
    pub(in crate::cli) fn read(&self, place: Place) -> io::Result<Again> {
        let mut text = vec![0; place.bytes];
        self.file.read_exact_at(&mut text, place.offset)?;
        let changed = |_| io::Error::other(format!("line {} has changed while it was read", place.number));
        let said = match line::parse(&text, self.content_bytes_max).map_err(changed)? {
            Entry::Said(said) => said,
            Entry::About(about) => {
                let members = about.members.unwrap_or_default();
                return Ok(Again::Joined(members.into_iter().map(|(who, _)| who).collect()));
            }
        };
        let mut hash = Sha256::new();
        hash.update(&text);
        hash.update(format!("\n{}", place.occurrence));
        let hex = hash.finalize().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").ok(); // writing to a String cannot fail
            hex
        });
        let key =
            ClientMessageId::parse(&format!("import/{hex}")).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Again::Said(said, key))
    }
}

impl Room {
    fn new(name: ClientRequestId, number: u64) -> Self {
        Self {
            name,
            number,
            about: None,
            founders: BTreeSet::new(),
            authors: BTreeSet::new(),
            members: None,
            roles: Vec::new(),
            lines: Vec::new(),
            said: 0,
            answered: HashSet::new(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.about.as_ref().and_then(|about| about.kind).unwrap_or(Kind::Group)
    }

    fn say(&mut self, said: Said, place: Place) {
        let is_listed = self
            .members
            .as_ref()
            .is_some_and(|members| members.contains(&said.author));
        if !is_listed {
            self.founders.insert(said.author.clone());
        }
        self.authors.insert(said.author);
        if let Quotes::Line(name) = said.quotes {
            self.answered.insert(name);
        }
        self.lines.push(place);
        self.said += 1;
    }

    fn describe(&mut self, mut about: About, place: Place) {
        if let Some(members) = about.members.take() {
            let listed = self.members.get_or_insert_default();
            for (who, role) in members {
                if self.said == 0 {
                    self.founders.insert(who.clone());
                }
                if role > Role::Member {
                    self.roles.push((who.clone(), role));
                }
                listed.insert(who);
            }
            if self.said > 0 {
                self.lines.push(place);
            }
        }
        self.about.get_or_insert(about);
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
                .map(|place| match survey.read(place).unwrap() {
                    Again::Said(_, key) => key,
                    Again::Joined(joined) => panic!("{joined:?}"),
                })
                .collect::<Vec<_>>()
        };
        let first = keys();
        assert_eq!(first, keys());
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3);
    }

    /// What was imported by an earlier release is found again by these.
    #[test]
    fn a_line_has_the_key_and_the_content_that_it_always_had() {
        let line = r#"{"room":"a","at":"2018-11-05T19:30:43Z","author":"u1","thread_reply":true,"text":"hi \u00e9"}"#;
        let survey = survey(line.as_bytes());
        let Again::Said(said, key) = survey.read(survey.rooms[0].lines[0]).unwrap() else {
            panic!("something is said");
        };
        let hash = "38d5715efdc355584107856ea324eb7bfc513544ddc270e0fe281e7f36ac87df";
        assert_eq!(key.as_str(), format!("import/{hash}"));
        assert_eq!(
            said.content(&[]).as_str(),
            r#"{"text":"hi é","said_at":"2018-11-05T19:30:43Z"}"#
        );
        assert_eq!((said.message_type.as_str(), said.quotes), ("TEXT", Quotes::LineBefore));
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
        let Again::Said(said, _) = survey.read(survey.rooms[0].lines[1]).unwrap() else {
            panic!("something is said");
        };
        assert_eq!(
            said.content(&[]).as_str(),
            "{\"text\":\"two\",\"said_at\":\"2018-11-05T19:30:43Z\"}"
        );
        assert_eq!(survey.skipped.count, 10, "{:#?}", survey.skipped);
        for (index, named) in survey.skipped.named.iter().enumerate() {
            assert!(named.starts_with(&format!("line {}: ", index + 2)), "{named}");
        }
    }
}
