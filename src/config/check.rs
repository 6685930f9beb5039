//! Every rule: the range of each leaf, and what leaves owe to one another.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use secrecy::ExposeSecret as _;

use super::reader::Reader;
use super::{
    Admin, Auth, Config, Conversation, Database, Events, FilePlace, Files, Limits, Log, LogFormat, LogLevel,
    Notifications, Outbox, Push, Server, Webhooks,
};

/// The shortest secret: 256 bits, what HS256 asks for (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;
/// The shortest admin key.
const API_KEY_BYTES_MIN: usize = 16;
/// A day: longer waits are mistakes.
const SECS_MAX: u64 = 86_400;
/// Ten years: what waits for longer waits for ever.
const DAYS_MAX: u64 = 3_660;
/// The longest that S3 lets a signed address live.
const PRESIGN_SECS_MAX: u64 = 7 * SECS_MAX;
/// What one batch of full-size messages may come to stays under the packet limit of the databases.
const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Above this, one frame costs more memory than a small server has for it.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// Takes every leaf, then checks what they owe to one another.
pub(super) fn read(reader: &mut Reader) -> Config {
    let config = Config {
        server: server(reader),
        database: database(reader),
        auth: auth(reader),
        admin: admin(reader),
        limits: limits(reader),
        conversation: conversation(reader),
        files: files(reader),
        events: Events {
            keep_secs: reader.number("events.keep_secs", Events::default().keep_secs, 60..=SECS_MAX * 366),
        },
        notifications: Notifications {
            expire_days: reader.number(
                "notifications.expire_days",
                Notifications::default().expire_days,
                1..=DAYS_MAX,
            ),
            ask_again_hours: reader.number(
                "notifications.ask_again_hours",
                Notifications::default().ask_again_hours,
                0..=DAYS_MAX * 24,
            ),
        },
        push: Push {
            after_secs: reader.number("push.after_secs", Push::default().after_secs, 1..=SECS_MAX),
        },
        outbox: Outbox {
            max_attempts: reader.number("outbox.max_attempts", Outbox::default().max_attempts, 1..=1_000),
        },
        webhooks: webhooks(reader),
        log: log(reader),
    };
    together(&config, reader);
    config
}

fn server(reader: &mut Reader) -> Server {
    let default = Server::default();
    Server {
        listen: reader.parsed(
            "server.listen",
            default.listen,
            "must be ADDRESS:PORT, like 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080",
            |text| text.parse::<SocketAddr>().ok(),
        ),
        workers: reader.number("server.workers", default.workers, 0..=1_024),
        connections_per_worker: reader.number(
            "server.connections_per_worker",
            default.connections_per_worker,
            1..=1_000_000,
        ),
        backlog: reader.number("server.backlog", default.backlog, 1..=65_535),
        trusted_proxies: reader.list(
            "server.trusted_proxies",
            "must be addresses or networks with commas between them, like 10.0.0.5, 10.1.0.0/16, fd00::/8",
            network,
        ),
        request_timeout_secs: reader.number(
            "server.request_timeout_secs",
            default.request_timeout_secs,
            1..=SECS_MAX,
        ),
        keep_alive_secs: reader.number("server.keep_alive_secs", default.keep_alive_secs, 1..=SECS_MAX),
        hello_timeout_secs: reader.number("server.hello_timeout_secs", default.hello_timeout_secs, 1..=SECS_MAX),
        heartbeat_secs: reader.number("server.heartbeat_secs", default.heartbeat_secs, 1..=SECS_MAX),
        shutdown_secs: reader.number("server.shutdown_secs", default.shutdown_secs, 1..=SECS_MAX),
    }
}

fn network(text: &str) -> Option<IpNet> {
    let one = || Some(IpNet::from(text.parse::<IpAddr>().ok()?));
    text.parse().ok().or_else(one)
}

fn database(reader: &mut Reader) -> Database {
    let default = Database::default();
    let url = reader.secret("database.url").unwrap_or(default.url);
    let known = ["sqlite://", "postgres://", "postgresql://", "mysql://", "mariadb://"];
    if !known.iter().any(|scheme| url.expose_secret().starts_with(scheme)) {
        // The value may hold a password, so it is not repeated.
        reader.complain(
            "database.url",
            "must be sqlite://FILE, postgres://USER:PASSWORD@HOST/NAME or mysql://USER:PASSWORD@HOST/NAME",
        );
    }
    Database {
        url,
        auto_migrate: reader.switch("database.auto_migrate", default.auto_migrate),
        read_connections: reader.number("database.read_connections", default.read_connections, 1..=1_000),
        lanes: reader.number("database.lanes", default.lanes, 0..=64),
        lease_secs: reader.number("database.lease_secs", default.lease_secs, 5..=3_600),
    }
}

