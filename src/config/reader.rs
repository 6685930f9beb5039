//! Takes one leaf after the other out of the merged sources and remembers every one that is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use config::{Value, ValueKind};
use secrecy::SecretString;

/// The merged sources, leaf by leaf. What is never taken is unknown.
pub(super) struct Reader {
    leaves: BTreeMap<String, Value>,
    known: BTreeSet<String>,
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
            known: BTreeSet::new(),
            errors: Vec::new(),
        }
    }

    /// The keys that were asked for so far.
    #[cfg(test)]
    pub(super) const fn known(&self) -> &BTreeSet<String> {
        &self.known
    }

    fn take(&mut self, key: &str) -> Option<ValueKind> {
        self.known.insert(key.to_owned());
        self.leaves.remove(key).map(|value| value.kind)
    }

    /// Notes a value that is wrong: which key, and what would be right.
    pub(super) fn complain(&mut self, key: &str, right: impl Display) {
        self.errors.push(format!("{key}: {right}"));
    }

    /// Everything that is wrong, with the leaves that nobody took.
    pub(super) fn finish(mut self) -> Vec<String> {
        for key in std::mem::take(&mut self.leaves).into_keys() {
            let section = key.split('.').next().unwrap_or_default();
            let siblings = || self.known.iter().filter_map(|known| known.split_once('.'));
            let mut keys: Vec<&str> = siblings()
                .filter(|known| known.0 == section)
                .map(|known| known.1)
                .collect();
            let (what, whose) = if keys.is_empty() {
                keys = siblings().map(|known| known.0).collect();
                keys.dedup();
                ("section", "the sections are".to_owned())
            } else {
                ("key", format!("the keys of [{section}] are"))
            };
            let right = format!("there is no such {what}; {whose} {}", keys.join(", "));
            self.complain(&key, right);
        }
        self.errors
    }

    /// A whole number inside a range.
    pub(super) fn number<T>(&mut self, key: &str, default: T, range: RangeInclusive<T>) -> T
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let Some(value) = self.take(key) else {
            return default;
        };
        let number = match value {
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
        match self.take(key) {
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
        let ValueKind::String(text) = self.take(key)? else {
            self.complain(key, "must be a text in quotes");
            return None;
        };
        Some(text).filter(|text| !text.is_empty())
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

    /// A text of many, with commas between them, each of which is read by `parse`; `right` says what it accepts.
    pub(super) fn list<T>(&mut self, key: &str, right: &str, parse: fn(&str) -> Option<T>) -> Vec<T> {
        let text = self.text(key).unwrap_or_default();
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let list: Option<Vec<T>> = parts.map(parse).collect();
        list.unwrap_or_else(|| {
            self.complain(key, right);
            Vec::new()
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
