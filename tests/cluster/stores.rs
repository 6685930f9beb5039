//! Where a run keeps its messages, and a proxy in front of it.

use crate::support::database::TestDatabase;
use crate::support::proxy::Proxy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

impl Kind {
    /// A fresh database; `None` when the environment names no server for it, which is said on stderr.
    pub(crate) async fn fresh(self) -> Option<TestDatabase> {
        match self {
            Self::Sqlite => Some(TestDatabase::sqlite()),
            Self::Postgres => TestDatabase::postgres().await,
            Self::MySql => TestDatabase::mysql().await,
        }
    }

    /// A proxy in front of a database, and the URL through it.
    pub(crate) async fn behind_proxy(self, database: &TestDatabase) -> (Proxy, String) {
        let proxy = Proxy::start(&database.address(), self.commit_mark()).await;
        // The proxy has to see the mark.
        let plain = if self == Self::Postgres {
            "sslmode=disable"
        } else {
            "ssl-mode=DISABLED"
        };
        let url = database.through(([127, 0, 0, 1], proxy.port()).into());
        (proxy, format!("{url}?{plain}"))
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
}
