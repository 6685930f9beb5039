//! Which crates may appear where: a crate that is found in one folder can be replaced there.

use super::paths::paths_of;
use super::source::{Finding, Source, read, rust_files};
use super::{assert_finds, assert_none, assert_passes};

/// Every folder but `domain`, which has to be named.
const EVERYWHERE: &str = "*";

/// `(crate, folders or files of src where it may be named, why)`: one row for each dependency of `Cargo.toml`.
const PLACES: &[(&str, &[&str], &str)] = &[
    (
        "actix",
        &["app", "conversation", "delivery", "routing", "transport"],
        "actors live here; rules, storage and use cases need none",
    ),
    ("actix-http", &["transport"], "frames of a socket"),
    (
        "actix-multipart",
        &["transport/rest/files"],
        "forms are a thing of one door",
    ),
    ("actix-rt", &["app", "cli"], "the runtime is started once"),
    (
        "actix-web",
        &["app", "telemetry", "transport"],
        "HTTP is the business of the doors",
    ),
    (
        "actix-web-actors",
        &["transport/ws"],
        "deprecated by its authors: behind one seam",
    ),
    (
        "anyhow",
        &["app", "cli"],
        "inside, errors are types that say what to do",
    ),
    ("async-trait", &[EVERYWHERE], "traits that are passed in"),
    ("bytes", &[EVERYWHERE], "one encoding shared by many"),
    ("bytestring", &[EVERYWHERE], "one encoding shared by many"),
    ("clap", &["cli"], "the command line"),
    ("config", &["config"], "files and environment, layered"),
    ("dashmap", &["delivery", "routing"], "maps that many threads share"),
    ("futures-util", &[EVERYWHERE], "streams"),
    ("governor", &["transport"], "who asks too often is told so at the doors"),
    ("hdrhistogram", &["load"], "latencies"),
    (
        "image",
        &["service/files/pictures"],
        "what hostile files are decoded with is called in one place",
    ),
    ("indicatif", &["cli"], "progress of long commands"),
    (
        "infer",
        &["service/files/sniff"],
        "what bytes look like is asked in one place",
    ),
    (
        "ipnet",
        &["config", "transport"],
        "networks of proxies that are believed",
    ),
    (
        "jsonwebtoken",
        &["auth"],
        "tokens end at auth: inside there are principals",
    ),
    ("mimalloc", &["main"], "the allocator is chosen once"),
    ("moka", &["service"], "a cache where a measurement asked for one"),
    (
        "object_store",
        &["blobs"],
        "where bytes lie can be another library's business",
    ),
    ("plotters", &["cli/bench"], "charts of a report"),
    ("rand", &[EVERYWHERE], "chance is handed to the domain, if ever"),
    (
        "reqwest",
        &["load", "relay/webhooks/call"],
        "whom we call, and by which address, is decided in one place; load: a client that makes groups",
    ),
    ("rustix", &["main"], "what the kernel is asked once, at the start"),
    (
        "secrecy",
        &["app", "auth", "blobs", "config"],
        "secrets that no log can show",
    ),
    ("serde", &["domain", EVERYWHERE], "how values are written down"),
    (
        "serde_json",
        &["domain/attachment", "domain/content", "domain/json", EVERYWHERE],
        "domain: content is JSON that is passed through as it came (RawValue), so its rules read it as such",
    ),
    ("sha2", &["domain/chain", EVERYWHERE], "domain: fingerprints are a rule"),
    ("socket2", &["transport/ws"], "what the kernel may hold for a socket"),
    ("sqlx", &["storage/sql"], "no row and no statement leaves storage/sql"),
    (
        "standardwebhooks",
        &["relay/webhooks"],
        "signatures that receivers check with a library of their own",
    ),
    ("thiserror", &["domain", EVERYWHERE], "errors are types"),
    (
        "time",
        &["domain/time"],
        "text of a time; everywhere else it is milliseconds",
    ),
    ("tokio", &[EVERYWHERE], "channels, timers, signals"),
    (
        "tokio-tungstenite",
        &["load"],
        "the clients of the load: not the code that serves",
    ),
    (
        "tokio-util",
        &["transport/ws"],
        "the frame codec reads a stream of bytes",
    ),
    ("tracing", &[EVERYWHERE], "logs"),
    (
        "tracing-actix-web",
        &["app", "telemetry", "transport"],
        "request ids in the spans",
    ),
    (
        "tracing-subscriber",
        &["telemetry"],
        "how logs are written is decided once",
    ),
    (
        "uuid",
        &["app", "blobs", "routing", "transport"],
        "names of nodes, sessions, store epochs, objects",
    ),
    (
        "xxhash-rust",
        &["routing"],
        "the owner of a conversation must not change with a release",
    ),
];

