//! What may import what: the layers of the house. A folder may use those in its row and nothing else of the crate.

use super::paths::paths_of;
use super::source::{Finding, Source, rust_files};
use super::{assert_finds, assert_none, assert_passes};

/// `(folder, what it may use, why)`. A folder may always use itself.
const LAYERS: &[(&str, &[&str], &str)] = &[
    ("domain", &[], "the rules know nothing of the world"),
    ("protocol", &["domain"], "what clients see is made from the domain"),
    ("clock", &["domain"], "gives a domain::Timestamp"),
    (
        "ids",
        &["domain", "clock"],
        "the snowflake is the domain's, the time is the clock's",
    ),
    ("storage", &["domain"], "keeps what the domain decided, in its words"),
    (
        "blobs",
        &["domain"],
        "keeps bytes; what they belong to is said elsewhere",
    ),
    ("auth", &["domain"], "a token is a Principal at a time that it is told"),
    ("config", &[], "plain data: each part is handed its own section"),
    ("telemetry", &[], "knows of nobody"),
    (
        "conversation",
        &["domain", "storage", "clock", "ids"],
        "the writer does not know delivery: app passes a Publisher in",
    ),
    (
        "routing",
        &["domain", "storage", "conversation", "clock", "ids"],
        "ids: the worker lease is what the id generator lives on",
    ),
    (
        "delivery",
        &["domain", "protocol", "storage", "clock", "conversation"],
        "conversation: what was committed is the type of its Publisher",
    ),
    (
        "relay",
        &[
            "domain",
            "protocol",
            "storage",
            "clock",
            "ids",
            "conversation",
            "service",
        ],
        "protocol: what receivers see; conversation: what has moved is told by its Publisher; service: refusals for the doors",
    ),
    (
        "service",
        &["domain", "storage", "blobs", "conversation", "routing", "clock", "ids"],
        "use cases speak domain; they know no transport and no wire",
    ),
    (
        "transport",
        &["domain", "protocol", "service", "auth", "clock", "delivery", "relay"],
        "the doors: extract, ask the service, respond (clock: a token is judged at the time of its arrival)",
    ),
    (
        "load",
        &[],
        "a client like any other: it knows the wire and nothing of the inside",
    ),
    ("app", &["*"], "the composition root builds everything"),
    (
        "cli",
        &["app", "blobs", "clock", "config", "storage", "domain", "load"],
        "commands start the app, read a store or load a server",
    ),
];

fn layer(folder: &str) -> Option<&'static (&'static str, &'static [&'static str], &'static str)> {
    LAYERS.iter().find(|(name, _, _)| *name == folder)
}

fn rule(source: &Source) -> Vec<Finding> {
    let module = source.module();
    let Some(folder) = module.first() else {
        return root_rule(source);
    };
    let Some((_, may_use, why)) = layer(folder) else {
        return vec![source.finding(
            0,
            format!("`{folder}` has no row in LAYERS (tests/architecture/folders.rs)"),
        )];
    };
    let mut findings = Vec::new();
    for path in paths_of(source) {
        let [first, target, ..] = path.segments.as_slice() else {
            continue;
        };
        let known = first == "crate" && layer(target).is_some();
        if known && target != folder && !may_use.contains(&target.as_str()) && !may_use.contains(&"*") {
            let what = format!("`{folder}` may not use `{}`: {why}", path.segments.join("::"));
            findings.push(source.finding(path.line, what));
        }
    }
    findings
}

/// `lib.rs` only declares; `main.rs` only starts the command line.
fn root_rule(source: &Source) -> Vec<Finding> {
    let foreign = paths_of(source).into_iter().filter(|path| {
        let [first, target, ..] = path.segments.as_slice() else {
            return false;
        };
        first == "onescribe" && target != "cli"
    });
    foreign
        .map(|path| {
            source.finding(
                path.line,
                format!("main may only use cli, not `{}`", path.segments.join("::")),
            )
        })
        .collect()
}

#[test]
fn folders_use_only_what_they_may() {
    assert_none(rust_files("src").iter().flat_map(rule));
}

#[test]
fn every_row_is_a_folder_or_file_of_the_crate() {
    let sources = rust_files("src");
    for (folder, _, _) in LAYERS {
        let exists = sources
            .iter()
            .any(|source| source.module().first().is_some_and(|first| first == folder));
        assert!(exists, "`{folder}` is in LAYERS but not in src");
    }
}

#[test]
fn every_permission_is_used() {
    let sources = rust_files("src");
    let mut stale = Vec::new();
    for (folder, may_use, _) in LAYERS {
        let inside = sources
            .iter()
            .filter(|source| source.module().first().is_some_and(|first| first == folder));
        let paths: Vec<_> = inside.flat_map(paths_of).collect();
        for target in may_use.iter().filter(|target| **target != "*") {
            if !paths
                .iter()
                .any(|path| path.segments.get(1).is_some_and(|second| second == target))
            {
                stale.push(format!("`{folder}` does not use `{target}`: take it out of its row"));
            }
        }
    }
    assert_eq!(stale, Vec::<String>::new());
}

#[test]
fn forbidden_imports_are_seen() {
    assert_finds(rule, "src/domain/x.rs", "use crate::storage::Store;", "may not use");
    assert_finds(
        rule,
        "src/domain/x/y.rs",
        "use super::super::super::clock::Clock;",
        "clock::Clock",
    );
    assert_finds(
        rule,
        "src/conversation/actor.rs",
        "fn f() { crate::delivery::hub() }",
        "delivery",
    );
    assert_finds(
        rule,
        "src/service/x.rs",
        "use crate::{domain::Seq, protocol::view};",
        "protocol",
    );
    assert_finds(rule, "src/service/x.rs", "macro! { crate::transport::x }", "transport");
    assert_finds(rule, "src/gossip/mod.rs", "", "no row");
    assert_finds(
        rule,
        "src/main.rs",
        "fn main() { onescribe::app::run() }",
        "only use cli",
    );
    assert_passes(
        rule,
        "src/service/x.rs",
        "use crate::domain::Seq; use crate::service::y; use super::z;",
    );
    assert_passes(rule, "src/app.rs", "use crate::transport::ws;");
}
