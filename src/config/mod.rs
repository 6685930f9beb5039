//! What an operator can set: plain data, one struct per section of `config.toml`. Each part of the server is handed
//! its own section and nothing else.
//!
//! Never here: a default that is not written in `config.toml` too (a test compares the two), a value that was not
//! checked, a secret that can be printed.

mod check;
mod load;
mod reader;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;

pub use load::{ConfigErrors, Sources, load};
pub use secrecy::{ExposeSecret, SecretString};

/// Everything. The defaults are those of the contract.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The doors of the process.
    pub server: Server,
    /// The store.
    pub database: Database,
    /// Who may come in.
    pub auth: Auth,
    /// The administrator's door.
    pub admin: Admin,
    /// What one client may ask for.
    pub limits: Limits,
    /// The writers of the conversations.
    pub conversation: Conversation,
    /// What is uploaded.
    pub files: Files,
    /// Events for other systems.
    pub events: Events,
    /// What users are told in their INBOX.
    pub notifications: Notifications,
    /// Mobile push.
    pub push: Push,
    /// Deliveries that fail.
    pub outbox: Outbox,
    /// Calls to other systems.
    pub webhooks: Webhooks,
    /// What is written to stderr.
    pub log: Log,
}

/// `[server]`
#[derive(Clone, Debug)]
pub struct Server {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads that serve connections; 0 = one per core.
    pub workers: usize,
    /// Connections that one worker holds at once.
    pub connections_per_worker: usize,
    /// Connections that the kernel keeps until they are accepted.
    pub backlog: u32,
    /// Proxies of one's own: what they say about a client's address is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a client may take to send the head of a request.
    pub request_timeout_secs: u64,
    /// How long an idle HTTP connection is kept.
    pub keep_alive_secs: u64,
    /// How long a WebSocket may take to say `hello`.
    pub hello_timeout_secs: u64,
    /// How often the server pings; silent for two of them is dead.
    pub heartbeat_secs: u64,
    /// How long a shutdown may take.
    pub shutdown_secs: u64,
}

/// `[database]`
#[derive(Clone, Debug)]
pub struct Database {
    /// Where the store is. May hold a password.
    pub url: SecretString,
    /// Bring the schema up to date at the start.
    pub auto_migrate: bool,
    /// Connections for reads.
    pub read_connections: u32,
    /// Commits that are under way at once, each on a connection of its own; 0 = as many as are useful.
    pub lanes: usize,
    /// How long the lease of a worker id lasts; a process that cannot renew it in time gives out no ids.
    pub lease_secs: u64,
}

impl Database {
    /// The store that every command finds without being told.
    #[must_use]
    pub fn is_at_home(&self) -> bool {
        self.url.expose_secret() == Config::default().database.url.expose_secret()
    }
}

/// `[auth]`
#[derive(Clone, Debug)]
pub struct Auth {
    /// The secret of HS256 tokens; none = one is made and kept in the store (on loopback addresses only).
    pub hs256_secret: Option<SecretString>,
    /// A PEM file with the public key of RS256, ES256 or EdDSA tokens.
    pub public_key_file: Option<PathBuf>,
    /// A JWKS file with public keys.
    pub jwks_file: Option<PathBuf>,
    /// What `iss` must be.
    pub issuer: Option<String>,
    /// What `aud` must contain.
    pub audience: Option<String>,
    /// Principals that are not known yet are made on first sight.
    pub auto_provision: bool,
}

/// `[admin]`
#[derive(Clone, Debug, Default)]
pub struct Admin {
    /// The bearer token of `/admin/v1`; none = there is no such door.
    pub api_key: Option<SecretString>,
}

