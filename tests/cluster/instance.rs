//! A database server of one's own, to be stopped in the middle of its work. Its data lies in a folder that goes with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use sqlx::{Connection, MySqlConnection, PgConnection};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::stores::Kind;
use crate::support::patiently;

/// Between two attempts to reach a server that is starting.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A running server.
#[derive(Debug)]
pub(crate) struct Instance {
    kind: Kind,
    folder: TempDir,
    port: u16,
    server: Child,
}

impl Instance {
    /// Installs and starts one; `None` when its programs are not installed, which is said on stderr.
    pub(crate) async fn start(kind: Kind) -> Option<Self> {
        let Some(install) = program(installer(kind)) else {
            eprintln!(
                "left out: stopping a {kind:?} of our own, because {} is not installed",
                installer(kind)
            );
            return None;
        };
        // Not under $TMPDIR: the account of the server must be able to reach it.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        if geteuid().is_root() {
            run(Command::new("chown").args([account(kind), folder.path().to_str().unwrap()])).await;
        }
        let data = folder.path().join("data");
        let mut command = as_account(kind, &install);
        match kind {
            Kind::Postgres => command
                .args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"])
                .arg(&data),
            _ => command
                .args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ])
                .arg(format!("--datadir={}", data.display())),
        };
        run(&mut command).await;
        let port = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let server = launch(kind, folder.path(), port);
        let instance = Self {
            kind,
            folder,
            port,
            server,
        };
        instance.until_reached().await;
        Some(instance)
    }

    /// A database in it.
    pub(crate) fn url(&self) -> String {
        match self.kind {
            Kind::Postgres => format!("postgres://postgres@127.0.0.1:{}/postgres", self.port),
            _ => format!("mysql://root@127.0.0.1:{}/onescribe", self.port),
        }
    }

    /// Stops it without letting anything finish, as a crash would.
    pub(crate) async fn stop_at_once(&mut self) {
        // PostgreSQL has children: SIGQUIT is its immediate shutdown, which takes them along.
        let signal = if self.kind == Kind::Postgres {
            Signal::QUIT
        } else {
            Signal::KILL
        };
        let id = i32::try_from(self.server.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(id).expect("a process id is not 0"), signal).unwrap();
        patiently("the database to stop", self.server.wait()).await.unwrap();
    }

    /// Starts it on the data that it had.
    pub(crate) async fn start_again(&mut self) {
        self.server = launch(self.kind, self.folder.path(), self.port);
        self.until_reached().await;
    }

    async fn until_reached(&self) {
        patiently("the database to start", async {
            while !self.reached().await {
                sleep(LOOK_AGAIN).await;
            }
        })
        .await;
    }

    async fn reached(&self) -> bool {
        if self.kind == Kind::Postgres {
            return PgConnection::connect(&self.url()).await.is_ok();
        }
        let base = format!("mysql://root@127.0.0.1:{}", self.port);
        let Ok(mut connection) = MySqlConnection::connect(&base).await else {
            return false;
        };
        sqlx::raw_sql("CREATE DATABASE IF NOT EXISTS onescribe")
            .execute(&mut connection)
            .await
            .is_ok()
    }
}

fn installer(kind: Kind) -> &'static str {
    if kind == Kind::Postgres {
        "initdb"
    } else {
        "mariadb-install-db"
    }
}

/// The account that it runs under when we are root: PostgreSQL refuses to run as root.
fn account(kind: Kind) -> &'static str {
    if kind == Kind::Postgres { "postgres" } else { "mysql" }
}

/// Finds an installed program; Debian keeps those of PostgreSQL aside.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders
        .chain(debian.map(|version| version.path().join("bin")))
        .map(|folder| folder.join(name))
        .find(|path| path.exists())
}

fn as_account(kind: Kind, program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", account(kind), "--regid", account(kind), "--clear-groups"])
        .arg(program);
    command
}

fn launch(kind: Kind, folder: &Path, port: u16) -> Child {
    let name = if kind == Kind::Postgres { "postgres" } else { "mariadbd" };
    let mut command = as_account(
        kind,
        &program(name).unwrap_or_else(|| panic!("{name} is not installed")),
    );
    let data = folder.join("data");
    match kind {
        Kind::Postgres => command
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            .args(["-p", &port.to_string(), "-D"])
            .arg(data),
        _ => command.args([
            "--no-defaults".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--datadir={}", data.display()),
            "--socket=socket".to_owned(),
            format!("--port={port}"),
        ]),
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn run(command: &mut Command) {
    let output = patiently("an installation", command.stdin(Stdio::null()).output())
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
