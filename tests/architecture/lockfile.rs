//! Crates that must not come in, not even through others: read from `Cargo.lock`, so that it holds without cargo-deny
//! (`deny.toml` says the same and adds licences and advisories).

use super::source::read;

/// One entry of the lock file.
struct Package {
    name: String,
    version: (u64, u64, u64),
    dependencies: Vec<String>,
}

struct Ban {
    name: &'static str,
    /// Banned below this version; `None` = at any.
    below: Option<(u64, u64, u64)>,
    why: &'static str,
    /// Crates in whose entry it may stand, since their feature for it is off: it is built for no target.
    only_listed_by: &'static [&'static str],
}

const fn ban(name: &'static str, why: &'static str) -> Ban {
    Ban {
        name,
        below: None,
        why,
        only_listed_by: &[],
    }
}

const BANS: &[Ban] = &[
    ban("openssl", "one TLS stack: rustls"),
    ban("openssl-sys", "one TLS stack: rustls"),
    ban("native-tls", "one TLS stack: rustls"),
    Ban {
        name: "ring",
        below: None,
        why: "one crypto provider: aws-lc-rs",
        only_listed_by: &["quinn-proto", "rustls-webpki"],
    },
    Ban {
        name: "h2",
        below: Some((0, 4, 16)),
        why: "RUSTSEC-2026-0258: empty DATA frames queue without bound",
        only_listed_by: &[],
    },
    ban("rsa", "RUSTSEC-2023-0071: timing, no fix"),
    ban("actix-governor", "GPL-3.0-or-later"),
    ban("async-std", "unmaintained"),
    ban("bincode", "unmaintained"),
    ban("daemonize", "unmaintained"),
    ban("instant", "unmaintained"),
    ban("paste", "unmaintained"),
    ban("proc-macro-error", "unmaintained"),
    ban("rustls-pemfile", "unmaintained"),
    ban("yaml-rust", "unmaintained"),
];

fn packages(lock: &str) -> Vec<Package> {
    let entry = |text: &str| {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.map(|line| line.trim_matches([' ', '=', '"']).to_owned())
        };
        let dependencies = text.lines().filter_map(|line| line.strip_prefix(" \""));
        Some(Package {
            name: value("name")?,
            version: version(&value("version")?),
            dependencies: dependencies
                .map(|line| line.split(['"', ' ']).next().unwrap_or("").to_owned())
                .collect(),
        })
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

fn version(text: &str) -> (u64, u64, u64) {
    let mut parts = text.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

fn wrong(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for ban in BANS {
        for package in packages.iter().filter(|package| package.name == ban.name) {
            let old = ban.below.is_none_or(|below| package.version < below);
            let wanted_by: Vec<&str> = packages
                .iter()
                .filter(|other| other.dependencies.iter().any(|name| name == ban.name))
                .map(|other| other.name.as_str())
                .collect();
            let only_listed =
                !ban.only_listed_by.is_empty() && wanted_by.iter().all(|name| ban.only_listed_by.contains(name));
            if old && !only_listed {
                wrong.push(format!(
                    "{} {:?} comes in through {wanted_by:?}: {}",
                    ban.name, package.version, ban.why
                ));
            }
        }
    }
    wrong
}

#[test]
fn no_banned_crate_comes_in() {
    let packages = packages(&read("Cargo.lock"));
    assert!(packages.len() > 100, "only {} packages were read", packages.len());
    assert_eq!(wrong(&packages), Vec::<String>::new());
}

#[test]
fn deny_toml_has_the_same_bans() {
    let deny = read("deny.toml");
    for ban in BANS {
        assert!(
            deny.contains(&format!("crate = \"{}", ban.name)),
            "deny.toml does not ban {}",
            ban.name
        );
    }
}

#[test]
fn banned_crates_are_seen() {
    let lock = |name: &str, version: &str, user: &str| {
        format!(
            "version = 4\n\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n[[package]]\nname = \"{user}\"\n\
             version = \"1.0.0\"\ndependencies = [\n \"serde\",\n \"{name}\",\n]\n"
        )
    };
    let count = |name, version, user| wrong(&packages(&lock(name, version, user))).len();
    assert_eq!(count("openssl", "0.10.1", "x"), 1);
    assert_eq!(count("h2", "0.3.27", "actix-http"), 1);
    assert_eq!(count("h2", "0.4.15", "hyper"), 1);
    assert_eq!(count("h2", "0.4.16", "hyper"), 0);
    assert_eq!(count("ring", "0.17.14", "rustls"), 1);
    assert_eq!(count("ring", "0.17.14", "rustls-webpki"), 0);
    assert_eq!(count("serde", "1.0.0", "x"), 0);
}
