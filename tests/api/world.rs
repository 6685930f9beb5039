//! A server with a fresh store, and callers who talk to it over HTTP.

use std::sync::atomic::{AtomicU32, Ordering};

use onescribe::app::Server;
use onescribe::auth::mint;
use onescribe::clock::{Clock, SystemClock};
use onescribe::config::{Config, SecretString};
use onescribe::domain::{PrincipalType, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

const SECRET: &str = "a secret of the tests, long enough for HS256";
pub(crate) const ADMIN_KEY: &str = "the admin key of the tests";
const TOKEN_MS: i64 = 3_600_000;

/// The content limit of these servers.
pub(crate) const CONTENT_BYTES: usize = 65_536;

/// A running server. Stop it at the end of a test.
pub(crate) struct World {
    server: Server,
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    folder: TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts with other settings than the default ones.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = TempDir::new().unwrap();
        let mut config = Config::default();
        config.server.listen = "127.0.0.1:0".parse().unwrap();
        config.server.workers = 1;
        config.database.url = SecretString::from(format!("sqlite://{}", folder.path().join("store.db").display()));
        config.auth.hs256_secret = Some(SecretString::from(SECRET));
        // The tests send bursts.
        (config.limits.requests_per_second, config.limits.connects_per_second) = (0, 0);
        change(&mut config);
        let server = Server::start(config).await.unwrap();
        Self {
            url: format!("http://{}", server.address()),
            server,
            http: reqwest::Client::new(),
            folder,
        }
    }

    /// Where its store is, for whoever wants to look into it.
    pub(crate) fn database_url(&self) -> String {
        format!("sqlite://{}", self.folder.path().join("store.db").display())
    }

    /// Where everything of its store lies.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// The objects that lie beside its store, complete or not.
    pub(crate) fn objects(&self) -> Vec<std::path::PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder().join("store.db.files")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { &mut folders } else { &mut found }.push(path);
            }
        }
        found
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }

    pub(crate) fn user(&self, id: u64) -> Caller {
        self.caller(PrincipalType::User, &id.to_string())
    }

    pub(crate) fn agent(&self, id: u64) -> Caller {
        self.caller(PrincipalType::Agent, &id.to_string())
    }

    /// A server with an admin key.
    pub(crate) async fn with_admin() -> Self {
        Self::with_admin_and(|_| {}).await
    }

    /// A server with an admin key and other settings than the default ones.
    pub(crate) async fn with_admin_and(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_with(|config| {
            config.admin.api_key = Some(SecretString::from(ADMIN_KEY));
            change(config);
        })
        .await
    }

    /// The holder of the admin key.
    pub(crate) fn admin(&self) -> Caller {
        Caller {
            token: ADMIN_KEY.to_owned(),
            principal: json!({"type": "SYSTEM", "id": "0"}),
            ..self.user(1)
        }
    }

    /// Whoever the host's user system calls so.
    pub(crate) fn external(&self, name: &str) -> Caller {
        self.caller(PrincipalType::User, name)
    }

    fn caller(&self, kind: PrincipalType, sub: &str) -> Caller {
        Caller {
            url: self.url.clone(),
            http: self.http.clone(),
            token: token(kind, sub, TOKEN_MS),
            principal: json!({"type": kind.as_str(), "id": sub}),
        }
    }
}

/// A user's token that ends so much later.
pub(crate) fn user_token(sub: &str, millis: i64) -> String {
    token(PrincipalType::User, sub, millis)
}

fn token(kind: PrincipalType, sub: &str, millis: i64) -> String {
    let until = Timestamp::from_millis(SystemClock.now().millis() + millis);
    mint(SECRET, sub, kind, until, None, None).unwrap()
}

/// One principal.
#[derive(Clone)]
pub(crate) struct Caller {
    url: String,
    http: reqwest::Client,
    pub(crate) token: String,
    pub(crate) principal: Value,
}

