//! Brings file, environment and flags together.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use config::{Environment, File, FileFormat};
use thiserror::Error;

use super::reader::Reader;
use super::{Config, check};

/// The file that is read when no other is named, if it is there.
const DEFAULT_FILE: &str = "config.toml";

/// Where settings come from; later ones win: defaults, file, environment, flags.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config FILE`: must be there. None = `./config.toml` if there is one.
    pub file: Option<PathBuf>,
    /// `ONESCRIBE__SECTION__KEY`; None = the environment of the process.
    pub environment: Option<HashMap<String, String>>,
    /// `--listen ADDRESS:PORT`
    pub listen: Option<String>,
    /// `--database-url URL`
    pub database_url: Option<String>,
}

/// Everything that is wrong, at once.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ConfigErrors(pub Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

/// Reads and checks every key.
///
/// # Errors
/// All unknown keys and all bad values, each with its name and what would be right.
pub fn load(sources: Sources) -> Result<Config, ConfigErrors> {
    let one = |error: String| ConfigErrors(vec![error]);
    let mut builder = config::Config::builder();
    if let Some(path) = file(sources.file.as_deref()) {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| one(format!("--config: cannot read {}: {error}", path.display())))?;
        builder = builder.add_source(File::from_str(&text, FileFormat::Toml));
    }
    let environment = Environment::with_prefix("ONESCRIBE")
        .prefix_separator("__")
        .separator("__")
        .source(sources.environment);
    let merged = builder
        .add_source(environment)
        .set_override_option("server.listen", sources.listen)
        .and_then(|builder| builder.set_override_option("database.url", sources.database_url))
        .and_then(|builder| builder.build())
        .map_err(|error| one(error.to_string()))?;
    let mut reader = Reader::new(merged.cache.into_table().unwrap_or_default());
    let config = check::read(&mut reader);
    let errors = reader.finish();
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(ConfigErrors(errors))
    }
}

impl Config {
    /// What only a server must have: a way to know its users, unless it talks to its own machine alone.
    ///
    /// # Errors
    /// The key that is missing, and what to do.
    pub fn check_doors(&self) -> Result<(), ConfigErrors> {
        check::doors(self).map_err(|error| ConfigErrors(vec![error]))
    }
}

fn file(named: Option<&Path>) -> Option<PathBuf> {
    named.map(Path::to_path_buf).or_else(|| {
        let default = PathBuf::from(DEFAULT_FILE);
        default.exists().then_some(default)
    })
}
