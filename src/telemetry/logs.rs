//! The one subscriber of the process.

use std::io;

use tracing_subscriber::EnvFilter;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts to write logs to stderr: lines of `level` (`error` … `trace`) and above. A second call changes nothing: the
/// first one holds for the process.
pub fn start(format: Format, level: &str) {
    let builder = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        // Otherwise a line that cannot be written (the disk of the log is full) is reported by `eprintln!`, which panics.
        .log_internal_errors(false)
        .with_env_filter(EnvFilter::new(filter(level)));
    // Fails only when a subscriber is there already, as in tests that start many servers in one process.
    drop(match format {
        Format::Text => builder.with_ansi(false).try_init(),
        Format::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    });
}

/// Libraries speak at `warn`, the database driver at `error`: it logs every statement at `debug`, with its values, and
/// what it warns of (a connection that is gone) is said by the parts that it happens to.
fn filter(level: &str) -> String {
    match level {
        "error" => "error".to_owned(),
        "trace" => "debug,onescribe=trace,sqlx=warn,sqlx_core=warn".to_owned(),
        level => format!("warn,sqlx_core=error,onescribe={level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_a_filter_and_none_of_them_logs_the_values_of_statements() {
        for level in ["error", "warn", "info", "debug", "trace"] {
            let filter = filter(level);
            assert!(EnvFilter::try_new(&filter).is_ok(), "{filter}");
            assert!(
                filter == "error" || filter.starts_with("warn") || filter.contains("sqlx=warn,sqlx_core=warn"),
                "{filter}"
            );
        }
    }
}
