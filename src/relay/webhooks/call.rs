//! The call itself: one signed POST, to an address that may be called, in bounded time, without following anybody elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};

use super::address::is_public;
use crate::domain::InvalidField;

/// The longest address of a receiver, in characters.
const URL_CHARS_MAX: usize = 2_048;
/// Of an answer so much is read, so that its connection can be used again; a longer one is cut off with it.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long the name of a receiver may take to be found.
const LOOKUP_WAIT_MAX: Duration = Duration::from_secs(5);
/// Idle connections that are kept for one receiver.
const IDLE_CONNECTIONS: usize = 16;

/// One delivery on its way.
#[derive(Clone, Debug)]
pub struct Call {
    /// Where.
    pub url: String,
    /// The same for every try.
    pub webhook_id: String,
    /// Seconds since 1970, of this try.
    pub timestamp: i64,
    /// Of each secret one.
    pub signatures: String,
    /// JSON.
    pub body: String,
}

/// How a receiver answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 2xx.
    Taken,
    /// Anything else, or nothing: for the operator. Never a word of the receiver's own.
    Failed {
        /// Why.
        why: String,
        /// The receiver wants to be left alone for so long.
        retry_after: Option<Duration>,
    },
}

/// Whoever makes calls.
#[async_trait]
pub trait Post: Send + Sync {
    /// Makes one. Answers in bounded time.
    async fn post(&self, call: &Call) -> Answer;
    /// May this address be called?
    ///
    /// # Errors
    /// `invalid_request`: what is wrong with it.
    async fn check(&self, url: &str) -> Result<(), InvalidField>;
}

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All of them.
    async fn lookup(&self, name: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// As the system does.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Which addresses may be called.
#[derive(Clone)]
struct Guard {
    lookup: Arc<dyn Lookup>,
    allow_private: bool,
}

impl Guard {
    fn allows(&self, address: IpAddr) -> bool {
        self.allow_private || is_public(address)
    }

    /// Those of a name that may be called.
    async fn addresses(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let looked = tokio::time::timeout(LOOKUP_WAIT_MAX, self.lookup.lookup(name)).await;
        let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "its name was not found in time");
        let found = looked.map_err(|_| late())??;
        let allowed: Vec<IpAddr> = found.into_iter().filter(|address| self.allows(*address)).collect();
        if allowed.is_empty() {
            let kind = std::io::ErrorKind::PermissionDenied;
            return Err(std::io::Error::new(kind, NotAllowed));
        }
        Ok(allowed)
    }
}

/// The name leads to none but private addresses.
#[derive(Debug, thiserror::Error)]
#[error("its address is private or loopback, and webhooks.allow_private_addresses is off")]
struct NotAllowed;

fn is_not_allowed(error: &std::io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<NotAllowed>)
}

/// What is asked when a connection is made: the address that was looked at is the one that is connected to, whatever the
/// name says a moment later.
impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let found = guard.addresses(name.as_str()).await?;
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// Calls over HTTP.
pub struct Http {
    client: Client,
    guard: Guard,
    /// Certificates of this machine are missing: no receiver can prove over https who it is.
    no_certificates: bool,
}

