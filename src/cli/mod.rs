//! THE COMMAND LINE: one file per command. Says in words for a tired person what went wrong and what to do.
//!
//! Never here: a rule about messages, SQL, an exit in the middle of the work. Results go to stdout, logs and progress
//! to stderr; 0 = done, 1 = it could not be done or something was found (`check`, `export`: 2 = it could
//! not be finished; `bench`: 2 = the load itself was too slow, so its figures do not count).

mod bench;
mod check;
mod epoch;
mod export;
mod import;
mod migrate;
mod progress;
mod said_at;
mod serve;
mod signals;
mod spans;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{self, Config, LogLevel, Sources};
use crate::{app, config::ConfigErrors};

/// An IM message server: stores every message once, numbers it, and brings it to every device of every member.
#[derive(Debug, Parser)]
#[command(name = "onescribe", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

/// Flags of every command.
#[derive(Debug, clap::Args)]
struct Settings {
    /// The configuration file [default: ./config.toml if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the server listens (server.listen)
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Where the store is (database.url): sqlite://FILE, postgres://… or mysql://…
    #[arg(long, global = true, value_name = "URL")]
    database_url: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server (the default)
    Serve,
    /// Bring the schema of the store up to date
    Migrate,
    /// Print a token for a user or an agent
    Token(token::Arguments),
    /// Prove that a store keeps its promises, also one that is in use
    Check(check::Arguments),
    /// Renew the name by which clients know this store
    Epoch {
        #[command(subcommand)]
        action: epoch::Action,
    },
    Export(export::Arguments),
    Import(import::Arguments),
    /// Load a running server and prove that every message reached everybody
    Bench(Box<bench::Arguments>),
}

/// Runs the command that the arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let CommandLine { command, settings } = CommandLine::parse();
    let config = match settings.load() {
        Ok(config) => config,
        Err(errors) => return fail(&errors.into()),
    };
    let done = actix_rt::System::new().block_on(async {
        match command.unwrap_or(Command::Serve) {
            Command::Serve => serve::run(config).await,
            Command::Migrate => migrate::run(quiet(config)).await,
            Command::Token(arguments) => token::run(quiet(config), arguments).await,
            Command::Check(arguments) => Ok(check::run(quiet(config), arguments).await),
            Command::Epoch { action } => epoch::run(quiet(config), action).await,
            Command::Export(arguments) => Ok(export::run(quiet(config), arguments).await),
            Command::Import(arguments) => import::run(quiet(config), arguments).await,
            Command::Bench(arguments) => bench::run(quiet(config), *arguments).await,
        }
    });
    done.unwrap_or_else(|error| fail(&error))
}

impl Settings {
    fn load(self) -> Result<Config, ConfigErrors> {
        config::load(Sources {
            file: self.config,
            environment: None,
            listen: self.listen,
            database_url: self.database_url,
        })
    }
}

/// Commands that answer a person do not tell the story of their start.
fn quiet(mut config: Config) -> Config {
    if config.log.level == LogLevel::Info {
        config.log.level = LogLevel::Warn;
    }
    app::start_logs(config.log);
    config
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("onescribe: {error:#}");
    ExitCode::FAILURE
}
