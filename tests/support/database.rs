//! Fresh databases for tests. SQLite needs nothing; a server is used where its URL is given (`tests/run` gives both):
//! a login that may create databases.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{Connection, MySql, Postgres, QueryBuilder};

/// Where a PostgreSQL for tests is.
pub(crate) const POSTGRES_URL: &str = "ONESCRIBE_TEST_POSTGRES_URL";
/// Where a MySQL or MariaDB for tests is.
pub(crate) const MYSQL_URL: &str = "ONESCRIBE_TEST_MYSQL_URL";

/// A database of its own for one test.
pub(crate) struct TestDatabase {
    /// For `storage::sql::open` or `--database-url`.
    pub(crate) url: String,
    server: Option<(String, String)>,
    /// The folder of an SQLite file; removed at the end.
    pub(crate) folder: Option<tempfile::TempDir>,
}

impl TestDatabase {
    /// An SQLite file in a new folder.
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            url: format!("sqlite://{}", folder.path().join("test.db").display()),
            server: None,
            folder: Some(folder),
        }
    }

    /// A new PostgreSQL database; `None` (and a line on stderr) where no server is given.
    pub(crate) async fn postgres() -> Option<Self> {
        static SAID: Once = Once::new();
        let server = server_url(POSTGRES_URL, "PostgreSQL", &SAID)?;
        Some(Self::on_server(server).await)
    }

    /// A new MySQL/MariaDB database; `None` (and a line on stderr) where no server is given.
    pub(crate) async fn mysql() -> Option<Self> {
        static SAID: Once = Once::new();
        let server = server_url(MYSQL_URL, "MySQL/MariaDB", &SAID)?;
        Some(Self::on_server(server).await)
    }

    async fn on_server(server: String) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "onescribe_test_{}_{number}_{}",
            std::process::id(),
            rand::random::<u32>()
        );
        run_on_server(&server, &format!("CREATE DATABASE {name}"))
            .await
            .expect("the test login may create databases");
        Self {
            url: with_database(&server, &name),
            server: Some((server, name)),
            folder: None,
        }
    }

    /// The URL with another host and port, for a proxy in between.
    pub(crate) fn through(&self, address: std::net::SocketAddr) -> String {
        let (before, after) = self.url.rsplit_once('@').expect("a URL with a login");
        let (_, database) = after.split_once('/').expect("a URL with a database");
        format!("{before}@{address}/{database}")
    }

    /// Host and port of the server.
    pub(crate) fn address(&self) -> String {
        let (_, after) = self.url.rsplit_once('@').expect("a URL with a login");
        after.split('/').next().expect("a host").to_owned()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let Some((server, name)) = self.server.take() else {
            return;
        };
        // A test may be on a single-threaded runtime, which cannot wait here: a thread with its own does.
        let force = if server.starts_with("postgres") {
            " WITH (FORCE)"
        } else {
            ""
        };
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime
                .block_on(run_on_server(&server, &format!("DROP DATABASE {name}{force}")))
                .ok();
        });
        dropping.join().ok();
    }
}

fn server_url(variable: &str, name: &str, said: &Once) -> Option<String> {
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty());
    if url.is_none() {
        said.call_once(|| {
            // Not through the captured output of a test: a passing run must show it.
            use std::io::Write as _;
            writeln!(
                std::io::stderr(),
                "LEFT OUT: tests on {name} ({variable} is not set; `tests/run` sets it)"
            )
            .ok();
        });
    }
    url
}

/// `scheme://login@host:port/anything` with another database name.
fn with_database(server: &str, name: &str) -> String {
    let (scheme, rest) = server.split_once("://").expect("a URL");
    let authority = rest.split(['/', '?']).next().expect("a host");
    format!("{scheme}://{authority}/{name}")
}

async fn run_on_server(server: &str, statement: &str) -> Result<(), sqlx::Error> {
    if server.starts_with("postgres") {
        let mut connection = sqlx::PgConnection::connect(server).await?;
        QueryBuilder::<Postgres>::new(statement)
            .build()
            .execute(&mut connection)
            .await?;
        connection.close().await
    } else {
        let mut connection = sqlx::MySqlConnection::connect(server).await?;
        QueryBuilder::<MySql>::new(statement)
            .build()
            .execute(&mut connection)
            .await?;
        connection.close().await
    }
}
