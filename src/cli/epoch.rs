//! `onescribe epoch renew`: after an older copy of a database was restored, clients hold messages that it has not. With
//! another epoch they are told so: they drop what they have and begin anew.

use std::process::ExitCode;

use clap::Subcommand;

use crate::app;
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Tell all clients that the history of this store is another one
    Renew,
}

pub(super) async fn run(config: Config, action: Action) -> anyhow::Result<ExitCode> {
    let Action::Renew = action;
    let store = app::open(&config.database, config.database.auto_migrate).await?;
    let renewed = app::renew_epoch(store.as_ref()).await;
    store.close().await;
    println!(
        "the store's epoch is {} from now on; running servers notice within {} s, clients at their next sync or \
         connection",
        renewed?,
        app::EPOCH_STALE_MS_MAX / 1_000
    );
    Ok(ExitCode::SUCCESS)
}
