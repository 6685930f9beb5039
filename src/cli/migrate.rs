//! `onescribe migrate`: brings the schema up to date and does nothing else.

use std::process::ExitCode;

use crate::app;
use crate::config::Config;

pub(super) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    app::open(&config.database, true).await?.close().await;
    println!("the schema is up to date");
    Ok(ExitCode::SUCCESS)
}
