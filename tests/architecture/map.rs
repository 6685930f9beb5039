//! The map in `src/lib.rs` (the front page of the documentation) shows the tree as it is.

use std::collections::BTreeSet;

use super::source::{files_under, read};

/// The paths that a drawn tree names, folders with a slash at the end.
fn drawn(text: &str) -> BTreeSet<String> {
    let mut parents: Vec<String> = Vec::new();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let line = line
            .strip_prefix("//!")
            .map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest));
        let name = line.trim_start_matches(['│', '├', '└', '─', ' ']);
        let is_branch = name.len() < line.len() && (line.contains("├── ") || line.contains("└── "));
        let name = name.split_whitespace().next().unwrap_or_default();
        if !is_branch || name.is_empty() {
            continue;
        }
        let depth = (line
            .chars()
            .take_while(|c| matches!(c, '│' | '├' | '└' | '─' | ' '))
            .count()
            / 4)
        .max(1);
        parents.truncate(depth - 1);
        found.insert(format!("{}{name}", parents.concat()));
        parents.push(name.to_owned());
    }
    found
}

/// The folders under `src` and the files at its top: what the map must show. Folders of unit tests are no rooms.
fn required(files: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let shown = files.iter().filter(|path| !path.contains("/tests/"));
    for path in shown.filter_map(|path| path.strip_prefix("src/")) {
        if !path.contains('/') && path != "lib.rs" {
            found.insert(path.to_owned());
        }
        found.extend(path.match_indices('/').map(|(end, _)| path[..=end].to_owned()));
    }
    found
}

fn wrong(map: &str, files: &[String]) -> Vec<String> {
    let drawn = drawn(map);
    let required = required(files);
    let missing = required
        .difference(&drawn)
        .map(|path| format!("src/{path} is not on the map in src/lib.rs"));
    let gone = drawn.iter().filter(|path| {
        let is_file = files
            .iter()
            .any(|file| file.strip_prefix("src/") == Some(path.as_str()));
        !is_file && !required.contains(*path)
    });
    missing
        .chain(gone.map(|path| format!("the map in src/lib.rs names src/{path}, which is not there")))
        .collect()
}

#[test]
fn the_map_shows_the_tree_as_it_is() {
    assert_eq!(wrong(&read("src/lib.rs"), &files_under("src")), Vec::<String>::new());
}

#[test]
fn a_wrong_map_is_seen() {
    let files = [
        "src/lib.rs",
        "src/app.rs",
        "src/domain/ids.rs",
        "src/storage/sql/mod.rs",
    ]
    .map(str::to_owned);
    let good = "//! ├── app.rs       builds\n//! ├── domain/      rules\n//! │   └── ids.rs   ids\n//! └── storage/     facts\n//!     └── sql/     SQL\n";
    assert_eq!(wrong(good, &files), Vec::<String>::new());
    assert_eq!(
        wrong(&good.replace("domain", "domains"), &files).len(),
        3,
        "one is missing, two are not there"
    );
    assert_eq!(wrong(&good.replace("ids.rs", "ids2.rs"), &files).len(), 1);
    assert_eq!(wrong(&good.replace("    └── sql/", "            "), &files).len(), 1);
}
