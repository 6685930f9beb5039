//! The three databases have the same migrations, by name (`tests/storage` compares what they make).

use std::collections::BTreeSet;

use super::source::files_under;

const DATABASES: [&str; 3] = ["sqlite", "postgres", "mysql"];

fn names(database: &str) -> Vec<String> {
    let folder = format!("migrations/{database}/");
    files_under(&folder)
        .iter()
        .map(|path| path[folder.len()..].to_owned())
        .collect()
}

/// What is wrong with these file lists.
fn wrong(lists: &[(&str, Vec<String>)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let all: BTreeSet<&String> = lists.iter().flat_map(|(_, names)| names).collect();
    for (database, names) in lists {
        let missing = all.iter().filter(|name| !names.contains(name));
        wrong.extend(missing.map(|name| format!("migrations/{database} has no {name}, another database has")));
        for (index, name) in names.iter().enumerate() {
            let number = format!("{:04}_", index + 1);
            if !name.starts_with(&number) || !name.to_lowercase().ends_with(".sql") {
                wrong.push(format!(
                    "migrations/{database}/{name}: expected {number}*.sql, without a hole or a double"
                ));
            }
        }
    }
    wrong
}

#[test]
fn the_three_databases_have_the_same_migrations() {
    let lists = DATABASES.map(|database| (database, names(database)));
    assert!(lists.iter().all(|(_, names)| !names.is_empty()), "no migrations found");
    assert_eq!(wrong(&lists), Vec::<String>::new());
}

#[test]
fn a_missing_or_misnumbered_migration_is_seen() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let both = list(&["0001_init.sql", "0002_more.sql"]);
    assert_eq!(
        wrong(&[("sqlite", both.clone()), ("mysql", list(&["0001_init.sql"]))]).len(),
        1
    );
    assert_eq!(wrong(&[("sqlite", list(&["0001_init.sql", "0003_more.sql"]))]).len(), 1);
    assert_eq!(
        wrong(&[("sqlite", list(&["0001_init.sql", "0001_other.sql"]))]).len(),
        1
    );
    assert!(wrong(&[("sqlite", both.clone()), ("mysql", both)]).is_empty());
}
