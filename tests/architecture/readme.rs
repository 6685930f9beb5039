//! What the papers name is there: links, paths and commands of every Markdown file.

use std::fs;

use super::source::{Finding, files_under, read, root};

/// A word in back quotes that ends like this is a file of ours.
const ENDINGS: [&str; 6] = [".rs", ".toml", ".md", ".sql", ".sh", ".svg"];
/// Paths that are made by running something.
const MADE: [&str; 2] = ["target/", "onescribe.db"];

fn wrong(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut code = false;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (index, line) in text.lines().enumerate() {
        let mut say = |what: String| {
            findings.push(Finding {
                path: path.to_owned(),
                line: index + 1,
                what,
            });
        };
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if code || line.starts_with("    ") {
            command_wrong(line.trim().trim_start_matches("$ "))
                .into_iter()
                .for_each(&mut say);
        } else {
            let links = links(line).into_iter().filter(|target| !exists(folder, target));
            links.for_each(|target| say(format!("the link to {target} leads nowhere")));
            for quoted in line.split('`').skip(1).step_by(2) {
                if is_path(quoted) && !exists(folder, quoted) && !exists("", quoted) {
                    say(format!("`{quoted}` is not there"));
                }
                if quoted.contains(' ') {
                    command_wrong(quoted).into_iter().for_each(&mut say);
                }
            }
        }
    }
    findings
}

/// Targets of `[text](target)` inside the repository.
fn links(line: &str) -> Vec<&str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let inside =
        targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.starts_with("mailto:"));
    inside
        .map(|target| target.split('#').next().unwrap_or(target))
        .collect()
}

fn exists(folder: &str, path: &str) -> bool {
    root().join(folder).join(path).exists() || MADE.iter().any(|made| path.starts_with(made))
}

/// Is this word in back quotes a path of the repository?
fn is_path(quoted: &str) -> bool {
    let plain = !quoted.is_empty() && quoted.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let first = quoted.split('/').next().unwrap_or_default();
    let below_a_folder = quoted.contains('/') && !first.is_empty() && root().join(first).is_dir();
    let named_like_one = ENDINGS
        .iter()
        .any(|ending| quoted.ends_with(ending) && quoted.len() > ending.len());
    plain && (below_a_folder || named_like_one)
}

/// What a command line names that does not exist.
fn command_wrong(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |flag: &str| {
        words
            .iter()
            .position(|word| *word == flag)
            .and_then(|at| words.get(at + 1).copied())
    };
    let mut wrong = Vec::new();
    match words.first().copied() {
        Some("cargo") => {
            for (flag, folder) in [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")] {
                let named = after(flag).filter(|name| !target_exists(folder, name));
                wrong.extend(named.map(|name| format!("`{line}`: there is no {folder}/{name}")));
            }
            if words.get(1) == Some(&"run") {
                wrong.extend(after("--").and_then(|command| subcommand_wrong(line, command)));
            }
        }
        Some("onescribe" | "./target/release/onescribe" | "target/release/onescribe") => {
            wrong.extend(words.get(1).and_then(|command| subcommand_wrong(line, command)));
        }
        Some("bash" | "sh") => wrong.extend(
            words
                .get(1)
                .filter(|path| is_missing_script(path))
                .map(|path| format!("there is no {path}")),
        ),
        Some(path) if path.contains('/') && is_missing_script(path) => wrong.push(format!("there is no {path}")),
        _ => {}
    }
    wrong
}

/// A script under a folder of ours that is not there.
fn is_missing_script(path: &str) -> bool {
    let path = path.trim_start_matches("./");
    is_path(path) && !exists("", path)
}

fn target_exists(folder: &str, name: &str) -> bool {
    let base = root().join(folder);
    base.join(name).join("main.rs").exists()
        || base.join(format!("{name}.rs")).exists()
        || read("Cargo.toml").contains(&format!("name = \"{name}\""))
}

/// Commands have one file each in `src/cli`.
fn subcommand_wrong(line: &str, command: &str) -> Option<String> {
    let is_word = command.chars().all(|c| c.is_ascii_lowercase());
    let known = fs::exists(root().join(format!("src/cli/{command}.rs"))).unwrap_or(false);
    (is_word && !known).then(|| format!("`{line}`: there is no src/cli/{command}.rs"))
}

#[test]
fn what_the_papers_name_is_there() {
    let papers = files_under("")
        .into_iter()
        .filter(|path| path.to_lowercase().ends_with(".md"));
    super::assert_none(papers.flat_map(|path| wrong(&path, &read(&path))));
}

#[test]
fn what_is_not_there_is_seen() {
    let count = |text: &str| wrong("README.md", text).len();
    assert_eq!(
        count("see [the map](src/lib.rs), [that](https://example.org/x) and [below](#below)"),
        0
    );
    assert_eq!(count("see [the map](src/map.rs)"), 1);
    assert_eq!(
        count("`src/lib.rs`, `Cargo.toml`, `/v1/ws`, `application/json`, `a/b`, `target/release/onescribe`"),
        0
    );
    assert_eq!(count("`src/gone.rs` and `gone.toml` and `tests/gone/`"), 3);
    assert_eq!(count("```sh\ncargo test --test architecture\n```"), 0);
    assert_eq!(count("    cargo test --test gone\n\n    tests/run"), 1);
    assert_eq!(
        count("```sh\ncargo test --test gone\ncargo bench --bench gone\n$ onescribe fly --high\n```"),
        3
    );
    assert_eq!(
        count("```sh\ncargo run --release -- fly\ntests/gone\nbash tests/gone.sh\n```"),
        3
    );
}
