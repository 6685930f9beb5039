//! `kill -9` between an acceptance and what follows from it: a contact has a DIRECT, a guest is in the group, whoever died.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stores::Kind;
use crate::support::client::{Client, Log, Login};
use crate::support::rest::Rest;
use crate::support::server::Server;

const HOST: u64 = 1;
const GUEST: u64 = 2;
/// Whoever asks to be a contact is counted from here.
const FRIENDS: u64 = 100;
/// Requests, and as many invitations, that are being accepted when the server dies.
const AT_ONCE: u64 = 30;
/// What a dead server has left undone is begun ten seconds after it was accepted; a slow disk takes its time for the rest.
const CARRIED_OUT: Duration = Duration::from_mins(2);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

#[tokio::test]
async fn four_kills_leave_no_acceptance_without_its_effect_on_sqlite() {
    rounds(Kind::Sqlite, 4, 71).await;
}

#[tokio::test]
async fn three_kills_leave_no_acceptance_without_its_effect_on_postgres() {
    rounds(Kind::Postgres, 3, 72).await;
}

#[tokio::test]
async fn three_kills_leave_no_acceptance_without_its_effect_on_mysql() {
    rounds(Kind::MySql, 3, 73).await;
}

async fn rounds(kind: Kind, kills: u64, seed: u64) {
    let Some(store) = kind.fresh().await else { return };
    let mut server = Server::new(&store.url);
    server.start().await;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut undone = 0;
    for life in 0..kills {
        let ids = asked(server.url(), life).await;
        accept_until_it_dies(&mut server, &ids, &mut rng).await;
        server.start().await;
        undone += State::of(server.url()).await.undone();
    }
    assert!(
        undone > 0,
        "no kill came between an acceptance and what follows from it"
    );
    let state = carried_out(server.url()).await;
    // What was not accepted is as it was, and can be.
    let guest = Rest::new(server.url(), GUEST);
    for id in &state.pending {
        accept(&guest, id).await.expect("an answer");
    }
    let state = State::of(server.url()).await;
    assert_eq!((state.undone(), state.pending.len()), (0, 0), "{state:?}");
    let all = usize::try_from(kills * AT_ONCE).unwrap();
    assert_eq!((state.contacts.len(), state.directs), (all, all), "each once");
    server.assert_store_in_order().await;
    server.assert_no_panic();
}

/// What GUEST is told when nothing is undone any more.
async fn carried_out(url: &str) -> State {
    let deadline = Instant::now() + CARRIED_OUT;
    loop {
        let state = State::of(url).await;
        if state.undone() == 0 {
            return state;
        }
        assert!(Instant::now() < deadline, "{} undone: {state:?}", state.undone());
        sleep(LOOK).await;
    }
}

/// Requests of new friends and invitations into new groups, all of them to GUEST.
async fn asked(url: &str, life: u64) -> Vec<String> {
    let host = Rest::new(url, HOST);
    let guest = json!({"type": "USER", "id": GUEST.to_string()});
    let mut ids = Vec::new();
    for n in 0..AT_ONCE {
        let friend = Rest::new(url, FRIENDS + life * AT_ONCE + n);
        let asked = friend.post("/v1/contacts/requests", &json!({ "to": guest })).await;
        ids.push(text(&asked, "notification_id"));
        let room = host.group("room", []).await;
        let path = format!("/v1/conversations/{room}/invites");
        let invited = host.post(&path, &json!({ "to": [guest] })).await;
        ids.push(text(&invited["items"][0], "notification_id"));
    }
    ids
}

async fn accept(guest: &Rest, id: &str) -> reqwest::Result<()> {
    let path = format!("/v1/notifications/{id}/accept");
    let (status, answer) = guest.call(Method::POST, &path, Some(&json!({}))).await?;
    assert!(status.is_success() || status.as_u16() == 503, "{status} {answer}");
    Ok(())
}

/// All at once, and the end as soon as the first are seen to be accepted: what follows from them is on its way.
async fn accept_until_it_dies(server: &mut Server, ids: &[String], rng: &mut SmallRng) {
    let guest = Rest::new(server.url(), GUEST);
    let phone = Client::connect(server.url(), Login::new(GUEST, "phone")).await;
    let enough = rng.random_range(1..=5);
    let told = |log: &Log| {
        log.frames
            .iter()
            .filter(|frame| frame["type"] == "inbox.changed")
            .count()
            >= enough
    };
    let killing = async {
        phone.until("the first acceptances", told).await;
        server.kill().await;
        phone.closed().await;
    };
    // Those that are under way when it dies have no answer.
    tokio::join!(join_all(ids.iter().map(|id| accept(&guest, id))), killing);
}

/// What GUEST is told.
#[derive(Debug)]
struct State {
    /// Who asked to be a contact and was accepted.
    friends: BTreeSet<String>,
    contacts: BTreeSet<String>,
    directs: usize,
    /// The groups of the invitations that were accepted.
    groups: BTreeSet<String>,
    joined: BTreeSet<String>,
    pending: Vec<String>,
}

impl State {
    async fn of(url: &str) -> Self {
        let guest = Rest::new(url, GUEST);
        let accepted = all(&guest, "/v1/notifications?state=ACCEPTED").await;
        let (invitations, requests): (Vec<&Value>, Vec<&Value>) =
            accepted.iter().partition(|note| note["kind"] == "GROUP_INVITE");
        let conversations = all(&guest, "/v1/conversations?limit=200").await;
        let groups = conversations.iter().filter(|one| one["kind"] == "GROUP");
        let contacts = all(&guest, "/v1/contacts?limit=200").await;
        let pending = all(&guest, "/v1/notifications?state=PENDING").await;
        Self {
            friends: requests.iter().map(|note| note["from"].to_string()).collect(),
            groups: invitations.iter().map(|note| text(note, "conversation_id")).collect(),
            contacts: contacts
                .iter()
                .map(|contact| contact["principal"].to_string())
                .collect(),
            directs: conversations.iter().filter(|one| one["kind"] == "DIRECT").count(),
            joined: groups.map(|group| text(group, "conversation_id")).collect(),
            pending: pending.iter().map(|note| text(note, "notification_id")).collect(),
        }
    }

    /// Acceptances without their effect. That two are contacts is the acceptance itself.
    fn undone(&self) -> usize {
        assert_eq!(self.friends, self.contacts, "accepted and contacts are one commit");
        assert!(
            self.joined.is_subset(&self.groups),
            "nobody is in a group without having accepted"
        );
        self.friends.len() - self.directs + self.groups.difference(&self.joined).count()
    }
}

/// A list, page by page.
async fn all(who: &Rest, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut page = who.get(path).await;
    loop {
        items.extend(page["items"].as_array().expect("items").iter().cloned());
        let Some(cursor) = page["next_cursor"].as_str() else {
            return items;
        };
        page = who.get(&format!("{path}&cursor={cursor}")).await;
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no {field} in {value}"))
        .to_owned()
}
