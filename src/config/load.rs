//! Brings file, environment and flags together.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use config::{ConfigBuilder, Environment, File, FileFormat, Value};
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
    let mut errors = Vec::new();
    let merged = merge(sources, &mut errors);
    let mut reader = Reader::new(merged);
    let config = check::read(&mut reader);
    errors.extend(reader.finish());
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(ConfigErrors(errors))
    }
}

/// A source that cannot be read is an error like any other: the rest is still looked at.
fn merge(sources: Sources, errors: &mut Vec<String>) -> HashMap<String, Value> {
    let mut builder = config::Config::builder();
    if let Some(path) = file(sources.file) {
        match read(&path) {
            Ok(table) => builder = builder.add_source(table),
            Err(error) => errors.push(error),
        }
    }
    let environment = Environment::with_prefix("ONESCRIBE")
        .prefix_separator("__")
        .separator("__")
        .source(sources.environment);
    builder
        .add_source(environment)
        .set_override_option("server.listen", sources.listen)
        .and_then(|builder| builder.set_override_option("database.url", sources.database_url))
        .and_then(ConfigBuilder::<config::builder::DefaultState>::build)
        .and_then(|merged| merged.cache.into_table())
        .unwrap_or_else(|error| {
            errors.push(error.to_string());
            HashMap::new()
        })
}

fn read(path: &Path) -> Result<config::Config, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    config::Config::builder()
        .add_source(File::from_str(&text, FileFormat::Toml))
        .build()
        .map_err(|error| format!("{} is not valid TOML: {error}", path.display()))
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

