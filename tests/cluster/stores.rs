//! Where a run keeps its messages: a fresh SQLite file, or a fresh database of a server that the environment names.

use std::env;
use std::process::id;
use std::sync::atomic::{AtomicU32, Ordering};

use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, raw_sql};
use tempfile::TempDir;

use crate::support::proxy::Proxy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

/// A fresh database.
#[derive(Debug)]
pub(crate) struct Store {
    kind: Kind,
    /// What the server is given.
    pub(crate) url: String,
    /// Where an SQLite file lies.
    folder: TempDir,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl Kind {
    fn variable(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "ONESCRIBE_TEST_POSTGRES_URL",
            Self::MySql => "ONESCRIBE_TEST_MYSQL_URL",
        }
    }

    /// What the server sends with the commit of a text message, and with nothing else: on PostgreSQL one statement is
    /// the whole transaction and carries the content, on MySQL/MariaDB `COMMIT` is a command of its own (the byte
    /// before it says so, and tells it from `READ COMMITTED`).
    fn commit_mark(self) -> &'static [u8] {
        if self == Self::Postgres {
            br#"{"text":"#
        } else {
            b"\x03COMMIT"
        }
    }

    /// A fresh database; `None` when the environment names no server for it, which is said on stderr.
    pub(crate) async fn fresh(self) -> Option<Store> {
        let folder = tempfile::tempdir().unwrap();
        if self == Self::Sqlite {
            let url = format!("sqlite://{}/store.db", folder.path().display());
            return Some(Store {
                kind: self,
                url,
                folder,
            });
        }
        let Ok(base) = env::var(self.variable()) else {
            eprintln!("left out: {self:?}, because {} is not set", self.variable());
            return None;
        };
        let name = format!("onescribe_cluster_{}_{}", id(), MADE.fetch_add(1, Ordering::Relaxed));
        self.admin(&base, format!("CREATE DATABASE {name}")).await;
        let mut url = Url::parse(&base).unwrap();
        url.set_path(&name);
        Some(Store {
            kind: self,
            url: url.into(),
            folder,
        })
    }

    async fn admin(self, base: &str, statement: String) {
        let statement = raw_sql(AssertSqlSafe(statement));
        match self {
            Self::Sqlite => {}
            Self::Postgres => {
                let mut connection = PgConnection::connect(base).await.unwrap();
                statement.execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
            Self::MySql => {
                let mut connection = MySqlConnection::connect(base).await.unwrap();
                statement.execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }
}

impl Store {
    /// The same database behind a proxy, and the address through it.
    pub(crate) async fn behind_proxy(&self) -> (Proxy, String) {
        let mut url = Url::parse(&self.url).unwrap();
        let port = url
            .port()
            .unwrap_or(if self.kind == Kind::Postgres { 5432 } else { 3306 });
        let proxy = Proxy::start(
            &format!("{}:{port}", url.host_str().expect("a host")),
            self.kind.commit_mark(),
        )
        .await;
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(proxy.port())).unwrap();
        // The proxy has to see the text of a commit.
        url.set_query(Some(if self.kind == Kind::Postgres {
            "sslmode=disable"
        } else {
            "ssl-mode=DISABLED"
        }));
        (proxy, url.into())
    }

    /// Drops it. A test that fails leaves it there to be looked at.
    pub(crate) async fn remove(self) {
        if self.kind != Kind::Sqlite {
            let base = env::var(self.kind.variable()).unwrap();
            let mut url = Url::parse(&self.url).unwrap();
            let name = url.path().trim_start_matches('/').to_owned();
            url.set_path("");
            let force = if self.kind == Kind::Postgres {
                " WITH (FORCE)"
            } else {
                ""
            };
            self.kind.admin(&base, format!("DROP DATABASE {name}{force}")).await;
        }
        drop(self.folder);
    }
}
