//! `onescribe token`: prints a token and nothing else, so that `TOKEN=$(onescribe token --user 1001)` works.

use std::process::ExitCode;
use std::time::Duration;

use super::spans;
use crate::app;
use crate::config::Config;
use crate::domain::PrincipalType;

/// The longest life of a token: a century.
const TTL_MAX: Duration = Duration::from_hours(100 * 366 * 24);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Who: a decimal id, or the external id that the host's own user system has
    #[arg(long, value_name = "ID")]
    user: String,
    /// USER or AGENT
    #[arg(long = "type", value_name = "TYPE", default_value = "USER", value_parser = kind)]
    kind: PrincipalType,
    /// How long it is valid: 90s, 15m, 1h, 30d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time_to_live)]
    ttl: Duration,
}

pub(super) async fn run(config: Config, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let store = app::open(&config.database, config.database.auto_migrate).await?;
    let signer = app::signer(&config.auth, store.as_ref()).await;
    store.close().await;
    let signer = signer?;
    println!("{}", signer.token(&arguments.user, arguments.kind, arguments.ttl)?);
    Ok(ExitCode::SUCCESS)
}

fn kind(text: &str) -> Result<PrincipalType, &'static str> {
    PrincipalType::parse(&text.to_ascii_uppercase())
        .filter(|kind| *kind != PrincipalType::System)
        .ok_or("must be USER or AGENT")
}

fn time_to_live(text: &str) -> Result<Duration, &'static str> {
    let ttl = spans::parse(text).filter(|ttl| !ttl.is_zero() && *ttl <= TTL_MAX);
    ttl.ok_or("must be a number of s, m, h or d, like 90s, 15m, 1h or 30d, and at most 100 years")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_has_a_unit_and_an_end() {
        for (text, secs) in [("90s", 90), ("90", 90), ("15m", 900), ("1h", 3_600), ("30d", 2_592_000)] {
            assert_eq!(time_to_live(text), Ok(Duration::from_secs(secs)), "{text}");
        }
        for bad in ["", "h", "1w", "-1h", "1.5h", "0s", "1h30m", "99999999999d"] {
            assert!(time_to_live(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_server_itself_gets_no_token() {
        assert_eq!(kind("agent"), Ok(PrincipalType::Agent));
        assert!(kind("SYSTEM").is_err() && kind("bot").is_err());
    }
}