impl Caller {
    /// Its connections.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The whole URL of a path.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The same with another token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Reply {
        let mut request = self
            .http
            .request(method.clone(), format!("{}{path}", self.url))
            .bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.body(body);
        }
        Reply::of(request, format!("{method} {path}")).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.call(Method::DELETE, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::POST, path, Some(body.to_string().into_bytes())).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::PUT, path, Some(body.to_string().into_bytes())).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::PATCH, path, Some(body.to_string().into_bytes()))
            .await
    }

    /// A POST by a device that has a name.
    pub(crate) async fn post_as(&self, device: &str, path: &str, body: &Value) -> Reply {
        self.call_as(device, Method::POST, path, body).await
    }

    /// Anything by a device that has a name.
    pub(crate) async fn call_as(&self, device: &str, method: Method, path: &str, body: &Value) -> Reply {
        let request = self.http.request(method.clone(), format!("{}{path}", self.url));
        let request = request.bearer_auth(&self.token);
        let request = request.header("x-device-id", device).body(body.to_string());
        Reply::of(request, format!("{method} {path}")).await
    }

    /// A PUT without a body, by a device that has a name.
    pub(crate) async fn put_as(&self, device: &str, path: &str) -> Reply {
        let request = self.http.put(format!("{}{path}", self.url)).bearer_auth(&self.token);
        Reply::of(request.header("x-device-id", device), format!("PUT {path}")).await
    }

    /// A PUT without a body.
    pub(crate) async fn set(&self, path: &str) -> Reply {
        self.call(Method::PUT, path, None).await
    }

    pub(crate) async fn post_raw(&self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.call(Method::POST, path, Some(body.as_ref().to_vec())).await
    }

    /// A group with these members; answers its id.
    pub(crate) async fn group(&self, members: &[&Caller]) -> String {
        let members: Vec<&Value> = members.iter().map(|member| &member.principal).collect();
        let body = json!({"kind": "GROUP", "title": "room", "members": members});
        id_of(&self.post("/v1/conversations", &body).await.ok(201), "conversation_id")
    }

    pub(crate) async fn send(&self, conversation: &str, key: &str, text: &str) -> Reply {
        let body = json!({"client_message_id": key, "message_type": "TEXT", "content": {"text": text}});
        self.post(&format!("/v1/conversations/{conversation}/messages"), &body)
            .await
    }

    /// Sends with a key of its own; answers the message.
    pub(crate) async fn say(&self, conversation: &str, text: &str) -> Value {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let key = format!("said-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.send(conversation, &key, text).await.ok(201)["message"].clone()
    }

    /// The seqs of a page, and whether there is more.
    pub(crate) async fn page(&self, conversation: &str, query: &str) -> (Vec<u64>, bool) {
        let page = self
            .get(&format!("/v1/conversations/{conversation}/messages?{query}"))
            .await
            .ok(200);
        let seqs = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["seq"].as_u64().unwrap());
        (seqs.collect(), page["has_more"].as_bool().unwrap())
    }
}

/// A decimal id in an answer.
pub(crate) fn id_of(body: &Value, field: &str) -> String {
    let id = body[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} is no string in {body}"));
    assert!(id.parse::<i64>().unwrap() > 0, "{id}");
    id.to_owned()
}

/// An answer, read to its end.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
    what: String,
}

impl Reply {
    pub(crate) async fn of(request: reqwest::RequestBuilder, what: String) -> Self {
        let response = request.send().await.unwrap();
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
            what,
        }
    }

    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}: no JSON: {}", self.what, self.text))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.what, self.text);
        self.body()
    }

    /// The problem document of a refusal that must have this code, and the status and flags that belong to it.
    #[track_caller]
    pub(crate) fn refused(&self, code: &str) -> Value {
        let body = self.body();
        assert_eq!(body["code"], code, "{}: {} {}", self.what, self.status, self.text);
        let known = onescribe::protocol::error::Code::ALL
            .iter()
            .find(|known| known.as_str() == code)
            .unwrap();
        assert_eq!(self.status, known.status(), "{}: {}", self.what, self.text);
        assert_eq!(body["status"], self.status, "{}", self.text);
        assert_eq!(body["retryable"], known.retryable(), "{}", self.text);
        assert_eq!(
            self.headers["content-type"], "application/problem+json",
            "{}",
            self.what
        );
        assert!(
            body["type"].is_string() && body["title"].is_string() && body["detail"].is_string(),
            "{}",
            self.text
        );
        body
    }
}
