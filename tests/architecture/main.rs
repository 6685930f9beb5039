//! The house held up by tests: what may import what, how large a thing may be, what is banned, and that the papers
//! (README, map, migrations, error codes, lock file) agree with the tree.
//!
//! Every rule is a function from texts to findings; each has a test that feeds it a bad text, so that it can fail.
#![cfg(test)]

mod bans;
mod codes;
mod crates;
mod docs;
mod folders;
mod invariants;
mod lockfile;
mod map;
mod marks;
mod migrations;
mod paths;
mod readme;
mod size;
mod source;

use source::{Finding, Source};

/// Fails with every finding at once, one a line: file, line, what is wrong and what to do.
#[track_caller]
fn assert_none(findings: impl IntoIterator<Item = Finding>) {
    let list: Vec<String> = findings.into_iter().map(|finding| finding.to_string()).collect();
    assert!(list.is_empty(), "{} findings:\n{}", list.len(), list.join("\n"));
}

/// The rule must object to the text, with a message that has this word.
#[track_caller]
fn assert_finds(rule: impl Fn(&Source) -> Vec<Finding>, path: &str, text: &str, word: &str) {
    let findings = rule(&Source::new(path, text));
    assert!(
        findings.iter().any(|finding| finding.what.contains(word)),
        "the rule does not see {word} in {path}: {text}; it says {findings:?}"
    );
}

/// The rule must have nothing against the text.
#[track_caller]
fn assert_passes(rule: impl Fn(&Source) -> Vec<Finding>, path: &str, text: &str) {
    assert_none(rule(&Source::new(path, text)));
}
