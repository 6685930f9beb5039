//! `onescribe serve`
use crate::config::Config;
use std::process::ExitCode;
pub(super) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    drop(config);
    Ok(ExitCode::SUCCESS)
}
