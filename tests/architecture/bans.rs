//! What is banned outside tests, each with what to do instead.

use proc_macro2::{Delimiter, TokenTree};

use super::paths::paths_of;
use super::source::{Finding, Source, is_punct, line, rust_files, word};
use super::{assert_finds, assert_none, assert_passes};

/// Methods that panic.
const PANICKING_METHODS: &[&str] = &["unwrap", "expect", "unwrap_err", "expect_err"];
/// Macros that panic or that print past the log.
const MACROS: &[(&str, &str)] = &[
    ("panic", "return an error that says what to do"),
    ("todo", "finish it or leave it out"),
    ("unimplemented", "finish it or leave it out"),
    ("unreachable", "make the state impossible, or return an error"),
    ("dbg", "use tracing"),
    ("print", "only cli talks to standard output"),
    ("println", "only cli talks to standard output"),
    ("eprint", "use tracing"),
    ("eprintln", "use tracing"),
];
/// Where printing is the job.
const MAY_PRINT: &[&str] = &["src/cli/", "src/main.rs"];
/// Words that appear nowhere, not even in tests.
const NOWHERE: &[(&str, &str)] = &[
    ("do_send", "ignores the bound of the mailbox (B85): use try_send"),
    (
        "AssertSqlSafe",
        "query text is a literal: use sql! (no text of a client ever becomes SQL)",
    ),
];
/// Where query text is made at run time, and why no client can reach it.
const MAY_ASSERT_SQL: &[(&str, &str)] = &[
    (
        "tests/support/database.rs",
        "CREATE DATABASE takes no parameters; the name is made by the test itself",
    ),
    (
        "src/cli/check/tests.rs",
        "damages a store on purpose, with statements that stand in the test",
    ),
];
/// Who may start a task, and why it is not lost.
const MAY_SPAWN: &[(&str, &str)] = &[("src/app", "the composition root starts and stops the tasks")];

fn rule(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for level in source.levels() {
        for (index, token) in level.iter().enumerate() {
            let Some(what) = banned(&level, index, source) else {
                continue;
            };
            findings.push(source.finding(line(token), what));
        }
    }
    findings.extend(spawns(source));
    findings
}

