//! The texts that the rules read: files of the tree, their tokens, and which lines of them are test code.

use std::fmt;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// Where the repository is.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of one file of the repository.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files under a folder of the repository, as paths from its root, in order.
pub(crate) fn files_under(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let relative = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    let mut paths: Vec<String> = found.iter().map(relative).collect();
    paths.sort();
    paths
}

/// All Rust files under a folder.
pub(crate) fn rust_files(folder: &str) -> Vec<Source> {
    let paths = files_under(folder);
    let rust = paths.iter().filter(|path| is_rust(path));
    rust.map(|path| Source::new(path, &read(path))).collect()
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// What a rule has against a file.
#[derive(Debug)]
pub(crate) struct Finding {
    /// From the root of the repository.
    pub(crate) path: String,
    /// Counted from 1; 0 = the whole file.
    pub(crate) line: usize,
    /// The rule, and what is wrong.
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A Rust file.
pub(crate) struct Source {
    /// From the root of the repository: `src/domain/ids.rs`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
    /// Its tokens, also those inside macros.
    pub(crate) tokens: TokenStream,
    tests: Vec<RangeInclusive<usize>>,
}

impl Source {
    /// Reads the tokens of a text.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut tests = Vec::new();
        test_lines(&tokens.clone().into_iter().collect::<Vec<_>>(), &mut tests);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens,
            tests,
        }
    }

    /// Something against this file.
    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            what: what.into(),
        }
    }

    /// Is this line part of a `#[cfg(test)]` item, or the whole file test code?
    pub(crate) fn is_test(&self, line: usize) -> bool {
        let whole = !self.path.starts_with("src/") || self.path.ends_with("/tests.rs") || self.path.contains("/tests/");
        whole || self.tests.iter().any(|range| range.contains(&line))
    }

    /// `src/domain/ids.rs` -> `["domain", "ids"]`; `mod.rs`, `lib.rs` and `main.rs` are their folder.
    pub(crate) fn module(&self) -> Vec<String> {
        let path = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let mut parts: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if parts
            .last()
            .is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main"))
        {
            parts.pop();
        }
        parts
    }

    /// Every run of tokens of one nesting level, outermost first.
    pub(crate) fn levels(&self) -> Vec<Vec<TokenTree>> {
        fn walk(stream: TokenStream, levels: &mut Vec<Vec<TokenTree>>) {
            let level: Vec<TokenTree> = stream.into_iter().collect();
            let groups: Vec<TokenStream> = level
                .iter()
                .filter_map(|token| match token {
                    TokenTree::Group(group) => Some(group.stream()),
                    _ => None,
                })
                .collect();
            levels.push(level);
            for group in groups {
                walk(group, levels);
            }
        }
        let mut levels = Vec::new();
        walk(self.tokens.clone(), &mut levels);
        levels
    }
}

/// The line on which a token begins.
pub(crate) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// The identifier that a token is.
pub(crate) fn word(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// Is it this punctuation character?
pub(crate) fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

/// Each item behind `#[cfg(test)]` ends with its block or its semicolon.
fn test_lines(level: &[TokenTree], found: &mut Vec<RangeInclusive<usize>>) {
    let mut index = 0;
    while let Some(token) = level.get(index) {
        let TokenTree::Group(group) = token else {
            index += 1;
            continue;
        };
        let after_hash = index > 0 && is_punct(level.get(index - 1), '#');
        if after_hash && group.stream().to_string().replace(' ', "") == "cfg(test)" {
            let end = level[index..]
                .iter()
                .position(|token| is_punct(Some(token), ';') || token.to_string().starts_with('{'))
                .map_or(level.len() - 1, |offset| index + offset);
            found.push(line(token)..=level[end].span().end().line);
            index = end;
        } else {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            test_lines(&inner, found);
        }
        index += 1;
    }
}

#[test]
fn test_code_is_told_from_the_rest() {
    let text =
        "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nmod m {\n  #[cfg(test)]\n  use x::y;\n  fn c() {}\n}\n";
    let source = Source::new("src/domain/x.rs", text);
    let test_lines: Vec<usize> = (1..=10).filter(|line| source.is_test(*line)).collect();
    assert_eq!(test_lines, [2, 3, 4, 5, 7, 8]);
    assert!(Source::new("src/domain/decide/tests.rs", "fn a() {}").is_test(1));
    assert_eq!(Source::new("src/storage/sql/mod.rs", "").module(), ["storage", "sql"]);
    assert!(Source::new("src/lib.rs", "").module().is_empty());
}
