//! The one subscriber of the process.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{Log, LogFormat, LogLevel};

/// Starts to write logs to stderr. A second call changes nothing: the first one holds for the process.
pub fn start(log: Log) {
    let builder = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_span_events(FmtSpan::NONE)
        .with_env_filter(filter(log.level));
    // Fails only when a subscriber is there already, as in tests that start many servers in one process.
    drop(match log.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    });
}

/// Libraries speak at `warn`: sqlx logs every statement at `debug`, with its values. At `trace` everything is wanted.
fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "warn,onescribe=info",
        LogLevel::Debug => "warn,onescribe=debug",
        LogLevel::Trace => "debug,onescribe=trace,sqlx=warn",
    })
}
