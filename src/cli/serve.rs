//! `onescribe serve`: runs the server until somebody asks it to stop.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use tokio::time::sleep;

use super::signals::Signals;
use crate::app::{self, Server};
use crate::config::Config;

pub(super) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    app::start_logs(config.log);
    let mut signals = Signals::catch()?;
    let within = Duration::from_secs(config.server.shutdown_secs);
    let makes_tokens = config.auth.makes_tokens();
    let at_home = config.database.is_at_home();
    let mut server = Server::start(config).await?;
    println!("listening on http://{}", server.address());
    if makes_tokens && server.address().ip().is_loopback() {
        // The secret is kept in the store, so the command has to find the same one.
        let same_store = if at_home {
            ""
        } else {
            " (with the --config or --database-url of this server)"
        };
        println!("a token for user 1001: onescribe token --user 1001{same_store}");
    }
    let lost = tokio::select! {
        () = signals.next() => false,
        () = server.lease_lost() => true,
    };
    tokio::select! {
        () = server.stop() => {}
        () = signals.next() => tracing::warn!("asked twice: ending at once"),
        () = sleep(within) => tracing::warn!("server.shutdown_secs is over: ending what still runs"),
    }
    if lost {
        bail!(
            "another process has this one's worker id (it was stopped for longer than database.lease_secs?): start it again"
        );
    }
    Ok(ExitCode::SUCCESS)
}
