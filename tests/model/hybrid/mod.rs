//! Every command of the domain, once: what a client had fetched before, with the events of the command, is what it would
//! fetch afterwards. Three ways lead there and all are gone: the pushes, the reply to whoever acted, and a sync from where
//! the client was.

mod client;
mod scene;

use std::collections::BTreeSet;
use std::sync::Arc;

use onescribe::clock::ManualClock;
use onescribe::delivery::session::Session;
use serde_json::Value;

use super::frames;
use super::stack::{Stack, clock, principal};
use super::trouble::Trouble;
use super::walk::On;
use client::Client;
use scene::{ACTING, CASES, PEOPLE, Scene};

/// The users of a case are counted from so many times its number.
const USERS_PER_CASE: usize = 10;
/// The devices of each user that are connected.
const DEVICES: [&str; 2] = [ACTING, "tablet"];

fn source(text: &str) -> Vec<syn::Item> {
    syn::parse_file(text).unwrap().items
}

/// The names of an enum's variants, or of a struct's fields.
fn names(items: &[syn::Item], of: &str) -> Vec<String> {
    let parts = items.iter().find_map(|item| match item {
        syn::Item::Enum(found) if found.ident == of => {
            Some(found.variants.iter().map(|variant| variant.ident.to_string()).collect())
        }
        syn::Item::Struct(found) if found.ident == of => {
            let fields = found.fields.iter().filter_map(|field| field.ident.as_ref());
            Some(fields.map(ToString::to_string).collect())
        }
        _ => None,
    });
    parts.unwrap_or_else(|| panic!("there is no {of} any more"))
}

/// Every command, read from where they are declared.
fn commands() -> BTreeSet<String> {
    let commands = source(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/domain/command.rs"
    )));
    let personal = source(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/domain/personal.rs"
    )));
    let parts = |command: &str, parts: Vec<String>| -> Vec<String> {
        parts.iter().map(|part| format!("{command}::{part}")).collect()
    };
    let of = |command: String| match command.as_str() {
        "Touch" => parts("Touch", names(&commands, "Touch")),
        "Personal" => parts("Personal", names(&personal, "Personal")),
        "Update" => parts("Update", names(&commands, "HeaderPatch")),
        _ => vec![command],
    };
    names(&commands, "Command").into_iter().flat_map(of).collect()
}

#[test]
fn every_command_has_a_case() {
    let cases: BTreeSet<String> = CASES
        .iter()
        .map(|case| case.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        cases,
        commands(),
        "CASES in tests/model/hybrid/scene.rs has one for each command"
    );
}

/// The types of changes, as the wire names them.
fn change_types() -> BTreeSet<String> {
    let items = source(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/domain/change.rs"
    )));
    let wire = |name: String| {
        let parts = name.chars().enumerate().flat_map(|(at, letter)| {
            let gap = (at > 0 && letter.is_uppercase()).then_some('_');
            gap.into_iter().chain(letter.to_uppercase())
        });
        parts.collect()
    };
    names(&items, "ChangeType").into_iter().map(wire).collect()
}

struct Watcher {
    user: usize,
    device: &'static str,
    session: Arc<Session>,
}

/// Does one case, and compares. Answers the types of the changes that somebody was told of.
async fn compare(stack: &Stack, clock: &ManualClock, base: usize, case: &str) -> BTreeSet<String> {
    let scene = Scene::build(stack, base).await;
    let mut watchers = Vec::new();
    let mut before = Vec::new();
    for user in base..base + PEOPLE {
        before.push(Client::fetch(stack, user).await);
        for device in DEVICES {
            let session = stack.connect(user, device).await;
            watchers.push(Watcher { user, device, session });
        }
    }
    clock.advance(1_000);
    let reply = scene.act(case).await;
    let mut fresh: Vec<Value> = Vec::new();
    for user in base..base + PEOPLE {
        fresh.push(Client::fetch(stack, user).await.world());
    }
    let mut told = BTreeSet::new();
    for Watcher { user, device, session } in &watchers {
        let mut client = before[user - base].clone();
        if *user - base == Scene::actor(case) && *device == ACTING {
            for frame in &reply {
                client.hear(frame);
            }
        }
        for frame in frames::read(stack, session, 1)
            .await
            .iter()
            .filter(|frame| **frame != "welcome")
        {
            client.hear(frame);
        }
        client.fill(stack).await;
        client.count();
        same(
            case,
            &format!("{device} of {}", principal(*user)),
            &client.world(),
            &fresh[user - base],
        );
        told.append(&mut client.told);
        stack.disconnect(session);
    }
    for (mut client, mut fresh) in before.into_iter().zip(fresh) {
        // A conversation in which nothing was yet is told with the first that is said there.
        let rooms = fresh["rooms"].as_object_mut().unwrap();
        rooms.retain(|id, room| {
            client.knows(id) || room["conversation"]["last_seq"] != 0 || room["conversation"]["last_change_seq"] != 0
        });
        client.sync(stack).await;
        client.fill(stack).await;
        client.count();
        same(case, "who was away", &client.world(), &fresh);
        told.append(&mut client.told);
    }
    told
}

/// Names what differs.
fn same(case: &str, who: &str, held: &Value, fresh: &Value) {
    let mut differs = Vec::new();
    difference("", held, fresh, &mut differs);
    assert!(differs.is_empty(), "{case}, {who}: {}", differs.join("\n"));
}

fn difference(path: &str, held: &Value, fresh: &Value, differs: &mut Vec<String>) {
    match (held, fresh) {
        (Value::Object(held), Value::Object(fresh)) => {
            for key in held.keys().chain(fresh.keys()).collect::<BTreeSet<_>>() {
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                difference(&format!("{path}/{key}"), &of(held), &of(fresh), differs);
            }
        }
        _ if held != fresh => differs.push(format!("{path}: it has {held}, and would fetch {fresh}")),
        _ => {}
    }
}

fn events_make_of_the_old_state_the_new_one(on: On) {
    on.system().block_on(async move {
        let Some((store, _database)) = on.store(&Arc::new(Trouble::default())).await else {
            return;
        };
        let clock = clock();
        let stack = Stack::start(&store, &clock).await;
        let mut told = BTreeSet::new();
        for (number, case) in CASES.iter().enumerate() {
            clock.advance(1_000);
            told.append(&mut compare(&stack, &clock, number * USERS_PER_CASE, case).await);
        }
        assert!(told.contains("HIDDEN"), "somebody may not see what has changed");
        assert_eq!(told, change_types(), "every type of change was told to somebody");
        store.close().await;
    });
}

#[test]
fn events_make_of_the_old_state_the_new_one_in_memory() {
    events_make_of_the_old_state_the_new_one(On::Memory);
}

#[test]
fn events_make_of_the_old_state_the_new_one_on_sqlite() {
    events_make_of_the_old_state_the_new_one(On::Sqlite);
}

#[test]
fn events_make_of_the_old_state_the_new_one_on_postgresql() {
    events_make_of_the_old_state_the_new_one(On::Postgres);
}

#[test]
fn events_make_of_the_old_state_the_new_one_on_mysql() {
    events_make_of_the_old_state_the_new_one(On::Mysql);
}
