//! A whole server in this process: it starts, it serves, it stops, and it says why when it cannot.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, SqliteConnection};

use super::{Core, NoDelivery, Server, signer};
use crate::clock::{Clock as _, SystemClock};
use crate::config::{Auth, Config, SecretString};
use crate::domain::snowflake::WORKERS_MAX;
use crate::domain::{PrincipalType, Timestamp};
use crate::storage::memory::MemoryStore;
use crate::storage::{NodeStore as _, SettingStore as _, Store};

fn config(folder: &Path) -> Config {
    let mut config = Config::default();
    config.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.database.url = SecretString::from(format!("sqlite://{}", folder.join("store.db").display()));
    config
}

/// Status of a GET, from a thread of its own: the system of the test must go on running.
async fn get(address: SocketAddr, path: &'static str) -> std::io::Result<String> {
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    });
    asked.await.unwrap()
}

fn run(test: impl Future<Output = ()>) {
    actix_rt::System::new().block_on(test);
}

#[test]
fn a_server_on_a_free_port_answers_and_stops_and_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        for _ in 0..2 {
            let server = Server::start(config(folder.path())).await.unwrap();
            let address = server.address();
            assert_eq!(get(address, "/readyz").await.unwrap(), "HTTP/1.1 200 OK");
            assert!(get(address, "/v1/conversations").await.unwrap().contains("401"));
            server.stop().await;
            assert!(get(address, "/readyz").await.is_err(), "the port is closed");
        }
    });
}

#[test]
fn a_port_that_is_taken_is_named_and_what_had_started_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    run(async {
        let mut config = config(folder.path());
        config.server.listen = taken.local_addr().unwrap();
        let error = Server::start(config.clone()).await.err().unwrap();
        let expected = format!("cannot listen on {} (server.listen)", config.server.listen);
        assert_eq!(error.to_string(), expected);
        let url = format!("sqlite://{}", folder.path().join("store.db").display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let leased =
            sqlx::query_scalar("SELECT COUNT(*) FROM im_node WHERE lease_until > ?").bind(SystemClock.now().millis());
        let leased: i64 = leased.fetch_one(&mut connection).await.unwrap();
        assert_eq!(leased, 0, "the worker id was given back");
    });
}

#[test]
fn the_1025th_process_is_refused_with_words_that_help() {
    run(async {
        let store = Arc::new(MemoryStore::default());
        let far = Timestamp::from_millis(i64::MAX / 2);
        for worker in 0..WORKERS_MAX {
            store
                .claim_worker(&format!("node {worker}"), Timestamp::default(), far)
                .await
                .unwrap();
        }
        let store: Arc<dyn Store> = store;
        let refused = Core::start(&Config::default(), store, Arc::new(NoDelivery)).await;
        let error = format!("{:#}", refused.err().unwrap());
        assert!(
            error.contains("cannot get a worker id") && error.contains("1,024"),
            "{error}"
        );
    });
}

#[test]
fn a_secret_is_made_once_and_kept() {
    run(async {
        let store = MemoryStore::default();
        let far = Duration::from_hours(1);
        let tokens = async || {
            signer(&Auth::default(), &store)
                .await
                .unwrap()
                .token("1001", PrincipalType::User, far)
        };
        let secret_of = |signer: super::Signer| format!("{signer:?}");
        assert!(tokens().await.unwrap().split('.').count() == 3);
        let printed = secret_of(signer(&Auth::default(), &store).await.unwrap());
        assert!(printed.contains("REDACTED"), "{printed}");
        let (one, two) = (
            store.setting_or("hs256_secret", "x").await,
            store.setting_or("hs256_secret", "y").await,
        );
        assert_eq!(one.as_ref().unwrap(), two.as_ref().unwrap());
        assert_eq!(one.unwrap().len(), 64);
    });
}

#[test]
fn who_has_only_public_keys_is_told_who_makes_the_tokens() {
    run(async {
        let auth = Auth {
            public_key_file: Some("key.pem".into()),
            ..Auth::default()
        };
        let error = signer(&auth, &MemoryStore::default()).await.unwrap_err().to_string();
        assert!(error.contains("whoever holds the private key"), "{error}");
    });
}
