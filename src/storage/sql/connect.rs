//! Opens a database by its URL, and brings its tables up to date.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::mysql::{MySql, MySqlConnectOptions};
use sqlx::postgres::{PgConnectOptions, Postgres};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection};

use super::{ConnectOptions, Dialect, SqlStore, bounded, store_error};
use crate::storage::{Store, StoreError, StoreResult};

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");
static MYSQL: Migrator = sqlx::migrate!("migrations/mysql");

/// How long SQLite waits for another process that writes.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(5);
/// Pages in the WAL before SQLite copies them into the file: fewer, larger checkpoints.
const WAL_PAGES: &str = "8000";
/// KiB of pages that each SQLite connection for reads keeps; the lane keeps more.
const CACHE_KIB: &str = "-8192";
/// How often a migration is tried while another process migrates the same SQLite file.
const MIGRATE_TRIES: u32 = 20;
/// How long to wait between those.
const MIGRATE_PAUSE: Duration = Duration::from_millis(250);

/// How to open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bring the tables up to date first; else a database that is behind is an error.
    pub auto_migrate: bool,
    /// Connections for reads and small writes (the lanes have their own).
    pub connections: u32,
    /// Each statement becomes an event of the target `sqlx::query`: who counts them knows what an act costs.
    pub log_statements: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            auto_migrate: true,
            connections: 8,
            log_statements: false,
        }
    }
}

/// Opens the store at `sqlite://relative.db`, `sqlite:///absolute.db`, `postgres://…` or `mysql://…`.
///
/// # Errors
/// When the URL is not one of these, the database cannot be reached, or its tables are behind or too new.
/// No error contains the password.
pub async fn open(url: &str, options: OpenOptions) -> StoreResult<Arc<dyn Store>> {
    match Target::parse(url)? {
        Target::Sqlite(connect) => {
            make_private(&connect)?;
            open_on::<Sqlite>(connect, options, &SQLITE).await
        }
        Target::Postgres(connect) => open_on::<Postgres>(connect, options, &POSTGRES).await,
        Target::MySql(connect) => open_on::<MySql>(connect, options, &MYSQL).await,
    }
}

/// Brings the tables at `url` up to date; safe when several processes do it at once. Answers how many steps the
/// database has now.
///
/// # Errors
/// As [`open`].
pub async fn migrate(url: &str) -> StoreResult<usize> {
    match Target::parse(url)? {
        Target::Sqlite(connect) => {
            make_private(&connect)?;
            migrate_on::<Sqlite>(&connect, &SQLITE).await?;
            Ok(SQLITE.iter().count())
        }
        Target::Postgres(connect) => {
            migrate_on::<Postgres>(&connect, &POSTGRES).await?;
            Ok(POSTGRES.iter().count())
        }
        Target::MySql(connect) => {
            migrate_on::<MySql>(&connect, &MYSQL).await?;
            Ok(MYSQL.iter().count())
        }
    }
}

enum Target {
    Sqlite(SqliteConnectOptions),
    Postgres(PgConnectOptions),
    MySql(MySqlConnectOptions),
}

impl Target {
    fn parse(url: &str) -> StoreResult<Self> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        // The texts of sqlx's own errors about a URL stay out: they may show a part of it.
        let wrong =
            |form: &str| StoreError::Unavailable(format!("database.url cannot be read; it should look like {form}"));
        match scheme {
            Some("sqlite") => {
                if url.contains(":memory:") || url.contains("mode=memory") {
                    return Err(wrong(
                        "sqlite://onescribe.db: a store in memory cannot be shared by its connections",
                    ));
                }
                let options = SqliteConnectOptions::from_str(url).map_err(|_| wrong("sqlite://onescribe.db"))?;
                Ok(Self::Sqlite(sqlite_options(options)))
            }
            Some("postgres" | "postgresql") => {
                let form = "postgres://user:password@host:5432/database";
                let options = PgConnectOptions::from_str(url).map_err(|_| wrong(form))?;
                Ok(Self::Postgres(options.application_name("onescribe")))
            }
            Some("mysql" | "mariadb") => {
                let form = "mysql://user:password@host:3306/database";
                let options = MySqlConnectOptions::from_str(url).map_err(|_| wrong(form))?;
                Ok(Self::MySql(options.charset("utf8mb4").collation("utf8mb4_bin")))
            }
            _ => Err(wrong("sqlite://onescribe.db, postgres://… or mysql://…")),
        }
    }
}

