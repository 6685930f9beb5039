//! Invariants are cited by name; a name that stands nowhere in the table of `src/lib.rs` means nothing.

use std::collections::BTreeSet;

use super::source::{read, rust_files};

/// `INV-SEQ-1` and the like in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-'));
    let names = words.map(|word| word.trim_matches('-'));
    let complete = names.filter(|name| name.starts_with("INV-") && name.ends_with(|c: char| c.is_ascii_digit()));
    complete.map(str::to_owned).collect()
}

#[test]
fn every_invariant_that_is_cited_is_in_the_table() {
    let table = named(&read("src/lib.rs"));
    assert!(table.len() >= 10, "{table:?}");
    for source in ["src", "tests", "benches"].iter().flat_map(|folder| rust_files(folder)) {
        let unknown: Vec<String> = named(&source.text).difference(&table).cloned().collect();
        assert!(
            unknown.is_empty() || source.path.starts_with("tests/architecture/"),
            "{}: {unknown:?}",
            source.path
        );
    }
}

#[test]
fn names_are_read() {
    let found = named("(INV-SEQ-1), INV-IDEM-1: never INV-X or INVALID-1");
    assert_eq!(
        found.iter().map(String::as_str).collect::<Vec<_>>(),
        ["INV-IDEM-1", "INV-SEQ-1"]
    );
}
