//! No marks of unfinished work: what is here is finished, what is not is an issue.

use super::source::{Finding, files_under, read};

/// Put together here, so that this file does not find itself.
fn marks() -> [String; 6] {
    [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["HA", "CK"],
        ["W", "IP"],
        ["#[ig", "nore"],
    ]
    .map(|parts| parts.concat())
}

fn wrong(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for mark in marks() {
            let is_word = mark.chars().all(char::is_alphanumeric);
            if if is_word {
                words.contains(&mark.as_str())
            } else {
                line.contains(&mark)
            } {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: index + 1,
                    what: format!("`{mark}`: finish it, or file an issue and leave it out"),
                });
            }
        }
    }
    findings
}

#[test]
fn nothing_is_marked_as_unfinished() {
    let endings = [".rs", ".toml", ".md", ".sql", ".sh", ".py", ".yml", ".txt", "/run"];
    let paths = files_under("");
    let texts = paths
        .iter()
        .filter(|path| endings.iter().any(|ending| path.ends_with(ending)));
    super::assert_none(texts.flat_map(|path| wrong(path, &read(path))));
}

#[test]
fn marks_are_seen() {
    for mark in marks() {
        assert_eq!(wrong("src/x.rs", &format!("fine\n// {mark}: later")).len(), 1, "{mark}");
    }
    assert!(wrong("tests/run", "mktemp -d /tmp/x.XXXXXX").is_empty());
}