/// `[limits]`
#[derive(Clone, Debug)]
pub struct Limits {
    /// Content of one message, in compact form.
    pub content_bytes: usize,
    /// A WebSocket frame from a client, and the body of a REST request.
    pub frame_bytes: usize,
    /// What may wait for one connection before it is closed with 4008.
    pub outbound_bytes: usize,
    /// What may wait for all connections together before the slowest are closed with 4008.
    pub outbound_total_bytes: usize,
    /// How old the oldest thing that waits for one connection may become before it is closed with 4008.
    pub outbound_secs: u64,
    /// Content of all messages that wait to be stored; more is `overloaded`.
    pub backlog_bytes: usize,
    /// Entries of one `message.ack`.
    pub acks_per_frame: usize,
    /// A file.
    pub upload_bytes: u64,
    /// How long a sender may recall, judged by the time of receipt.
    pub recall_window_secs: u64,
    /// How long a streamed reply may be silent. Not used yet.
    pub stream_timeout_secs: u64,
    /// Requests of one principal a second; 0 = no limit.
    pub requests_per_second: u32,
    /// How many of them may come at once.
    pub requests_burst: u32,
    /// Connections from one address a second; 0 = no limit.
    pub connects_per_second: u32,
    /// How many of them may come at once.
    pub connects_burst: u32,
}

/// `[conversation]`
#[derive(Clone, Debug)]
pub struct Conversation {
    /// A writer that nobody asked for so long leaves memory.
    pub idle_secs: u64,
}

/// `[files]`
#[derive(Clone, Debug)]
pub struct Files {
    /// Where the bytes are; none = a folder beside the database.
    pub store: Option<FilePlace>,
    /// The URL of an S3-compatible store; none = AWS.
    pub s3_endpoint: Option<String>,
    /// Its region.
    pub s3_region: String,
    /// The name of the key to it.
    pub s3_access_key_id: Option<SecretString>,
    /// The key to it.
    pub s3_secret_access_key: Option<SecretString>,
    /// Plain HTTP to it is allowed.
    pub s3_allow_http: bool,
    /// Downloads are sent to the bucket instead of through this server.
    pub redirect: bool,
    /// How long an address of the bucket can be used.
    pub presign_secs: u64,
    /// Uploads that this server takes at the same time.
    pub uploads_at_once: usize,
    /// The largest picture that a small one is made of, in pixels; 0 = none are made.
    pub picture_pixels: u64,
    /// How long a file stays that no message refers to.
    pub unreferenced_hours: u64,
}

/// A place for bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// A folder.
    Folder(PathBuf),
    /// A bucket, and what keys in it begin with.
    S3 {
        /// Its name.
        bucket: String,
        /// May be empty.
        prefix: String,
    },
}

impl FilePlace {
    /// Reads `s3://bucket/prefix`, `file:///folder` or the path of a folder.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
            let named = bucket.len() >= 3 && bucket.len() <= 63 && bucket.bytes().all(known);
            return named.then(|| Self::S3 {
                bucket: bucket.to_owned(),
                prefix: prefix.trim_matches('/').to_owned(),
            });
        }
        let path = text.strip_prefix("file://").unwrap_or(text);
        (!path.is_empty() && !path.contains("://")).then(|| Self::Folder(path.into()))
    }
}

impl Config {
    /// Where the bytes of files are: as configured, or beside the database. All that a store on SQLite consists of
    /// begins with the name of its file.
    #[must_use]
    pub fn file_place(&self) -> FilePlace {
        let beside = || {
            let url = self.database.url.expose_secret();
            let file = url.split('?').next().and_then(|plain| plain.strip_prefix("sqlite://"));
            FilePlace::Folder(file.map_or_else(|| "onescribe.files".into(), |file| format!("{file}.files").into()))
        };
        self.files.store.clone().unwrap_or_else(beside)
    }
}

/// `[events]`
#[derive(Clone, Debug)]
pub struct Events {
    /// How long events are kept.
    pub keep_secs: u64,
}

/// `[notifications]`
#[derive(Clone, Debug)]
pub struct Notifications {
    /// For how many days a friend request or an invitation can be answered.
    pub expire_days: u64,
    /// How many hours after a no the same person may ask the same again; 0 = at once.
    pub ask_again_hours: u64,
}

