//! Every file says what it is for, first thing.

use super::source::{Finding, Source, rust_files};
use super::{assert_finds, assert_none, assert_passes};

fn rule(source: &Source) -> Vec<Finding> {
    if source.text.starts_with("//! ") {
        Vec::new()
    } else {
        vec![source.finding(1, "opens without `//!`: say what this is for and what it never does")]
    }
}

#[test]
fn every_file_opens_with_its_purpose() {
    let folders = ["src", "tests", "benches"];
    assert_none(
        folders
            .iter()
            .flat_map(|folder| rust_files(folder))
            .flat_map(|source| rule(&source)),
    );
}

#[test]
fn every_folder_has_a_mod_file() {
    let sources = rust_files("src");
    let paths: Vec<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    for path in &paths {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_file_beside = paths.contains(&format!("{folder}.rs").as_str());
        let has_mod = folder == "src" || is_file_beside || paths.contains(&format!("{folder}/mod.rs").as_str());
        assert!(has_mod, "{folder} has no mod.rs");
    }
}

#[test]
fn a_file_without_a_purpose_is_seen() {
    assert_finds(rule, "src/x/mod.rs", "mod y;", "opens without");
    assert_finds(rule, "src/x/mod.rs", "", "opens without");
    assert_finds(rule, "src/x/mod.rs", "// not a doc\nmod y;", "opens without");
    assert_passes(rule, "src/x/mod.rs", "//! What it is for.\nmod y;");
}