fn auth(reader: &mut Reader) -> Auth {
    let hs256_secret = reader.secret("auth.hs256_secret");
    if hs256_secret
        .as_ref()
        .is_some_and(|secret| secret.expose_secret().len() < SECRET_BYTES_MIN)
    {
        reader.complain(
            "auth.hs256_secret",
            "must have at least 32 bytes; `openssl rand -hex 32` makes a good one",
        );
    }
    Auth {
        hs256_secret,
        public_key_file: reader.file("auth.public_key_file"),
        jwks_file: reader.file("auth.jwks_file"),
        issuer: reader.text("auth.issuer"),
        audience: reader.text("auth.audience"),
        auto_provision: reader.switch("auth.auto_provision", Auth::default().auto_provision),
    }
}

fn admin(reader: &mut Reader) -> Admin {
    let api_key = reader.secret("admin.api_key");
    if api_key
        .as_ref()
        .is_some_and(|key| key.expose_secret().len() < API_KEY_BYTES_MIN)
    {
        reader.complain(
            "admin.api_key",
            "must have at least 16 bytes; `openssl rand -hex 32` makes a good one",
        );
    }
    Admin { api_key }
}

fn limits(reader: &mut Reader) -> Limits {
    let default = Limits::default();
    Limits {
        content_bytes: reader.number("limits.content_bytes", default.content_bytes, 256..=CONTENT_BYTES_MAX),
        frame_bytes: reader.number("limits.frame_bytes", default.frame_bytes, 512..=FRAME_BYTES_MAX),
        outbound_bytes: reader.number("limits.outbound_bytes", default.outbound_bytes, 1_024..=1 << 30),
        outbound_total_bytes: reader.number(
            "limits.outbound_total_bytes",
            default.outbound_total_bytes,
            1_024..=1 << 40,
        ),
        outbound_secs: reader.number("limits.outbound_secs", default.outbound_secs, 1..=SECS_MAX),
        backlog_bytes: reader.number("limits.backlog_bytes", default.backlog_bytes, 1 << 20..=1 << 40),
        acks_per_frame: reader.number("limits.acks_per_frame", default.acks_per_frame, 1..=10_000),
        upload_bytes: reader.number("limits.upload_bytes", default.upload_bytes, 1..=1 << 40),
        recall_window_secs: reader.number(
            "limits.recall_window_secs",
            default.recall_window_secs,
            0..=SECS_MAX * 366,
        ),
        stream_timeout_secs: reader.number("limits.stream_timeout_secs", default.stream_timeout_secs, 1..=SECS_MAX),
        requests_per_second: reader.number("limits.requests_per_second", default.requests_per_second, 0..=1_000_000),
        requests_burst: reader.number("limits.requests_burst", default.requests_burst, 1..=1_000_000),
        connects_per_second: reader.number("limits.connects_per_second", default.connects_per_second, 0..=1_000_000),
        connects_burst: reader.number("limits.connects_burst", default.connects_burst, 1..=1_000_000),
    }
}

fn conversation(reader: &mut Reader) -> Conversation {
    let default = Conversation::default();
    Conversation {
        idle_secs: reader.number("conversation.idle_secs", default.idle_secs, 1..=SECS_MAX),
    }
}