impl Http {
    /// No call takes longer than `timeout`. A machine without certificates of its own can make calls, but none over https.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(timeout: Duration, allow_private: bool, lookup: Arc<dyn Lookup>) -> Result<Self, reqwest::Error> {
        let guard = Guard { lookup, allow_private };
        let built = Self::client(timeout, &guard).build();
        let no_certificates = built.is_err();
        let client = match built {
            Ok(client) => client,
            Err(error) => {
                let why = reason(&error);
                tracing::warn!(why, "no webhook can be called over https: {NO_CERTIFICATES}");
                Self::client(timeout, &guard).tls_certs_only([]).build()?
            }
        };
        Ok(Self {
            client,
            guard,
            no_certificates,
        })
    }

    fn client(timeout: Duration, guard: &Guard) -> ClientBuilder {
        Client::builder()
            .user_agent(concat!("onescribe/", env!("CARGO_PKG_VERSION")))
            .timeout(timeout)
            // Whoever may be called was asked for; nobody else is, whatever an answer says.
            .redirect(Policy::none())
            // What a proxy connects to is not ours to see.
            .no_proxy()
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .dns_resolver(Arc::new(guard.clone()))
    }

    /// An address in numbers is asked of nobody, so it is looked at here.
    fn admit(&self, url: &str) -> Result<Url, InvalidField> {
        let invalid = |hint| InvalidField::new("url", hint);
        if url.len() > URL_CHARS_MAX {
            return Err(invalid("must have at most 2,048 characters"));
        }
        let url = Url::parse(url).map_err(|_| invalid("must be an address like https://host/path"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("must begin with https:// or http://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid(
                "must not hold a user or a password: a receiver knows our calls by their signature",
            ));
        }
        match literal(&url) {
            Some(address) if !self.guard.allows(address) => Err(invalid(PRIVATE)),
            _ => Ok(url),
        }
    }
}

const NO_CERTIFICATES: &str = "this machine has no certificates of authorities (on Debian: install ca-certificates)";
const PRIVATE: &str = "must not lead to a private or loopback address (webhooks.allow_private_addresses is off)";

/// The address of a URL that names none.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[async_trait]
impl Post for Http {
    async fn post(&self, call: &Call) -> Answer {
        let url = match self.admit(&call.url) {
            Ok(url) => url,
            Err(error) => return failed(format!("the address {}", error.hint), None),
        };
        if self.no_certificates && url.scheme() == "https" {
            return failed(NO_CERTIFICATES.to_owned(), None);
        }
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(HEADER_WEBHOOK_ID, &call.webhook_id)
            .header(HEADER_WEBHOOK_TIMESTAMP, call.timestamp)
            .header(HEADER_WEBHOOK_SIGNATURE, &call.signatures)
            .body(call.body.clone());
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return failed(reason(&error), None),
        };
        let status = response.status();
        let after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|after| after.to_str().ok()?.parse().ok());
        let mut read = 0;
        // The status counts once all has come, or enough: who answers it and then hangs is too late.
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if read + chunk.len() <= ANSWER_BYTES_MAX => read += chunk.len(),
                Ok(_) => break,
                Err(error) => return failed(reason(&error), None),
            }
        }
        if status.is_success() {
            return Answer::Taken;
        }
        let why = if status.is_redirection() {
            format!("HTTP {}: redirects are not followed", status.as_u16())
        } else {
            format!("HTTP {}", status.as_u16())
        };
        failed(why, after.map(Duration::from_secs))
    }

    async fn check(&self, url: &str) -> Result<(), InvalidField> {
        let url = self.admit(url)?;
        let Some(name) = url.host_str().filter(|_| literal(&url).is_none()) else {
            return Ok(());
        };
        match self.guard.addresses(name).await {
            Err(error) if is_not_allowed(&error) => Err(InvalidField::new("url", PRIVATE)),
            // A name that cannot be found now may be found later; until then its deliveries fail and say so.
            _ => Ok(()),
        }
    }
}

const fn failed(why: String, retry_after: Option<Duration>) -> Answer {
    Answer::Failed { why, retry_after }
}

/// Why a call failed, in our words, without the address: that is known, and may hold a key.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time (webhooks.timeout_secs)".to_owned();
    }
    let mut source = std::error::Error::source(error);
    let mut last = "the call broke off".to_owned();
    while let Some(error) = source {
        last = error.to_string();
        source = error.source();
    }
    last.truncate(
        last.char_indices()
            .nth(REASON_CHARS_MAX)
            .map_or(last.len(), |(at, _)| at),
    );
    last
}

/// The longest reason that is kept.
const REASON_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests;