fn file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        let default = PathBuf::from(DEFAULT_FILE);
        default.exists().then_some(default)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::{ExposeSecret, FilePlace, LogFormat};

    const OPERATORS_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config.toml");

    fn sources(environment: &[(&str, &str)]) -> Sources {
        let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        Sources {
            file: Some("/dev/null".into()),
            environment: Some(environment.iter().map(own).collect()),
            ..Sources::default()
        }
    }

    fn errors(environment: &[(&str, &str)]) -> Vec<String> {
        load(sources(environment)).expect_err("must be refused").0
    }

    #[test]
    fn config_toml_and_the_types_name_the_same_keys_and_the_same_defaults() {
        let file = read(Path::new(OPERATORS_FILE)).unwrap();
        let mut reader = Reader::new(file.cache.into_table().unwrap());
        let config = check::read(&mut reader);
        let mut written = BTreeSet::new();
        let mut section = "";
        for line in std::fs::read_to_string(OPERATORS_FILE).unwrap().leak().lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
            } else if let Some((key, _)) = line.trim_start_matches("# ").split_once(" = ")
                && key
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            {
                written.insert(format!("{section}.{key}"));
            }
        }
        assert_eq!(&written, reader.known());
        assert_eq!(reader.finish(), Vec::<String>::new());
        assert_eq!(format!("{config:#?}"), format!("{:#?}", Config::default()));
        assert_eq!(
            config.database.url.expose_secret(),
            Config::default().database.url.expose_secret()
        );
    }

    #[test]
    fn all_errors_are_named_at_once_with_what_would_be_right() {
        let errors = errors(&[
            ("ONESCRIBE__SERVER__LISTENN", "127.0.0.1:0"),
            ("ONESCRIBE__SERVER__LISTEN", "somewhere"),
            ("ONESCRIBE__SERVER__TRUSTED_PROXIES", "10.0.0.1, proxy.example"),
            ("ONESCRIBE__NONSENSE__KEY", "1"),
            ("ONESCRIBE__NONSENSE2", "1"),
            ("ONESCRIBE__LIMITS__CONTENT_BYTES", "many"),
            ("ONESCRIBE__LIMITS__FRAME_BYTES", "60000"),
            ("ONESCRIBE__AUTH__AUTO_PROVISION", "yes"),
            ("ONESCRIBE__AUTH__PUBLIC_KEY_FILE", "/no/such/file.pem"),
            ("ONESCRIBE__LOG__FORMAT", "xml"),
            ("ONESCRIBE__DATABASE__URL", "oracle://root:tiger@host"),
            ("ONESCRIBE__FILES__STORE", "gs://bucket"),
            ("ONESCRIBE__FILES__S3_ENDPOINT", "http://minio:9000"),
            ("ONESCRIBE__FILES__S3_ACCESS_KEY_ID", "half of a key"),
            ("ONESCRIBE__FILES__REDIRECT", "true"),
        ]);
        let starts = [
            "server.listen: must be ADDRESS:PORT",
            "server.trusted_proxies: must be addresses or networks",
            "database.url: must be sqlite://FILE",
            "files.store: must be a folder",
            "files.s3_endpoint: is plain HTTP",
            "files.s3_secret_access_key: files.s3_access_key_id and",
            "files.redirect: needs a store that can sign",
            "auth.public_key_file: cannot read /no/such/file.pem",
            "auth.auto_provision: must be true or false",
            "limits.content_bytes: must be a whole number from 256 to 1048576",
            "log.format: must be one of text, json",
            "limits.frame_bytes: must be greater than limits.content_bytes",
            "nonsense.key: there is no such section",
            "nonsense2: there is no such section",
            "server.listenn: there is no such key; the keys of [server] are backlog, connections_per_worker",
        ];
        assert_eq!(errors.len(), starts.len(), "{errors:#?}");
        for start in starts {
            assert!(
                errors.iter().any(|error| error.starts_with(start)),
                "{start} is missing in {errors:#?}"
            );
        }
        assert!(
            errors.iter().all(|error| !error.contains("tiger")),
            "passwords are not repeated"
        );
    }

    #[test]
    fn flags_win_over_the_environment_and_the_environment_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        let text = "[server]\nlisten = \"127.0.0.1:1\"\n[limits]\ncontent_bytes = 1000\nframe_bytes = 90000\n";
        std::fs::write(&file, text).unwrap();
        let sources = Sources {
            file: Some(file),
            listen: Some("127.0.0.1:3".to_owned()),
            ..sources(&[
                ("ONESCRIBE__SERVER__LISTEN", "127.0.0.1:2"),
                ("ONESCRIBE__LIMITS__FRAME_BYTES", "70000"),
                ("ONESCRIBE__SERVER__TRUSTED_PROXIES", "10.0.0.1, fd00::/8"),
                ("ONESCRIBE__LOG__FORMAT", "json"),
                ("ONESCRIBE__AUTH__HS256_SECRET", ""),
                ("OTHER__KEY", "1"),
            ])
        };
        let config = load(sources).unwrap();
        assert_eq!(config.server.listen.port(), 3);
        assert_eq!(
            (config.limits.content_bytes, config.limits.frame_bytes),
            (1_000, 70_000)
        );
        assert_eq!(
            format!("{:?}", config.server.trusted_proxies),
            "[10.0.0.1/32, fd00::/8]"
        );
        assert_eq!(config.log.format, LogFormat::Json);
        assert!(config.auth.hs256_secret.is_none(), "empty counts as not set");
    }

    #[test]
    fn files_lie_beside_the_database_unless_told_otherwise() {
        let place = |environment: &[(&str, &str)]| load(sources(environment)).unwrap().file_place();
        let folder = |path: &str| FilePlace::Folder(path.into());
        let url = |url| ("ONESCRIBE__DATABASE__URL", url);
        let store = |store| ("ONESCRIBE__FILES__STORE", store);
        assert_eq!(place(&[]), folder("onescribe.db.files"));
        assert_eq!(place(&[url("sqlite:///var/x.db?mode=rwc")]), folder("/var/x.db.files"));
        assert_eq!(place(&[url("postgres://me@host/name")]), folder("onescribe.files"));
        assert_eq!(place(&[store("file:///srv/files")]), folder("/srv/files"));
        assert_eq!(place(&[store("./files")]), folder("./files"));
        let bucket = |prefix: &str| FilePlace::S3 {
            bucket: "my.bucket-1".to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!(place(&[store("s3://my.bucket-1")]), bucket(""));
        assert_eq!(place(&[store("s3://my.bucket-1/a/b/")]), bucket("a/b"));
        for bad in ["s3://", "s3://x", "s3://My_Bucket/x", "https://host/x"] {
            assert!(errors(&[store(bad)])[0].starts_with("files.store: "), "{bad}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_beside_everything_else() {
        let folder = tempfile::tempdir().unwrap();
        let broken = folder.path().join("broken.toml");
        std::fs::write(&broken, "[server\n").unwrap();
        for file in [folder.path().join("missing.toml"), broken] {
            let environment = sources(&[("ONESCRIBE__SERVER__WORKERS", "-1")]);
            let errors = load(Sources {
                file: Some(file.clone()),
                ..environment
            })
            .unwrap_err()
            .0;
            assert_eq!(errors.len(), 2, "{errors:?}");
            assert!(errors[0].contains(file.to_str().unwrap()), "{errors:?}");
            assert!(
                errors[1].starts_with("server.workers: must be a whole number from 0 to 1024"),
                "{errors:?}"
            );
        }
    }

    #[test]
    fn a_server_that_others_can_reach_needs_a_key_for_tokens() {
        let public = ("ONESCRIBE__SERVER__LISTEN", "0.0.0.0:0");
        let secret = ("ONESCRIBE__AUTH__HS256_SECRET", "0123456789abcdef0123456789abcdef");
        let error = load(sources(&[public])).unwrap().check_doors().unwrap_err();
        assert!(error.0[0].starts_with("auth.hs256_secret: "), "{error}");
        assert!(load(sources(&[public, secret])).unwrap().check_doors().is_ok());
        assert!(load(sources(&[])).unwrap().check_doors().is_ok());
        let short = errors(&[("ONESCRIBE__AUTH__HS256_SECRET", "hunter2")]);
        assert!(
            short[0].contains("at least 32 bytes") && !short[0].contains("hunter2"),
            "{short:?}"
        );
    }

    #[test]
    fn secrets_do_not_appear_when_the_configuration_is_printed() {
        let secret = "0123456789abcdef0123456789abcdef";
        let config = load(sources(&[
            ("ONESCRIBE__AUTH__HS256_SECRET", secret),
            ("ONESCRIBE__ADMIN__API_KEY", secret),
            ("ONESCRIBE__FILES__S3_ACCESS_KEY_ID", secret),
            ("ONESCRIBE__FILES__S3_SECRET_ACCESS_KEY", secret),
            (
                "ONESCRIBE__DATABASE__URL",
                "postgres://user:0123456789abcdef0123456789abcdef@host/db",
            ),
        ]));
        assert!(!format!("{:?}", config.unwrap()).contains(secret));
    }
}