fn banned(level: &[TokenTree], index: usize, source: &Source) -> Option<String> {
    let token = level.get(index)?;
    if let TokenTree::Group(group) = token {
        let attribute = group.delimiter() == Delimiter::Bracket
            && index > 0
            && (is_punct(level.get(index - 1), '#') || index > 1 && is_punct(level.get(index - 2), '#'));
        let text = group.stream().to_string().replace(' ', "");
        return (attribute && (text.starts_with("allow(") || text.contains(",allow(")))
            .then(|| "#[allow] hides for ever: use #[expect(…, reason = \"…\")]".to_owned());
    }
    let name = word(Some(token))?;
    let may_assert = name == "AssertSqlSafe" && MAY_ASSERT_SQL.iter().any(|(place, _)| source.path == *place);
    if let Some((_, instead)) = NOWHERE.iter().find(|(banned, _)| *banned == name && !may_assert) {
        return Some(format!("`{name}` {instead}"));
    }
    if source.is_test(line(token)) {
        return None;
    }
    let calls =
        matches!(level.get(index + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
    let before = index.checked_sub(1).and_then(|before| level.get(before));
    if calls && is_punct(before, '.') && PANICKING_METHODS.contains(&name.as_str()) {
        return Some(format!(".{name}() panics: give an error, or a default that is right"));
    }
    let is_macro = is_punct(level.get(index + 1), '!') && matches!(level.get(index + 2), Some(TokenTree::Group(_)));
    let (_, instead) = MACROS.iter().find(|(banned, _)| is_macro && *banned == name)?;
    let prints = name.contains("print") && MAY_PRINT.iter().any(|place| source.path.starts_with(place));
    (!prints).then(|| format!("{name}!: {instead}"))
}

/// A task that nobody stops outlives the shutdown, and one that is cancelled leaves a transaction open (B19).
fn spawns(source: &Source) -> Vec<Finding> {
    let may = MAY_SPAWN.iter().any(|(place, _)| source.path.starts_with(place));
    let spawning = paths_of(source).into_iter().filter(|path| {
        let first = path.segments.first().map_or("", String::as_str);
        let last = path.segments.last().map_or("", String::as_str);
        matches!(first, "tokio" | "actix" | "actix_rt" | "actix_web") && matches!(last, "spawn" | "spawn_local")
    });
    let findings = spawning.filter(|path| !may && !source.is_test(path.line)).map(|path| {
        let what = format!(
            "`{}`: only app starts tasks (or give it a row in MAY_SPAWN)",
            path.segments.join("::")
        );
        source.finding(path.line, what)
    });
    findings.collect()
}

#[test]
fn nothing_banned_is_used() {
    let folders = ["src", "tests", "benches"];
    let sources = folders.iter().flat_map(|folder| rust_files(folder));
    // This file has to name what it bans; in strings only, which are no words of the code.
    assert_none(sources.flat_map(|source| rule(&source)));
}

#[test]
fn every_place_that_may_spawn_exists_and_spawns() {
    for (place, _) in MAY_SPAWN {
        let used = rust_files("src").iter().any(|source| source.path.starts_with(place));
        assert!(used, "{place} is in MAY_SPAWN but not in src");
    }
}

#[test]
fn panics_are_seen() {
    assert_finds(rule, "src/domain/x.rs", "fn f() { x.unwrap(); }", ".unwrap()");
    assert_finds(rule, "src/domain/x.rs", "fn f() { x.expect(\"never\"); }", ".expect()");
    assert_finds(rule, "src/domain/x.rs", "macro_call! { a => b.unwrap() }", ".unwrap()");
    for name in [
        "panic",
        "todo",
        "unimplemented",
        "unreachable",
        "dbg",
        "println",
        "eprintln",
    ] {
        assert_finds(rule, "src/service/x.rs", &format!("fn f() {{ {name}!(\"x\") }}"), name);
    }
    assert_finds(rule, "src/cli/x.rs", "fn f() { panic!() }", "panic!");
    assert_passes(rule, "src/cli/x.rs", "fn f() { println!(\"listening\") }");
    assert_passes(
        rule,
        "src/domain/x.rs",
        "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); panic!() } }",
    );
    assert_passes(
        rule,
        "src/domain/x.rs",
        "#[expect(dead_code, reason = \"r\")]\nfn f() { x.unwrap_or(1); }",
    );
    assert_passes(rule, "tests/api/x.rs", "fn f() { x.unwrap(); }");
}

#[test]
fn what_is_banned_everywhere_is_seen_in_tests_too() {
    assert_finds(rule, "tests/api/x.rs", "fn f() { address.do_send(x); }", "try_send");
    assert_finds(rule, "src/storage/sql/x.rs", "sqlx::query(AssertSqlSafe(text))", "sql!");
    assert_finds(rule, "tests/storage/x.rs", "sqlx::query(AssertSqlSafe(text))", "sql!");
    assert_finds(rule, "src/domain/x.rs", "#[allow(dead_code)] fn f() {}", "#[allow]");
    assert_finds(rule, "src/domain/x.rs", "#![allow(clippy::all)]", "#[allow]");
    assert_finds(
        rule,
        "tests/x/main.rs",
        "#[cfg_attr(debug, allow(dead_code))] fn f() {}",
        "#[allow]",
    );
}

#[test]
fn tasks_outside_app_are_seen() {
    assert_finds(rule, "src/service/x.rs", "fn f() { tokio::spawn(g()); }", "only app");
    assert_finds(rule, "src/service/x.rs", "use actix::spawn;", "only app");
    assert_finds(
        rule,
        "src/service/x.rs",
        "fn f() { tokio::task::spawn_local(g()); }",
        "only app",
    );
    assert_passes(rule, "src/app.rs", "fn f() { tokio::spawn(g()); }");
    assert_passes(
        rule,
        "src/service/x.rs",
        "#[cfg(test)]\nmod tests { fn f() { tokio::spawn(g()); } }",
    );
}
