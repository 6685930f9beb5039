//! Takes one leaf after the other out of the merged sources and remembers every one that is wrong.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use config::{Value, ValueKind};
use secrecy::SecretString;

/// The merged sources, leaf by leaf. What is never taken is unknown.
pub(super) struct Reader {
    leaves: BTreeMap<String, Value>,
    errors: Vec<String>,
}

impl Reader {
    /// Over the top-level table: sections of leaves.
    pub(super) fn new(sections: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut leaves = BTreeMap::new();
        for (section, value) in sections {
            match value.kind {
                ValueKind::Table(table) => {
                    leaves.extend(table.into_iter().map(|(key, leaf)| (format!("{section}.{key}"), leaf)));
                }
                _ => drop(leaves.insert(section, value)),
            }
        }
        Self {
            leaves,
            errors: Vec::new(),
        }
    }

    /// Notes a value that is wrong: which key, and what would be right.
    pub(super) fn complain(&mut self, key: &str, right: impl Display) {
        self.errors.push(format!("{key}: {right}"));
    }

    /// Everything that is wrong, with the leaves that nobody took.
    pub(super) fn finish(mut self) -> Vec<String> {
        for (key, value) in std::mem::take(&mut self.leaves) {
            let from = value
                .origin()
                .map(|origin| format!(" (in {origin})"))
                .unwrap_or_default();
            self.complain(
                &key,
                format_args!("there is no such key{from}; config.toml lists all of them"),
            );
        }
        self.errors
    }

    /// A whole number inside a range.
    pub(super) fn number<T>(&mut self, key: &str, default: T, range: RangeInclusive<T>) -> T
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let Some(value) = self.leaves.remove(key) else {
            return default;
        };
        let number = match value.kind {
            ValueKind::I64(number) => Some(number),
            ValueKind::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).unwrap_or_else(|| {
            let right = format!("must be a whole number from {} to {}", range.start(), range.end());
            self.complain(key, right);
            default
        })
    }

    /// `true` or `false`.
    pub(super) fn switch(&mut self, key: &str, default: bool) -> bool {
        match self.leaves.remove(key).map(|value| value.kind) {
            None => default,
            Some(ValueKind::Boolean(on)) => on,
            Some(ValueKind::String(text)) if text == "true" => true,
            Some(ValueKind::String(text)) if text == "false" => false,
            Some(_) => {
                self.complain(key, "must be true or false");
                default
            }
        }
    }

    /// A text; an empty one counts as not set, so that `KEY=` in an environment file does no harm.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        match self.leaves.remove(key)?.kind {
            ValueKind::String(text) => Some(text).filter(|text| !text.is_empty()),
            _ => {
                self.complain(key, "must be a text in quotes");
                None
            }
        }
    }

    /// A text that is read by `parse`; `right` says what it accepts.
    pub(super) fn parsed<T>(&mut self, key: &str, default: T, right: &str, parse: fn(&str) -> Option<T>) -> T {
        let Some(text) = self.text(key) else {
            return default;
        };
        parse(&text).unwrap_or_else(|| {
            self.complain(key, right);
            default
        })
    }

    /// A text that is never printed.
    pub(super) fn secret(&mut self, key: &str) -> Option<SecretString> {
        self.text(key).map(SecretString::from)
    }

    /// A file that can be read.
    pub(super) fn file(&mut self, key: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.text(key)?);
        if let Err(error) = std::fs::File::open(&path).and_then(|file| file.metadata()) {
            self.complain(key, format_args!("cannot read {}: {error}", path.display()));
        }
        Some(path)
    }
}