/// `storage/sql/rows`; `lib` and `main` are themselves.
fn module_of(source: &Source) -> String {
    match source.module() {
        module if module.is_empty() => source
            .path
            .trim_start_matches("src/")
            .trim_end_matches(".rs")
            .to_owned(),
        module => module.join("/"),
    }
}

fn is_in(module: &str, place: &str) -> bool {
    module == place || module.starts_with(&format!("{place}/"))
}

fn rule(source: &Source) -> Vec<Finding> {
    let module = module_of(source);
    let mut findings = Vec::new();
    for path in paths_of(source) {
        if source.is_test(path.line) {
            continue;
        }
        let name = path.segments.first().map_or("", String::as_str);
        let Some((name, places, why)) = PLACES.iter().find(|(row, _, _)| row.replace('-', "_") == name) else {
            continue;
        };
        let here = |place: &&str| is_in(&module, place);
        let anywhere = places.contains(&EVERYWHERE) && module != "domain" && !module.starts_with("domain/");
        if !anywhere && !places.iter().any(here) {
            findings.push(source.finding(path.line, format!("`{name}` may only be in {places:?}: {why}")));
        }
    }
    findings
}

/// The names in `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest
        .split("\n[")
        .find(|section| section.starts_with("dependencies]"));
    let lines = section
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[test]
fn crates_are_only_where_they_may_be() {
    assert_none(rust_files("src").iter().flat_map(rule));
}

#[test]
fn every_dependency_has_a_row_and_every_row_a_dependency() {
    let rows: Vec<String> = PLACES.iter().map(|(name, _, _)| (*name).to_owned()).collect();
    let mut present = dependencies(&read("Cargo.toml"));
    present.sort();
    assert_eq!(
        present, rows,
        "tests/architecture/crates.rs says where each dependency may be, in alphabetical order"
    );
}

#[test]
fn every_dependency_is_used_and_every_place_has_it() {
    let sources = rust_files("src");
    let named: Vec<(String, String)> = sources
        .iter()
        .flat_map(|source| {
            let module = module_of(source);
            let paths = paths_of(source).into_iter();
            paths.filter_map(move |path| Some((path.segments.first()?.clone(), module.clone())))
        })
        .collect();
    let mut stale = Vec::new();
    for (name, places, _) in PLACES {
        let used: Vec<&String> = named
            .iter()
            .filter(|(first, _)| *first == name.replace('-', "_"))
            .map(|(_, module)| module)
            .collect();
        if used.is_empty() {
            stale.push(format!("{name} is not used: take it out of Cargo.toml"));
        }
        for place in places.iter().filter(|place| **place != EVERYWHERE) {
            if !used.iter().any(|module| is_in(module, place)) {
                stale.push(format!("{name} is not used in {place}: take the place out of its row"));
            }
        }
    }
    assert_eq!(stale, Vec::<String>::new());
}

#[test]
fn crates_out_of_place_are_seen() {
    assert_finds(rule, "src/service/x.rs", "use sqlx::Row;", "sqlx");
    assert_finds(rule, "src/storage/mod.rs", "fn f(e: sqlx::Error) {}", "sqlx");
    assert_finds(rule, "src/domain/policy.rs", "use tokio::time::Instant;", "tokio");
    assert_finds(rule, "src/domain/policy.rs", "use serde_json::Value;", "serde_json");
    assert_finds(rule, "src/service/x.rs", "use actix_web::web;", "actix-web");
    assert_finds(rule, "src/storage/sql/x.rs", "macro! { actix::spawn(x) }", "actix");
    assert_finds(
        rule,
        "src/transport/rest/x.rs",
        "use jsonwebtoken as jwt;",
        "jsonwebtoken",
    );
    assert_finds(
        rule,
        "src/transport/rest/x.rs",
        "use actix_web_actors::ws;",
        "transport/ws",
    );
    assert_finds(rule, "src/lib.rs", "use clap::Parser;", "clap");
    assert_passes(rule, "src/storage/sql/x.rs", "use sqlx::Row;");
    assert_passes(rule, "src/domain/content.rs", "use serde_json::value::RawValue;");
    assert_passes(rule, "src/cli/x.rs", "use crate::config; fn f() { config::load() }");
    assert_eq!(
        dependencies("[package]\nname = \"x\"\n\n[dependencies]\na-b = \"1\"\n\n[dev-dependencies]\nc = \"1\"\n"),
        ["a-b"]
    );
}