/// `[push]`
#[derive(Clone, Debug)]
pub struct Push {
    /// How long a device may take to acknowledge before its user counts as away.
    pub after_secs: u64,
}

/// `[outbox]`
#[derive(Clone, Debug)]
pub struct Outbox {
    /// A delivery that failed so often is given up.
    pub max_attempts: u32,
}

/// `[webhooks]`
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// How long a receiver may take to answer.
    pub timeout_secs: u64,
    /// How long an old secret signs beside a new one.
    pub secret_overlap_secs: u64,
    /// How long it can be seen what was delivered.
    pub delivered_keep_secs: u64,
    /// Call private and loopback addresses too.
    pub allow_private_addresses: bool,
}

/// `[log]`
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Lines for people or for machines.
    pub format: LogFormat,
    /// What is worth a line.
    pub level: LogLevel,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The words of the file.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word of the file.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The inverse of `as_str`.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// How a log line looks.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
);
words!(
    /// The least important line that is still written.
    LogLevel {
        /// Something is lost or broken.
        Error = "error",
        /// Somebody should look at it.
        Warn = "warn",
        /// Starts, stops and the like.
        Info = "info",
        /// Every request.
        Debug = "debug",
        /// Everything, also of the libraries.
        Trace = "trace",
    }
);

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            workers: 0,
            connections_per_worker: 25_000,
            backlog: 4_096,
            trusted_proxies: Vec::new(),
            request_timeout_secs: 10,
            keep_alive_secs: 75,
            hello_timeout_secs: 10,
            heartbeat_secs: 30,
            shutdown_secs: 20,
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: SecretString::from("sqlite://onescribe.db"),
            auto_migrate: true,
            read_connections: 8,
            lanes: 0,
            lease_secs: 60,
        }
    }
}

impl Auth {
    /// Without public keys there is a secret, configured or kept by the store: whoever has it makes tokens.
    #[must_use]
    pub const fn makes_tokens(&self) -> bool {
        self.hs256_secret.is_some() || (self.public_key_file.is_none() && self.jwks_file.is_none())
    }
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            hs256_secret: None,
            public_key_file: None,
            jwks_file: None,
            issuer: None,
            audience: None,
            auto_provision: true,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            content_bytes: 65_536,
            frame_bytes: 131_072,
            outbound_bytes: 2_097_152,
            outbound_total_bytes: 268_435_456,
            outbound_secs: 10,
            backlog_bytes: 134_217_728,
            acks_per_frame: 500,
            upload_bytes: 104_857_600,
            recall_window_secs: 120,
            stream_timeout_secs: 60,
            requests_per_second: 200,
            requests_burst: 1_000,
            connects_per_second: 50,
            connects_burst: 500,
        }
    }
}

impl Default for Conversation {
    fn default() -> Self {
        Self { idle_secs: 300 }
    }
}

impl Default for Files {
    fn default() -> Self {
        Self {
            store: None,
            s3_endpoint: None,
            s3_region: "us-east-1".to_owned(),
            s3_access_key_id: None,
            s3_secret_access_key: None,
            s3_allow_http: false,
            redirect: false,
            presign_secs: 300,
            uploads_at_once: 100,
            picture_pixels: 40_000_000,
            unreferenced_hours: 24,
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self { keep_secs: 604_800 }
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self { max_attempts: 16 }
    }
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            timeout_secs: 10,
            secret_overlap_secs: 86_400,
            delivered_keep_secs: 86_400,
            allow_private_addresses: false,
        }
    }
}

impl Default for Notifications {
    fn default() -> Self {
        Self {
            expire_days: 30,
            ask_again_hours: 24,
        }
    }
}

impl Default for Push {
    fn default() -> Self {
        Self { after_secs: 30 }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: LogLevel::Info,
        }
    }
}