fn files(reader: &mut Reader) -> Files {
    let default = Files::default();
    Files {
        store: reader.parsed(
            "files.store",
            default.store,
            "must be a folder, like /var/lib/onescribe/files, or s3://BUCKET/PREFIX",
            |text| FilePlace::parse(text).map(Some),
        ),
        s3_endpoint: reader.parsed(
            "files.s3_endpoint",
            default.s3_endpoint,
            "must be the URL of an S3-compatible store, like https://minio.example:9000",
            |text| endpoint(text).then(|| Some(text.to_owned())),
        ),
        s3_region: reader.text("files.s3_region").unwrap_or(default.s3_region),
        s3_access_key_id: reader.secret("files.s3_access_key_id"),
        s3_secret_access_key: reader.secret("files.s3_secret_access_key"),
        s3_allow_http: reader.switch("files.s3_allow_http", default.s3_allow_http),
        redirect: reader.switch("files.redirect", default.redirect),
        presign_secs: reader.number("files.presign_secs", default.presign_secs, 10..=PRESIGN_SECS_MAX),
        uploads_at_once: reader.number("files.uploads_at_once", default.uploads_at_once, 1..=10_000),
        picture_pixels: reader.number("files.picture_pixels", default.picture_pixels, 0..=1_000_000_000),
        unreferenced_hours: reader.number("files.unreferenced_hours", default.unreferenced_hours, 1..=24 * 366),
    }
}

fn endpoint(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['@', '?', '#', ' ']))
}

fn webhooks(reader: &mut Reader) -> Webhooks {
    let default = Webhooks::default();
    let week = 7 * SECS_MAX;
    Webhooks {
        timeout_secs: reader.number("webhooks.timeout_secs", default.timeout_secs, 1..=300),
        secret_overlap_secs: reader.number(
            "webhooks.secret_overlap_secs",
            default.secret_overlap_secs,
            0..=week * 5,
        ),
        delivered_keep_secs: reader.number(
            "webhooks.delivered_keep_secs",
            default.delivered_keep_secs,
            0..=week * 5,
        ),
        allow_private_addresses: reader.switch("webhooks.allow_private_addresses", default.allow_private_addresses),
    }
}

fn log(reader: &mut Reader) -> Log {
    let default = Log::default();
    Log {
        format: reader.parsed(
            "log.format",
            default.format,
            &format!("must be one of {}", LogFormat::WORDS.join(", ")),
            LogFormat::parse,
        ),
        level: reader.parsed(
            "log.level",
            default.level,
            &format!("must be one of {}", LogLevel::WORDS.join(", ")),
            LogLevel::parse,
        ),
    }
}

fn together(config: &Config, reader: &mut Reader) {
    let limits = &config.limits;
    if limits.frame_bytes <= limits.content_bytes {
        reader.complain(
            "limits.frame_bytes",
            format_args!(
                "must be greater than limits.content_bytes ({}), or no message of full size fits into a frame",
                limits.content_bytes
            ),
        );
    }
    if limits.outbound_total_bytes < limits.outbound_bytes {
        reader.complain(
            "limits.outbound_total_bytes",
            format_args!(
                "must not be less than limits.outbound_bytes ({})",
                limits.outbound_bytes
            ),
        );
    }
    if limits.outbound_bytes <= limits.content_bytes {
        reader.complain(
            "limits.outbound_bytes",
            format_args!(
                "must be greater than limits.content_bytes ({}), or a message of full size closes every connection",
                limits.content_bytes
            ),
        );
    }
    files_together(&config.files, reader);
}

fn files_together(files: &Files, reader: &mut Reader) {
    let bucket = matches!(files.store, Some(FilePlace::S3 { .. }));
    if files.s3_access_key_id.is_some() != files.s3_secret_access_key.is_some() {
        let right = "files.s3_access_key_id and files.s3_secret_access_key belong together: set both or neither";
        reader.complain("files.s3_secret_access_key", right);
    }
    if files.redirect && !bucket {
        let right = "needs a store that can sign addresses: set files.store to s3://BUCKET/PREFIX";
        reader.complain("files.redirect", right);
    }
    let plain = files.s3_endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
    if plain && !files.s3_allow_http {
        let right =
            "is plain HTTP, over which files can be read on the way: use https://, or set files.s3_allow_http = true";
        reader.complain("files.s3_endpoint", right);
    }
}

/// A server that others can reach needs to know who its users are.
///
/// # Errors
/// The key, and what to do.
pub(super) fn doors(config: &Config) -> Result<(), String> {
    let auth = &config.auth;
    let has_keys = auth.hs256_secret.is_some() || auth.public_key_file.is_some() || auth.jwks_file.is_some();
    if has_keys || config.server.listen.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "auth.hs256_secret: is needed, since server.listen ({}) can be reached by others. Set it to a secret that you share \
         with whoever makes the tokens (`openssl rand -hex 32` makes one), or set auth.public_key_file or \
         auth.jwks_file, or listen on 127.0.0.1",
        config.server.listen
    ))
}