fn sqlite_options(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        // FULL with group commit costs nothing: acknowledged means durable.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_WAIT_MAX)
        .pragma("wal_autocheckpoint", WAL_PAGES)
        .pragma("cache_size", CACHE_KIB)
}

/// Makes a missing SQLite file with mode 0600; the files beside it (`-wal`, `-shm`) take over its mode.
fn make_private(options: &SqliteConnectOptions) -> StoreResult<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = options.get_filename();
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Unavailable(format!(
            "cannot make the database file {}: {error}",
            path.display()
        ))),
    }
}

async fn open_on<DB>(
    connect: ConnectOptions<DB>,
    options: OpenOptions,
    migrator: &Migrator,
) -> StoreResult<Arc<dyn Store>>
where
    DB: Dialect,
    DB::Connection: Migrate,
    SqlStore<DB>: Store + 'static,
{
    if options.auto_migrate {
        migrate_on::<DB>(&connect, migrator).await?;
    }
    let connect = if options.log_statements {
        connect
    } else {
        connect.disable_statement_logging()
    };
    // Not from the pool: that would say that it waited too long, and not why it cannot connect.
    let mut connection = bounded(DB::Connection::connect_with(&connect)).await?;
    compare(&mut connection, migrator).await?;
    connection.close().await.map_err(|error| store_error(&error))?;
    Ok(Arc::new(SqlStore::<DB>::new(connect, options.connections)))
}

/// Is the database where this program expects it?
async fn compare<C: Migrate + Send>(connection: &mut C, migrator: &Migrator) -> StoreResult<()> {
    let applied = match connection.list_applied_migrations(&migrator.table_name).await {
        Ok(applied) => applied,
        // There is no table of the steps yet.
        Err(MigrateError::Execute(sqlx::Error::Database(_))) => Vec::new(),
        Err(error) => return Err(StoreError::Unavailable(error.to_string())),
    };
    if let Some(newer) = applied.iter().find(|step| !migrator.version_exists(step.version)) {
        return Err(too_new(newer.version));
    }
    let is_applied = |version: i64| applied.iter().any(|step| step.version == version);
    match migrator.iter().find(|step| !is_applied(step.version)) {
        Some(missing) => Err(StoreError::Unavailable(format!(
            "the tables of the database are behind (step {} is missing): run `onescribe migrate`, or set \
             database.auto_migrate = true",
            missing.version
        ))),
        None => Ok(()),
    }
}

fn too_new(version: i64) -> StoreError {
    StoreError::Unavailable(format!(
        "a newer version of this program has changed the tables of the database (step {version}): use that version"
    ))
}

async fn migrate_on<DB>(options: &ConnectOptions<DB>, migrator: &Migrator) -> StoreResult<()>
where
    DB: Dialect,
    DB::Connection: Migrate,
{
    let options = options.clone().disable_statement_logging();
    let mut connection = bounded(DB::Connection::connect_with(&options)).await?;
    bounded(DB::prepare(&mut connection)).await?;
    let locked = DB::lock_migration(&mut connection)
        .await
        .map_err(|error| store_error(&error))?;
    if !locked {
        return Err(StoreError::Unavailable(
            "another process has been migrating this database for too long".into(),
        ));
    }
    let mut tries = 1;
    loop {
        // SQLite has no lock for it: whoever comes second fails, and finds the work done.
        match migrator.run_direct(None, &mut connection, false).await {
            Ok(()) => break,
            Err(MigrateError::VersionMissing(version)) => return Err(too_new(version)),
            Err(error) if tries == MIGRATE_TRIES || !DB::ONE_WRITER => {
                return Err(StoreError::Unavailable(format!(
                    "the tables could not be brought up to date: {error}"
                )));
            }
            Err(_) => tries += 1,
        }
        tokio::time::sleep(MIGRATE_PAUSE).await;
    }
    connection.close().await.map_err(|error| store_error(&error))
}
