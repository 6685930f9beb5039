//! How large things may be: the central file that grows without end is the commonest fault of the good ones.

use proc_macro2::{Delimiter, TokenTree};

use super::source::{Finding, Source, rust_files, word};
use super::{assert_finds, assert_none, assert_passes};

/// A file is a noun.
const FILE_LINES_MAX: usize = 500;
/// A function can be read at once.
const FUNCTION_LINES_MAX: usize = 70;
/// A test may tell a longer story.
const TEST_FUNCTION_LINES_MAX: usize = 100;

fn rule(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(source.finding(
            0,
            format!("{lines} lines; a file has at most {FILE_LINES_MAX}: split it by noun"),
        ));
    }
    for (name, first, lines) in functions(source) {
        let max = if source.is_test(first) {
            TEST_FUNCTION_LINES_MAX
        } else {
            FUNCTION_LINES_MAX
        };
        if lines > max {
            findings.push(source.finding(
                first,
                format!("fn {name} has {lines} lines of code; at most {max}: split it"),
            ));
        }
    }
    findings
}

/// `(name, first line, lines of code in the body)` of every function, also inside macros. Blank lines and comments
/// are not counted, as clippy's `too_many_lines` does.
fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let text: Vec<&str> = source.text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for level in source.levels() {
        for (index, token) in level.iter().enumerate() {
            let is_fn = word(Some(token)).as_deref() == Some("fn");
            let Some(name) = is_fn.then(|| word(level.get(index + 1))).flatten() else {
                continue;
            };
            let body = level[index..]
                .iter()
                .take_while(|token| token.to_string() != ";")
                .find_map(|token| match token {
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
                    _ => None,
                });
            let Some(body) = body else { continue };
            let inside = body.span_open().end().line..body.span_close().start().line.saturating_sub(1);
            let code = text.get(inside).unwrap_or_default().iter();
            let lines = code.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
            found.push((name, token.span().start().line, lines));
        }
    }
    found
}

#[test]
fn files_and_functions_are_small() {
    let folders = ["src", "tests", "benches"];
    assert_none(
        folders
            .iter()
            .flat_map(|folder| rust_files(folder))
            .flat_map(|source| rule(&source)),
    );
}

#[test]
fn long_files_and_functions_are_seen() {
    let long_body = |lines| format!("impl X {{ fn long(&self) {{\n{}}} }}", "    step();\n".repeat(lines));
    assert_finds(rule, "src/domain/x.rs", &"// line\n".repeat(501), "501 lines");
    assert_finds(rule, "tests/api/x.rs", &"// line\n".repeat(501), "501 lines");
    assert_finds(rule, "src/domain/x.rs", &long_body(71), "fn long has 71");
    assert_finds(
        rule,
        "src/storage/sql/x.rs",
        &format!("sql_impl! {{ {} }}", long_body(71)),
        "fn long has 71",
    );
    assert_finds(rule, "benches/x.rs", &long_body(101), "fn long has 101");
    assert_passes(rule, "src/domain/x.rs", &long_body(70));
    assert_passes(rule, "tests/api/x.rs", &long_body(100));
    assert_passes(
        rule,
        "src/domain/x.rs",
        &format!("fn f() {{\n{}}}", "    // why\n\n".repeat(80)),
    );
}
